//! What a profile promises: forecasts with their bounds, the way to a goal, and of commands that waited for children or were
//! not seen to their end.

use super::testing::{ledger, part, run, thread, waits};
use super::tests::{close, of, plain, syncing};
use super::*;
use rdiag_model::Component as C;
use rdiag_model::ledger::{Call, CallKind, Link, Thread, Waker, WakerEdge, WakerKind};
use rdiag_model::profile::{Reach, Saving};

pub(super) fn command(ledger: &Ledger, goal: Option<f64>) -> Profile {
    let target = Target { pids: vec![1], command: Some("sort big".into()), ..Target::default() };
    of(ledger, &target, Conversation { goal_seconds: goal, ..Conversation::default() })
}

#[test]
fn a_command_of_one_thread_is_forecast_with_bounds() {
    let profile = command(&syncing(), None);
    let forecast = &profile.forecast;
    assert_eq!((forecast.thread, forecast.response_seconds), (Some(1), 10.0));
    let sync = &forecast.rows[0];
    assert_eq!(sync.id, C::IoBlockSync);
    // All of its wakeups follow a sync: without syncs there are at best none of them.
    assert!(close(sync.vanished[0], 3.0) && close(sync.vanished[1], 4.0) && close(sync.halved[0], 6.5));
    assert!(close(sync.speed_up.unwrap(), 10.0 / 3.0));
}

#[test]
fn the_time_of_switching_tasks_goes_with_the_waits_before_it_and_not_by_itself() {
    let goal = |woken: f64| {
        let parts = vec![
            waits(C::IoBlockWrite, "vda", &[(3000, 0.002)]),
            waits(C::WaitPoll, "", &[(1000, 0.001)]),
            waits(C::RunqWakeup, "", &[(4000, woken)]),
            part(C::CpuUser, 3.0 - 4000.0 * woken),
        ];
        command(&ledger(10.0, vec![thread(1, 1, 10.0, parts)]), Some(3.8)).forecast.goal.unwrap()
    };
    let short = goal(90e-6);
    assert_eq!((short.reach, short.reductions[0].0), (Reach::One, C::IoBlockWrite));
    assert!(close(short.reductions[0].1, 6.2 / (6.0 + 0.75 * 0.36)), "{:?}", short.reductions);
    assert!(short.words.contains("less time in disk writes (with the wakeups after them)"), "{}", short.words);
    // Waits of threads beside it have wakeups of their own.
    let parts = vec![
        waits(C::IoBlockWrite, "vda", &[(10, 0.6)]),
        waits(C::IpcPipe, "", &[(40_000, 50e-6)]),
        waits(C::RunqWakeup, "", &[(40_010, 49e-6)]),
    ];
    let beside = thread(2, 1, 9.0, vec![waits(C::IoBlockWrite, "vda", &[(1_000_000, 9e-6)])]);
    let both = ledger(9.96, vec![run(1, 0, 0.0, parts), beside]);
    assert_eq!(command(&both, Some(3.0)).forecast.goal.unwrap().reach, Reach::No);
    let queued = goal(250e-6);
    assert_eq!(queued.reductions.iter().map(|part| part.0).collect::<Vec<_>>(), [C::IoBlockWrite, C::RunqWakeup]);
}

#[test]
fn less_cpu_time_is_preempted_and_throttled_less() {
    let parts = |wait, seconds| vec![part(C::CpuUser, 4.0), part(C::CpuSys, 1.0), part(wait, seconds)];
    let user = |wait| {
        let profile = command(&ledger(10.0, vec![thread(1, 1, 10.0, parts(wait, 5.0))]), None);
        let row = profile.forecast.rows.iter().find(|row| row.id == C::CpuUser).unwrap();
        (row.vanished, row.halved)
    };
    // Four fifths of the CPU time, and of the waits that come with it.
    for wait in [C::RunqPreempt, C::Throttled, C::Runq] {
        let (vanished, halved) = user(wait);
        assert!(close(vanished[0], 2.0) && close(vanished[1], 6.0), "{vanished:?}");
        assert!(close(halved[0], 6.0) && close(halved[1], 8.0), "{halved:?}");
    }
    // A wait that ends by a wakeup does not come with CPU time.
    for wait in [C::RunqWakeup, C::IoBlockRead] {
        assert!(close(user(wait).0[0], 6.0), "{wait:?}");
    }
}

#[test]
fn the_cpu_time_of_calls_may_go_with_the_waits_in_them() {
    let call = |name: &str, count, on_cpu| Call {
        kind: CallKind::Syscall,
        stands_for: 1.0,
        name: name.into(),
        on: "file".into(),
        count,
        errors: std::collections::BTreeMap::new(),
        seconds: 8.0,
        on_cpu_seconds: on_cpu,
        open: 0,
        bytes: None,
        durations: None,
    };
    let read = |calls, beside: bool| {
        let wait = rdiag_model::ledger::Part { call: "pread64".into(), ..waits(C::IoBlockRead, "vda", &[(50, 0.1)]) };
        let mut threads = vec![thread(1, 1, 10.0, vec![wait, part(C::CpuUser, 3.0), part(C::CpuSys, 2.0)])];
        threads.extend(beside.then(|| thread(2, 1, 10.0, vec![part(C::WaitSleep, 10.0)])));
        let profile = command(&Ledger { calls, ..ledger(10.0, threads) }, None);
        let row = profile.forecast.rows.into_iter().find(|row| row.id == C::IoBlockRead).unwrap();
        (row.vanished, row.halved)
    };
    let (vanished, halved) = read(vec![call("pread64", 50, Some(1.0))], false);
    assert!(close(vanished[0], 4.0) && close(vanished[1], 5.0), "{vanished:?}");
    assert!(close(halved[0], 7.0) && close(halved[1], 7.5), "{halved:?}");
    // A quarter of the calls waited.
    assert!(close(read(vec![call("pread64", 200, Some(1.0))], false).0[0], 4.75));
    // Other calls, CPU time that is not known, and calls that another thread may have made.
    assert!(close(read(vec![call("pwrite64", 50, Some(1.0))], false).0[0], 5.0));
    assert!(close(read(vec![call("pread64", 50, None)], false).0[0], 5.0));
    assert!(close(read(vec![call("pread64", 50, Some(1.0))], true).0[0], 5.0));
}

/// Why it is a range.
pub(super) fn why(profile: &Profile, id: C) -> String {
    let row = profile.forecast.rows.iter().find(|row| row.id == id).unwrap();
    let numbers = row.ranges.iter().map(|number| usize::try_from(*number).unwrap() - 1);
    numbers.map(|at| profile.forecast.ranges[at].as_str()).collect::<Vec<_>>().join(" ")
}

#[test]
fn less_work_may_lengthen_the_waits_that_set_the_pace() {
    let words = |wait, seconds, id| {
        let parts = vec![part(C::CpuUser, 10.0 - seconds), part(wait, seconds)];
        why(&command(&ledger(10.0, vec![thread(1, 1, 10.0, parts)]), None), id)
    };
    for wait in [C::WaitSleep, C::IpcPipe, C::WaitPoll] {
        let said = words(wait, 6.0, C::CpuUser);
        assert!(said.contains(&format!("If its waits ({}) end at times", wait.id())), "{said}");
        assert!(!words(wait, 6.0, wait).contains("only lengthens them"), "they do not lengthen themselves");
    }
    assert!(!words(C::WaitSleep, 0.4, C::CpuUser).contains("only lengthens them"), "too short to matter");
    assert!(!words(C::IoBlockRead, 6.0, C::CpuUser).contains("only lengthens them"), "a disk sets no pace");
}

#[test]
fn unaccounted_time_widens_every_forecast() {
    let parts = vec![part(C::IoBlockSync, 6.0), part(C::CpuUser, 3.0)];
    let profile = command(&ledger(10.0, vec![thread(1, 1, 10.0, parts)]), None);
    let sync = &profile.forecast.rows[0];
    assert!(close(sync.vanished[0], 3.0) && close(sync.vanished[1], 5.0), "{:?}", sync.vanished);
    assert!(profile.forecast.basis.contains("widens"));
}

#[test]
fn threads_side_by_side_give_bounds_from_nothing_on() {
    let threads = vec![
        thread(5, 1, 10.0, vec![part(C::CpuUser, 9.0), part(C::IoBlockSync, 1.0)]),
        thread(6, 1, 10.0, vec![part(C::CpuUser, 2.0), part(C::IoBlockSync, 8.0)]),
    ];
    let profile = plain(&ledger(10.0, threads));
    let sync = profile.forecast.rows.iter().find(|row| row.id == C::IoBlockSync).unwrap();
    assert!(close(sync.vanished[1], 10.0), "it may gain nothing");
    assert!(close(sync.vanished[0], 9.0), "the busier thread keeps 9 s of work: {:?}", sync.vanished);
    assert_eq!(profile.forecast.thread, None);
}

#[test]
fn the_way_to_the_goal_is_told() {
    let reach = |goal| {
        let goal = command(&syncing(), Some(goal)).forecast.goal.unwrap();
        (goal.reach, goal.reductions)
    };
    assert_eq!(reach(10.0).0, Reach::Met);
    let (one, parts) = reach(7.0);
    assert_eq!((one, parts[0].0), (Reach::One, C::IoBlockSync));
    assert!(close(parts[0].1, 0.5));
    let (several, parts) = reach(3.5);
    assert_eq!(several, Reach::Several);
    assert_eq!(parts.iter().map(|part| part.0).collect::<Vec<_>>(), [C::IoBlockSync, C::RunqWakeup]);
    assert_eq!(reach(0.5).0, Reach::No);
    let words = command(&syncing(), Some(7.0)).answer.goal.unwrap();
    assert_eq!(
        words,
        "From 10.0 s to 7.00 s: 3.00 s must be saved. It would take: 50.0% less time in disk syncs (fsync)."
    );
}

#[test]
fn other_peoples_time_is_not_promised_as_a_saving() {
    let parts = vec![part(C::NetRecv, 9.0), part(C::CpuUser, 1.0)];
    let goal = command(&ledger(10.0, vec![thread(1, 1, 10.0, parts)]), Some(5.0)).forecast.goal.unwrap();
    assert_eq!(goal.reach, Reach::No);
}

#[test]
fn what_the_forecast_shows_as_the_time_of_others_is_not_called_work_by_the_goal() {
    let profile = |goal| {
        let parts = vec![part(C::WaitFutex, 8.0), part(C::IoBlockRead, 1.0), part(C::CpuUser, 1.0)];
        command(&ledger(10.0, vec![thread(1, 1, 10.0, parts)]), Some(goal))
    };
    let near = profile(4.0);
    assert_eq!((near.forecast.rows[0].id, near.forecast.rows[0].saving), (C::WaitFutex, Saving::Elsewhere));
    let goal = near.forecast.goal.unwrap();
    assert_eq!(goal.reach, Reach::No, "not by the task itself");
    assert_eq!(
        goal.words,
        "From 10.0 s to 4.00 s: 6.00 s must be saved. At most 1.50 s can be saved in the task itself, and at most 8.00 s in \
         others, which end its waits (futex (lock or idle)): together that can reach the goal. The rest is the work itself, task \
         switches, or unaccounted."
    );
    // 1.5 s and 8 s: on both sides of what can be saved.
    assert!(profile(0.51).forecast.goal.unwrap().words.contains("together that can reach the goal"));
    assert!(profile(0.49).forecast.goal.unwrap().words.contains("together that is not enough for the goal"));
    let alone = command(&syncing(), Some(0.5)).forecast.goal.unwrap();
    assert!(alone.words.ends_with("The goal takes less work.") && !alone.words.contains("others"), "{}", alone.words);
}

#[test]
fn a_goal_for_a_window_that_is_no_execution_is_not_judged() {
    let target = Target { pids: vec![1], ..Target::default() };
    let goal = |now| Conversation { goal_seconds: Some(0.2), now_seconds: now, ..Conversation::default() };
    assert_eq!(of(&syncing(), &target, goal(None)).forecast.goal.unwrap().reach, Reach::Unknown);
    let told = of(&syncing(), &target, goal(Some(0.4))).forecast;
    assert!(close(told.rows[0].seconds, 0.24), "shares of the window are those of the busy execution");
    assert_eq!(told.goal.unwrap().reach, Reach::One);
    let idle = ledger(10.0, vec![thread(1, 1, 10.0, vec![part(C::WaitPoll, 9.0), part(C::CpuUser, 1.0)])]);
    assert_eq!(of(&idle, &target, goal(Some(0.4))).forecast.goal.unwrap().reach, Reach::Unknown);
}

#[test]
fn a_command_that_waited_for_children_is_answered_by_what_they_did() {
    let shell = run(1, 0, 0.0, vec![part(C::CpuUser, 0.1), part(C::WaitChild, 0.9)]);
    let child = |pid, at, parts| Thread { comm: format!("child{pid}"), ..run(pid, 1, at, parts) };
    let first = child(2, 0.1, vec![part(C::IoBlockRead, 0.6)]);
    let second = child(3, 0.75, vec![part(C::CpuUser, 0.2)]);
    let serial = command(&ledger(1.0, vec![shell.clone(), first.clone(), second]), None);
    let seconds = |profile: &Profile, id| profile.forecast.rows.iter().find(|row| row.id == id).map(|row| row.seconds);
    assert!(close(seconds(&serial, C::IoBlockRead).unwrap(), 0.6) && close(seconds(&serial, C::CpuUser).unwrap(), 0.3));
    assert!(close(seconds(&serial, C::WaitChild).unwrap(), 0.1), "what no child accounts for stays a wait");
    assert_eq!(serial.forecast.children, ["child2", "child3"]);
    assert!(serial.answer.headline.contains("60.0% of the 1.00 s"), "{}", serial.answer.headline);
    assert!(serial.answer.headline.contains("what that waited for (child2, child3)"), "{}", serial.answer.headline);
    let beside = child(3, 0.2, vec![part(C::CpuUser, 0.4)]);
    let together = command(&ledger(1.0, vec![shell, first, beside]), None);
    assert!(
        close(seconds(&together, C::IoBlockRead).unwrap(), 0.6)
            && close(seconds(&together, C::WaitChild).unwrap(), 0.3)
    );
    assert_eq!(together.forecast.children, ["child2"], "the other one had ended before");
}

/// A thread of process 1 that lived from `at` on, and was joined after so many seconds of waiting for it.
pub(super) fn joined(tid: u32, at: f64, parts: Vec<rdiag_model::ledger::Part>, waited: f64) -> (Thread, Link) {
    let thread = Thread { pid: 1, tid, comm: format!("worker{tid}"), ..run(tid, 0, at, parts) };
    let waker = Waker { kind: WakerKind::Thread, pid: 1, tid, comm: thread.comm.clone() };
    let edge = WakerEdge { component: C::WaitFutex, waker, seconds: waited, count: 1 };
    (thread, Link { tid: 1, pid: 1, comm: "task1".into(), edge })
}

#[test]
fn a_thread_that_joins_others_is_looked_through() {
    let first = run(1, 0, 0.0, vec![part(C::CpuUser, 0.2), part(C::WaitFutex, 0.8)]);
    let (quick, one) = joined(2, 0.1, vec![part(C::CpuUser, 0.3)], 0.2);
    let (slow, two) = joined(3, 0.1, vec![part(C::IoBlockRead, 0.4), part(C::CpuUser, 0.4)], 0.5);
    let both = Ledger { links: vec![one, two], ..ledger(1.0, vec![first, quick, slow]) };
    let profile = command(&both, Some(0.9));
    let row = |id| profile.forecast.rows.iter().find(|row| row.id == id).unwrap();
    assert!(close(row(C::CpuUser).seconds, 0.2 + 0.2 + 0.25) && close(row(C::IoBlockRead).seconds, 0.25));
    assert!(close(row(C::WaitFutex).seconds, 0.1), "what no thread accounts for stays a wait");
    // Without the reads all are done 0.4 s sooner, of which the part of the life that was waited for has 0.25 s.
    let read = row(C::IoBlockRead).vanished;
    assert!(close(read[0], 0.6) && close(read[1], 0.75), "{read:?}");
    assert!(profile.forecast.basis.contains("what it waited for (worker"), "{}", profile.forecast.basis);
    let goal = profile.forecast.goal.as_ref().unwrap();
    assert_eq!(goal.reductions[0].0, C::IoBlockRead);
    assert!(goal.words.ends_with("less time in disk reads."), "no thread would be done later: {}", goal.words);
}

#[test]
fn a_joined_thread_may_be_preempted_after_it_woke_who_joined_it() {
    let futex = |wait, late: f64| {
        let first = run(1, 0, 0.0, vec![part(C::CpuUser, 0.2), part(C::WaitFutex, 0.8)]);
        let parts = vec![waits(wait, "", &[(2, 0.004)]), part(C::CpuUser, 0.792)];
        let (worker, link) = joined(2, 0.2 + late, parts, 0.7);
        let profile = command(&Ledger { links: vec![link], ..ledger(1.1, vec![first, worker]) }, None);
        profile.forecast.rows.iter().find(|row| row.id == C::WaitFutex).map_or(0.0, |row| row.seconds)
    };
    // It ends 4 ms after who waited for it, as long as it was preempted at a time.
    assert!(close(futex(C::RunqPreempt, 0.004), 0.1), "looked through");
    assert!(close(futex(C::Throttled, 0.004), 0.1), "looked through");
    // Longer than that, or without a CPU for another reason, it went on with something.
    assert!(close(futex(C::RunqPreempt, 0.006), 0.8));
    assert!(close(futex(C::WaitSleep, 0.004), 0.8));
}

#[test]
fn a_thread_that_is_woken_time_and_again_or_by_one_that_lives_on_joins_nobody() {
    let first = || run(1, 0, 0.0, vec![part(C::CpuUser, 0.2), part(C::WaitFutex, 0.8)]);
    let seconds = |change: fn(&mut Thread, &mut Link)| {
        let (mut worker, mut link) = joined(2, 0.1, vec![part(C::CpuUser, 0.8)], 0.8);
        change(&mut worker, &mut link);
        let profile = command(&Ledger { links: vec![link], ..ledger(1.0, vec![first(), worker]) }, None);
        profile.forecast.rows.iter().find(|row| row.id == C::WaitFutex).map_or(0.0, |row| row.seconds)
    };
    assert!(close(seconds(|_, _| ()), 0.0));
    assert!(close(seconds(|_, link| link.edge.count = 2), 0.0), "it began and ended");
    let time_and_again = |waited: f64, component: C| {
        let first = run(1, 0, 0.0, vec![part(C::CpuUser, 0.2), part(component, 0.8)]);
        let (worker, mut link) = joined(2, 0.1, vec![part(C::CpuUser, 0.8)], waited);
        (link.edge.count, link.edge.component) = (3, component);
        let profile = command(&Ledger { links: vec![link], ..ledger(1.0, vec![first, worker]) }, None);
        profile.forecast.rows.iter().find(|row| row.id == component).map_or(0.0, |row| row.seconds)
    };
    assert!(close(time_and_again(0.70, C::WaitFutex), 0.8), "for a part of what it did");
    assert!(close(time_and_again(0.75, C::WaitFutex), 0.05), "for all that it did");
    assert!(close(time_and_again(0.75, C::LockUser), 0.8), "for a lock");
    assert!(close(seconds(|worker, _| worker.died = false), 0.8));
    assert!(close(seconds(|worker, _| worker.born = false), 0.8));
    assert!(close(seconds(|_, link| link.edge.component = C::IpcPipe), 0.8));
}

#[test]
fn waits_for_a_cpu_that_nobody_stands_before_are_no_way_to_a_goal() {
    let reach = |each: f64| {
        let count = (2.0 / each) as u64;
        let parts = vec![part(C::NetRecv, 8.0), waits(C::RunqWakeup, "", &[(count, each)])];
        command(&ledger(10.0, vec![thread(1, 1, 10.0, parts)]), Some(9.0)).forecast.goal.unwrap().reach
    };
    assert_eq!((reach(0.01), reach(20e-6)), (Reach::One, Reach::No));
}

#[test]
fn an_account_that_ended_early_says_so_first_and_takes_its_time_for_no_execution() {
    let short = ledger(2.0, vec![thread(1, 1, 2.0, vec![part(C::CpuUser, 2.0)])]);
    let stopped = Ledger { stopped: Some("its programs took 9.0% of the CPUs".into()), ..short };
    let profile = command(&stopped, Some(1.0));
    assert_eq!(profile.partial.as_ref().map(|partial| partial.share), Some(0.2));
    assert!(profile.answer.headline.starts_with("In the first 2.00 s of 10.0 s (20.0%), all that was observed: "));
    assert!(profile.answer.limits[0].contains("the first 2.00 s of 10.0 s, 20.0% of it: its programs took 9.0%"));
    assert_eq!(profile.conversation.now_seconds, None, "the command went on");
    let goal = profile.forecast.goal.unwrap();
    assert_eq!(goal.reach, Reach::Unknown);
    assert!(goal.words.contains("--budget"), "{}", goal.words);
    // How long it takes is known, and what of the rest is not.
    let target = Target { pids: vec![1], command: Some("sort big".into()), ..Target::default() };
    let told = Conversation { now_seconds: Some(8.0), goal_seconds: Some(1.0), ..Conversation::default() };
    assert_eq!(of(&stopped, &target, told).forecast.goal.unwrap().reach, Reach::Unknown);
    assert_eq!(plain(&syncing()).partial, None);
}
