//! The loads: what a scenario may have done to the host, and the process that does it. Such a process is rdiag itself under a
//! neutral name; it ends by itself at its time, when whoever started it ends, or at a limit of the kernel's, whichever is first.

mod bursts;
mod crew;
mod hold_up;
mod pulse;
mod reads;
mod rewrite;

use std::path::{Path, PathBuf};
use std::process::{Child, ExitCode};

use rustix::time::{ClockId, Timespec, clock_gettime};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::chance::Chance;
use crate::host::own::{self, Limits};

/// The hidden first argument of a process that is part of a load. It shows in lists of processes, so it gives nothing away.
pub const ARGUMENT: &str = "--serve";

/// A number that the seed takes from between these two, both included.
pub type Between = [u32; 2];

/// What a program of a load does, as a scenario says it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
pub enum Work {
    /// Again and again, starts many processes at once that compute for a moment and end.
    Bursts {
        /// Processes for each CPU, 1 to 16.
        processes_per_cpu: Between,
        /// How long each computes, in milliseconds, 1 to 50.
        busy_ms: Between,
        /// From one burst to the next, in milliseconds, 100 to 10000.
        every_ms: Between,
    },
    /// On each CPU a thread with real-time priority that computes, sleeps and so on.
    Pulse {
        /// How long it computes, in milliseconds, 1 to 100, and no more than 35 % of `every_ms`.
        busy_ms: Between,
        /// From one pulse to the next, in milliseconds, 100 to 10000.
        every_ms: Between,
    },
    /// Again and again, makes workers that do little and end.
    Crew {
        /// What they are.
        how: CrewKind,
        /// How many at a time, 1 to 200.
        workers: u32,
        /// From one round to the next, in milliseconds, 50 to 10000.
        every_ms: u32,
    },
    /// Threads that read blocks from random places of a file of their own, past the page cache.
    Reads {
        /// Size of the file, 1 to 1024.
        file_mib: u32,
        /// Size of a block, 4096 to 1048576, a power of two.
        block_bytes: u32,
        /// How many threads, 1 to 64.
        threads: Between,
    },
    /// Writes one file over and over, and waits each time until it is on the disk.
    Rewrite {
        /// Size of the file, 1 to 64.
        file_mib: Between,
        /// From one time to the next, in milliseconds, 200 to 10000; the rate is at most 60 MiB per second.
        every_ms: Between,
    },
    /// Processes that each wait inside the kernel for a child that sleeps.
    HoldUp {
        /// How many, 1 to 64.
        parents: Between,
    },
}

/// What workers are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum CrewKind {
    /// Threads of one process.
    Threads,
    /// Processes.
    Processes,
}

/// What one process does, with numbers in place of ranges; times in seconds.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[expect(missing_docs, reason = "the fields are those of the work")]
pub enum Task {
    /// See [`Work::Bursts`].
    Bursts { processes: u32, busy: f64, every: f64 },
    /// One of their processes.
    Burst { busy: f64 },
    /// See [`Work::Pulse`].
    Pulse { busy: f64, every: f64 },
    /// See [`Work::Crew`].
    Crew { how: CrewKind, workers: u32, every: f64 },
    /// See [`Work::Reads`].
    Reads { file_mib: u32, block_bytes: u32, threads: u32 },
    /// See [`Work::Rewrite`].
    Rewrite { file_mib: u32, every: f64 },
    /// See [`Work::HoldUp`].
    HoldUp { parents: u32 },
    /// One of their processes.
    HeldUp,
}

impl Work {
    /// With numbers for a host with so many CPUs.
    #[must_use]
    pub fn decide(&self, chance: &mut Chance, cpus: usize) -> Task {
        let mut pick = |[low, high]: Between| low + chance.below((high.saturating_sub(low) as usize) + 1) as u32;
        let ms = |count: u32| f64::from(count) * 1e-3;
        match self {
            Self::Bursts { processes_per_cpu, busy_ms, every_ms } => Task::Bursts {
                // More than eight CPUs' worth would need more processes than a classroom's limits allow.
                processes: pick(*processes_per_cpu) * cpus.clamp(1, 8) as u32,
                busy: ms(pick(*busy_ms)),
                every: ms(pick(*every_ms)),
            },
            Self::Pulse { busy_ms, every_ms } => Task::Pulse { busy: ms(pick(*busy_ms)), every: ms(pick(*every_ms)) },
            Self::Crew { how, workers, every_ms } => Task::Crew { how: *how, workers: *workers, every: ms(*every_ms) },
            Self::Reads { file_mib, block_bytes, threads } => {
                Task::Reads { file_mib: *file_mib, block_bytes: *block_bytes, threads: pick(*threads) }
            }
            Self::Rewrite { file_mib, every_ms } => {
                Task::Rewrite { file_mib: pick(*file_mib), every: ms(pick(*every_ms)) }
            }
            Self::HoldUp { parents } => Task::HoldUp { parents: pick(*parents) },
        }
    }
}

impl Task {
    /// Processes and threads that it has at one time, on a host with so many CPUs.
    #[must_use]
    pub fn tasks(&self, cpus: usize) -> u64 {
        1 + match self {
            Self::Bursts { processes, .. } => u64::from(*processes),
            Self::Pulse { .. } => cpus as u64,
            Self::Crew { workers, .. } => u64::from(*workers),
            Self::Reads { threads, .. } => u64::from(*threads),
            Self::HoldUp { parents } => 2 * u64::from(*parents),
            Self::Burst { .. } | Self::Rewrite { .. } | Self::HeldUp => 0,
        }
    }
}

/// What a process of a load is handed when it starts.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Order {
    /// Whoever starts it; it dies with it.
    pub parent: u32,
    /// When it ends, in monotonic seconds.
    pub until: f64,
    /// By what path it is started; the last part is its name.
    pub place: PathBuf,
    /// Where it may put files.
    pub scratch: PathBuf,
    /// The largest file that it may write.
    pub file_bytes: u64,
    /// The most writable memory that it may have.
    pub memory_bytes: u64,
    /// What it does.
    pub task: Task,
}

impl Order {
    /// Its name.
    #[must_use]
    pub fn name(&self) -> String {
        self.place.file_name().map_or_else(String::new, |name| name.to_string_lossy().into_owned())
    }

    /// The same order for a process that this one starts.
    fn pass_on(&self, task: Task) -> Self {
        Self { parent: own_pid(), task, ..self.clone() }
    }

    /// Starts a process of the load under this one, in the same group; it begins when it is handed the order.
    fn start_one(&self) -> std::io::Result<Child> {
        own::start_in_group(&self.place, ARGUMENT)
    }
}

/// Hands a process its order.
pub fn hand(child: &mut Child, order: &Order) -> std::io::Result<()> {
    own::hand(child, &serde_json::to_vec(order).map_err(std::io::Error::other)?)
}

/// The process itself: reads its order and does what it says. What it cannot do, the symptom meter tells.
#[must_use]
pub fn main() -> ExitCode {
    let order = own::order().ok().and_then(|bytes| serde_json::from_slice::<Order>(&bytes).ok());
    let Some(order) = order.filter(|order| own::die_with(order.parent).is_ok()) else { return ExitCode::from(2) };
    own::set_name(&order.name());
    let left = (order.until - now()).clamp(1.0, 3600.0);
    own::apply(Limits {
        cpu_seconds: (left * own::usable_cpus().len() as f64) as u64 + 5,
        memory_bytes: order.memory_bytes,
        file_bytes: order.file_bytes,
    });
    let done = match &order.task {
        Task::Bursts { processes, busy, every } => bursts::serve_in_bursts(&order, *processes, *busy, *every),
        Task::Burst { busy } => {
            bursts::compute_one_request(now() + *busy);
            Ok(())
        }
        Task::Pulse { busy, every } => pulse::poll_on_every_cpu(&order, *busy, *every),
        Task::Crew { how, workers, every } => crew::work_in_rounds(&order, *how, *workers, *every),
        Task::Reads { file_mib, block_bytes, threads } => {
            reads::read_at_random(&order, *file_mib, *block_bytes, *threads)
        }
        Task::Rewrite { file_mib, every } => rewrite::rewrite(&order, *file_mib, *every),
        Task::HoldUp { parents } => hold_up::hold_up(&order, *parents),
        Task::HeldUp => own::hold_up_by_child(left),
    };
    if done.is_ok() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Where a crew counts its workers.
#[must_use]
pub fn count_file(scratch: &Path, name: &str) -> PathBuf {
    scratch.join(format!("{name}.count"))
}

/// CLOCK_MONOTONIC in seconds.
fn now() -> f64 {
    let time = clock_gettime(ClockId::Monotonic);
    time.tv_sec as f64 + time.tv_nsec as f64 * 1e-9
}

/// Sleeps, at most until `until` (monotonic seconds).
fn sleep(seconds: f64, until: f64) {
    let seconds = seconds.min(until - now()).max(0.0);
    let request = Timespec { tv_sec: seconds as i64, tv_nsec: (seconds.fract() * 1e9) as i64 };
    let _ = rustix::thread::nanosleep(&request);
}

fn own_pid() -> u32 {
    rustix::process::getpid().as_raw_nonzero().get().cast_unsigned()
}
