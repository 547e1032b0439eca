//! The C library's mutex, as most programs use it: how it waits is what rdiag tells a lock by.
#![expect(unsafe_code, reason = "pthread_mutex_lock(3) has no safe wrapper")]

use std::cell::UnsafeCell;

/// A lock that threads of this process share.
#[derive(Debug)]
pub struct CLock(Box<UnsafeCell<libc::pthread_mutex_t>>);

// SAFETY: the mutex is made to be used by several threads at once, stays where it is (it is boxed), and is reached by its functions only.
unsafe impl Send for CLock {}
// SAFETY: as above.
unsafe impl Sync for CLock {}

impl Default for CLock {
    fn default() -> Self {
        Self(Box::new(UnsafeCell::new(libc::PTHREAD_MUTEX_INITIALIZER)))
    }
}

impl CLock {
    /// Does something while no other thread has the lock. `work` must not take it once more.
    pub fn hold(&self, work: impl FnOnce()) {
        // SAFETY: the mutex was initialised, and lives as long as `self`.
        if unsafe { libc::pthread_mutex_lock(self.0.get()) } != 0 {
            return;
        }
        work();
        // SAFETY: this thread has locked it.
        let _ = unsafe { libc::pthread_mutex_unlock(self.0.get()) };
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

    use super::*;

    #[test]
    fn one_thread_at_a_time_has_it() {
        let (lock, inside, done) = (CLock::default(), AtomicBool::new(false), AtomicU32::new(0));
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..1000 {
                        lock.hold(|| {
                            assert!(!inside.swap(true, Ordering::SeqCst));
                            done.fetch_add(1, Ordering::SeqCst);
                            inside.store(false, Ordering::SeqCst);
                        });
                    }
                });
            }
        });
        assert_eq!(done.load(Ordering::SeqCst), 4000);
    }
}
