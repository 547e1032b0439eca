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

/// Whether no more can be opened.
#[must_use]
pub fn are_exhausted() -> bool {
    let copy = rustix::io::fcntl_dupfd_cloexec(std::io::stdin(), 0);
    matches!(copy, Err(rustix::io::Errno::MFILE | rustix::io::Errno::NFILE | rustix::io::Errno::INVAL))
}
