//! A program that goes through a table in its memory, page by page, again and again.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

use super::kinds::TableOf;
use super::process::{Order, Tally, now, sleep};
use super::reads;
use rdiag_own::{Mapping, Pages};

/// The smallest pages of all processors that rdiag runs on.
const PAGE_BYTES: usize = 4096;
/// From one row of a file to the next, in pages: so far apart that the kernel reads nothing ahead, and a prime, so that each is met once.
const STRIDE: usize = 4099;
/// Pages between two looks at the clock.
const CHECKED_EVERY: usize = 64;

/// Where the swap space of its own is.
#[must_use]
pub fn swap_file(scratch: &Path) -> PathBuf {
    scratch.join("space")
}

/// Makes a table of so many MiB and goes through it, one page after the other, once in a while; counts how often it came through.
pub(super) fn look_through(order: &Order, of: TableOf, mib: u32, every: f64) -> io::Result<()> {
    let bytes = (mib as usize) << 20;
    let table = match of {
        TableOf::Memory => {
            let mut pages = Pages::take(bytes, false)?;
            pages.touch(bytes);
            Table::Memory(pages)
        }
        TableOf::File => {
            let place = order.scratch.join("table");
            reads::write_file(&place, mib)?;
            Table::File(Mapping::of(&File::options().read(true).open(place)?, bytes, false)?)
        }
    };
    let mut tally = Tally::new(order)?;
    while now() < order.until {
        let began = now();
        look_at_each_row(&table, bytes, order.until);
        tally.add(1)?;
        sleep(every - (now() - began), order.until);
    }
    Ok(())
}

enum Table {
    Memory(Pages),
    File(Mapping),
}

#[inline(never)]
fn look_at_each_row(table: &Table, bytes: usize, until: f64) {
    let mut sum = 0_u64;
    let rows = bytes / PAGE_BYTES;
    for number in 0..rows {
        sum += u64::from(match table {
            Table::Memory(pages) => pages.look(number * PAGE_BYTES),
            Table::File(mapping) => mapping.look(number * STRIDE % rows * PAGE_BYTES),
        });
        if number % CHECKED_EVERY == 0 && now() >= until {
            break;
        }
    }
    std::hint::black_box(sum);
}
