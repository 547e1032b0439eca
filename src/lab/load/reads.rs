//! Threads that read from a disk, each block anew.

use std::io::{self, Write as _};
use std::os::unix::fs::{FileExt as _, OpenOptionsExt as _};
use std::sync::Arc;

use rustix::fs::OFlags;

use super::process::{Order, STACK_BYTES, now};
use crate::chance::Chance;

/// What reads past the page cache must be aligned to; no common disk has larger blocks.
const ALIGNMENT: usize = 4096;

/// Writes a file and reads it at random places until the time is over.
pub(super) fn read_at_random(order: &Order, file_mib: u32, block_bytes: u32, threads: u32) -> io::Result<()> {
    let place = order.scratch.join("segments");
    write_file(&place, file_mib)?;
    let direct = OFlags::DIRECT.bits().cast_signed();
    let file = Arc::new(std::fs::OpenOptions::new().read(true).custom_flags(direct).open(&place)?);
    let blocks = u64::from(file_mib) * 1024 * 1024 / u64::from(block_bytes.max(1));
    let until = order.until;
    let started: io::Result<Vec<_>> = (0..threads)
        .map(|number| {
            let file = Arc::clone(&file);
            let read = move || read_random_blocks(&file, block_bytes as usize, blocks, u64::from(number), until);
            std::thread::Builder::new().name(order.name()).stack_size(STACK_BYTES).spawn(read)
        })
        .collect();
    started?.into_iter().try_for_each(|thread| thread.join().unwrap_or(Ok(())))
}

/// Real bytes: holes of a file are read from no disk.
pub(super) fn write_file(place: &std::path::Path, file_mib: u32) -> io::Result<()> {
    let mut file = std::fs::OpenOptions::new().write(true).create_new(true).open(place)?;
    let mut chance = Chance::new(1);
    let piece: Vec<u8> = (0..1 << 20).map(|_| chance.below(256) as u8).collect();
    for _ in 0..file_mib {
        file.write_all(&piece)?;
    }
    file.sync_all()
}

#[inline(never)]
fn read_random_blocks(file: &std::fs::File, bytes: usize, blocks: u64, seed: u64, until: f64) -> io::Result<()> {
    let mut chance = Chance::new(seed);
    let mut memory = vec![0_u8; bytes + ALIGNMENT];
    let start = memory.as_ptr().align_offset(ALIGNMENT);
    let Some(buffer) = memory.get_mut(start..start + bytes) else { return Ok(()) };
    while now() < until {
        let block = chance.below(blocks as usize) as u64;
        file.read_exact_at(buffer, block * bytes as u64)?;
    }
    Ok(())
}
