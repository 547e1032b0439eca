//! Names of system calls by number, and what each kind of call waits for.

/// How a task numbers its calls.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub enum Abi {
    /// As programs of this machine do.
    #[default]
    Native,
    /// As 32-bit programs do on a 64-bit machine: other numbers for the same calls.
    Compat,
}

/// A system call under way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Call<'c> {
    /// Its name, see [`name`]; "" where the number is not known.
    pub name: &'c str,
    /// Its first three arguments, if they are known.
    pub arguments: Option<[u64; 3]>,
    /// The first of them is an address in the stack of the thread that calls, see [`super::futex::in_own_stack`].
    pub in_own_stack: bool,
}

/// Programs with 32-bit pointers in 64-bit mode mark their calls with this bit; most numbers are the native ones.
const X32: i64 = 1 << 30;

/// Name of a call by its number.
#[must_use]
pub fn name(abi: Abi, number: i64) -> Option<&'static str> {
    let number = std::ffi::c_long::try_from(number).ok()?;
    match abi {
        Abi::Native if cfg!(target_arch = "x86_64") => syscall_numbers::x86_64::sys_call_name(number & !X32),
        Abi::Native => syscall_numbers::native::sys_call_name(number),
        Abi::Compat if cfg!(target_arch = "aarch64") => syscall_numbers::arm::sys_call_name(number),
        Abi::Compat => syscall_numbers::x86::sys_call_name(number),
    }
}

/// What a call does, as far as waiting goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Waits on a word of memory.
    Futex,
    /// Waits until one of several files is ready.
    Poll,
    /// Waits for completions of queued requests.
    Ring,
    /// Waits for a time.
    Sleep,
    /// Takes bytes out of a file of any kind.
    Read,
    /// Puts bytes into a file of any kind, or changes its blocks.
    Write,
    /// Moves bytes from one file to another: it may wait for either.
    Move,
    /// Takes bytes out of a socket.
    Receive,
    /// Puts bytes into a socket.
    Send,
    /// Makes a connection.
    Connect,
    /// Takes a connection.
    Accept,
    /// Waits until what was written is on the disk.
    Sync,
    /// Goes by names: opens, looks up, renames …
    Path,
    /// Gives a file up: a socket may have to send its rest first, a file to be written.
    Close,
    /// Waits for another process.
    Child,
    /// Makes another process or thread; the parent waits if it lends its memory.
    Clone,
    /// Takes a lock on a file.
    FileLock,
    /// Waits for a signal.
    Signal,
    /// Waits on a queue or semaphore.
    Sysv,
    /// Anything a driver does.
    Ioctl,
    /// Changes the address space.
    Memory,
    /// Goes on with a call that a signal has interrupted; which one, only the stack knows.
    Restart,
}

/// What this call does; none where nothing is known, or where it does not wait.
#[must_use]
pub fn kind(name: &str) -> Option<Kind> {
    KINDS.iter().find(|(_, names)| names.contains(&name)).map(|(kind, _)| *kind)
}

/// The calls that wait, of all architectures.
pub const KINDS: &[(Kind, &[&str])] = &[
    (Kind::Futex, &["futex", "futex_time64", "futex_wait", "futex_waitv"]),
    (
        Kind::Poll,
        &[
            "epoll_wait",
            "epoll_pwait",
            "epoll_pwait2",
            "epoll_wait_old",
            "poll",
            "ppoll",
            "ppoll_time64",
            "select",
            "_newselect",
            "pselect6",
            "pselect6_time64",
        ],
    ),
    (Kind::Ring, &["io_uring_enter", "io_getevents", "io_pgetevents", "io_pgetevents_time64"]),
    (Kind::Sleep, &["nanosleep", "clock_nanosleep", "clock_nanosleep_time64"]),
    (
        Kind::Read,
        &["read", "readv", "pread64", "preadv", "preadv2", "getdents", "getdents64", "readdir", "readahead", "tee"],
    ),
    (
        Kind::Write,
        &["write", "writev", "pwrite64", "pwritev", "pwritev2", "vmsplice", "fallocate", "ftruncate", "ftruncate64"],
    ),
    (Kind::Move, &["sendfile", "sendfile64", "splice", "copy_file_range"]),
    (Kind::Receive, &["recv", "recvfrom", "recvmsg", "recvmmsg", "recvmmsg_time64"]),
    (Kind::Send, &["send", "sendto", "sendmsg", "sendmmsg"]),
    (Kind::Connect, &["connect"]),
    (Kind::Accept, &["accept", "accept4"]),
    (Kind::Sync, &["fsync", "fdatasync", "sync", "syncfs", "msync", "sync_file_range", "sync_file_range2"]),
    (
        Kind::Path,
        &[
            "open",
            "openat",
            "openat2",
            "open_by_handle_at",
            "creat",
            "stat",
            "stat64",
            "lstat",
            "lstat64",
            "fstat",
            "fstat64",
            "newfstatat",
            "fstatat64",
            "statx",
            "statfs",
            "statfs64",
            "fstatfs",
            "fstatfs64",
            "access",
            "faccessat",
            "faccessat2",
            "readlink",
            "readlinkat",
            "unlink",
            "unlinkat",
            "rename",
            "renameat",
            "renameat2",
            "link",
            "linkat",
            "symlink",
            "symlinkat",
            "mkdir",
            "mkdirat",
            "rmdir",
            "mknod",
            "mknodat",
            "chdir",
            "fchdir",
            "truncate",
            "truncate64",
            "chmod",
            "fchmod",
            "fchmodat",
            "fchmodat2",
            "chown",
            "lchown",
            "fchown",
            "fchownat",
            "utime",
            "utimes",
            "utimensat",
            "utimensat_time64",
            "futimesat",
            "getxattr",
            "setxattr",
            "listxattr",
            "execve",
            "execveat",
            "mount",
            "umount2",
        ],
    ),
    (Kind::Close, &["close", "close_range"]),
    (Kind::Child, &["wait4", "waitid", "waitpid", "vfork"]),
    (Kind::Clone, &["clone", "clone3"]),
    (Kind::FileLock, &["flock", "fcntl", "fcntl64"]),
    (Kind::Signal, &["pause", "rt_sigsuspend", "sigsuspend", "rt_sigtimedwait", "rt_sigtimedwait_time64"]),
    (
        Kind::Sysv,
        &[
            "msgrcv",
            "msgsnd",
            "semop",
            "semtimedop",
            "semtimedop_time64",
            "ipc",
            "mq_timedreceive",
            "mq_timedreceive_time64",
            "mq_timedsend",
            "mq_timedsend_time64",
        ],
    ),
    (Kind::Ioctl, &["ioctl"]),
    (Kind::Memory, &["mmap", "mmap2", "munmap", "mprotect", "brk", "madvise", "mremap"]),
    (Kind::Restart, &["restart_syscall"]),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_name_stands_once_and_is_a_call_of_some_architecture() {
        let mut seen = std::collections::BTreeSet::new();
        let known = |wanted: &str| {
            (0..1024).any(|number| {
                [
                    syscall_numbers::x86_64::sys_call_name(number),
                    syscall_numbers::x86::sys_call_name(number),
                    syscall_numbers::aarch64::sys_call_name(number),
                    syscall_numbers::arm::sys_call_name(number),
                ]
                .contains(&Some(wanted))
            })
        };
        for name in KINDS.iter().flat_map(|(_, names)| *names) {
            assert!(seen.insert(name), "{name} stands twice");
            let pseudo = ["recv", "send", "semop", "epoll_wait_old", "sync_file_range2"];
            assert!(known(name) || pseudo.contains(name), "{name} is no call");
        }
    }

    #[test]
    #[cfg(target_arch = "x86_64")]
    fn one_number_is_another_call_in_another_mode() {
        assert_eq!(name(Abi::Native, 0), Some("read"));
        assert_eq!(name(Abi::Compat, 3), Some("read"));
        assert_eq!(name(Abi::Native, 202), Some("futex"));
        assert_eq!(name(Abi::Compat, 162), Some("nanosleep"));
        assert_eq!(name(Abi::Compat, 407), Some("clock_nanosleep_time64"));
        assert_eq!(name(Abi::Native, (1 << 30) + 35), Some("nanosleep"));
        assert_eq!(
            (name(Abi::Native, -1), name(Abi::Compat, i64::MAX), name(Abi::Native, i64::MIN)),
            (None, None, None)
        );
    }
}
