//! /proc/pressure: the share of time in which tasks stalled on CPU, memory or I/O, or because of interrupts.
//!
//! Only `total=` is read: the averages beside it are damped by the kernel over windows that are not ours.
//!
//! Two things differ from what is usually written (Linux 6.18). Waits of libaio and io_uring are not in `io`, since the waiter sleeps
//! elsewhere: low pressure alone never refutes a queue. And `full` of `io` falls to about 0 while other work keeps the CPUs busy: a disk
//! that only one of many tasks waits for is judged at `info`.

use crate::def::{Cadence, Collect, CollectorDef, Sink};
use rdiag_kernel::host::{Host, SourceError};
use rdiag_model::metric::{Formula, MetricDef, SeriesDef, term};
use rdiag_model::{RawUnit, Reason, Unavailable, Unit};
use rdiag_proc::Pressure;

pub(super) static COLLECTOR: CollectorDef = CollectorDef {
    id: "psi",
    help: "Time in which tasks stalled for CPU, memory, I/O and interrupts, from /proc/pressure.",
    cadence: Cadence::Interval,
    series: SERIES,
    metrics: METRICS,
    overhead: "four short reads per interval; the kernel sums over all CPUs at each (about 30 µs on 2 CPUs)",
    start: |_| Box::new(Psi),
};

const fn stall(name: &'static str, source: &'static str) -> SeriesDef {
    SeriesDef::counter(name, RawUnit::Microseconds, source)
}

const SERIES: &[SeriesDef] = &[
    stall("psi.cpu_some", "/proc/pressure/cpu, some total="),
    stall("psi.memory_some", "/proc/pressure/memory, some total="),
    stall("psi.memory_full", "/proc/pressure/memory, full total="),
    stall("psi.io_some", "/proc/pressure/io, some total="),
    stall("psi.io_full", "/proc/pressure/io, full total="),
    stall("psi.irq_full", "/proc/pressure/irq, full total="),
];

/// The file, the line, the series. The `full` line of `cpu` is always 0 for the whole host, so it is not read.
const FILES: [(&str, &[(&str, &str)]); 4] = [
    ("cpu", &[("some", "psi.cpu_some")]),
    ("memory", &[("some", "psi.memory_some"), ("full", "psi.memory_full")]),
    ("io", &[("some", "psi.io_some"), ("full", "psi.io_full")]),
    ("irq", &[("full", "psi.irq_full")]),
];

const METRICS: &[MetricDef] = &[
    MetricDef {
        id: "psi.cpu.some.ratio",
        unit: Unit::Ratio,
        help: "Share of time in which at least one runnable task waited for a CPU.",
        sources: &[Formula::rate(&[term("psi.cpu_some")])],
        caveat: "Grows with the number of tasks: one waiting task out of 100 counts as much as all of them.",
        manual: "cat /proc/pressure/cpu; sleep 10; cat /proc/pressure/cpu",
        ..MetricDef::EMPTY
    },
    MetricDef {
        id: "psi.memory.some.ratio",
        unit: Unit::Ratio,
        help: "Share of time in which at least one task stalled for memory: reclaim, refault, swap-in.",
        sources: &[Formula::rate(&[term("psi.memory_some")])],
        caveat: "Grows with the number of tasks.",
        manual: "cat /proc/pressure/memory; sleep 10; cat /proc/pressure/memory",
        ..MetricDef::EMPTY
    },
    MetricDef {
        id: "psi.memory.full.ratio",
        unit: Unit::Ratio,
        help: "Share of time in which all tasks that were not idle stalled for memory at once.",
        sources: &[Formula::rate(&[term("psi.memory_full")])],
        caveat: "0 as long as any task of the host makes progress on any CPU.",
        manual: "cat /proc/pressure/memory; sleep 10; cat /proc/pressure/memory",
        ..MetricDef::EMPTY
    },
    MetricDef {
        id: "psi.io.some.ratio",
        unit: Unit::Ratio,
        help: "Share of time in which at least one task waited for I/O.",
        sources: &[Formula::rate(&[term("psi.io_some")])],
        caveat: "A single task that does nothing but read reaches 100 % on a healthy disk.",
        manual: "cat /proc/pressure/io; sleep 10; cat /proc/pressure/io",
        ..MetricDef::EMPTY
    },
    MetricDef {
        id: "psi.io.full.ratio",
        unit: Unit::Ratio,
        help: "Share of time in which all tasks that were not idle waited for I/O at once.",
        sources: &[Formula::rate(&[term("psi.io_full")])],
        caveat: "0 as long as any task of the host makes progress on any CPU.",
        manual: "cat /proc/pressure/io; sleep 10; cat /proc/pressure/io",
        ..MetricDef::EMPTY
    },
    MetricDef {
        id: "psi.irq.full.ratio",
        unit: Unit::Ratio,
        help: "Share of time in which interrupts kept tasks from running.",
        sources: &[Formula::rate(&[term("psi.irq_full")])],
        caveat: "Needs a kernel that accounts interrupt time.",
        manual: "cat /proc/pressure/irq; sleep 10; cat /proc/pressure/irq",
        ..MetricDef::EMPTY
    },
];

struct Psi;

impl Collect for Psi {
    fn sample(&mut self, host: &Host, out: &Sink) -> Result<(), Unavailable> {
        let mut first_gap = None;
        let mut seen = false;
        for (file, lines) in FILES {
            let path = format!("proc/pressure/{file}");
            let text = match host.read(&path) {
                Ok(text) => text,
                Err(error) => {
                    let gap = explain(file, &error);
                    out.gap(&format!("psi.{file}"), "", gap.clone());
                    first_gap.get_or_insert(gap);
                    continue;
                }
            };
            for (line, series) in lines {
                match Pressure::parse(text.as_bytes(), line).and_then(Pressure::total) {
                    Some(microseconds) => {
                        seen = true;
                        out.count(series, "", microseconds);
                    }
                    None => {
                        let why = format!("/{path} holds no total on the line {line:?}");
                        out.gap(series, "", Unavailable::new(Reason::Malformed, why));
                    }
                }
            }
        }
        match (seen, first_gap) {
            (false, Some(gap)) => Err(gap),
            (false, None) => Err(Unavailable::new(Reason::Malformed, "/proc/pressure holds no totals")),
            (true, _) => Ok(()),
        }
    }
}

/// Why a file gives nothing. With the accounting switched off at boot, kernels either leave the files out or refuse
/// to read them; neither can be distinguished from a kernel without it, so the remedy names both.
fn explain(file: &str, error: &SourceError) -> Unavailable {
    let gap = error.gap();
    match (error.reason, file) {
        (Reason::Absent, "irq") => {
            gap.with_remedy("a kernel of version 6.1 or later, built with CONFIG_IRQ_TIME_ACCOUNTING")
        }
        // Newer kernels refuse this one file when they gave up accounting interrupt time because the clock is unstable.
        (Reason::Disabled, "irq") => gap.with_remedy("boot without tsc=noirqtime, on a machine with a stable clock"),
        (Reason::Absent, _) => gap.with_remedy("boot with psi=1 (the kernel must be built with CONFIG_PSI)"),
        (Reason::Disabled, _) => gap.with_remedy("boot with psi=1"),
        _ => gap,
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{Story, stats};
    use super::*;

    #[test]
    fn some_and_full_of_each_file_are_rates_over_the_real_distance_of_two_readings() {
        let totals = |some: u64, full: u64| format!("some avg10=0.00 total={some}\nfull avg10=0.00 total={full}\n");
        let mut story = Story::of_seconds(3);
        story.spec.times = vec![0.0, 0.5, 2.5];
        for (at, half_seconds) in [(0, 0), (1, 1), (2, 5)] {
            for (file, some, full) in
                [("cpu", 50_000, 0), ("memory", 150_000, 25_000), ("io", 200_000, 75_000), ("irq", 0, 5000)]
            {
                story =
                    story.file(at, &format!("proc/pressure/{file}"), totals(some * half_seconds, full * half_seconds));
            }
        }
        let metrics = story.metrics(&COLLECTOR);
        for (metric, share) in [
            ("psi.cpu.some.ratio", 0.1),
            ("psi.memory.some.ratio", 0.3),
            ("psi.memory.full.ratio", 0.05),
            ("psi.io.some.ratio", 0.4),
            ("psi.io.full.ratio", 0.15),
            ("psi.irq.full.ratio", 0.01),
        ] {
            let stats = stats(&metrics, metric, "");
            assert!((stats.mean - share).abs() < 1e-9 && (stats.max - share).abs() < 1e-9, "{metric}: {stats:?}");
        }
    }

    #[test]
    fn switched_off_missing_and_denied_are_told_apart() {
        let error = |reason| SourceError { path: "proc/pressure/cpu".into(), reason, problem: "is so".into() };
        assert_eq!(explain("cpu", &error(Reason::Disabled)).remedy.as_deref(), Some("boot with psi=1"));
        assert!(explain("cpu", &error(Reason::Absent)).remedy.unwrap().contains("CONFIG_PSI"));
        assert!(explain("irq", &error(Reason::Absent)).remedy.unwrap().contains("CONFIG_IRQ_TIME_ACCOUNTING"));
        assert!(explain("cpu", &error(Reason::Denied)).remedy.unwrap().contains("root"));
    }
}
