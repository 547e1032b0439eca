//! /proc/stat: CPU time of the host and of each CPU, and the totals of interrupts, softirqs, forks and switches.

use crate::def::{Cadence, Collect, CollectorDef, Sink};
use rdiag_kernel::host::Host;
use rdiag_model::metric::{Formula, MetricDef, SeriesDef, SeriesKind, Term, term};
use rdiag_model::{Deed, RawUnit, Reason, Unavailable, Unit};
use rdiag_proc::{CpuTimes, cpu_line};

pub(super) static COLLECTOR: CollectorDef = CollectorDef {
    id: "cpu_stat",
    help: "CPU time by mode, of the host and of each CPU, and interrupts, softirqs and forks, from /proc/stat.",
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
    SeriesDef::gauge("cpu_stat.waiting_for_io", RawUnit::Count, "/proc/stat, procs_blocked"),
    ticks("cpu_stat.stolen", "/proc/stat, cpu, field 8, where it ever moved"),
    ticks("cpu_stat.core_stolen", "/proc/stat, cpuN, field 8, where it ever moved"),
    SeriesDef::counter("cpu_stat.interrupts", RawUnit::Count, "/proc/stat, intr, field 1"),
    SeriesDef::counter("cpu_stat.softirqs", RawUnit::Count, "/proc/stat, softirq, fields 2 and up"),
];

/// The kinds of softirq in the order of the line `softirq`, after its total.
const SOFTIRQS: [&str; 10] =
    ["HI", "TIMER", "NET_TX", "NET_RX", "BLOCK", "IRQ_POLL", "TASKLET", "SCHED", "HRTIMER", "RCU"];

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
const BUSY_OR_STOLEN: &[Term] = &[
    term("cpu_stat.user"),
    term("cpu_stat.nice"),
    term("cpu_stat.system"),
    term("cpu_stat.irq"),
    term("cpu_stat.softirq"),
    term("cpu_stat.steal"),
];
const DEMAND: &[Term] = &[
    term("cpu_stat.user"),
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

const METRICS: &[MetricDef] = &[
    MetricDef {
        id: "cpu.busy.ratio",
        unit: Unit::Ratio,
        help: "Share of the CPUs' time spent executing anything: user, nice, system and interrupts.",
        sources: &[Formula::ratio(BUSY, TOTAL)],
        caveat: "Includes stalls on memory; hyper-threads count as full CPUs; steal, idle and iowait are not in it.",
        manual: "mpstat 1 10",
        ..MetricDef::EMPTY
    },
    MetricDef {
        id: "cpu.user.ratio",
        unit: Unit::Ratio,
        help: "Share of the CPUs' time in user mode, niced work included.",
        sources: &[Formula::ratio(&[term("cpu_stat.user"), term("cpu_stat.nice")], TOTAL)],
        caveat: "The split of user and system is sampled by the tick on most kernels.",
        manual: "mpstat 1 10",
        ..MetricDef::EMPTY
    },
    MetricDef {
        id: "cpu.nice.ratio",
        unit: Unit::Ratio,
        help: "Share of the CPUs' time spent on niced work, which gives way to everything else.",
        sources: &[Formula::ratio(&[term("cpu_stat.nice")], TOTAL)],
        caveat: "Only nice values above 0 count.",
        manual: "mpstat 1 10",
        ..MetricDef::EMPTY
    },
    MetricDef {
        id: "cpu.system.ratio",
        unit: Unit::Ratio,
        help: "Share of the CPUs' time in the kernel, interrupts excluded.",
        sources: &[Formula::ratio(&[term("cpu_stat.system")], TOTAL)],
        caveat: "The split of user and system is sampled by the tick on most kernels.",
        manual: "mpstat 1 10",
        ..MetricDef::EMPTY
    },
    MetricDef {
        id: "cpu.system.share_of_busy.ratio",
        unit: Unit::Ratio,
        help: "Share of the busy time that was spent in the kernel.",
        sources: &[Formula::ratio(&[term("cpu_stat.system")], BUSY)],
        caveat: "Says little when the CPUs are almost idle.",
        manual: "mpstat 1 10",
        ..MetricDef::EMPTY
    },
    MetricDef {
        id: "cpu.steal.ratio",
        unit: Unit::Ratio,
        help: "CPU steal: share of the demanded CPU time in which the hypervisor did not run this machine.",
        sources: &[Formula::ratio(&[term("cpu_stat.stolen")], BUSY_OR_STOLEN)],
        caveat: "Not given where it never moved since boot: then it is not known whether the hypervisor reports it.",
        manual: "mpstat 1 10",
        ..MetricDef::EMPTY
    },
    MetricDef {
        id: "cpu.demand.ratio",
        unit: Unit::Ratio,
        help: "Share of the CPUs' time that the kernel and un-niced work used, or would have used had it not been \
               stolen.",
        sources: &[Formula::ratio(DEMAND, TOTAL)],
        caveat: "Includes system time of niced processes: only their user time is counted as nice.",
        manual: "mpstat 1 10",
        ..MetricDef::EMPTY
    },
    MetricDef {
        id: "cpu.interrupt.ratio",
        unit: Unit::Ratio,
        help: "Share of the CPUs' time in hard and soft interrupts.",
        sources: &[Formula::ratio(&[term("cpu_stat.irq"), term("cpu_stat.softirq")], TOTAL)],
        caveat: "Sampled by the tick unless the kernel accounts interrupt time: may read 0 while interrupts eat CPU.",
        manual: "mpstat 1 10",
        ..MetricDef::EMPTY
    },
    MetricDef {
        id: "cpu.core.busy.ratio",
        unit: Unit::Ratio,
        dimension: Some("cpu"),
        help: "Share of one CPU's time spent executing anything.",
        sources: &[Formula::ratio(
            &[
                term("cpu_stat.core_user"),
                term("cpu_stat.core_nice"),
                term("cpu_stat.core_system"),
                term("cpu_stat.core_irq"),
                term("cpu_stat.core_softirq"),
            ],
            CORE_TOTAL,
        )],
        caveat: "A thread that migrates shows on no single CPU.",
        manual: "mpstat -P ALL 1 10",
        ..MetricDef::EMPTY
    },
    MetricDef {
        id: "cpu.core.interrupt.ratio",
        unit: Unit::Ratio,
        dimension: Some("cpu"),
        help: "Share of one CPU's time in hard and soft interrupts.",
        sources: &[Formula::ratio(&[term("cpu_stat.core_irq"), term("cpu_stat.core_softirq")], CORE_TOTAL)],
        caveat: "Sampled by the tick unless the kernel accounts interrupt time: may read 0 while interrupts eat CPU.",
        manual: "mpstat -P ALL 1 10",
        deed: Some(Deed { verb: "took", of: "the interrupt time of all CPUs", ..Deed::USUAL }),
    },
    MetricDef {
        id: "cpu.core.softirq.ratio",
        unit: Unit::Ratio,
        dimension: Some("cpu"),
        help: "Share of one CPU's time in soft interrupts.",
        sources: &[Formula::ratio(&[term("cpu_stat.core_softirq")], CORE_TOTAL)],
        caveat: "What ksoftirqd does is in it too.",
        manual: "mpstat -P ALL 1 10",
        ..MetricDef::EMPTY
    },
    MetricDef {
        id: "cpu.core.nice.ratio",
        unit: Unit::Ratio,
        dimension: Some("cpu"),
        help: "Share of one CPU's time spent on niced work.",
        sources: &[Formula::ratio(&[term("cpu_stat.core_nice")], CORE_TOTAL)],
        caveat: "Only nice values above 0 count.",
        manual: "mpstat -P ALL 1 10",
        ..MetricDef::EMPTY
    },
    MetricDef {
        id: "cpu.core.idle.ratio",
        unit: Unit::Ratio,
        dimension: Some("cpu"),
        help: "Share of one CPU's time with nothing to run, waits for I/O included.",
        sources: &[Formula::ratio(&[term("cpu_stat.core_idle"), term("cpu_stat.core_iowait")], CORE_TOTAL)],
        caveat: "A CPU that is set aside from the scheduler is idle on purpose.",
        manual: "mpstat -P ALL 1 10",
        ..MetricDef::EMPTY
    },
    MetricDef {
        id: "cpu.core.steal.ratio",
        unit: Unit::Ratio,
        dimension: Some("cpu"),
        help: "Share of one virtual CPU's time in which it could run and the hypervisor ran others.",
        sources: &[Formula::ratio(&[term("cpu_stat.core_stolen")], CORE_TOTAL)],
        caveat: "Given only for CPUs from which time was ever stolen.",
        manual: "mpstat -P ALL 1 10",
        ..MetricDef::EMPTY
    },
    MetricDef {
        id: "interrupts.hard.per_second",
        unit: Unit::PerSecond,
        help: "Hardware and inter-processor interrupts per second over all CPUs.",
        sources: &[Formula::rate(&[term("cpu_stat.interrupts")])],
        caveat: "The timer's are in it: some hundred per second and busy CPU are normal.",
        manual: "vmstat 1 10",
        ..MetricDef::EMPTY
    },
    MetricDef {
        id: "interrupts.soft.per_second",
        unit: Unit::PerSecond,
        dimension: Some("softirq"),
        help: "Soft interrupts per second over all CPUs, by kind.",
        sources: &[Formula::rate(&[term("cpu_stat.softirqs")])],
        caveat: "Trivial ones count as much as long ones.",
        manual: "watch -d cat /proc/softirqs",
        ..MetricDef::EMPTY
    },
    MetricDef {
        id: "tasks.waiting_for_io.count",
        unit: Unit::Count,
        help: "Tasks, threads among them, that wait in the kernel for an I/O request to complete.",
        sources: &[Formula::level(&[term("cpu_stat.waiting_for_io")])],
        caveat: "Point samples. Waits for a lock or a file server are not among them, and those of io_uring and AIO \
                 are not.",
        manual: "vmstat 1 10, column b",
        ..MetricDef::EMPTY
    },
    MetricDef {
        id: "tasks.forks.per_second",
        unit: Unit::PerSecond,
        help: "Processes and threads created per second.",
        sources: &[Formula::rate(&[term("cpu_stat.forks")])],
        caveat: "Threads count too.",
        manual: "sar -w 1 10",
        ..MetricDef::EMPTY
    },
    MetricDef {
        id: "cpu.switches.per_second",
        unit: Unit::PerSecond,
        help: "Context switches per second over all CPUs.",
        sources: &[Formula::rate(&[term("cpu_stat.switches")])],
        caveat: "No threshold makes sense without knowing the work.",
        manual: "vmstat 1 10",
        ..MetricDef::EMPTY
    },
];

struct CpuStat;

impl Collect for CpuStat {
    fn sample(&mut self, host: &Host, out: &Sink) -> Result<(), Unavailable> {
        let text = host.read("proc/stat")?;
        let mut seen = false;
        for line in text.lines() {
            if let Some((cpu, times)) = cpu_line(line) {
                seen |= cpu.is_empty();
                record_cpu(cpu, times, host.facts().virtual_machine, out);
                continue;
            }
            let Some((label, rest)) = line.split_once(' ') else { continue };
            let mut values = rest.split_whitespace().map_while(|field| field.parse().ok());
            let Some(first) = values.next() else { continue };
            match label {
                "processes" => out.count("cpu_stat.forks", "", first),
                "ctxt" => out.count("cpu_stat.switches", "", first),
                "procs_blocked" => out.level("cpu_stat.waiting_for_io", "", first as f64),
                "intr" => out.count("cpu_stat.interrupts", "", first),
                "softirq" => SOFTIRQS.iter().zip(values).for_each(|(kind, n)| out.count("cpu_stat.softirqs", kind, n)),
                _ => {}
            }
        }
        if seen { Ok(()) } else { Err(Unavailable::new(Reason::Malformed, "/proc/stat holds no line of CPU times")) }
    }
}

/// The times of one CPU (`cpu` is "" for the sum).
fn record_cpu(cpu: &str, times: CpuTimes, virtual_machine: bool, out: &Sink) {
    for ((whole, core), value) in FIELDS.into_iter().zip(times.all()) {
        if cpu.is_empty() { out.count(whole, "", value) } else { out.count(core, cpu, value) }
    }
    match (times.steal, cpu) {
        (0, "") => {
            out.gap("cpu_stat.stolen", "", never_stolen(virtual_machine));
            out.gap("cpu_stat.core_stolen", "", never_stolen(virtual_machine));
        }
        (0, _) => {}
        (steal, "") => out.count("cpu_stat.stolen", "", steal),
        (steal, _) => out.count("cpu_stat.core_stolen", cpu, steal),
    }
}

/// A counter that never moved may be one that the hypervisor does not feed; that does not prove that nothing was stolen.
fn never_stolen(virtual_machine: bool) -> Unavailable {
    if virtual_machine {
        let why = "this virtual machine has seen no steal time since boot: either no CPU was ever taken away, or the \
                   hypervisor does not report it";
        return Unavailable::new(Reason::NotVisible, why)
            .with_remedy("look at the steal or ready time of this machine on its hypervisor");
    }
    Unavailable::new(Reason::NotApplicable, "this is no virtual machine: there is no hypervisor to take CPU time")
}

#[cfg(test)]
mod tests;
