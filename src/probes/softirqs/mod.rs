//! Deferred interrupt work: how much CPU time each kind takes.

use crate::def::{Context, GivesStacks, ParamDef, ParamKind, Probe, ProbeDef, Taken};
use crate::table::TableSpec;
use rdiag_kernel::host::Host;
use rdiag_kernel::mechanism::ebpf::hist::{self, Hist};
use rdiag_kernel::mechanism::ebpf::{Hook, Object, include_bytes_aligned};
use rdiag_model::metric::Pick;
use rdiag_model::probe::{Histogram, Output};
use rdiag_model::{Formula, MetricDef, Unavailable, Unit};

pub(super) static PROBE: ProbeDef = ProbeDef {
    id: "softirqs",
    question: "How much CPU time does the kernel's deferred interrupt work take, and of which kind is it?",
    attach: "softirq_entry, softirq_exit.",
    output: "For each vector its CPU time, how often it ran and the longest run; with hist the distribution of the runs.",
    caveats: "Hardware interrupts that come in between count too. One run of NET_RX serves up to a budget of packets, so the \
              count is not one of packets. The time is not that of the task that it is charged to.",
    overhead: "About 0.5 µs per run of a vector, in two program runs.",
    params: &[HIST],
    filters: &[],
    streams: false,
    stacks: GivesStacks::Never,
    metrics: &[
        MetricDef {
            id: "softirqs.vector_time.seconds",
            unit: Unit::Seconds,
            dimension: Some("softirq"),
            help: "CPU time of a vector of deferred interrupt work, summed over all CPUs.",
            sources: &[Formula::probe(Pick::Column("vectors", "time"))],
            caveat: "Interrupts that come in between count too.",
            manual: "softirqs-bpfcc 10 1",
            ..MetricDef::EMPTY
        },
        MetricDef {
            id: "softirqs.vector_share.ratio",
            unit: Unit::Ratio,
            dimension: Some("softirq"),
            help: "CPU time of a vector over the window's length: 1 is one CPU that does nothing else.",
            sources: &[Formula::probe(Pick::Column("vectors", "share"))],
            caveat: "Above 1 where several CPUs are at it.",
            manual: "softirqs-bpfcc 10 1",
            ..MetricDef::EMPTY
        },
        MetricDef {
            id: "softirqs.runs.per_second",
            unit: Unit::PerSecond,
            dimension: Some("softirq"),
            help: "Runs of a vector per second.",
            sources: &[Formula::probe(Pick::Column("vectors", "rate"))],
            caveat: "A run may serve many packets, timers or requests.",
            manual: "watch -d cat /proc/softirqs",
            ..MetricDef::EMPTY
        },
    ],
    start,
};

/// Shared with `hardirqs`.
pub(super) const HIST: ParamDef = ParamDef {
    name: "hist",
    kind: ParamKind::Flag,
    default: "false",
    help: "show the distribution of the durations too",
};

/// As in the program.
const VECTORS: u32 = 16;

struct SoftIrqs {
    object: Object,
    names: Vec<String>,
    hist: bool,
    since: f64,
}

fn start(context: &Context<'_>) -> Result<Box<dyn Probe>, Unavailable> {
    let bytes = include_bytes_aligned!(concat!(env!("CARGO_MANIFEST_DIR"), "/softirqs/softirqs.bpf.o"));
    let mut object = context.kernel()?.load(bytes, context.filter.globals(context.host)?, &[])?;
    for event in ["softirq_entry", "softirq_exit"] {
        object.attach(context.kernel()?, Hook::Tracepoint(event))?;
    }
    let names = names(&context.host.read("proc/softirqs").unwrap_or_default());
    Ok(Box::new(SoftIrqs { object, names, hist: context.params.flag(HIST.name), since: context.host.now() }))
}

/// The vectors, in the order of their numbers: /proc/softirqs lists them so.
fn names(softirqs: &str) -> Vec<String> {
    let name = |line: &str| line.split_once(':').map(|(name, _)| name.trim().to_owned());
    softirqs.lines().filter_map(name).collect()
}

impl Probe for SoftIrqs {
    fn object(&self) -> Option<&Object> {
        Some(&self.object)
    }

    fn read(&mut self, host: &Host) -> Result<Taken, Unavailable> {
        let now = host.now();
        let seconds = now - std::mem::replace(&mut self.since, now);
        let mut vectors = Vec::new();
        for number in 0..VECTORS {
            let hist = self.object.take_hist("vectors", number)?;
            let name = self.names.get(number as usize).cloned();
            vectors.push((name.unwrap_or_else(|| format!("vector {number}")), hist));
        }
        Ok(Taken { outputs: outputs(vectors, seconds, self.hist), ..Taken::default() })
    }
}

/// A table with the columns of what runs again and again. Shared with `hardirqs`.
pub(super) fn with_runs<'c, R: 'c>(spec: TableSpec<'c, R>, seconds: f64, runs: fn(&R) -> &Hist) -> TableSpec<'c, R> {
    let seconds = seconds.max(1e-9);
    let count = move |row: &R| -> f64 {
        let [count, ..] = runs(row);
        *count as f64
    };
    let time = move |row: &R| -> f64 {
        let [_, sum, ..] = runs(row);
        *sum as f64 * 1e-9
    };
    let longest = move |row: &R| -> f64 {
        let [_, _, max, ..] = runs(row);
        *max as f64 * 1e-9
    };
    spec.number("time", "CPU time", Unit::Seconds, time)
        .number("share", "of one CPU", Unit::Ratio, move |row| time(row) / seconds)
        .number("count", "runs", Unit::Count, count)
        .number("rate", "rate", Unit::PerSecond, move |row| count(row) / seconds)
        .number("max", "longest", Unit::Seconds, longest)
}

/// How long one run took, by what `dimension` names. Shared with `hardirqs`.
pub(super) fn durations<'r>(dimension: &str, rows: impl Iterator<Item = (&'r String, &'r Hist)>) -> Output {
    Output::Histogram(Histogram {
        id: "durations".into(),
        title: "Duration of one run".into(),
        unit: Unit::Seconds,
        dimension: Some(dimension.into()),
        rows: rows.map(|(name, hist)| hist::row(name, hist, 1e-9)).collect(),
    })
}

fn outputs(mut vectors: Vec<(String, Hist)>, seconds: f64, with_hist: bool) -> Vec<Output> {
    vectors.retain(|(_, [count, ..])| *count > 0);
    vectors.sort_by_key(|(_, [_, sum, ..])| std::cmp::Reverse(*sum));
    let spec = TableSpec::<&(String, Hist)>::new("vectors", "Deferred interrupt work by vector")
        .rows("softirq", |(name, _)| name.clone())
        .text("name", "vector", |(name, _)| name.clone());
    let mut outputs = vec![Output::Table(with_runs(spec, seconds, |(_, hist)| hist).all(&vectors))];
    if with_hist {
        outputs.push(durations("softirq", vectors.iter().map(|(name, hist)| (name, hist))));
    }
    outputs
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn vectors_are_named_in_the_order_of_the_kernels_own_list() {
        let text = "                    CPU0       CPU1\n          HI:          1          0\n       TIMER:     131        8\n";
        assert_eq!(names(text), ["HI", "TIMER"]);
        assert!(names("").is_empty());
    }

    #[test]
    fn vectors_that_never_ran_are_left_out_and_the_costliest_comes_first() {
        let hist = |count: u64, sum: u64| {
            let mut hist: Hist = [0; hist::WORDS];
            hist[..4].copy_from_slice(&[count, sum, sum, count]);
            hist
        };
        let vectors =
            vec![("HI".to_owned(), hist(0, 0)), ("TIMER".into(), hist(4, 1_000)), ("RCU".into(), hist(2, 1_000_000))];
        let found = outputs(vectors, 2.0, true);
        let Output::Table(table) = &found[0] else { panic!("{found:?}") };
        let names: Vec<&str> = table.rows.iter().map(|row| row.instance.as_str()).collect();
        assert_eq!(names, ["RCU", "TIMER"]);
        assert_eq!(table.rows[0].cells[1..5], [0.001.into(), 0.0005.into(), 2.0.into(), 1.0.into()]);
        let Output::Histogram(histogram) = &found[1] else { panic!("{found:?}") };
        assert_eq!(histogram.rows[1].count, 4);
    }
}
