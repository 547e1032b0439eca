//! A kernel module that keeps the CPUs from others: this process loads it, tells what it counts, and unloads it in the end.

use std::io;

use super::kinds::Context;
use super::{Order, Tally, now, sleep};
use crate::host::own::kernel_module;
use crate::lab::module;

/// From one look at its count to the next, in seconds.
const LOOK_SECONDS: f64 = 0.1;

/// Has the module poll until the time is over.
pub(super) fn poll_in_kernel(order: &Order, name: &str, context: Context, busy: f64, every: f64) -> io::Result<()> {
    let run = module::mark(&order.scratch);
    // If nobody unloads it, it stops by itself.
    let parameters = format!(
        "run={run} busy_ms={:.0} every_ms={:.0} seconds={:.0} in_thread={}",
        busy * 1e3,
        every * 1e3,
        (order.until - now()).clamp(1.0, 3600.0),
        u8::from(context == Context::Thread)
    );
    let mut tally = Tally::named(order, name)?;
    kernel_module::load(&module::file(&order.scratch, name), &parameters)?;
    let mut counted = 0;
    while now() < order.until {
        let rounds = kernel_module::parameter(name, "rounds").ok_or(io::ErrorKind::NotFound)?;
        tally.add(rounds.saturating_sub(counted))?;
        counted = rounds;
        sleep(LOOK_SECONDS, order.until);
    }
    kernel_module::unload(name)
}
