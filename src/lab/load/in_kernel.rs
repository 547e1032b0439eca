//! Kernel modules that keep the CPUs from others, or wait: this process loads one, tells what it counts, and unloads it in the end.

use std::io;

use super::kinds::{FetchFrom, KernelContext};
use super::process::{Order, Tally, now, sleep};
use crate::module;
use rdiag_own::kernel_module;

/// From one look at its count to the next, in seconds.
const LOOK_SECONDS: f64 = 0.1;

/// Has the module poll until the time is over.
pub(super) fn poll(order: &Order, name: &str, context: KernelContext, busy: f64, every: f64) -> io::Result<()> {
    let in_thread = u8::from(context == KernelContext::Thread);
    let numbers = format!("busy_ms={:.0} every_ms={:.0} in_thread={in_thread}", busy * 1e3, every * 1e3);
    work(order, name, &numbers)
}

/// Has the threads of the module wait until the time is over.
pub(super) fn fetch(order: &Order, name: &str, from: FetchFrom, threads: u32, wait: f64) -> io::Result<()> {
    let what = match from {
        FetchFrom::SlowDisk => format!("disk={}", kernel_module::SLOW_DISK),
        FetchFrom::Lock => format!("hold_ms={:.0}", wait * 1e3),
    };
    work(order, name, &format!("threads={threads} {what}"))
}

fn work(order: &Order, name: &str, numbers: &str) -> io::Result<()> {
    let run = module::mark(&order.scratch);
    // If it is not unloaded, it stops by itself.
    let seconds = (order.until - now()).clamp(1.0, 3600.0);
    let mut tally = Tally::named(order, name)?;
    kernel_module::load(&module::file(&order.scratch, name), &format!("run={run} seconds={seconds:.0} {numbers}"))?;
    let mut counted = 0;
    while now() < order.until {
        let rounds = kernel_module::parameter(name, "rounds").ok_or(io::ErrorKind::NotFound)?;
        tally.add(rounds.saturating_sub(counted))?;
        counted = rounds;
        sleep(LOOK_SECONDS, order.until);
    }
    kernel_module::unload(name)
}
