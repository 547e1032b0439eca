//! /proc/PID/task: CPU time and waiting of single threads, of the processes that are the busiest while the window runs.

use std::collections::{BTreeMap, HashMap};

use super::processes::reader::Reader;
use crate::def::{Cadence, Collect, CollectorDef, Sink};
use rdiag_kernel::host::Host;
use rdiag_model::metric::{Formula, MetricDef, SeriesDef, SeriesKind, term};
use rdiag_model::{Number, RawUnit, Reason, Series, Unavailable, Unit};
use rdiag_proc::process;

pub(super) static COLLECTOR: CollectorDef = CollectorDef {
    id: "threads",
    help: "CPU time and waiting of the threads of the busiest processes, from /proc/PID/task.",
    cadence: Cadence::Interval,
    series: SERIES,
    metrics: METRICS,
    overhead: "4 µs per process and interval, and 8 µs per thread of the processes that are looked into",
    start: |_| Box::new(Threads::default()),
};

const CPU: &str = "threads.cpu";
const WAIT: &str = "threads.wait";

const SERIES: &[SeriesDef] = &[
    SeriesDef::counter(CPU, RawUnit::Ticks, "/proc/PID/task/TID/stat, fields 14 and 15"),
    SeriesDef::counter(WAIT, RawUnit::Nanoseconds, "/proc/PID/task/TID/schedstat, field 2"),
];

const METRICS: &[MetricDef] = &[
    MetricDef {
        id: "thread.cpu.ratio",
        unit: Unit::Ratio,
        dimension: Some("thread"),
        help: "CPU time of one thread per second: 1 is a full CPU, which is all that one thread can use.",
        sources: &[Formula::rate(&[term(CPU)])],
        caveat: "Only threads of the processes that were the busiest; the ten with the most.",
        manual: "pidstat -t -u 1 10",
        ..MetricDef::EMPTY
    },
    MetricDef {
        id: "thread.wait.ratio",
        unit: Unit::Ratio,
        dimension: Some("thread"),
        help: "Time per second in which one thread could run and waited for a CPU.",
        sources: &[Formula::rate(&[term(WAIT)])],
        caveat: "Added when the thread gets a CPU: one that still waits shows nothing.",
        manual: "cat /proc/PID/task/*/schedstat, twice",
        ..MetricDef::EMPTY
    },
];

/// Processes that begin to be watched at one sample: those that used the most CPU since the one before.
const JOIN: usize = 6;
/// Processes that are watched in all.
const MAX_PROCESSES: usize = 24;
/// Threads of one process that are looked at.
const MAX_THREADS: usize = 256;
/// Threads that are recorded: so many with the most CPU time, and so many with the most waiting.
const LARGEST: usize = 10;

/// Identity of a task: its id, and when it started.
type Task = (u32, u64);

/// What is known of a thread.
#[derive(Default)]
struct Thread {
    name: String,
    process: Task,
    nice: i32,
    /// CPU time in ticks, and waiting in ns, at each sample.
    values: Vec<Option<(u64, u64)>>,
}

impl Thread {
    fn change(&self, of: fn((u64, u64)) -> u64) -> u64 {
        let mut known = self.values.iter().flatten().map(|value| of(*value));
        let first = known.next().unwrap_or(0);
        known.next_back().unwrap_or(first).saturating_sub(first)
    }
}

#[derive(Default)]
struct Threads {
    reader: Option<Reader>,
    pids: Vec<u32>,
    tids: Vec<u32>,
    /// CPU time of each process at the last sample, in ticks.
    before: HashMap<Task, u64>,
    /// The watched processes with their names.
    watched: BTreeMap<Task, String>,
    threads: BTreeMap<Task, Thread>,
    /// The kernel keeps scheduler figures.
    waits: bool,
}

impl Collect for Threads {
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
        let listed = self.choose(&mut reader);
        let at = out.current();
        let watched: Vec<Task> = self.watched.keys().copied().collect();
        for process in watched {
            self.look_into(process, at, &mut reader);
        }
        self.reader = Some(reader);
        listed
    }

    fn so_far(&mut self, _: &Host, out: &Sink) {
        for (id, thread) in self.largest() {
            let instance = format!("{}:{}", id.0, id.1);
            self.record(CPU, RawUnit::Ticks, &instance, thread, |value| value.0, out);
            if self.waits {
                self.record(WAIT, RawUnit::Nanoseconds, &instance, thread, |value| value.1, out);
            }
            out.label(&instance, "name", thread.name.clone());
            out.label(&instance, "pid", thread.process.0.to_string());
            out.label(&instance, "tid", id.0.to_string());
            out.label(&instance, "nice", thread.nice.to_string());
            out.label(&instance, "process", self.watched.get(&thread.process).cloned().unwrap_or_default());
        }
    }

    fn finish(&mut self, host: &Host, out: &Sink) {
        self.so_far(host, out);
        if self.threads.is_empty() {
            let why = "no process used as much as a tick of CPU time between two samples";
            out.gap("threads", "", Unavailable::new(Reason::NotApplicable, why));
        } else if !self.waits {
            let why = "/proc/PID/task/TID/schedstat is missing or 0 for every thread: this kernel does not keep it";
            let remedy = "a kernel with CONFIG_SCHED_INFO; before 5.14, boot with delayacct";
            out.gap(WAIT, "", Unavailable::new(Reason::Absent, why).with_remedy(remedy));
        }
    }
}

impl Threads {
    /// Reads the CPU time of every process, and begins to watch those that used the most.
    fn choose(&mut self, reader: &mut Reader) -> Result<(), Unavailable> {
        reader.pids(&mut self.pids)?;
        let mut now = HashMap::with_capacity(self.pids.len());
        let mut busy: Vec<(u64, Task, String)> = Vec::new();
        for pid in self.pids.iter().copied() {
            let Ok(bytes) = reader.file(pid, "stat") else { continue };
            let Some((name, stat)) = process::stat(bytes) else { continue };
            let process = (pid, stat.start_ticks);
            let ticks = stat.utime.saturating_add(stat.stime);
            now.insert(process, ticks);
            let used = self.before.get(&process).map_or(0, |before| ticks.saturating_sub(*before));
            if used > 0 && !self.watched.contains_key(&process) {
                busy.push((used, process, String::from_utf8_lossy(name).into_owned()));
            }
        }
        self.before = now;
        busy.sort_unstable_by(|a, b| b.cmp(a));
        let room = MAX_PROCESSES.saturating_sub(self.watched.len());
        let chosen = busy.into_iter().take(JOIN.min(room));
        self.watched.extend(chosen.map(|(_, process, name)| (process, name)));
        Ok(())
    }

    /// Reads the threads of one process.
    fn look_into(&mut self, process: Task, at: usize, reader: &mut Reader) {
        let pid = process.0;
        if !self.before.contains_key(&process) || reader.tids(pid, &mut self.tids).is_err() {
            return;
        }
        for tid in self.tids.iter().copied().take(MAX_THREADS) {
            let Ok(bytes) = reader.thread_file(pid, tid, "stat") else { continue };
            let Some((name, stat)) = process::stat(bytes) else { continue };
            let thread = self.threads.entry((tid, stat.start_ticks)).or_default();
            if thread.name.as_bytes() != name {
                thread.name = String::from_utf8_lossy(name).into_owned();
            }
            thread.process = process;
            thread.nice = stat.nice;
            let waited = reader.thread_file(pid, tid, "schedstat").ok().and_then(process::schedstat);
            self.waits |= waited.is_some_and(|times| times.run > 0);
            let wait = waited.map_or(0, |times| times.wait);
            thread.values.resize(at, None);
            thread.values.push(Some((stat.utime.saturating_add(stat.stime), wait)));
        }
    }

    /// The threads that did or waited the most.
    fn largest(&self) -> BTreeMap<Task, &Thread> {
        let mut chosen = BTreeMap::new();
        let ways: [fn((u64, u64)) -> u64; 2] = [|value| value.0, |value| value.1];
        for way in ways {
            let mut all: Vec<(u64, Task, &Thread)> =
                self.threads.iter().map(|(id, thread)| (thread.change(way), *id, thread)).collect();
            all.sort_unstable_by_key(|(change, _, _)| std::cmp::Reverse(*change));
            let some = all.into_iter().take(LARGEST).filter(|(change, _, _)| *change > 0);
            chosen.extend(some.map(|(_, id, thread)| (id, thread)));
        }
        chosen
    }

    /// Which threads matter is known only at the end, so their series are written whole.
    fn record(
        &self,
        name: &str,
        unit: RawUnit,
        instance: &str,
        thread: &Thread,
        of: fn((u64, u64)) -> u64,
        out: &Sink,
    ) {
        let values = thread.values.iter().map(|value| value.map(|value| Number::Whole(of(value)))).collect();
        let series = Series {
            name: name.to_owned(),
            instance: Some(instance.to_owned()),
            kind: SeriesKind::Counter,
            unit,
            values,
        };
        out.with_record(|record| record.series.push(series));
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{Story, gap, instances, stats};
    use super::*;

    fn stat(id: u32, name: &str, ticks: u64, nice: i32) -> String {
        format!("{id} ({name}) R 1 1 1 0 -1 0 7 0 0 0 {ticks} 0 0 0 20 {nice} 2 0 500 9 5 1\n")
    }

    /// A process with a busy thread and an idle one, beside an idle process.
    fn busy(instants: usize) -> Story {
        let mut story = Story::of_seconds(instants);
        for at in 0..instants {
            let ticks = 1000 + 99 * at as u64;
            story = story
                .file(at, "proc/9/stat", stat(9, "idle", 5, 0))
                .file(at, "proc/10/stat", stat(10, "server", ticks + 20, 0))
                .file(at, "proc/10/task/10/stat", stat(10, "server", 20, 0))
                .file(at, "proc/10/task/10/schedstat", "200000000 0 5\n")
                .file(at, "proc/10/task/11/stat", stat(11, "worker (1)", ticks, 5))
                .file(at, "proc/10/task/11/schedstat", format!("{0} {1} 5\n", ticks * 10_000_000, at * 10_000_000));
        }
        story
    }

    #[test]
    fn the_busy_thread_of_a_process_is_found_with_its_names() {
        let metrics = busy(5).metrics(&COLLECTOR);
        assert_eq!(instances(&metrics, "thread.cpu.ratio"), ["11:500"]);
        let cpu = stats(&metrics, "thread.cpu.ratio", "11:500");
        assert!((cpu.mean - 0.99).abs() < 1e-9, "{cpu:?}");
        assert!((stats(&metrics, "thread.wait.ratio", "11:500").mean - 0.01).abs() < 1e-9);
        let labels = &metrics.labels["thread"]["11:500"];
        let shown: Vec<&str> = ["name", "pid", "tid", "nice", "process"].map(|key| labels[key].as_str()).into();
        assert_eq!(shown, ["worker (1)", "10", "11", "5", "server"]);
    }

    #[test]
    fn where_nothing_ran_there_is_nothing_to_judge() {
        let story = Story::of_seconds(2).file(0, "proc/9/stat", stat(9, "idle", 5, 0));
        assert_eq!(gap(&story.metrics(&COLLECTOR), "thread.cpu.ratio", "").reason, Reason::NotApplicable);
    }

    #[test]
    fn a_kernel_without_scheduler_figures_still_shows_cpu_time() {
        let mut story = busy(3);
        for at in 0..3 {
            story = story.file(at, "proc/10/task/11/schedstat", "0 0 0\n").file(at, "proc/10/task/10/schedstat", "");
        }
        let metrics = story.metrics(&COLLECTOR);
        assert!(stats(&metrics, "thread.cpu.ratio", "11:500").mean > 0.9);
        assert_eq!(gap(&metrics, "thread.wait.ratio", "11:500").reason, Reason::Absent);
    }
}
