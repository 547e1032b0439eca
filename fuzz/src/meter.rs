//! Memory and CPU time of one input. libFuzzer's own limits look at the whole process and at the clock on the wall, which says nothing on a
//! machine that does other things: these end the process at the place that took too much.

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::Once;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::targets::Target;

static NOW: AtomicUsize = AtomicUsize::new(0);
/// More than this is never in use.
static MOST: AtomicUsize = AtomicUsize::new(usize::MAX);

/// Counts what is allocated.
pub struct Meter;

// SAFETY: everything is left to the system's allocator; beside it there are only counters.
unsafe impl GlobalAlloc for Meter {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        take(layout.size());
        // SAFETY: the caller's promises are those that the system's allocator wants.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        take(layout.size());
        // SAFETY: as above.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn dealloc(&self, place: *mut u8, layout: Layout) {
        NOW.fetch_sub(layout.size(), Ordering::Relaxed);
        // SAFETY: as above.
        unsafe { System.dealloc(place, layout) }
    }

    unsafe fn realloc(&self, place: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        take(size);
        NOW.fetch_sub(layout.size(), Ordering::Relaxed);
        // SAFETY: as above.
        unsafe { System.realloc(place, layout, size) }
    }
}

fn take(size: usize) {
    let now = NOW.fetch_add(size, Ordering::Relaxed).saturating_add(size);
    let most = MOST.load(Ordering::Relaxed);
    if now > most {
        // What is said needs memory, too. A panic might be caught, and this is none that anything should go on after.
        MOST.store(usize::MAX, Ordering::Relaxed);
        let trace = std::backtrace::Backtrace::force_capture();
        eprintln!(
            "more memory than the target may take: {now} bytes with the last {size}, and {most} are allowed\n{trace}"
        );
        std::process::abort();
    }
}

/// Runs one input within the limits of its target.
pub fn measured(target: &Target, data: &[u8]) {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        // libFuzzer's own hook ends the process before a panic could be caught; what nothing catches ends it all the same.
        let _ = std::panic::take_hook();
        let hook = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            if info.location().is_none_or(|place| !place.file().contains("/blazesym-")) {
                hook(info);
            }
        }));
        // SAFETY: the handler does nothing but end the process.
        unsafe {
            libc::signal(libc::SIGPROF, too_long as extern "C" fn(libc::c_int) as libc::sighandler_t);
        }
    });
    MOST.store(NOW.load(Ordering::Relaxed).saturating_add(target.mebibytes << 20), Ordering::Relaxed);
    timer(target.seconds);
    let _ = (target.check)(data);
    timer(0);
    MOST.store(usize::MAX, Ordering::Relaxed);
}

/// Has the process end after so many seconds of CPU time; 0 calls that off.
fn timer(seconds: u32) {
    let none = libc::timeval { tv_sec: 0, tv_usec: 0 };
    let value = libc::itimerval { it_interval: none, it_value: libc::timeval { tv_sec: seconds.into(), tv_usec: 0 } };
    // SAFETY: the timer is read during the call only.
    unsafe {
        libc::setitimer(libc::ITIMER_PROF, &value, std::ptr::null_mut());
    }
}

/// libFuzzer keeps the input when the process aborts.
extern "C" fn too_long(_: libc::c_int) {
    let words = "more CPU time than the target may take\n";
    // SAFETY: both calls are allowed in a handler of a signal.
    unsafe {
        libc::write(2, words.as_ptr().cast(), words.len());
        libc::abort();
    }
}
