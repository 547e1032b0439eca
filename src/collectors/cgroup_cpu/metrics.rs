//! What is derived from the series of the cpu controller.

use crate::model::metric::{Formula, MetricDef, SeriesDef, minus, term};
use crate::model::{RawUnit, Unit};

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

const fn metric(
    id: &'static str,
    unit: Unit,
    help: &'static str,
    sources: &'static [Formula],
    caveat: &'static str,
    manual: &'static str,
) -> MetricDef {
    MetricDef { id, unit, dimension: Some("cgroup"), help, sources, caveat, manual }
}

pub(super) const METRICS: &[MetricDef] = &[
    metric(
        "cgroup.cpu.quota.count",
        Unit::Count,
        "CPUs that the group's quota allows.",
        &[Formula::level(&[term("cgroup_cpu.quota")])],
        "A group above may allow less.",
        "cat /sys/fs/cgroup/GROUP/cpu.max",
    ),
    metric(
        "cgroup.cpu.used_of_quota.ratio",
        Unit::Ratio,
        "Share of its CPU quota that the group used.",
        &[Formula::of_capacity(&[term("cgroup_cpu.usage")], &[term("cgroup_cpu.quota")])],
        "An average: a group far below its quota over a second may hit it in single periods of 100 ms.",
        "systemd-cgtop -c",
    ),
    metric(
        "cgroup.cpu.periods.count",
        Unit::Count,
        "Quota periods in which the group wanted to run.",
        &[Formula::change(&[term("cgroup_cpu.periods")])],
        "Periods in which the group was idle are not counted.",
        "cat /sys/fs/cgroup/GROUP/cpu.stat",
    ),
    metric(
        "cgroup.cpu.throttled_periods.count",
        Unit::Count,
        "Quota periods in which the group used up its quota and was stopped.",
        &[Formula::change(&[term("cgroup_cpu.throttled_periods")])],
        "Says nothing about how long the group was stopped.",
        "cat /sys/fs/cgroup/GROUP/cpu.stat",
    ),
    metric(
        "cgroup.cpu.throttled_periods.ratio",
        Unit::Ratio,
        "Share of the quota periods with work in which the group was stopped.",
        &[Formula::ratio(&[term("cgroup_cpu.throttled_periods")], &[term("cgroup_cpu.periods")])],
        "Only periods in which the group wanted to run count.",
        "cat /sys/fs/cgroup/GROUP/cpu.stat",
    ),
    metric(
        "cgroup.cpu.throttled_time.ratio",
        Unit::Ratio,
        "Time for which the group was stopped by its quota, per time.",
        &[Formula::rate(&[term("cgroup_cpu.throttled")])],
        "Summed over CPUs, so it may exceed 1; threads that wait for a CPU without being stopped are not in it.",
        "cat /sys/fs/cgroup/GROUP/cpu.stat",
    ),
    metric(
        "cgroup.cpu.held_from_above.ratio",
        Unit::Ratio,
        "Time for which the topmost visible group was stopped by the quota of a group that cannot be seen, per time.",
        &[Formula::rate(&[term("cgroup_cpu.held"), minus("cgroup_cpu.held_by_itself")])],
        "Needs cpu.stat.local (Linux 6.6); summed over CPUs.",
        "cat /sys/fs/cgroup/cpu.stat.local",
    ),
    metric(
        "cgroup.cpu.pressure.full.ratio",
        Unit::Ratio,
        "Share of the time in which all tasks of the group that wanted a CPU had none.",
        &[Formula::rate(&[term("cgroup_cpu.stalled")])],
        "Contains both throttling and waiting for busy CPUs.",
        "cat /sys/fs/cgroup/GROUP/cpu.pressure",
    ),
];
