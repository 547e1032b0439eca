//! Where and with which priority a thread of rdiag's own runs.
#![expect(unsafe_code, reason = "sched_setscheduler(2) has no safe wrapper")]

use std::io;

use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

/// Gives the calling thread a real-time priority (SCHED_FIFO, 1 to 99): it goes before all ordinary work on its CPU.
pub fn busy_priority(priority: i32) -> io::Result<()> {
    let wanted = libc::sched_param { sched_priority: priority };
    // SAFETY: the pointer is to a live variable of the type that the call reads; 0 is the calling thread.
    let done = unsafe { libc::sched_setscheduler(0, libc::SCHED_FIFO, &raw const wanted) };
    if done == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// CPUs that this process may use, by number.
#[must_use]
pub fn usable_cpus() -> Vec<usize> {
    sched_getaffinity(None)
        .map_or_else(|_| vec![0], |set| (0..CpuSet::MAX_CPU).filter(|cpu| set.is_set(*cpu)).collect())
}

/// Keeps the calling thread on one CPU.
pub fn use_only(cpu: usize) -> io::Result<()> {
    let mut set = CpuSet::new();
    set.set(cpu);
    Ok(sched_setaffinity(None, &set)?)
}
