//! What follows from /proc/meminfo.

use rdiag_model::Unit;
use rdiag_model::metric::{Formula, MetricDef, Term, minus, optional, term};

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

pub(super) const METRICS: &[MetricDef] = &[
    MetricDef {
        id: "memory.used.ratio",
        unit: Unit::Ratio,
        help: "Share of the memory that is not available to a new program without swapping: 1 − MemAvailable/MemTotal.",
        sources: &[Formula::level_ratio(
            &[term("meminfo.total"), minus("meminfo.available")],
            &[term("meminfo.total")],
        )],
        caveat: "MemAvailable is the kernel's estimate; it knows nothing of the limits of control groups.",
        manual: MANUAL,
        ..MetricDef::EMPTY
    },
    MetricDef {
        id: "memory.available.bytes",
        unit: Unit::Bytes,
        help: "Memory that a new program could have without swapping: free, plus what can be reclaimed of cache and \
               slab.",
        sources: &[Formula::level(&[term("meminfo.available")])],
        caveat: "An estimate: dirty or mapped cache may be slower to reclaim than it says.",
        manual: MANUAL,
        ..MetricDef::EMPTY
    },
    MetricDef {
        id: "memory.zfs_cache.ratio",
        unit: Unit::Ratio,
        help: "Share of the memory that the cache of ZFS (ARC) holds.",
        sources: &[Formula::level_ratio(&[term("meminfo.zfs_arc")], &[term("meminfo.total")])],
        caveat: "MemAvailable does not count it as available, although ZFS gives most of it back when memory is short.",
        manual: "grep ^size /proc/spl/kstat/zfs/arcstats; grep MemTotal /proc/meminfo",
        ..MetricDef::EMPTY
    },
    MetricDef {
        id: "memory.zfs_cache_growth.bytes_per_second",
        unit: Unit::BytesPerSecond,
        help: "How fast the cache of ZFS (ARC) grows; negative while it shrinks.",
        sources: &[Formula::slope(&[term("meminfo.zfs_arc")])],
        caveat: "What it takes, MemAvailable loses, although ZFS gives most of it back when memory is short.",
        manual: "while sleep 1; do grep ^size /proc/spl/kstat/zfs/arcstats; done",
        ..MetricDef::EMPTY
    },
    MetricDef {
        id: "memory.available_decline.bytes_per_second",
        unit: Unit::BytesPerSecond,
        help: "How fast available memory falls; negative while it rises.",
        sources: &[Formula::slope(&[minus("meminfo.available")])],
        caveat: "Nothing says that it goes on at that rate.",
        manual: "while sleep 1; do grep MemAvailable /proc/meminfo; done",
        ..MetricDef::EMPTY
    },
    MetricDef {
        id: "memory.installed.bytes",
        unit: Unit::Bytes,
        help: "Memory that the kernel manages.",
        sources: &[Formula::level(&[term("meminfo.total")])],
        caveat: "Less than what is plugged in: firmware and the kernel's own image are not in it.",
        manual: MANUAL,
        ..MetricDef::EMPTY
    },
    MetricDef {
        id: "memory.anonymous.bytes",
        unit: Unit::Bytes,
        help: "Memory of programs that no file backs: heaps, stacks.",
        sources: &[Formula::level(&[term("meminfo.anonymous")])],
        caveat: "Can only be freed by swapping or by ending the program.",
        manual: MANUAL,
        ..MetricDef::EMPTY
    },
    MetricDef {
        id: "memory.cache.bytes",
        unit: Unit::Bytes,
        help: "Page cache: contents of files, buffers of block devices; shared memory excluded.",
        sources: &[Formula::level(&[
            term("meminfo.cached"),
            term("meminfo.buffers"),
            Term { optional: true, ..minus("meminfo.shared") },
        ])],
        caveat: "A full cache is healthy: it is given up when programs need the memory.",
        manual: MANUAL,
        ..MetricDef::EMPTY
    },
    MetricDef {
        id: "memory.shared.bytes",
        unit: Unit::Bytes,
        help: "Shared memory and tmpfs files.",
        sources: &[Formula::level(&[term("meminfo.shared")])],
        caveat: "Counted as cache by many tools, but it can only be swapped, never dropped.",
        manual: MANUAL,
        ..MetricDef::EMPTY
    },
    MetricDef {
        id: "memory.locked.bytes",
        unit: Unit::Bytes,
        help: "Memory that programs locked.",
        sources: &[Formula::level(&[term("meminfo.locked")])],
        caveat: "Can neither be swapped nor dropped.",
        manual: MANUAL,
        ..MetricDef::EMPTY
    },
    MetricDef {
        id: "memory.slab_reclaimable.bytes",
        unit: Unit::Bytes,
        help: "Kernel objects that can be given up: caches of directory entries and inodes.",
        sources: &[Formula::level(&[term("meminfo.slab_reclaimable")])],
        caveat: "A slab page is only freed when every object on it is.",
        manual: MANUAL,
        ..MetricDef::EMPTY
    },
    MetricDef {
        id: "memory.slab_unreclaimable.ratio",
        unit: Unit::Ratio,
        help: "Share of the memory in kernel objects that cannot be given up.",
        sources: &[Formula::level_ratio(&[term("meminfo.slab_unreclaimable")], &[term("meminfo.total")])],
        caveat: "Which cache it is stands in /proc/slabinfo, which only root may read.",
        manual: MANUAL,
        ..MetricDef::EMPTY
    },
    MetricDef {
        id: "memory.page_tables.ratio",
        unit: Unit::Ratio,
        help: "Share of the memory in page tables.",
        sources: &[Formula::level_ratio(&[term("meminfo.page_tables")], &[term("meminfo.total")])],
        caveat: "Grows with each process that maps the same shared memory.",
        manual: MANUAL,
        ..MetricDef::EMPTY
    },
    MetricDef {
        id: "memory.unaccounted.ratio",
        unit: Unit::Ratio,
        help: "Share of the memory that no line of /proc/meminfo accounts for, nor the cache of ZFS (ARC): drivers, \
               balloon, compressed swap.",
        sources: &[Formula::level_ratio(UNACCOUNTED, &[term("meminfo.total")])],
        caveat: "A residual of many lines, each read at a slightly different time.",
        manual: MANUAL,
        ..MetricDef::EMPTY
    },
    MetricDef {
        id: "memory.dirty.bytes",
        unit: Unit::Bytes,
        help: "Page cache that was changed and is not yet written, or just being written.",
        sources: &[Formula::level(&[term("meminfo.dirty"), term("meminfo.writeback")])],
        caveat: "Lost if the machine stops now.",
        manual: MANUAL,
        ..MetricDef::EMPTY
    },
    MetricDef {
        id: "memory.writeback.bytes",
        unit: Unit::Bytes,
        help: "Page cache that is just being written to its disk.",
        sources: &[Formula::level(&[term("meminfo.writeback")])],
        caveat: "What programs write past the page cache (direct I/O) is not in it.",
        manual: MANUAL,
        ..MetricDef::EMPTY
    },
    MetricDef {
        id: "memory.committed.ratio",
        unit: Unit::Ratio,
        help: "Memory promised to programs per memory that may be promised, where overcommitting is forbidden.",
        sources: &[Formula::level_ratio(&[term("meminfo.strict_committed")], &[term("meminfo.strict_commit_limit")])],
        caveat: "Means nothing unless vm.overcommit_memory is 2.",
        manual: MANUAL,
        ..MetricDef::EMPTY
    },
    MetricDef {
        id: "memory.committed.bytes",
        unit: Unit::Bytes,
        help: "Memory promised to programs, whether they use it or not.",
        sources: &[Formula::level(&[term("meminfo.committed")])],
        caveat: "Often far above what is used; harmless unless vm.overcommit_memory is 2.",
        manual: MANUAL,
        ..MetricDef::EMPTY
    },
    MetricDef {
        id: "memory.swap_space.bytes",
        unit: Unit::Bytes,
        help: "Size of all swap space.",
        sources: &[Formula::level(&[term("meminfo.swap_total")])],
        caveat: "0 without swap.",
        manual: MANUAL,
        ..MetricDef::EMPTY
    },
    MetricDef {
        id: "memory.swap_used.ratio",
        unit: Unit::Ratio,
        help: "Share of the swap space in use.",
        sources: &[Formula::level_ratio(
            &[term("meminfo.swap_total"), minus("meminfo.swap_free")],
            &[term("meminfo.swap_total")],
        )],
        caveat: "Used swap holds cold data; it costs nothing unless pages come back.",
        manual: MANUAL,
        ..MetricDef::EMPTY
    },
    MetricDef {
        id: "memory.zswap.bytes",
        unit: Unit::Bytes,
        help: "Memory that holds compressed pages in front of the swap devices.",
        sources: &[Formula::level(&[optional("meminfo.zswap")])],
        caveat: "Pages that come back from there cost CPU time and no I/O.",
        manual: MANUAL,
        ..MetricDef::EMPTY
    },
    MetricDef {
        id: "memory.huge_pages_free.ratio",
        unit: Unit::Ratio,
        help: "Share of the pool of huge pages that is neither in use nor promised to a program that has not touched \
               it yet.",
        sources: &[Formula::level_ratio(
            &[term("meminfo.huge_pages_free"), Term { optional: true, ..minus("meminfo.huge_pages_reserved") }],
            &[term("meminfo.huge_pages_total")],
        )],
        caveat: "Of the default huge page size only.",
        manual: MANUAL,
        ..MetricDef::EMPTY
    },
    MetricDef {
        id: "memory.huge_pages.ratio",
        unit: Unit::Ratio,
        help: "Share of the memory that is set aside as huge pages of all sizes.",
        sources: &[Formula::level_ratio(&[term("meminfo.huge_pages")], &[term("meminfo.total")])],
        caveat: "Set aside whether used or not; nothing else can use it.",
        manual: MANUAL,
        ..MetricDef::EMPTY
    },
];
