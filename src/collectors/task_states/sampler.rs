//! Sweeps over all threads of the observed task.

use std::collections::BTreeMap;

use super::delays::Kernel;
use super::estimate::Waits;
use super::strip::Strip;
use super::targets::Targets;
use super::thread_reader::{Counters, Doing, Found, Process, There, ThreadReader};
use rdiag_kernel::classify::Class;
use rdiag_kernel::host::{ProcessDir, SourceError};
use rdiag_kernel::mechanism::taskstats::Delays;
use rdiag_model::Component;
use rdiag_model::ledger::OTHER_KEYS;
use rdiag_proc::process::Schedstat;

/// A sleeping thread that did not run is only looked at in full every so many sweeps.
const FULL_EVERY: u64 = 5;
/// Threads at most; more are not observed, which is said.
const MAX_TASKS: usize = 10_000;
/// Threads with a timeline at most.
const MAX_STRIPS: usize = 256;

/// One observed thread.
#[derive(Debug, Default)]
pub(super) struct Task {
    pub(super) tid: u32,
    pub(super) pid: u32,
    pub(super) comm: String,
    pub(super) kernel: bool,
    /// Ticks since boot.
    pub(super) start: u64,
    pub(super) born: bool,
    pub(super) died: bool,
    /// Monotonic seconds.
    pub(super) began: f64,
    /// Monotonic seconds of the last look.
    pub(super) ended: f64,
    pub(super) first: Counters,
    pub(super) last: Counters,
    pub(super) samples: u64,
    pub(super) runnable: u64,
    pub(super) waits: Waits,
    /// Since when it has been queued without having run, as far as seen.
    pub(super) queued_since: Option<f64>,
    pub(super) strip: Option<Strip>,
    /// What taskstats counted when its observation began and ended (level L2).
    pub(super) delays: (Option<Delays>, Option<Delays>),
    /// What it did at the last look.
    doing: Option<Doing>,
    /// It got a CPU since it was first looked at.
    ran: bool,
}

/// Everything that was seen.
pub(super) struct Sampler {
    dir: ProcessDir,
    targets: Targets,
    pub(super) reader: ThreadReader,
    /// What the kernel counts of waits for disks; where it does.
    pub(super) kernel: Kernel,
    tasks: BTreeMap<u32, Task>,
    gone: Vec<Task>,
    pub(super) processes: BTreeMap<u32, Process>,
    /// Monotonic seconds of the sweeps.
    pub(super) first: Option<f64>,
    pub(super) last: f64,
    pub(super) sweeps: u64,
    pub(super) unobserved: u64,
    /// CPU seconds of the sweeps.
    pub(super) cost: f64,
    strips: usize,
    tick: f64,
    /// Seconds that the clock of boot is ahead of the monotonic one.
    suspended: f64,
}

impl Sampler {
    pub(super) fn new(
        dir: ProcessDir,
        targets: Targets,
        reader: ThreadReader,
        kernel: Kernel,
        (tick, suspended): (f64, f64),
    ) -> Self {
        Self {
            dir,
            targets,
            reader,
            kernel,
            tasks: BTreeMap::new(),
            gone: Vec::new(),
            processes: BTreeMap::new(),
            first: None,
            last: 0.0,
            sweeps: 0,
            unobserved: 0,
            cost: 0.0,
            strips: 0,
            tick,
            suspended,
        }
    }

    /// Looks at another instant of a recorded tree.
    pub(super) fn turn_to(&mut self, dir: ProcessDir) {
        self.dir = dir;
    }

    /// The threads, those that have ended too.
    pub(super) fn into_tasks(self) -> Vec<Task> {
        self.gone.into_iter().chain(self.tasks.into_values()).collect()
    }

    /// All threads that are there now.
    pub(super) fn tasks(&self) -> impl Iterator<Item = &Task> {
        self.tasks.values()
    }

    /// One sweep. `now` tells the time, which passes while it goes on.
    pub(super) fn sweep(&mut self, now: &dyn Fn() -> f64) -> Result<(), SourceError> {
        let began = now();
        let pids = self.targets.now(&self.dir, began)?;
        self.reader.begin();
        let mut tids = Vec::new();
        let mut seen = std::collections::HashSet::new();
        for pid in pids {
            if self.dir.list(&format!("{pid}/task"), &mut tids).is_err() {
                self.targets.gone(pid);
                continue;
            }
            let mut process = self.processes.remove(&pid).unwrap_or_else(|| self.meet(pid));
            if self.sweeps.is_multiple_of(25) {
                self.reader.process_ticks(&self.dir, pid, &mut process);
            }
            for tid in tids.iter().copied() {
                if !self.tasks.contains_key(&tid) && self.tasks.len() >= MAX_TASKS {
                    self.unobserved += 1;
                    continue;
                }
                if self.visit(pid, tid, &mut process, now) {
                    seen.insert(tid);
                }
            }
            self.processes.insert(pid, process);
        }
        let ended: Vec<u32> = self.tasks.keys().copied().filter(|tid| !seen.contains(tid)).collect();
        for tid in ended {
            self.bury(tid);
        }
        self.hear_of_the_dead();
        self.first.get_or_insert(began);
        self.last = now();
        self.sweeps += 1;
        Ok(())
    }

    /// Enters what was counted for threads that have ended.
    fn hear_of_the_dead(&mut self) {
        for (tid, delays) in self.kernel.ended() {
            if let Some(task) = self.tasks.get_mut(&tid) {
                task.delays.1 = Some(delays);
            } else if let Some(task) = self.gone.iter_mut().rev().take(1000).find(|task| task.tid == tid) {
                task.delays.1 = Some(delays);
            }
        }
    }

    /// Reads for the last time what is not read at each sweep: the CPU time of processes, and what taskstats counts.
    pub(super) fn settle(&mut self) {
        self.hear_of_the_dead();
        for task in self.tasks.values_mut() {
            task.delays.1 = self.kernel.now(task.tid).or(task.delays.1);
        }
        for (pid, process) in &mut self.processes {
            self.reader.process_ticks(&self.dir, *pid, process);
        }
    }

    fn meet(&mut self, pid: u32) -> Process {
        let mut process = Process::default();
        self.reader.process(&self.dir, pid, &mut process);
        process
    }

    /// Looks at a thread; whether it is there.
    fn visit(&mut self, pid: u32, tid: u32, process: &mut Process, now: &dyn Fn() -> f64) -> bool {
        let in_full = self.sweeps.is_multiple_of(FULL_EVERY);
        let asleep = self.tasks.get(&tid).filter(|_| !in_full).and_then(Task::asleep);
        let at = now();
        match self.reader.look(&self.dir, process, (pid, tid), asleep) {
            Found::Gone => false,
            Found::Ended(counters) => {
                if let Some(task) = self.tasks.get_mut(&tid) {
                    task.advance(at, counters, None);
                    self.bury(tid);
                }
                // A process that has ended and was not collected stays in the list; it is no task any more.
                false
            }
            Found::Unmoved => {
                if let Some(task) = self.tasks.get_mut(&tid) {
                    let (counters, doing) = (task.last, task.doing.clone());
                    task.advance(at, counters, doing);
                }
                true
            }
            Found::There(there) => self.enter(pid, tid, at, *there, process),
        }
    }

    fn enter(&mut self, pid: u32, tid: u32, at: f64, there: There, process: &mut Process) -> bool {
        if self.targets.comm().is_some_and(|comm| comm != there.comm) {
            return false;
        }
        if self.tasks.get(&tid).is_some_and(|task| task.start != there.start) {
            self.bury(tid);
        }
        if !self.tasks.contains_key(&tid) {
            let task = self.welcome(pid, tid, at, &there);
            self.tasks.insert(tid, task);
        }
        let Some(task) = self.tasks.get_mut(&tid) else { return false };
        if task.comm != there.comm {
            task.comm = there.comm;
            self.reader.process(&self.dir, pid, process);
        }
        task.advance(at, there.counters, Some(there.doing));
        true
    }

    /// A thread that is seen for the first time: one that was there before, or one that was born since the last sweep.
    fn welcome(&mut self, pid: u32, tid: u32, at: f64, there: &There) -> Task {
        let birth = there.start as f64 * self.tick - self.suspended;
        // The birth is known to a tick.
        let born = self.first.is_some_and(|first| birth >= first - self.tick);
        let (began, first) =
            if born { (birth.max(self.last).min(at), Counters::default()) } else { (at, there.counters) };
        let first = Counters { sched: first.sched.or(there.counters.sched.map(|_| Schedstat::default())), ..first };
        let strip = (self.strips < MAX_STRIPS).then(Strip::default);
        self.strips += usize::from(strip.is_some());
        let comm = there.comm.clone();
        let counted = if born { self.kernel.at_birth() } else { self.kernel.now(tid) };
        Task {
            delays: (counted, None),
            tid,
            pid,
            comm,
            kernel: there.kernel,
            start: there.start,
            born,
            began,
            ended: began,
            first,
            last: first,
            strip,
            ..Task::default()
        }
    }

    fn bury(&mut self, tid: u32) {
        let Some(mut task) = self.tasks.remove(&tid) else { return };
        task.died = true;
        // Threads that come and go by the thousand are not kept one by one.
        if self.gone.len() < MAX_TASKS {
            self.gone.push(task);
        } else {
            self.unobserved += 1;
        }
    }
}

impl Task {
    /// Its scheduler figures, if it slept at the last look, for reasons that are known.
    fn asleep(&self) -> Option<Schedstat> {
        match &self.doing {
            Some(Doing::Waits(..)) => self.last.sched,
            _ => None,
        }
    }

    /// Takes in a look.
    fn advance(&mut self, at: f64, counters: Counters, doing: Option<Doing>) {
        if !self.ran && self.last.sched.map(|sched| sched.turns) != counters.sched.map(|sched| sched.turns) {
            self.ran = true;
            self.leave_out_what_was_before(at, counters);
        }
        let (run, wait) = change(self.last, counters);
        let moved = self.last.sched.map(|sched| (sched.turns, sched.run))
            != counters.sched.map(|sched| (sched.turns, sched.run));
        if let Some(strip) = &mut self.strip {
            let rest = (at - self.ended - run - wait).max(0.0);
            let component = match &doing {
                Some(Doing::Waits(Class { component, .. }, _)) => *component,
                // It could run and did not: it was queued.
                Some(Doing::Runnable) if counters.sched.is_some() => Component::Runq,
                Some(Doing::Runnable) => Component::CpuUser,
                Some(Doing::Torn) | None => Component::OtherOff,
            };
            strip.add(self.ended, at, &[(Component::CpuUser, run), (Component::Runq, wait), (component, rest)]);
        }
        match &doing {
            Some(Doing::Runnable) => {
                self.samples += 1;
                self.runnable += 1;
                if moved || self.queued_since.is_none() {
                    self.queued_since = Some(at);
                }
            }
            Some(Doing::Waits(class, what)) => {
                self.samples += 1;
                self.queued_since = None;
                let kinds = self.waits.entry(class.component).or_default();
                let mut what = what.clone();
                // A thread that reads a thousand files has as many keys.
                if kinds.len() >= MAX_KEYS && !kinds.contains_key(&what) {
                    OTHER_KEYS.clone_into(&mut what.key);
                }
                *kinds.entry(what).or_default() += 1;
            }
            Some(Doing::Torn) => {
                self.samples += 1;
                self.queued_since = None;
            }
            None => {}
        }
        self.ended = at;
        self.last = counters;
        self.doing = doing;
    }
}

impl Task {
    /// A wait for a CPU is added when it ends: the first may have begun before the thread was observed. What cannot have
    /// been since then was before.
    fn leave_out_what_was_before(&mut self, at: f64, counters: Counters) {
        let (run, wait) = change(self.first, counters);
        let before = (run + wait - (at - self.began)).clamp(0.0, wait);
        for known in [&mut self.first, &mut self.last] {
            if let Some(sched) = &mut known.sched {
                sched.wait = sched.wait.saturating_add((before * 1e9) as u64);
            }
        }
    }
}

/// Keys of one component of one thread at most.
const MAX_KEYS: usize = 50;

/// Seconds on a CPU and waiting for one between two looks.
pub(super) fn change(from: Counters, to: Counters) -> (f64, f64) {
    let (Some(from), Some(to)) = (from.sched, to.sched) else { return (0.0, 0.0) };
    (to.run.saturating_sub(from.run) as f64 * 1e-9, to.wait.saturating_sub(from.wait) as f64 * 1e-9)
}
