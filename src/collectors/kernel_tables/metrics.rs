//! The series and metrics of the kernel's tables.

use rdiag_model::metric::{Formula, MetricDef, SeriesDef, term};
use rdiag_model::{Deed, RawUnit, Unit};

pub(super) const SERIES: &[SeriesDef] = &[
    SeriesDef::gauge("kernel_tables.keys", RawUnit::Count, "/proc/key-users, field 4"),
    SeriesDef::gauge("kernel_tables.keys_limit", RawUnit::Count, "/proc/key-users, field 4, after the slash"),
    SeriesDef::gauge("kernel_tables.key_bytes", RawUnit::Bytes, "/proc/key-users, field 5"),
    SeriesDef::gauge("kernel_tables.key_bytes_limit", RawUnit::Bytes, "/proc/key-users, field 5, after the slash"),
    SeriesDef::gauge("kernel_tables.ipc", RawUnit::Count, "/proc/sysvipc"),
    SeriesDef::gauge("kernel_tables.ipc_limit", RawUnit::Count, "/proc/sys/kernel: shmmni, shmall, sem, msgmni"),
    SeriesDef::gauge("kernel_tables.mounts", RawUnit::Count, "/proc/self/mountinfo"),
    SeriesDef::gauge("kernel_tables.mounts_limit", RawUnit::Count, "/proc/sys/fs/mount-max"),
    SeriesDef::gauge("kernel_tables.mounts_by", RawUnit::Count, "/proc/self/mountinfo, by type"),
    SeriesDef::gauge("kernel_tables.ptys", RawUnit::Count, "/proc/sys/kernel/pty/nr"),
    SeriesDef::gauge("kernel_tables.ptys_limit", RawUnit::Count, "/proc/sys/kernel/pty/max"),
    SeriesDef::gauge("kernel_tables.aio_by", RawUnit::Bytes, "/proc/PID/maps, /[aio]"),
];

const OF_KEYS: &str = "Keys of a user in all containers count together. Who made them is not told.";
const OF_IPC: &str = "Of this IPC namespace: a container has its own objects and limits.";
const OF_MOUNTS: &str = "Of this mount namespace: containers have their own mounts, under the same limit.";
const OF_PTYS: &str = "In containers kernel.pty.reserve fewer can be opened.";
const KEYS: &str = "cat /proc/key-users; sysctl kernel.keys";
const IPC: &str = "ipcs -a; ipcs -l";
const MOUNTS: &str = "wc -l /proc/self/mountinfo; sysctl fs.mount-max";
const PTYS: &str = "sysctl kernel.pty";

pub(super) const METRICS: &[MetricDef] = &[
    MetricDef {
        id: "kernel.keys.ratio",
        unit: Unit::Ratio,
        dimension: Some("key_user"),
        help: "Keys of a user in the kernel's key service, as a share of the limit on their number.",
        sources: &[Formula::level_ratio(&[term("kernel_tables.keys")], &[term("kernel_tables.keys_limit")])],
        caveat: OF_KEYS,
        manual: KEYS,
        ..MetricDef::EMPTY
    },
    MetricDef {
        id: "kernel.keys.count",
        unit: Unit::Count,
        dimension: Some("key_user"),
        help: "Keys of a user in the kernel's key service.",
        sources: &[Formula::level(&[term("kernel_tables.keys")])],
        caveat: OF_KEYS,
        manual: KEYS,
        ..MetricDef::EMPTY
    },
    MetricDef {
        id: "kernel.keys_limit.count",
        unit: Unit::Count,
        dimension: Some("key_user"),
        help: "How many keys a user may have.",
        sources: &[Formula::level(&[term("kernel_tables.keys_limit")])],
        caveat: "Root has a limit of its own.",
        manual: KEYS,
        ..MetricDef::EMPTY
    },
    MetricDef {
        id: "kernel.key_bytes.ratio",
        unit: Unit::Ratio,
        dimension: Some("key_user"),
        help: "Size of a user's keys, as a share of the limit on it.",
        sources: &[Formula::level_ratio(&[term("kernel_tables.key_bytes")], &[term("kernel_tables.key_bytes_limit")])],
        caveat: OF_KEYS,
        manual: KEYS,
        ..MetricDef::EMPTY
    },
    MetricDef {
        id: "kernel.ipc.ratio",
        unit: Unit::Ratio,
        dimension: Some("ipc_table"),
        help: "System V IPC objects of a kind, as a share of the limit on them.",
        sources: &[Formula::level_ratio(&[term("kernel_tables.ipc")], &[term("kernel_tables.ipc_limit")])],
        caveat: OF_IPC,
        manual: IPC,
        ..MetricDef::EMPTY
    },
    MetricDef {
        id: "kernel.ipc.count",
        unit: Unit::Count,
        dimension: Some("ipc_table"),
        help: "System V IPC objects of a kind.",
        sources: &[Formula::level(&[term("kernel_tables.ipc")])],
        caveat: OF_IPC,
        manual: IPC,
        ..MetricDef::EMPTY
    },
    MetricDef {
        id: "kernel.ipc_limit.count",
        unit: Unit::Count,
        dimension: Some("ipc_table"),
        help: "How many System V IPC objects of a kind there may be.",
        sources: &[Formula::level(&[term("kernel_tables.ipc_limit")])],
        caveat: OF_IPC,
        manual: IPC,
        ..MetricDef::EMPTY
    },
    MetricDef {
        id: "filesystem.mounts.ratio",
        unit: Unit::Ratio,
        help: "Mounts, as a share of fs.mount-max.",
        sources: &[Formula::level_ratio(&[term("kernel_tables.mounts")], &[term("kernel_tables.mounts_limit")])],
        caveat: OF_MOUNTS,
        manual: MOUNTS,
        ..MetricDef::EMPTY
    },
    MetricDef {
        id: "filesystem.mounts.count",
        unit: Unit::Count,
        help: "Mounts.",
        sources: &[Formula::level(&[term("kernel_tables.mounts")])],
        caveat: OF_MOUNTS,
        manual: MOUNTS,
        ..MetricDef::EMPTY
    },
    MetricDef {
        id: "filesystem.mounts_limit.count",
        unit: Unit::Count,
        help: "How many mounts a mount namespace may have.",
        sources: &[Formula::level(&[term("kernel_tables.mounts_limit")])],
        caveat: "The same for all mount namespaces.",
        manual: MOUNTS,
        ..MetricDef::EMPTY
    },
    MetricDef {
        id: "filesystem.mounts_by.count",
        unit: Unit::Count,
        dimension: Some("mount_type"),
        help: "Mounts of a type of file system.",
        sources: &[Formula::level(&[term("kernel_tables.mounts_by")])],
        caveat: "The five types with the most.",
        manual: "findmnt -n -o FSTYPE | sort | uniq -c | sort -n",
        deed: Some(Deed { verb: "had", of: "the mounts", ..Deed::USUAL }),
    },
    MetricDef {
        id: "tasks.ptys.ratio",
        unit: Unit::Ratio,
        help: "Pseudo-terminals that are open, as a share of kernel.pty.max.",
        sources: &[Formula::level_ratio(&[term("kernel_tables.ptys")], &[term("kernel_tables.ptys_limit")])],
        caveat: OF_PTYS,
        manual: PTYS,
        ..MetricDef::EMPTY
    },
    MetricDef {
        id: "tasks.ptys.count",
        unit: Unit::Count,
        help: "Pseudo-terminals that are open.",
        sources: &[Formula::level(&[term("kernel_tables.ptys")])],
        caveat: OF_PTYS,
        manual: PTYS,
        ..MetricDef::EMPTY
    },
    MetricDef {
        id: "tasks.ptys_limit.count",
        unit: Unit::Count,
        help: "How many pseudo-terminals may be open.",
        sources: &[Formula::level(&[term("kernel_tables.ptys_limit")])],
        caveat: OF_PTYS,
        manual: PTYS,
        ..MetricDef::EMPTY
    },
    MetricDef {
        id: "fd.aio_process.bytes",
        unit: Unit::Bytes,
        dimension: Some("process"),
        help: "Rings of a process for asynchronous I/O (io_setup).",
        sources: &[Formula::level(&[term("kernel_tables.aio_by")])],
        caveat: "Looked for only from 70 % of fs.aio-max-nr on. A ring is rounded up to whole pages.",
        manual: "grep -c '/\\[aio\\]' /proc/[0-9]*/maps",
        deed: Some(Deed { verb: "had", of: "the rings for asynchronous I/O", ..Deed::USUAL }),
    },
];
