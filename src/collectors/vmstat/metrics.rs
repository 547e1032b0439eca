//! What follows from /proc/vmstat.

use rdiag_model::Unit;
use rdiag_model::metric::{Formula, MetricDef, Term, optional, term, times};

const SCANS: &[Term] =
    &[term("vmstat.pgscan_direct"), term("vmstat.pgscan_kswapd"), optional("vmstat.pgscan_khugepaged")];
/// One for each zone that the kernel was built with; a single one before 4.10. No kernel has both.
const STALLS: &[Term] = &[
    optional("vmstat.allocstall_normal"),
    optional("vmstat.allocstall_movable"),
    optional("vmstat.allocstall_dma"),
    optional("vmstat.allocstall_dma32"),
    optional("vmstat.allocstall_device"),
    optional("vmstat.allocstall"),
];
/// Split in 5.9. No kernel has both.
const REFAULTS: &[Term] = &[
    optional("vmstat.workingset_refault_file"),
    optional("vmstat.workingset_refault_anon"),
    optional("vmstat.workingset_refault"),
];
const ACTIVATED: &[Term] = &[
    optional("vmstat.workingset_activate_file"),
    optional("vmstat.workingset_activate_anon"),
    optional("vmstat.workingset_activate"),
];
/// Fewer scanned pages than this (4 MB) in a window say nothing about how well reclaim goes.
const SCANS_TO_JUDGE: f64 = 1000.0;

pub(super) const METRICS: &[MetricDef] = &[
    MetricDef {
        id: "memory.scanned.per_second",
        unit: Unit::PerSecond,
        help: "Pages that the kernel looked at per second, for the host as a whole, to find some to free.",
        sources: &[Formula::rate(SCANS)],
        caveat: "Reclaim within the limit of a control group is not in it.",
        manual: "sar -B 1 10",
        ..MetricDef::EMPTY
    },
    MetricDef {
        id: "memory.direct_scanned.per_second",
        unit: Unit::PerSecond,
        help: "Pages that programs themselves had to look at per second before their allocation went on.",
        sources: &[Formula::rate(&[term("vmstat.pgscan_direct")])],
        caveat: "Reclaim within the limit of a control group is not in it.",
        manual: "sar -B 1 10",
        ..MetricDef::EMPTY
    },
    MetricDef {
        id: "memory.kswapd_scanned.per_second",
        unit: Unit::PerSecond,
        help: "Pages that the kernel's reclaim threads looked at per second.",
        sources: &[Formula::rate(&[term("vmstat.pgscan_kswapd")])],
        caveat: "Normal wherever files are read that do not fit into memory.",
        manual: "sar -B 1 10",
        ..MetricDef::EMPTY
    },
    MetricDef {
        id: "memory.kswapd_freed.ratio",
        unit: Unit::Ratio,
        help: "Pages that the reclaim threads freed per page that they looked at.",
        sources: &[
            Formula::ratio(&[term("vmstat.pgsteal_kswapd")], &[term("vmstat.pgscan_kswapd")]).floor(SCANS_TO_JUDGE)
        ],
        caveat: "Says nothing when little was scanned.",
        manual: "sar -B 1 10",
        ..MetricDef::EMPTY
    },
    MetricDef {
        id: "memory.allocation_stalls.per_second",
        unit: Unit::PerSecond,
        help: "Allocations per second that had to wait until the program itself had freed memory.",
        sources: &[Formula::rate(STALLS)],
        caveat: "Reclaim within the limit of a control group is not in it; how long each took is not told.",
        manual: "grep allocstall /proc/vmstat; sleep 10; grep allocstall /proc/vmstat",
        ..MetricDef::EMPTY
    },
    MetricDef {
        id: "memory.refaults.per_second",
        unit: Unit::PerSecond,
        help: "Refaults per second: evicted pages read back.",
        sources: &[Formula::rate(REFAULTS)],
        caveat: "Reading a file larger than the memory in a loop counts too; includes reclaim within control groups.",
        manual: "grep workingset_refault /proc/vmstat; sleep 10; grep workingset_refault /proc/vmstat",
        ..MetricDef::EMPTY
    },
    MetricDef {
        id: "memory.working_set_refaults.per_second",
        unit: Unit::PerSecond,
        help: "Working-set refaults per second: pages read back so soon after eviction that a little more memory would \
               have kept them.",
        sources: &[Formula::rate(ACTIVATED)],
        caveat: "Includes reclaim within control groups.",
        manual: "grep workingset_activate /proc/vmstat; sleep 10; grep workingset_activate /proc/vmstat",
        ..MetricDef::EMPTY
    },
    MetricDef {
        id: "memory.refaults_per_scan.ratio",
        unit: Unit::Ratio,
        help: "Refaults per page that reclaim scanned.",
        sources: &[Formula::ratio(REFAULTS, SCANS).floor(SCANS_TO_JUDGE)],
        caveat: "Refaults within control groups are in it, their scans are not.",
        manual: "grep -E 'workingset_refault|pgscan' /proc/vmstat; sleep 10; grep -E 'workingset_refault|pgscan' \
                 /proc/vmstat",
        ..MetricDef::EMPTY
    },
    MetricDef {
        id: "memory.major_faults.per_second",
        unit: Unit::PerSecond,
        help: "Page faults per second that had to wait for a disk or for compressed memory.",
        sources: &[Formula::rate(&[term("vmstat.pgmajfault")])],
        caveat: "Starting a program causes them too.",
        manual: "sar -B 1 10",
        ..MetricDef::EMPTY
    },
    MetricDef {
        id: "memory.swap_in.bytes_per_second",
        unit: Unit::BytesPerSecond,
        help: "Memory read back from swap.",
        sources: &[Formula::rate(&[term("vmstat.pswpin")])],
        caveat: "Counts reads of compressed memory (zram) like reads of a disk; pages found in zswap are not in it.",
        manual: "vmstat 1 10",
        ..MetricDef::EMPTY
    },
    MetricDef {
        id: "memory.swap_out.bytes_per_second",
        unit: Unit::BytesPerSecond,
        help: "Memory written to swap.",
        sources: &[Formula::rate(&[term("vmstat.pswpout")])],
        caveat: "Alone it is preparation, not delay.",
        manual: "vmstat 1 10",
        ..MetricDef::EMPTY
    },
    MetricDef {
        id: "memory.zswap_written_back.per_second",
        unit: Unit::PerSecond,
        help: "Pages per second that the compressed cache pushed out to a swap device.",
        sources: &[Formula::rate(&[term("vmstat.zswpwb")])],
        caveat: "Kernels before 6.8 do not count it.",
        manual: "grep zswpwb /proc/vmstat",
        ..MetricDef::EMPTY
    },
    MetricDef {
        id: "memory.oom_kills.count",
        unit: Unit::Count,
        help: "OOM kills within the window, on the host or in a control group.",
        sources: &[Formula::change(&[term("vmstat.oom_kill")])],
        caveat: "Does not tell whose memory ran out; the kernel log does.",
        manual: "grep oom_kill /proc/vmstat",
        ..MetricDef::EMPTY
    },
    MetricDef {
        id: "memory.oom_kills_since_boot.count",
        unit: Unit::Count,
        help: "OOM kills since boot.",
        sources: &[Formula::level(&[term("vmstat.oom_kill")])],
        caveat: "Does not tell when.",
        manual: "grep oom_kill /proc/vmstat",
        ..MetricDef::EMPTY
    },
    MetricDef {
        id: "disk.write_back.ratio",
        unit: Unit::Ratio,
        help: "Dirty memory per dirty memory at which the kernel begins to slow writers down.",
        // Writers are paced from halfway between the two thresholds on (mm/page-writeback.c, freerun ceiling).
        sources: &[Formula::level_ratio(
            &[term("vmstat.nr_dirty"), term("vmstat.nr_writeback")],
            &[times(0.5, "vmstat.nr_dirty_threshold"), times(0.5, "vmstat.nr_dirty_background_threshold")],
        )],
        caveat: "Of the host as a whole: a slow device beside a fast one, or a control group, may be paced earlier.",
        manual: "grep -E 'nr_dirty|nr_writeback' /proc/vmstat",
        ..MetricDef::EMPTY
    },
    MetricDef {
        id: "disk.dirtied.bytes_per_second",
        unit: Unit::BytesPerSecond,
        help: "Page cache that programs changed.",
        sources: &[Formula::rate(&[term("vmstat.nr_dirtied")])],
        caveat: "A page that is changed twice before it is written counts once.",
        manual: "grep nr_dirtied /proc/vmstat; sleep 10; grep nr_dirtied /proc/vmstat",
        ..MetricDef::EMPTY
    },
    MetricDef {
        id: "disk.written_back.bytes_per_second",
        unit: Unit::BytesPerSecond,
        help: "Page cache that was written to its device.",
        sources: &[Formula::rate(&[term("vmstat.nr_written")])],
        caveat: "Direct I/O is not in it.",
        manual: "grep nr_written /proc/vmstat; sleep 10; grep nr_written /proc/vmstat",
        ..MetricDef::EMPTY
    },
    MetricDef {
        id: "memory.compaction_stalls.per_second",
        unit: Unit::PerSecond,
        help: "Allocations per second that stalled in direct compaction to get contiguous pages.",
        sources: &[Formula::rate(&[term("vmstat.compact_stall")])],
        caveat: "How long each took is not told.",
        manual: "grep compact_ /proc/vmstat; sleep 10; grep compact_ /proc/vmstat",
        ..MetricDef::EMPTY
    },
    MetricDef {
        id: "memory.huge_page_fallback.ratio",
        unit: Unit::Ratio,
        help: "Share of the faults that wanted a transparent huge page and got small ones.",
        sources: &[Formula::ratio(
            &[term("vmstat.thp_fault_fallback")],
            &[term("vmstat.thp_fault_fallback"), term("vmstat.thp_fault_alloc")],
        )
        .floor(100.0)],
        caveat: "Costs speed, never correctness.",
        manual: "grep thp_fault /proc/vmstat; sleep 10; grep thp_fault /proc/vmstat",
        ..MetricDef::EMPTY
    },
    MetricDef {
        id: "memory.huge_page_failures.count",
        unit: Unit::Count,
        help: "Attempts to add huge pages to the reserved pool that failed.",
        sources: &[Formula::change(&[term("vmstat.htlb_buddy_alloc_fail")])],
        caveat: "Happens when memory is too fragmented.",
        manual: "grep htlb_ /proc/vmstat",
        ..MetricDef::EMPTY
    },
    MetricDef {
        id: "memory.numa_hint_local.ratio",
        unit: Unit::Ratio,
        help: "Share of the sampled accesses to memory that stayed on the node of the CPU.",
        sources: &[
            Formula::ratio(&[term("vmstat.numa_hint_faults_local")], &[term("vmstat.numa_hint_faults")]).floor(1000.0)
        ],
        caveat: "Only where automatic NUMA balancing samples; a sample, not a count of accesses.",
        manual: "grep numa_hint /proc/vmstat; sleep 10; grep numa_hint /proc/vmstat",
        ..MetricDef::EMPTY
    },
];
