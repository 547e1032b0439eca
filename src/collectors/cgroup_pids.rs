//! Limits on the number of tasks of control groups (the pids controller): how full, and how often a fork was refused.

use std::collections::BTreeMap;

use crate::def::{Cadence, Collect, CollectorDef, Sink};
use rdiag_kernel::host::Host;
use rdiag_kernel::host::cgroups::{Hierarchy, Tally, Watch, keyed};
use rdiag_model::metric::{Formula, MetricDef, SeriesDef, term};
use rdiag_model::{CollectorRecord, RawUnit, Reason, Unavailable, Unit};

pub(super) static COLLECTOR: CollectorDef = CollectorDef {
    id: "cgroup_pids",
    help: "Tasks, limit and refused forks of the control groups that have a limit on tasks, v1 and v2.",
    cadence: Cadence::Interval,
    series: SERIES,
    metrics: METRICS,
    overhead: "three small reads per interval and group with a limit; every fifth time a walk over at most 2000 groups; \
               at the end the processes of at most 200",
    start: |host| Box::new(CgroupPids::new(host)),
};

const SERIES: &[SeriesDef] = &[
    SeriesDef::gauge("cgroup_pids.current", RawUnit::Count, "pids.current"),
    SeriesDef::gauge("cgroup_pids.limit", RawUnit::Count, "pids.max"),
    SeriesDef::counter(
        "cgroup_pids.refused",
        RawUnit::Count,
        "pids.events.local, max; before Linux 6.11 and on v1: pids.events, max, of the group and those below without a \
         limit",
    ),
    SeriesDef::counter("cgroup_pids.identity", RawUnit::Count, "inode of the group's directory"),
];

const METRICS: &[MetricDef] = &[
    MetricDef {
        id: "cgroup.pids.current.count",
        unit: Unit::Count,
        dimension: Some("cgroup"),
        help: "Processes and threads in the group and the groups below.",
        sources: &[Formula::level(&[term("cgroup_pids.current")])],
        caveat: "Threads count like processes.",
        manual: "cat /sys/fs/cgroup/GROUP/pids.current",
        ..MetricDef::EMPTY
    },
    MetricDef {
        id: "cgroup.pids.limit.count",
        unit: Unit::Count,
        dimension: Some("cgroup"),
        help: "Processes and threads that the group may have.",
        sources: &[Formula::level(&[term("cgroup_pids.limit")])],
        caveat: "A group above may allow less.",
        manual: "cat /sys/fs/cgroup/GROUP/pids.max",
        ..MetricDef::EMPTY
    },
    MetricDef {
        id: "cgroup.pids.used.ratio",
        unit: Unit::Ratio,
        dimension: Some("cgroup"),
        help: "Share of the group's limit on tasks that is in use.",
        sources: &[Formula::level_ratio(&[term("cgroup_pids.current")], &[term("cgroup_pids.limit")])],
        caveat: "Sampled once per interval: short-lived tasks may be missed.",
        manual: "cat /sys/fs/cgroup/GROUP/pids.current /sys/fs/cgroup/GROUP/pids.max",
        ..MetricDef::EMPTY
    },
    MetricDef {
        id: "cgroup.pids.refused.count",
        unit: Unit::Count,
        dimension: Some("cgroup"),
        help: "Forks and new threads that failed because of the group's limit on tasks.",
        sources: &[Formula::change(&[term("cgroup_pids.refused")])],
        caveat: "Before Linux 6.11, and on v1, a refusal is counted where the fork was tried, and is taken for the \
                 nearest limit.",
        manual: "cat /sys/fs/cgroup/GROUP/pids.events",
        ..MetricDef::EMPTY
    },
];

struct CgroupPids {
    state: Result<State, Unavailable>,
}

struct State {
    watch: Watch,
    refused: Tally,
    /// Refusals of each group when it was first seen.
    begin: BTreeMap<String, u64>,
    /// Whether the kernel has pids.events.local; known once a group with a limit was seen.
    local: Option<bool>,
}

impl CgroupPids {
    fn new(host: &Host) -> Self {
        let state = Hierarchy::find(host, "pids").map(|hierarchy| State {
            watch: Watch::new(host, hierarchy, "pids"),
            refused: Tally::default(),
            begin: BTreeMap::new(),
            local: None,
        });
        Self { state }
    }
}

impl Collect for CgroupPids {
    fn sample(&mut self, host: &Host, out: &Sink) -> Result<(), Unavailable> {
        let state = self.state.as_mut().map_err(|gap| gap.clone())?;
        state.watch.refresh(host, |hierarchy, group| limit(host, hierarchy, group).is_some());
        for (rest, gap) in state.watch.not_seen().into_iter().chain(state.watch.hidden()) {
            out.gap("cgroup_pids.current", rest, gap.clone());
            out.gap("cgroup_pids.limit", rest, gap);
        }
        state.count_refusals(host);
        for group in state.watch.limited() {
            state.record(host, &group, out);
        }
        Ok(())
    }

    fn finish(&mut self, host: &Host, out: &Sink) {
        let Ok(State { watch, .. }) = &self.state else { return };
        for (group, names) in watch.processes(host) {
            out.label(group, "processes", names);
        }
        for (group, list) in watch.lists(host) {
            out.label(group, CollectorRecord::MEMBERS, list);
        }
        let worth = watch.worth_reporting();
        if worth.is_empty() {
            let why = format!("none of the control groups here ({}) has a limit on tasks", watch.seen);
            out.gap("cgroup_pids.", "", Unavailable::new(Reason::NotApplicable, why));
        }
        out.retain_instances(|group| worth.contains(group));
    }
}

impl State {
    /// Since Linux 6.11 pids.events of v2 counts for the group whose limit it was and for all above it, and
    /// pids.events.local for the former alone. Before, and still on v1, pids.events counts where the fork was tried.
    fn count_refusals(&mut self, host: &Host) {
        let hierarchy = &self.watch.hierarchy;
        for (group, limited_by) in &self.watch.members {
            let local = *self.local.get_or_insert_with(|| host.exists(&hierarchy.file(group, "pids.events.local")));
            let name = if local { "pids.events.local" } else { "pids.events" };
            let text = host.read(&hierarchy.file(group, name)).unwrap_or_default();
            if let Some(count) = keyed(&text, "max") {
                self.refused.add(group, limited_by, count);
            }
        }
    }

    /// Records a group; nothing of it when it is gone or has lost its limit.
    fn record(&mut self, host: &Host, group: &str, out: &Sink) {
        let hierarchy = &self.watch.hierarchy;
        let Some(limit) = limit(host, hierarchy, group) else { return };
        let Ok(current) = host.read_u64(&hierarchy.file(group, "pids.current")) else { return };
        if let Some(inode) = hierarchy.inode(host, group) {
            out.count("cgroup_pids.identity", group, inode);
        }
        let refused = self.refused.total(group);
        out.level("cgroup_pids.limit", group, limit as f64);
        out.level("cgroup_pids.current", group, current as f64);
        out.count("cgroup_pids.refused", group, refused);
        let first = *self.begin.entry(group.to_owned()).or_insert(refused);
        let share = current as f64 / limit.max(1) as f64;
        self.watch.weigh(group, if refused > first { f64::INFINITY } else { share });
        self.watch.label(group, &mut |key, value| out.label(group, key, value));
    }
}

/// Tasks that a group's own limit allows; none without a limit (`max` is no whole number), or when the group is gone.
fn limit(host: &Host, hierarchy: &Hierarchy, group: &str) -> Option<u64> {
    host.read_u64(&hierarchy.file(group, "pids.max")).ok()
}

#[cfg(test)]
mod tests {
    use super::super::testing::{Story, instances, stats};
    use super::*;

    const TREE: &str = "sys/fs/cgroup/pids";

    fn group(story: Story, path: &str, current: &str, max: &str, refused: &str) -> Story {
        story
            .file(0, &format!("{TREE}/{path}/pids.current"), current)
            .file(0, &format!("{TREE}/{path}/pids.max"), max)
            .file(0, &format!("{TREE}/{path}/pids.events"), format!("max {refused}\n"))
    }

    fn story() -> Story {
        let root = Story::of_seconds(3).file(0, &format!("{TREE}/cgroup.procs"), "").file(
            0,
            &format!("{TREE}/release_agent"),
            "",
        );
        group(group(root, "a", "18\n", "20\n", "1"), "a/b", "10\n", "max\n", "4")
    }

    #[test]
    fn a_refused_fork_counts_for_the_nearest_limit() {
        let story = story()
            .file(1, &format!("{TREE}/a/b/pids.events"), "max 7\n")
            .file(1, &format!("{TREE}/a/cgroup.procs"), "10\n")
            .file(1, &format!("{TREE}/a/b/cgroup.procs"), "0\n11\n12\n13\n")
            .file(1, &format!("{TREE}/free/cgroup.procs"), "14\n")
            .file(0, "proc/10/comm", "sh\n")
            .file(0, "proc/11/comm", "sleep\n")
            .file(0, "proc/12/comm", "sleep\n");
        assert_eq!(story.record(&COLLECTOR).labels["/a"][CollectorRecord::MEMBERS], "10 /a\n11 12 13 /a/b\n");
        let metrics = story.metrics(&COLLECTOR);
        assert_eq!(instances(&metrics, "cgroup.pids.used.ratio"), ["/a"]);
        assert_eq!(stats(&metrics, "cgroup.pids.refused.count", "/a").total, 3.0);
        assert_eq!(stats(&metrics, "cgroup.pids.used.ratio", "/a").max, 0.9);
        assert_eq!(metrics.labels["cgroup"]["/a"]["processes"], "sleep ×2, sh");
        assert!(!metrics.labels["cgroup"]["/a"].contains_key(CollectorRecord::MEMBERS), "that is no name of a group");
    }

    #[test]
    fn newer_kernels_say_whose_limit_it_was() {
        let metrics = story()
            .file(0, &format!("{TREE}/a/pids.events.local"), "max 0\n")
            .file(1, &format!("{TREE}/a/pids.events"), "max 9\n")
            .metrics(&COLLECTOR);
        assert_eq!(stats(&metrics, "cgroup.pids.refused.count", "/a").total, 0.0);
    }

    #[test]
    fn of_many_groups_only_the_fullest_are_reported() {
        let mut story = story();
        for number in 0..60 {
            story = group(story, &format!("s{number}"), "1\n", "1000\n", "0");
        }
        let names = instances(&story.metrics(&COLLECTOR), "cgroup.pids.used.ratio");
        assert_eq!(names.len(), 30);
        assert!(names.contains(&"/a".to_owned()));
    }

    #[test]
    fn broken_files_leave_the_group_out_and_nothing_panics() {
        for text in ["", "x", "-1", "99999999999999999999"] {
            let metrics = group(story(), "c", text, text, text).metrics(&COLLECTOR);
            assert_eq!(instances(&metrics, "cgroup.pids.used.ratio"), ["/a"], "{text:?}");
        }
    }
}
