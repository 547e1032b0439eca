//! Candidates: the processes that use the CPUs or wait for them, for a user who knows no PID.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::AtomicBool;

use rdiag_kernel::host::SharedHost;
use rdiag_proc::{TaskStat, process};

/// Processes that are looked at, the first by number.
const MAX_PROCESSES: usize = 50_000;
/// Candidates that are given.
const MAX_CANDIDATES: usize = 10;

/// A process that did something lately.
#[derive(Debug, Clone, PartialEq)]
pub struct Candidate {
    /// Process id.
    pub pid: u32,
    /// Its name.
    pub comm: String,
    /// CPU seconds per second, all threads (stat fields 14 and 15).
    pub cpu: f64,
    /// Seconds per second that its first thread waited for a CPU (schedstat field 2).
    pub waiting: f64,
}

#[derive(Debug, Clone, Default)]
struct ProcessTimes {
    comm: String,
    ticks: u64,
    delay_ns: u64,
}

/// Looks twice, `seconds` apart, and gives the processes with the most CPU time and waiting, rdiag itself left out.
#[must_use]
pub fn candidates(host: &SharedHost, seconds: f64) -> Vec<Candidate> {
    let before = all_times(host);
    let began = host.now();
    host.wait(began + seconds, 1, &AtomicBool::new(false));
    let elapsed = (host.now() - began).max(1e-3);
    let ticks_per_second = host.facts().ticks_per_second.max(1) as f64;
    let mut all: Vec<Candidate> = all_times(host)
        .into_iter()
        .filter_map(|(pid, after)| {
            let before = before.get(&pid)?;
            let cpu = after.ticks.saturating_sub(before.ticks) as f64 / ticks_per_second / elapsed;
            let waiting = after.delay_ns.saturating_sub(before.delay_ns) as f64 * 1e-9 / elapsed;
            (cpu + waiting > 0.001).then_some(Candidate { pid, comm: after.comm, cpu, waiting })
        })
        .collect();
    all.sort_by(|a, b| (b.cpu + b.waiting).total_cmp(&(a.cpu + a.waiting)).then(a.pid.cmp(&b.pid)));
    all.truncate(MAX_CANDIDATES);
    all
}

/// The names of all processes, unless a process or a thread is named `comm`.
#[must_use]
pub fn names_unless_there(host: &SharedHost, comm: &str) -> Option<BTreeSet<String>> {
    let pids: Vec<u32> =
        host.list("proc").unwrap_or_default().iter().filter_map(|name| name.parse().ok()).take(MAX_PROCESSES).collect();
    let name = |path: String| host.read_line(&path).ok();
    let names: BTreeSet<String> = pids.iter().filter_map(|pid| name(format!("proc/{pid}/comm"))).collect();
    if names.contains(comm) {
        return None;
    }
    let is_thread = |pid: &u32| {
        let threads = host.list(&format!("proc/{pid}/task")).unwrap_or_default();
        threads.len() > 1
            && threads.iter().any(|thread| name(format!("proc/{pid}/task/{thread}/comm")).as_deref() == Some(comm))
    };
    if pids.iter().any(is_thread) { None } else { Some(names) }
}

fn all_times(host: &SharedHost) -> BTreeMap<u32, ProcessTimes> {
    let names = host.list("proc").unwrap_or_default();
    let own = host.facts().pid;
    let pids = names.iter().filter_map(|name| name.parse::<u32>().ok()).filter(|pid| *pid != own);
    pids.take(MAX_PROCESSES).filter_map(|pid| Some((pid, process_times(host, pid)?))).collect()
}

fn process_times(host: &SharedHost, pid: u32) -> Option<ProcessTimes> {
    let (comm, ticks) = stat(&host.read(&format!("proc/{pid}/stat")).ok()?)?;
    let schedstat = host.read(&format!("proc/{pid}/schedstat")).unwrap_or_default();
    let delay_ns = process::schedstat(schedstat.as_bytes()).map_or(0, |schedstat| schedstat.wait);
    Some(ProcessTimes { comm, ticks, delay_ns })
}

/// The name, and user and system time together.
fn stat(text: &str) -> Option<(String, u64)> {
    let stat = TaskStat::parse(text.as_bytes())?;
    Some((String::from_utf8_lossy(stat.name).into_owned(), stat.ticks()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_may_hold_anything_and_a_cut_line_is_none() {
        let line = "7 (a) b ( c) R 1 7 7 0 -1 4194304 100 0 0 0 250 50 0 0 20 0 1 0 5 0 0";
        assert_eq!(stat(line), Some(("a) b ( c".to_owned(), 300)));
        for cut in ["", "7", "7 (a", "7 (a) R 1 7 7 0 -1 4194304 100 0 0 0 250", "7 a) R 1"] {
            assert_eq!(stat(cut), None, "{cut}");
        }
    }
}
