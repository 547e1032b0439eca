//! Copying a file that is in the page cache: with system calls or in mapped memory, a block at a time.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::FileExt as _;
use std::path::Path;

use super::kinds::CopyKind;
use super::process::{Order, Tally, now, sleep};
use rdiag_own::Mapping;

const MIB: usize = 1 << 20;

/// Copies until the time is over, and counts the MiB.
pub(super) fn copy_again_and_again(
    order: &Order,
    how: CopyKind,
    file_mib: u32,
    block_bytes: u32,
    every: f64,
) -> io::Result<()> {
    let pair = Pair::new(&order.scratch, &order.name(), file_mib)?;
    let mut tally = Tally::new(order)?;
    while now() < order.until {
        let began = now();
        pair.copy(how, block_bytes as usize)?;
        tally.add(u64::from(file_mib))?;
        sleep(every - (now() - began), order.until);
    }
    Ok(())
}

/// Two files of one size, the first one full.
pub(crate) struct Pair {
    from: File,
    to: File,
    bytes: usize,
}

impl Pair {
    /// Makes them in a folder, with names that begin with this one.
    pub(crate) fn new(folder: &Path, name: &str, file_mib: u32) -> io::Result<Self> {
        let bytes = file_mib as usize * MIB;
        let open = |which: &str| {
            let place = folder.join(format!("{name}.{which}"));
            OpenOptions::new().read(true).write(true).create_new(true).open(place)
        };
        let (from, to) = (open("in")?, open("out")?);
        let piece = vec![0x5a_u8; MIB];
        for number in 0..u64::from(file_mib) {
            from.write_all_at(&piece, number * MIB as u64)?;
        }
        to.set_len(bytes as u64)?;
        Ok(Self { from, to, bytes })
    }

    /// Copies all of it once.
    pub(crate) fn copy(&self, how: CopyKind, block_bytes: usize) -> io::Result<()> {
        match how {
            CopyKind::Calls => self.copy_by_calls(block_bytes),
            CopyKind::Mapped => self.copy_in_memory(block_bytes),
        }
    }

    #[inline(never)]
    fn copy_by_calls(&self, block_bytes: usize) -> io::Result<()> {
        let mut block = vec![0_u8; block_bytes];
        let mut at = 0;
        while at < self.bytes as u64 {
            let count = self.from.read_at(&mut block, at)?;
            self.to.write_all_at(block.get(..count).unwrap_or_default(), at)?;
            at += count.max(1) as u64;
        }
        Ok(())
    }

    /// The mappings are made anew each time, as a copying program does, so each page is met for the first time again.
    #[inline(never)]
    fn copy_in_memory(&self, block_bytes: usize) -> io::Result<()> {
        let from = Mapping::of(&self.from, self.bytes, false)?;
        let to = Mapping::of(&self.to, self.bytes, true)?;
        let mut at = 0;
        while at < self.bytes {
            to.copy_from(&from, at, block_bytes);
            at += block_bytes;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_ways_copy_every_byte() {
        for (how, block) in [(CopyKind::Calls, 65536), (CopyKind::Mapped, 4096), (CopyKind::Mapped, 1 << 20)] {
            let folder = tempfile::tempdir().unwrap();
            let pair = Pair::new(folder.path(), "x", 3).unwrap();
            pair.copy(how, block).unwrap();
            let read =
                |which: &str| rdiag_kernel::host::files::read_named(&folder.path().join(which), 4 << 20).unwrap();
            assert!(read("x.in").len() == 3 << 20 && read("x.in") == read("x.out"), "{how:?}");
        }
    }
}
