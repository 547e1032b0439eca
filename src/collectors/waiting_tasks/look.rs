//! One look at all threads and CPUs, and what changed between two.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use rdiag_kernel::host::{Host, ProcessDir, SourceError};
use rdiag_proc::{Field, TaskStat, cpu_line, process};

/// Of one process not more threads are looked at, and of all not longer than this.
const MAX_OF_PROCESS: usize = 256;
const BUDGET_SECONDS: f64 = 0.15;
/// SCHED_FIFO, SCHED_RR and SCHED_DEADLINE.
const REAL_TIME: [u64; 3] = [1, 2, 6];

/// Process and thread.
type Id = (u32, u32);

/// How long each thread ran and waited until now, in ns, and what the CPUs did.
pub(super) struct Snapshot {
    at: f64,
    threads: HashMap<Id, (u64, u64)>,
    pub(super) cpus: Cpus,
    /// Some thread ran at all: the kernel keeps these figures.
    pub(super) any_ran: bool,
    pub(super) left_out: bool,
}

/// A thread that ran or waited for long.
#[derive(Debug, Default)]
pub(super) struct Task {
    pub(super) pid: u32,
    pub(super) process: String,
    pub(super) ran: u64,
    pub(super) waited: u64,
    /// The CPU that it was on last.
    pub(super) cpu: u32,
    pub(super) is_real_time: bool,
    pub(super) is_kernel: bool,
    nice: i32,
    pub(super) allowed: BTreeSet<u32>,
    pub(super) allowed_list: String,
}

impl Task {
    /// Whether its waiting matters: niced tasks asked to be last.
    pub(super) fn is_ordinary(&self) -> bool {
        !self.is_kernel && !self.is_real_time && self.nice <= 0
    }
}

impl Snapshot {
    pub(super) fn take(host: &Host) -> Result<Self, SourceError> {
        let dir = host.processes()?;
        let mut pids = Vec::new();
        dir.list("", &mut pids)?;
        let cpus = Cpus::parse(&host.read("proc/stat")?);
        let mut look = Self { at: host.now(), threads: HashMap::new(), cpus, any_ran: false, left_out: false };
        let until = host.thread_usage() + BUDGET_SECONDS;
        let (mut tids, mut buffer) = (Vec::new(), Vec::new());
        for pid in pids {
            if host.thread_usage() > until {
                look.left_out = true;
                break;
            }
            let single = dir.owner_and_threads(pid).is_ok_and(|(_, threads)| threads == 1);
            tids.clear();
            if single || dir.list(&format!("{pid}/task"), &mut tids).is_err() {
                tids.push(pid);
            }
            look.left_out |= tids.len() > MAX_OF_PROCESS;
            for tid in tids.iter().copied().take(MAX_OF_PROCESS) {
                let bytes = dir.read(&format!("{pid}/task/{tid}/schedstat"), &mut buffer);
                let Some(times) = bytes.ok().and_then(process::schedstat) else { continue };
                look.any_ran |= times.run > 0;
                look.threads.insert((pid, tid), (times.run, times.wait));
            }
        }
        Ok(look)
    }

    /// The threads that ran or waited for at least this share of the time since.
    pub(super) fn since(&self, first: &Self, least: f64, host: &Host) -> Vec<Task> {
        let Ok(dir) = host.processes() else { return Vec::new() };
        let least = ((self.at - first.at) * least * 1e9) as u64;
        let mut buffer = Vec::new();
        let changed = self.threads.iter().filter_map(|(id, (ran, waited))| {
            let (ran_before, waited_before) = first.threads.get(id)?;
            // What got smaller is another thread with the same number.
            let (ran, waited) = (ran.checked_sub(*ran_before)?, waited.checked_sub(*waited_before)?);
            (ran.saturating_add(waited) >= least.max(1)).then_some((*id, ran, waited))
        });
        let mut tasks: Vec<Task> =
            changed.filter_map(|(id, ran, waited)| describe(id, ran, waited, &dir, &mut buffer)).collect();
        tasks.sort_by_key(|task| (task.pid, task.cpu));
        tasks
    }
}

/// What stat and status say about a thread.
fn describe((pid, tid): Id, ran: u64, waited: u64, dir: &ProcessDir, buffer: &mut Vec<u8>) -> Option<Task> {
    let mut task = Task { pid, ran, waited, ..Task::default() };
    let stat = dir.read(&format!("{pid}/task/{tid}/stat"), buffer).ok()?;
    scheduling(stat, &mut task)?;
    let status = String::from_utf8_lossy(dir.read(&format!("{pid}/task/{tid}/status"), buffer).ok()?);
    task.allowed_list = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:"))?.trim().to_owned();
    task.allowed = cpu_list(&task.allowed_list)?;
    let process = dir.read(&format!("{pid}/stat"), buffer).ok().and_then(process::stat);
    task.process = String::from_utf8_lossy(process?.0).into_owned();
    Some(task)
}

/// Flags, nice, CPU and policy.
fn scheduling(stat: &[u8], task: &mut Task) -> Option<()> {
    let mut fields = TaskStat::parse(stat)?.fields();
    task.is_kernel = fields.is_kernel()?;
    task.nice = fields.signed(Field::Nice)?;
    task.cpu = u32::try_from(fields.number(Field::Cpu)?).ok()?;
    task.is_real_time = REAL_TIME.contains(&fields.number(Field::Policy)?);
    Some(())
}

/// `0-3,8`; none where it is anything else, or larger than a machine.
pub(super) fn cpu_list(text: &str) -> Option<BTreeSet<u32>> {
    let mut cpus = BTreeSet::new();
    for part in text.split(',') {
        let (from, to) = part.split_once('-').unwrap_or((part, part));
        let (from, to): (u32, u32) = (from.parse().ok()?, to.parse().ok()?);
        if to > 65_535 {
            return None;
        }
        cpus.extend(from..=to);
    }
    Some(cpus)
}

/// Ticks of a CPU, or of several.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(super) struct Ticks {
    pub(super) all: u64,
    pub(super) idle: u64,
    pub(super) nice: u64,
}

/// Ticks of each CPU that is online.
#[derive(Debug, Default)]
pub(super) struct Cpus(BTreeMap<u32, Ticks>);

impl Cpus {
    fn parse(text: &str) -> Self {
        let cpu = |line| {
            let (cpu, times) = cpu_line(line)?;
            let idle = times.idle.saturating_add(times.iowait);
            Some((cpu.parse().ok()?, Ticks { all: times.sum(), idle, nice: times.nice }))
        };
        Self(text.lines().filter_map(cpu).collect())
    }

    pub(super) fn any(&self, which: impl Fn(u32) -> bool) -> bool {
        self.0.keys().any(|cpu| which(*cpu))
    }

    /// What each CPU did since, of those that were online at both times.
    pub(super) fn since(&self, first: &Self) -> Self {
        let change = |(cpu, now): (&u32, &Ticks)| {
            let before = first.0.get(cpu)?;
            let idle = now.idle.saturating_sub(before.idle);
            let all = now.all.saturating_sub(before.all).max(idle);
            Some((*cpu, Ticks { all, idle, nice: now.nice.saturating_sub(before.nice) }))
        };
        Self(self.0.iter().filter_map(change).collect())
    }

    /// The sum over those CPUs.
    pub(super) fn sum(&self, which: impl Fn(u32) -> bool) -> Ticks {
        self.0.iter().filter(|(cpu, _)| which(**cpu)).fold(Ticks::default(), |sum, (_, own)| Ticks {
            all: sum.all.saturating_add(own.all),
            idle: sum.idle.saturating_add(own.idle),
            nice: sum.nice.saturating_add(own.nice),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_of_cpus_are_read_whole_or_not_at_all() {
        assert_eq!(cpu_list("0-2,8"), Some([0, 1, 2, 8].into()));
        for text in ["", "x", "1-", "-3", "0-99999999", "1,,2"] {
            assert_eq!(cpu_list(text), None, "{text:?}");
        }
        assert_eq!(cpu_list("3-1"), Some(BTreeSet::new()));
    }

    #[test]
    fn idle_time_that_steps_back_makes_nothing_negative() {
        let at = |text: &str| Cpus::parse(text);
        let change = at("cpu 9 9\ncpu0 10 5 0 90 1 0 0 0\nintr 1\n").since(&at("cpu0 10 0 0 95 1 0 0 0\n"));
        assert_eq!(change.sum(|_| true), Ticks { all: 0, idle: 0, nice: 5 });
    }

    proptest::proptest! {
        #[test]
        fn no_text_makes_a_parser_panic(text in "(?s).{0,200}") {
            let _ = (cpu_list(&text), Cpus::parse(&text), scheduling(text.as_bytes(), &mut Task::default()));
        }
    }
}
