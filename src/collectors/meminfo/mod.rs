//! /proc/meminfo: what the memory is used for.
//!
//! The whole-file parser of the procfs crate refuses a file in which one field is missing; a diagnosis rather goes on
//! with the fields that are there.

use std::collections::HashMap;

use crate::def::{Cadence, Collect, CollectorDef, Sink};
use rdiag_kernel::host::Host;
use rdiag_model::metric::{Formula, MetricDef, SeriesDef, Term, minus, optional, term};
use rdiag_model::{RawUnit, Reason, Unavailable, Unit};

pub(super) static COLLECTOR: CollectorDef = CollectorDef {
    id: "meminfo",
    help: "Memory by use, available memory, swap space and committed memory, from /proc/meminfo.",
    cadence: Cadence::Interval,
    series: SERIES,
    metrics: METRICS,
    overhead: "one read of 1.5 KB per interval (about 30 µs)",
    start: |_| Box::new(Meminfo),
};

/// Series and field.
const FIELDS: [(&str, &str); 23] = [
    ("meminfo.total", "MemTotal"),
    ("meminfo.free", "MemFree"),
    ("meminfo.available", "MemAvailable"),
    ("meminfo.buffers", "Buffers"),
    ("meminfo.cached", "Cached"),
    ("meminfo.swap_cached", "SwapCached"),
    ("meminfo.anonymous", "AnonPages"),
    ("meminfo.shared", "Shmem"),
    ("meminfo.locked", "Mlocked"),
    ("meminfo.slab", "Slab"),
    ("meminfo.slab_reclaimable", "SReclaimable"),
    ("meminfo.slab_unreclaimable", "SUnreclaim"),
    ("meminfo.kernel_stack", "KernelStack"),
    ("meminfo.page_tables", "PageTables"),
    ("meminfo.second_page_tables", "SecPageTables"),
    ("meminfo.per_cpu", "Percpu"),
    ("meminfo.dirty", "Dirty"),
    ("meminfo.writeback", "Writeback"),
    ("meminfo.swap_total", "SwapTotal"),
    ("meminfo.swap_free", "SwapFree"),
    ("meminfo.zswap", "Zswap"),
    ("meminfo.commit_limit", "CommitLimit"),
    ("meminfo.committed", "Committed_AS"),
];

const fn kibibytes(name: &'static str, source: &'static str) -> SeriesDef {
    SeriesDef::gauge(name, RawUnit::Kibibytes, source)
}

const SERIES: &[SeriesDef] = &[
    kibibytes("meminfo.total", "/proc/meminfo, MemTotal"),
    kibibytes("meminfo.free", "/proc/meminfo, MemFree"),
    kibibytes("meminfo.available", "/proc/meminfo, MemAvailable"),
    kibibytes("meminfo.buffers", "/proc/meminfo, Buffers"),
    kibibytes("meminfo.cached", "/proc/meminfo, Cached"),
    kibibytes("meminfo.swap_cached", "/proc/meminfo, SwapCached"),
    kibibytes("meminfo.anonymous", "/proc/meminfo, AnonPages"),
    kibibytes("meminfo.shared", "/proc/meminfo, Shmem"),
    kibibytes("meminfo.locked", "/proc/meminfo, Mlocked"),
    kibibytes("meminfo.slab", "/proc/meminfo, Slab"),
    kibibytes("meminfo.slab_reclaimable", "/proc/meminfo, SReclaimable"),
    kibibytes("meminfo.slab_unreclaimable", "/proc/meminfo, SUnreclaim"),
    kibibytes("meminfo.kernel_stack", "/proc/meminfo, KernelStack"),
    kibibytes("meminfo.page_tables", "/proc/meminfo, PageTables"),
    kibibytes("meminfo.second_page_tables", "/proc/meminfo, SecPageTables"),
    kibibytes("meminfo.per_cpu", "/proc/meminfo, Percpu"),
    kibibytes("meminfo.huge_pages", "/proc/meminfo, Hugetlb"),
    kibibytes("meminfo.dirty", "/proc/meminfo, Dirty"),
    kibibytes("meminfo.writeback", "/proc/meminfo, Writeback"),
    kibibytes("meminfo.swap_total", "/proc/meminfo, SwapTotal"),
    kibibytes("meminfo.swap_free", "/proc/meminfo, SwapFree"),
    kibibytes("meminfo.zswap", "/proc/meminfo, Zswap"),
    kibibytes("meminfo.commit_limit", "/proc/meminfo, CommitLimit"),
    kibibytes("meminfo.committed", "/proc/meminfo, Committed_AS"),
    kibibytes("meminfo.strict_commit_limit", "/proc/meminfo, CommitLimit, where overcommitting is forbidden"),
    kibibytes("meminfo.strict_committed", "/proc/meminfo, Committed_AS, where overcommitting is forbidden"),
    SeriesDef::gauge("meminfo.huge_pages_free", RawUnit::Count, "/proc/meminfo, HugePages_Free"),
    SeriesDef::gauge("meminfo.zfs_arc", RawUnit::Bytes, "/proc/spl/kstat/zfs/arcstats, size"),
    SeriesDef::gauge("meminfo.huge_pages_reserved", RawUnit::Count, "/proc/meminfo, HugePages_Rsvd"),
    SeriesDef::gauge("meminfo.huge_pages_total", RawUnit::Count, "/proc/meminfo, HugePages_Total"),
];

/// What no line of the file accounts for. Shared memory is inside the cache; VmallocUsed is left out since kernel
/// stacks are inside it on most kernels.
const UNACCOUNTED: &[Term] = &[
    term("meminfo.total"),
    minus("meminfo.free"),
    minus("meminfo.buffers"),
    minus("meminfo.cached"),
    minus("meminfo.swap_cached"),
    minus("meminfo.anonymous"),
    minus("meminfo.slab"),
    minus("meminfo.kernel_stack"),
    minus("meminfo.page_tables"),
    Term { optional: true, ..minus("meminfo.second_page_tables") },
    Term { optional: true, ..minus("meminfo.per_cpu") },
    Term { optional: true, ..minus("meminfo.huge_pages") },
    Term { optional: true, ..minus("meminfo.zfs_arc") },
];

const MANUAL: &str = "cat /proc/meminfo";

const METRICS: &[MetricDef] = &[
    MetricDef::new(
        "memory.used.ratio",
        Unit::Ratio,
        "Share of the memory that is not available to a new program without swapping: 1 − MemAvailable/MemTotal.",
        &[Formula::level_ratio(&[term("meminfo.total"), minus("meminfo.available")], &[term("meminfo.total")])],
    )
    .caveat("MemAvailable is the kernel's estimate; it knows nothing of the limits of control groups.")
    .manual(MANUAL),
    MetricDef::new(
        "memory.available.bytes",
        Unit::Bytes,
        "Memory that a new program could have without swapping: free, plus what can be reclaimed of cache and slab.",
        &[Formula::level(&[term("meminfo.available")])],
    )
    .caveat("An estimate: dirty or mapped cache may be slower to reclaim than it says.")
    .manual(MANUAL),
    MetricDef::new(
        "memory.zfs_cache.ratio",
        Unit::Ratio,
        "Share of the memory that the cache of ZFS (ARC) holds.",
        &[Formula::level_ratio(&[term("meminfo.zfs_arc")], &[term("meminfo.total")])],
    )
    .caveat("MemAvailable does not count it as available, although ZFS gives most of it back when memory is short.")
    .manual("grep ^size /proc/spl/kstat/zfs/arcstats; grep MemTotal /proc/meminfo"),
    MetricDef::new(
        "memory.zfs_cache_growth.bytes_per_second",
        Unit::BytesPerSecond,
        "How fast the cache of ZFS (ARC) grows; negative while it shrinks.",
        &[Formula::slope(&[term("meminfo.zfs_arc")])],
    )
    .caveat("What it takes, MemAvailable loses, although ZFS gives most of it back when memory is short.")
    .manual("while sleep 1; do grep ^size /proc/spl/kstat/zfs/arcstats; done"),
    MetricDef::new(
        "memory.available_decline.bytes_per_second",
        Unit::BytesPerSecond,
        "How fast available memory falls; negative while it rises.",
        &[Formula::slope(&[minus("meminfo.available")])],
    )
    .caveat("Nothing says that it goes on at that rate.")
    .manual("while sleep 1; do grep MemAvailable /proc/meminfo; done"),
    MetricDef::new(
        "memory.installed.bytes",
        Unit::Bytes,
        "Memory that the kernel manages.",
        &[Formula::level(&[term("meminfo.total")])],
    )
    .caveat("Less than what is plugged in: firmware and the kernel's own image are not in it.")
    .manual(MANUAL),
    MetricDef::new(
        "memory.anonymous.bytes",
        Unit::Bytes,
        "Memory of programs that no file backs: heaps, stacks.",
        &[Formula::level(&[term("meminfo.anonymous")])],
    )
    .caveat("Can only be freed by swapping or by ending the program.")
    .manual(MANUAL),
    MetricDef::new(
        "memory.cache.bytes",
        Unit::Bytes,
        "Page cache: contents of files, buffers of block devices; shared memory excluded.",
        &[Formula::level(&[
            term("meminfo.cached"),
            term("meminfo.buffers"),
            Term { optional: true, ..minus("meminfo.shared") },
        ])],
    )
    .caveat("A full cache is healthy: it is given up when programs need the memory.")
    .manual(MANUAL),
    MetricDef::new(
        "memory.shared.bytes",
        Unit::Bytes,
        "Shared memory and tmpfs files.",
        &[Formula::level(&[term("meminfo.shared")])],
    )
    .caveat("Counted as cache by many tools, but it can only be swapped, never dropped.")
    .manual(MANUAL),
    MetricDef::new(
        "memory.locked.bytes",
        Unit::Bytes,
        "Memory that programs locked.",
        &[Formula::level(&[term("meminfo.locked")])],
    )
    .caveat("Can neither be swapped nor dropped.")
    .manual(MANUAL),
    MetricDef::new(
        "memory.slab_reclaimable.bytes",
        Unit::Bytes,
        "Kernel objects that can be given up: caches of directory entries and inodes.",
        &[Formula::level(&[term("meminfo.slab_reclaimable")])],
    )
    .caveat("A slab page is only freed when every object on it is.")
    .manual(MANUAL),
    MetricDef::new(
        "memory.slab_unreclaimable.ratio",
        Unit::Ratio,
        "Share of the memory in kernel objects that cannot be given up.",
        &[Formula::level_ratio(&[term("meminfo.slab_unreclaimable")], &[term("meminfo.total")])],
    )
    .caveat("Which cache it is stands in /proc/slabinfo, which only root may read.")
    .manual(MANUAL),
    MetricDef::new(
        "memory.page_tables.ratio",
        Unit::Ratio,
        "Share of the memory in page tables.",
        &[Formula::level_ratio(&[term("meminfo.page_tables")], &[term("meminfo.total")])],
    )
    .caveat("Grows with each process that maps the same shared memory.")
    .manual(MANUAL),
    MetricDef::new(
        "memory.unaccounted.ratio",
        Unit::Ratio,
        "Share of the memory that no line of /proc/meminfo accounts for, nor the cache of ZFS (ARC): drivers, balloon, compressed swap.",
        &[Formula::level_ratio(UNACCOUNTED, &[term("meminfo.total")])],
    )
    .caveat("A residual of many lines, each read at a slightly different time.")
    .manual(MANUAL),
    MetricDef::new(
        "memory.dirty.bytes",
        Unit::Bytes,
        "Page cache that was changed and is not yet written, or just being written.",
        &[Formula::level(&[term("meminfo.dirty"), term("meminfo.writeback")])],
    )
    .caveat("Lost if the machine stops now.")
    .manual(MANUAL),
    MetricDef::new(
        "memory.writeback.bytes",
        Unit::Bytes,
        "Page cache that is just being written to its disk.",
        &[Formula::level(&[term("meminfo.writeback")])],
    )
    .caveat("What programs write past the page cache (direct I/O) is not in it.")
    .manual(MANUAL),
    MetricDef::new(
        "memory.committed.ratio",
        Unit::Ratio,
        "Memory promised to programs per memory that may be promised, where overcommitting is forbidden.",
        &[Formula::level_ratio(&[term("meminfo.strict_committed")], &[term("meminfo.strict_commit_limit")])],
    )
    .caveat("Means nothing unless vm.overcommit_memory is 2.")
    .manual(MANUAL),
    MetricDef::new(
        "memory.committed.bytes",
        Unit::Bytes,
        "Memory promised to programs, whether they use it or not.",
        &[Formula::level(&[term("meminfo.committed")])],
    )
    .caveat("Often far above what is used; harmless unless vm.overcommit_memory is 2.")
    .manual(MANUAL),
    MetricDef::new(
        "memory.swap_space.bytes",
        Unit::Bytes,
        "Size of all swap space.",
        &[Formula::level(&[term("meminfo.swap_total")])],
    )
    .caveat("0 without swap.")
    .manual(MANUAL),
    MetricDef::new(
        "memory.swap_used.ratio",
        Unit::Ratio,
        "Share of the swap space in use.",
        &[Formula::level_ratio(
            &[term("meminfo.swap_total"), minus("meminfo.swap_free")],
            &[term("meminfo.swap_total")],
        )],
    )
    .caveat("Used swap holds cold data; it costs nothing unless pages come back.")
    .manual(MANUAL),
    MetricDef::new(
        "memory.zswap.bytes",
        Unit::Bytes,
        "Memory that holds compressed pages in front of the swap devices.",
        &[Formula::level(&[optional("meminfo.zswap")])],
    )
    .caveat("Pages that come back from there cost CPU time and no I/O.")
    .manual(MANUAL),
    MetricDef::new(
        "memory.huge_pages_free.ratio",
        Unit::Ratio,
        "Share of the pool of huge pages that is neither in use nor promised to a program that has not touched it yet.",
        &[Formula::level_ratio(
            &[term("meminfo.huge_pages_free"), Term { optional: true, ..minus("meminfo.huge_pages_reserved") }],
            &[term("meminfo.huge_pages_total")],
        )],
    )
    .caveat("Of the default huge page size only.")
    .manual(MANUAL),
    MetricDef::new(
        "memory.huge_pages.ratio",
        Unit::Ratio,
        "Share of the memory that is set aside as huge pages of all sizes.",
        &[Formula::level_ratio(&[term("meminfo.huge_pages")], &[term("meminfo.total")])],
    )
    .caveat("Set aside whether used or not; nothing else can use it.")
    .manual(MANUAL),
];

struct Meminfo;

impl Collect for Meminfo {
    fn sample(&mut self, host: &Host, out: &Sink) -> Result<(), Unavailable> {
        let text = host.read("proc/meminfo")?;
        let fields = parse(&text);
        if !fields.contains_key("MemTotal") {
            return Err(Unavailable::new(Reason::Malformed, "/proc/meminfo holds no line MemTotal"));
        }
        let get = |name: &str| fields.get(name).map(|kibibytes| *kibibytes as f64);
        for (series, field) in FIELDS {
            if let Some(value) = get(field) {
                out.level(series, "", value);
            }
        }
        record_huge_pages(&get, out);
        // The cache of ZFS is in no line of meminfo.
        // In a container meminfo may be that of the container (lxcfs), and the cache is that of the host.
        let arc = if host.facts().container.is_none() { host.read(ARC).ok() } else { None };
        if let Some(bytes) = arc.as_deref().and_then(arc_bytes) {
            out.level("meminfo.zfs_arc", "", bytes);
        }
        record_commitment(host, out, get("Committed_AS"), get("CommitLimit"));
        Ok(())
    }
}

/// The figures of the cache of ZFS, where its module is loaded.
const ARC: &str = "proc/spl/kstat/zfs/arcstats";

/// The size of that cache: a line `size 4 1048576` of name, type and value.
fn arc_bytes(text: &str) -> Option<f64> {
    let mut words = text.lines().find(|line| line.split_whitespace().next() == Some("size"))?.split_whitespace();
    words.nth(2)?.parse::<u64>().ok().map(|bytes| bytes as f64)
}

/// Kernels before 4.18 tell the pool of the default size only, and in pages; those built without huge pages tell nothing.
fn record_huge_pages(get: &dyn Fn(&str) -> Option<f64>, out: &Sink) {
    let (free, total, size) = (get("HugePages_Free"), get("HugePages_Total"), get("Hugepagesize"));
    if let (Some(free), Some(total)) = (free, total) {
        out.level("meminfo.huge_pages_free", "", free);
        out.level("meminfo.huge_pages_total", "", total);
        if let Some(reserved) = get("HugePages_Rsvd") {
            out.level("meminfo.huge_pages_reserved", "", reserved);
        }
    }
    let pool = get("Hugetlb").or_else(|| Some(total? * size?));
    match pool {
        Some(kibibytes) => out.level("meminfo.huge_pages", "", kibibytes),
        // The lines would follow the one of committed memory.
        None if total.is_none() && get("Committed_AS").is_some() => {
            out.gap("meminfo.huge_pages", "", Unavailable::new(Reason::NotApplicable, "this kernel has no huge pages"));
        }
        None => {}
    }
}

/// How far memory is promised only matters where the kernel refuses to promise more than there is.
fn record_commitment(host: &Host, out: &Sink, committed: Option<f64>, limit: Option<f64>) {
    match host.read_u64("proc/sys/vm/overcommit_memory") {
        Ok(2) => {
            if let (Some(committed), Some(limit)) = (committed, limit) {
                out.level("meminfo.strict_committed", "", committed);
                out.level("meminfo.strict_commit_limit", "", limit);
            }
        }
        Ok(mode) => {
            let why = format!("vm.overcommit_memory is {mode}: memory may be promised beyond what there is");
            out.gap("meminfo.strict_commit", "", Unavailable::new(Reason::NotApplicable, why));
        }
        Err(error) => out.gap("meminfo.strict_commit", "", error.gap()),
    }
}

/// `Name:   12 kB` by name; lines that are anything else are left out.
fn parse(text: &str) -> HashMap<&str, u64> {
    let line = |line: &'_ str| -> Option<u64> { line.split_whitespace().next()?.parse().ok() };
    text.lines()
        .filter_map(|whole| whole.split_once(':'))
        .filter_map(|(name, rest)| Some((name, line(rest)?)))
        .collect()
}

#[cfg(test)]
mod tests;
