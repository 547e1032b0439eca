//! What every process of a load has: its order, its count of pieces of work, and its clock.

use std::path::{Path, PathBuf};
use std::process::Child;

use rustix::time::{ClockId, Timespec, clock_gettime};
use serde::{Deserialize, Serialize};

use super::task::Task;
use rdiag_own as own;

/// The hidden first argument of a process that is part of a load. It shows in lists of processes, so it gives nothing away.
pub const ARGUMENT: &str = "--serve";

/// Stack of a thread of a load, which only keeps its place in a loop: the least that threads of Rust are content with.
pub(super) const STACK_BYTES: usize = 64 * 1024;

/// What a process of a load is handed when it starts.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Order {
    /// The process that starts it; it dies with it.
    pub parent: u32,
    /// When it ends, in monotonic seconds.
    pub until: f64,
    /// By what path it is started; the last part is its name.
    pub place: PathBuf,
    /// Where it may put files.
    pub scratch: PathBuf,
    /// The largest file that it may write.
    pub file_bytes: u64,
    /// Its limit of writable memory.
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
    pub(super) fn pass_on(&self, task: Task) -> Self {
        Self { parent: own_pid(), task, ..self.clone() }
    }

    /// Starts a process of the load under this one, in the same group; it begins when it is handed the order.
    pub(super) fn start_one(&self) -> std::io::Result<Child> {
        own::start_in_group(&self.place, ARGUMENT)
    }
}

/// Hands a process its order.
pub fn hand(child: &mut Child, order: &Order) -> std::io::Result<()> {
    own::hand(child, &serde_json::to_vec(order).map_err(std::io::Error::other)?)
}

/// Where a program counts its pieces of work.
#[must_use]
pub fn count_file(scratch: &Path, name: &str) -> PathBuf {
    scratch.join(format!("{name}.count"))
}

/// A count of pieces of work that the checker can read.
pub(super) struct Tally {
    file: std::fs::File,
    count: u64,
}

impl Tally {
    pub(super) fn new(order: &Order) -> std::io::Result<Self> {
        Self::named(order, &order.name())
    }

    pub(super) fn named(order: &Order, name: &str) -> std::io::Result<Self> {
        let place = count_file(&order.scratch, name);
        Ok(Self { file: std::fs::OpenOptions::new().write(true).create_new(true).open(place)?, count: 0 })
    }

    pub(super) fn add(&mut self, more: u64) -> std::io::Result<()> {
        use std::os::unix::fs::FileExt as _;
        self.count += more;
        // The numbers only grow, so each is written over the one before.
        self.file.write_all_at(format!("{}\n", self.count).as_bytes(), 0)
    }
}

/// CLOCK_MONOTONIC in seconds.
pub(super) fn now() -> f64 {
    let time = clock_gettime(ClockId::Monotonic);
    time.tv_sec as f64 + time.tv_nsec as f64 * 1e-9
}

/// Sleeps, at most until `until` (monotonic seconds).
pub(super) fn sleep(seconds: f64, until: f64) {
    let seconds = seconds.min(until - now()).max(0.0);
    let request = Timespec { tv_sec: seconds as i64, tv_nsec: (seconds.fract() * 1e9) as i64 };
    let _ = rustix::thread::nanosleep(&request);
}

fn own_pid() -> u32 {
    rustix::process::getpid().as_raw_nonzero().get().cast_unsigned()
}
