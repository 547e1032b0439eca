use super::*;
use crate::testing::{Story, stats};

#[test]
fn the_pool_of_huge_pages_is_known_to_old_kernels_too() {
    let pool = |text: &str| {
        let story = Story::of_seconds(2).file(0, "proc/meminfo", format!("MemTotal: 1000 kB\n{text}"));
        story.metrics(&COLLECTOR).stats("memory.huge_pages.ratio", "").map(|stats| stats.last)
    };
    assert_eq!(pool("HugePages_Total: 2\nHugePages_Free: 1\nHugepagesize: 100 kB\n").unwrap(), 0.2);
    assert_eq!(pool("HugePages_Total: 2\nHugePages_Free: 1\nHugepagesize: 100 kB\nHugetlb: 300 kB").unwrap(), 0.3);
    assert_eq!(pool("Committed_AS: 2 kB\n").unwrap_err().reason, Reason::NotApplicable);
    assert_eq!(pool("").unwrap_err().reason, Reason::Absent);
}

#[test]
fn promised_memory_is_judged_only_where_overcommitting_is_forbidden() {
    let ratio = |mode: &str| {
        let text = "MemTotal: 9 kB\nCommitLimit: 100 kB\nCommitted_AS: 150 kB\n";
        let story = Story::of_seconds(2).file(0, "proc/meminfo", text).file(0, "proc/sys/vm/overcommit_memory", mode);
        story.metrics(&COLLECTOR).stats("memory.committed.ratio", "").map(|stats| stats.last)
    };
    assert_eq!(ratio("2\n").unwrap(), 1.5);
    assert_eq!(ratio("0\n").unwrap_err().reason, Reason::NotApplicable);
    assert_eq!(ratio("x\n").unwrap_err().reason, Reason::Malformed);
}

#[test]
fn available_memory_that_falls_is_a_rate_with_its_slowest_interval_and_one_that_rises_is_below_zero() {
    let rates = |available: [u64; 4]| {
        let mut tree = Story::of_seconds(1);
        for (at, kilobytes) in available.into_iter().enumerate() {
            if at > 0 {
                tree.next();
            }
            tree.put("proc/meminfo", format!("MemTotal: 9000 kB\nMemFree: 1 kB\nMemAvailable: {kilobytes} kB\n"));
        }
        stats(&tree.metrics(&COLLECTOR), "memory.available_decline.bytes_per_second", "")
    };
    let falls = rates([8000, 7000, 6900, 5000]);
    assert_eq!((falls.mean, falls.min, falls.total), (1024e3, 102_400.0, 3072e3));
    assert_eq!(rates([5000, 6000, 7000, 8000]).mean, -1024e3);
}

#[test]
fn every_field_has_its_series() {
    for (series, _) in FIELDS {
        assert!(SERIES.iter().any(|def| def.name == series), "{series} is not declared");
    }
}

#[test]
fn huge_pages_that_are_promised_to_a_program_are_not_unused() {
    let free = |more: &str| {
        let text = format!("MemTotal: 1000 kB\nHugePages_Total: 10\nHugePages_Free: 10\n{more}Hugepagesize: 50 kB\n");
        stats(
            &Story::of_seconds(2).file(0, "proc/meminfo", text).metrics(&COLLECTOR),
            "memory.huge_pages_free.ratio",
            "",
        )
        .min
    };
    assert_eq!((free(""), free("HugePages_Rsvd: 0\n"), free("HugePages_Rsvd: 9\n")), (1.0, 1.0, 0.1));
}

#[test]
fn the_cache_of_zfs_is_accounted_for() {
    let lines = "MemTotal: 1000 kB\nMemFree: 100 kB\nBuffers: 0 kB\nCached: 300 kB\nAnonPages: 0 kB\nSlab: 0 kB\nSUnreclaim: 0 kB\n\
                 SReclaimable: 0 kB\nKernelStack: 0 kB\nPageTables: 0 kB\nSwapCached: 0 kB\nShmem: 0 kB\n";
    let story = || Story::of_seconds(2).file(0, "proc/meminfo", lines);
    let ratio = |story: Story| stats(&story.metrics(&COLLECTOR), "memory.unaccounted.ratio", "").last;
    let without = ratio(story());
    let arc = "9 1 0x01 123 33456 1 2\nname type data\nhits 4 7\nsize 4 204800\nhdr_size 4 9\n";
    assert!((without - ratio(story().file(0, ARC, arc)) - 0.2).abs() < 1e-9, "204800 bytes are a fifth of 1000 kB");
    let metrics = story().file(0, ARC, arc).metrics(&COLLECTOR);
    assert!((stats(&metrics, "memory.zfs_cache.ratio", "").last - 0.2).abs() < 1e-9);
    assert_eq!(stats(&metrics, "memory.zfs_cache_growth.bytes_per_second", "").mean, 0.0);
    let mut contained = story().file(0, ARC, arc);
    contained.spec.facts =
        Some(rdiag_model::Facts { container: Some("a test".into()), ..rdiag_model::Facts::default() });
    assert!(
        contained.metrics(&COLLECTOR).stats("memory.zfs_cache.ratio", "").is_err(),
        "the cache of the host, the memory of the container"
    );
    assert_eq!((arc_bytes("size 4 x\n"), arc_bytes("hdr_size 4 9\n"), arc_bytes("")), (None, None, None));
}
