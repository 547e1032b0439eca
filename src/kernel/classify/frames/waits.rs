//! Functions that wait for a disk or handle a page fault.

use super::{DEPTH, Meaning, Rule, bare, rule};
use rdiag_model::Component;

/// Waits for a disk, which the kernel counts as such where it can be seen.
pub const BLOCK: &[Rule] = &[Rule {
    id: "frames.block",
    meaning: Meaning::Disk,
    names: &[
        ("io_schedule", ""),
        ("io_schedule_timeout", ""),
        ("bit_wait_io", ""),
        ("wait_on_page_bit", "..5.15"),
        ("wait_on_page_bit_common", "..5.15"),
        ("wait_on_page_bit_killable", "..5.15"),
        ("__lock_page", "..5.15"),
        ("__lock_page_killable", "..5.15"),
        ("put_and_wait_on_page_locked", "..5.15"),
        ("folio_wait_bit", "5.16.."),
        ("folio_wait_bit_common", "5.16.."),
        ("folio_wait_bit_killable", "5.16.."),
        ("folio_wait_writeback", "5.16.."),
        ("folio_put_wait_locked", "5.16.."),
        ("__folio_lock*", "5.16.."),
        ("wait_on_page_writeback", "..5.15"),
        ("__wait_on_buffer", ""),
        ("blk_mq_get_tag", ""),
        ("rq_qos_wait", ""),
        ("wbt_wait", ""),
        ("submit_bio_wait", ""),
        ("blkdev_direct_IO", ""),
        ("__blkdev_direct_IO*", ""),
        ("iomap_dio_rw", ""),
        ("__iomap_dio_rw", ""),
        ("iomap_dio_complete", ""),
        ("do_blockdev_direct_IO", ""),
        ("__blockdev_direct_IO", ""),
        ("dio_await_completion", ""),
        ("read_pages", ""),
        ("filemap_get_pages", "5.12.."),
        ("filemap_read_folio", "5.16.."),
        ("filemap_update_page", "5.12.."),
        ("page_cache_ra_*", ""),
        ("generic_file_buffered_read*", "..5.11"),
    ],
}];

/// A page fault, and which one.
pub const FAULT: &[Rule] = &[
    rule(
        "frames.fault_swap",
        Component::FaultSwap,
        &[("do_swap_page", ""), ("swap_read*", ""), ("swapin_*", ""), ("__read_swap_cache_async", "")],
    ),
    rule(
        "frames.fault_file",
        Component::FaultFile,
        &[
            ("filemap_fault", ""),
            ("__do_fault", ""),
            ("do_read_fault", ""),
            ("do_cow_fault", ""),
            ("do_shared_fault", ""),
        ],
    ),
];

/// Functions of a call from one file to another that read the one.
const READS: &[&str] = &[
    "filemap_get_pages",
    "filemap_splice_read",
    "generic_file_splice_read",
    "generic_file_buffered_read",
    "copy_splice_read",
    "splice_file_to_pipe",
    "do_splice_to",
    "do_splice_read",
    "vfs_splice_read",
];
/// And those that write the other.
const WRITES: &[&str] =
    &["iter_file_splice_write", "do_splice_from", "generic_perform_write", "iomap_file_buffered_write"];

/// Which of its two files a call waits for: whether one that it reads; none where the stack does not tell.
#[must_use]
pub fn reads_or_writes(frames: &[&str]) -> Option<bool> {
    frames.iter().take(DEPTH).map(|frame| bare(frame)).find_map(|frame| {
        let reads = READS.contains(&frame);
        (reads || WRITES.contains(&frame)).then_some(reads)
    })
}

/// What throttles requests to a disk before they are sent, by the function in which their sender waits. (Under io.max it waits for the
/// request itself, which the kernel keeps, so that nothing on its stack shows it.)
const THROTTLES: &[(&str, &[&str])] = &[
    ("io.latency", &["blkcg_iolatency_throttle"]),
    ("io.cost", &["ioc_rqos_throttle"]),
    ("the I/O controller", &["blkcg_maybe_throttle_current", "blkcg_maybe_throttle_blkg"]),
    ("wbt (writeback)", &["wbt_wait"]),
];

/// What throttles a task's requests to a disk; none if that is not what it waits for.
#[must_use]
pub fn throttled_by(frames: &[&str]) -> Option<&'static str> {
    let has = |names: &[&str]| frames.iter().take(DEPTH).any(|frame| names.contains(&bare(frame)));
    THROTTLES.iter().find(|(_, names)| has(names)).map(|(what, _)| *what)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_of_groups_are_distinguished_from_a_slow_disk_by_the_function_that_throttles() {
        let rest = ["__rq_qos_throttle", "blk_mq_submit_bio", "submit_bio_noacct", "iomap_dio_bio_iter"];
        let of = |innermost: &[&'static str]| throttled_by(&[innermost, &rest[..]].concat());
        assert_eq!(of(&["rq_qos_wait", "blkcg_iolatency_throttle"]), Some("io.latency"));
        assert_eq!(of(&["ioc_rqos_throttle"]), Some("io.cost"));
        assert_eq!(of(&["rq_qos_wait", "wbt_wait.part.0"]), Some("wbt (writeback)"));
        assert_eq!(of(&["blkcg_maybe_throttle_current"]), Some("the I/O controller"));
        assert_eq!(of(&["rq_qos_wait"]), None, "of which policy is not known");
        assert_eq!(throttled_by(&["io_schedule", "blk_mq_get_tag", "blk_mq_submit_bio"]), None);
        let far = [&["submit_bio"; DEPTH][..], &["ioc_rqos_throttle"]].concat();
        assert_eq!(throttled_by(&far), None);
    }
}
