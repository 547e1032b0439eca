//! Programs that take and never give back: open files, or the numbers of processes that have ended.

use std::fs::File;
use std::io;

use super::process::{Order, now, sleep};
use rdiag_own as own;

/// Opens the same file again and again and closes none, up to a limit of its own; then it is refused, and goes on trying.
pub(super) fn open_without_closing(order: &Order, limit: u32, every: f64) -> io::Result<()> {
    own::limit_open_files(u64::from(limit))?;
    let place = order.scratch.join("session");
    drop(File::options().write(true).create_new(true).open(&place)?);
    let mut open = Vec::new();
    while now() < order.until {
        open.extend(open_session(&place));
        sleep(every, order.until);
    }
    Ok(())
}

#[inline(never)]
fn open_session(place: &std::path::Path) -> io::Result<File> {
    File::options().read(true).open(place)
}

/// Starts children that end at once, and never asks how; goes on trying when it may have no more.
pub(super) fn leave_children(order: &Order, every: f64) -> io::Result<()> {
    while now() < order.until {
        let _ = start_helper();
        sleep(every, order.until);
    }
    Ok(())
}

#[inline(never)]
fn start_helper() -> io::Result<()> {
    own::fork_to(|| {})
}
