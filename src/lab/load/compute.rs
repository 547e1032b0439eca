//! Threads that compute, and rest, and so on: all the time, for themselves, or one at a time behind a lock.

use std::io;
use std::sync::Arc;

use super::bursts::compute_one_request;
use super::process::{Order, STACK_BYTES, now, sleep};
use rdiag_own::{self as own, CLock};

/// Runs so many threads until the time is over; with a rest of 0 they never leave the CPU by themselves.
pub(super) fn serve_requests(order: &Order, threads: u32, busy: f64, rest: f64, on_one_cpu: bool) -> io::Result<()> {
    let until = order.until;
    if on_one_cpu && let Some(first) = own::usable_cpus().first() {
        // The threads that are started from here stay there too.
        own::use_only(*first)?;
    }
    in_threads(order, threads, move || {
        while now() < until {
            compute_one_request((now() + busy).min(until));
            if rest > 0.0 {
                wait_before_next_request(rest, until);
            }
        }
    })
}

#[inline(never)]
fn wait_before_next_request(rest: f64, until: f64) {
    sleep(rest, until);
}

/// Runs threads that do all that they do while they hold one lock, which they all want again at once.
/// Of the time with the lock `computed` (0 to 1) is computed for; the rest is waited.
pub(super) fn take_turns(order: &Order, threads: u32, hold: f64, computed: f64) -> io::Result<()> {
    let (until, lock) = (order.until, Arc::new(CLock::default()));
    in_threads(order, threads, move || {
        while now() < until {
            update_shared_table(&lock, hold * computed, hold * (1.0 - computed), until);
        }
    })
}

#[inline(never)]
fn wait_for_other_service(seconds: f64, until: f64) {
    sleep(seconds, until);
}

#[inline(never)]
fn update_shared_table(lock: &CLock, compute: f64, wait: f64, until: f64) {
    lock.hold(|| {
        compute_one_request((now() + compute).min(until));
        if wait > 0.0 {
            wait_for_other_service(wait, until);
        }
    });
    // Others have it next: the one that lets it go would mostly be the first to take it.
    std::thread::yield_now();
}

/// The first of the threads is this one, so that none only waits for the others.
fn in_threads(order: &Order, threads: u32, work: impl Fn() + Clone + Send + 'static) -> io::Result<()> {
    let start = |_| std::thread::Builder::new().name(order.name()).stack_size(STACK_BYTES).spawn(work.clone());
    let started: io::Result<Vec<_>> = (1..threads).map(start).collect();
    let started = started?;
    work();
    for thread in started {
        let _ = thread.join();
    }
    Ok(())
}
