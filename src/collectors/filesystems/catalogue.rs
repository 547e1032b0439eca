//! The series of mounted file systems and the metrics derived from them.

use crate::model::metric::{Formula, MetricDef, SeriesDef, minus, term};
use crate::model::{RawUnit, Unit};

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

const fn of_mount(
    id: &'static str,
    unit: Unit,
    help: &'static str,
    sources: &'static [Formula],
    caveat: &'static str,
    manual: &'static str,
) -> MetricDef {
    MetricDef { id, unit, dimension: Some("mount"), help, sources, caveat, manual }
}

pub(super) const METRICS: &[MetricDef] = &[
    of_mount(
        "filesystem.space.ratio",
        Unit::Ratio,
        "Share of the space that is used, of what is there for everybody.",
        &[Formula::level_ratio(
            &[term("filesystems.space_total"), minus("filesystems.space_free")],
            &[term("filesystems.space_total"), minus("filesystems.space_free"), term("filesystems.space_available")],
        )],
        "At 100 % the administrator may still have reserved blocks; btrfs and ZFS give an estimate, and quotas do not \
         show.",
        "df",
    ),
    of_mount(
        "filesystem.available.bytes",
        Unit::Bytes,
        "Space left for everybody.",
        &[Formula::level(&[term("filesystems.space_available")])],
        "Without the blocks reserved for the administrator.",
        "df",
    ),
    of_mount(
        "filesystem.size.bytes",
        Unit::Bytes,
        "Size of the file system.",
        &[Formula::level(&[term("filesystems.space_total")])],
        "Without what it keeps for its own tables.",
        "df",
    ),
    of_mount(
        "filesystem.inodes.ratio",
        Unit::Ratio,
        "Share of the inodes that is used: each file and directory takes one.",
        &[Formula::level_ratio(
            &[term("filesystems.inodes_total"), minus("filesystems.inodes_free")],
            &[term("filesystems.inodes_total")],
        )],
        "XFS and ZFS make inodes from free space, so there a full disk looks like a lack of inodes.",
        "df -i",
    ),
    of_mount(
        "filesystem.hung.count",
        Unit::Count,
        "Whether the file system left the question for its capacity unanswered (1) or not (0).",
        &[Formula::level(&[term("filesystems.hung")])],
        "A dead server, a stuck FUSE daemon or a dying disk look the same.",
        "timeout 2 stat -f MOUNT",
    ),
    of_mount(
        "filesystem.broken.count",
        Unit::Count,
        "Whether the file system answered the question for its capacity with an error (1) or not (0).",
        &[Formula::level(&[term("filesystems.broken")])],
        "Missing rights are no error here.",
        "stat -f MOUNT",
    ),
    of_mount(
        "filesystem.forced_read_only.count",
        Unit::Count,
        "Whether the file system is read-only although it is mounted for writing (1) or not (0).",
        &[Formula::level(&[term("filesystems.forced_read_only")])],
        "Only types that go read-only by themselves after an error are looked at.",
        "findmnt -o TARGET,VFS-OPTIONS,FS-OPTIONS",
    ),
];
