//! A program that takes memory for each request, writes to part of it, and gives it back.

use std::hint::black_box;
use std::io;

use super::kinds::MemoryFrom;
use super::process::{Order, Tally, now, sleep};
use rdiag_own::Pages;

/// What is taken from the heap at a time: less than what the C library would map (128 KiB).
const BLOCK_BYTES: usize = 64 * 1024;
/// The smallest pages of all processors that rdiag runs on.
const PAGE_BYTES: usize = 4096;

/// Serves requests until the time is over, and counts them.
pub(super) fn serve_from_memory(order: &Order, from: MemoryFrom, mib: u32, written: u32, every: f64) -> io::Result<()> {
    let bytes = (mib as usize) << 20;
    let written = bytes / 100 * written as usize;
    let mut tally = Tally::new(order)?;
    // Its place is taken once, so that a request takes nothing but what it asks for.
    let mut blocks = Vec::with_capacity(bytes / BLOCK_BYTES);
    while now() < order.until {
        let began = now();
        match from {
            MemoryFrom::Heap => fill_blocks(&mut blocks, bytes, written),
            MemoryFrom::Pages => fill_pages(bytes, written, false)?,
            MemoryFrom::HugePages => fill_pages(bytes, written, true)?,
        }
        tally.add(1)?;
        sleep(every - (now() - began), order.until);
    }
    Ok(())
}

/// What is given back last lies at the end of the heap, which the C library then returns to the kernel.
#[inline(never)]
fn fill_blocks(blocks: &mut Vec<Vec<u8>>, bytes: usize, written: usize) {
    let mut left = written;
    for _ in 0..bytes / BLOCK_BYTES {
        let mut block = Vec::with_capacity(BLOCK_BYTES);
        let here = left.min(BLOCK_BYTES);
        left -= here;
        for page in block.spare_capacity_mut().iter_mut().take(here).step_by(PAGE_BYTES) {
            page.write(1_u8);
        }
        blocks.push(black_box(block));
    }
    while blocks.pop().is_some() {}
}

#[inline(never)]
fn fill_pages(bytes: usize, written: usize, huge: bool) -> io::Result<()> {
    Pages::take(bytes, huge)?.touch(written);
    Ok(())
}
