//! A program that goes on writing into a small file system when nothing fits into it any more.

use std::fs::File;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use super::kinds::Room;
use super::process::{Order, Tally, now, sleep};

/// What is written at a time while there is room, in bytes.
const BLOCK_BYTES: usize = 64 * 1024;
/// What a small file holds, in bytes.
const REPORT_BYTES: usize = 512;

/// Where the small file system is.
#[must_use]
pub fn room(scratch: &Path) -> PathBuf {
    scratch.join("spool")
}

/// Fills it in one way or the other, goes on trying to write, and counts the tries that fail.
pub(super) fn write_until_full(order: &Order, what: Room, every: f64) -> io::Result<()> {
    let room = room(&order.scratch);
    // Kept open to the end.
    let _held = if what == Room::Deleted { Some(write_journal(&room)?) } else { None };
    let mut tally = Tally::new(order)?;
    let mut number = 0_u64;
    while now() < order.until {
        number += 1;
        let content: &[u8] = if what == Room::Files { b"" } else { &[b'r'; REPORT_BYTES] };
        let place = room.join(format!("report-{number}"));
        if write_report(&place, content).is_err() {
            tally.add(1)?;
            // A file that was created but could not be written is removed.
            let _ = rdiag_kernel::host::files::remove_file(&place);
            sleep(every, order.until);
        }
    }
    Ok(())
}

#[inline(never)]
fn write_report(place: &Path, content: &[u8]) -> io::Result<()> {
    File::options().write(true).create_new(true).open(place)?.write_all(content)
}

/// A file that takes all the space and has no name any more.
#[inline(never)]
fn write_journal(room: &Path) -> io::Result<File> {
    let place = room.join("journal");
    let mut file = File::options().write(true).create_new(true).open(&place)?;
    let block = vec![b'j'; BLOCK_BYTES];
    while file.write_all(&block).is_ok() {}
    rdiag_kernel::host::files::remove_file(&place)?;
    Ok(file)
}
