//! A program that reads the same file from its beginning to its end, again and again.

use std::fs::File;
use std::io::{self, Read as _, Seek as _};

use super::process::{Order, Tally, now, sleep};
use super::reads;

/// What is read at a time.
const BLOCK_BYTES: usize = 256 * 1024;

/// Reads until the time is over, and counts the MiB.
pub(super) fn read_over_and_over(order: &Order, file_mib: u32, every: f64) -> io::Result<()> {
    let place = order.scratch.join("reference");
    reads::write_file(&place, file_mib)?;
    let mut file = File::options().read(true).open(&place)?;
    let mut tally = Tally::new(order)?;
    let mut block = vec![0; BLOCK_BYTES];
    while now() < order.until {
        let began = now();
        file.rewind()?;
        while now() < order.until && look_up(&mut file, &mut block)? > 0 {}
        tally.add(u64::from(file_mib))?;
        sleep(every - (now() - began), order.until);
    }
    Ok(())
}

#[inline(never)]
fn look_up(file: &mut File, block: &mut [u8]) -> io::Result<usize> {
    file.read(block)
}
