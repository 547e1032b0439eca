//! A program that writes the same file again and again, and has it on the disk each time.

use std::io;
use std::os::unix::fs::FileExt as _;

use super::process::{Order, now, sleep};

/// Bytes of one write(2).
const BLOCK_BYTES: usize = 1 << 20;

/// Writes the file over and over until the time is over.
pub(super) fn rewrite(order: &Order, file_mib: u32, every: f64) -> io::Result<()> {
    let place = order.scratch.join("snapshot");
    let file = std::fs::OpenOptions::new().write(true).create_new(true).open(place)?;
    let block = vec![0x5a_u8; BLOCK_BYTES];
    while now() < order.until {
        let began = now();
        save_snapshot(&file, &block, file_mib)?;
        sleep(every - (now() - began), order.until);
    }
    Ok(())
}

#[inline(never)]
fn save_snapshot(file: &std::fs::File, block: &[u8], file_mib: u32) -> io::Result<()> {
    for number in 0..u64::from(file_mib) {
        file.write_all_at(block, number * BLOCK_BYTES as u64)?;
    }
    file.sync_all()
}
