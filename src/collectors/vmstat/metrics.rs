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
    MetricDef::new(
        "memory.scanned.per_second",
        Unit::PerSecond,
        "Pages that the kernel looked at per second, for the host as a whole, to \
        find some to free.",
        &[Formula::rate(SCANS)],
    )
    .caveat("Reclaim within the limit of a control group is not in it.")
    .manual(
        "sar -B 1 \
        10",
    ),
    MetricDef::new(
        "memory.direct_scanned.per_second",
        Unit::PerSecond,
        "Pages that programs themselves had to look at per second before \
        their allocation went on.",
        &[Formula::rate(&[term("vmstat.pgscan_direct")])],
    )
    .caveat(
        "Reclaim within the limit of a control group \
        is not in it.",
    )
    .manual("sar -B 1 10"),
    MetricDef::new(
        "memory.kswapd_scanned.per_second",
        Unit::PerSecond,
        "Pages that the kernel's reclaim threads looked at per \
        second.",
        &[Formula::rate(&[term("vmstat.pgscan_kswapd")])],
    )
    .caveat(
        "Normal wherever files are read that do not fit into \
        memory.",
    )
    .manual("sar -B 1 10"),
    MetricDef::new(
        "memory.kswapd_freed.ratio",
        Unit::Ratio,
        "Pages that the reclaim threads freed per page that they looked \
        at.",
        &[Formula::ratio(&[term("vmstat.pgsteal_kswapd")], &[term("vmstat.pgscan_kswapd")]).floor(SCANS_TO_JUDGE)],
    )
    .caveat(
        "Says \
        nothing when little was scanned.",
    )
    .manual("sar -B 1 10"),
    MetricDef::new(
        "memory.allocation_stalls.per_second",
        Unit::PerSecond,
        "Allocations per second that had to wait until the program \
        itself had freed memory.",
        &[Formula::rate(STALLS)],
    )
    .caveat(
        "Reclaim within the limit of a control group is not in it; how long \
        each took is not told.",
    )
    .manual("grep allocstall /proc/vmstat; sleep 10; grep allocstall /proc/vmstat"),
    MetricDef::new(
        "memory.refaults.per_second",
        Unit::PerSecond,
        "Refaults per second: evicted pages read \
        back.",
        &[Formula::rate(REFAULTS)],
    )
    .caveat(
        "Reading a file larger than the memory in a loop counts too; includes reclaim within \
        control groups.",
    )
    .manual("grep workingset_refault /proc/vmstat; sleep 10; grep workingset_refault /proc/vmstat"),
    MetricDef::new(
        "memory.working_set_refaults.per_second",
        Unit::PerSecond,
        "Working-set refaults per second: pages read back so soon \
        after eviction that a little more memory would have kept them.",
        &[Formula::rate(ACTIVATED)],
    )
    .caveat(
        "Includes reclaim within \
        control groups.",
    )
    .manual("grep workingset_activate /proc/vmstat; sleep 10; grep workingset_activate /proc/vmstat"),
    MetricDef::new(
        "memory.refaults_per_scan.ratio",
        Unit::Ratio,
        "Refaults per page that reclaim \
        scanned.",
        &[Formula::ratio(REFAULTS, SCANS).floor(SCANS_TO_JUDGE)],
    )
    .caveat(
        "Refaults within control groups are in it, their scans \
        are not.",
    )
    .manual(
        "grep -E 'workingset_refault|pgscan' /proc/vmstat; sleep 10; grep -E 'workingset_refault|pgscan' /proc/vmstat",
    ),
    MetricDef::new(
        "memory.major_faults.per_second",
        Unit::PerSecond,
        "Page faults per second that had to wait for a disk or for \
        compressed memory.",
        &[Formula::rate(&[term("vmstat.pgmajfault")])],
    )
    .caveat("Starting a program causes them too.")
    .manual(
        "sar -B \
        1 10",
    ),
    MetricDef::new(
        "memory.swap_in.bytes_per_second",
        Unit::BytesPerSecond,
        "Memory read back from \
        swap.",
        &[Formula::rate(&[term("vmstat.pswpin")])],
    )
    .caveat(
        "Counts reads of compressed memory (zram) like reads of a disk; pages \
        found in zswap are not in it.",
    )
    .manual("vmstat 1 10"),
    MetricDef::new(
        "memory.swap_out.bytes_per_second",
        Unit::BytesPerSecond,
        "Memory written to \
        swap.",
        &[Formula::rate(&[term("vmstat.pswpout")])],
    )
    .caveat("Alone it is preparation, not delay.")
    .manual("vmstat 1 10"),
    MetricDef::new(
        "memory.zswap_written_back.per_second",
        Unit::PerSecond,
        "Pages per second that the compressed cache pushed out to a \
        swap device.",
        &[Formula::rate(&[term("vmstat.zswpwb")])],
    )
    .caveat("Kernels before 6.8 do not count it.")
    .manual(
        "grep zswpwb \
        /proc/vmstat",
    ),
    MetricDef::new(
        "memory.oom_kills.count",
        Unit::Count,
        "OOM kills within the window, on the host or in a control \
        group.",
        &[Formula::change(&[term("vmstat.oom_kill")])],
    )
    .caveat(
        "Does not tell whose memory ran out; the kernel log \
        does.",
    )
    .manual("grep oom_kill /proc/vmstat"),
    MetricDef::new(
        "memory.oom_kills_since_boot.count",
        Unit::Count,
        "OOM kills since \
        boot.",
        &[Formula::level(&[term("vmstat.oom_kill")])],
    )
    .caveat("Does not tell when.")
    .manual("grep oom_kill /proc/vmstat"),
    MetricDef::new(
        "disk.write_back.ratio",
        Unit::Ratio,
        "Dirty memory per dirty memory at which the kernel begins to slow writers \
        down.", // Writers are paced from halfway between the two thresholds on (mm/page-writeback.c, freerun ceiling).
        &[Formula::level_ratio(
            &[term("vmstat.nr_dirty"), term("vmstat.nr_writeback")],
            &[times(0.5, "vmstat.nr_dirty_threshold"), times(0.5, "vmstat.nr_dirty_background_threshold")],
        )],
    )
    .caveat("Of the host as a whole: a slow device beside a fast one, or a control group, may be paced earlier.")
    .manual(
        "grep -E \
            'nr_dirty|nr_writeback' /proc/vmstat",
    ),
    MetricDef::new(
        "disk.dirtied.bytes_per_second",
        Unit::BytesPerSecond,
        "Page cache that programs \
        changed.",
        &[Formula::rate(&[term("vmstat.nr_dirtied")])],
    )
    .caveat(
        "A page that is changed twice before it is written counts \
        once.",
    )
    .manual("grep nr_dirtied /proc/vmstat; sleep 10; grep nr_dirtied /proc/vmstat"),
    MetricDef::new(
        "disk.written_back.bytes_per_second",
        Unit::BytesPerSecond,
        "Page cache that was written to its \
        device.",
        &[Formula::rate(&[term("vmstat.nr_written")])],
    )
    .caveat("Direct I/O is not in it.")
    .manual(
        "grep nr_written /proc/vmstat; \
        sleep 10; grep nr_written /proc/vmstat",
    ),
    MetricDef::new(
        "memory.compaction_stalls.per_second",
        Unit::PerSecond,
        "Allocations per second that stalled in direct compaction to \
        get contiguous pages.",
        &[Formula::rate(&[term("vmstat.compact_stall")])],
    )
    .caveat("How long each took is not told.")
    .manual(
        "grep \
        compact_ /proc/vmstat; sleep 10; grep compact_ /proc/vmstat",
    ),
    MetricDef::new(
        "memory.huge_page_fallback.ratio",
        Unit::Ratio,
        "Share of the faults that wanted a transparent huge page and got small \
        ones.",
        &[Formula::ratio(
            &[term("vmstat.thp_fault_fallback")],
            &[term("vmstat.thp_fault_fallback"), term("vmstat.thp_fault_alloc")],
        )
        .floor(100.0)],
    )
    .caveat("Costs speed, never correctness.")
    .manual(
        "grep thp_fault /proc/vmstat; sleep 10; grep thp_fault \
            /proc/vmstat",
    ),
    MetricDef::new(
        "memory.huge_page_failures.count",
        Unit::Count,
        "Attempts to add huge pages to the reserved pool that \
        failed.",
        &[Formula::change(&[term("vmstat.htlb_buddy_alloc_fail")])],
    )
    .caveat(
        "Happens when memory is too \
        fragmented.",
    )
    .manual("grep htlb_ /proc/vmstat"),
    MetricDef::new(
        "memory.numa_hint_local.ratio",
        Unit::Ratio,
        "Share of the sampled accesses to memory that stayed on the node of the \
        CPU.",
        &[Formula::ratio(&[term("vmstat.numa_hint_faults_local")], &[term("vmstat.numa_hint_faults")]).floor(1000.0)],
    )
    .caveat(
        "Only \
        where automatic NUMA balancing samples; a sample, not a count of accesses.",
    )
    .manual(
        "grep numa_hint /proc/vmstat; sleep 10; grep \
        numa_hint /proc/vmstat",
    ),
];
