//! The collector on recorded trees.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use super::super::testing::Story;
use super::COLLECTOR;
use crate::sink::{Shared, Sink};
use rdiag_model::ledger::{Accuracy, Level};
use rdiag_model::{Component, Ledger, Reason, Target, Unavailable};

fn stat(tid: u32, state: char, (user, system): (u64, u64), start: u64) -> String {
    format!("{tid} (a) b) {state} 1 1 1 0 -1 4194304 0 0 0 0 {user} {system} 0 0 20 0 2 0 {start} 1 2 3\n")
}

/// A process 10 that was there for long, with a thread 10 that sleeps, as its files stand from one instant on.
fn sleeping(story: Story, at: usize, cpu_ms: u64, turns: u64) -> Story {
    story
        .file(at, "proc/10/stat", stat(10, 'S', (cpu_ms / 10, 0), 5))
        .file(at, "proc/10/task/10/stat", stat(10, 'S', (cpu_ms / 10, 0), 5))
        .file(at, "proc/10/task/10/schedstat", format!("{} 1000000 {turns}\n", cpu_ms * 1_000_000))
        .file(at, "proc/10/task/10/syscall", "230 0x1 0x1 0x7ffc982b91d0 0x0 0x0 0x0 0x7ffc 0x7ffd\n")
        .file(at, "proc/10/task/10/wchan", "hrtimer_nanosleep")
}

fn observe(story: &Story, target: Target) -> Result<Ledger, Unavailable> {
    let host = story.host();
    let out = Sink::beside(&[], &Arc::new(Shared::new(target)));
    let mut work = (COLLECTOR.start)(&host);
    work.prepare(&host, &out);
    for (instant, time) in story.spec.times.iter().enumerate() {
        host.wait(*time, instant, &AtomicBool::new(false));
        work.sample(&host, &out).unwrap();
        out.end_sample(*time, false);
    }
    work.finish(&host, &out);
    out.take_ledger().unwrap()
}

fn process(pid: u32) -> Target {
    Target { pids: vec![pid], ..Target::default() }
}

fn seconds(ledger: &Ledger, tid: u32, component: Component) -> f64 {
    let thread = ledger.threads.iter().find(|thread| thread.tid == tid).unwrap();
    thread.parts.iter().filter(|part| part.component == component).map(|part| part.seconds).sum()
}

#[test]
#[cfg(target_arch = "x86_64")]
fn counted_and_sampled_time_make_up_the_whole() {
    let mut story = Story::of_seconds(11);
    for at in 0..11 {
        story = sleeping(story, at, 1000 + 100 * at as u64, 10 + at as u64);
    }
    let ledger = observe(&story, process(10)).unwrap();
    assert_eq!((ledger.level, ledger.elapsed()), (Level::L1, 10.0));
    assert!((seconds(&ledger, 10, Component::CpuUser) - 1.0).abs() < 1e-9);
    assert!((seconds(&ledger, 10, Component::WaitSleep) - 9.0).abs() < 1e-9);
    let thread = &ledger.threads[0];
    assert_eq!((thread.comm.as_str(), thread.born, thread.died), ("a) b", false, false));
    let sleep = thread.parts.iter().find(|part| part.component == Component::WaitSleep).unwrap();
    assert_eq!((sleep.call.as_str(), sleep.accuracy), ("clock_nanosleep", Accuracy::Sampled(11, 0.0)));
    assert!((ledger.checks.proc_cpu_seconds.unwrap() - 1.0).abs() < 1e-9);
    assert_eq!(ledger.checks.run_delay_seconds, Some(0.0));
    let timeline = &ledger.timelines[0];
    assert!((timeline.slices[0].from, timeline.slices.last().unwrap().until) == (0.0, 10.0));
}

#[test]
fn threads_that_come_and_go_are_counted_for_as_long_as_they_were_seen() {
    let mut story = Story::of_seconds(6);
    for at in 0..6 {
        story = sleeping(story, at, 1000, 10);
    }
    // Born two seconds after the window began, seen at 2, 3 and 4; it spins.
    for at in 2..5 {
        story = story
            .file(at, "proc/10/task/11/stat", stat(11, 'R', (100 * (at as u64 - 2), 0), 200))
            .file(at, "proc/10/task/11/schedstat", format!("{} 0 1\n", (at as u64 - 2) * 1_000_000_000))
            .file(at, "proc/10/task/11/syscall", "running\n");
    }
    let ledger = observe(&story, process(10)).unwrap();
    let born = ledger.threads.iter().find(|thread| thread.tid == 11).unwrap();
    assert!(born.born && born.died, "{born:?}");
    assert_eq!((born.began, born.ended, born.seconds), (2.0, 4.0, 2.0));
    assert!((seconds(&ledger, 11, Component::CpuUser) - 2.0).abs() < 1e-9);
    assert!(ledger.notes.iter().any(|note| note.contains("1 threads ended")), "{:?}", ledger.notes);
}

#[test]
fn the_quota_of_a_group_is_told_from_other_waiting_for_a_cpu() {
    let mut story = Story::of_seconds(11)
        .file(0, "proc/mounts", "cgroup2 /sys/fs/cgroup cgroup2 rw 0 0\n")
        .file(0, "proc/self/mountinfo", "30 24 0:26 / /sys/fs/cgroup rw shared:4 - cgroup2 cgroup2 rw\n")
        .file(0, "sys/fs/cgroup/cgroup.controllers", "cpu memory\n")
        .file(0, "proc/10/cgroup", "0::/job/one\n");
    for at in 0..11_u64 {
        // It runs 20 ms of each 100, and the quota stops it for 70.
        story = sleeping(story, at as usize, 200 * at, at)
            .file(at as usize, "proc/10/task/10/stat", stat(10, 'R', (20 * at, 0), 5))
            .file(at as usize, "proc/10/task/10/schedstat", format!("{} {} {at}\n", 200_000_000 * at, 800_000_000 * at))
            .file(at as usize, "sys/fs/cgroup/job/cpu.stat", format!("throttled_usec {}\n", 700_000 * at));
    }
    let ledger = observe(&story, process(10)).unwrap();
    assert!((seconds(&ledger, 10, Component::CpuUser) - 2.0).abs() < 1e-6);
    assert!((seconds(&ledger, 10, Component::Throttled) - 7.0).abs() < 1e-6, "{ledger:?}");
    assert!((seconds(&ledger, 10, Component::Runq) - 1.0).abs() < 1e-6);
}

#[test]
fn a_wait_for_a_cpu_that_began_before_the_window_counts_from_there_on() {
    let mut story = Story::of_seconds(6);
    for at in 0..6_u64 {
        // Queued for nine seconds, of which two lie within the window; then it runs.
        let (run, wait, turns) = if at < 3 { (0, 0, 7) } else { ((at - 2) * 1_000_000_000, 9_000_000_000_u64, 8) };
        story = story
            .file(at as usize, "proc/10/stat", stat(10, 'R', (run / 10_000_000, 0), 5))
            .file(at as usize, "proc/10/task/10/stat", stat(10, 'R', (run / 10_000_000, 0), 5))
            .file(at as usize, "proc/10/task/10/schedstat", format!("{run} {wait} {turns}\n"))
            .file(at as usize, "proc/10/task/10/syscall", "running\n");
    }
    let ledger = observe(&story, process(10)).unwrap();
    assert!((seconds(&ledger, 10, Component::CpuUser) - 3.0).abs() < 1e-6, "{ledger:?}");
    assert!((seconds(&ledger, 10, Component::Runq) - 2.0).abs() < 1e-6, "{ledger:?}");
}

#[test]
fn what_may_not_be_seen_is_said_and_not_guessed() {
    let mut story = sleeping(Story::of_seconds(5), 0, 1000, 10).file(0, "proc/10/task/10/wchan", "0");
    story.spec.facts = Some(rdiag_model::Facts { uid: 1000, ..rdiag_model::Facts::default() });
    for file in ["syscall", "stack"] {
        let path = format!("proc/10/task/10/{file}");
        story.spec.faults.push(rdiag_kernel::host::Fault { path, fails: Reason::Denied, from: 0 });
    }
    let ledger = observe(&story, process(10)).unwrap();
    assert!((seconds(&ledger, 10, Component::OtherOff) - 4.0).abs() < 1e-9);
    assert!(ledger.notes.iter().any(|note| note.contains("run rdiag as root")), "{:?}", ledger.notes);
    assert!(ledger.stacks.is_empty());
}

#[test]
#[cfg(target_arch = "x86_64")]
fn a_wait_that_no_rule_knows_is_reported_with_its_stack() {
    let story = sleeping(Story::of_seconds(5), 0, 1000, 10)
        .file(0, "proc/10/task/10/syscall", "157 0x1 0x2 0x3 0x0 0x0 0x0 0x7 0x8\n")
        .file(0, "proc/10/task/10/wchan", "some_wait")
        .file(0, "proc/10/task/10/stack", "[<0>] some_wait+0x1/0x2\n[<0>] some_driver+0x1/0x2\n");
    let ledger = observe(&story, process(10)).unwrap();
    assert!((seconds(&ledger, 10, Component::OtherOff) - 4.0).abs() < 1e-9);
    let stacks = &ledger.stacks[0].stacks;
    let names: Vec<&str> = stacks.stacks[0].frames.iter().map(|at| stacks.frames[*at as usize].name.as_str()).collect();
    assert_eq!(names, ["prctl()", "some_driver", "some_wait"]);
}

#[test]
fn nobody_to_observe_is_an_answer() {
    let story = sleeping(Story::of_seconds(3), 0, 1000, 10);
    let gap = |target| observe(&story, target).unwrap_err().reason;
    assert_eq!(gap(Target::default()), Reason::NotApplicable);
    assert_eq!(gap(process(99)), Reason::Absent);
    assert_eq!(gap(Target { comm: Some("absent".into()), ..Target::default() }), Reason::Absent);
    assert_eq!(gap(Target { cgroup: Some("/none".into()), ..Target::default() }), Reason::Absent);
}

#[test]
fn tasks_are_found_by_name_and_by_group() {
    let story = sleeping(Story::of_seconds(3), 0, 1000, 10).file(0, "proc/10/task/10/comm", "a) b\n").file(
        0,
        "proc/10/cgroup",
        "0::/job/one\n",
    );
    for target in [
        Target { comm: Some("a) b".into()), ..Target::default() },
        Target { cgroup: Some("/job".into()), ..Target::default() },
    ] {
        assert_eq!(observe(&story, target).unwrap().threads[0].tid, 10);
    }
}

#[test]
fn garbage_in_the_files_of_a_thread_stops_nothing() {
    let mut story = sleeping(Story::of_seconds(4), 0, 1000, 10);
    for (at, file) in ["stat", "schedstat", "syscall"].iter().enumerate() {
        story = story.file(at + 1, &format!("proc/10/task/10/{file}"), "\u{0}garbage ) (");
    }
    let _ = observe(&story, process(10));
}
