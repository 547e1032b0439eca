//! The series of mounted file systems and the metrics derived from them.

use rdiag_model::metric::{Formula, MetricDef, SeriesDef, minus, term};
use rdiag_model::{RawUnit, Unit};

const fn bytes(name: &'static str, source: &'static str) -> SeriesDef {
    SeriesDef::gauge(name, RawUnit::Bytes, source)
}

const fn number(name: &'static str, source: &'static str) -> SeriesDef {
    SeriesDef::gauge(name, RawUnit::Count, source)
}

pub(super) const SERIES: &[SeriesDef] = &[
    bytes("filesystems.space_total", "statvfs(2), f_blocks times f_frsize"),
    bytes("filesystems.space_free", "statvfs(2), f_bfree times f_frsize"),
    bytes("filesystems.space_available", "statvfs(2), f_bavail times f_frsize"),
    number("filesystems.inodes_total", "statvfs(2), f_files"),
    number("filesystems.inodes_free", "statvfs(2), f_ffree"),
    number("filesystems.hung", "statvfs(2), 1 if it did not return within a second, twice"),
    number("filesystems.broken", "statvfs(2), 1 if it failed for another reason than missing rights"),
    number("filesystems.forced_read_only", "/proc/self/mountinfo, 1 if mounted rw while the superblock is ro"),
];

pub(super) const METRICS: &[MetricDef] = &[
    MetricDef {
        id: "filesystem.space.ratio",
        unit: Unit::Ratio,
        dimension: Some("mount"),
        help: "Used space, as a share of the space available to all users.",
        sources: &[Formula::level_ratio(
            &[term("filesystems.space_total"), minus("filesystems.space_free")],
            &[term("filesystems.space_total"), minus("filesystems.space_free"), term("filesystems.space_available")],
        )],
        caveat: "At 100 % the administrator may still have reserved blocks; btrfs and ZFS give an estimate, and quotas \
                 do not show.",
        manual: "df",
        ..MetricDef::EMPTY
    },
    MetricDef {
        id: "filesystem.available.bytes",
        unit: Unit::Bytes,
        dimension: Some("mount"),
        help: "Free space available to all users.",
        sources: &[Formula::level(&[term("filesystems.space_available")])],
        caveat: "Without the blocks reserved for the administrator.",
        manual: "df",
        ..MetricDef::EMPTY
    },
    MetricDef {
        id: "filesystem.size.bytes",
        unit: Unit::Bytes,
        dimension: Some("mount"),
        help: "Size of the file system.",
        sources: &[Formula::level(&[term("filesystems.space_total")])],
        caveat: "Without what it keeps for its own tables.",
        manual: "df",
        ..MetricDef::EMPTY
    },
    MetricDef {
        id: "filesystem.inodes.ratio",
        unit: Unit::Ratio,
        dimension: Some("mount"),
        help: "Share of the inodes that is used: each file and directory takes one.",
        sources: &[Formula::level_ratio(
            &[term("filesystems.inodes_total"), minus("filesystems.inodes_free")],
            &[term("filesystems.inodes_total")],
        )],
        caveat: "XFS and ZFS make inodes from free space, so there a full disk looks like a lack of inodes.",
        manual: "df -i",
        ..MetricDef::EMPTY
    },
    MetricDef {
        id: "filesystem.hung.count",
        unit: Unit::Count,
        dimension: Some("mount"),
        help: "Whether the file system left the question for its capacity unanswered (1) or not (0).",
        sources: &[Formula::level(&[term("filesystems.hung")])],
        caveat: "A dead server, a stuck FUSE daemon or a dying disk look the same.",
        manual: "timeout 2 stat -f MOUNT",
        ..MetricDef::EMPTY
    },
    MetricDef {
        id: "filesystem.broken.count",
        unit: Unit::Count,
        dimension: Some("mount"),
        help: "Whether the file system answered the question for its capacity with an error (1) or not (0).",
        sources: &[Formula::level(&[term("filesystems.broken")])],
        caveat: "Missing rights are no error here.",
        manual: "stat -f MOUNT",
        ..MetricDef::EMPTY
    },
    MetricDef {
        id: "filesystem.forced_read_only.count",
        unit: Unit::Count,
        dimension: Some("mount"),
        help: "Whether the file system is read-only although it is mounted for writing (1) or not (0).",
        sources: &[Formula::level(&[term("filesystems.forced_read_only")])],
        caveat: "Only types that go read-only by themselves after an error are looked at.",
        manual: "findmnt -o TARGET,VFS-OPTIONS,FS-OPTIONS",
        ..MetricDef::EMPTY
    },
];
