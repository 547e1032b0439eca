//! Processes that wait inside the kernel, for no device and no lock.

use std::io;

use super::process::{Order, hand, now, sleep};
use super::task::Task;

/// Starts them and waits with them.
pub(super) fn hold_up(order: &Order, parents: u32) -> io::Result<()> {
    let one = order.pass_on(Task::HeldUp);
    let mut started = Vec::new();
    for _ in 0..parents {
        let mut child = one.start_one()?;
        hand(&mut child, &one)?;
        started.push(child);
    }
    while now() < order.until {
        sleep(1.0, order.until);
    }
    // They die with this process at the latest.
    for child in &mut started {
        child.kill()?;
        child.wait()?;
    }
    Ok(())
}
