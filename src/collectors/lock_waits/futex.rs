//! Waits for locks of a program in lines of /proc/PID/task/TID/syscall. Pure.

use super::super::task_states::parse::{self, Syscall};
use rdiag_kernel::classify::calls::{self, Kind};
use rdiag_kernel::classify::{Abi, futex};

/// What a thread does, as far as locks go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Doing {
    /// It waits for the lock at this address; if that is not `certain`, only if several threads do and those that were woken do so again.
    Waits { address: u64, certain: bool },
    /// It waits for work, as servers and pools do: a connection, descriptors, a condition variable.
    Idles,
    /// Anything else.
    Works,
}

/// What a line shows.
pub(super) fn doing(line: &[u8], abi: Abi) -> Doing {
    let Some(Syscall::Call(call)) = parse::syscall(line) else { return Doing::Works };
    let Some(name) = calls::name(abi, call.number) else { return Doing::Works };
    let [address, operation, value, timeout, _, bits] = call.arguments;
    if matches!(name, "futex" | "futex_time64") {
        let own = futex::in_own_stack(address, call.stack_pointer);
        if futex::lock_if_repeated(operation, value, own, timeout, bits) {
            return Doing::Waits { address, certain: futex::lock(operation, value, own) == Some(futex::PRIORITY) };
        }
    }
    match calls::kind(name) {
        Some(Kind::Futex | Kind::Poll | Kind::Ring | Kind::Accept | Kind::Signal) => Doing::Idles,
        _ => Doing::Works,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[cfg(target_arch = "x86_64")]
    #[test]
    fn locks_are_told_from_conditions_and_semaphores_by_their_words() {
        let seen = |line: &str| doing(line.as_bytes(), Abi::Native);
        let waits = |address, certain| Doing::Waits { address, certain };
        for (line, expected) in [
            ("202 0x7f10 0x80 0x2 0x0 0x7f 0x0 0x7ffd00 0x7fe\n", waits(0x7f10, false)),
            ("202 0x7f10 0x86 0x0 0x0 0x7f 0x0 0x7ffd00 0x7fe\n", waits(0x7f10, true)),
            // As seen of a static program with musl: its mutex, one with an owner, and one of its library's own locks.
            ("202 0x406044 0x80 0xffffffff80000010 0x0 0x0 0x0 0x7f6abcecddd8 0x40\n", waits(0x40_6044, false)),
            ("202 0x406044 0x80 0x80001234 0x0 0x0 0x0 0x7f6abcecddd8 0x40\n", waits(0x40_6044, false)),
            ("202 0x406044 0x80 0x80000003 0x0 0x0 0x0 0x7f6abcecddd8 0x40\n", waits(0x40_6044, false)),
            // Rust.
            ("202 0x55c5 0x89 0x2 0x0 0x0 0x7f4bffffffff 0x7f4bcbffecc8 0x7f\n", waits(0x55c5, false)),
        ] {
            assert_eq!(seen(line), expected, "{line}");
        }
        for idle in [
            // Condition variable and semaphore of glibc, also with a word of 2; parked thread of Go.
            "202 0x7f20 0x189 0x0 0x0 0x0 0xffffffff 0x7ffd00 0x7fe\n",
            "202 0x7f20 0x189 0x2 0x0 0x0 0xffffffff 0x7ffd00 0x7fe\n",
            "202 0x7f30 0x80 0x0 0x0 0x7f 0x0 0x7ffd00 0x7fe\n",
            // Condition variable of musl, in the stack; its semaphores, of versions until 1.2.3 and since.
            "202 0x7f35a3c02e64 0x80 0x2 0x0 0x0 0x0 0x7f35a3c02db8 0x40\n",
            "202 0x406040 0x80 0xffffffffffffffff 0x0 0x0 0x0 0x7f3d9b034e08 0x40\n",
            "202 0x406040 0x80 0x80000000 0x0 0x0 0x0 0x7f3d9b034e08 0x40\n",
            // Rust: a condition variable after one signal, a wait with a timeout, a parked thread.
            "202 0x55e0 0x89 0x1 0x0 0x0 0x7fb0ffffffff 0x7fb004124cb8 0x7f\n",
            "202 0x55e0 0x89 0x2 0x7fb004124d00 0x0 0x7fb0ffffffff 0x7fb004124cb8 0x7f\n",
            "202 0x55e0 0x89 0xffffffff 0x0 0x0 0x7fb0ffffffff 0x7fb004124cb8 0x7f\n",
            // epoll_wait, accept4.
            "232 0x4 0x7f10 0x20 0xffffffff 0x0 0x0 0x7ffd00 0x7fe\n",
            "288 0x3 0x0 0x0 0x80000 0x0 0x0 0x7ffd00 0x7fe\n",
        ] {
            assert_eq!(seen(idle), Doing::Idles, "{idle}");
        }
        for other in [
            // nanosleep and recvfrom: work that takes its time may be behind them.
            "35 0x7f10 0x80 0x2 0x0 0x7f 0x0 0x7ffd00 0x7fe\n",
            "45 0x7 0x7f10 0x400 0x0 0x0 0x0 0x7ffd00 0x7fe\n",
            "-1 0x7ffd00 0x7fe\n",
            "running\n",
            "202 0x7f10 0x80 0x2\n",
            "",
        ] {
            assert_eq!(seen(other), Doing::Works, "{other}");
        }
    }
}
