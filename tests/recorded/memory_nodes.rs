//! Memory that is free in the wrong place or the wrong shape, and memory that no process holds. The hosts are made up,
//! and each has a twin just below the marks.

use serde_json::Value;

use crate::support::{assert_nothing_else_fired, finding, findings, recorded_report};

#[track_caller]
fn check(report: &Value, id: &str, instance: Option<&str>, status: &str, value: f64) {
    let found = finding(report, id, instance);
    assert_eq!(found["status"], status, "{found:#}");
    assert!((found["value"].as_f64().unwrap() - value).abs() < 1e-6, "{id} is not {value}: {found:#}");
}

#[test]
fn a_full_and_fragmented_node_is_told_from_the_one_beside_it() {
    let report = recorded_report("memory-numa-fragmented");
    assert_nothing_else_fired(
        &report,
        &[
            "memory.saturation.direct_reclaim",
            "memory.saturation.compaction",
            "memory.saturation.watermark",
            "memory.saturation.numa",
            "memory.errors.page_allocation",
        ],
    );
    check(&report, "memory.saturation.compaction", None, "warning", 80.0);
    assert!(
        finding(&report, "memory.saturation.compaction", None)["culprit"].is_null(),
        "who faults the most may fault single pages"
    );
    // 300 of 400 faults each second.
    check(&report, "memory.saturation.huge_page_fallback", None, "info", 0.75);
    // 9900 free pages, the min mark at 11,000 and the low one at 14,000.
    let (full, other) = ("Normal of node 0", "Normal of node 1");
    check(&report, "memory.saturation.watermark", Some(full), "warning", 0.9);
    let zone = finding(&report, "memory.saturation.watermark", Some(full));
    assert_eq!(zone["culprit"]["name"], full);
    assert!(zone["summary"].as_str().unwrap().contains("70.7% of its low watermark"), "{zone:#}");
    assert_eq!(finding(&report, "memory.saturation.watermark", Some(other))["status"], "ok");
    // 30,000 allocations went elsewhere, 60,000 did not.
    check(&report, "memory.saturation.numa", Some("node0"), "warning", 1.0 / 3.0);
    assert_eq!(finding(&report, "memory.saturation.numa", Some("node0"))["culprit"]["name"], "node0");
    check(&report, "memory.saturation.numa", Some("node1"), "ok", 0.0);
    check(&report, "memory.errors.page_allocation", None, "warning", 2.0);
    let failed = finding(&report, "memory.errors.page_allocation", None);
    assert!(
        failed["culprit"].is_null(),
        "an interrupt asked, and the one of an hour before is not of the window: {failed:#}"
    );
    assert!(failed["summary"].as_str().unwrap().contains("2 within the window, 3 since boot"), "{failed:#}");
}

#[test]
fn a_node_full_of_cache_raises_nothing() {
    let report = recorded_report("memory-numa-full-of-cache");
    assert_nothing_else_fired(&report, &[]);
    check(&report, "memory.saturation.compaction", None, "ok", 9.0);
    check(&report, "memory.saturation.huge_page_fallback", None, "ok", 0.45);
    // Below the low mark (13,000 of 14,000 pages), where reclaim threads work and nobody waits.
    check(&report, "memory.saturation.watermark", Some("Normal of node 0"), "info", 13.0 / 11.0);
    check(&report, "memory.saturation.numa", Some("node0"), "ok", 3.0 / 63.0);
    assert_eq!(finding(&report, "memory.errors.page_allocation", None)["status"], "info", "an hour before");
}

#[test]
fn memory_that_the_kernel_holds_is_named_by_what_holds_it() {
    let report = recorded_report("memory-held-by-kernel");
    assert_nothing_else_fired(&report, &["memory.utilization.slab", "memory.utilization.page_tables"]);
    // KiB of 16 GiB.
    check(&report, "memory.utilization.slab", None, "warning", 4_529_848.0 / 16_777_216.0);
    check(&report, "memory.utilization.page_tables", None, "warning", 2_013_266.0 / 16_777_216.0);
    assert!(
        finding(&report, "memory.utilization.page_tables", None)["culprit"].is_null(),
        "resident memory does not tell"
    );
    check(&report, "memory.utilization.unaccounted", None, "info", 3_691_000.0 / 16_777_216.0);
    check(&report, "memory.utilization", None, "ok", 1.0 - 4_591_102.0 / 16_777_216.0);
    let headline = report["verdict"]["headline"].as_str().unwrap();
    assert_eq!(headline, "Memory utilization — unreclaimable slab is 27.0% of memory", "the larger share leads");
}

#[test]
fn a_little_less_of_each_is_no_finding() {
    let report = recorded_report("memory-held-below");
    assert_nothing_else_fired(&report, &[]);
    check(&report, "memory.utilization.slab", None, "ok", 3_858_759.0 / 16_777_216.0);
    check(&report, "memory.utilization.page_tables", None, "ok", 754_975.0 / 16_777_216.0);
    check(&report, "memory.utilization.unaccounted", None, "ok", 3_019_899.0 / 16_777_216.0);
    assert_eq!(findings(&report, "memory.saturation.numa")[0]["status"], "skipped", "it has one node");
}
