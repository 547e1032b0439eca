//! What is derived from the series of the memory controller.

use rdiag_model::metric::{Formula, MetricDef, SeriesDef, term};
use rdiag_model::{RawUnit, Unit};

pub(super) const SERIES: &[SeriesDef] = &[
    SeriesDef::gauge("cgroup_memory.limit", RawUnit::Bytes, "memory.max or memory.high; v1: memory.limit_in_bytes"),
    SeriesDef::gauge(
        "cgroup_memory.used",
        RawUnit::Bytes,
        "memory.stat, anon + shmem + kernel_stack + pagetables + sec_pagetables + percpu + sock + vmalloc + \
         slab_unreclaimable; v1: total_rss + total_shmem",
    ),
    SeriesDef::gauge("cgroup_memory.charged", RawUnit::Bytes, "memory.current; v1: memory.usage_in_bytes"),
    SeriesDef::counter("cgroup_memory.limit_hits", RawUnit::Count, "memory.events.local, max; v1: memory.failcnt"),
    SeriesDef::counter("cgroup_memory.high", RawUnit::Count, "memory.events.local, high"),
    SeriesDef::counter("cgroup_memory.out_of_memory", RawUnit::Count, "memory.events.local, oom"),
    SeriesDef::counter(
        "cgroup_memory.oom_kill",
        RawUnit::Count,
        "memory.events, oom_kill; v1: memory.oom_control, oom_kill, of the group and those below without a limit",
    ),
    SeriesDef::gauge("cgroup_memory.oom_kill_so_far", RawUnit::Count, "the same, since the group was made"),
    SeriesDef::counter(
        "cgroup_memory.refaults",
        RawUnit::Count,
        "memory.stat, workingset_refault_anon + workingset_refault_file; v1: total_workingset_refault_*",
    ),
    SeriesDef::counter("cgroup_memory.major_faults", RawUnit::Count, "memory.stat, pgmajfault; v1: total_pgmajfault"),
    SeriesDef::counter("cgroup_memory.stalled_some", RawUnit::Microseconds, "memory.pressure, some total="),
    SeriesDef::counter("cgroup_memory.stalled_full", RawUnit::Microseconds, "memory.pressure, full total="),
    SeriesDef::counter("cgroup_memory.identity", RawUnit::Count, "inode of the group's directory"),
];

const EVENTS: &str = "cat /sys/fs/cgroup/GROUP/memory.events";
const STAT: &str = "cat /sys/fs/cgroup/GROUP/memory.stat";
const PRESSURE: &str = "cat /sys/fs/cgroup/GROUP/memory.pressure";

pub(super) const METRICS: &[MetricDef] = &[
    MetricDef {
        id: "cgroup.memory.limit.bytes",
        unit: Unit::Bytes,
        dimension: Some("cgroup"),
        help: "Memory that the group may use.",
        sources: &[Formula::level(&[term("cgroup_memory.limit")])],
        caveat: "A group above may allow less.",
        manual: "cat /sys/fs/cgroup/GROUP/memory.max",
        ..MetricDef::EMPTY
    },
    MetricDef {
        id: "cgroup.memory.used.bytes",
        unit: Unit::Bytes,
        dimension: Some("cgroup"),
        help: "Memory of the group that cannot simply be dropped: anonymous, shared and kernel memory.",
        sources: &[Formula::level(&[term("cgroup_memory.used")])],
        caveat: "Page cache is not in it. On v1 kernel memory is not in it either, since v1 does not say what of it \
                 can be freed.",
        manual: STAT,
        ..MetricDef::EMPTY
    },
    MetricDef {
        id: "cgroup.memory.used_of_limit.ratio",
        unit: Unit::Ratio,
        dimension: Some("cgroup"),
        help: "Share of the group's memory limit that is taken by memory that cannot simply be dropped.",
        sources: &[Formula::level_ratio(&[term("cgroup_memory.used")], &[term("cgroup_memory.limit")])],
        caveat: "memory.current is no measure for this: it contains page cache, and stands near the limit in healthy \
                 groups.",
        manual: STAT,
        ..MetricDef::EMPTY
    },
    MetricDef {
        id: "cgroup.memory.charged_of_limit.ratio",
        unit: Unit::Ratio,
        dimension: Some("cgroup"),
        help: "Share of the group's memory limit that is charged to it, page cache included.",
        sources: &[Formula::level_ratio(&[term("cgroup_memory.charged")], &[term("cgroup_memory.limit")])],
        caveat: "Near 1 is normal for a group that reads or writes files.",
        manual: "cat /sys/fs/cgroup/GROUP/memory.current",
        ..MetricDef::EMPTY
    },
    MetricDef {
        id: "cgroup.memory.limit_hits.count",
        unit: Unit::Count,
        dimension: Some("cgroup"),
        help: "Times the group ran into its own memory limit and had to make room first.",
        sources: &[Formula::change(&[term("cgroup_memory.limit_hits")])],
        caveat: "Making room by dropping old page cache is cheap, and normal for a group that reads files.",
        manual: EVENTS,
        ..MetricDef::EMPTY
    },
    MetricDef {
        id: "cgroup.memory.high.count",
        unit: Unit::Count,
        dimension: Some("cgroup"),
        help: "Times tasks of the group were slowed down because it was above memory.high.",
        sources: &[Formula::change(&[term("cgroup_memory.high")])],
        caveat: "Only v2 has memory.high.",
        manual: EVENTS,
        ..MetricDef::EMPTY
    },
    MetricDef {
        id: "cgroup.memory.limit_failures.count",
        unit: Unit::Count,
        dimension: Some("cgroup"),
        help: "Times the group's own limit left an allocation without memory, even after making room.",
        sources: &[
            Formula::change(&[term("cgroup_memory.out_of_memory")]),
            Formula::change(&[term("cgroup_memory.limit_hits")]),
        ],
        caveat: "v1 does not count these; there every hit of the limit is taken, which is more.",
        manual: EVENTS,
        ..MetricDef::EMPTY
    },
    MetricDef {
        id: "cgroup.memory.oom_kill.count",
        unit: Unit::Count,
        dimension: Some("cgroup"),
        help: "OOM kills in the group and the groups below.",
        sources: &[Formula::change(&[term("cgroup_memory.oom_kill")])],
        caveat: "The limit behind it may be that of a group above, or the machine's memory.",
        manual: EVENTS,
        ..MetricDef::EMPTY
    },
    MetricDef {
        id: "cgroup.memory.oom_kill_so_far.count",
        unit: Unit::Count,
        dimension: Some("cgroup"),
        help: "OOM kills in the group and the groups below since the group was made.",
        sources: &[Formula::level(&[term("cgroup_memory.oom_kill_so_far")])],
        caveat: "Old kills say nothing about now.",
        manual: EVENTS,
        ..MetricDef::EMPTY
    },
    MetricDef {
        id: "cgroup.memory.refaults.per_second",
        unit: Unit::PerSecond,
        dimension: Some("cgroup"),
        help: "Refaults per second of the group: pages read back soon after they were evicted or swapped out.",
        sources: &[Formula::rate(&[term("cgroup_memory.refaults")])],
        caveat: "Reading a file that is larger than the limit again and again counts too.",
        manual: STAT,
        ..MetricDef::EMPTY
    },
    MetricDef {
        id: "cgroup.memory.major_faults.per_second",
        unit: Unit::PerSecond,
        dimension: Some("cgroup"),
        help: "Page faults per second of the group that had to wait for storage.",
        sources: &[Formula::rate(&[term("cgroup_memory.major_faults")])],
        caveat: "Starting programs causes them without any shortage.",
        manual: STAT,
        ..MetricDef::EMPTY
    },
    MetricDef {
        id: "cgroup.memory.pressure.some.ratio",
        unit: Unit::Ratio,
        dimension: Some("cgroup"),
        help: "Share of time in which at least one task of the group stalled for memory.",
        sources: &[Formula::rate(&[term("cgroup_memory.stalled_some")])],
        caveat: "Grows with the number of tasks.",
        manual: PRESSURE,
        ..MetricDef::EMPTY
    },
    MetricDef {
        id: "cgroup.memory.pressure.full.ratio",
        unit: Unit::Ratio,
        dimension: Some("cgroup"),
        help: "Share of time in which all tasks of the group that were not idle stalled for memory at once.",
        sources: &[Formula::rate(&[term("cgroup_memory.stalled_full")])],
        caveat: "0 as long as any task of the group makes progress.",
        manual: PRESSURE,
        ..MetricDef::EMPTY
    },
];
