//! A program that takes many small pieces of memory for each request.

use std::hint::black_box;
use std::io;

use super::process::{Order, Tally, now};

/// Sizes of the pieces, in bytes.
const PIECES: [usize; 4] = [48, 96, 200, 400];

/// Serves requests without a rest until the time is over, and counts them; each is one small write to a file.
pub(super) fn serve_from_pieces(order: &Order, pieces: u32) -> io::Result<()> {
    let mut tally = Tally::new(order)?;
    while now() < order.until {
        serve_one(pieces);
        tally.add(1)?;
    }
    Ok(())
}

#[inline(never)]
fn serve_one(pieces: u32) {
    for bytes in PIECES.iter().cycle().take(pieces as usize) {
        drop(black_box(Vec::<u8>::with_capacity(*bytes)));
    }
}
