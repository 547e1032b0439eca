//! Processes and threads of each user against RLIMIT_NPROC.
//!
//! The kernel counts them by real user id, over all processes, and compares the count with the limit of the process that
//! forks: so a user has as many limits as its processes have, and the one that is reached first is that of the process with the
//! lowest. Processes of root, and those with CAP_SYS_RESOURCE or CAP_SYS_ADMIN, are bound by none (`copy_process`).
//!
//! stat(2) tells whose a process is and how many threads it has, at a tenth of what reading a file costs. Limits are read of some
//! processes of each user, and of all of them only where one of these is near.

mod parse;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use self::parse::{Status, status};
use crate::def::{Cadence, Collect, CollectorDef, Sink};
use rdiag_kernel::host::{Host, Present, ProcessDir, SourceError};
use rdiag_model::metric::{Formula, MetricDef, SeriesDef, term};
use rdiag_model::{RawUnit, Reason, Unavailable, Unit};
use rdiag_proc::process::soft_limit;

pub(super) static COLLECTOR: CollectorDef = CollectorDef {
    id: "user_tasks",
    help: "Processes and threads of each user against the limit of its processes (RLIMIT_NPROC), from /proc/PID.",
    cadence: Cadence::Ends,
    series: SERIES,
    metrics: METRICS,
    overhead: "once, at the beginning of a window: 2 µs per process, 10 µs for each of at most 256 limits, and 20 µs for each process \
               of a user that is near its limit (at most 2000)",
    start: |_| Box::new(UserTasks),
};

const SERIES: &[SeriesDef] = &[
    SeriesDef::gauge("user_tasks.count", RawUnit::Count, "/proc/PID/task, over the processes of a user"),
    SeriesDef::gauge("user_tasks.limit", RawUnit::Count, "/proc/PID/limits, Max processes, soft: the lowest"),
];

const CAVEAT: &str = "Not for root, which no limit binds, nor for processes with CAP_SYS_RESOURCE or CAP_SYS_ADMIN. Of a user with more \
    than 16 \
                      processes the limits of 16 are read. In a container, processes of the same user elsewhere are not seen.";
const MANUAL: &str = "ps -eLo ruid= | sort | uniq -c; grep processes /proc/PID/limits";

const METRICS: &[MetricDef] = &[
    MetricDef {
        id: "tasks.limited_user.ratio",
        unit: Unit::Ratio,
        dimension: Some("user"),
        help: "Processes and threads of a user, as a share of the lowest limit of its processes (RLIMIT_NPROC).",
        sources: &[Formula::level_ratio(&[term("user_tasks.count")], &[term("user_tasks.limit")])],
        caveat: CAVEAT,
        manual: MANUAL,
        ..MetricDef::EMPTY
    },
    MetricDef {
        id: "tasks.limited_user.count",
        unit: Unit::Count,
        dimension: Some("user"),
        help: "Processes and threads of a user.",
        sources: &[Formula::level(&[term("user_tasks.count")])],
        caveat: CAVEAT,
        manual: MANUAL,
        ..MetricDef::EMPTY
    },
    MetricDef {
        id: "tasks.limited_user_most.count",
        unit: Unit::Count,
        dimension: Some("user"),
        help: "The lowest limit (RLIMIT_NPROC) of a user's processes.",
        sources: &[Formula::level(&[term("user_tasks.limit")])],
        caveat: CAVEAT,
        manual: MANUAL,
        ..MetricDef::EMPTY
    },
];

/// Programs that lock themselves in on purpose set a limit as low as this.
const LOCKED_IN: u64 = 8;
/// Of each user so many limits are read, and of all users together.
const SAMPLE: usize = 16;
const MAX_LIMITS: usize = 256;
/// From this share of a limit on, each process of the user is looked at.
const NEAR: f64 = 0.7;
const MAX_CLOSE_LOOKS: usize = 2000;
/// Users that are recorded: those nearest to their limit.
const NEAREST: usize = 10;
/// Kinds of processes that are named, those with the most threads first.
const MAX_KINDS: usize = 4;

struct UserTasks;

/// The processes of a user, by the effective id.
#[derive(Default)]
struct User {
    threads: u64,
    /// Process and number of threads.
    processes: Vec<(u32, u64)>,
}

/// How near a user is to a limit, and whose limit it is.
struct Near {
    uid: u32,
    count: u64,
    limit: u64,
    pid: u32,
    process: Option<String>,
    /// `59 sleep, 1 sh`.
    kinds: Option<String>,
}

impl Collect for UserTasks {
    fn sample(&mut self, host: &Host, out: &Sink) -> Result<(), Unavailable> {
        // A limit that is near at the end of a window was not far at its beginning.
        if out.current() > 0 {
            return Ok(());
        }
        let mut search =
            Search { dir: host.processes()?, buffer: Vec::new(), limits: MAX_LIMITS, denied: 0, left_out: false };
        let asked = host.asked().present.latest(host.now());
        let owned = |one: &Present| Some((one.pid, one.uid?, u64::from(one.threads.max(1))));
        let asked = asked.and_then(|all| all.iter().map(owned).collect::<Option<Vec<_>>>());
        let mut processes = asked.map_or_else(|| search.ask(), Ok)?;
        // The oldest first, as far as their ids tell.
        processes.sort_unstable();
        if host.facts().uid != 0 && processes.iter().all(|(pid, ..)| *pid != 1) {
            let why = "/proc is mounted with hidepid: processes of other users are hidden";
            let gap =
                Unavailable::new(Reason::NotVisible, why).with_remedy("run rdiag as root, or with CAP_SYS_PTRACE");
            out.gap("user_tasks.", "", gap);
            return Ok(());
        }
        let mut near: Vec<Near> =
            users(&processes).into_iter().filter_map(|(uid, user)| search.nearest(uid, user)).collect();
        near.sort_by(|a, b| (b.count as f64 / b.limit as f64).total_cmp(&(a.count as f64 / a.limit as f64)));
        near.truncate(NEAREST);
        if search.denied > 0 {
            let why = format!("the limits of {} processes may be read by their owners only", search.denied);
            let gap = Unavailable::new(Reason::Denied, why).with_remedy("run rdiag as root, or with CAP_SYS_PTRACE");
            out.gap("user_tasks.", if near.is_empty() { "" } else { "(others)" }, gap);
        } else if search.left_out {
            let why = format!("there are so many users that the limits of only {MAX_LIMITS} processes were read");
            out.gap("user_tasks.", "(others)", Unavailable::new(Reason::ShortWindow, why));
        } else if near.is_empty() {
            let why = "no process of a user other than root has a limit of 8 processes or more (smaller ones are set on purpose, \
                       and fork fails there with EAGAIN)";
            out.gap("user_tasks.", "", Unavailable::new(Reason::NotApplicable, why));
        }
        near.iter().for_each(|near| record(near, out));
        name(&near, host, out);
        Ok(())
    }
}

struct Search {
    dir: ProcessDir,
    buffer: Vec<u8>,
    /// Limits that may still be read.
    limits: usize,
    /// Processes whose limits may not be read.
    denied: usize,
    /// There were more limits than may be read.
    left_out: bool,
}

impl Search {
    /// Asks every process whose it is, and how many threads it has.
    fn ask(&mut self) -> Result<Vec<(u32, u32, u64)>, SourceError> {
        let mut pids = Vec::new();
        self.dir.list("", &mut pids)?;
        let mut owned = |pid: u32| {
            let found = if self.dir.is_recorded() {
                self.status(pid).ok().flatten().map(|status| (status.uid, status.threads))
            } else {
                self.dir.owner_and_threads(pid).ok()
            };
            // One that has gone meanwhile counts for no user.
            let (uid, threads) = found.unwrap_or_default();
            (pid, uid, threads)
        };
        Ok(pids.into_iter().map(&mut owned).collect())
    }

    /// The limit of a user's processes that is reached first; none where they have none.
    fn nearest(&mut self, uid: u32, user: User) -> Option<Near> {
        let mut lowest: Option<(u64, u32)> = None;
        for pid in sample(&user.processes) {
            if let Some(limit) = self.limit(pid).filter(|limit| lowest.is_none_or(|(lowest, _)| *limit < lowest)) {
                lowest = Some((limit, pid));
            }
        }
        let (limit, pid) = lowest?;
        if user.threads as f64 > NEAR * limit as f64 {
            return self.close_look(uid, &user);
        }
        Some(Near { uid, count: user.threads, limit, pid, process: None, kinds: None })
    }

    /// The same from each process: its real user, its limit, and whether it is bound by it.
    fn close_look(&mut self, uid: u32, user: &User) -> Option<Near> {
        self.limits = self.limits.max(MAX_CLOSE_LOOKS);
        let mut kinds: BTreeMap<String, u64> = BTreeMap::new();
        let (mut count, mut lowest) = (0, None);
        for (at, (pid, threads)) in user.processes.iter().enumerate() {
            if at >= MAX_CLOSE_LOOKS {
                count += threads;
                continue;
            }
            let Ok(Some(Status { name, uid: real, threads, is_bound })) = self.status(*pid) else { continue };
            if real != uid {
                continue;
            }
            count += threads;
            *kinds.entry(name.clone()).or_default() += threads;
            let Some(limit) = self.limit(*pid).filter(|_| is_bound) else { continue };
            if lowest.as_ref().is_none_or(|(lowest, _, _)| limit < *lowest) {
                lowest = Some((limit, *pid, name));
            }
        }
        let (limit, pid, process) = lowest?;
        let mut kinds: Vec<_> = kinds.into_iter().collect();
        kinds.sort_by_key(|(_, threads)| std::cmp::Reverse(*threads));
        let kinds: Vec<String> =
            kinds.into_iter().take(MAX_KINDS).map(|(name, threads)| format!("{threads} {name}")).collect();
        Some(Near { uid, count, limit, pid, process: Some(process), kinds: Some(kinds.join(", ")) })
    }

    /// The limit of a process, if it has one that is not meant to be reached.
    fn limit(&mut self, pid: u32) -> Option<u64> {
        self.left_out |= self.limits == 0;
        self.limits = self.limits.checked_sub(1)?;
        match self.dir.read(&format!("{pid}/limits"), &mut self.buffer) {
            Ok(bytes) => soft_limit(bytes, "Max processes").filter(|limit| (LOCKED_IN..u64::MAX).contains(limit)),
            Err(error) => {
                self.denied += usize::from(error.reason == Reason::Denied);
                None
            }
        }
    }

    fn status(&mut self, pid: u32) -> Result<Option<Status>, SourceError> {
        Ok(status(self.dir.read(&format!("{pid}/status"), &mut self.buffer)?))
    }
}

/// The processes of each user, root left out.
fn users(processes: &[(u32, u32, u64)]) -> Vec<(u32, User)> {
    let mut users: BTreeMap<u32, User> = BTreeMap::new();
    for (pid, uid, threads) in processes.iter().copied().filter(|(_, uid, _)| *uid != 0) {
        let user = users.entry(uid).or_default();
        user.threads += threads;
        user.processes.push((pid, threads));
    }
    let mut users: Vec<_> = users.into_iter().collect();
    // The number of limits that are read is bounded: those of large users first.
    users.sort_by_key(|(_, user)| std::cmp::Reverse(user.threads));
    users
}

/// Some processes that stand for all: the one with the most threads, and those at even distances from the oldest to the newest,
/// since what is started together has the same limits.
fn sample(processes: &[(u32, u64)]) -> Vec<u32> {
    let largest = processes.iter().max_by_key(|(_, threads)| *threads).map(|(pid, _)| *pid);
    let last = processes.len().saturating_sub(1);
    let steps = SAMPLE.min(processes.len()).saturating_sub(1).max(1);
    let even = (0..=steps).filter_map(|step| Some(processes.get(last * step / steps)?.0));
    let mut pids: Vec<u32> = even.chain(largest).collect();
    pids.sort_unstable();
    pids.dedup();
    pids
}

fn record(near: &Near, out: &Sink) {
    let instance = near.uid.to_string();
    out.level("user_tasks.count", &instance, near.count as f64);
    out.level("user_tasks.limit", &instance, near.limit as f64);
    out.label(&instance, "pid", near.pid.to_string());
    for (key, value) in [("process", &near.process), ("processes", &near.kinds)] {
        value.iter().for_each(|value| out.label(&instance, key, value.as_str()));
    }
}

/// Names of the recorded users, from /etc/passwd.
fn name(near: &[Near], host: &Host, out: &Sink) {
    if near.is_empty() {
        return;
    }
    let passwd = host.read("etc/passwd").unwrap_or_default();
    for line in passwd.lines() {
        let mut fields = line.split(':');
        let (Some(name), Some(uid)) = (fields.next(), fields.nth(1).and_then(|uid| uid.parse::<u32>().ok())) else {
            continue;
        };
        if near.iter().any(|near| near.uid == uid) {
            out.label(&uid.to_string(), "name", name);
        }
    }
}
