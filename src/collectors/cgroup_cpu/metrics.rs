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
    MetricDef::new(
        "cgroup.cpu.quota.count",
        Unit::Count,
        "CPUs that the group's quota allows.",
        &[Formula::level(&[term("cgroup_cpu.quota")])],
    )
    .dimension("cgroup")
    .caveat("A group above may allow less.")
    .manual("cat /sys/fs/cgroup/GROUP/cpu.max"),
    MetricDef::new(
        "cgroup.cpu.used_of_quota.ratio",
        Unit::Ratio,
        "Share of its CPU quota that the group used.",
        &[Formula::of_capacity(&[term("cgroup_cpu.usage")], &[term("cgroup_cpu.quota")])],
    )
    .dimension("cgroup")
    .caveat("An average: a group far below its quota over a second may hit it in single periods of 100 ms.")
    .manual("systemd-cgtop -c"),
    MetricDef::new(
        "cgroup.cpu.periods.count",
        Unit::Count,
        "Quota periods in which the group had runnable tasks.",
        &[Formula::change(&[term("cgroup_cpu.periods")])],
    )
    .dimension("cgroup")
    .caveat("Periods in which the group was idle are not counted.")
    .manual("cat /sys/fs/cgroup/GROUP/cpu.stat"),
    MetricDef::new(
        "cgroup.cpu.throttled_periods.count",
        Unit::Count,
        "Quota periods in which the group used up its quota and was stopped.",
        &[Formula::change(&[term("cgroup_cpu.throttled_periods")])],
    )
    .dimension("cgroup")
    .caveat("Says nothing about how long the group was stopped.")
    .manual("cat /sys/fs/cgroup/GROUP/cpu.stat"),
    MetricDef::new(
        "cgroup.cpu.throttled_periods.ratio",
        Unit::Ratio,
        "Share of the quota periods with work in which the group was stopped.",
        &[Formula::ratio(&[term("cgroup_cpu.throttled_periods")], &[term("cgroup_cpu.periods")])],
    )
    .dimension("cgroup")
    .caveat("Only periods in which the group had runnable tasks count.")
    .manual("cat /sys/fs/cgroup/GROUP/cpu.stat"),
    MetricDef::new(
        "cgroup.cpu.throttled_time.ratio",
        Unit::Ratio,
        "Time for which the group was stopped by its quota, per time.",
        &[Formula::rate(&[term("cgroup_cpu.throttled")])],
    )
    .dimension("cgroup")
    .caveat("Summed over CPUs, so it may exceed 1; threads that wait for a CPU without being stopped are not in it.")
    .manual("cat /sys/fs/cgroup/GROUP/cpu.stat"),
    MetricDef::new(
        "cgroup.cpu.held_from_above.ratio",
        Unit::Ratio,
        "Time for which the topmost visible group was stopped by the quota of a group that cannot be seen, per time.",
        &[Formula::rate(&[term("cgroup_cpu.held"), minus("cgroup_cpu.held_by_itself")])],
    )
    .dimension("cgroup")
    .caveat("Needs cpu.stat.local (Linux 6.6); summed over CPUs.")
    .manual("cat /sys/fs/cgroup/cpu.stat.local"),
    MetricDef::new(
        "cgroup.cpu.pressure.full.ratio",
        Unit::Ratio,
        "CPU PSI full of the group: share of the time that all its runnable tasks waited for a CPU.",
        &[Formula::rate(&[term("cgroup_cpu.stalled")])],
    )
    .dimension("cgroup")
    .caveat("Contains both throttling and waiting for busy CPUs.")
    .manual("cat /sys/fs/cgroup/GROUP/cpu.pressure"),
];
