use super::super::testing::{Story, gap, instances, stats};
use super::*;

const MUTEX: &str = "202 0x7f10 0x80 0x2 0x0 0x7f 0x0 0x7ffd00 0x7fe\n";
const PRIORITY: &str = "202 0x7f10 0x86 0x0 0x0 0x7f 0x0 0x7ffd00 0x7fe\n";
/// A condition variable of the C library, and a parked thread of Go.
const CONDITION: &str = "202 0x7f20 0x189 0x0 0x0 0x0 0xffffffff 0x7ff 0x7fe\n";
const PARKED: &str = "202 0x7f30 0x80 0x0 0x0 0x7f 0x0 0x7ffd00 0x7fe\n";
/// A mutex of Rust's library, or its condition variable after the second signal.
const RUST: &str = "202 0x7f10 0x89 0x2 0x0 0x0 0x7fb0ffffffff 0x7ffd00 0x7fe\n";
const RUST_LATER: &str = "202 0x7f10 0x89 0x3 0x0 0x0 0x7fb0ffffffff 0x7ffd00 0x7fe\n";
const RECEIVES: &str = "202 0x7f50 0x89 0xffffffff 0x0 0x0 0x7fb0ffffffff 0x7ffd00 0x7fe\n";
const RUNNING: &str = "running\n";

/// A process with twelve threads: `call` says in which call each is at each look, `turns` how often it has run.
fn twelve(call: impl Fn(usize, u32) -> &'static str, turns: impl Fn(usize, u32) -> usize) -> Story {
    let mut story = Story::of_seconds(6);
    for at in 0..6 {
        let stat = "10 (server) S 1 1 1 0 -1 0 7 0 0 0 5 0 0 0 20 0 12 0 500 9 5 1\n";
        story = story.file(at, "proc/10/stat", stat).file(at, "proc/9/stat", stat.replace("10 (server)", "9 (one)"));
        for tid in 10..22 {
            story = story.file(at, &format!("proc/10/task/{tid}/syscall"), call(at, tid)).file(
                at,
                &format!("proc/10/task/{tid}/schedstat"),
                format!("1000 10 {}\n", turns(at, tid)),
            );
        }
    }
    story
}

fn most(story: &Story) -> (f64, f64) {
    let metrics = story.metrics(&COLLECTOR);
    (stats(&metrics, "locks.waiting.count", "").mean, stats(&metrics, "locks.waiting.ratio", "").mean)
}

#[test]
fn twelve_threads_that_take_turns_at_one_lock_contend_for_it() {
    for call in [MUTEX, PRIORITY] {
        // Another one has it at each look.
        let story = twelve(|at, tid| if tid == 10 + at as u32 { RUNNING } else { call }, |_, _| 1);
        assert_eq!(most(&story), (11.0, 11.0 / 12.0), "{call}");
        let metrics = story.metrics(&COLLECTOR);
        assert_eq!(instances(&metrics, "lock.waiting.count"), ["10:500:7f10"]);
        assert_eq!(stats(&metrics, "lock.threads.count", "10:500:7f10").last, 12.0);
        let labels = &metrics.labels["program_lock"]["10:500:7f10"];
        let shown = ["name", "pid", "address"].map(|key| labels[key].as_str());
        assert_eq!(shown, ["server", "10", "0x7f10"]);
    }
}

#[test]
fn where_one_thread_takes_the_lock_again_at_once_the_others_are_woken_in_vain() {
    let story = twelve(|_, tid| if tid == 10 { RUNNING } else { MUTEX }, |at, _| at);
    assert_eq!(most(&story), (11.0, 1.0));
}

#[test]
fn a_pool_without_work_never_counts_however_many_wait_and_however_often_they_are_woken() {
    for call in [CONDITION, PARKED] {
        let story = twelve(|at, tid| if tid == 10 + at as u32 { RUNNING } else { call }, |at, _| at);
        assert_eq!(most(&story), (0.0, 0.0), "{call}");
        assert!(instances(&story.metrics(&COLLECTOR), "lock.waiting.count").is_empty());
    }
}

#[test]
fn a_lock_that_no_thread_gets_is_no_contention() {
    assert_eq!(most(&twelve(|_, tid| if tid == 10 { RUNNING } else { MUTEX }, |_, _| 1)), (0.0, 0.0));
}

#[test]
fn a_lock_that_is_seldom_waited_for_loses_its_threads_little() {
    let meets = |at: usize, tid: u32| at % 2 == 1 && (tid == 11 || tid == 12 && at == 3);
    let (count, _) = most(&twelve(|at, tid| if meets(at, tid) { MUTEX } else { CONDITION }, |at, _| at));
    assert!((count - 4.0 / 6.0).abs() < 1e-9, "{count}");
}

#[test]
fn threads_that_may_not_be_seen_are_a_gap_and_single_threads_are_none() {
    let mut denied = twelve(|_, _| MUTEX, |at, _| at);
    for tid in 10..22 {
        denied.spec.faults.push(rdiag_kernel::host::Fault {
            path: format!("proc/10/task/{tid}/syscall"),
            fails: Reason::Denied,
            from: 0,
        });
    }
    assert_eq!(gap(&denied.metrics(&COLLECTOR), "locks.waiting.count", "").reason, Reason::Denied);
    let single =
        Story::of_seconds(2).file(0, "proc/9/stat", "9 (one) S 1 1 1 0 -1 0 7 0 0 0 5 0 0 0 20 0 1 0 500 9 5 1\n");
    assert_eq!(gap(&single.metrics(&COLLECTOR), "locks.waiting.count", "").reason, Reason::NotApplicable);
}

fn idle(story: &Story) -> f64 {
    stats(&story.metrics(&COLLECTOR), "locks.idle.ratio", "").mean
}

#[test]
fn a_mutex_of_rust_is_told_from_its_condition_variable_by_threads_that_wait_for_it_again() {
    // Each has it in turn, so that it waits, runs and waits again.
    let mutex = twelve(|at, tid| if tid == 10 + at as u32 { RUNNING } else { RUST }, |_, _| 1);
    assert_eq!((most(&mutex), idle(&mutex)), ((11.0, 11.0 / 12.0), 0.0));
    // Signalled twice, then all wait; one is woken at each look and waits for the next signal with another word.
    let woken = |at: usize, tid: u32| match (tid as usize).cmp(&(10 + at)) {
        std::cmp::Ordering::Less => RUST_LATER,
        std::cmp::Ordering::Equal => RUNNING,
        std::cmp::Ordering::Greater => RUST,
    };
    assert_eq!(most(&twelve(woken, |at, _| at / 6)), (0.0, 0.0));
    // All were stopped for a moment, once.
    assert_eq!(most(&twelve(|_, _| RUST, |at, _| usize::from(at > 2))), (0.0, 0.0));
}

#[test]
fn a_word_for_which_one_thread_waits_again_and_again_is_none_of_a_lock() {
    // As a thread does that joins others with musl, or that waits for an event of its own.
    let story = twelve(|_, tid| if tid == 10 { MUTEX } else { RUNNING }, |at, _| at);
    assert_eq!(most(&story), (0.0, 0.0));
}

#[test]
fn threads_that_take_turns_at_waiting_for_work_are_told_from_those_that_work_with_the_lock() {
    // The one that has the lock waits for a message.
    let pool = twelve(|at, tid| if tid == 10 + at as u32 { RECEIVES } else { RUST }, |_, _| 1);
    assert_eq!(most(&pool), (11.0, 11.0 / 12.0));
    // At the first look it was not yet known to use the lock.
    assert!((idle(&pool) - 5.0 / 6.0).abs() < 1e-9, "{}", idle(&pool));
    // One that waits for a message is beside one that works.
    let both = |at: usize, tid: u32| match tid as usize % 6 {
        mine if mine != at => RUST,
        _ if tid < 16 => RECEIVES,
        _ => RUNNING,
    };
    assert_eq!(idle(&twelve(both, |_, _| 1)), 0.0);
}
