//! When a forecast is one figure, and when a range.

use super::forecast_tests::{command, joined, why};
use super::testing::{ledger, part, run};
use super::tests::close;
use super::*;
use rdiag_model::Component as C;
use rdiag_model::ledger::{Link, Part, Thread, Waker, WakerEdge, WakerKind};
use rdiag_model::profile::ForecastRow;

/// Waits of one of `tids` that the other ended, many times.
fn waited([waiter, waker]: [u32; 2], component: C, seconds: f64) -> Link {
    let waker = Waker { kind: WakerKind::Thread, pid: waker, tid: waker, comm: format!("task{waker}") };
    let edge = WakerEdge { component, waker, seconds, count: 50 };
    Link { tid: waiter, pid: waiter, comm: format!("task{waiter}"), edge }
}

/// A consumer, and a producer beside it.
fn pair(own: Vec<Part>, beside: Vec<Part>, links: Vec<Link>) -> Profile {
    let (first, second) = (run(1, 0, 0.0, own), run(2, 1, 0.0, beside));
    command(&Ledger { links, ..ledger(1.0, vec![first, second]) }, None)
}

fn row(profile: &Profile, id: C) -> &ForecastRow {
    profile.forecast.rows.iter().find(|row| row.id == id).unwrap()
}

fn is(bounds: [f64; 2], wanted: [f64; 2]) -> bool {
    close(bounds[0], wanted[0]) && close(bounds[1], wanted[1])
}

#[test]
fn who_works_beside_it_without_waiting_for_it_may_set_the_pace() {
    let consumer = || vec![part(C::CpuUser, 0.5), part(C::IpcPipe, 0.5)];
    let waits = || vec![waited([1, 2], C::IpcPipe, 0.5)];
    // It never waits for the consumer.
    let free = pair(consumer(), vec![part(C::WaitSleep, 1.0)], waits());
    assert!(is(row(&free, C::CpuUser).vanished, [0.5, 1.0]) && is(row(&free, C::CpuUser).halved, [0.75, 1.0]));
    let said = why(&free, C::CpuUser);
    assert!(said.contains("task2 (thread 2) ran in parallel and may become the bottleneck"), "{said}");
    assert!(is(row(&free, C::IpcPipe).vanished, [0.5, 0.5]), "the wait itself");
    // It has 0.2 s beside the consumer's work: no more can be lost.
    let both = vec![waited([1, 2], C::IpcPipe, 0.5), waited([2, 1], C::IpcPipe, 0.3)];
    let slack = pair(consumer(), vec![part(C::CpuSys, 0.7), part(C::IpcPipe, 0.3)], both);
    assert!(is(row(&slack, C::CpuUser).vanished, [0.5, 0.7]), "{:?}", row(&slack, C::CpuUser).vanished);
    // They take turns: the path is certain.
    let both = vec![waited([1, 2], C::IpcPipe, 0.5), waited([2, 1], C::IpcPipe, 0.5)];
    let turns = pair(consumer(), vec![part(C::CpuSys, 0.5), part(C::IpcPipe, 0.5)], both);
    assert!(is(row(&turns, C::CpuUser).vanished, [0.5, 0.5]));
    assert!(turns.forecast.ranges.is_empty() && why(&turns, C::CpuUser).is_empty());
    // A producer that waits for the consumer alone may become slower than that.
    let behind = pair(
        vec![part(C::CpuUser, 1.0)],
        vec![part(C::CpuSys, 0.6), part(C::IpcPipe, 0.4)],
        vec![waited([2, 1], C::IpcPipe, 0.4)],
    );
    assert!(is(row(&behind, C::CpuUser).vanished, [0.0, 0.6]), "{:?}", row(&behind, C::CpuUser).vanished);
}

#[test]
fn waits_for_another_thread_must_be_worth_it() {
    let forecast = |waits: f64| {
        let own = vec![part(C::CpuUser, 1.0 - waits), part(C::LockUser, waits)];
        let profile = pair(own, vec![part(C::WaitSleep, 1.0)], vec![waited([1, 2], C::LockUser, waits)]);
        row(&profile, C::CpuUser).vanished
    };
    assert!(is(forecast(0.06), [0.06, 1.0]) && is(forecast(0.04), [0.04, 0.04]));
}

#[test]
fn a_clock_may_take_what_its_own_thread_saves_and_not_what_a_child_does() {
    let alone = |sleeps: f64| {
        let own = vec![part(C::CpuUser, 1.0 - sleeps), part(C::WaitSleep, sleeps)];
        row(&command(&ledger(1.0, vec![run(1, 0, 0.0, own)]), None), C::CpuUser).halved
    };
    assert!(is(alone(0.4), [0.7, 1.0]) && is(alone(0.04), [0.52, 0.52]));
    let shell = run(1, 0, 0.0, vec![part(C::WaitChild, 1.0)]);
    let worker = run(2, 1, 0.0, vec![part(C::CpuUser, 0.6)]);
    let sleeper = run(3, 1, 0.6, vec![part(C::WaitSleep, 0.4)]);
    let profile = command(&ledger(1.0, vec![shell, worker, sleeper]), None);
    assert!(is(row(&profile, C::CpuUser).halved, [0.7, 0.7]), "{:?}", row(&profile, C::CpuUser).halved);
}

/// Two threads that the first one joined one after the other.
fn two(one: Vec<Part>, other: Vec<Part>, waits: [f64; 2], goal: Option<f64>) -> Profile {
    let first = run(1, 0, 0.0, vec![part(C::WaitFutex, 1.0)]);
    let ((a, of_a), (b, of_b)) = (joined(2, 0.0, one, waits[0]), joined(3, 0.0, other, waits[1]));
    command(&Ledger { links: vec![of_a, of_b], ..ledger(1.0, vec![first, a, b]) }, goal)
}

#[test]
fn a_thread_that_is_done_before_another_has_slack() {
    let sleeps = |goal| two(vec![part(C::CpuUser, 0.6)], vec![part(C::WaitSleep, 1.0)], [0.6, 0.4], goal);
    let profile = sleeps(Some(0.9));
    assert!(is(row(&profile, C::CpuUser).vanished, [1.0, 1.0]), "the other one sleeps as long");
    assert!(is(row(&profile, C::WaitSleep).vanished, [0.6, 0.6]), "{:?}", row(&profile, C::WaitSleep).vanished);
    let goal = profile.forecast.goal.unwrap();
    assert!(goal.reductions.iter().all(|(component, _)| *component != C::CpuUser), "{}", goal.words);
    // Waits for a disk may become shorter with less work beside them, or stay.
    let reads = two(vec![part(C::CpuUser, 0.6)], vec![part(C::IoBlockRead, 1.0)], [0.6, 0.4], Some(0.9));
    assert!(is(row(&reads, C::CpuUser).vanished, [0.4, 1.0]), "{:?}", row(&reads, C::CpuUser).vanished);
    let words = reads.forecast.goal.unwrap().words;
    assert!(words.contains("less time in"), "{words}");
}

#[test]
fn work_in_all_joined_threads_is_surely_saved_as_far_as_the_longest_gets_shorter() {
    let profile = two(vec![part(C::CpuUser, 0.5)], vec![part(C::CpuUser, 1.0)], [0.5, 0.5], None);
    assert!(is(row(&profile, C::CpuUser).halved, [0.5, 0.5]), "{:?}", row(&profile, C::CpuUser).halved);
    // One that was not waited for, as it was done while the first one worked, holds it up as well.
    let first = run(1, 0, 0.0, vec![part(C::CpuSys, 0.5), part(C::WaitFutex, 0.5)]);
    let (worker, link) = joined(2, 0.0, vec![part(C::CpuUser, 1.0)], 0.5);
    let other = Thread { pid: 1, ..run(3, 0, 0.1, vec![part(C::IoBlockRead, 0.8)]) };
    let ledger = Ledger { links: vec![link], ..ledger(1.0, vec![first, worker, other]) };
    let halved = row(&command(&ledger, None), C::CpuUser).halved;
    assert!(is(halved, [0.5, 0.9]), "{halved:?}");
}

#[test]
fn the_wait_for_a_childs_pipe_is_told_with_what_the_child_did() {
    let headline = |piped: f64| {
        let parent = run(1, 0, 0.0, vec![part(C::CpuUser, 1.0 - piped), part(C::IpcPipe, piped)]);
        let child = Thread { comm: "slow".into(), ..run(2, 1, 1.0 - piped, vec![part(C::WaitSleep, piped)]) };
        let profile = command(&ledger(1.0, vec![parent, child]), None);
        (profile.forecast.piped_seconds, profile.answer.headline)
    };
    let (seconds, said) = headline(0.6);
    assert!(close(seconds.unwrap(), 0.6));
    assert!(said.contains("what that waited for (slow), is voluntary sleep"), "{said}");
    assert!(said.contains("; meanwhile task1 spent 60.0% waiting for the other end of a pipe"), "{said}");
    assert!(!headline(0.09).1.contains("pipe"), "too short for the headline");
}

#[test]
fn the_reason_of_a_range_stands_once_and_rows_have_its_number() {
    let own = vec![part(C::CpuUser, 0.4), part(C::CpuSys, 0.2), part(C::WaitSleep, 0.4)];
    let forecast = command(&ledger(1.0, vec![run(1, 0, 0.0, own)]), None).forecast;
    assert_eq!(
        forecast.ranges,
        [
            "If its waits (wait.sleep) end at times that it does not set (a clock, input), what is saved only lengthens them."
        ]
    );
    let numbers = |id: C| forecast.rows.iter().find(|row| row.id == id).unwrap().ranges.clone();
    assert_eq!([C::CpuUser, C::CpuSys, C::WaitSleep].map(numbers), [vec![1], vec![1], vec![]]);
    let unlike = two(vec![part(C::CpuUser, 0.6)], vec![part(C::IoBlockRead, 1.0)], [0.6, 0.4], None);
    assert!(
        why(&unlike, C::CpuUser).starts_with("Threads or children that ran in parallel"),
        "{}",
        why(&unlike, C::CpuUser)
    );
}
