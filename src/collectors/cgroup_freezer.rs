//! Which control groups are frozen, and how many tasks they hold: frozen on purpose, by `docker pause`, by a service manager, by hand.
//!
//! The kernels' two freezers show their tasks unlike each other. That of v1 leaves them in state D, so they look hung. That of v2 handles
//! them like a signal: they sleep interruptibly (state S) in get_signal, into which do_freezer_trap is mostly inlined, and look idle. So
//! the groups are asked, not the tasks: freezer.state of v1, `frozen` of cgroup.events of v2. Both say so once all tasks are frozen: one
//! that waits in D state under v2 is not, until its wait ends.

use std::collections::{BTreeMap, BTreeSet};

use crate::def::{Cadence, Collect, CollectorDef, Sink};
use rdiag_kernel::host::Host;
use rdiag_kernel::host::cgroups::{Hierarchy, Version, Watch, keyed};
use rdiag_model::metric::{Formula, MetricDef, SeriesDef, term};
use rdiag_model::{Deed, RawUnit, Reason, Unavailable, Unit};

pub(super) static COLLECTOR: CollectorDef = CollectorDef {
    id: "cgroup_freezer",
    help: "Frozen control groups and their tasks, v1 and v2, from freezer.state and cgroup.events.",
    cadence: Cadence::Ends,
    series: SERIES,
    metrics: METRICS,
    overhead: "at either end of the window a walk over at most 2000 groups of each tree, about 10 µs each",
    start: |_| Box::new(CgroupFreezer),
};

const SERIES: &[SeriesDef] = &[
    SeriesDef::gauge("cgroup_freezer.tasks", RawUnit::Count, "tasks (v1) or cgroup.threads (v2) of frozen groups"),
    SeriesDef::gauge(
        "cgroup_freezer.group",
        RawUnit::Count,
        "freezer.state FROZEN (v1) or cgroup.events frozen 1 (v2); tasks or cgroup.threads of the group and those below",
    ),
];

const MANUAL: &str = "grep -rl --include=cgroup.events 'frozen 1' /sys/fs/cgroup; grep -rl --include=freezer.state FROZEN /sys/fs/cgroup";

const METRICS: &[MetricDef] = &[
    MetricDef {
        id: "tasks.frozen.count",
        unit: Unit::Count,
        help: "Tasks that the freezer of a control group holds.",
        sources: &[Formula::level(&[term("cgroup_freezer.tasks")]), Formula::level(&[term("blocked_tasks.frozen")])],
        caveat: "Of the groups that are visible here, as soon as all tasks of a group are frozen. Where no group is \
                 visible: tasks in D state whose kernel stack shows the freezer of v1.",
        manual: MANUAL,
        ..MetricDef::EMPTY
    },
    MetricDef {
        id: "cgroup.frozen.count",
        unit: Unit::Count,
        dimension: Some("cgroup"),
        help: "Tasks of a frozen control group and of the groups below it.",
        sources: &[Formula::level(&[term("cgroup_freezer.group")])],
        caveat: "A frozen group within a frozen group is part of that. A group that is still freezing does not count.",
        manual: MANUAL,
        deed: Some(Deed { verb: "held", of: "the frozen tasks", ..Deed::USUAL }),
    },
];

struct CgroupFreezer;

impl Collect for CgroupFreezer {
    fn sample(&mut self, host: &Host, out: &Sink) -> Result<(), Unavailable> {
        let v1 = Hierarchy::find(host, "freezer").ok().filter(|tree| tree.version == Version::V1);
        let trees: Vec<Hierarchy> = v1.into_iter().chain(Hierarchy::unified(host)).collect();
        if trees.is_empty() {
            let why = "no tree of control groups that can freeze tasks is mounted";
            return Err(Unavailable::new(Reason::NotApplicable, why));
        }
        // A thread may be in a frozen group of either tree.
        let mut all = BTreeSet::new();
        let mut foreign = 0;
        let mut any = false;
        for tree in trees {
            let mut watch = Watch::new(host, tree, "freezer");
            watch.refresh(host, |tree, group| is_frozen(host, tree, group));
            for (rest, gap) in watch.not_seen().into_iter().chain(watch.hidden()) {
                out.gap("cgroup_freezer.group", rest, gap);
            }
            for (group, tasks) in by_topmost(host, &watch) {
                foreign += tasks.foreign;
                let count = tasks.known.len() + tasks.foreign;
                all.extend(tasks.known);
                if count > 0 {
                    any = true;
                    out.level("cgroup_freezer.group", &group, count as f64);
                    watch.label(&group, &mut |key, value| out.label(&group, key, value));
                    watch.weigh(&group, f64::INFINITY);
                }
            }
            for (group, names) in watch.processes(host) {
                out.label(group, "processes", names);
            }
        }
        out.level("cgroup_freezer.tasks", "", (all.len() + foreign) as f64);
        if !any {
            let gap = Unavailable::new(Reason::NotApplicable, "no control group with tasks is frozen");
            out.gap("cgroup_freezer.group", "", gap);
        }
        Ok(())
    }
}

#[derive(Default)]
struct Tasks {
    known: BTreeSet<u32>,
    /// Those of other pid namespaces, which the kernel shows as 0.
    foreign: usize,
}

/// The tasks of each frozen group that is within no other frozen one.
fn by_topmost(host: &Host, watch: &Watch) -> BTreeMap<String, Tasks> {
    let mut found: BTreeMap<String, Tasks> = BTreeMap::new();
    let list = match watch.hierarchy.version {
        Version::V1 => "tasks",
        Version::V2 => "cgroup.threads",
    };
    for (member, frozen) in &watch.members {
        let mut topmost = frozen;
        while let Some(above) = topmost.rsplit_once('/').and_then(|(above, _)| watch.members.get(above)) {
            topmost = above;
        }
        let tasks = found.entry(topmost.clone()).or_default();
        let text = host.read(&watch.hierarchy.file(member, list)).unwrap_or_default();
        for id in text.lines().filter_map(|line| line.parse().ok()) {
            if id == 0 {
                tasks.foreign += 1;
            } else {
                tasks.known.insert(id);
            }
        }
    }
    found
}

/// Whether all tasks of a group are frozen.
fn is_frozen(host: &Host, tree: &Hierarchy, group: &str) -> bool {
    match tree.version {
        Version::V1 => host.read_line(&tree.file(group, "freezer.state")).is_ok_and(|state| state.trim() == "FROZEN"),
        Version::V2 => {
            host.read(&tree.file(group, "cgroup.events")).is_ok_and(|events| keyed(&events, "frozen") == Some(1))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{Story, stats};
    use super::*;

    const V2: &str = "sys/fs/cgroup";
    const V1: &str = "sys/fs/cgroup/freezer";

    fn ids(range: std::ops::Range<u32>) -> String {
        range.map(|id| format!("{id}\n")).collect()
    }

    fn pure_v2() -> Story {
        Story::of_seconds(2)
            .file(0, &format!("{V2}/cgroup.controllers"), "cpu memory\n")
            .file(0, &format!("{V2}/cgroup.threads"), "1\n")
            .file(0, &format!("{V2}/idle.slice/cgroup.events"), "populated 1\nfrozen 0\n")
            .file(0, &format!("{V2}/idle.slice/cgroup.threads"), ids(50..60))
    }

    #[test]
    fn the_tasks_of_a_frozen_group_of_v2_are_counted_though_they_look_asleep() {
        let story = pure_v2()
            .file(0, &format!("{V2}/paused/cgroup.events"), "populated 1\nfrozen 1\n")
            .file(0, &format!("{V2}/paused/cgroup.threads"), ids(100..130))
            .file(0, &format!("{V2}/paused/below/cgroup.events"), "populated 1\nfrozen 1\n")
            .file(0, &format!("{V2}/paused/below/cgroup.threads"), "130\n0\n")
            .file(0, &format!("{V2}/paused/cgroup.procs"), "100\n")
            .file(0, "proc/100/comm", "worker\n");
        let metrics = story.metrics(&COLLECTOR);
        assert_eq!(stats(&metrics, "tasks.frozen.count", "").last, 32.0);
        assert_eq!(stats(&metrics, "cgroup.frozen.count", "/paused").last, 32.0);
        assert!(metrics.stats("cgroup.frozen.count", "/paused/below").is_err(), "it is part of the group above");
        let labels = &metrics.labels["cgroup"]["/paused"];
        assert_eq!((labels["version"].as_str(), labels["processes"].as_str()), ("v2", "worker"));
    }

    #[test]
    fn a_group_that_is_empty_or_still_freezing_holds_no_task() {
        let story = pure_v2()
            .file(0, &format!("{V2}/empty/cgroup.events"), "populated 0\nfrozen 1\n")
            .file(0, &format!("{V2}/empty/cgroup.threads"), "")
            .file(0, &format!("{V2}/freezing/cgroup.freeze"), "1\n")
            .file(0, &format!("{V2}/freezing/cgroup.events"), "populated 1\nfrozen 0\n")
            .file(0, &format!("{V2}/freezing/cgroup.threads"), "9\n");
        let metrics = story.metrics(&COLLECTOR);
        assert_eq!(stats(&metrics, "tasks.frozen.count", "").last, 0.0);
        assert!(metrics.stats("cgroup.frozen.count", "/empty").is_err());
    }

    #[test]
    fn on_a_hybrid_host_both_freezers_are_asked_and_no_task_counts_twice() {
        let story = Story::of_seconds(2)
            .file(0, &format!("{V1}/cgroup.procs"), "")
            .file(0, &format!("{V1}/release_agent"), "")
            .file(0, &format!("{V1}/a/freezer.state"), "FROZEN\n")
            .file(0, &format!("{V1}/a/tasks"), ids(10..13))
            .file(0, &format!("{V1}/b/freezer.state"), "THAWED\n")
            .file(0, &format!("{V1}/b/tasks"), ids(20..25))
            .file(0, "sys/fs/cgroup/unified/cgroup.controllers", "")
            .file(0, "sys/fs/cgroup/unified/c/cgroup.events", "populated 1\nfrozen 1\n")
            .file(0, "sys/fs/cgroup/unified/c/cgroup.threads", ids(12..14));
        let metrics = story.metrics(&COLLECTOR);
        assert_eq!(stats(&metrics, "tasks.frozen.count", "").last, 4.0);
        assert_eq!(stats(&metrics, "cgroup.frozen.count", "/a").last, 3.0);
        assert_eq!(stats(&metrics, "cgroup.frozen.count", "/c").last, 2.0);
    }

    #[test]
    fn where_no_group_can_be_seen_nothing_is_claimed() {
        let story = Story::of_seconds(2).file(0, "proc/1/stat", "1 (init) S 0\n");
        let metrics = story.metrics(&COLLECTOR);
        assert!(metrics.stats("tasks.frozen.count", "").is_err());
    }
}
