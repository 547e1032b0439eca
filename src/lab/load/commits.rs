//! A program that adds a few bytes to a file, and waits until they are on the disk.

use std::fs::File;
use std::io::{self, Write as _};

use super::process::{Order, Tally, now, sleep};

/// The file begins anew when it has so many bytes.
const MOST_BYTES: u64 = 1 << 20;

/// Commits until the time is over, and counts.
pub(super) fn commit_again_and_again(order: &Order, bytes: u32, every: f64) -> io::Result<()> {
    let mut file = File::options().append(true).create_new(true).open(order.scratch.join("orders.log"))?;
    let entry = vec![b'o'; bytes as usize];
    let mut tally = Tally::new(order)?;
    while now() < order.until {
        let began = now();
        if file.metadata()?.len() >= MOST_BYTES {
            file.set_len(0)?;
        }
        commit(&mut file, &entry)?;
        tally.add(1)?;
        sleep(every - (now() - began), order.until);
    }
    Ok(())
}

#[inline(never)]
fn commit(file: &mut File, entry: &[u8]) -> io::Result<()> {
    file.write_all(entry)?;
    file.sync_all()
}
