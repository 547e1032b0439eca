//! A copy of this process that can be confined, while this one keeps its rights.
#![expect(unsafe_code, reason = "fork(2) has no safe wrapper")]

use std::io;

use rustix::process::{Pid, WaitOptions, waitpid};

/// Which of the two processes this is.
#[derive(Debug)]
pub enum Side {
    /// The one that was there before.
    Parent(Child),
    /// The copy.
    Child,
}

/// The copy, seen from the other one.
#[derive(Debug)]
pub struct Child(Pid);

/// How a process ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ended {
    /// With this code.
    Exited(i32),
    /// By this signal.
    Killed(i32),
}

impl Child {
    /// Waits for its end.
    ///
    /// # Errors
    /// When the kernel knows no such process.
    pub fn wait(self) -> io::Result<Ended> {
        loop {
            match waitpid(Some(self.0), WaitOptions::empty()) {
                Err(rustix::io::Errno::INTR) => {}
                Err(error) => return Err(error.into()),
                Ok(None) => {}
                Ok(Some((_, status))) => {
                    if let Some(code) = status.exit_status() {
                        return Ok(Ended::Exited(code));
                    }
                    if let Some(signal) = status.terminating_signal() {
                        return Ok(Ended::Killed(signal));
                    }
                }
            }
        }
    }
}

/// Makes a copy of this process, which goes on from here as well. It is refused to a process with several threads: of those, the copy
/// would have one, and the locks of all.
///
/// # Errors
/// When there are other threads, or the kernel makes no more processes.
#[expect(clippy::disallowed_methods, reason = "the list of this process's own threads")]
pub fn fork() -> io::Result<Side> {
    if std::fs::read_dir("/proc/self/task").is_ok_and(|threads| threads.count() > 1) {
        return Err(io::Error::other("this process has several threads"));
    }
    // SAFETY: there is one thread, so no lock is held by another, and the copy may do all that this process may.
    let child = unsafe { libc::fork() };
    match child {
        ..0 => Err(io::Error::last_os_error()),
        0 => Ok(Side::Child),
        pid => Pid::from_raw(pid).map(|pid| Side::Parent(Child(pid))).ok_or_else(|| io::ErrorKind::InvalidData.into()),
    }
}
