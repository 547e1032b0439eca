//! /proc/schedstat: how long tasks ran and waited on each CPU.
//!
//! Without CONFIG_SCHEDSTATS this file is missing, but /proc/PID/schedstat works: the wait ratio then comes from the table of processes,
//! and the finding says so.

use std::hash::{Hash as _, Hasher as _};

use crate::def::{Cadence, Collect, CollectorDef, Sink};
use rdiag_kernel::host::{Host, SourceError};
use rdiag_model::metric::{Formula, MetricDef, SeriesDef, Source, Term, term};
use rdiag_model::{RawUnit, Reason, Unavailable, Unit};

pub(super) static COLLECTOR: CollectorDef = CollectorDef {
    id: "schedstat",
    help: "Time that tasks ran and waited in the run queues, from /proc/schedstat.",
    cadence: Cadence::Interval,
    series: SERIES,
    metrics: METRICS,
    overhead: "one read per interval; its length grows with CPUs times scheduling domains",
    start: |_| Box::new(SchedStat),
};

const SERIES: &[SeriesDef] = &[
    SeriesDef::counter("schedstat.run", RawUnit::Nanoseconds, "/proc/schedstat, cpuN, field 7, summed"),
    SeriesDef::counter("schedstat.wait", RawUnit::Nanoseconds, "/proc/schedstat, cpuN, field 8, summed"),
    SeriesDef::counter("schedstat.slices", RawUnit::Count, "/proc/schedstat, cpuN, field 9, summed"),
    SeriesDef::counter("schedstat.core_run", RawUnit::Nanoseconds, "/proc/schedstat, cpuN, field 7"),
    SeriesDef::counter("schedstat.core_wait", RawUnit::Nanoseconds, "/proc/schedstat, cpuN, field 8"),
    SeriesDef::counter("schedstat.identity", RawUnit::Count, "/proc/schedstat, which CPUs have a line"),
];

const CORE_WANTED: &[Term] = &[term("schedstat.core_run"), term("schedstat.core_wait")];

const METRICS: &[MetricDef] = &[
    MetricDef {
        id: "cpu.runqueue.wait.ratio",
        unit: Unit::Ratio,
        help: "Share of their runnable time that tasks spent in a run queue, waiting for a CPU.",
        sources: &[
            Formula::waiting(&[term("schedstat.wait")], &[term("schedstat.run")]),
            Formula::Taken(Source::WaitOfTasks),
        ],
        caveat: "High on an idle host too, where little time is wanted; the kernel counts tasks that a CPU quota \
                 stopped as waiting, and what is known of them is left out; the fallback sees main threads, or those \
                 threads that were read.",
        manual: "perf sched record sleep 10; perf sched timehist -s, or two reads of /proc/schedstat",
        ..MetricDef::EMPTY
    },
    MetricDef {
        id: "cpu.runqueue.delay.seconds",
        unit: Unit::Seconds,
        help: "Mean time that a task waited in the run queue each time it got a CPU.",
        sources: &[Formula::ratio(&[term("schedstat.wait")], &[term("schedstat.slices")])],
        caveat: "A mean over all tasks: it hides the long waits of a few.",
        manual: "two reads of /proc/schedstat",
        ..MetricDef::EMPTY
    },
    MetricDef {
        id: "cpu.core.wait.ratio",
        unit: Unit::Ratio,
        dimension: Some("cpu"),
        help: "Share of their runnable time that tasks spent waiting in this CPU's run queue.",
        sources: &[Formula::ratio(&[term("schedstat.core_wait")], CORE_WANTED)],
        caveat: "A wait counts on the CPU where it ends; the time for which a quota holds tasks back is in it.",
        manual: "two reads of /proc/schedstat",
        ..MetricDef::EMPTY
    },
];

struct SchedStat;

impl Collect for SchedStat {
    fn sample(&mut self, host: &Host, out: &Sink) -> Result<(), Unavailable> {
        let text = host.read("proc/schedstat").map_err(|error| explain(&error))?;
        let mut sums = [0_u64; 3];
        let mut seen = false;
        // A CPU that comes or goes brings or takes its whole past: the sums of two sets cannot be compared.
        let mut set = std::hash::DefaultHasher::new();
        for (cpu, times) in text.lines().filter_map(cpu_line) {
            seen = true;
            cpu.hash(&mut set);
            let [run, wait, _] = times;
            out.count("schedstat.core_run", cpu, run);
            out.count("schedstat.core_wait", cpu, wait);
            for (sum, value) in sums.iter_mut().zip(times) {
                *sum = sum.saturating_add(value);
            }
        }
        if !seen {
            return Err(Unavailable::new(Reason::Malformed, "/proc/schedstat holds no line of a CPU"));
        }
        out.count("schedstat.identity", "", set.finish());
        for (series, sum) in ["schedstat.run", "schedstat.wait", "schedstat.slices"].into_iter().zip(sums) {
            out.count(series, "", sum);
        }
        Ok(())
    }
}

fn explain(error: &SourceError) -> Unavailable {
    match error.reason {
        Reason::Absent => error.gap().with_remedy("a kernel built with CONFIG_SCHEDSTATS"),
        _ => error.gap(),
    }
}

/// Running, waiting (ns) and time slices of one CPU. These fields kept their places in all format versions since 15,
/// while the lines of the domains did not; only the former are read.
fn cpu_line(line: &str) -> Option<(&str, [u64; 3])> {
    let mut fields = line.strip_prefix("cpu")?.split_whitespace();
    let cpu = fields.next().filter(|cpu| cpu.chars().all(|c| c.is_ascii_digit()))?;
    let mut times = fields.skip(6).map_while(|field| field.parse().ok());
    Some((cpu, [times.next()?, times.next()?, times.next()?]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_three_of_nine_fields_are_taken() {
        assert_eq!(cpu_line("cpu12 0 0 1 2 3 4 100 200 300"), Some(("12", [100, 200, 300])));
        assert_eq!(cpu_line("cpu0 0 0 1 2 3 4 100 200 300 400 500"), Some(("0", [100, 200, 300])), "more may follow");
    }

    #[test]
    fn other_short_and_broken_lines_are_left_out() {
        for line in ["", "cpu", "version 17", "domain0 MC 03 1 2 3 4 5 6 7 8 9", "cpu0 1 2 3", "cpux 0 0 0 0 0 0 1 2 3"]
        {
            assert_eq!(cpu_line(line), None, "{line:?}");
        }
        assert_eq!(cpu_line("cpu0 0 0 0 0 0 0 1 2 99999999999999999999999"), None);
    }

    #[test]
    fn a_kernel_without_it_is_told_what_is_missing() {
        let error = SourceError { path: "proc/schedstat".into(), reason: Reason::Absent, problem: "is not".into() };
        assert!(explain(&error).remedy.unwrap().contains("CONFIG_SCHEDSTATS"));
    }
}
