//! The time around a window that is over: what changed in it, and its course, from half an hour before the window to half an hour after it.
//!
//! Blocks are read once for both, one by one, and left behind: an hour of them takes the memory of one. What is kept of them are sums for
//! each slice, so a picture of an hour costs little more than reading it.

mod grid;
mod sums;
mod tasks;
#[cfg(test)]
mod tests;

use self::grid::{Grid, Stretch};
use super::changes::{Comparing, part};
use super::time::{HistoryFile, Past, Span, interval};
use crate::watch::TAIL;
use rdiag_history::{read_block, read_tail};
use rdiag_kernel::host::Zone;
use rdiag_model::report::{Around, ChangeMark, Changes};

/// What changed around a window, and its course, by the files of the recorder in their order; `span` is how far is looked. No changes if
/// nothing was recorded, and no course if nothing beside the window was.
#[must_use]
pub fn around<'f>(
    files: impl Iterator<Item = &'f HistoryFile>,
    (span, window): (Span, Span),
    zone: &Zone,
) -> (Option<Changes>, Option<Around>) {
    let (mut comparing, mut grid) = (Comparing::new(span, zone), Grid::new(span, window));
    let mut every: Option<(f64, f64)> = None;
    for file in files {
        let read = if file.name == TAIL { read_tail(&file.bytes) } else { read_block(&file.bytes) };
        let Ok((block, damage)) = read else { continue };
        let Some(part) = part(&block) else { continue };
        if part.to < span.from || part.from > span.to {
            continue;
        }
        comparing.add(&block, part, !damage.is_empty());
        let header = &block.header;
        let (least, most) = every.unwrap_or((header.interval_seconds, header.interval_seconds));
        every = Some((least.min(header.interval_seconds), most.max(header.interval_seconds)));
        grid.add(&Stretch {
            part,
            collectors: &block.collectors,
            host: &header.host,
            interval_seconds: header.interval_seconds,
            holes: &[],
        });
    }
    let changes = comparing.told(window);
    let source = match every {
        Some((least, most)) if most > least => {
            format!("recorder, samples every {} to {}", interval(least), interval(most))
        }
        every => format!("recorder, a sample every {}", interval(every.map_or(0.0, |(least, _)| least))),
    };
    let around = grid.told(source, zone).map(|around| with_marks(around, changes.as_ref()));
    (changes, around)
}

/// The course alone, from a longer time that another program recorded.
#[must_use]
pub fn around_elsewhere(past: &Past, (span, window): (Span, Span), zone: &Zone) -> Option<Around> {
    let longer = past.recording.windows.first()?;
    let mut grid = Grid::new(span, window);
    let ends = past.began.saturating_add((longer.seconds * 1e6) as i64);
    grid.add(&Stretch {
        part: Span { from: past.began, to: ends },
        collectors: &longer.collectors,
        host: &past.recording.host,
        interval_seconds: longer.interval_seconds,
        holes: &past.holes,
    });
    let name = past.origin.name;
    let source = match past.origin.means_over {
        Some(seconds) => format!("{name}, means over {}", interval(seconds)),
        None => format!("{name}, a sample every {}", interval(longer.interval_seconds)),
    };
    grid.told(source, zone)
}

/// With the changes that lie on its axis, in the order of time.
fn with_marks(mut around: Around, changes: Option<&Changes>) -> Around {
    let all = changes.iter().flat_map(|changes| changes.changes.iter().enumerate());
    let marks = all.map(|(at, change)| ChangeMark { seconds: change.seconds, kind: change.kind, change: at });
    let axis = around.axis();
    around.marks = marks.filter(|mark| (axis.from..=axis.until).contains(&mark.seconds)).collect();
    around.marks.sort_by(|a, b| a.seconds.total_cmp(&b.seconds));
    around
}
