//! Names of system calls and errors, and the numbers by which the programs know them.

use rdiag_kernel::mechanism::ebpf::Global;

/// Calls that are counted by number; see syscall.h.
pub(super) const CALLS: usize = 512;
const COMPAT: usize = 511;
const NO_CALL: usize = 510;

/// Name of a call by its number on this architecture.
pub(super) fn name(number: usize) -> String {
    match number {
        COMPAT => "(32-bit call)".to_owned(),
        NO_CALL => "(no number)".to_owned(),
        _ => {
            let known = std::ffi::c_long::try_from(number).ok().and_then(syscall_numbers::native::sys_call_name);
            known.map_or_else(|| format!("call {number}"), str::to_owned)
        }
    }
}

/// Number of a call on this architecture; arm64 lacks some that x86-64 has for old programs.
pub(super) fn number(name: &str) -> Option<u32> {
    (0..NO_CALL as std::ffi::c_long)
        .find(|number| syscall_numbers::native::sys_call_name(*number) == Some(name))
        .and_then(|number| u32::try_from(number).ok())
}

/// A constant array of call numbers; calls that this architecture lacks have a number that no call has.
pub(super) fn numbers(global: &'static str, names: &[&str]) -> Global {
    let bytes = names.iter().flat_map(|name| number(name).unwrap_or(u32::MAX).to_ne_bytes());
    Global::bytes(global, bytes.collect())
}

/// The result of a call as text: a number, or the name of an error.
pub(super) fn result(result: u64) -> String {
    match result.cast_signed() {
        failed @ -4095..0 => error(failed.unsigned_abs()),
        number => number.to_string(),
    }
}

/// Name of an error, from its positive number. The numbers are those of asm-generic/errno.h, which x86-64 and arm64 share.
pub(super) fn error(number: u64) -> String {
    let name = usize::try_from(number).ok().and_then(|number| ERRORS.get(number)).filter(|name| !name.is_empty());
    match (name, number) {
        (Some(name), _) => format!("E{name}"),
        // The kernel's own codes for a call that a signal has cut short: it is begun anew, or gives EINTR.
        (None, 512..=514 | 516) => "interrupted".to_owned(),
        (None, _) => format!("error {number}"),
    }
}

/// Names of errors without their E, by number.
const ERRORS: &[&str] = &[
    "",
    "PERM",
    "NOENT",
    "SRCH",
    "INTR",
    "IO",
    "NXIO",
    "2BIG",
    "NOEXEC",
    "BADF",
    "CHILD",
    "AGAIN",
    "NOMEM",
    "ACCES",
    "FAULT",
    "NOTBLK",
    "BUSY",
    "EXIST",
    "XDEV",
    "NODEV",
    "NOTDIR",
    "ISDIR",
    "INVAL",
    "NFILE",
    "MFILE",
    "NOTTY",
    "TXTBSY",
    "FBIG",
    "NOSPC",
    "SPIPE",
    "ROFS",
    "MLINK",
    "PIPE",
    "DOM",
    "RANGE",
    "DEADLK",
    "NAMETOOLONG",
    "NOLCK",
    "NOSYS",
    "NOTEMPTY",
    "LOOP",
    "",
    "NOMSG",
    "IDRM",
    "CHRNG",
    "L2NSYNC",
    "L3HLT",
    "L3RST",
    "LNRNG",
    "UNATCH",
    "NOCSI",
    "L2HLT",
    "BADE",
    "BADR",
    "XFULL",
    "NOANO",
    "BADRQC",
    "BADSLT",
    "",
    "BFONT",
    "NOSTR",
    "NODATA",
    "TIME",
    "NOSR",
    "NONET",
    "NOPKG",
    "REMOTE",
    "NOLINK",
    "ADV",
    "SRMNT",
    "COMM",
    "PROTO",
    "MULTIHOP",
    "DOTDOT",
    "BADMSG",
    "OVERFLOW",
    "NOTUNIQ",
    "BADFD",
    "REMCHG",
    "LIBACC",
    "LIBBAD",
    "LIBSCN",
    "LIBMAX",
    "LIBEXEC",
    "ILSEQ",
    "RESTART",
    "STRPIPE",
    "USERS",
    "NOTSOCK",
    "DESTADDRREQ",
    "MSGSIZE",
    "PROTOTYPE",
    "NOPROTOOPT",
    "PROTONOSUPPORT",
    "SOCKTNOSUPPORT",
    "OPNOTSUPP",
    "PFNOSUPPORT",
    "AFNOSUPPORT",
    "ADDRINUSE",
    "ADDRNOTAVAIL",
    "NETDOWN",
    "NETUNREACH",
    "NETRESET",
    "CONNABORTED",
    "CONNRESET",
    "NOBUFS",
    "ISCONN",
    "NOTCONN",
    "SHUTDOWN",
    "TOOMANYREFS",
    "TIMEDOUT",
    "CONNREFUSED",
    "HOSTDOWN",
    "HOSTUNREACH",
    "ALREADY",
    "INPROGRESS",
    "STALE",
    "UCLEAN",
    "NOTNAM",
    "NAVAIL",
    "ISNAM",
    "REMOTEIO",
    "DQUOT",
    "NOMEDIUM",
    "MEDIUMTYPE",
    "CANCELED",
    "NOKEY",
    "KEYEXPIRED",
    "KEYREVOKED",
    "KEYREJECTED",
    "OWNERDEAD",
    "NOTRECOVERABLE",
    "RFKILL",
    "HWPOISON",
];

/// Name of a signal. The numbers are those of x86-64 and arm64, which share them.
pub(super) fn signal(number: u64) -> String {
    let name = usize::try_from(number).ok().and_then(|number| SIGNALS.get(number)).filter(|name| !name.is_empty());
    name.map_or_else(|| format!("signal {number}"), |name| format!("SIG{name}"))
}

/// Names of signals without their SIG, by number.
const SIGNALS: &[&str] = &[
    "", "HUP", "INT", "QUIT", "ILL", "TRAP", "ABRT", "BUS", "FPE", "KILL", "USR1", "SEGV", "USR2", "PIPE", "ALRM",
    "TERM", "STKFLT", "CHLD", "CONT", "STOP", "TSTP", "TTIN", "TTOU", "URG", "XCPU", "XFSZ", "VTALRM", "PROF", "WINCH",
    "IO", "PWR", "SYS",
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_have_the_names_and_numbers_of_this_architecture() {
        for call in ["read", "openat", "openat2", "execve", "exit_group", "fsync", "nanosleep"] {
            let number = number(call).unwrap();
            assert_eq!(name(number as usize), call);
        }
        assert_eq!(number("no such call"), None);
        assert_eq!(name(509), "call 509");
    }

    #[test]
    fn signals_have_the_numbers_that_the_c_library_knows() {
        use rustix::process::Signal;
        for (signal, name) in [
            (Signal::KILL, "SIGKILL"),
            (Signal::SEGV, "SIGSEGV"),
            (Signal::CHILD, "SIGCHLD"),
            (Signal::WINCH, "SIGWINCH"),
            (Signal::SYS, "SIGSYS"),
        ] {
            assert_eq!(super::signal(u64::from(signal.as_raw().unsigned_abs())), name);
        }
        assert_eq!(super::signal(0), "signal 0");
        assert_eq!(super::signal(34), "signal 34");
    }

    #[test]
    fn errors_have_the_numbers_that_the_c_library_knows() {
        use rustix::io::Errno;
        for (errno, name) in [
            (Errno::NOENT, "ENOENT"),
            (Errno::AGAIN, "EAGAIN"),
            (Errno::LOOP, "ELOOP"),
            (Errno::NOTSOCK, "ENOTSOCK"),
            (Errno::TIMEDOUT, "ETIMEDOUT"),
            (Errno::STALE, "ESTALE"),
            (Errno::DQUOT, "EDQUOT"),
            (Errno::HWPOISON, "EHWPOISON"),
        ] {
            assert_eq!(error(errno.raw_os_error().unsigned_abs().into()), name);
        }
        assert_eq!((result(3), result((-2_i64).cast_unsigned())), ("3".to_owned(), "ENOENT".to_owned()));
        assert_eq!(error(512), "interrupted");
        assert_eq!(error(u64::MAX), format!("error {}", u64::MAX));
        assert_eq!(error(41), "error 41");
    }
}
