//! /proc/vmstat: paging, reclaim, refaults, write-back and kills, as far as rdiag uses them.
//!
//! The kernel counts scans and allocation stalls here only when the host itself is short; reclaim within the limit of a control group is
//! left out. Refaults and swap-ins are counted whatever caused them, and PSI includes all of it. So memory findings of the host require
//! host-wide scanning too: one small group at its limit is no shortage of the host.

use crate::def::{Cadence, Collect, CollectorDef, Sink};
use rdiag_kernel::host::Host;
use rdiag_model::metric::{Formula, MetricDef, SeriesDef, Term, optional, term, times};
use rdiag_model::{RawUnit, Reason, Unavailable, Unit};

pub(super) static COLLECTOR: CollectorDef = CollectorDef {
    id: "vmstat",
    help: "Paging, reclaim, refaults, write-back and OOM kills, from /proc/vmstat.",
    cadence: Cadence::Interval,
    series: SERIES,
    metrics: METRICS,
    overhead: "one read of 5 KB per interval; the kernel sums over all CPUs (about 50 µs on 2 CPUs)",
    start: |_| Box::new(Vmstat),
};

const fn counter(name: &'static str, source: &'static str) -> SeriesDef {
    SeriesDef::counter(name, RawUnit::Count, source)
}

const fn pages(name: &'static str, source: &'static str) -> SeriesDef {
    SeriesDef::counter(name, RawUnit::Pages, source)
}

/// The name of a series is `vmstat.` and the name of the field.
const SERIES: &[SeriesDef] = &[
    counter("vmstat.pgscan_direct", "/proc/vmstat, pgscan_direct"),
    counter("vmstat.pgscan_kswapd", "/proc/vmstat, pgscan_kswapd"),
    counter("vmstat.pgscan_khugepaged", "/proc/vmstat, pgscan_khugepaged"),
    counter("vmstat.pgsteal_kswapd", "/proc/vmstat, pgsteal_kswapd"),
    counter("vmstat.pgsteal_direct", "/proc/vmstat, pgsteal_direct"),
    counter("vmstat.allocstall", "/proc/vmstat, allocstall (before 4.10)"),
    counter("vmstat.allocstall_dma", "/proc/vmstat, allocstall_dma"),
    counter("vmstat.allocstall_dma32", "/proc/vmstat, allocstall_dma32"),
    counter("vmstat.allocstall_normal", "/proc/vmstat, allocstall_normal"),
    counter("vmstat.allocstall_movable", "/proc/vmstat, allocstall_movable"),
    counter("vmstat.allocstall_device", "/proc/vmstat, allocstall_device"),
    counter("vmstat.workingset_refault", "/proc/vmstat, workingset_refault (before 5.9)"),
    counter("vmstat.workingset_refault_anon", "/proc/vmstat, workingset_refault_anon"),
    counter("vmstat.workingset_refault_file", "/proc/vmstat, workingset_refault_file"),
    counter("vmstat.workingset_activate", "/proc/vmstat, workingset_activate (before 5.9)"),
    counter("vmstat.workingset_activate_anon", "/proc/vmstat, workingset_activate_anon"),
    counter("vmstat.workingset_activate_file", "/proc/vmstat, workingset_activate_file"),
    counter("vmstat.pgmajfault", "/proc/vmstat, pgmajfault"),
    pages("vmstat.pswpin", "/proc/vmstat, pswpin"),
    pages("vmstat.pswpout", "/proc/vmstat, pswpout"),
    counter("vmstat.zswpwb", "/proc/vmstat, zswpwb"),
    counter("vmstat.oom_kill", "/proc/vmstat, oom_kill"),
    SeriesDef::gauge("vmstat.nr_dirty", RawUnit::Pages, "/proc/vmstat, nr_dirty"),
    SeriesDef::gauge("vmstat.nr_writeback", RawUnit::Pages, "/proc/vmstat, nr_writeback"),
    SeriesDef::gauge("vmstat.nr_dirty_threshold", RawUnit::Pages, "/proc/vmstat, nr_dirty_threshold"),
    SeriesDef::gauge(
        "vmstat.nr_dirty_background_threshold",
        RawUnit::Pages,
        "/proc/vmstat, nr_dirty_background_threshold",
    ),
    pages("vmstat.nr_dirtied", "/proc/vmstat, nr_dirtied"),
    pages("vmstat.nr_written", "/proc/vmstat, nr_written"),
    counter("vmstat.compact_stall", "/proc/vmstat, compact_stall"),
    counter("vmstat.thp_fault_alloc", "/proc/vmstat, thp_fault_alloc"),
    counter("vmstat.thp_fault_fallback", "/proc/vmstat, thp_fault_fallback"),
    counter("vmstat.htlb_buddy_alloc_fail", "/proc/vmstat, htlb_buddy_alloc_fail"),
    counter("vmstat.numa_hint_faults", "/proc/vmstat, numa_hint_faults"),
    counter("vmstat.numa_hint_faults_local", "/proc/vmstat, numa_hint_faults_local"),
];

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

const METRICS: &[MetricDef] = &[
    MetricDef::new("memory.scanned.per_second", Unit::PerSecond, "Pages that the kernel looked at per second, for the host as a whole, to find some to free.", &[Formula::rate(SCANS)]).caveat("Reclaim within the limit of a control group is not in it.").manual("sar -B 1 10"),
    MetricDef::new("memory.direct_scanned.per_second", Unit::PerSecond, "Pages that programs themselves had to look at per second before their allocation went on.", &[Formula::rate(&[term("vmstat.pgscan_direct")])]).caveat("Reclaim within the limit of a control group is not in it.").manual("sar -B 1 10"),
    MetricDef::new("memory.kswapd_scanned.per_second", Unit::PerSecond, "Pages that the kernel's reclaim threads looked at per second.", &[Formula::rate(&[term("vmstat.pgscan_kswapd")])]).caveat("Normal wherever files are read that do not fit into memory.").manual("sar -B 1 10"),
    MetricDef::new("memory.kswapd_freed.ratio", Unit::Ratio, "Pages that the reclaim threads freed per page that they looked at.", &[Formula::ratio(&[term("vmstat.pgsteal_kswapd")], &[term("vmstat.pgscan_kswapd")]).floor(SCANS_TO_JUDGE)]).caveat("Says nothing when little was scanned.").manual("sar -B 1 10"),
    MetricDef::new("memory.allocation_stalls.per_second", Unit::PerSecond, "Allocations per second that had to wait until the program itself had freed memory.", &[Formula::rate(STALLS)]).caveat("Reclaim within the limit of a control group is not in it; how long each took is not told.").manual("grep allocstall /proc/vmstat; sleep 10; grep allocstall /proc/vmstat"),
    MetricDef::new("memory.refaults.per_second", Unit::PerSecond, "Refaults per second: evicted pages read back.", &[Formula::rate(REFAULTS)]).caveat("Reading a file larger than the memory in a loop counts too; includes reclaim within control groups.").manual("grep workingset_refault /proc/vmstat; sleep 10; grep workingset_refault /proc/vmstat"),
    MetricDef::new("memory.working_set_refaults.per_second", Unit::PerSecond, "Working-set refaults per second: pages read back so soon after eviction that a little more memory would have kept them.", &[Formula::rate(ACTIVATED)]).caveat("Includes reclaim within control groups.").manual("grep workingset_activate /proc/vmstat; sleep 10; grep workingset_activate /proc/vmstat"),
    MetricDef::new("memory.refaults_per_scan.ratio", Unit::Ratio, "Refaults per page that reclaim scanned.", &[Formula::ratio(REFAULTS, SCANS).floor(SCANS_TO_JUDGE)]).caveat("Refaults within control groups are in it, their scans are not.").manual("grep -E 'workingset_refault|pgscan' /proc/vmstat; sleep 10; grep -E 'workingset_refault|pgscan' /proc/vmstat"),
    MetricDef::new("memory.major_faults.per_second", Unit::PerSecond, "Page faults per second that had to wait for a disk or for compressed memory.", &[Formula::rate(&[term("vmstat.pgmajfault")])]).caveat("Starting a program causes them too.").manual("sar -B 1 10"),
    MetricDef::new("memory.swap_in.bytes_per_second", Unit::BytesPerSecond, "Memory read back from swap.", &[Formula::rate(&[term("vmstat.pswpin")])]).caveat("Counts reads of compressed memory (zram) like reads of a disk; pages found in zswap are not in it.").manual("vmstat 1 10"),
    MetricDef::new("memory.swap_out.bytes_per_second", Unit::BytesPerSecond, "Memory written to swap.", &[Formula::rate(&[term("vmstat.pswpout")])]).caveat("Alone it is preparation, not delay.").manual("vmstat 1 10"),
    MetricDef::new("memory.zswap_written_back.per_second", Unit::PerSecond, "Pages per second that the compressed cache pushed out to a swap device.", &[Formula::rate(&[term("vmstat.zswpwb")])]).caveat("Kernels before 6.8 do not count it.").manual("grep zswpwb /proc/vmstat"),
    MetricDef::new("memory.oom_kills.count", Unit::Count, "OOM kills within the window, on the host or in a control group.", &[Formula::change(&[term("vmstat.oom_kill")])]).caveat("Does not tell whose memory ran out; the kernel log does.").manual("grep oom_kill /proc/vmstat"),
    MetricDef::new("memory.oom_kills_since_boot.count", Unit::Count, "OOM kills since boot.", &[Formula::level(&[term("vmstat.oom_kill")])]).caveat("Does not tell when.").manual("grep oom_kill /proc/vmstat"),
    MetricDef::new("disk.write_back.ratio", Unit::Ratio, "Dirty memory per dirty memory at which the kernel begins to slow writers down.", // Writers are paced from halfway between the two thresholds on (mm/page-writeback.c, freerun ceiling).
        &[Formula::level_ratio(
            &[term("vmstat.nr_dirty"), term("vmstat.nr_writeback")],
            &[times(0.5, "vmstat.nr_dirty_threshold"), times(0.5, "vmstat.nr_dirty_background_threshold")],
        )]).caveat("Of the host as a whole: a slow device beside a fast one, or a control group, may be paced earlier.").manual("grep -E 'nr_dirty|nr_writeback' /proc/vmstat"),
    MetricDef::new("disk.dirtied.bytes_per_second", Unit::BytesPerSecond, "Page cache that programs changed.", &[Formula::rate(&[term("vmstat.nr_dirtied")])]).caveat("A page that is changed twice before it is written counts once.").manual("grep nr_dirtied /proc/vmstat; sleep 10; grep nr_dirtied /proc/vmstat"),
    MetricDef::new("disk.written_back.bytes_per_second", Unit::BytesPerSecond, "Page cache that was written to its device.", &[Formula::rate(&[term("vmstat.nr_written")])]).caveat("Direct I/O is not in it.").manual("grep nr_written /proc/vmstat; sleep 10; grep nr_written /proc/vmstat"),
    MetricDef::new("memory.compaction_stalls.per_second", Unit::PerSecond, "Allocations per second that stalled in direct compaction to get contiguous pages.", &[Formula::rate(&[term("vmstat.compact_stall")])]).caveat("How long each took is not told.").manual("grep compact_ /proc/vmstat; sleep 10; grep compact_ /proc/vmstat"),
    MetricDef::new("memory.huge_page_fallback.ratio", Unit::Ratio, "Share of the faults that wanted a transparent huge page and got small ones.", &[Formula::ratio(
            &[term("vmstat.thp_fault_fallback")],
            &[term("vmstat.thp_fault_fallback"), term("vmstat.thp_fault_alloc")],
        )
        .floor(100.0)]).caveat("Costs speed, never correctness.").manual("grep thp_fault /proc/vmstat; sleep 10; grep thp_fault /proc/vmstat"),
    MetricDef::new("memory.huge_page_failures.count", Unit::Count, "Attempts to add huge pages to the reserved pool that failed.", &[Formula::change(&[term("vmstat.htlb_buddy_alloc_fail")])]).caveat("Happens when memory is too fragmented.").manual("grep htlb_ /proc/vmstat"),
    MetricDef::new("memory.numa_hint_local.ratio", Unit::Ratio, "Share of the sampled accesses to memory that stayed on the node of the CPU.", &[Formula::ratio(&[term("vmstat.numa_hint_faults_local")], &[term("vmstat.numa_hint_faults")]).floor(1000.0)]).caveat("Only where automatic NUMA balancing samples; a sample, not a count of accesses.").manual("grep numa_hint /proc/vmstat; sleep 10; grep numa_hint /proc/vmstat"),
];

/// Fields that kernels built without a feature leave out: the first of each, and what the kernel lacks then.
const FEATURES: [(&str, &str); 4] = [
    ("vmstat.pswp", "this kernel cannot swap"),
    ("vmstat.compact_", "this kernel does not move pages to make room"),
    ("vmstat.htlb_", "this kernel has no huge pages"),
    ("vmstat.thp_", "this kernel has no transparent huge pages"),
];
/// A field of every kernel that stands behind those of the features: without it the file was cut.
const LAST_FIELD: &str = "unevictable_pgs_culled";

struct Vmstat;

impl Collect for Vmstat {
    fn sample(&mut self, host: &Host, out: &Sink) -> Result<(), Unavailable> {
        let text = host.read("proc/vmstat")?;
        let mut seen = false;
        let mut whole = false;
        let mut lacking = FEATURES;
        for (field, value) in parse(&text) {
            whole |= field == LAST_FIELD;
            let known = |def: &&SeriesDef| def.name.strip_prefix("vmstat.") == Some(field);
            let Some(def) = SERIES.iter().find(known) else { continue };
            seen = true;
            out.count(def.name, "", value);
            for (prefix, why) in &mut lacking {
                if def.name.starts_with(*prefix) {
                    *why = "";
                }
            }
        }
        for (prefix, why) in lacking.iter().filter(|(_, why)| whole && !why.is_empty()) {
            out.gap(prefix, "", Unavailable::new(Reason::NotApplicable, *why));
        }
        if seen {
            Ok(())
        } else {
            Err(Unavailable::new(Reason::Malformed, "/proc/vmstat holds none of the known fields"))
        }
    }
}

/// `name value` lines; anything else is left out.
fn parse(text: &str) -> impl Iterator<Item = (&str, u64)> {
    text.lines().filter_map(|line| {
        let (name, value) = line.split_once(' ')?;
        Some((name, value.trim().parse().ok()?))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Story;

    #[test]
    fn a_feature_that_the_kernel_lacks_is_told_from_a_file_that_was_cut() {
        let reason = |text: &str, metric: &str| {
            let story = Story::of_seconds(2).file(0, "proc/vmstat", text);
            story.metrics(&COLLECTOR).stats(metric, "").unwrap_err().reason
        };
        let whole = "pgscan_direct 1\npgfault 2\nunevictable_pgs_culled 3\n";
        assert_eq!(reason(whole, "memory.swap_in.bytes_per_second"), Reason::NotApplicable);
        assert_eq!(reason(whole, "memory.compaction_stalls.per_second"), Reason::NotApplicable);
        assert_eq!(reason("pgscan_direct 1\npgfa", "memory.swap_in.bytes_per_second"), Reason::Absent);
    }

    #[test]
    fn names_of_old_and_new_kernels_give_the_same_metrics() {
        let story = |names: [&str; 2]| {
            let text = |n: u64| format!("{} {}\n{} {}\n", names[0], 100 * n, names[1], 7 * n);
            Story::of_seconds(2).file(0, "proc/vmstat", text(1)).file(1, "proc/vmstat", text(2)).metrics(&COLLECTOR)
        };
        for names in [["workingset_refault_file", "allocstall_normal"], ["workingset_refault", "allocstall"]] {
            let metrics = story(names);
            assert_eq!(metrics.stats("memory.refaults.per_second", "").unwrap().mean, 100.0);
            assert_eq!(metrics.stats("memory.allocation_stalls.per_second", "").unwrap().mean, 7.0);
        }
    }

    #[test]
    fn fields_are_found_and_broken_lines_left_out() {
        let text = "pswpin 12\npswpout\npgmajfault 18446744073709551615\noom_kill -1\noom_kill 1 2\nnr_dirty 7";
        let found: Vec<_> = parse(text).collect();
        assert_eq!(found, [("pswpin", 12), ("pgmajfault", u64::MAX), ("nr_dirty", 7)]);
    }

    proptest::proptest! {
        #[test]
        fn no_text_whatever_makes_it_panic(text in "(?s).{0,300}") {
            let _ = parse(&text).count();
        }
    }
}
