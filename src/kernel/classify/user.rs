//! Locks of programs that are known by the variable that their futex is part of, or by the stack of who waits.

/// Variables whose every condition variable is waited for by a thread that wants a lock.
const LOCKS: &[&str] = &[
    // CPython's state, from 3.7 on: what waits in it waits for the global interpreter lock, or for another thread to take it. Its other
    // locks lie on the heap.
    "_PyRuntime",
];

/// Whether a wait for a condition variable in the variable of this name is one for a lock that another thread has.
#[must_use]
pub fn is_lock(variable: &str) -> bool {
    LOCKS.contains(&variable)
}

/// The ends of functions that wait for a lock which another thread has, and for nothing else, on a futex that is the lock's own: of Rust's
/// standard library. (`parking_lot` has one for each thread, which it uses for condition variables, too.)
const TAKES: &[&str] = &["::Mutex::lock_contended", "::RwLock::read_contended", "::RwLock::write_contended"];

/// Whether a function of this name waits for a lock that another thread has.
#[must_use]
pub fn takes_lock(function: &str) -> bool {
    // `<std::sys::sync::mutex::futex::Mutex>::lock_contended`, as newer compilers have it.
    let function = function.replace(['<', '>'], "");
    TAKES.iter().any(|end| function.ends_with(end))
}

/// Functions of Python's library, with their files, in which threads of pools wait for work: by a lock that is handed on with it.
const WAITS_FOR_WORK: &[(&str, &str)] = &[
    ("_worker", "thread.py"),
    ("get", "queue.py"),
    ("get", "queues.py"),
    ("wait", "threading.py"),
    ("worker", "pool.py"),
];

/// Whether a function of Python waits for work, or for something to happen, where a lock is waited for.
#[must_use]
pub fn waits_for_work(function: &str, file: &str) -> bool {
    WAITS_FOR_WORK.contains(&(function, file))
}

/// Classes of what a thread of Java is parked for as long as another thread has it, but for how it is handed on. (A semaphore or a latch
/// is for others a queue, and who waits in a condition wants no lock.)
const LOCKS_OF_JAVA: &[&str] = &[
    "java.util.concurrent.locks.ReentrantLock",
    "java.util.concurrent.locks.ReentrantReadWriteLock",
    "java.util.concurrent.locks.StampedLock",
    "java.util.concurrent.ConcurrentHashMap$TreeBin",
];
const HANDED_ON: &[&str] = &["$NonfairSync", "$FairSync", "$Sync"];

/// A class without how its objects are handed on.
fn without_order(class: &str) -> &str {
    HANDED_ON.iter().find_map(|order| class.strip_suffix(order)).unwrap_or(class)
}

/// Whether who is parked for an object of this class (`java.util.concurrent.locks.ReentrantLock$NonfairSync`) waits for a lock.
#[must_use]
pub fn is_lock_of_java(class: &str) -> bool {
    LOCKS_OF_JAVA.contains(&without_order(class))
}

/// A class as it is shown: `ReentrantLock`.
#[must_use]
pub fn shown_class(class: &str) -> &str {
    let class = without_order(class);
    class.rsplit('.').next().unwrap_or(class)
}

/// A word on a stack, and the function that it is an address in, if any.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Slot<'s> {
    /// The word.
    pub word: u64,
    /// The function.
    pub function: Option<&'s str>,
}

/// Functions of a Java machine: what puts a thread to sleep, what does that for a monitor that another thread has, and what calls it.
const PARK: &[&str] = &["os::PlatformEvent::park", "PlatformEvent::park"];
const ENTERS: &[&str] = &["ObjectMonitor::EnterI", "ObjectMonitor::enter_internal"];
const CALLS: &[&str] = &["ObjectMonitor::enter", "ObjectMonitor::enter_with_contention_mark"];
/// Words between the return addresses of the first two: the frame of what puts to sleep.
const MOST_APART: usize = 20;

/// Whether a thread waits for a monitor of a Java machine, by the innermost part of its stack, from the stack pointer on.
///
/// Leftovers of older calls lie between live frames. What counts is the one chain from the function that puts to sleep to its caller
/// and to that one's caller, by the link that each frame begins with; and nothing further in than that may be of a function that
/// waits for something else. So a leftover can hide a lock, and cannot make one up: a thread that waits for something else has its own
/// return address in that place.
#[must_use]
pub fn wants_monitor(sp: u64, stack: &[Slot<'_>]) -> bool {
    let is = |at: usize, names: &[&str]| {
        let function = stack.get(at).and_then(|slot| slot.function).unwrap_or_default();
        names.contains(&function.split('(').next().unwrap_or_default())
    };
    let Some(enters) = (0..stack.len()).find(|at| is(*at, ENTERS)) else { return false };
    let Some(parks) = (0..enters).rev().find(|at| is(*at, PARK)) else { return false };
    // The link to the caller's frame stands before its return address.
    let Some(link) = enters.checked_sub(1).and_then(|at| stack.get(at)) else { return false };
    let frame = (link.word.wrapping_sub(sp) / 8) as usize;
    let aligned = link.word % 8 == 0 && frame > enters && frame < stack.len();
    let other = |slot: &Slot<'_>| slot.function.is_some_and(waits_otherwise);
    aligned && enters - parks <= MOST_APART && is(frame + 1, CALLS) && !stack.iter().take(frame + 1).any(other)
}

/// Whether a function of a Java machine puts threads to sleep for something else than a monitor that another one has.
fn waits_otherwise(function: &str) -> bool {
    let name = function.split('(').next().unwrap_or_default();
    ["::wait", "::sleep", "::ReenterI", "::raw_wait", "::raw_enter", "::simple_wait", "::simple_enter"]
        .iter()
        .any(|end| name.contains(end))
        || name.starts_with("Parker::")
        || name.starts_with("Mutex::")
        || name.starts_with("Monitor::")
        || name.contains("Semaphore")
        || name.contains("PlatformMonitor")
}

#[cfg(test)]
mod tests {
    use super::*;

    const SP: u64 = 0x7f12_3456_7000;

    #[test]
    fn a_lock_of_java_is_known_by_its_class() {
        for (class, shown) in [
            ("java.util.concurrent.locks.ReentrantLock$NonfairSync", "ReentrantLock"),
            ("java.util.concurrent.locks.ReentrantLock$FairSync", "ReentrantLock"),
            ("java.util.concurrent.locks.ReentrantReadWriteLock$NonfairSync", "ReentrantReadWriteLock"),
            ("java.util.concurrent.locks.StampedLock", "StampedLock"),
        ] {
            assert!(is_lock_of_java(class), "{class}");
            assert_eq!(shown_class(class), shown);
        }
        for (class, shown) in [
            (
                "java.util.concurrent.locks.AbstractQueuedSynchronizer$ConditionObject",
                "AbstractQueuedSynchronizer$ConditionObject",
            ),
            ("java.util.concurrent.CountDownLatch$Sync", "CountDownLatch"),
            ("java.util.concurrent.Semaphore$NonfairSync", "Semaphore"),
            ("shop.ReentrantLock", "ReentrantLock"),
            ("", ""),
        ] {
            assert!(!is_lock_of_java(class), "{class}");
            assert_eq!(shown_class(class), shown);
        }
    }

    #[test]
    fn a_lock_of_rust_is_known_by_the_function_that_waits_for_it() {
        for function in [
            "std::sys::sync::mutex::futex::Mutex::lock_contended",
            "<std::sys::sync::rwlock::futex::RwLock>::read_contended",
            "std::sys::unix::locks::futex_rwlock::RwLock::write_contended",
        ] {
            assert!(takes_lock(function), "{function}");
        }
        for other in [
            "std::sys::sync::condvar::futex::Condvar::wait_optional_timeout",
            "parking_lot::raw_mutex::RawMutex::lock_slow",
            "",
        ] {
            assert!(!takes_lock(other), "{other}");
        }
    }

    /// A stack with these functions at these places, and these links from one place to another.
    fn wants(functions: &[(usize, &str)], links: &[(usize, usize)]) -> bool {
        let mut stack = [Slot::default(); 96];
        for (at, function) in functions {
            stack[*at] = Slot { word: 0x7f98_0000_0000 + *at as u64, function: Some(function) };
        }
        for (at, to) in links {
            stack[*at].word = SP + 8 * *to as u64;
        }
        wants_monitor(SP, &stack)
    }

    const PARK: &str = "os::PlatformEvent::park()";
    const ENTER_I: &str = "ObjectMonitor::EnterI(JavaThread*)";
    const ENTER: &str = "ObjectMonitor::enter(JavaThread*)";
    const SPIN: &str = "ObjectMonitor::TrySpin(JavaThread*)";

    #[test]
    fn who_enters_a_monitor_waits_for_a_lock() {
        // As OpenJDK 17 on glibc 2.36 shows it, with what an older call left behind.
        let seen = [(31, PARK), (37, ENTER_I), (47, SPIN), (55, ENTER), (75, "ObjectSynchronizer::enter(Handle)")];
        assert!(wants(&seen, &[(36, 54)]));
        let timed = [(33, "os::PlatformEvent::park(long)"), (43, ENTER_I), (61, ENTER)];
        assert!(wants(&timed, &[(42, 60)]));
        // Since JDK 24.
        let later = [(31, "PlatformEvent::park()"), (37, "ObjectMonitor::enter_internal(JavaThread*)"), (55, ENTER)];
        assert!(wants(&later, &[(36, 54)]));
    }

    #[test]
    fn who_waits_for_something_else_does_not_whatever_older_calls_left_behind() {
        let left = [(31, PARK), (37, ENTER_I), (55, ENTER)];
        for other in [
            "ObjectMonitor::wait(long, bool, JavaThread*)",
            "JavaThread::sleep(long)",
            "Parker::park(bool, long)",
            "ObjectMonitor::ReenterI(JavaThread*, ObjectWaiter*)",
            "JvmtiRawMonitor::raw_wait(long, Thread*)",
            "os::PlatformMonitor::wait(long)",
            "Monitor::wait_without_safepoint_check(long)",
            "PosixSemaphore::wait()",
        ] {
            for at in [17, 33, 43, 54] {
                let seen = [left.as_slice(), &[(at, other)]].concat();
                assert!(!wants(&seen, &[(36, 54)]), "{other} at {at}");
            }
            assert!(!wants(&[(33, PARK), (43, other), (59, ENTER)], &[(42, 58)]), "{other}");
        }
        assert!(wants(&[left.as_slice(), &[(60, "ObjectMonitor::wait(long)")]].concat(), &[(36, 54)]), "further out");
    }

    #[test]
    fn functions_that_are_not_linked_to_each_other_are_no_chain() {
        let left = [(31, PARK), (37, ENTER_I), (55, ENTER)];
        for link in [(36, 53), (36, 37), (36, 30), (36, 95), (36, 500), (35, 54)] {
            assert!(!wants(&left, &[link]), "{link:?}");
        }
        assert!(!wants(&left, &[]));
        assert!(!wants(&[(37, ENTER_I), (55, ENTER)], &[(36, 54)]), "it is not put to sleep");
        assert!(!wants(&[(3, PARK), (37, ENTER_I), (55, ENTER)], &[(36, 54)]), "too far apart");
        assert!(!wants(&[(31, PARK), (37, ENTER_I), (55, SPIN)], &[(36, 54)]));
        assert!(!wants(&[(0, ENTER_I)], &[]) && !wants(&[], &[]) && !wants_monitor(SP, &[]));
    }
}
