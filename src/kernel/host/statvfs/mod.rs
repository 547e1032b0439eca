//! statvfs(2) through a process that can be thrown away: on a dead NFS server or a stuck FUSE daemon the call never
//! returns, and a thread inside it could not even be ended with the process.
//!
//! The helper is this program itself. It is given mount points on its standard input and prints one line for each as
//! it goes. When a line does not come in time, the helper is killed and left alone (it is not waited for: it may sleep
//! where no signal reaches it), and another one is started for the rest.

mod asker;
mod helper;
#[cfg(test)]
mod tests;

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

use rustix::event::Timespec;
use rustix::time::{ClockId, clock_gettime};

pub use helper::helper_main;

use super::replay::StatvfsSpec;
use rdiag_model::Reason;

/// The hidden first argument that makes this program the helper.
pub const HELPER_ARGUMENT: &str = "statvfs-helper";
/// How long one mount may take; a healthy one takes microseconds, one behind a network some milliseconds.
const PATIENCE_SECONDS: f64 = 1.0;
/// Between two looks at something that happens elsewhere.
const PAUSE: Timespec = Timespec { tv_sec: 0, tv_nsec: 5_000_000 };

/// The capacity of a file system.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Capacity {
    /// Bytes in all.
    pub total: u64,
    /// Free bytes, those reserved for the administrator included.
    pub free: u64,
    /// Free bytes for unprivileged users.
    pub available: u64,
    /// Inodes in all; 0 where there is no fixed number.
    pub inodes: u64,
    /// Free inodes.
    pub inodes_free: u64,
}

/// What became of the question about one mount.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// It answered.
    Capacity(Capacity),
    /// It did not answer within a second, twice.
    Hung,
    /// It answered with an error of the operating system, by number.
    Failed(i32),
    /// It was not asked, or not heard, and why.
    NotAsked(Reason, String),
}

impl Outcome {
    /// The answer of a recorded tree.
    pub(super) fn recorded(spec: Option<&StatvfsSpec>) -> Self {
        match spec {
            None => Self::NotAsked(Reason::Absent, "the recorded tree does not hold its capacity".to_owned()),
            Some(spec) if spec.hung => Self::Hung,
            Some(spec) => Self::Capacity(Capacity {
                total: spec.blocks.saturating_mul(spec.frsize),
                free: spec.bfree.saturating_mul(spec.frsize),
                available: spec.bavail.saturating_mul(spec.frsize),
                inodes: spec.files,
                inodes_free: spec.ffree,
            }),
        }
    }

    /// An answer as the helper prints it.
    fn parse(line: &str) -> Option<Self> {
        let (word, rest) = line.split_once(' ')?;
        if word == "error" {
            return Some(Self::Failed(rest.parse().ok()?));
        }
        let numbers: Vec<u64> = rest.split(' ').map(str::parse).collect::<Result<_, _>>().ok()?;
        match (word, numbers.as_slice()) {
            ("ok", &[total, free, available, inodes, inodes_free]) => {
                Some(Self::Capacity(Capacity { total, free, available, inodes, inodes_free }))
            }
            _ => None,
        }
    }
}

/// Questions on their way. The asking happens beside the measurement, so that nothing waits for a hung mount.
#[derive(Debug)]
pub struct Asking {
    answers: Arc<Mutex<Vec<Outcome>>>,
    /// Gone when all is answered.
    thread: Option<JoinHandle<()>>,
}

impl Asking {
    /// Asks this program's helper about mount points below `root`, in the given order.
    pub(super) fn live(root: &Path, mounts: &[&[u8]]) -> Self {
        let below = |mount: &&[u8]| root.join(OsStr::from_bytes(mount.strip_prefix(b"/").unwrap_or(mount)));
        let paths: Vec<PathBuf> = mounts.iter().map(below).collect();
        #[expect(clippy::disallowed_methods, reason = "the one process that rdiag starts: itself")]
        let helper = || {
            let mut command = Command::new("/proc/self/exe");
            command.arg(HELPER_ARGUMENT);
            command
        };
        Self::with_helper(helper, paths, PATIENCE_SECONDS)
    }

    /// The answers of a recorded tree.
    pub(super) fn recorded(answers: Vec<Outcome>) -> Self {
        Self { answers: Arc::new(Mutex::new(answers)), thread: None }
    }

    fn with_helper(helper: impl Fn() -> Command + Send + 'static, paths: Vec<PathBuf>, patience: f64) -> Self {
        let unasked = Outcome::NotAsked(Reason::ShortWindow, "other file systems had used up the time".to_owned());
        let answers = Arc::new(Mutex::new(vec![unasked; paths.len()]));
        let shared = Arc::clone(&answers);
        let work = move || asker::ask_all(&helper, &paths, patience, &shared);
        match std::thread::Builder::new().name("rdiag-statvfs".to_owned()).spawn(work) {
            Ok(thread) => Self { answers, thread: Some(thread) },
            Err(error) => {
                let problem = Outcome::NotAsked(Reason::Absent, format!("no thread can be started: {error}"));
                lock(&answers).fill(problem);
                Self { answers, thread: None }
            }
        }
    }

    /// Whether every question has been answered or given up.
    #[must_use]
    pub fn is_done(&self) -> bool {
        self.thread.as_ref().is_none_or(JoinHandle::is_finished)
    }

    /// What is known after waiting for at most so many seconds.
    #[must_use]
    pub fn answers(&self, seconds: f64) -> Vec<Outcome> {
        let until = now() + seconds;
        while !self.is_done() && now() < until {
            let _ = rustix::thread::nanosleep(&PAUSE);
        }
        lock(&self.answers).clone()
    }
}

fn lock(answers: &Mutex<Vec<Outcome>>) -> MutexGuard<'_, Vec<Outcome>> {
    answers.lock().unwrap_or_else(PoisonError::into_inner)
}

fn now() -> f64 {
    let time = clock_gettime(ClockId::Monotonic);
    time.tv_sec as f64 + time.tv_nsec as f64 * 1e-9
}
