//! /proc/PID/task/TID/stack: which tasks are in uninterruptible sleep, and where in the kernel. They raise the load
//! average and need no CPU; what they wait for is in their stacks.

mod sightings;

use std::collections::BTreeMap;

use super::processes::reader::Reader;
use crate::def::{Cadence, Collect, CollectorDef, Sink};
use rdiag_kernel::host::Host;
use rdiag_model::metric::{Formula, MetricDef, Pick, SeriesDef};
use rdiag_model::{RawUnit, Reason, Unavailable, Unit};
use rdiag_proc::process;
use sightings::Sightings;

pub(super) static COLLECTOR: CollectorDef = CollectorDef {
    id: "blocked_tasks",
    help: "Tasks in uninterruptible sleep and their kernel stacks, from /proc/PID/task/TID.",
    cadence: Cadence::Interval,
    series: SERIES,
    metrics: METRICS,
    overhead: "5 µs per process and interval, as much per thread of processes that have several, and 15 µs per blocked task",
    start: |_| Box::new(BlockedTasks::default()),
};

const CAVEAT: &str = "Seen at the samples only: a task that sleeps so for a moment between two of them is not in it.";

const SERIES: &[SeriesDef] = &[SeriesDef::gauge(
    "blocked_tasks.frozen",
    RawUnit::Count,
    "/proc/PID/task/TID/stack, with __refrigerator or a wait that signals interrupt",
)];

const METRICS: &[MetricDef] = &[
    MetricDef {
        id: "tasks.blocked.count",
        unit: Unit::Count,
        help: "Tasks in uninterruptible sleep, on average over the samples.",
        sources: &[Formula::probe(Pick::ColumnSum("places", "tasks"))],
        caveat: CAVEAT,
        manual: "ps -eLo state,pid,tid,wchan:32,comm | grep ^D",
        ..MetricDef::EMPTY
    },
    MetricDef {
        id: "tasks.blocked.stuck.count",
        unit: Unit::Count,
        help: "Tasks that were in uninterruptible sleep at every sample and never ran in between.",
        sources: &[Formula::probe(Pick::ColumnSum("tasks", "stuck"))],
        caveat: "In a short window a slow disk looks the same as one that will never answer.",
        manual: "ps -eLo state,pid,tid,wchan:32,comm | grep ^D, twice",
        ..MetricDef::EMPTY
    },
    MetricDef {
        id: "tasks.blocked.task.seconds",
        unit: Unit::Seconds,
        dimension: Some("task"),
        help: "Time that a task spent in uninterruptible sleep, estimated from the samples.",
        sources: &[Formula::probe(Pick::Column("tasks", "blocked"))],
        caveat: CAVEAT,
        manual: "ps -eLo state,pid,tid,wchan:32,comm | grep ^D",
        ..MetricDef::EMPTY
    },
];

/// Tasks that are looked at in one sample; on a host with more, the rest is not seen, which is said.
const MAX_TASKS: usize = 50_000;
/// Stacks that are read in one sample.
const MAX_STACKS: usize = 500;

#[derive(Default)]
struct BlockedTasks {
    reader: Option<Reader>,
    pids: Vec<u32>,
    tids: Vec<u32>,
    seen: Sightings,
    times: Vec<f64>,
}

/// One task in uninterruptible sleep at one sample.
struct Blocked {
    pid: u32,
    tid: u32,
    born: u64,
    name: String,
    /// How often it got a CPU so far: schedstat field 3.
    turns: Option<u64>,
    /// Functions, innermost first; none where they may not be read.
    stack: Result<Vec<String>, Unavailable>,
}

impl Collect for BlockedTasks {
    fn sample(&mut self, host: &Host, out: &Sink) -> Result<(), Unavailable> {
        let mut reader = match self.reader.take() {
            None => Reader::new(host.processes()?),
            Some(mut reader) => {
                if reader.is_recorded() {
                    reader.turn_to(host.processes()?);
                }
                reader
            }
        };
        let outcome = self.look(&mut reader).map(|frozen| out.level("blocked_tasks.frozen", "", f64::from(frozen)));
        self.reader = Some(reader);
        self.times.push(host.now());
        outcome
    }

    fn finish(&mut self, _: &Host, out: &Sink) {
        let seconds = match (self.times.first(), self.times.last()) {
            (Some(first), Some(last)) => last - first,
            _ => 0.0,
        };
        out.probe(std::mem::take(&mut self.seen).into_result(self.times.len(), seconds));
    }
}

impl BlockedTasks {
    /// Looks at all tasks once; how many of them are frozen.
    fn look(&mut self, reader: &mut Reader) -> Result<u32, Unavailable> {
        reader.pids(&mut self.pids)?;
        let (mut looked, mut stacks, mut frozen) = (0, 0, 0);
        let mut blocked = Vec::new();
        for pid in self.pids.iter().copied() {
            looked += 1;
            if looked > MAX_TASKS {
                self.seen.unseen();
                break;
            }
            let Ok(bytes) = reader.file(pid, "stat") else { continue };
            let Some((_, stat)) = process::stat(bytes) else { continue };
            if stat.threads <= 1 && stat.state != 'D' {
                continue;
            }
            if reader.tids(pid, &mut self.tids).is_err() {
                continue;
            }
            for tid in self.tids.iter().copied() {
                looked += 1;
                let Ok(bytes) = reader.thread_file(pid, tid, "stat") else { continue };
                let Some((name, stat)) = process::stat(bytes) else { continue };
                if stat.state != 'D' {
                    continue;
                }
                let name = String::from_utf8_lossy(name).into_owned();
                stacks += 1;
                let stack = if stacks > MAX_STACKS {
                    Err(Unavailable::new(Reason::NotVisible, "more tasks were blocked than stacks are read"))
                } else {
                    stack(reader, pid, tid)
                };
                if stack.as_ref().is_ok_and(|stack| is_frozen(stack)) {
                    frozen += 1;
                    continue;
                }
                let turns = reader.thread_file(pid, tid, "schedstat").ok().and_then(process::schedstat);
                blocked.push(Blocked {
                    pid,
                    tid,
                    born: stat.start_ticks,
                    name,
                    turns: turns.map(|times| times.turns),
                    stack,
                });
            }
        }
        self.seen.add(blocked);
        Ok(frozen)
    }
}

/// Waits that signals interrupt. Since Linux 6.1 the freezer takes a task where it sleeps, which the kernel then shows as uninterruptible
/// (6.5).
const INTERRUPTIBLE: [&str; 11] = [
    "do_nanosleep",
    "hrtimer_nanosleep",
    "ep_poll",
    "do_epoll_wait",
    "do_poll",
    "do_sys_poll",
    "do_select",
    "poll_schedule_timeout",
    "futex_wait_queue",
    "__futex_wait",
    "do_sigtimedwait",
];
/// Whether a task is held by a freezer: it was stopped on purpose, and waits for nothing that could be slow.
fn is_frozen(stack: &[String]) -> bool {
    let asleep = stack.iter().find(|name| !PLUMBING.contains(&name.as_str()) && !name.starts_with("schedule"));
    let asleep = asleep.and_then(|name| name.split('.').next());
    stack.iter().any(|name| name == "__refrigerator") || asleep.is_some_and(|name| INTERRUPTIBLE.contains(&name))
}

/// The functions that a task sleeps in, innermost first; where the stack may not be read, at least the innermost.
fn stack(reader: &mut Reader, pid: u32, tid: u32) -> Result<Vec<String>, Unavailable> {
    let refused = match reader.thread_file(pid, tid, "stack") {
        Ok(bytes) => {
            let functions = functions(&String::from_utf8_lossy(bytes));
            if !functions.is_empty() {
                return Ok(functions);
            }
            Unavailable::new(Reason::ShortWindow, "the task ran on while it was looked at")
        }
        Err(error) => error.gap(),
    };
    match reader.thread_file(pid, tid, "wchan") {
        Ok(bytes) if bytes.len() > 1 => Ok(vec![String::from_utf8_lossy(bytes).trim().to_owned()]),
        _ => Err(refused),
    }
}

/// The function names of lines such as `[<0>] folio_wait_bit+0x11f/0x1c0`.
fn functions(text: &str) -> Vec<String> {
    let name = |line: &str| {
        let (_, symbol) = line.split_once("] ")?;
        let name = symbol.split(['+', ' ']).next()?;
        (!name.is_empty() && !name.starts_with("0x")).then(|| name.to_owned())
    };
    text.lines().take(64).filter_map(name).collect()
}

/// Functions that only say that a task sleeps, not what for.
const PLUMBING: &[&str] = &[
    "__schedule",
    "schedule",
    "schedule_timeout",
    "io_schedule",
    "io_schedule_timeout",
    "schedule_preempt_disabled",
    "schedule_hrtimeout_range",
    "__wait_for_common",
    "wait_for_completion",
    "wait_for_completion_io",
    "wait_for_completion_killable",
    "wait_for_completion_state",
    "__cond_resched",
    "preempt_schedule_common",
];

/// The function that tells what a task waits for: the innermost that is not about waiting as such.
fn place(stack: &[String]) -> Option<&str> {
    let known = stack.iter().find(|name| !PLUMBING.contains(&name.as_str()));
    known.or(stack.first()).map(String::as_str)
}

type ByTask = BTreeMap<(u32, u64), sightings::Task>;

#[cfg(test)]
mod tests {
    use super::super::testing::{Story, stats};
    use super::*;

    fn stat(id: u32, name: &str, state: char, threads: u32) -> String {
        format!("{id} ({name}) {state} 1 1 1 0 -1 0 7 0 0 0 5 0 0 0 20 0 {threads} 0 500 9 5 1\n")
    }

    const STACK: &str =
        "[<0>] schedule+0x11/0x20\n[<0>] nfs_wait_bit_killable+0x11/0x90\n[<0>] nfs4_file_open+0x1/0x2\n";

    fn hung(instants: usize) -> Story {
        let mut story = Story::of_seconds(instants);
        for at in 0..instants {
            story = story
                .file(at, "proc/9/stat", stat(9, "idle", 'S', 1))
                .file(at, "proc/10/stat", stat(10, "server", 'S', 2))
                .file(at, "proc/10/task/10/stat", stat(10, "server", 'S', 2))
                .file(at, "proc/10/task/11/stat", stat(11, "worker", 'D', 2))
                .file(at, "proc/10/task/11/stack", STACK)
                .file(at, "proc/10/task/11/schedstat", "1000 10 7\n");
        }
        story
    }

    #[test]
    fn a_thread_that_never_runs_is_stuck_and_named_with_its_place() {
        let metrics = hung(5).metrics(&COLLECTOR);
        assert_eq!(stats(&metrics, "tasks.blocked.count", "").mean, 1.0);
        assert_eq!(stats(&metrics, "tasks.blocked.stuck.count", "").mean, 1.0);
        assert_eq!(stats(&metrics, "tasks.blocked.task.seconds", "11:500").total, 4.0);
        let labels = &metrics.labels["task"]["11:500"];
        assert_eq!((labels["name"].as_str(), labels["pid"].as_str()), ("worker", "10"));
        assert_eq!(labels["where"], "nfs_wait_bit_killable");
    }

    #[test]
    fn a_frozen_task_is_counted_as_such_and_is_not_blocked() {
        let mut story = hung(5);
        for at in 0..5 {
            story = story
                .file(at, "proc/12/stat", stat(12, "paused", 'D', 1))
                .file(at, "proc/12/task/12/stat", stat(12, "paused", 'D', 1))
                .file(at, "proc/12/task/12/stack", "[<0>] __refrigerator+0x5a/0xe0\n[<0>] get_signal+0x8c3/0x8f0\n")
                .file(at, "proc/13/stat", stat(13, "asleep", 'D', 1))
                .file(at, "proc/13/task/13/stat", stat(13, "asleep", 'D', 1))
                .file(
                    at,
                    "proc/13/task/13/stack",
                    "[<0>] hrtimer_nanosleep+0x9d/0x130\n[<0>] common_nsleep+0x40/0x50\n",
                );
        }
        let metrics = story.metrics(&COLLECTOR);
        let record = story.record(&COLLECTOR);
        let frozen = record.series.iter().find(|series| series.name == "blocked_tasks.frozen").unwrap();
        let frozen: Vec<f64> = frozen.values.iter().flatten().map(|count| count.as_f64()).collect();
        assert_eq!(frozen, [2.0; 5]);
        assert_eq!(stats(&metrics, "tasks.blocked.count", "").mean, 1.0);
        assert!(metrics.stats("tasks.blocked.task.seconds", "12:500").is_err());
    }

    #[test]
    fn tasks_that_have_no_row_of_their_own_are_counted_once() {
        let mut story = hung(5);
        for (at, pid) in (0..5).flat_map(|at| (100..140).map(move |pid| (at, pid))) {
            story = story
                .file(at, &format!("proc/{pid}/stat"), stat(pid, "writer", 'D', 1))
                .file(at, &format!("proc/{pid}/task/{pid}/stat"), stat(pid, "writer", 'D', 1))
                .file(at, &format!("proc/{pid}/task/{pid}/schedstat"), "1000 10 1\n")
                .file(at, &format!("proc/{pid}/task/{pid}/stack"), STACK);
        }
        let metrics = story.metrics(&COLLECTOR);
        assert_eq!(stats(&metrics, "tasks.blocked.count", "").mean, 41.0);
        assert_eq!(stats(&metrics, "tasks.blocked.stuck.count", "").mean, 41.0);
    }

    #[test]
    fn a_task_that_ran_in_between_is_not_stuck() {
        let mut story = hung(5);
        for at in 0..5 {
            story = story.file(at, "proc/10/task/11/schedstat", format!("1000 10 {at}\n"));
        }
        let metrics = story.metrics(&COLLECTOR);
        assert_eq!(stats(&metrics, "tasks.blocked.count", "").mean, 1.0);
        assert_eq!(stats(&metrics, "tasks.blocked.stuck.count", "").mean, 0.0);
    }

    #[test]
    fn where_nobody_is_blocked_the_count_is_zero() {
        let story = Story::of_seconds(3).file(0, "proc/9/stat", stat(9, "idle", 'S', 1));
        let metrics = story.metrics(&COLLECTOR);
        assert_eq!(stats(&metrics, "tasks.blocked.count", "").mean, 0.0);
    }

    #[test]
    fn names_of_functions_are_found_and_nonsense_is_left_out() {
        assert_eq!(functions(STACK), ["schedule", "nfs_wait_bit_killable", "nfs4_file_open"]);
        assert!(functions("garbage\n[<0>]\n[<0>] 0xffffffff81\n\u{0}").is_empty());
        assert_eq!(place(&functions(STACK)), Some("nfs_wait_bit_killable"));
        assert_eq!(place(&["schedule".to_owned()]), Some("schedule"));
    }
}
