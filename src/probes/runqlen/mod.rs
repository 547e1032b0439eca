//! How many tasks wait for each CPU.

use crate::def::{Context, GivesStacks, ParamDef, ParamKind, Probe, ProbeDef, Taken};
use crate::table::TableSpec;
use rdiag_kernel::host::Host;
use rdiag_kernel::mechanism::ebpf::hist::{self, Hist};
use rdiag_kernel::mechanism::ebpf::{Hook, Object, include_bytes_aligned};
use rdiag_model::metric::Pick;
use rdiag_model::probe::{Histogram, Output};
use rdiag_model::{Formula, MetricDef, Unavailable, Unit};

pub(super) static PROBE: ProbeDef = ProbeDef {
    id: "runqlen",
    question: "How many tasks wait for each CPU, and for what share of the time does any?",
    attach: "A clock on each CPU.",
    output: "The distribution of the number of waiting tasks over all samples, and for each CPU the mean, the longest queue \
             and the share of the samples at which a task waited.",
    caveats: "Samples, not events: a queue that builds up and drains between two of them is not seen. The clock wakes idle \
              CPUs. Tasks of all scheduling classes count, those that a CPU quota throttles do not.",
    overhead: "About 1 µs per sample and CPU: 0.01 % of a CPU at 99 Hz.",
    params: &[
        ParamDef {
            name: "hz",
            kind: ParamKind::Count { min: 1, max: 1000 },
            default: "99",
            help: "samples per second and CPU",
        },
        ParamDef {
            name: "per_cpu",
            kind: ParamKind::Flag,
            default: "false",
            help: "show the distribution of each CPU too",
        },
    ],
    filters: &[],
    streams: false,
    stacks: GivesStacks::Never,
    metrics: &[
        MetricDef {
            id: "runqlen.queued.ratio",
            unit: Unit::Ratio,
            help: "Share of the samples, over all CPUs, at which at least one task waited for the CPU.",
            sources: &[Formula::probe(Pick::Column("host", "queued"))],
            caveat: "Samples, not events: short queues between them are not seen.",
            manual: "runqlen-bpfcc 10 1",
            ..MetricDef::EMPTY
        },
        MetricDef {
            id: "runqlen.length.mean",
            unit: Unit::Count,
            help: "Mean number of tasks that waited for a CPU, over all CPUs and samples.",
            sources: &[Formula::probe(Pick::Column("host", "mean"))],
            caveat: "For one CPU; times the number of CPUs it is the number of tasks that wait on the host.",
            manual: "runqlen-bpfcc 10 1",
            ..MetricDef::EMPTY
        },
        MetricDef {
            id: "runqlen.cpu_queued.ratio",
            unit: Unit::Ratio,
            dimension: Some("cpu"),
            help: "Share of the samples of a CPU at which at least one task waited for it.",
            sources: &[Formula::probe(Pick::Column("cpus", "queued"))],
            caveat: "Samples, not events: short queues between them are not seen.",
            manual: "runqlen-bpfcc -C 10 1",
            ..MetricDef::EMPTY
        },
    ],
    start,
};

struct RunqLen {
    object: Object,
    per_cpu: bool,
}

fn start(context: &Context<'_>) -> Result<Box<dyn Probe>, Unavailable> {
    let bytes = include_bytes_aligned!(concat!(env!("CARGO_MANIFEST_DIR"), "/runqlen/runqlen.bpf.o"));
    let mut object = context.kernel()?.load(bytes, context.filter.globals(context.host)?, &[])?;
    object.attach(context.kernel()?, Hook::Clock { program: "sample", hz: context.params.count("hz") }).map_err(
        |gap| {
            let lacks = gap.why.contains("lacks a field");
            if lacks { gap.with_remedy("use a kernel built with CONFIG_FAIR_GROUP_SCHED") } else { gap }
        },
    )?;
    Ok(Box::new(RunqLen { object, per_cpu: context.params.flag("per_cpu") }))
}

impl Probe for RunqLen {
    fn object(&self) -> Option<&Object> {
        Some(&self.object)
    }

    fn read(&mut self, _: &Host) -> Result<Taken, Unavailable> {
        let cpus = self.object.take_hists("lengths", 0)?;
        Ok(Taken { outputs: outputs(&cpus, self.per_cpu), ..Taken::default() })
    }
}

/// What the samples of a CPU, or of all of them, tell.
struct Queue {
    cpu: String,
    samples: u64,
    queued: f64,
    mean: f64,
    longest: u64,
}

impl Queue {
    fn new(cpu: &str, [count, sum, max, empty, ..]: &Hist) -> Self {
        let samples = (*count).max(1) as f64;
        Self {
            cpu: cpu.to_owned(),
            samples: *count,
            queued: count.saturating_sub(*empty) as f64 / samples,
            mean: *sum as f64 / samples,
            longest: *max,
        }
    }

    /// The columns that are the same for one CPU and for all.
    fn columns(spec: TableSpec<'static, Self>) -> TableSpec<'static, Self> {
        spec.number("samples", "samples", Unit::Count, |queue| queue.samples as f64)
            .number("queued", "time with a queue", Unit::Ratio, |queue| queue.queued)
            .number("mean", "mean length", Unit::Count, |queue| queue.mean)
            .number("max", "longest", Unit::Count, |queue| queue.longest as f64)
    }
}

/// One distribution for each CPU; those without a sample were offline.
fn outputs(cpus: &[Hist], per_cpu: bool) -> Vec<Output> {
    let all = hist::sum(cpus);
    let [samples, ..] = all;
    let online: Vec<(String, &Hist)> = cpus
        .iter()
        .enumerate()
        .filter(|(_, [count, ..])| *count > 0)
        .map(|(cpu, hist)| (cpu.to_string(), hist))
        .collect();
    let histogram = |id: &str, title: &str, dimension: Option<&str>, rows| {
        Output::Histogram(Histogram {
            id: id.into(),
            title: title.into(),
            unit: Unit::Count,
            dimension: dimension.map(str::to_owned),
            rows,
        })
    };
    let mut outputs = vec![histogram("length", "Tasks that wait for a CPU", None, vec![hist::row("", &all, 1.0)])];
    if per_cpu {
        let rows = online.iter().map(|(cpu, own)| hist::row(cpu, own, 1.0)).collect();
        outputs.push(histogram("length_by_cpu", "Tasks that wait for one CPU", Some("cpu"), rows));
    }
    let host = Queue::columns(TableSpec::new("host", "Queues of all CPUs"));
    outputs.push(Output::Table(host.all((samples > 0).then(|| Queue::new("", &all)))));
    let each = TableSpec::<Queue>::new("cpus", "Queue of each CPU").rows("cpu", |queue| queue.cpu.clone()).text(
        "cpu",
        "CPU",
        |queue| queue.cpu.clone(),
    );
    outputs.push(Output::Table(Queue::columns(each).all(online.iter().map(|(cpu, own)| Queue::new(cpu, own)))));
    outputs
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hist(lengths: &[usize]) -> Hist {
        let mut hist: Hist = [0; hist::WORDS];
        for length in lengths {
            hist[0] += 1;
            hist[1] += *length as u64;
            hist[2] = hist[2].max(*length as u64);
            hist[3 + length] += 1;
        }
        hist
    }

    #[test]
    fn the_share_of_time_with_a_queue_is_that_of_the_samples_that_are_not_zero() {
        let found = outputs(&[hist(&[0, 0, 0, 2]), hist(&[]), hist(&[1, 3, 0, 0])], true);
        let table = |id: &str| {
            found
                .iter()
                .find_map(|output| match output {
                    Output::Table(table) if table.id == id => Some(table.rows.clone()),
                    _ => None,
                })
                .unwrap()
        };
        assert_eq!(table("host")[0].cells, [8.0.into(), 0.375.into(), 0.75.into(), 3.0.into()]);
        let cpus = table("cpus");
        assert_eq!((cpus.len(), cpus[1].instance.as_str()), (2, "2"), "a CPU that is offline gave no sample");
        assert_eq!(cpus[1].cells[2], 0.5.into());
    }

    #[test]
    fn without_samples_there_is_no_figure() {
        let found = outputs(&[hist(&[])], false);
        assert!(found.iter().all(|output| !matches!(output, Output::Table(table) if !table.rows.is_empty())));
    }
}
