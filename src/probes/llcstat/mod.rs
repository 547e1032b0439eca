//! Which processes find their data in the last cache: samples of its uses and misses.

use crate::def::{Context, FilterKind, GivesStacks, ParamDef, ParamKind, Probe, ProbeDef, Taken};
use crate::table::TableSpec;
use rdiag_kernel::host::Host;
use rdiag_kernel::mechanism::ebpf::{Object, include_bytes_aligned, words};
use rdiag_kernel::mechanism::perf::cpus::online;
use rdiag_kernel::mechanism::perf::event::{Event, Every};
use rdiag_model::probe::{Output, ProbeTable};
use rdiag_model::{Unavailable, Unit};

pub(super) static PROBE: ProbeDef = ProbeDef {
    id: "llcstat",
    question: "Which processes find their data in the last cache before memory, and which do not?",
    attach: "The events cache-references and cache-misses of each CPU, or those that are named.",
    output: "For each process how often it used the cache, how often it missed there, and the share that it found; most misses first.",
    caveats: "Figures are samples times their period, so few samples are a rough figure, and a process with less than one period is not \
        seen. \
              What the two events count differs by CPU model: some count prefetches, some do not, and on some misses are no part of the \
              references, so that no share is known. An interrupt counts for the process that it interrupts. Virtual machines mostly have \
              no \
              such events: then there is no output.",
    overhead: "One interrupt and program run for each period of events: 10,000 uses or 1000 misses by itself.",
    params: &[
        ParamDef {
            name: "uses",
            kind: ParamKind::Events,
            default: "cache-references",
            help: "the event that counts uses (LLC-loads, dTLB-loads)",
        },
        ParamDef {
            name: "misses",
            kind: ParamKind::Events,
            default: "cache-misses",
            help: "the event that counts misses (LLC-load-misses, dTLB-load-misses)",
        },
        ParamDef {
            name: "period",
            kind: ParamKind::Count { min: 1, max: 1_000_000_000 },
            default: "10000",
            help: "take a sample every so many uses",
        },
        ParamDef {
            name: "miss_period",
            kind: ParamKind::Count { min: 1, max: 1_000_000_000 },
            default: "1000",
            help: "take a sample every so many misses",
        },
        ParamDef::top("how many processes to show"),
    ],
    filters: &[FilterKind::Pid, FilterKind::Comm, FilterKind::Cgroup],
    streams: false,
    stacks: GivesStacks::Never,
    metrics: &[],
    start,
};

/// `struct sums` of the program: samples of uses and of misses, name.
type Sums = [u64; 4];

struct LlcStat {
    object: Object,
    /// Events for which a sample of uses, and one of misses, stands.
    periods: (u64, u64),
    top: usize,
}

fn start(context: &Context<'_>) -> Result<Box<dyn Probe>, Unavailable> {
    let bytes = include_bytes_aligned!(concat!(env!("CARGO_MANIFEST_DIR"), "/llcstat/llcstat.bpf.o"));
    let (host, params) = (context.host, context.params);
    let mut object = context.kernel()?.load(bytes, context.filter.globals(host)?, &[])?;
    let cpus = online(host);
    let periods = (params.count("period"), params.count("miss_period"));
    for (program, period) in [("uses", periods.0), ("misses", periods.1)] {
        let event = Event::find(host, params.text(program).unwrap_or_default())?;
        object.sample(program, &event, Every::Events(period), &cpus)?;
    }
    Ok(Box::new(LlcStat { object, periods, top: params.count("top") as usize }))
}

impl Probe for LlcStat {
    fn object(&self) -> Option<&Object> {
        Some(&self.object)
    }

    fn read(&mut self, _: &Host) -> Result<Taken, Unavailable> {
        let processes = self.object.take_hash::<u32, Sums>("processes")?;
        let lost = self.object.take_counts("lost")?.iter().sum();
        let table = by_process(processes, self.periods, self.top);
        Ok(Taken {
            outputs: vec![Output::Table(table)],
            lost: vec![("samples of more processes than the probe can note", lost)],
            ..Taken::default()
        })
    }
}

/// The share that was found; none where nothing was seen, or misses are more than uses, which then do not hold them.
fn found(uses: f64, misses: f64) -> Option<f64> {
    (uses > 0.0 && misses <= uses).then(|| 1.0 - misses / uses)
}

/// Most misses first, and the rest summed up.
fn by_process(mut processes: Vec<(u32, Sums)>, (use_period, miss_period): (u64, u64), top: usize) -> ProbeTable {
    processes.sort_by_key(|(tgid, [uses, misses, ..])| (std::cmp::Reverse((*misses, *uses)), *tgid));
    let uses = |[uses, ..]: &Sums| *uses as f64 * use_period as f64;
    let misses = |[_, misses, ..]: &Sums| *misses as f64 * miss_period as f64;
    TableSpec::<(u32, Sums)>::new("processes", "Processes by what they did not find in the cache")
        .rows("process", |(tgid, _)| tgid.to_string())
        .text("name", "process", |(_, [.., name, more])| words::text_of_words(&[*name, *more]))
        .text("pid", "pid", |(tgid, _)| tgid.to_string())
        .sum("uses", "uses", Unit::Count, |(_, sums)| uses(sums))
        .sum("misses", "misses", Unit::Count, |(_, sums)| misses(sums))
        .number("found", "found", Unit::Ratio, |(_, sums)| found(uses(sums), misses(sums)))
        .top(processes, top)
}

#[cfg(test)]
mod tests {
    use super::*;
    use rdiag_model::probe::Cell;

    const NAME: u64 = u64::from_ne_bytes(*b"grep\0\0\0\0");

    #[test]
    fn a_sample_stands_for_its_period_and_who_misses_most_comes_first() {
        let processes = vec![(7, [900, 1, NAME, 0]), (8, [10, 40, NAME, 0]), (9, [0, 3, NAME, 0])];
        let table = by_process(processes, (10_000, 1000), 2);
        let told: Vec<_> = table.rows.iter().map(|row| (row.instance.as_str(), row.cells[2..].to_vec())).collect();
        let share = 1.0 - 40_000.0 / 100_000.0;
        assert_eq!(told[0], ("8", vec![100_000.0.into(), 40_000.0.into(), share.into()]));
        assert_eq!(told[1], ("9", vec![0.0.into(), 3000.0.into(), Cell::Unknown(())]));
        assert_eq!((table.others, table.others_sum["uses"], table.others_sum["misses"]), (1, 9e6, 1000.0));
    }

    #[test]
    fn there_is_no_share_of_misses_that_are_not_among_the_uses() {
        assert_eq!(found(1000.0, 2000.0), None);
        assert_eq!(found(1000.0, 1000.0), 0.0.into());
    }
}
