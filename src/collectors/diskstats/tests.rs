//! Whole stories: from the files to the metrics.

use super::COLLECTOR;
use crate::testing::{Story, gap, instances, stats};
use rdiag_model::Reason;

const MODERN: &str = "0 0 0 0 0 0";

/// A line with reads, their sectors and ms, busy ms and weighted ms; nothing else moved.
fn line(name: &str, reads: u64, sectors: u64, ms: u64, busy: u64, weighted: u64) -> String {
    format!("   8       0 {name} {reads} 0 {sectors} {ms} 0 0 0 0 0 {busy} {weighted} {MODERN}\n")
}

#[test]
fn rates_queue_and_latency_follow_from_two_readings() {
    let story = Story::of_seconds(2)
        .file(0, "sys/block/sda/queue/rotational", "1\n")
        .file(0, "proc/diskstats", line("sda", 100, 800, 50, 10, 50))
        .file(1, "proc/diskstats", line("sda", 200, 1600, 2050, 510, 2050));
    let metrics = story.metrics(&COLLECTOR);
    let mean = |metric: &str| stats(&metrics, metric, "sda").mean;
    assert_eq!(mean("disk.reads.per_second"), 100.0);
    assert_eq!(mean("disk.read.bytes_per_second"), 409_600.0, "sectors are of 512 bytes on every device");
    assert_eq!(mean("disk.busy.ratio"), 0.5);
    assert_eq!(mean("disk.queue.count"), 2.0);
    assert!((mean("disk.read_await.seconds") - 0.020).abs() < 1e-12);
    assert_eq!(mean("disk.read_size.bytes"), 4096.0);
    assert_eq!(gap(&metrics, "disk.write_await.seconds", "sda").reason, Reason::NotApplicable);
    let labels = &metrics.labels["device"]["sda"];
    assert_eq!((labels["class"].as_str(), labels["rotational"].as_str()), ("hdd", "yes"));
    assert_eq!(labels["stacked"], "no");
}

#[test]
fn a_kernel_of_14_columns_has_no_discards_and_no_flushes_but_everything_else() {
    let old = |reads: u64| format!("8 0 sda {reads} 0 0 0 0 0 0 0 0 0 0\n8 1 sda1 {reads} 0 0 0 0 0 0 0 0 0 0\n");
    let story = Story::of_seconds(2)
        .file(0, "sys/block/sda/queue/rotational", "0")
        .file(0, "proc/diskstats", old(5))
        .file(1, "proc/diskstats", old(25));
    let metrics = story.metrics(&COLLECTOR);
    assert_eq!(instances(&metrics, "disk.reads.per_second"), ["sda"], "partitions are left out");
    assert_eq!(stats(&metrics, "disk.reads.per_second", "sda").mean, 20.0);
    assert_eq!(gap(&metrics, "disk.flush_await.seconds", "sda").reason, Reason::Absent);
    assert_eq!(gap(&metrics, "disk.discard.bytes_per_second", "sda").reason, Reason::Absent);
}

#[test]
fn times_of_32_bits_wrap_without_a_spike() {
    let story = Story::of_seconds(2)
        .file(0, "sys/block/sda/size", "1")
        .file(0, "proc/diskstats", line("sda", 100, 0, 4_294_967_290, 4_294_967_000, 4_294_966_796))
        .file(1, "proc/diskstats", line("sda", 150, 0, 494, 204, 500));
    let metrics = story.metrics(&COLLECTOR);
    assert_eq!(stats(&metrics, "disk.read_await.seconds", "sda").mean, 0.010);
    assert_eq!(stats(&metrics, "disk.busy.ratio", "sda").mean, 0.5);
    assert_eq!(stats(&metrics, "disk.queue.count", "sda").mean, 1.0);
}

#[test]
fn a_device_that_vanishes_keeps_what_was_seen_of_it() {
    let other = line("sdb", 1, 0, 0, 0, 0);
    let story = Story::of_seconds(4)
        .file(0, "sys/block/sda/size", "1")
        .file(0, "sys/block/sdb/size", "1")
        .file(0, "proc/diskstats", line("sda", 100, 0, 0, 0, 0) + &other)
        .file(1, "proc/diskstats", line("sda", 200, 0, 0, 0, 0) + &other)
        .file(2, "proc/diskstats", &other);
    let metrics = story.metrics(&COLLECTOR);
    let reads = stats(&metrics, "disk.reads.per_second", "sda");
    assert_eq!((reads.mean, reads.max), (100.0, 100.0));
}

#[test]
fn another_device_under_the_same_name_is_a_reset_and_no_spike() {
    let story = Story::of_seconds(4)
        .file(0, "sys/block/sda/diskseq", "7")
        .file(0, "sys/block/sdb/diskseq", "8")
        .file(0, "proc/diskstats", line("sda", 100, 0, 0, 0, 0))
        .file(1, "proc/diskstats", line("sdb", 1, 0, 0, 0, 0))
        .file(2, "sys/block/sda/diskseq", "9")
        .file(2, "proc/diskstats", line("sda", 1_000_000, 0, 0, 0, 0))
        .file(3, "proc/diskstats", line("sda", 1_000_050, 0, 0, 0, 0));
    let reads = stats(&story.metrics(&COLLECTOR), "disk.reads.per_second", "sda");
    assert_eq!((reads.mean, reads.max, reads.discarded), (50.0, 50.0, 1));
}

#[test]
fn a_device_whose_statistics_are_off_is_unknown_and_never_idle() {
    let story = Story::of_seconds(2)
        .file(0, "sys/block/sda/queue/iostats", "1")
        .file(0, "sys/block/sdb/queue/iostats", "0\n")
        .file(0, "sys/block/sdb/size", "2097152\n")
        .file(0, "proc/diskstats", line("sda", 1, 0, 0, 0, 0) + &line("sdb", 0, 0, 0, 0, 0));
    let metrics = story.metrics(&COLLECTOR);
    let gap = gap(&metrics, "disk.busy.ratio", "sdb");
    assert_eq!(gap.reason, Reason::Disabled);
    assert_eq!(gap.remedy.as_deref(), Some("echo 1 > /sys/block/sdb/queue/iostats"));
}

#[test]
fn what_was_never_used_is_left_out_and_appears_with_its_first_request() {
    let lines =
        |reads: u64| line("loop0", 0, 0, 0, 0, 0) + &line("sda", 9, 0, 0, 0, 0) + &line("loop1", reads, 0, 0, 0, 0);
    let story = Story::of_seconds(4)
        .file(0, "sys/block/loop0/queue/iostats", "1")
        .file(0, "sys/block/loop1/queue/iostats", "1")
        .file(0, "sys/block/zram0/queue/iostats", "0")
        .file(0, "sys/block/zram0/size", "0")
        .file(0, "sys/block/sda/queue/iostats", "1")
        .file(0, "proc/diskstats", lines(0) + &line("zram0", 0, 0, 0, 0, 0))
        .file(2, "proc/diskstats", lines(10))
        .file(3, "proc/diskstats", lines(30));
    let metrics = story.metrics(&COLLECTOR);
    assert_eq!(instances(&metrics, "disk.reads.per_second"), ["loop1", "sda"]);
    assert_eq!(stats(&metrics, "disk.reads.per_second", "loop1").mean, 20.0);
    assert_eq!(metrics.labels["device"]["loop1"]["stacked"], "yes");
}

#[test]
fn a_device_that_was_used_once_and_has_nothing_behind_it_now_is_left_out() {
    let lines = |reads: u64| line("loop0", 70 + reads, 0, 0, 0, 0) + &line("sda", 9, 0, 0, 0, 0);
    let story = Story::of_seconds(4).file(0, "sys/block/loop0/size", "0\n").file(0, "sys/block/sda/size", "8\n").file(
        0,
        "proc/diskstats",
        lines(0),
    );
    assert_eq!(instances(&story.metrics(&COLLECTOR), "disk.reads.per_second"), ["sda"]);
    let attached = story
        .file(2, "sys/block/loop0/size", "8\n")
        .file(2, "sys/block/sda/size", "8\n")
        .file(2, "proc/diskstats", lines(5))
        .file(3, "proc/diskstats", lines(8));
    assert_eq!(stats(&attached.metrics(&COLLECTOR), "disk.reads.per_second", "loop0").mean, 3.0);
}

#[test]
fn a_name_with_a_slash_is_found_in_sysfs() {
    let story = Story::of_seconds(2).file(0, "sys/block/cciss!c0d0/queue/rotational", "1").file(
        0,
        "proc/diskstats",
        line("cciss/c0d0", 1, 0, 0, 0, 0),
    );
    let metrics = story.metrics(&COLLECTOR);
    assert_eq!(metrics.labels["device"]["cciss/c0d0"]["class"], "hdd");
    assert_eq!(stats(&metrics, "disk.reads.per_second", "cciss/c0d0").mean, 0.0);
}

#[test]
fn layers_name_what_they_stand_on() {
    let story = Story::of_seconds(2).file(0, "sys/block/dm-0/slaves/sda2/dev", "8:2").file(
        0,
        "proc/diskstats",
        line("dm-0", 1, 0, 0, 0, 0),
    );
    let labels = &story.metrics(&COLLECTOR).labels["device"]["dm-0"];
    assert_eq!(
        (labels["stacked"].as_str(), labels["on"].as_str(), labels["class"].as_str()),
        ("yes", "sda2", "stacked")
    );
}

#[test]
fn without_sysfs_partitions_are_still_left_out() {
    let story =
        Story::of_seconds(2).file(0, "proc/diskstats", line("sda", 1, 0, 0, 0, 0) + &line("sda1", 1, 0, 0, 0, 0));
    assert_eq!(instances(&story.metrics(&COLLECTOR), "disk.reads.per_second"), ["sda"]);
}

#[test]
fn nothing_and_nonsense_are_told_apart() {
    let empty = Story::of_seconds(2).file(0, "proc/diskstats", "\n").record(&COLLECTOR);
    assert_eq!(empty.unavailable.unwrap().reason, Reason::NotApplicable);
    let broken = Story::of_seconds(2).file(0, "proc/diskstats", "no disks today\n\u{0}").record(&COLLECTOR);
    assert_eq!(broken.unavailable.unwrap().reason, Reason::Malformed);
    let missing = Story::of_seconds(2).file(0, "proc/stat", "").record(&COLLECTOR);
    assert_eq!(missing.unavailable.unwrap().reason, Reason::Absent);
}

proptest::proptest! {
    #![proptest_config(proptest::test_runner::Config::with_cases(48))]

    #[test]
    fn any_file_is_survived(before in "(\\PC|\n)*", after in "( *[0-9]{1,3} [0-9]{1,3} [a-z!/0-9-]{1,9}( [0-9]{1,20}){0,20}\n)*") {
        let _ = Story::of_seconds(2)
            .file(0, "proc/diskstats", before)
            .file(1, "proc/diskstats", after)
            .metrics(&COLLECTOR);
    }
}
