//! The end of a command: how, and what it used.
#![expect(
    unsafe_code,
    reason = "wait4(2) tells what a process used to the microsecond; the safe wrappers leave that out"
)]

use std::io;

use rdiag_proc::process::schedstat;
use rustix::process::{Pid, WaitId, WaitIdOptions};

use super::helper::MARK;

/// How a command ended, and what it used.
#[derive(Debug, Clone, PartialEq)]
pub struct Ended {
    /// In which way.
    pub how: How,
    /// Seconds from letting it go to its end (CLOCK_MONOTONIC).
    pub elapsed: f64,
    /// CPU seconds in user mode, of the command and those of its children that it waited for (`ru_utime`).
    pub user: f64,
    /// CPU seconds in the kernel (`ru_stime`).
    pub system: f64,
}

/// In which way a command ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum How {
    /// By itself, with this code.
    Exited(i32),
    /// By this signal.
    Killed(i32),
    /// It never began: the number of the error with which execve(2) refused it.
    NotStarted(i32),
}

impl std::fmt::Display for How {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Exited(code) => write!(f, "ended with code {code}"),
            Self::Killed(signal) => write!(f, "was ended by signal {signal}"),
            Self::NotStarted(code) => write!(f, "cannot be executed: {}", io::Error::from_raw_os_error(*code)),
        }
    }
}

/// Waits for the end of a child and leaves it to be collected.
pub(super) fn wait_for_end(pid: u32) {
    let Some(pid) = Pid::from_raw(pid.cast_signed()) else { return };
    let end = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT;
    while matches!(rustix::process::waitid(WaitId::Pid(pid), end), Err(rustix::io::Errno::INTR)) {}
}

/// CPU seconds of a process with one thread (the first field of /proc/PID/schedstat); 0 where the kernel does not tell.
pub(super) fn used(pid: u32) -> f64 {
    #[expect(clippy::disallowed_methods, reason = "rdiag's own child, not what is looked at")]
    let text = std::fs::read_to_string(format!("/proc/{pid}/schedstat")).unwrap_or_default();
    schedstat(text.as_bytes()).map_or(0.0, |schedstat| schedstat.run as f64 * 1e-9)
}

/// Children of a process with one thread; none where the kernel does not list them (`CONFIG_PROC_CHILDREN`).
pub(super) fn children(pid: u32) -> Vec<u32> {
    #[expect(clippy::disallowed_methods, reason = "rdiag's own child, not what is looked at")]
    let text = std::fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap_or_default();
    text.split_whitespace().filter_map(|word| word.parse().ok()).collect()
}

/// Collects a child that has ended. CPU seconds that it used `before` it was let go are left out; how they divide into
/// user and system time is not known, so both shrink alike.
pub(super) fn collect(pid: u32, elapsed: f64, before: f64) -> Ended {
    // A process that has ended keeps its name until it is collected.
    #[expect(clippy::disallowed_methods, reason = "rdiag's own child, not what is looked at")]
    let name = std::fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
    let never_began = name.trim_end().as_bytes() == MARK.to_bytes();
    let mut status = 0;
    // SAFETY: rusage is plain numbers, for which all zero bits are valid.
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    loop {
        // SAFETY: both pointers are to live variables of the types that wait4(2) writes.
        let collected = unsafe { libc::wait4(pid.cast_signed(), &raw mut status, 0, &raw mut usage) };
        if collected >= 0 || io::Error::last_os_error().kind() != io::ErrorKind::Interrupted {
            break;
        }
    }
    let how = match status {
        _ if libc::WIFSIGNALED(status) => How::Killed(libc::WTERMSIG(status)),
        _ if never_began => How::NotStarted(libc::WEXITSTATUS(status)),
        _ => How::Exited(libc::WEXITSTATUS(status)),
    };
    let seconds = |time: libc::timeval| time.tv_sec as f64 + time.tv_usec as f64 * 1e-6;
    let (user, system) = (seconds(usage.ru_utime), seconds(usage.ru_stime));
    let own = (1.0 - before / (user + system).max(f64::MIN_POSITIVE)).clamp(0.0, 1.0);
    Ended { how, elapsed, user: user * own, system: system * own }
}
