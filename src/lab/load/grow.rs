//! A supervisor whose worker takes more and more memory, or ends by itself, and is started anew each time it is gone.

use std::io;
use std::os::unix::process::ExitStatusExt as _;

use super::kinds::End;
use super::process::{Order, Tally, hand, now, sleep};
use super::task::Task;

/// What the worker takes at a time.
const PIECE_BYTES: usize = 1 << 20;

/// Starts a worker, and another when that is gone; counts those that a signal ended.
pub(super) fn start_workers(order: &Order, end: End, mib: u32, every: f64) -> io::Result<()> {
    let worker = order.pass_on(Task::Worker { end, mib, every });
    let mut tally = Tally::new(order)?;
    while now() < order.until {
        let mut child = worker.start_one()?;
        // It may be gone before it has read anything.
        let _ = hand(&mut child, &worker);
        if child.wait()?.signal().is_some() {
            tally.add(1)?;
        }
        sleep(0.2, order.until);
    }
    Ok(())
}

/// The worker: takes a MiB at a time and writes to it, `mib` of them in `every` seconds.
pub(super) fn cache_results(order: &Order, end: End, mib: u32, every: f64) -> io::Result<()> {
    let mut kept = Vec::new();
    for _ in 0..mib {
        kept.push(std::hint::black_box(vec![1_u8; PIECE_BYTES]));
        sleep(every / f64::from(mib), order.until);
    }
    if end == End::Abort {
        std::process::abort();
    }
    Ok(())
}
