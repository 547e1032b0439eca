//! How many files this process may have open.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Sees to it that so many can be open, as far as the hard limit allows. Commands that are started later inherit it, so it is raised
/// only where it is needed.
pub fn make_room(wanted: u64) {
    let limit = getrlimit(Resource::Nofile);
    if limit.current.is_some_and(|current| current < wanted) {
        // A kernel that refuses leaves the error that follows.
        let _ = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, maximum: limit.maximum });
    }
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
