//! Locks of programs that are known by the variable that their futex is part of.

/// Variables whose every condition variable is waited for by whoever wants a lock.
const LOCKS: &[&str] = &[
    // CPython's state, from 3.7 on: what waits in it waits for the global interpreter lock, or for somebody to take it. Its other locks
    // lie on the heap.
    "_PyRuntime",
];

/// Whether a wait for a condition variable in the variable of this name is one for a lock that another thread has.
#[must_use]
pub fn is_lock(variable: &str) -> bool {
    LOCKS.contains(&variable)
}
