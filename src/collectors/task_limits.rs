//! How many tasks (processes and their threads) the host may have. Running into a limit is counted nowhere; only
//! tracing system calls shows fork and clone failing.

use crate::def::{Cadence, Collect, CollectorDef, Sink};
use rdiag_kernel::host::{FIRST_PID_NAMESPACE, Host};
use rdiag_model::metric::{Formula, MetricDef, SeriesDef, term};
use rdiag_model::{RawUnit, Reason, Unavailable, Unit};
use rdiag_proc::LoadAverage;

pub(super) static COLLECTOR: CollectorDef = CollectorDef {
    id: "task_limits",
    help: "Tasks of the host against threads-max and pid_max, from /proc/loadavg and /proc/sys/kernel.",
    cadence: Cadence::Ends,
    series: SERIES,
    metrics: METRICS,
    overhead: "three small reads, twice in a window",
    start: |_| Box::new(TaskLimits),
};

const SERIES: &[SeriesDef] = &[
    SeriesDef::gauge("task_limits.tasks", RawUnit::Count, "/proc/loadavg, field 4 after the slash"),
    SeriesDef::gauge("task_limits.threads_max", RawUnit::Count, "/proc/sys/kernel/threads-max"),
    SeriesDef::gauge("task_limits.pid_max", RawUnit::Count, "/proc/sys/kernel/pid_max"),
];

const METRICS: &[MetricDef] = &[
    MetricDef {
        id: "tasks.pid_max.ratio",
        unit: Unit::Ratio,
        help: "Tasks of the host as a share of the ids that there are for them.",
        sources: &[Formula::level_ratio(&[term("task_limits.tasks")], &[term("task_limits.pid_max")])],
        caveat: "Every thread takes an id, not only every process.",
        manual: "cat /proc/loadavg /proc/sys/kernel/pid_max",
        ..MetricDef::EMPTY
    },
    MetricDef {
        id: "tasks.threads_max.ratio",
        unit: Unit::Ratio,
        help: "Tasks of the host as a share of the most that the kernel will create.",
        sources: &[Formula::level_ratio(&[term("task_limits.tasks")], &[term("task_limits.threads_max")])],
        caveat: "Follows from the size of the memory unless it was set.",
        manual: "cat /proc/loadavg /proc/sys/kernel/threads-max",
        ..MetricDef::EMPTY
    },
    MetricDef {
        id: "tasks.pid_max.count",
        unit: Unit::Count,
        help: "How many ids there are for tasks.",
        sources: &[Formula::level(&[term("task_limits.pid_max")])],
        caveat: "In a process namespace other than the first it is not compared: it may be that namespace's own (since \
                 Linux 6.14).",
        manual: "cat /proc/sys/kernel/pid_max",
        ..MetricDef::EMPTY
    },
];

struct TaskLimits;

impl Collect for TaskLimits {
    fn sample(&mut self, host: &Host, out: &Sink) -> Result<(), Unavailable> {
        let load = host.read("proc/loadavg")?;
        let malformed = || Unavailable::new(Reason::Malformed, "/proc/loadavg does not tell the number of tasks");
        out.level("task_limits.tasks", "", f64::from(LoadAverage::parse(load.as_bytes()).ok_or_else(malformed)?.tasks));
        for (series, path) in [
            ("task_limits.threads_max", "proc/sys/kernel/threads-max"),
            ("task_limits.pid_max", "proc/sys/kernel/pid_max"),
        ] {
            if series == "task_limits.pid_max" && has_ids_of_its_own(host) {
                let why = "the limit that a container sees is its own, and the tasks that it sees counted are those of the host";
                out.gap(series, "", Unavailable::new(Reason::NotVisible, why).with_remedy("run rdiag on the host"));
                continue;
            }
            match host.read_u64(path) {
                Ok(limit) => out.level(series, "", limit as f64),
                Err(error) => out.gap(series, "", error.gap()),
            }
        }
        Ok(())
    }
}

/// Whether kernel.pid_max may be that of a namespace of process ids, as it is since Linux 6.14; /proc/loadavg counts the tasks of the host.
fn has_ids_of_its_own(host: &Host) -> bool {
    let is_elsewhere = host.link("proc/self/ns/pid").is_ok_and(|namespace| namespace != FIRST_PID_NAMESPACE);
    is_elsewhere && host.facts().kernel_version().is_none_or(|version| version >= (6, 14))
}

#[cfg(test)]
mod tests {
    use super::super::testing::{Story, gap, stats};
    use super::*;

    #[test]
    fn tasks_are_compared_with_both_limits() {
        let metrics = Story::of_seconds(2)
            .file(0, "proc/loadavg", "3.66 1.77 0.79 3/30000 29610\n")
            .file(0, "proc/sys/kernel/pid_max", "32768\n")
            .file(0, "proc/sys/kernel/threads-max", "192730\n")
            .metrics(&COLLECTOR);
        assert!((stats(&metrics, "tasks.pid_max.ratio", "").last - 30000.0 / 32768.0).abs() < 1e-9);
        assert!((stats(&metrics, "tasks.threads_max.ratio", "").last - 30000.0 / 192_730.0).abs() < 1e-9);
    }

    #[test]
    fn a_limit_that_is_not_there_leaves_the_other() {
        let story = Story::of_seconds(2).file(0, "proc/loadavg", "0 0 0 1/100 9\n");
        let metrics = story.file(0, "proc/sys/kernel/pid_max", "1000\n").metrics(&COLLECTOR);
        assert!((stats(&metrics, "tasks.pid_max.ratio", "").last - 0.1).abs() < 1e-9);
        assert_eq!(gap(&metrics, "tasks.threads_max.ratio", "").reason, Reason::Absent);
        for (kernel, namespace, seen) in [
            ("6.12.1", "pid:[4026532201]", true),
            ("6.14.0", "pid:[4026532201]", false),
            ("7.2", "pid:[4026532201]", false),
            ("7.2", FIRST_PID_NAMESPACE, true),
        ] {
            let mut story = Story::of_seconds(1).file(0, "proc/loadavg", "0 0 0 1/100 9\n");
            story = story.file(0, "proc/sys/kernel/pid_max", "1000\n");
            story.link("proc/self/ns/pid", namespace);
            story.spec.facts = Some(rdiag_model::Facts { kernel: kernel.into(), ..rdiag_model::Facts::default() });
            let ratio = story.metrics(&COLLECTOR).stats("tasks.pid_max.ratio", "").is_ok();
            assert_eq!(ratio, seen, "{kernel} {namespace}");
        }
        let broken = Story::of_seconds(2).file(0, "proc/loadavg", "0 0 0 100 9\n").metrics(&COLLECTOR);
        assert_eq!(gap(&broken, "tasks.pid_max.ratio", "").reason, Reason::Malformed);
    }
}
