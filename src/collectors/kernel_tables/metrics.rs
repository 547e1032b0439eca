//! The series and metrics of the kernel's tables.

use rdiag_model::metric::{Formula, MetricDef, SeriesDef, term};
use rdiag_model::{RawUnit, Unit};

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
    MetricDef::new(
        "kernel.keys.ratio",
        Unit::Ratio,
        "Keys of a user in the kernel's key service, as a share of the limit on their number.",
        &[Formula::level_ratio(&[term("kernel_tables.keys")], &[term("kernel_tables.keys_limit")])],
    )
    .dimension("key_user")
    .caveat(OF_KEYS)
    .manual(KEYS),
    MetricDef::new(
        "kernel.keys.count",
        Unit::Count,
        "Keys of a user in the kernel's key service.",
        &[Formula::level(&[term("kernel_tables.keys")])],
    )
    .dimension("key_user")
    .caveat(OF_KEYS)
    .manual(KEYS),
    MetricDef::new(
        "kernel.keys_limit.count",
        Unit::Count,
        "How many keys a user may have.",
        &[Formula::level(&[term("kernel_tables.keys_limit")])],
    )
    .dimension("key_user")
    .caveat("Root has a limit of its own.")
    .manual(KEYS),
    MetricDef::new(
        "kernel.key_bytes.ratio",
        Unit::Ratio,
        "Size of a user's keys, as a share of the limit on it.",
        &[Formula::level_ratio(&[term("kernel_tables.key_bytes")], &[term("kernel_tables.key_bytes_limit")])],
    )
    .dimension("key_user")
    .caveat(OF_KEYS)
    .manual(KEYS),
    MetricDef::new(
        "kernel.ipc.ratio",
        Unit::Ratio,
        "System V IPC objects of a kind, as a share of the limit on them.",
        &[Formula::level_ratio(&[term("kernel_tables.ipc")], &[term("kernel_tables.ipc_limit")])],
    )
    .dimension("ipc_table")
    .caveat(OF_IPC)
    .manual(IPC),
    MetricDef::new(
        "kernel.ipc.count",
        Unit::Count,
        "System V IPC objects of a kind.",
        &[Formula::level(&[term("kernel_tables.ipc")])],
    )
    .dimension("ipc_table")
    .caveat(OF_IPC)
    .manual(IPC),
    MetricDef::new(
        "kernel.ipc_limit.count",
        Unit::Count,
        "How many System V IPC objects of a kind there may be.",
        &[Formula::level(&[term("kernel_tables.ipc_limit")])],
    )
    .dimension("ipc_table")
    .caveat(OF_IPC)
    .manual(IPC),
    MetricDef::new(
        "filesystem.mounts.ratio",
        Unit::Ratio,
        "Mounts, as a share of fs.mount-max.",
        &[Formula::level_ratio(&[term("kernel_tables.mounts")], &[term("kernel_tables.mounts_limit")])],
    )
    .caveat(OF_MOUNTS)
    .manual(MOUNTS),
    MetricDef::new(
        "filesystem.mounts.count",
        Unit::Count,
        "Mounts.",
        &[Formula::level(&[term("kernel_tables.mounts")])],
    )
    .caveat(OF_MOUNTS)
    .manual(MOUNTS),
    MetricDef::new(
        "filesystem.mounts_limit.count",
        Unit::Count,
        "How many mounts a mount namespace may have.",
        &[Formula::level(&[term("kernel_tables.mounts_limit")])],
    )
    .caveat("The same for all mount namespaces.")
    .manual(MOUNTS),
    MetricDef::new(
        "filesystem.mounts_by.count",
        Unit::Count,
        "Mounts of a type of file system.",
        &[Formula::level(&[term("kernel_tables.mounts_by")])],
    )
    .dimension("mount_type")
    .caveat("The five types with the most.")
    .manual("findmnt -n -o FSTYPE | sort | uniq -c | sort -n"),
    MetricDef::new(
        "tasks.ptys.ratio",
        Unit::Ratio,
        "Pseudo-terminals that are open, as a share of kernel.pty.max.",
        &[Formula::level_ratio(&[term("kernel_tables.ptys")], &[term("kernel_tables.ptys_limit")])],
    )
    .caveat(OF_PTYS)
    .manual(PTYS),
    MetricDef::new(
        "tasks.ptys.count",
        Unit::Count,
        "Pseudo-terminals that are open.",
        &[Formula::level(&[term("kernel_tables.ptys")])],
    )
    .caveat(OF_PTYS)
    .manual(PTYS),
    MetricDef::new(
        "tasks.ptys_limit.count",
        Unit::Count,
        "How many pseudo-terminals may be open.",
        &[Formula::level(&[term("kernel_tables.ptys_limit")])],
    )
    .caveat(OF_PTYS)
    .manual(PTYS),
    MetricDef::new(
        "fd.aio_process.bytes",
        Unit::Bytes,
        "Rings of a process for asynchronous I/O (io_setup).",
        &[Formula::level(&[term("kernel_tables.aio_by")])],
    )
    .dimension("process")
    .caveat("Looked for only from 70 % of fs.aio-max-nr on. A ring is rounded up to whole pages.")
    .manual("grep -c '/\\[aio\\]' /proc/[0-9]*/maps"),
];
