//! A thread on each CPU that computes before all ordinary work, for a short time, again and again.

use std::io;

use super::bursts::compute_one_request;
use super::process::{Order, now, sleep};
use rdiag_own as own;

/// In the lower half of the priorities, below the kernel's own threads that must not wait.
const PRIORITY: i32 = 20;

/// Runs a thread on each CPU until the time is over.
pub(super) fn poll_on_every_cpu(order: &Order, busy: f64, every: f64) -> io::Result<()> {
    let (until, begin) = (order.until, now());
    let threads: io::Result<Vec<_>> = own::usable_cpus()
        .into_iter()
        .map(|cpu| {
            let name = order.name();
            std::thread::Builder::new().name(name).spawn(move || poll_device(cpu, begin, busy, every, until))
        })
        .collect();
    threads?.into_iter().try_for_each(|thread| thread.join().unwrap_or(Ok(())))
}

/// All begin together, so that no CPU is left for those who wait to be moved to.
#[inline(never)]
fn poll_device(cpu: usize, begin: f64, busy: f64, every: f64, until: f64) -> io::Result<()> {
    own::use_only(cpu)?;
    own::busy_priority(PRIORITY)?;
    let mut next = begin;
    while now() < until {
        compute_one_request((now() + busy).min(until));
        next = (next + every).max(now() + busy);
        sleep(next - now(), until);
    }
    Ok(())
}
