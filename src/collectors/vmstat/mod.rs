//! /proc/vmstat: paging, reclaim, refaults, write-back and kills, as far as rdiag uses them.
//!
//! The kernel counts scans and allocation stalls here only when the host itself is short; reclaim within the limit of a control group is
//! left out. Refaults and swap-ins are counted whatever caused them, and PSI includes all of it. So memory findings of the host require
//! host-wide scanning too: one small group at its limit is no shortage of the host.

mod metrics;

use self::metrics::METRICS;
use crate::def::{Cadence, Collect, CollectorDef, Sink};
use rdiag_kernel::host::Host;
use rdiag_model::metric::SeriesDef;
use rdiag_model::{RawUnit, Reason, Unavailable};
use rdiag_proc::counters;

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
        for (field, value) in counters(&text) {
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
}
