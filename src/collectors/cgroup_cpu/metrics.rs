//! What is derived from the series of the cpu controller.

use rdiag_model::metric::{Formula, MetricDef, SeriesDef, minus, term};
use rdiag_model::{RawUnit, Unit};

pub(super) const SERIES: &[SeriesDef] = &[
    SeriesDef::gauge("cgroup_cpu.quota", RawUnit::Count, "cpu.max; v1: cpu.cfs_quota_us / cpu.cfs_period_us"),
    SeriesDef::counter("cgroup_cpu.usage", RawUnit::Nanoseconds, "cpu.stat, usage_usec × 1000; v1: cpuacct.usage"),
    SeriesDef::counter("cgroup_cpu.periods", RawUnit::Count, "cpu.stat, nr_periods"),
    SeriesDef::counter("cgroup_cpu.throttled_periods", RawUnit::Count, "cpu.stat, nr_throttled"),
    SeriesDef::counter(
        "cgroup_cpu.throttled",
        RawUnit::Nanoseconds,
        "cpu.stat, throttled_usec × 1000; v1: throttled_time",
    ),
    SeriesDef::counter(
        "cgroup_cpu.held",
        RawUnit::Nanoseconds,
        "cpu.stat.local of the topmost group, throttled_usec × 1000; v1: throttled_time",
    ),
    SeriesDef::counter(
        "cgroup_cpu.held_by_itself",
        RawUnit::Nanoseconds,
        "cpu.stat of the topmost group, throttled_usec × 1000; v1: throttled_time",
    ),
    SeriesDef::counter("cgroup_cpu.stalled", RawUnit::Microseconds, "cpu.pressure, full total="),
    SeriesDef::counter("cgroup_cpu.identity", RawUnit::Count, "inode of the group's directory"),
];

pub(super) const METRICS: &[MetricDef] = &[
    MetricDef {
        id: "cgroup.cpu.quota.count",
        unit: Unit::Count,
        dimension: Some("cgroup"),
        help: "CPUs that the group's quota allows.",
        sources: &[Formula::level(&[term("cgroup_cpu.quota")])],
        caveat: "A group above may allow less.",
        manual: "cat /sys/fs/cgroup/GROUP/cpu.max",
        ..MetricDef::EMPTY
    },
    MetricDef {
        id: "cgroup.cpu.used_of_quota.ratio",
        unit: Unit::Ratio,
        dimension: Some("cgroup"),
        help: "Share of its CPU quota that the group used.",
        sources: &[Formula::of_capacity(&[term("cgroup_cpu.usage")], &[term("cgroup_cpu.quota")])],
        caveat: "An average: a group far below its quota over a second may hit it in single periods of 100 ms.",
        manual: "systemd-cgtop -c",
        ..MetricDef::EMPTY
    },
    MetricDef {
        id: "cgroup.cpu.periods.count",
        unit: Unit::Count,
        dimension: Some("cgroup"),
        help: "Quota periods in which the group had runnable tasks.",
        sources: &[Formula::change(&[term("cgroup_cpu.periods")])],
        caveat: "Periods in which the group was idle are not counted.",
        manual: "cat /sys/fs/cgroup/GROUP/cpu.stat",
        ..MetricDef::EMPTY
    },
    MetricDef {
        id: "cgroup.cpu.throttled_periods.count",
        unit: Unit::Count,
        dimension: Some("cgroup"),
        help: "Quota periods in which the group used up its quota and was stopped.",
        sources: &[Formula::change(&[term("cgroup_cpu.throttled_periods")])],
        caveat: "Says nothing about how long the group was stopped.",
        manual: "cat /sys/fs/cgroup/GROUP/cpu.stat",
        ..MetricDef::EMPTY
    },
    MetricDef {
        id: "cgroup.cpu.throttled_periods.ratio",
        unit: Unit::Ratio,
        dimension: Some("cgroup"),
        help: "Share of the quota periods with work in which the group was stopped.",
        sources: &[Formula::ratio(&[term("cgroup_cpu.throttled_periods")], &[term("cgroup_cpu.periods")])],
        caveat: "Only periods in which the group had runnable tasks count.",
        manual: "cat /sys/fs/cgroup/GROUP/cpu.stat",
        ..MetricDef::EMPTY
    },
    MetricDef {
        id: "cgroup.cpu.throttled_time.ratio",
        unit: Unit::Ratio,
        dimension: Some("cgroup"),
        help: "Time for which the group was stopped by its quota, per time.",
        sources: &[Formula::rate(&[term("cgroup_cpu.throttled")])],
        caveat: "Summed over CPUs, so it may exceed 1; threads that wait for a CPU without being stopped are not in it.",
        manual: "cat /sys/fs/cgroup/GROUP/cpu.stat",
        ..MetricDef::EMPTY
    },
    MetricDef {
        id: "cgroup.cpu.held_from_above.ratio",
        unit: Unit::Ratio,
        dimension: Some("cgroup"),
        help: "Time for which the topmost visible group was stopped by the quota of a group that cannot be seen, per \
               time.",
        sources: &[Formula::rate(&[term("cgroup_cpu.held"), minus("cgroup_cpu.held_by_itself")])],
        caveat: "Needs cpu.stat.local (Linux 6.6); summed over CPUs.",
        manual: "cat /sys/fs/cgroup/cpu.stat.local",
        ..MetricDef::EMPTY
    },
    MetricDef {
        id: "cgroup.cpu.pressure.full.ratio",
        unit: Unit::Ratio,
        dimension: Some("cgroup"),
        help: "CPU PSI full of the group: share of the time that all its runnable tasks waited for a CPU.",
        sources: &[Formula::rate(&[term("cgroup_cpu.stalled")])],
        caveat: "Contains both throttling and waiting for busy CPUs.",
        manual: "cat /sys/fs/cgroup/GROUP/cpu.pressure",
        ..MetricDef::EMPTY
    },
];
