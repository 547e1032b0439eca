//! A program that reads a file in the page cache byte by byte.

use std::fs::File;
use std::io::{self, Read as _, Seek as _, Write as _};

use super::process::{Order, now};

/// Bytes of the file.
const FILE_BYTES: usize = 256 * 1024;
/// How many bytes are read between two looks at the clock.
const CHECKED_EVERY: usize = 1000;

/// Reads until the time is over.
pub(super) fn read_byte_by_byte(order: &Order) -> io::Result<()> {
    let place = order.scratch.join("journal.log");
    let mut file = File::options().read(true).write(true).create_new(true).open(place)?;
    file.write_all(&vec![b'x'; FILE_BYTES])?;
    while now() < order.until {
        file.rewind()?;
        parse_file(&mut file, order.until)?;
    }
    Ok(())
}

#[inline(never)]
fn parse_file(file: &mut File, until: f64) -> io::Result<()> {
    let mut byte = [0];
    for at in 0..FILE_BYTES {
        if file.read(&mut byte)? == 0 || (at % CHECKED_EVERY == 0 && now() >= until) {
            break;
        }
    }
    Ok(())
}
