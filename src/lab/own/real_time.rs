//! Where and with which priority a thread of rdiag's own runs.
#![expect(unsafe_code, reason = "sched_setscheduler(2) has no safe wrapper")]

use std::io;

use rustix::process::Pid;
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

/// Where a thread was allowed to run before it was kept to one CPU.
#[derive(Debug)]
pub struct FormerCpus(Pid, CpuSet);

/// Keeps threads of rdiag's own, by their numbers, to the first CPU that the first of them may use.
pub fn keep_to_one_cpu(threads: &[u32]) -> io::Result<Vec<FormerCpus>> {
    let threads = threads.iter().filter_map(|number| Pid::from_raw(number.cast_signed()));
    let mut former = Vec::new();
    let mut only = None;
    for thread in threads {
        let before = sched_getaffinity(Some(thread))?;
        let only = only.get_or_insert_with(|| {
            let mut set = CpuSet::new();
            set.set((0..CpuSet::MAX_CPU).find(|cpu| before.is_set(*cpu)).unwrap_or(0));
            set
        });
        let moved = sched_setaffinity(Some(thread), only);
        former.push(FormerCpus(thread, before));
        if let Err(error) = moved {
            let _ = let_back(&former);
            return Err(error.into());
        }
    }
    Ok(former)
}

/// Lets them run again where they were allowed to; a thread that has ended is no error.
pub fn let_back(former: &[FormerCpus]) -> io::Result<()> {
    for FormerCpus(thread, before) in former {
        match sched_setaffinity(Some(*thread), before) {
            Err(rustix::io::Errno::SRCH) | Ok(()) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}
