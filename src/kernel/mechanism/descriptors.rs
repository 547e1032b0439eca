//! How many files this process may have open.
#![expect(unsafe_code, reason = "getrlimit(2): the safe wrapper panics where a sandbox refuses the call")]

use rustix::process::{Resource, Rlimit, setrlimit};

/// Sees to it that so many can be open, as far as the hard limit allows. Commands that are started later inherit it, so it is raised
/// only where it is needed.
pub fn make_room(wanted: u64) {
    if let Some((_, maximum)) = limits().filter(|(current, _)| *current < wanted) {
        // A kernel that refuses leaves the error that follows.
        let _ = setrlimit(Resource::Nofile, Rlimit { current: Some(maximum), maximum: Some(maximum) });
    }
}

/// How many may be open; none where there is no limit, or it is unknown.
#[must_use]
pub fn limit() -> Option<u64> {
    limits().map(|(current, _)| current).filter(|current| *current != libc::RLIM_INFINITY)
}

/// How many may be open, and what that may be raised to.
fn limits() -> Option<(u64, u64)> {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: the kernel writes one value of this type to where the pointer leads, before the call returns.
    let done = unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut limit) };
    (done == 0).then_some((limit.rlim_cur, limit.rlim_max))
}

/// To read a file takes as many at a time: folders on the way to it have one too.
const FEW: usize = 4;

/// Whether not even a few more can be opened.
#[must_use]
pub fn are_exhausted() -> bool {
    // All are kept until the last is there.
    let copies: Vec<_> = (0..FEW).map(|_| rustix::io::fcntl_dupfd_cloexec(std::io::stdin(), 0)).collect();
    let is_full = |error: &rustix::io::Errno| {
        matches!(*error, rustix::io::Errno::MFILE | rustix::io::Errno::NFILE | rustix::io::Errno::INVAL)
    };
    copies.iter().any(|copy| copy.as_ref().is_err_and(is_full))
}
