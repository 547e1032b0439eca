//! Processes that a signal stopped (SIGSTOP, or Ctrl-Z), and which of them others wait for.
//!
//! A stopped server looks like an idle one: it uses no CPU, waits for nothing, and the kernel goes on accepting connections for it until
//! its queue is full. State T is its one sign, which a shell's suspended jobs show as well; so it counts as stopped only where it was so at
//! both ends of the window and did not run in between, and a server is one that has a socket which it alone listens on. Tasks that the
//! freezer or a debugger holds are in other states.

use rdiag_proc::process;

mod listening;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};

use crate::def::{Cadence, Collect, CollectorDef, Sink};
use rdiag_kernel::host::{Host, Present, ProcessDir};
use rdiag_model::metric::{Formula, MetricDef, SeriesDef, term};
use rdiag_model::{Deed, RawUnit, Reason, Unavailable, Unit};

pub(super) static COLLECTOR: CollectorDef = CollectorDef {
    id: "stopped_tasks",
    help: "Processes in state T (stopped by a signal) throughout the window, and the sockets they listen on, from /proc/PID/stat and fd.",
    cadence: Cadence::Ends,
    series: SERIES,
    metrics: METRICS,
    overhead: "twice per window 4 µs per process, nothing where the table of processes is read as well; where some are stopped and \
               listen, a search of the open files of all processes (at most half a second)",
    start: |_| Box::new(StoppedTasks::default()),
};

const SERIES: &[SeriesDef] = &[
    SeriesDef::gauge("stopped_tasks.count", RawUnit::Count, "/proc/PID/stat, field 3 is T at both ends of the window"),
    SeriesDef::gauge(
        "stopped_tasks.process",
        RawUnit::Count,
        "/proc/PID/stat, field 3 is T at both ends of the window",
    ),
    SeriesDef::gauge(
        "stopped_tasks.listens",
        RawUnit::Count,
        "/proc/PID/fd; /proc/PID/net/tcp, tcp6 and unix, listening",
    ),
];

const CAVEAT: &str =
    "Stopped at both ends of the window without CPU time in between: one that was stopped meanwhile is not in it.";
const MANUAL: &str = "ps -eo state,pid,ppid,etime,comm | grep ^T; ss -lntxp";

const METRICS: &[MetricDef] = &[
    MetricDef {
        id: "tasks.stopped.count",
        unit: Unit::Count,
        help: "Processes that a signal stopped (state T).",
        sources: &[Formula::level(&[term("stopped_tasks.count")])],
        caveat: CAVEAT,
        manual: MANUAL,
        ..MetricDef::EMPTY
    },
    MetricDef {
        id: "tasks.stopped_process.count",
        unit: Unit::Count,
        dimension: Some("process"),
        help: "1 for each process that a signal stopped.",
        sources: &[Formula::level(&[term("stopped_tasks.process")])],
        caveat: "The first 20 by id.",
        manual: MANUAL,
        deed: Some(Deed { state: Some("is stopped"), ..Deed::USUAL }),
    },
    MetricDef {
        id: "tasks.stopped_listener.count",
        unit: Unit::Count,
        dimension: Some("process"),
        help: "Sockets on which only this stopped process listens.",
        sources: &[Formula::level(&[term("stopped_tasks.listens")])],
        caveat: "TCP and Unix sockets. Where open files of other processes may not be read, one of them may listen on \
                 the same socket.",
        manual: MANUAL,
        deed: Some(Deed { state: Some("is stopped"), ..Deed::USUAL }),
    },
];

/// Stopped processes that are recorded by themselves.
const MAX_PROCESSES: usize = 20;
/// Sockets of a process that are named.
const MAX_NAMED: usize = 3;

#[derive(Default)]
struct StoppedTasks {
    /// Those that were stopped at the last look, by id and start; none before the first.
    before: Option<BTreeMap<(u32, u64), u64>>,
    /// Whether that look was at what the table of processes had asked.
    from_table: bool,
    judged: bool,
}

/// A process that is stopped.
struct Stopped {
    pid: u32,
    born: u64,
    name: String,
}

impl Stopped {
    fn instance(&self) -> String {
        format!("{}:{}", self.pid, self.born)
    }
}

impl Collect for StoppedTasks {
    fn sample(&mut self, host: &Host, out: &Sink) -> Result<(), Unavailable> {
        let dir = host.processes()?;
        let mut buffer = Vec::new();
        let asked = host.asked().present.latest(host.now());
        let from_table = asked.is_some();
        let all = asked.map_or_else(|| ask(&dir, &mut buffer), |all| Ok(all.to_vec()))?;
        if host.facts().uid != 0 && all.iter().all(|present| present.pid != 1) {
            let why = "/proc is mounted with hidepid: processes of other users are hidden";
            let gap = Unavailable::new(Reason::NotVisible, why);
            return Err(gap.with_remedy("run rdiag as root, or with CAP_SYS_PTRACE"));
        }
        let now: BTreeMap<(u32, u64), u64> = all
            .iter()
            .filter(|present| present.state == 'T')
            .map(|present| ((present.pid, present.start_ticks), present.cpu_ticks))
            .collect();
        // The table of tasks and /proc round the parts of a time by themselves, which makes a tick.
        let rounding = u64::from(self.before.is_some() && self.from_table != from_table);
        self.from_table = from_table;
        let mut stopped = Vec::new();
        for (key, used) in &now {
            let before = self.before.as_ref().and_then(|before| before.get(key));
            if before.is_some_and(|before| used.abs_diff(*before) <= rounding) {
                let (pid, born) = *key;
                let same = stat(&dir, pid, &mut buffer).filter(|(_, stat)| stat.start_ticks == born);
                stopped.push(Stopped { pid, born, name: same.map(|(name, _)| name).unwrap_or_default() });
            }
        }
        if self.before.replace(now).is_some() {
            self.judged = true;
            record(host, &stopped, out);
        }
        Ok(())
    }

    fn finish(&mut self, _: &Host, out: &Sink) {
        if self.before.is_some() && !self.judged {
            let why = "processes were looked at only once, so none is known to have been stopped all the time";
            out.gap("stopped_tasks.", "", Unavailable::new(Reason::ShortWindow, why));
        }
    }
}

/// Asks every process.
fn ask(dir: &ProcessDir, buffer: &mut Vec<u8>) -> Result<Vec<Present>, Unavailable> {
    let mut pids = Vec::new();
    dir.list("", &mut pids)?;
    let mut present = |pid: u32| {
        // One that has gone, or may not be looked at, is there all the same.
        let (start_ticks, cpu_ticks, state, threads) = stat(dir, pid, buffer).map_or((0, 0, ' ', 0), |(_, stat)| {
            (stat.start_ticks, stat.utime.saturating_add(stat.stime), stat.state, stat.threads)
        });
        Present { pid, start_ticks, cpu_ticks, state, threads, uid: None }
    };
    Ok(pids.into_iter().map(&mut present).collect())
}

/// The name of a process, and what /proc/PID/stat tells beside it.
fn stat(dir: &ProcessDir, pid: u32, buffer: &mut Vec<u8>) -> Option<(String, process::Stat)> {
    let (name, stat) = process::stat(dir.read(&format!("{pid}/stat"), buffer).ok()?)?;
    Some((String::from_utf8_lossy(name).into_owned(), stat))
}

fn record(host: &Host, stopped: &[Stopped], out: &Sink) {
    out.level("stopped_tasks.count", "", stopped.len() as f64);
    if stopped.is_empty() {
        let gap = Unavailable::new(Reason::NotApplicable, "no process is stopped");
        out.gap("stopped_tasks.process", "", gap.clone());
        out.gap("stopped_tasks.listens", "", gap);
        return;
    }
    let named = stopped.get(..MAX_PROCESSES.min(stopped.len())).unwrap_or_default();
    let all: BTreeSet<u32> = stopped.iter().map(|process| process.pid).collect();
    let pids: Vec<u32> = named.iter().map(|process| process.pid).collect();
    let mut listening = listening::alone(host, &pids, &all);
    for process in named {
        let instance = process.instance();
        out.level("stopped_tasks.process", &instance, 1.0);
        out.label(&instance, "name", process.name.as_str());
        out.label(&instance, "pid", process.pid.to_string());
        if listening.unknown.contains(&process.pid) {
            let why = "not all open files could be searched for a running process that has its sockets as well";
            out.gap("stopped_tasks.listens", &instance, Unavailable::new(Reason::NotVisible, why));
            continue;
        }
        let sockets = listening.alone.remove(&process.pid).unwrap_or_default();
        out.level("stopped_tasks.listens", &instance, sockets.len() as f64);
        if !sockets.is_empty() {
            let names: Vec<&str> = sockets.iter().map(String::as_str).take(MAX_NAMED).collect();
            out.label(&instance, "listens", names.join(", "));
        }
    }
}
