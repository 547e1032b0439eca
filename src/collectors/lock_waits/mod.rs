//! /proc/PID/task/TID/syscall: threads of one process that wait for the same lock of their program.
//!
//! A thread that waits for a lock sleeps in futex(2), as one that waits for work does: what counts is shown by [`futex`], and by threads
//! that wait there again and again. A lock that no other thread gets (a deadlock, a long piece of work) is not for these figures to tell.

mod futex;
mod metrics;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};

use super::task_states::parse;
use crate::def::{Cadence, Collect, CollectorDef, Sink, untraceable};
use futex::Doing;
use rdiag_kernel::classify::Abi;
use rdiag_kernel::host::{Host, ProcessDir};
use rdiag_model::metric::{SeriesDef, SeriesKind};
use rdiag_model::{Number, RawUnit, Reason, Series, Unavailable};
use rdiag_proc::process;

pub(super) static COLLECTOR: CollectorDef = CollectorDef {
    id: "lock_waits",
    help: "Threads that wait for the same lock of their program, from /proc/PID/task/TID/syscall, of processes with three or more.",
    cadence: Cadence::Interval,
    series: SERIES,
    metrics: metrics::METRICS,
    overhead: "3 µs per thread and interval, of at most 2000 threads; every sixth time 2 µs per process, nothing where the table of \
               processes is read as well",
    start: |_| Box::new(LockWaits::default()),
};

const WAITING: &str = "lock_waits.waiting";
const THREADS: &str = "lock_waits.threads";
const MOST_WAITING: &str = "lock_waits.most_waiting";
const MOST_THREADS: &str = "lock_waits.most_threads";
const MOST_IDLE: &str = "lock_waits.most_idle";
const SOURCE: &str = "/proc/PID/task/TID/syscall: futex with the value or the operation of a lock, by first argument";

const SERIES: &[SeriesDef] = &[
    SeriesDef::gauge(WAITING, RawUnit::Count, SOURCE),
    SeriesDef::gauge(THREADS, RawUnit::Count, SOURCE),
    SeriesDef::gauge(MOST_WAITING, RawUnit::Count, SOURCE),
    SeriesDef::gauge(MOST_THREADS, RawUnit::Count, SOURCE),
    SeriesDef::gauge(
        MOST_IDLE,
        RawUnit::Count,
        "/proc/PID/task/TID/syscall of threads that were seen waiting for the lock",
    ),
];

/// Threads of a process below which two cannot wait for a third one.
const LEAST_THREADS: u64 = 3;
/// Threads that are looked at in one sample: in all, and of one process.
const MAX_THREADS: usize = 2000;
const MAX_OF_PROCESS: usize = 256;
/// Processes are looked for at each such sample.
const SEARCH_EVERY: usize = 6;
/// Locks that are recorded: those with the most waits.
const MAX_LOCKS: usize = 10;

#[derive(Default)]
struct LockWaits {
    samples: usize,
    processes: BTreeMap<u32, Process>,
    /// What is known of processes that were gone when others were looked for.
    ended: Vec<(u32, Process)>,
    looked: bool,
    denied: bool,
    left_out: bool,
}

/// A process with several threads.
#[derive(Default)]
struct Process {
    name: String,
    born: u64,
    abi: Abi,
    threads: u64,
    denied: bool,
    /// Samples at which its threads were looked at.
    seen: BTreeSet<usize>,
    /// By address.
    locks: BTreeMap<u64, Lock>,
    /// By thread, the lock that it was last seen waiting for.
    last: BTreeMap<u32, Seen>,
}

#[derive(Default)]
struct Lock {
    /// How many threads waited, by sample.
    waiting: BTreeMap<usize, u32>,
    threads: BTreeSet<u32>,
    /// A thread that had waited for it went on.
    handed_on: bool,
    /// The call alone said that it is a lock.
    certain: bool,
    /// The samples at which a thread waited for it again.
    repeated: BTreeSet<usize>,
    /// The samples at which, of the threads that had waited for it, none did anything else than to wait for work.
    idle: BTreeSet<usize>,
}

/// What was seen of a thread that waited for a lock.
#[derive(Clone, Copy)]
struct Seen {
    address: u64,
    /// How often it had run by then.
    turns: Option<u64>,
    /// It still waited there at the last look.
    waits: bool,
}

impl Lock {
    /// How often threads must have waited for it again where the call alone does not tell: a signal could end one wait.
    const LEAST_REPEATED: usize = 2;

    fn counts(&self) -> bool {
        let shared = self.threads.len() >= 2 && self.repeated.len() >= Self::LEAST_REPEATED;
        self.handed_on && (self.certain || shared)
    }
}

impl Collect for LockWaits {
    fn sample(&mut self, host: &Host, out: &Sink) -> Result<(), Unavailable> {
        let dir = host.processes()?;
        if self.samples.is_multiple_of(SEARCH_EVERY) {
            self.search(host, &dir)?;
        }
        self.samples += 1;
        let at = out.current();
        let mut room = MAX_THREADS;
        let mut order: Vec<(u64, u32)> = self.processes.iter().map(|(pid, process)| (process.threads, *pid)).collect();
        order.sort_unstable_by(|a, b| b.cmp(a));
        for (_, pid) in order {
            let Some(process) = self.processes.get_mut(&pid).filter(|process| !process.denied) else { continue };
            if room == 0 {
                self.left_out = true;
                break;
            }
            let looked = process.look(&dir, pid, at, room);
            self.looked |= looked > 0;
            self.denied |= process.denied;
            self.left_out |= looked == room;
            room -= looked.min(room);
        }
        Ok(())
    }

    fn so_far(&mut self, _: &Host, out: &Sink) {
        if self.looked {
            record(&self.all(), out);
        }
    }

    fn finish(&mut self, host: &Host, out: &Sink) {
        if !self.looked {
            let any = !self.processes.is_empty() || !self.ended.is_empty();
            let gap = match (self.denied, host.is_recorded() && any) {
                (true, _) => untraceable(host.facts(), "the system calls of threads"),
                (_, true) => Unavailable::new(Reason::Absent, "this recorded tree has no system calls of threads"),
                _ => Unavailable::new(Reason::NotApplicable, "no process has three threads or more"),
            };
            return out.gap("lock_waits.", "", gap);
        }
        self.so_far(host, out);
        if self.denied {
            out.gap(WAITING, "(others)", untraceable(host.facts(), "the system calls of some threads"));
        } else if self.left_out {
            let why = "there are so many threads that some were not looked at";
            out.gap(WAITING, "(others)", Unavailable::new(Reason::ShortWindow, why));
        }
    }
}

impl LockWaits {
    /// The processes of which something is known, those first that have ended.
    fn all(&self) -> Vec<(u32, &Process)> {
        let ended = self.ended.iter().map(|(pid, process)| (*pid, process));
        ended.chain(self.processes.iter().map(|(pid, process)| (*pid, process))).collect()
    }

    /// Looks which processes have several threads.
    fn search(&mut self, host: &Host, dir: &ProcessDir) -> Result<(), Unavailable> {
        let mut buffer = Vec::new();
        let asked = host.asked().present.latest(host.now());
        let all =
            asked.map_or_else(|| ask(dir), |all| Ok(all.iter().map(|one| (one.pid, one.threads.into())).collect()))?;
        let there: BTreeSet<u32> = all.iter().map(|(pid, _)| *pid).collect();
        let gone: Vec<u32> = self.processes.keys().copied().filter(|pid| !there.contains(pid)).collect();
        for pid in gone {
            let process = self.processes.remove(&pid);
            self.ended.extend(process.filter(|process| !process.locks.is_empty()).map(|process| (pid, process)));
        }
        let own = std::process::id();
        let is_other = |pid: u32| pid != own || dir.is_recorded();
        for (pid, threads) in all.into_iter().filter(|(pid, threads)| is_other(*pid) && *threads >= LEAST_THREADS) {
            if let Some(process) = self.processes.get_mut(&pid) {
                process.threads = threads;
                continue;
            }
            let read = dir.read(&format!("{pid}/stat"), &mut buffer).ok().and_then(process::stat);
            let Some((name, stat)) = read else { continue };
            let (name, born) = (String::from_utf8_lossy(name).into_owned(), stat.start_ticks);
            let abi = dir.read(&format!("{pid}/auxv"), &mut buffer).map(parse::abi).unwrap_or_default();
            self.processes.insert(pid, Process { name, born, abi, threads, ..Process::default() });
        }
        Ok(())
    }
}

/// Asks every process how many threads it has.
fn ask(dir: &ProcessDir) -> Result<Vec<(u32, u64)>, Unavailable> {
    let (mut pids, mut tids) = (Vec::new(), Vec::new());
    dir.list("", &mut pids)?;
    let mut threads = |pid: u32| match dir.is_recorded() {
        // A recorded tree does not count.
        true => dir.list(&format!("{pid}/task"), &mut tids).map_or(0, |()| tids.len() as u64),
        false => dir.owner_and_threads(pid).map_or(0, |(_, threads)| threads),
    };
    Ok(pids.into_iter().map(|pid| (pid, threads(pid))).collect())
}

impl Process {
    /// Looks at its threads; at how many.
    fn look(&mut self, dir: &ProcessDir, pid: u32, at: usize, room: usize) -> usize {
        let (mut tids, mut buffer) = (Vec::new(), Vec::new());
        if dir.list(&format!("{pid}/task"), &mut tids).is_err() {
            return 0;
        }
        let mut looked = 0;
        // Who is not found again has ended.
        let mut before = std::mem::take(&mut self.last);
        // By lock: whether any of the threads that had waited for it does anything else than to wait for work.
        let mut others: BTreeMap<u64, bool> = BTreeMap::new();
        for tid in tids.into_iter().take(room.min(MAX_OF_PROCESS)) {
            let doing = match dir.read(&format!("{pid}/task/{tid}/syscall"), &mut buffer) {
                Ok(bytes) => futex::doing(bytes, self.abi),
                Err(error) if error.reason == Reason::Denied => {
                    self.denied = true;
                    break;
                }
                Err(_) => continue,
            };
            looked += 1;
            let before = before.remove(&tid);
            match doing {
                Doing::Waits { address, certain } => {
                    let bytes = dir.read(&format!("{pid}/task/{tid}/schedstat"), &mut buffer).ok();
                    let turns = bytes.and_then(process::schedstat).map(|times| times.turns);
                    self.waits(tid, at, Seen { address, turns, waits: true }, certain, before);
                }
                Doing::Idles | Doing::Works => {
                    let Some(seen) = before else { continue };
                    *others.entry(seen.address).or_default() |= doing == Doing::Works;
                    self.goes_on(seen);
                    self.last.insert(tid, Seen { waits: false, ..seen });
                }
            }
        }
        for (address, _) in others.into_iter().filter(|(_, works)| !works) {
            self.locks.entry(address).or_default().idle.insert(at);
        }
        if looked > 0 {
            self.seen.insert(at);
        }
        looked
    }

    /// A thread waits for a lock, as one that it waited for `before`, or another.
    fn waits(&mut self, tid: u32, at: usize, now: Seen, certain: bool, before: Option<Seen>) {
        let ran = |seen: Seen| now.turns.is_some() && seen.turns.is_some() && now.turns != seen.turns;
        let again = before.is_some_and(|seen| seen.address == now.address && (!seen.waits || ran(seen)));
        if let Some(seen) = before.filter(|seen| again || seen.address != now.address) {
            self.goes_on(seen);
        }
        let lock = self.locks.entry(now.address).or_default();
        *lock.waiting.entry(at).or_default() += 1;
        lock.threads.insert(tid);
        lock.certain |= certain;
        if again {
            lock.repeated.insert(at);
        }
        self.last.insert(tid, now);
    }

    /// A thread that waited for a lock at the last look went on.
    fn goes_on(&mut self, seen: Seen) {
        if let Some(lock) = self.locks.get_mut(&seen.address).filter(|_| seen.waits) {
            lock.handed_on = true;
        }
    }
}

/// A contended lock: its process, its address, and what was seen of it.
type Contended<'p> = (u32, &'p Process, u64, &'p Lock);

/// Records the locks with the most waits, and the first of them for the host as a whole.
fn record(all: &[(u32, &Process)], out: &Sink) {
    let waits = |lock: &Lock| lock.waiting.values().map(|count| u64::from(*count)).sum::<u64>();
    let locks =
        all.iter().flat_map(|(pid, process)| process.locks.iter().map(move |(at, lock)| (*pid, *process, *at, lock)));
    let mut locks: Vec<Contended<'_>> = locks.filter(|(.., lock)| lock.counts()).collect();
    locks.sort_by_key(|(pid, _, address, lock)| (std::cmp::Reverse(waits(lock)), *pid, *address));
    locks.truncate(MAX_LOCKS);
    let samples = all.iter().flat_map(|(_, process)| process.seen.iter().copied()).max().map_or(0, |last| last + 1);
    let any_look = |at: usize| all.iter().any(|(_, process)| process.seen.contains(&at));
    let series = |of: Option<&Contended<'_>>| -> Vec<Option<Number>> {
        let value = |at: usize| match of {
            None => any_look(at).then_some(0.0),
            Some((_, process, _, lock)) => {
                process.seen.contains(&at).then(|| lock.waiting.get(&at).copied().map_or(0.0, f64::from))
            }
        };
        (0..samples).map(|at| value(at).map(Number::Real)).collect()
    };
    let constant = |count: usize| (0..samples).map(|_| Some(Number::Real(count as f64))).collect();
    put(out, MOST_WAITING, None, series(locks.first()));
    let idle = |at: usize| locks.first().is_some_and(|(.., lock)| lock.idle.contains(&at));
    put(
        out,
        MOST_IDLE,
        None,
        (0..samples).map(|at| any_look(at).then(|| Number::Real(f64::from(u8::from(idle(at)))))).collect(),
    );
    put(out, MOST_THREADS, None, constant(locks.first().map_or(1, |(.., lock)| lock.threads.len())));
    if locks.is_empty() {
        let gap = Unavailable::new(Reason::NotApplicable, "no thread was seen waiting for a lock that was handed on");
        out.gap(WAITING, "", gap.clone());
        out.gap(THREADS, "", gap);
    }
    for lock in &locks {
        let (pid, process, address, seen) = lock;
        let instance = format!("{pid}:{}:{address:x}", process.born);
        put(out, WAITING, Some(&instance), series(Some(lock)));
        put(out, THREADS, Some(&instance), constant(seen.threads.len()));
        out.label(&instance, "name", process.name.as_str());
        out.label(&instance, "pid", pid.to_string());
        out.label(&instance, "address", format!("{address:#x}"));
    }
}

/// Which locks matter is known only at the end, so their series are written whole.
fn put(out: &Sink, name: &str, instance: Option<&str>, values: Vec<Option<Number>>) {
    let (instance, kind, unit) = (instance.map(str::to_owned), SeriesKind::Gauge, RawUnit::Count);
    let series = Series { name: name.to_owned(), instance, kind, unit, values };
    out.with_record(|record| record.series.push(series));
}
