//! A command that the user asks to have measured from its very beginning: started so that it stands still before its first own instruction,
//! let go when everything is attached, and watched until it ends.
//!
//! A command may also be run several times, one after the other: then the process that stands still stays this program, and starts them.
//!
//! What is started first is this program itself ([`helper_main`]): it stops itself and, once it is let go, becomes the command under the
//! same process id. Until then it dies with rdiag. The command keeps rdiag's standard input, output and error, its environment and its
//! process group, so that a Ctrl-C at the terminal reaches it without rdiag's help.

mod error;
mod helper;
mod reap;
#[cfg(test)]
mod tests;
mod user;

use std::ffi::{OsStr, OsString};
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Child, Command};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use rustix::process::{Pid, Signal, WaitOptions};

pub use error::LaunchError;
pub use helper::helper_main;
pub use reap::{Ended, How};
pub use user::User;

use super::clock::monotonic;
use super::rights::{Phase, narrow};

/// The hidden first argument that makes this program the one that stops itself and becomes the command.
pub const HELPER_ARGUMENT: &str = "launch-helper";

/// A command that rdiag has started. If it is dropped before it was let go, the command is killed, and none of its
/// instructions has run; if it is dropped later, the command goes on by itself.
#[derive(Debug)]
pub struct Launched {
    pid: u32,
    let_go: bool,
    /// The process starts the command again and again, and never becomes it.
    repeats: bool,
    shared: Arc<Shared>,
    reaper: Option<JoinHandle<()>>,
}

#[derive(Debug, Default)]
struct Shared {
    state: Mutex<State>,
    changed: Condvar,
}

/// A command for those who measure it: when it began and ended.
#[derive(Debug, Clone)]
pub struct Watch(Arc<Shared>);

impl Watch {
    /// When it was let go, in monotonic seconds; none before.
    #[must_use]
    pub fn begun(&self) -> Option<f64> {
        self.0.lock().begun
    }

    /// When it ended, in monotonic seconds; none before.
    #[must_use]
    pub fn ended(&self) -> Option<f64> {
        let state = self.0.lock();
        Some(state.begun? + state.ended.as_ref()?.elapsed)
    }
}

#[derive(Debug, Default)]
struct State {
    /// Monotonic seconds.
    begun: Option<f64>,
    /// CPU seconds that the helper used before it was let go: they are rdiag's, not the command's.
    before: f64,
    /// Set when the process has been collected: from then on its number may be another's.
    ended: Option<Ended>,
}

impl Launched {
    /// Starts a command, given as its name (looked for in PATH) and arguments, and makes it stand still. `ended` is set
    /// when it has ended, so that a waiter on this flag is woken. With more `times` than one it is run so often by
    /// the process that stands still, and has ended when the last run has. As another `user` it has that one's groups and `HOME`; only root
    /// can have it so.
    ///
    /// Linux ties the helper's life to the calling thread until the command is let go: call both from one thread.
    pub fn start(
        command: &[OsString],
        times: u32,
        user: Option<&User>,
        ended: Arc<AtomicBool>,
    ) -> Result<Self, LaunchError> {
        let [program, ..] = command else { return Err(LaunchError::NotFound(String::new())) };
        find(program)?;
        #[expect(clippy::disallowed_methods, reason = "itself, to become the command that the user gave")]
        let mut helper = Command::new("/proc/self/exe");
        let own_pid = rustix::process::getpid().as_raw_nonzero().to_string();
        let identity = user.map(|user| user.identity().to_string()).unwrap_or_default();
        helper.arg(HELPER_ARGUMENT).arg(own_pid).arg(times.to_string()).arg(identity).args(command);
        helper.envs(user.into_iter().flat_map(User::environment));
        helper.arg0("rdiag");
        let mut launched = Self::with_helper(helper, ended)?;
        launched.repeats = times > 1;
        Ok(launched)
    }

    /// Starts a process that stops itself.
    fn with_helper(mut helper: Command, ended: Arc<AtomicBool>) -> Result<Self, LaunchError> {
        let child = helper.spawn().map_err(LaunchError::Start)?;
        let pid = child.id();
        wait_for_stop(child)?;
        let shared = Arc::new(Shared::default());
        let watched = Arc::clone(&shared);
        let watch = move || {
            narrow(Phase::Waiting);
            watched.collect(pid);
            ended.store(true, Ordering::Relaxed);
            watched.changed.notify_all();
        };
        match std::thread::Builder::new().name("rdiag-command".to_owned()).spawn(watch) {
            Ok(reaper) => Ok(Self { pid, let_go: false, repeats: false, shared, reaper: Some(reaper) }),
            Err(error) => {
                kill(pid, Signal::KILL);
                shared.collect(pid);
                Err(LaunchError::Start(error))
            }
        }
    }

    /// The process id, the same before and after it was let go.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.pid
    }

    /// What those need who measure it.
    #[must_use]
    pub fn watch(&self) -> Watch {
        Watch(Arc::clone(&self.shared))
    }

    /// Lets it begin. More calls do nothing.
    pub fn let_go(&mut self) {
        if std::mem::replace(&mut self.let_go, true) {
            return;
        }
        {
            let mut state = self.shared.lock();
            state.begun = Some(monotonic());
            state.before = reap::used(self.pid);
        }
        self.signal(Signal::CONT);
    }

    /// How it ended, if it has.
    #[must_use]
    pub fn ended(&self) -> Option<Ended> {
        self.shared.lock().ended.clone()
    }

    /// How it ended, after waiting for so many seconds at most.
    #[must_use]
    pub fn wait(&self, seconds: f64) -> Option<Ended> {
        let patience = Duration::try_from_secs_f64(seconds).unwrap_or(Duration::ZERO);
        let running = |state: &mut State| state.ended.is_none();
        let waited = self.shared.changed.wait_timeout_while(self.shared.lock(), patience, running);
        waited.unwrap_or_else(PoisonError::into_inner).0.ended.clone()
    }

    /// Asks it to end (SIGTERM); of several runs the one that is under way, and no other follows.
    pub fn terminate(&self) {
        if !self.repeats {
            return self.signal(Signal::TERM);
        }
        // A stopped process reaps no child, so their PIDs cannot be reused.
        self.signal(Signal::STOP);
        for child in reap::children(self.pid) {
            kill(child, Signal::TERM);
        }
        self.stop_repeating();
    }

    /// Of several runs, the one that is under way goes on, and no other follows.
    pub fn stop_repeating(&self) {
        if self.repeats {
            self.signal(Signal::KILL);
        }
    }

    /// Sends a signal unless the process has been collected.
    fn signal(&self, signal: Signal) {
        let state = self.shared.lock();
        if state.ended.is_none() {
            kill(self.pid, signal);
        }
    }
}

impl Drop for Launched {
    fn drop(&mut self) {
        if self.let_go {
            return;
        }
        self.signal(Signal::KILL);
        // A process that stands still dies of SIGKILL at once, so this does not wait.
        if let Some(reaper) = self.reaper.take() {
            let _ = reaper.join();
        }
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for the end of the process and collects it, under the lock, so that no signal goes to a reused PID.
    fn collect(&self, pid: u32) {
        reap::wait_for_end(pid);
        let now = monotonic();
        let mut state = self.lock();
        let elapsed = state.begun.map_or(0.0, |begun| now - begun);
        state.ended = Some(reap::collect(pid, elapsed, state.before));
    }
}

/// Waits until the child stands still; an error if it ended instead.
fn wait_for_stop(mut child: Child) -> Result<(), LaunchError> {
    let Some(pid) = Pid::from_raw(child.id().cast_signed()) else { return Ok(()) };
    loop {
        match rustix::process::waitpid(Some(pid), WaitOptions::UNTRACED) {
            Ok(Some((_, status))) if status.stopped() => return Ok(()),
            Ok(_) => {
                let why = "the process that should become the command ended at once";
                return Err(LaunchError::Start(std::io::Error::other(why)));
            }
            Err(rustix::io::Errno::INTR) => {}
            Err(error) => {
                let _ = child.kill();
                let _ = child.wait();
                return Err(LaunchError::Start(error.into()));
            }
        }
    }
}

fn kill(pid: u32, signal: Signal) {
    if let Some(pid) = Pid::from_raw(pid.cast_signed()) {
        let _ = rustix::process::kill_process(pid, signal);
    }
}

/// Whether there is such a program that may be executed: where it is a path, or else in PATH.
fn find(program: &OsStr) -> Result<(), LaunchError> {
    let name = program.to_string_lossy().into_owned();
    let usable = |place: &Path| {
        let denied = rustix::fs::access(place, rustix::fs::Access::EXEC_OK).err();
        match denied {
            None if place.is_dir() => Err(std::io::Error::from(rustix::io::Errno::ISDIR)),
            None => Ok(()),
            Some(error) => Err(error.into()),
        }
    };
    let mut failure = std::io::Error::from(rustix::io::Errno::NOENT);
    let is_path = name.contains('/');
    let places = if is_path {
        vec![program.into()]
    } else {
        // What the C library searches when there is no PATH.
        let path = std::env::var_os("PATH").unwrap_or_else(|| "/bin:/usr/bin".into());
        std::env::split_paths(&path).map(|folder| folder.join(program)).collect()
    };
    for place in places.iter().filter(|_| !program.is_empty()) {
        match usable(place) {
            Ok(()) => return Ok(()),
            // A file that is there and may not be executed tells more than a folder without it; a folder of PATH that
            // this user may not look into tells nothing.
            Err(error) if is_path || rustix::fs::lstat(place).is_ok() => failure = error,
            Err(_) => {}
        }
    }
    if failure.kind() == std::io::ErrorKind::NotFound {
        return Err(LaunchError::NotFound(name));
    }
    Err(LaunchError::NotExecutable(name, failure))
}
