//! Workers that are made, do little and end, round by round: threads or processes.

use std::io;

use super::bursts::compute_one_request;
use super::kinds::CrewKind;
use super::process::{Order, STACK_BYTES, Tally, now, sleep};
use rdiag_own as own;

/// What each worker computes for, in seconds.
const BUSY_SECONDS: f64 = 50e-6;
/// Memory that the program has before it makes workers, as any service does.
const OWN_BYTES: usize = 8 << 20;

/// Makes rounds of workers until the time is over, and counts them in a file.
pub(super) fn work_in_rounds(order: &Order, how: CrewKind, workers: u32, every: f64) -> io::Result<()> {
    let memory = std::hint::black_box(vec![1_u8; OWN_BYTES]);
    let mut tally = Tally::new(order)?;
    while now() < order.until {
        let began = now();
        match how {
            CrewKind::Threads => run_threads(workers)?,
            CrewKind::Processes => run_processes(workers)?,
        }
        tally.add(u64::from(workers))?;
        sleep(every - (now() - began), order.until);
    }
    drop(memory);
    Ok(())
}

#[inline(never)]
fn run_threads(workers: u32) -> io::Result<()> {
    let start = |_| std::thread::Builder::new().stack_size(STACK_BYTES).spawn(work_once);
    let started: io::Result<Vec<_>> = (0..workers).map(start).collect();
    for thread in started? {
        let _ = thread.join();
    }
    Ok(())
}

#[inline(never)]
fn run_processes(workers: u32) -> io::Result<()> {
    let started = (0..workers).try_for_each(|_| own::fork_to(work_once));
    // Those that were made are collected, even if there is no room for the rest.
    while rustix::process::wait(rustix::process::WaitOptions::empty()).is_ok_and(|ended| ended.is_some()) {}
    started
}

#[inline(never)]
fn work_once() {
    compute_one_request(now() + BUSY_SECONDS);
}
