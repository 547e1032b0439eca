//! How many control groups there are, and how many of them are dead and only kept by memory that is charged to them.

use crate::def::{Cadence, Collect, CollectorDef, Sink};
use rdiag_kernel::host::Host;
use rdiag_kernel::host::cgroups::{Hierarchy, Version, Watch, keyed};
use rdiag_model::metric::{Formula, MetricDef, SeriesDef, optional};
use rdiag_model::{RawUnit, Reason, Unavailable, Unit};

pub(super) static COLLECTOR: CollectorDef = CollectorDef {
    id: "cgroup_count",
    help: "Living and dying control groups, from cgroup.stat of the unified tree and /proc/cgroups.",
    cadence: Cadence::Ends,
    series: SERIES,
    metrics: METRICS,
    overhead: "two reads at either end of the window; on v1 also a walk over at most 2000 groups (about 10 µs each)",
    start: |_| Box::new(CgroupCount),
};

const SERIES: &[SeriesDef] = &[
    SeriesDef::gauge("cgroup_count.unified", RawUnit::Count, "cgroup.stat of the root, nr_descendants"),
    SeriesDef::gauge("cgroup_count.unified_dying", RawUnit::Count, "cgroup.stat of the root, nr_dying_descendants"),
    SeriesDef::gauge("cgroup_count.v1", RawUnit::Count, "/proc/cgroups, memory, num_cgroups, of v1"),
    SeriesDef::gauge(
        "cgroup_count.v1_dying",
        RawUnit::Count,
        "/proc/cgroups, memory, num_cgroups, less the groups in the tree of v1",
    ),
];

const METRICS: &[MetricDef] = &[
    MetricDef {
        id: "cgroup.groups.count",
        unit: Unit::Count,
        help: "Control groups in the unified tree and in that of v1's memory controller, dying ones included in the \
               latter.",
        sources: &[Formula::level(&[optional("cgroup_count.unified"), optional("cgroup_count.v1")])],
        caveat: "Other hierarchies of v1 are not counted.",
        manual: "cat /sys/fs/cgroup/cgroup.stat /proc/cgroups",
        ..MetricDef::EMPTY
    },
    MetricDef {
        id: "cgroup.dying.count",
        unit: Unit::Count,
        help: "Control groups that were removed and stay in the kernel, because memory is still charged to them.",
        sources: &[Formula::level(&[optional("cgroup_count.unified_dying"), optional("cgroup_count.v1_dying")])],
        caveat: "Some are normal where services come and go; they vanish when memory gets short.",
        manual: "cat /sys/fs/cgroup/cgroup.stat /proc/cgroups",
        ..MetricDef::EMPTY
    },
];

struct CgroupCount;

impl Collect for CgroupCount {
    fn sample(&mut self, host: &Host, out: &Sink) -> Result<(), Unavailable> {
        let unified = Hierarchy::unified(host);
        let memory = Hierarchy::find(host, "memory").ok().filter(|memory| memory.version == Version::V1);
        if unified.is_none() && memory.is_none() {
            return Err(Unavailable::new(
                Reason::NotApplicable,
                "no tree of control groups that tells their number is mounted",
            ));
        }
        if let Some(unified) = unified {
            let text = host.read(&unified.file(unified.first_group(), "cgroup.stat"));
            let text = text.map_err(|error| error.gap())?;
            let keys =
                [("cgroup_count.unified", "nr_descendants"), ("cgroup_count.unified_dying", "nr_dying_descendants")];
            for (series, key) in keys {
                if let Some(count) = keyed(&text, key) {
                    out.level(series, "", count as f64);
                }
            }
        }
        if let Some(count) = host.read("proc/cgroups").ok().as_deref().and_then(memory_groups)
            && let Some(memory) = memory
        {
            out.level("cgroup_count.v1", "", count as f64);
            let mut watch = Watch::new(host, memory, "memory");
            watch.refresh(host, |_, _| false);
            if watch.hidden().is_none() && watch.not_seen().is_none() {
                out.level("cgroup_count.v1_dying", "", count.saturating_sub(watch.seen as u64) as f64);
            }
        }
        Ok(())
    }
}

/// Groups in the memory controller's hierarchy.
fn memory_groups(table: &str) -> Option<u64> {
    rdiag_proc::controllers(table).find(|own| own.name == "memory")?.groups
}

#[cfg(test)]
mod tests {
    use super::super::testing::{Story, stats};
    use super::*;

    #[test]
    fn groups_that_the_kernel_counts_and_the_tree_does_not_show_are_dying() {
        let memory = "sys/fs/cgroup/memory";
        let story = Story::of_seconds(2)
            .file(0, "proc/cgroups", "#subsys_name\thierarchy\tnum_cgroups\tenabled\nmemory\t4\t14\t1\n")
            .file(0, &format!("{memory}/cgroup.procs"), "")
            .file(0, &format!("{memory}/release_agent"), "")
            .file(0, &format!("{memory}/a/b/cgroup.procs"), "")
            .file(0, "sys/fs/cgroup/unified/cgroup.controllers", "")
            .file(0, "sys/fs/cgroup/unified/cgroup.stat", "nr_descendants 5\nnr_dying_descendants 2\n");
        let metrics = story.metrics(&COLLECTOR);
        assert_eq!(stats(&metrics, "cgroup.dying.count", "").last, 13.0, "14 less 3 of v1, and 2 of v2");
        assert_eq!(stats(&metrics, "cgroup.groups.count", "").last, 19.0);
    }
}
