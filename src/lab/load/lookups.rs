//! A program that looks for files where they are not.

use std::fs::File;
use std::io::{self, Write as _};

use super::kinds::Sought;
use super::process::{Order, Tally, now, sleep};

/// Where it looks for what it does not find.
const PLACES: [&str; 6] = ["etc", "share", "local", "vendor", "legacy", "opt"];

/// Looks for its files before each piece of work until the time is over, and counts what it did not find.
pub(super) fn look_for_files(order: &Order, sought: Sought, every: f64) -> io::Result<()> {
    let found = order.scratch.join("settings.ini");
    File::options().write(true).create_new(true).open(&found)?.write_all(b"level=1\n")?;
    let (everywhere, once) = match sought {
        Sought::Licence => ("licence.key", "locale.mo"),
        Sought::Locale => ("locale.mo", "licence.key"),
    };
    let mut tally = Tally::new(order)?;
    while now() < order.until {
        let began = now();
        // The one that is there is opened most often, so that it takes a look at the results to tell.
        for _ in 0..2 * PLACES.len() {
            drop(open_file(&found));
        }
        let mut missing =
            PLACES.iter().filter(|place| open_file(&order.scratch.join(place).join(everywhere)).is_err()).count();
        missing += usize::from(open_file(&order.scratch.join(once)).is_err());
        tally.add(missing as u64)?;
        sleep(every - (now() - began), order.until);
    }
    Ok(())
}

#[inline(never)]
fn open_file(place: &std::path::Path) -> io::Result<File> {
    File::options().read(true).open(place)
}
