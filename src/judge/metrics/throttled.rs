//! Waiting that is none for a CPU: the scheduler counts the time for which a quota stops a task as waiting in the run queue (seen on Linux
//! 6.18, and so since quotas exist), although the CPUs may idle. What is known of such waits is left out here, and rules count waiting as
//! CPU saturation only where the CPUs were in fact busy.

use super::formula::Part;
use super::process::{self, RunDelay};
use super::table::Table;
use rdiag_model::recording::Process;

/// Series of control groups that grow when a quota stops the group.
const STOPS: [&str; 2] = ["cgroup_cpu.throttled_periods", "cgroup_cpu.held"];

/// The control groups that a quota stopped within the window.
pub(super) fn groups<'w>(table: &Table<'w>) -> Vec<&'w str> {
    let all = STOPS.iter().filter_map(|name| table.series.get(name)).flatten();
    let stopped = all.filter(|(_, series)| {
        let values: Vec<f64> = series.values.iter().flatten().map(|value| value.as_f64()).collect();
        values.first().zip(values.last()).is_some_and(|(first, last)| last > first)
    });
    stopped.filter_map(|(_, series)| series.instance.as_deref()).collect()
}

/// Whether a process is in one of these groups, or below. Of a process whose groups were not read, nothing is known.
pub(super) fn is_in(process: &Process, groups: &[&str]) -> bool {
    let own = process.cgroup.iter().chain(&process.other_cgroups);
    // A path that leads out of the namespace names no group that is visible here.
    own.filter(|path| !path.starts_with("/..")).any(|path| {
        groups.iter().any(|group| {
            let rest = path.strip_prefix(group.trim_end_matches('/'));
            rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
        })
    })
}

/// Seconds for which tasks of stopped groups waited, by the samples of the table of processes. Empty where no group was
/// stopped.
pub(super) fn waits(table: &Table<'_>) -> Vec<RunDelay> {
    let groups = groups(table);
    if groups.is_empty() { Vec::new() } else { process::run_delays(table, |process| is_in(process, &groups)) }
}

/// The change of waiting and running in a sub-window, without the waits of stopped tasks.
pub(super) fn less(waits: &[RunDelay], part: Part) -> Part {
    let held: f64 = waits
        .iter()
        .map(|wait| {
            let shared = part.to.min(wait.to) - part.from.max(wait.from);
            wait.seconds * (shared / (wait.to - wait.from).max(1e-9)).clamp(0.0, 1.0)
        })
        .sum();
    let over = (part.over - held).max(0.0);
    Part { over, under: part.under - part.over + over, ..part }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_waits_of_stopped_tasks_are_taken_off_where_they_overlap() {
        let waits = [RunDelay { from: 0.0, to: 1.0, seconds: 2.0 }, RunDelay { from: 1.0, to: 2.0, seconds: 1.0 }];
        let part = less(&waits, Part { from: 0.5, to: 1.5, over: 4.0, under: 6.0 });
        assert!((part.over - 2.5).abs() < 1e-9 && (part.under - 4.5).abs() < 1e-9, "{part:?}");
        let part = less(&waits, Part { from: 0.0, to: 1.0, over: 1.0, under: 2.0 });
        assert_eq!((part.over, part.under), (0.0, 1.0), "more cannot be taken off than there is");
    }

    #[test]
    fn a_process_is_in_a_stopped_group_by_any_of_its_paths() {
        let process = |main: &str, other: &str| Process {
            cgroup: Some(main.into()),
            other_cgroups: vec![other.into()],
            ..Process::default()
        };
        assert!(is_in(&process("/x", "/a/b"), &["/a"]));
        assert!(is_in(&process("/", "/"), &["/"]));
        assert!(!is_in(&process("/ab", "/x"), &["/a"]));
        assert!(!is_in(&process("/../../x", "/.."), &["/"]), "that is outside of the namespace");
        assert!(!is_in(&Process::default(), &["/"]));
    }
}
