//! Children that are copies of this process, made without starting a program.
#![expect(unsafe_code, reason = "fork(2), and clone(2) with CLONE_VFORK alone, have no safe wrappers")]

use std::io;

use super::die_with;

/// Makes a child that sleeps, in such a way (CLONE_VFORK) that this process waits for it inside the kernel, in uninterruptible
/// sleep that only a fatal signal ends. Returns after `seconds`, when the child has ended. To be called in a process with a single
/// thread.
pub fn hold_up_by_child(seconds: f64) -> io::Result<()> {
    let parent = rustix::process::getpid().as_raw_nonzero().get().cast_unsigned();
    let flags = i64::from(libc::CLONE_VFORK | libc::SIGCHLD);
    let none = 0_i64;
    // SAFETY: without CLONE_VM the child has a copy of this process's memory, its stack included, as after fork(2); there is one
    // thread, so no lock is held by another; the child allocates nothing and leaves by _exit(2).
    let child = unsafe { libc::syscall(libc::SYS_clone, flags, none, none, none, none) };
    if child < 0 {
        return Err(io::Error::last_os_error());
    }
    if child == 0 {
        if die_with(parent).is_ok() {
            let request = rustix::time::Timespec { tv_sec: seconds as i64, tv_nsec: 0 };
            let _ = rustix::thread::nanosleep(&request);
        }
        // SAFETY: ends this process and nothing else.
        unsafe { libc::_exit(0) };
    }
    let _ = rustix::process::wait(rustix::process::WaitOptions::empty());
    Ok(())
}

/// Makes a child that does `work` and ends, and dies with this process. To be called in a process with a single thread; `work` must
/// neither allocate nor lock.
pub fn fork_to(work: fn()) -> io::Result<()> {
    let parent = rustix::process::getpid().as_raw_nonzero().get().cast_unsigned();
    // SAFETY: there is one thread, so no lock is held by another; the child does not return from here.
    let child = unsafe { libc::fork() };
    if child < 0 {
        return Err(io::Error::last_os_error());
    }
    if child == 0 {
        if die_with(parent).is_ok() {
            work();
        }
        // SAFETY: ends this process and nothing else.
        unsafe { libc::_exit(0) };
    }
    Ok(())
}
