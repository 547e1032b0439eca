//! The calls of the kernel that a confined process may make.

/// Reading what is open, writing to what is open, memory, and its own end.
pub(super) const READING: &[i64] = &[
    libc::SYS_read,
    libc::SYS_readv,
    libc::SYS_pread64,
    libc::SYS_write,
    libc::SYS_writev,
    libc::SYS_pwrite64,
    libc::SYS_recvmsg,
    libc::SYS_sendmsg,
    libc::SYS_ppoll,
    libc::SYS_close,
    libc::SYS_fstat,
    libc::SYS_lseek,
    libc::SYS_memfd_create,
    libc::SYS_ftruncate,
    libc::SYS_mmap,
    libc::SYS_munmap,
    libc::SYS_mremap,
    libc::SYS_mprotect,
    libc::SYS_madvise,
    libc::SYS_brk,
    libc::SYS_futex,
    libc::SYS_getrandom,
    libc::SYS_clock_gettime,
    libc::SYS_sched_yield,
    libc::SYS_getpid,
    libc::SYS_gettid,
    libc::SYS_getuid,
    libc::SYS_geteuid,
    libc::SYS_rt_sigaction,
    libc::SYS_rt_sigprocmask,
    libc::SYS_rt_sigreturn,
    libc::SYS_sigaltstack,
    libc::SYS_restart_syscall,
    libc::SYS_exit,
    libc::SYS_exit_group,
    // Of what is open; where files may be opened, also by path.
    libc::SYS_statx,
    libc::SYS_newfstatat,
];

/// What fcntl may do: to descriptors of this process, and to files in memory. It could have signals sent to others as well.
pub(super) const FCNTL: &[i32] = &[
    libc::F_DUPFD,
    libc::F_DUPFD_CLOEXEC,
    libc::F_GETFD,
    libc::F_SETFD,
    libc::F_GETFL,
    libc::F_SETFL,
    libc::F_ADD_SEALS,
    libc::F_GET_SEALS,
];

/// Finding and opening files by path.
pub(super) const OPENING: &[i64] = &[libc::SYS_openat, libc::SYS_readlinkat, libc::SYS_getcwd];

/// What newer architectures have only in the form above.
#[cfg(target_arch = "x86_64")]
pub(super) const OLD_READING: &[i64] = &[libc::SYS_poll];
#[cfg(not(target_arch = "x86_64"))]
pub(super) const OLD_READING: &[i64] = &[];

#[cfg(target_arch = "x86_64")]
pub(super) const OLD_OPENING: &[i64] =
    &[libc::SYS_open, libc::SYS_stat, libc::SYS_lstat, libc::SYS_readlink, libc::SYS_access];
#[cfg(not(target_arch = "x86_64"))]
pub(super) const OLD_OPENING: &[i64] = &[];
