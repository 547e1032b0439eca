//! The classes into which lines of the kernel log are sorted, each with its series and its two metrics.

use rdiag_model::metric::{Formula, MetricDef, SeriesDef, term};
use rdiag_model::{RawUnit, Unit};

const SOURCE: &str = "/dev/kmsg, lines that the table of patterns recognises";
const CAVEAT: &str = "A line is a report, not a measurement: rate limits and a full buffer drop lines.";
const CAVEAT_OF_BOOT: &str =
    "Only as far back as the kernel's buffer reaches, and only up to the window's start at that.";
const MANUAL: &str = "dmesg --ctime --follow-new";
const MANUAL_OF_BOOT: &str = "dmesg --ctime";

/// Declares the classes: from each name follow a series, a metric for the window and one for the time since boot.
macro_rules! classes {
    ($($name:literal: $what:literal,)*) => {
        /// Class and series.
        pub(super) const CLASSES: &[(&str, &str)] = &[$(($name, concat!("kernel_log.", $name)),)*];

        pub(super) const SERIES: &[SeriesDef] = &[
            $(SeriesDef::counter(concat!("kernel_log.", $name), RawUnit::Count, SOURCE),)*
            SeriesDef::counter("kernel_log.cgroup_oom", RawUnit::Count, "/dev/kmsg, kills whose constraint is a memory cgroup"),
            SeriesDef::counter("kernel_log.records", RawUnit::Count, "/dev/kmsg, records"),
            SeriesDef::counter("kernel_log.missed", RawUnit::Count, "/dev/kmsg, gaps in the sequence numbers"),
            SeriesDef::gauge("kernel_log.overwritten", RawUnit::Count, "/dev/kmsg, sequence number of the oldest record"),
        ];

        pub(super) const METRICS: &[MetricDef] = &[
            $(
                MetricDef {
                    id: concat!("kernel.log.", $name, ".count"),
                    unit: Unit::Count,
                    help: concat!("Lines of the kernel log, written within the window, about ", $what, "."),
                    sources: &[Formula::change(&[term(concat!("kernel_log.", $name))])],
                    caveat: CAVEAT,
                    manual: MANUAL,
                    ..MetricDef::EMPTY
                },
                MetricDef {
                    id: concat!("kernel.log.", $name, ".since_boot.count"),
                    unit: Unit::Count,
                    help: concat!("Lines of the kernel log, since boot, about ", $what, "."),
                    sources: &[Formula::level(&[term(concat!("kernel_log.", $name))])],
                    caveat: CAVEAT_OF_BOOT,
                    manual: MANUAL_OF_BOOT,
                    ..MetricDef::EMPTY
                },
            )*
            MetricDef {
                id: "kernel.log.cgroup_oom.count",
                unit: Unit::Count,
                help: "Processes killed within the window because a memory cgroup reached its own limit.",
                sources: &[Formula::change(&[term("kernel_log.cgroup_oom")])],
                caveat: CAVEAT,
                manual: MANUAL,
                ..MetricDef::EMPTY
            },
            MetricDef {
                id: "kernel.log.records.count",
                unit: Unit::Count,
                help: "Records that were added to the kernel log within the window, of whatever kind.",
                sources: &[Formula::change(&[term("kernel_log.records")])],
                caveat: CAVEAT,
                manual: MANUAL,
                ..MetricDef::EMPTY
            },
            MetricDef {
                id: "kernel.log.missed.count",
                unit: Unit::Count,
                help: "Records of the window that the kernel overwrote before they could be read.",
                sources: &[Formula::change(&[term("kernel_log.missed")])],
                caveat: "Their content is lost; the system's journal may have them.",
                manual: MANUAL,
                ..MetricDef::EMPTY
            },
            MetricDef {
                id: "kernel.log.overwritten.count",
                unit: Unit::Count,
                help: "Records since boot that were no longer in the kernel's buffer when the window began.",
                sources: &[Formula::level(&[term("kernel_log.overwritten")])],
                caveat: "Their content is lost; the system's journal may have them.",
                manual: MANUAL_OF_BOOT,
                ..MetricDef::EMPTY
            },
        ];
    };
}

classes! {
    "bug": "bugs of the kernel itself: oopses, BUG lines, panics, corrupted structures",
    "clocksource": "clocks that the kernel no longer trusts",
    "conntrack": "packets dropped because the table of tracked connections was full",
    "crash": "programs that crashed (segmentation faults and other fatal traps)",
    "disk": "failed, timed-out or rejected I/O of block devices",
    "file_max": "opens refused because the system's limit of open files was reached",
    "filesystem": "errors, corruption or shutdown of file systems",
    "hardware": "machine checks, memory and bus errors reported by hardware or firmware",
    "hardware_fatal": "hardware errors that could not be corrected",
    "hung_task": "tasks that were blocked for longer than the kernel's limit",
    "interrupts": "interrupt handlers that took too long, or unhandled interrupts",
    "kernel_warning": "failed self-checks of the kernel that it survived (WARNING and UBSAN lines)",
    "lockup": "CPUs that made no progress: soft and hard lockups, RCU stalls, stuck work queues",
    "neighbour": "overflows of the table of neighbours (ARP, NDP)",
    "nfs": "network file systems that did not answer",
    "nic": "network interfaces that lost their link or stopped transmitting",
    "oom": "OOM kills",
    "page_allocation": "allocations of memory by the kernel that failed",
    "pids": "forks refused because a control group reached its limit of processes",
    "rt_throttling": "real-time tasks throttled after they exhausted their runtime",
    "swap": "I/O errors and corruption of swap space",
    "syn_flood": "listening sockets whose queue of half-open connections overflowed",
    "tcp_memory": "TCP running out of its memory, or having too many orphaned sockets",
    "thermal": "CPUs slowed down, or critical temperatures",
}
