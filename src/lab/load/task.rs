//! What one process of a load does, with numbers in place of ranges.

use serde::{Deserialize, Serialize};

use super::kinds::{
    CopyKind, CrewKind, End, Fault, FetchFrom, Flaw, KernelContext, Layout, MemoryFrom, Others, Room, Sought, TableOf,
};

/// Children that are left uncollected; the limit of their group is below it.
const MOST_CHILDREN: u64 = 400;
/// Clients that a server has at most, each with a thread.
const MOST_CLIENTS: u64 = 16;

/// What one process does, with numbers in place of ranges; times in seconds.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[expect(missing_docs, reason = "the fields are those of the work")]
pub enum Task {
    /// See [`super::Work::Bursts`].
    Bursts { processes: u32, busy: f64, every: f64 },
    /// One of their processes.
    Burst { busy: f64 },
    /// See [`super::Work::Pulse`].
    Pulse { busy: f64, every: f64 },
    /// See [`super::Work::Poll`]; the name of the module is that of the job.
    Poll { module: String, context: KernelContext, busy: f64, every: f64 },
    /// See [`super::Work::Fetch`]; the name of the module is that of the job.
    Fetch { module: String, from: FetchFrom, threads: u32, wait: f64, at_once: u32 },
    /// See [`super::Work::Crew`].
    Crew { how: CrewKind, workers: u32, every: f64 },
    /// See [`super::Work::Reads`].
    Reads { file_mib: u32, block_bytes: u32, threads: u32 },
    /// See [`super::Work::Rewrite`].
    Rewrite { file_mib: u32, every: f64 },
    /// See [`super::Work::HoldUp`].
    HoldUp { parents: u32 },
    /// One of their processes.
    HeldUp,
    /// See [`super::Work::Copy`].
    Copy { how: CopyKind, file_mib: u32, block_bytes: u32, every: f64 },
    /// See [`super::Work::Restart`]; `segments` ordinary segments stand before the one with the flaw.
    Restart { flaw: Flaw, segments: u32, every: f64 },
    /// See [`super::Work::Compute`].
    Compute { threads: u32, busy: f64, rest: f64, on_one_cpu: bool },
    /// See [`super::Work::TakeTurns`].
    TakeTurns { threads: u32, hold: f64, computed: f64 },
    /// See [`super::Work::OpenFiles`].
    OpenFiles { limit: u32, every: f64 },
    /// See [`super::Work::LeaveChildren`].
    LeaveChildren { every: f64 },
    /// See [`super::Work::Accept`].
    Accept { backlog: u32, hold: f64 },
    /// See [`super::Work::Connect`].
    Connect { clients: u32 },
    /// See [`super::Work::Grow`].
    Grow { end: End, mib: u32, every: f64 },
    /// Its worker.
    Worker { end: End, mib: u32, every: f64 },
    /// See [`super::Work::ReadBytes`].
    ReadBytes,
    /// See [`super::Work::TakeMemory`].
    TakeMemory { from: MemoryFrom, mib: u32, written_percent: u32, every: f64 },
    /// See [`super::Work::TakePieces`].
    TakePieces { pieces: u32 },
    /// See [`super::Work::LookUp`].
    LookUp { sought: Sought, every: f64 },
    /// See [`super::Work::Send`].
    Send { usual_bytes: u32, others: Others, every: f64 },
    /// See [`super::Work::Commit`].
    Commit { bytes: u32, every: f64 },
    /// See [`super::Work::TakeDatagrams`].
    TakeDatagrams { buffer_kib: u32, hold: f64 },
    /// See [`super::Work::SendDatagrams`].
    SendDatagrams { per_second: u32 },
    /// See [`super::Work::Fill`].
    Fill { room: Room, mib: u32, files: u32, every: f64 },
    /// See [`super::Work::Answer`].
    Answer { fault: Fault, in_thousand: u32 },
    /// See [`super::Work::Ask`].
    Ask { clients: u32, every: f64 },
    /// See [`super::Work::AddUp`].
    AddUp { layout: Layout, additions: u64, every: f64 },
    /// See [`super::Work::LookThrough`].
    LookThrough { table: TableOf, mib: u32, every: f64 },
    /// See [`super::Work::Flood`].
    Flood { duty: f64 },
    /// See [`super::Work::Reread`].
    Reread { file_mib: u32, every: f64 },
}

impl Task {
    /// The same, told its name, where that is not only the name of its process.
    #[must_use]
    pub fn named(self, name: &str) -> Self {
        match self {
            Self::Poll { context, busy, every, .. } => Self::Poll { module: name.to_owned(), context, busy, every },
            Self::Fetch { from, threads, wait, at_once, .. } => {
                Self::Fetch { module: name.to_owned(), from, threads, wait, at_once }
            }
            other => other,
        }
    }

    /// The kernel module that does it, instead of a process.
    #[must_use]
    pub fn module(&self) -> Option<&str> {
        match self {
            Self::Poll { module, .. } | Self::Fetch { module, .. } => Some(module),
            _ => None,
        }
    }

    /// The disk in memory that it needs: how long a request takes there, in seconds, and how many are served at a time.
    #[must_use]
    pub fn slow_disk(&self) -> Option<(f64, u32)> {
        match self {
            Self::Fetch { from: FetchFrom::SlowDisk, wait, at_once, .. } => Some((*wait, *at_once)),
            _ => None,
        }
    }

    /// Processes and threads that it has at one time, on a host with so many CPUs.
    #[must_use]
    pub fn tasks(&self, cpus: usize) -> u64 {
        1 + match self {
            Self::Bursts { processes, .. } => u64::from(*processes),
            Self::Pulse { .. } => cpus as u64,
            Self::Crew { workers, .. } => u64::from(*workers),
            Self::Reads { threads, .. } => u64::from(*threads),
            Self::HoldUp { parents } => 2 * u64::from(*parents),
            Self::Compute { threads, .. } | Self::TakeTurns { threads, .. } | Self::Connect { clients: threads } => {
                u64::from(*threads)
            }
            Self::Ask { clients, .. } => u64::from(*clients),
            Self::Answer { .. } => MOST_CLIENTS,
            Self::LeaveChildren { .. } => MOST_CHILDREN,
            Self::Restart { .. } | Self::Grow { .. } | Self::Send { .. } | Self::AddUp { .. } => 1,
            _ => 0,
        }
    }

    /// Space that it takes below the scratch folder, in MiB.
    #[must_use]
    pub fn disk_mib(&self) -> u32 {
        match self {
            Self::Reads { file_mib, .. } | Self::Rewrite { file_mib, .. } | Self::Reread { file_mib, .. } => *file_mib,
            Self::LookThrough { table: TableOf::File, mib, .. } => *mib,
            Self::LookThrough { .. } => self.swap_mib().unwrap_or(0),
            Self::ReadBytes | Self::Commit { .. } => 1,
            Self::Copy { file_mib, .. } => 2 * file_mib,
            _ => 0,
        }
    }

    /// Whether it counts its pieces of work in a file.
    #[must_use]
    pub fn counts(&self) -> bool {
        matches!(
            self,
            Self::Crew { .. }
                | Self::Poll { .. }
                | Self::Fetch { .. }
                | Self::Copy { .. }
                | Self::Restart { .. }
                | Self::Grow { .. }
                | Self::Reread { .. }
                | Self::Fill { .. }
                | Self::Ask { .. }
                | Self::AddUp { .. }
                | Self::LookThrough { .. }
                | Self::Flood { .. }
                | Self::TakeMemory { .. }
                | Self::TakePieces { .. }
                | Self::LookUp { .. }
                | Self::Send { .. }
                | Self::Commit { .. }
                | Self::TakeDatagrams { .. }
                | Self::SendDatagrams { .. }
        )
    }

    /// The file system that must be mounted for it: MiB, and files.
    #[must_use]
    pub fn file_system(&self) -> Option<(u32, u32)> {
        match self {
            Self::Fill { mib, files, .. } => Some((*mib, *files)),
            _ => None,
        }
    }

    /// The swap space that must be there for it, in MiB: so much that the kernel need not give up what was brought back and is
    /// unchanged, which it does from half full on.
    #[must_use]
    pub fn swap_mib(&self) -> Option<u32> {
        match self {
            Self::LookThrough { table: TableOf::Memory, mib, .. } => Some(5 * mib / 2),
            _ => None,
        }
    }

    /// A number that the seed gave it, and that it keeps secret: bytes of its usual message, pieces of memory for a request,
    /// milliseconds of rest, or of a turn on a CPU, requests that are served at a time.
    #[must_use]
    pub fn figure(&self) -> Option<f64> {
        match self {
            Self::Send { usual_bytes, .. } => Some(f64::from(*usual_bytes)),
            Self::TakePieces { pieces } => Some(f64::from(*pieces)),
            Self::Poll { busy, .. } => Some(busy * 1e3),
            Self::Fetch { at_once, .. } => Some(f64::from(*at_once)),
            Self::Compute { rest, .. } if *rest > 0.0 => Some(rest * 1e3),
            _ => None,
        }
    }
}
