//! /proc/stat: CPU time of the host and of each CPU.

use super::{Cadence, Collect, CollectorDef, Sink};
use crate::host::Host;
use crate::model::metric::{Formula, MetricDef, SeriesDef, SeriesKind, Term, term};
use crate::model::{RawUnit, Reason, Unavailable, Unit};

pub(super) static COLLECTOR: CollectorDef = CollectorDef {
    id: "cpu_stat",
    help: "CPU time by mode, of the host and of each CPU, and forks, from /proc/stat.",
    cadence: Cadence::Interval,
    series: SERIES,
    metrics: METRICS,
    overhead: "one read per interval; its length grows with CPUs and interrupt lines (about 50 µs on 2 CPUs)",
    start: |_| Box::new(CpuStat),
};

/// The fields after the label, in the order of the file. Guest time is already inside user and nice.
const FIELDS: [(&str, &str); 8] = [
    ("cpu_stat.user", "cpu_stat.core_user"),
    ("cpu_stat.nice", "cpu_stat.core_nice"),
    ("cpu_stat.system", "cpu_stat.core_system"),
    ("cpu_stat.idle", "cpu_stat.core_idle"),
    ("cpu_stat.iowait", "cpu_stat.core_iowait"),
    ("cpu_stat.irq", "cpu_stat.core_irq"),
    ("cpu_stat.softirq", "cpu_stat.core_softirq"),
    ("cpu_stat.steal", "cpu_stat.core_steal"),
];

const fn ticks(name: &'static str, source: &'static str) -> SeriesDef {
    SeriesDef::counter(name, RawUnit::Ticks, source)
}

const fn ticks_that_step_back(name: &'static str, source: &'static str) -> SeriesDef {
    SeriesDef { name, kind: SeriesKind::CounterStepsBack, unit: RawUnit::Ticks, source }
}

const SERIES: &[SeriesDef] = &[
    ticks("cpu_stat.user", "/proc/stat, cpu, field 1"),
    ticks("cpu_stat.nice", "/proc/stat, cpu, field 2"),
    ticks("cpu_stat.system", "/proc/stat, cpu, field 3"),
    ticks_that_step_back("cpu_stat.idle", "/proc/stat, cpu, field 4"),
    ticks_that_step_back("cpu_stat.iowait", "/proc/stat, cpu, field 5"),
    ticks("cpu_stat.irq", "/proc/stat, cpu, field 6"),
    ticks("cpu_stat.softirq", "/proc/stat, cpu, field 7"),
    ticks("cpu_stat.steal", "/proc/stat, cpu, field 8"),
    ticks("cpu_stat.core_user", "/proc/stat, cpuN, field 1"),
    ticks("cpu_stat.core_nice", "/proc/stat, cpuN, field 2"),
    ticks("cpu_stat.core_system", "/proc/stat, cpuN, field 3"),
    ticks_that_step_back("cpu_stat.core_idle", "/proc/stat, cpuN, field 4"),
    ticks_that_step_back("cpu_stat.core_iowait", "/proc/stat, cpuN, field 5"),
    ticks("cpu_stat.core_irq", "/proc/stat, cpuN, field 6"),
    ticks("cpu_stat.core_softirq", "/proc/stat, cpuN, field 7"),
    ticks("cpu_stat.core_steal", "/proc/stat, cpuN, field 8"),
    SeriesDef::counter("cpu_stat.forks", RawUnit::Count, "/proc/stat, processes"),
    SeriesDef::counter("cpu_stat.switches", RawUnit::Count, "/proc/stat, ctxt"),
];

const TOTAL: &[Term] = &[
    term("cpu_stat.user"),
    term("cpu_stat.nice"),
    term("cpu_stat.system"),
    term("cpu_stat.idle"),
    term("cpu_stat.iowait"),
    term("cpu_stat.irq"),
    term("cpu_stat.softirq"),
    term("cpu_stat.steal"),
];
const BUSY: &[Term] = &[
    term("cpu_stat.user"),
    term("cpu_stat.nice"),
    term("cpu_stat.system"),
    term("cpu_stat.irq"),
    term("cpu_stat.softirq"),
];
const DEMAND: &[Term] = &[
    term("cpu_stat.user"),
    term("cpu_stat.nice"),
    term("cpu_stat.system"),
    term("cpu_stat.irq"),
    term("cpu_stat.softirq"),
    term("cpu_stat.steal"),
];
const CORE_TOTAL: &[Term] = &[
    term("cpu_stat.core_user"),
    term("cpu_stat.core_nice"),
    term("cpu_stat.core_system"),
    term("cpu_stat.core_idle"),
    term("cpu_stat.core_iowait"),
    term("cpu_stat.core_irq"),
    term("cpu_stat.core_softirq"),
    term("cpu_stat.core_steal"),
];

const fn ratio(
    id: &'static str,
    dimension: Option<&'static str>,
    help: &'static str,
    sources: &'static [Formula],
    caveat: &'static str,
    manual: &'static str,
) -> MetricDef {
    MetricDef { id, unit: Unit::Ratio, dimension, help, sources, caveat, manual }
}

const METRICS: &[MetricDef] = &[
    ratio(
        "cpu.busy.ratio",
        None,
        "Share of the CPUs' time spent executing anything: user, nice, system and interrupts.",
        &[Formula::ratio(BUSY, TOTAL)],
        "Includes stalls on memory; hyper-threads count as full CPUs; steal, idle and iowait are not in it.",
        "mpstat 1 10",
    ),
    ratio(
        "cpu.user.ratio",
        None,
        "Share of the CPUs' time in user mode, niced work included.",
        &[Formula::ratio(&[term("cpu_stat.user"), term("cpu_stat.nice")], TOTAL)],
        "The split of user and system is sampled by the tick on most kernels.",
        "mpstat 1 10",
    ),
    ratio(
        "cpu.nice.ratio",
        None,
        "Share of the CPUs' time spent on niced work, which gives way to everything else.",
        &[Formula::ratio(&[term("cpu_stat.nice")], TOTAL)],
        "Only nice values above 0 count.",
        "mpstat 1 10",
    ),
    ratio(
        "cpu.system.ratio",
        None,
        "Share of the CPUs' time in the kernel, interrupts excluded.",
        &[Formula::ratio(&[term("cpu_stat.system")], TOTAL)],
        "The split of user and system is sampled by the tick on most kernels.",
        "mpstat 1 10",
    ),
    ratio(
        "cpu.system.share_of_busy.ratio",
        None,
        "Share of the busy time that was spent in the kernel.",
        &[Formula::ratio(&[term("cpu_stat.system")], BUSY)],
        "Says little when the CPUs are almost idle.",
        "mpstat 1 10",
    ),
    ratio(
        "cpu.steal.ratio",
        None,
        "Share of the demanded CPU time that the hypervisor gave to others.",
        &[Formula::ratio(&[term("cpu_stat.steal")], DEMAND)],
        "0 proves nothing where the hypervisor does not report it.",
        "mpstat 1 10",
    ),
    ratio(
        "cpu.core.busy.ratio",
        Some("cpu"),
        "Share of one CPU's time spent executing anything.",
        &[Formula::ratio(
            &[
                term("cpu_stat.core_user"),
                term("cpu_stat.core_nice"),
                term("cpu_stat.core_system"),
                term("cpu_stat.core_irq"),
                term("cpu_stat.core_softirq"),
            ],
            CORE_TOTAL,
        )],
        "A thread that migrates shows on no single CPU.",
        "mpstat -P ALL 1 10",
    ),
    ratio(
        "cpu.core.interrupt.ratio",
        Some("cpu"),
        "Share of one CPU's time in hard and soft interrupts.",
        &[Formula::ratio(&[term("cpu_stat.core_irq"), term("cpu_stat.core_softirq")], CORE_TOTAL)],
        "Sampled by the tick unless the kernel accounts interrupt time: may read 0 while interrupts eat CPU.",
        "mpstat -P ALL 1 10",
    ),
    MetricDef {
        id: "tasks.forks.per_second",
        unit: Unit::PerSecond,
        dimension: None,
        help: "Processes and threads created per second.",
        sources: &[Formula::rate(&[term("cpu_stat.forks")])],
        caveat: "Threads count too.",
        manual: "sar -w 1 10",
    },
    MetricDef {
        id: "cpu.switches.per_second",
        unit: Unit::PerSecond,
        dimension: None,
        help: "Context switches per second over all CPUs.",
        sources: &[Formula::rate(&[term("cpu_stat.switches")])],
        caveat: "No threshold makes sense without knowing the work.",
        manual: "vmstat 1 10",
    },
];

struct CpuStat;

impl Collect for CpuStat {
    fn sample(&mut self, host: &Host, out: &Sink) -> Result<(), Unavailable> {
        let text = host.read("proc/stat")?;
        let mut seen = false;
        for line in text.lines() {
            let Some((label, rest)) = line.split_once(' ') else { continue };
            if let Some(cpu) = label.strip_prefix("cpu") {
                seen |= record_cpu(cpu, rest, out);
            } else if let Ok(value) = rest.trim().parse() {
                match label {
                    "processes" => out.count("cpu_stat.forks", "", value),
                    "ctxt" => out.count("cpu_stat.switches", "", value),
                    _ => {}
                }
            }
        }
        if seen { Ok(()) } else { Err(Unavailable::new(Reason::Malformed, "/proc/stat holds no line of CPU times")) }
    }
}

/// Records the line of one CPU (`cpu` is "" for the sum); a line with a field missing or broken is left out whole,
/// so that a ratio never mixes what was read with what was not.
fn record_cpu(cpu: &str, rest: &str, out: &Sink) -> bool {
    let values: Vec<u64> = rest.split_whitespace().map_while(|field| field.parse().ok()).take(8).collect();
    let valid_cpu = cpu.chars().all(|c| c.is_ascii_digit());
    if values.len() != FIELDS.len() || !valid_cpu {
        return false;
    }
    for ((whole, core), value) in FIELDS.into_iter().zip(values) {
        if cpu.is_empty() { out.count(whole, "", value) } else { out.count(core, cpu, value) }
    }
    cpu.is_empty()
}
