//! Which waits in futex(2) are for a lock of the program. Pure.
//!
//! The call alone says so where the kernel or the C library gives its word a meaning: locks that hand down priorities; a plain wait while
//! the word is 2 (glibc, Go's runtime) or has its highest bit beside an owner or a count of waiters (musl, robust locks). Two things look
//! alike and are none: a condition variable of musl waits for 2 too, in the stack of the thread that waits, where no other thread waits;
//! and semaphores of musl have the highest bit alone, or all.
//!
//! A mutex of Rust's library waits for 2 with all bits of a set; so does its condition variable, whose word counts how often it was
//! signalled, at the second signal. No thread waits for 2 there again once it was woken, so that is what tells.

use super::super::task_states::parse::{self, Syscall};
use rdiag_kernel::classify::{Abi, calls};

/// A wait that is for a lock, or may be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Wait {
    /// Where the word of the lock stands.
    pub(super) address: u64,
    /// Only if a thread that was woken waits there again.
    pub(super) only_if_repeated: bool,
}

/// Commands of futex(2), and the bits beside them: private, real-time clock.
const WAIT: u64 = 0;
const WAIT_BITSET: u64 = 9;
const WAITS_FOR_PRIORITY_LOCK: [u64; 3] = [6, 11, 13];
const FLAGS: u64 = 128 | 256;

const TAKEN_AND_WAITED_FOR: u32 = 2;
const WAITERS: u32 = 1 << 31;

/// What a thread keeps of a condition variable in its stack is this near to where its stack ends, bytes.
const NEAR_STACK: u64 = 1 << 14;

/// None for a line of /proc/PID/task/TID/syscall that shows another call, or a wait that is for no lock.
pub(super) fn lock(line: &[u8], abi: Abi) -> Option<Wait> {
    let Syscall::Call(number, [address, operation, value]) = parse::syscall(line)? else { return None };
    if !matches!(calls::name(abi, number)?, "futex" | "futex_time64") {
        return None;
    }
    // Number and three arguments; timeout, second address, set of bits; the stack pointer.
    let text = std::str::from_utf8(line).ok()?;
    let mut rest = text.split_ascii_whitespace().skip(4);
    let mut word = || u64::from_str_radix(rest.next()?.strip_prefix("0x")?, 16).ok();
    let (timeout, _, bits, stack) = (word()?, word()?, word()?, word()?);
    // Words of a lock have 32 bits; the registers that hold them may have anything above.
    let (value, bits) = (value as u32, bits as u32);
    let own_stack = address.wrapping_sub(stack) < NEAR_STACK;
    let (known, maybe) = match operation & !FLAGS {
        operation if WAITS_FOR_PRIORITY_LOCK.contains(&operation) => (true, false),
        WAIT if own_stack => (false, false),
        WAIT => (value == TAKEN_AND_WAITED_FOR || value > WAITERS && value != u32::MAX, false),
        WAIT_BITSET => (false, value == TAKEN_AND_WAITED_FOR && bits == u32::MAX && timeout == 0),
        _ => (false, false),
    };
    (known || maybe).then_some(Wait { address, only_if_repeated: !known })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seen(line: &str) -> Option<(u64, bool)> {
        lock(line.as_bytes(), Abi::Native).map(|wait| (wait.address, wait.only_if_repeated))
    }

    #[cfg(target_arch = "x86_64")]
    #[test]
    fn locks_are_told_from_conditions_and_semaphores_by_their_words() {
        let glibc = "202 0x7f10 0x80 0x2 0x0 0x7f 0x0 0x7ffd00 0x7fe\n";
        let priority = "202 0x7f10 0x86 0x0 0x0 0x7f 0x0 0x7ffd00 0x7fe\n";
        // As seen of a static program with musl: its mutex, one with an owner, the lock of malloc.
        let musl = "202 0x406044 0x80 0xffffffff80000010 0x0 0x0 0x0 0x7f6abcecddd8 0x40\n";
        let owned = "202 0x406044 0x80 0x80001234 0x0 0x0 0x0 0x7f6abcecddd8 0x40\n";
        for line in [glibc, priority] {
            assert_eq!(seen(line), Some((0x7f10, false)), "{line}");
        }
        for line in [musl, owned] {
            assert_eq!(seen(line), Some((0x406044, false)), "{line}");
        }
        let rust = "202 0x55c5f4b1faf0 0x89 0x2 0x0 0x0 0x7f4bffffffff 0x7f4bcbffecc8 0x7f\n";
        assert_eq!(seen(rust), Some((0x55c5_f4b1_faf0, true)));
        for other in [
            // Condition variable and semaphore of glibc, parked thread of Go.
            "202 0x7f20 0x189 0x0 0x0 0x0 0xffffffff 0x7ffd00 0x7fe\n",
            "202 0x7f30 0x80 0x0 0x0 0x7f 0x0 0x7ffd00 0x7fe\n",
            // Condition variable of musl, in the stack; its semaphores, of versions until 1.2.3 and since.
            "202 0x7f35a3c02e64 0x80 0x2 0x0 0x0 0x0 0x7f35a3c02db8 0x40\n",
            "202 0x406040 0x80 0xffffffffffffffff 0x0 0x0 0x0 0x7f3d9b034e08 0x40\n",
            "202 0x406040 0x80 0x80000000 0x0 0x0 0x0 0x7f3d9b034e08 0x40\n",
            // Condition variable of Rust after one signal, and a wait with a timeout.
            "202 0x55e0 0x89 0x1 0x0 0x0 0x7fb0ffffffff 0x7fb004124cb8 0x7f\n",
            "202 0x55e0 0x89 0x2 0x7fb004124d00 0x0 0x7fb0ffffffff 0x7fb004124cb8 0x7f\n",
            "35 0x7f10 0x80 0x2 0x0 0x7f 0x0 0x7ffd00 0x7fe\n",
            "running\n",
            "202 0x7f10 0x80 0x2\n",
            "",
        ] {
            assert_eq!(seen(other), None, "{other}");
        }
    }
}
