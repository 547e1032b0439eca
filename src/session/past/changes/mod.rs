//! What changed around a time that is over: reboots, the clock, OOM kills, processes that began and ended, mounts, settings. Told by comparing
//! the recorder's blocks one after the other; where these say nothing, nothing is said.
//!
//! Blocks are read one by one and left behind, so an hour of them takes the memory of one and of what is known of its processes.

mod host;
mod kills;
mod settings;
mod tasks;
#[cfg(test)]
mod tests;

use super::{HistoryFile, Span};
use crate::history::{Block, read_block, read_tail};
use crate::session::TAIL;
use rdiag_kernel::host::Zone;
use rdiag_model::report::{Change, ChangeKind, Changes};

/// Seconds around the window that are looked at, on either side.
pub const AROUND: f64 = 1800.0;

/// Changes that are reported.
const MOST: usize = 20;
/// Changes that are kept until the largest are known: files may come from anywhere.
const MOST_KNOWN: usize = 5000;

/// A change, before it is put into words of a report.
#[derive(Debug, Clone, PartialEq)]
struct Seen {
    /// Microseconds since 1970.
    at: i64,
    kind: ChangeKind,
    subject: String,
    text: String,
    /// What stays when there are too many: more is more.
    weight: f64,
}

/// Weight of what concerns the whole host.
const OF_HOST: f64 = 1e9;

/// What changed around a window, by the files of the recorder in their order; `span` is how far is looked. None if nothing was recorded.
#[must_use]
pub fn changes<'f>(
    files: impl Iterator<Item = &'f HistoryFile>,
    (span, window): (Span, Span),
    zone: &Zone,
) -> Option<Changes> {
    let mut known: Option<Span> = None;
    let (mut seen, mut tasks) = (Vec::new(), tasks::Tasks::default());
    let mut kills = kills::Kills::default();
    let mut before: Option<Before> = None;
    for file in files {
        let read = if file.name == TAIL { read_tail(&file.bytes) } else { read_block(&file.bytes) };
        let Ok((block, damage)) = read else { continue };
        let Some(ends) = ends(&block) else { continue };
        let part = Span { from: wall(&block, 0.0), to: wall(&block, ends) };
        if part.to < span.from || part.from > span.to {
            continue;
        }
        let now = Before::of(&block, part);
        if let Some(before) = &before {
            seen.extend(host::between(before, &now, zone));
            seen.extend(settings::between(before, &now, zone));
        } else {
            seen.extend(host::booted(&now));
        }
        kills.add(&block, &mut seen);
        // A damaged table would look as if all processes had ended.
        tasks.add(&block, before.as_ref().map(|before| before.part.to), !damage.is_empty());
        seen.truncate(MOST_KNOWN);
        let so_far = known.get_or_insert(part);
        *so_far = Span { from: so_far.from.min(part.from), to: so_far.to.max(part.to) };
        before = Some(now);
    }
    let known = known?;
    let looked = Span { from: known.from.max(span.from), to: known.to.min(span.to) };
    seen.extend(tasks.seen(looked, zone));
    // A boot is known by the block after it, even if nothing was recorded before.
    seen.retain(|change| (span.from..=looked.to).contains(&change.at));
    Some(told(seen, looked, window, zone))
}

/// The largest changes.
fn told(mut seen: Vec<Seen>, looked: Span, window: Span, zone: &Zone) -> Changes {
    seen.sort_by(|a, b| b.weight.total_cmp(&a.weight).then(a.at.cmp(&b.at)));
    let left_out = seen.len().saturating_sub(MOST);
    seen.truncate(MOST);
    let change = |seen: Seen| Change {
        at: zone.instant(seen.at),
        shown: zone.time_of_day(seen.at),
        seconds: seen.at.saturating_sub(window.from) as f64 * 1e-6,
        kind: seen.kind,
        subject: seen.subject,
        text: seen.text,
    };
    Changes {
        span: format!("{} to {}", zone.shown(looked.from), zone.time_of_day(looked.to)),
        changes: seen.into_iter().map(change).collect(),
        left_out,
    }
}

/// What of a block is compared with the next one.
#[derive(Debug)]
struct Before {
    part: Span,
    header: crate::history::Header,
    settings: settings::Settings,
}

impl Before {
    fn of(block: &Block, part: Span) -> Self {
        Self { part, header: block.header.clone(), settings: settings::Settings::of(block) }
    }
}

/// The wall clock at a second of a block, in microseconds since 1970.
fn wall(block: &Block, seconds: f64) -> i64 {
    block.header.wall_micros.saturating_add((seconds * 1e6) as i64)
}

/// The second of its last sample; none if it has no sample.
fn ends(block: &Block) -> Option<f64> {
    let last = block.collectors.values().filter_map(|record| record.times.last().copied());
    last.reduce(f64::max)
}

/// A name whose length is not trusted.
fn short(text: &str) -> String {
    const LONGEST: usize = 80;
    if text.chars().count() <= LONGEST {
        return text.to_owned();
    }
    text.chars().take(LONGEST - 1).chain(['…']).collect()
}
