//! /sys/fs/ext4 and /sys/fs/btrfs: errors that file systems have recorded about themselves, reboots survived.

use jiff::Timestamp;

use crate::def::{Cadence, Collect, CollectorDef, Sink};
use rdiag_kernel::host::Host;
use rdiag_model::metric::{Formula, MetricDef, SeriesDef, term};
use rdiag_model::{RawUnit, Reason, Unavailable, Unit};

pub(super) static COLLECTOR: CollectorDef = CollectorDef {
    id: "filesystem_errors",
    help: "Errors that ext4 and btrfs have recorded about themselves, from /sys/fs.",
    cadence: Cadence::Ends,
    series: SERIES,
    metrics: METRICS,
    overhead: "twice per window: two directories, and two short files for each mounted ext4 or btrfs",
    start: |_| Box::new(FilesystemErrors),
};

const SOURCE: &str = "/sys/fs/ext4/DEVICE/errors_count; /sys/fs/btrfs/UUID/devinfo/N/error_stats, summed";

const SERIES: &[SeriesDef] = &[SeriesDef::counter("filesystem_errors.errors", RawUnit::Count, SOURCE)];

const MANUAL: &str = "grep . /sys/fs/ext4/*/errors_count; btrfs device stats MOUNT";

const METRICS: &[MetricDef] = &[
    MetricDef {
        id: "filesystem.new_errors.count",
        unit: Unit::Count,
        dimension: Some("filesystem"),
        help: "Errors that a file system recorded within the window.",
        sources: &[Formula::change(&[term("filesystem_errors.errors")])],
        caveat: "Only ext4 and btrfs (Linux 5.14) count them.",
        manual: MANUAL,
        ..MetricDef::EMPTY
    },
    MetricDef {
        id: "filesystem.recorded_errors.count",
        unit: Unit::Count,
        dimension: Some("filesystem"),
        help: "Errors that a file system has recorded since it was last checked (ext4) or since they were last reset \
               (btrfs).",
        sources: &[Formula::level(&[term("filesystem_errors.errors")])],
        caveat: "May be years old.",
        manual: MANUAL,
        ..MetricDef::EMPTY
    },
];

struct FilesystemErrors;

impl Collect for FilesystemErrors {
    fn sample(&mut self, host: &Host, out: &Sink) -> Result<(), Unavailable> {
        let mut seen = false;
        for device in host.list("sys/fs/ext4").unwrap_or_default() {
            seen |= record_ext4(host, out, &device);
        }
        for uuid in host.list("sys/fs/btrfs").unwrap_or_default() {
            seen |= record_btrfs(host, out, &uuid);
        }
        if seen {
            return Ok(());
        }
        Err(Unavailable::new(Reason::NotApplicable, "no ext4 or btrfs that counts its errors is mounted"))
    }
}

/// Beside the file systems, the directory holds one named `features`.
fn record_ext4(host: &Host, out: &Sink, device: &str) -> bool {
    let directory = format!("sys/fs/ext4/{device}");
    let Ok(count) = host.read_u64(&format!("{directory}/errors_count")) else { return false };
    let name = device.replace('!', "/");
    out.count("filesystem_errors.errors", &name, count);
    out.label(&name, "type", "ext4");
    let last = host.read_u64(&format!("{directory}/last_error_time")).ok().filter(|seconds| *seconds > 0);
    let last = last.and_then(|seconds| Timestamp::from_second(i64::try_from(seconds).ok()?).ok());
    if let Some(last) = last {
        out.label(&name, "last_error", last.to_string());
    }
    true
}

fn record_btrfs(host: &Host, out: &Sink, uuid: &str) -> bool {
    let mut seen = false;
    for device in host.list(&format!("sys/fs/btrfs/{uuid}/devinfo")).unwrap_or_default() {
        let text = host.read(&format!("sys/fs/btrfs/{uuid}/devinfo/{device}/error_stats"));
        let Some(count) = text.ok().and_then(|text| sum_of(&text)) else { continue };
        let label = host.read_line(&format!("sys/fs/btrfs/{uuid}/label")).unwrap_or_default();
        let name = format!("{} device {device}", if label.is_empty() { uuid } else { &label });
        out.count("filesystem_errors.errors", &name, count);
        out.label(&name, "type", "btrfs");
        seen = true;
    }
    seen
}

/// Lines of a name and a number; none if any of them is something else.
fn sum_of(text: &str) -> Option<u64> {
    let counts = text.lines().map(|line| line.split_whitespace().nth(1)?.parse::<u64>().ok());
    let counts: Vec<u64> = counts.collect::<Option<_>>()?;
    if counts.is_empty() { None } else { counts.into_iter().try_fold(0_u64, u64::checked_add) }
}

#[cfg(test)]
mod tests {
    use super::{COLLECTOR, sum_of};
    use crate::testing::{Story, instances, stats};
    use rdiag_model::Reason;

    const STATS: &str = "write_errs 0\nread_errs 1\nflush_errs 0\ncorruption_errs 2\ngeneration_errs 0\n";

    #[test]
    fn old_errors_are_told_from_new_ones() {
        let story = Story::of_seconds(3)
            .file(0, "sys/fs/ext4/sda1/errors_count", "3\n")
            .file(0, "sys/fs/ext4/sda1/last_error_time", "1600000000\n")
            .file(0, "sys/fs/ext4/dm-0/errors_count", "0\n")
            .file(0, "sys/fs/ext4/dm-0/last_error_time", "0\n")
            .file(0, "sys/fs/ext4/features/lazy_itable_init", "supported\n")
            .file(2, "sys/fs/ext4/sda1/errors_count", "3\n")
            .file(2, "sys/fs/ext4/dm-0/errors_count", "2\n");
        let metrics = story.metrics(&COLLECTOR);
        assert_eq!(instances(&metrics, "filesystem.new_errors.count"), ["dm-0", "sda1"]);
        assert_eq!(stats(&metrics, "filesystem.new_errors.count", "dm-0").total, 2.0);
        assert_eq!(stats(&metrics, "filesystem.new_errors.count", "sda1").total, 0.0);
        assert_eq!(stats(&metrics, "filesystem.recorded_errors.count", "sda1").last, 3.0);
        assert_eq!(metrics.labels["filesystem"]["sda1"]["last_error"], "2020-09-13T12:26:40Z");
        assert!(!metrics.labels["filesystem"]["dm-0"].contains_key("last_error"));
    }

    #[test]
    fn each_device_of_a_btrfs_has_its_own_count() {
        let story = Story::of_seconds(2)
            .file(0, "sys/fs/btrfs/features/raid1c34", "0\n")
            .file(0, "sys/fs/btrfs/0a-1b/label", "pool\n")
            .file(0, "sys/fs/btrfs/0a-1b/devinfo/1/error_stats", STATS)
            .file(0, "sys/fs/btrfs/2c-3d/label", "\n")
            .file(0, "sys/fs/btrfs/2c-3d/devinfo/2/error_stats", STATS);
        let metrics = story.metrics(&COLLECTOR);
        assert_eq!(instances(&metrics, "filesystem.recorded_errors.count"), ["2c-3d device 2", "pool device 1"]);
        assert_eq!(stats(&metrics, "filesystem.recorded_errors.count", "pool device 1").last, 3.0);
    }

    #[test]
    fn broken_statistics_are_not_taken_for_no_errors() {
        assert_eq!(sum_of(""), None);
        assert_eq!(sum_of("write_errs\n"), None);
        assert_eq!(sum_of("write_errs x\n"), None);
        assert_eq!(sum_of("a 18446744073709551615\nb 1\n"), None);
        assert_eq!(sum_of("invalid\n"), None, "what a missing device shows");
    }

    #[test]
    fn a_host_without_them_has_nothing_to_judge() {
        let none = Story::of_seconds(2).file(0, "proc/stat", "").record(&COLLECTOR);
        assert_eq!(none.unavailable.unwrap().reason, Reason::NotApplicable);
    }
}
