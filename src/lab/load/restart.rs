//! A supervisor whose program does not start.

use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use super::elf;
use super::kinds::Flaw;
use super::process::{Order, Tally, now, sleep};
use rdiag_own as own;

/// The program that it tries to start.
#[must_use]
pub fn program_file(scratch: &Path) -> PathBuf {
    scratch.join("service")
}

/// Writes the program, and tries to start it until the time is over; counts the tries that failed.
pub(super) fn try_again_and_again(order: &Order, flaw: Flaw, segments: u32, every: f64) -> io::Result<()> {
    let place = program_file(&order.scratch);
    let mut file = std::fs::OpenOptions::new().write(true).create_new(true).mode(0o700).open(&place)?;
    file.write_all(&elf::program(segments, Some(flaw)))?;
    // A file that is open for writing cannot be started, for a reason of its own.
    drop(file);
    let mut tally = Tally::new(order)?;
    while now() < order.until {
        let began = now();
        if !start_service(&place) {
            tally.add(1)?;
        }
        sleep(every - (now() - began), order.until);
    }
    Ok(())
}

/// Whether it came up and ended well.
#[inline(never)]
fn start_service(place: &Path) -> bool {
    own::fork_in_group(place, "").and_then(|mut child| child.wait()).is_ok_and(|status| status.code() == Some(42))
}
