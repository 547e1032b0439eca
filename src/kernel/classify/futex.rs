//! Which waits in futex(2) are for a lock of the program, by the call alone.
//!
//! It says so where the kernel or the library gives the futex word a meaning: locks that hand down priorities; a plain wait while
//! the word is 2 (glibc, Go's runtime before 1.24) or has its highest bit beside the mark of a taken mutex or the thread that has it
//! (musl, robust mutexes). Two things look alike and are none: a condition variable of musl waits for 2 in the stack of the thread that
//! waits; and semaphores of musl have the highest bit alone, or all. glibc waits for condition variables, semaphores and joins with
//! a set of bits.
//!
//! The call is not enough where a word counts something and happens to have such a value: events of GLib, barriers of OpenMP and C++.
//! Nor can it tell a join of musl, which waits for 2 in the memory of the other thread. No two threads wait for one join, and where a word
//! counts, no thread waits for the same value again once it was woken; so who sees a thread more than once, or other threads, can tell
//! these, and mutexes of Rust's library too: they wait for 2 with all bits of a set, as its condition variable does after the second
//! signal. Programs in the kernel tell a program with musl by its memory.
//!
//! `src/kernel/mechanism/ebpf/include/lockword.h` says the same for programs in the kernel.

const WAIT: u32 = 0;
/// FUTEX_WAIT_BITSET and FUTEX_PRIVATE_FLAG, as Rust's library waits; glibc's condition variables ask for the real-time clock as well.
const RUST_WAITS: u32 = 9 | 128;
/// FUTEX_LOCK_PI and FUTEX_LOCK_PI2. FUTEX_WAIT_REQUEUE_PI waits for a condition variable.
const LOCK_PI: [u32; 2] = [6, 13];
/// The bits of a futex operation that do not say what it does: private, real-time clock.
const FLAGS: u32 = 128 | 256;

const CONTENDED: u32 = 2;
const WAITERS: u32 = 1 << 31;
/// The bits for the thread that has the lock; the highest number of a thread.
const OWNER: u32 = (1 << 30) - 1;
const MOST: u32 = 1 << 22;
/// What musl writes instead into a mutex that does not know its owner (EBUSY); other numbers as small may be counts.
const TAKEN: u32 = 16;
const LEAST_OWNER: u32 = 64;

/// What a thread keeps of a condition variable in its stack is this near to where its stack ends, bytes.
const NEAR_STACK: u64 = 1 << 14;

/// Whether an address is in the stack that ends at this stack pointer, as far as the functions that wait keep something there.
#[must_use]
pub fn in_own_stack(address: u64, stack_pointer: u64) -> bool {
    address.wrapping_sub(stack_pointer) < NEAR_STACK
}

/// The rule by which a wait is for a lock, of futex(2)'s second and third argument; none where the call does not tell.
#[must_use]
pub fn lock(operation: u64, value: u64, in_own_stack: bool) -> Option<&'static str> {
    // Both have 32 bits; the registers that hold them may have anything above.
    let (operation, word) = (operation as u32 & !FLAGS, value as u32);
    let owner = word & OWNER;
    match operation {
        _ if LOCK_PI.contains(&operation) => Some(PRIORITY),
        WAIT if word == CONTENDED && !in_own_stack => Some("call.futex.contended"),
        WAIT if word & WAITERS != 0 && (owner == TAKEN || (LEAST_OWNER..=MOST).contains(&owner)) => {
            Some("call.futex.contended")
        }
        _ => None,
    }
}

/// The rule of [`lock`] that needs nothing else to be sure.
pub const PRIORITY: &str = "call.futex.lock_pi";

/// Whether a wait is for a lock if several threads wait so there, and one that was woken does so again. `timeout` and `bits` are the
/// fourth and sixth argument.
#[must_use]
pub fn lock_if_repeated(operation: u64, value: u64, in_own_stack: bool, timeout: u64, bits: u64) -> bool {
    let (kind, word) = (operation as u32, value as u32);
    let small_count = kind & !FLAGS == WAIT && word & WAITERS != 0 && (1..=MOST).contains(&(word & OWNER));
    let rust = kind == RUST_WAITS && word == CONTENDED && timeout == 0 && bits as u32 == u32::MAX;
    small_count || rust || lock(operation, value, in_own_stack).is_some()
}
