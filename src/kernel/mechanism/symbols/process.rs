//! A process, by its id and its start.

use crate::host::Host;
use rdiag_proc::{Field, TaskStat};

/// A process. Ids are used again, so its start belongs to it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Process {
    /// Its id in the first process namespace.
    pub pid: u32,
    /// Nanoseconds from boot to its start, suspended time included (`start_boottime` of its first thread).
    pub born: u64,
}

impl Process {
    /// The process that has this id now; none if there is none.
    #[must_use]
    pub fn of(host: &Host, pid: u32) -> Option<Self> {
        start_ticks(host, pid).map(|ticks| Self { pid, born: ticks.saturating_mul(tick(host)) })
    }
}

/// Whether the process of this id is still the one that was seen.
pub(super) fn is_same(host: &Host, process: Process) -> bool {
    start_ticks(host, process.pid).is_some_and(|ticks| ticks.abs_diff(process.born / tick(host)) <= 1)
}

/// Nanoseconds of a tick, in which /proc counts.
fn tick(host: &Host) -> u64 {
    1_000_000_000 / host.facts().ticks_per_second.max(1)
}

/// Ticks from boot to the start of a process.
fn start_ticks(host: &Host, pid: u32) -> Option<u64> {
    let stat = host.read_bytes(&format!("proc/{pid}/stat")).ok()?;
    TaskStat::parse(&stat)?.field(Field::Start)
}
