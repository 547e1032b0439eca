//! /proc/meminfo: what the memory is used for.

mod metrics;
#[cfg(test)]
mod tests;

use std::collections::HashMap;

use crate::def::{Cadence, Collect, CollectorDef, Sink};
use rdiag_kernel::host::Host;
use rdiag_model::metric::SeriesDef;
use rdiag_model::{RawUnit, Reason, Unavailable};
use rdiag_proc::meminfo;

pub(super) static COLLECTOR: CollectorDef = CollectorDef {
    id: "meminfo",
    help: "Memory by use, available memory, swap space and committed memory, from /proc/meminfo.",
    cadence: Cadence::Interval,
    series: SERIES,
    metrics: metrics::METRICS,
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

struct Meminfo;

impl Collect for Meminfo {
    fn sample(&mut self, host: &Host, out: &Sink) -> Result<(), Unavailable> {
        let text = host.read("proc/meminfo")?;
        let fields: HashMap<&str, u64> = meminfo(&text).collect();
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
