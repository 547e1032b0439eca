//! What changed around a time that is over: reboots, the clock, OOM kills, processes that began and ended, mounts, settings. Told by
//! comparing the recorder's blocks one after the other; where these say nothing, nothing is said.
//!
//! Blocks come one by one (`src/session/past/around/`) and are left behind, so an hour of them takes the memory of one and of what is known
//! of its processes.

mod host;
mod kills;
mod settings;
mod tasks;
#[cfg(test)]
mod tests;

use super::time::Span;
use rdiag_history::Block;
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

/// What is known so far, block by block.
pub(super) struct Comparing<'z> {
    /// How far is looked.
    span: Span,
    zone: &'z Zone,
    known: Option<Span>,
    seen: Vec<Seen>,
    tasks: tasks::Tasks,
    kills: kills::Kills,
    before: Option<Before>,
}

impl<'z> Comparing<'z> {
    pub(super) fn new(span: Span, zone: &'z Zone) -> Self {
        let (tasks, kills) = (tasks::Tasks::default(), kills::Kills::default());
        Self { span, zone, known: None, seen: Vec::new(), tasks, kills, before: None }
    }

    /// Enters a block, and the time that it covers; they come in their order.
    pub(super) fn add(&mut self, block: &Block, part: Span, is_damaged: bool) {
        let Self { zone, known, seen, tasks, kills, before, .. } = self;
        let now = Before::of(block, part);
        if let Some(before) = before {
            seen.extend(host::between(before, &now, zone));
            seen.extend(settings::between(before, &now, zone));
        } else {
            seen.extend(host::booted(&now));
        }
        kills.add(block, seen);
        // A damaged table would look as if all processes had ended.
        tasks.add(block, before.as_ref().map(|before| before.part.to), is_damaged);
        seen.truncate(MOST_KNOWN);
        let so_far = known.get_or_insert(part);
        *so_far = Span { from: so_far.from.min(part.from), to: so_far.to.max(part.to) };
        *before = Some(now);
    }

    /// What changed around a window; none if nothing was recorded.
    pub(super) fn told(self, window: Span) -> Option<Changes> {
        let Self { span, zone, mut seen, tasks, .. } = self;
        let known = self.known?;
        let looked = Span { from: known.from.max(span.from), to: known.to.min(span.to) };
        seen.extend(tasks.seen(looked, zone));
        // A boot is known by the block after it, even if nothing was recorded before.
        seen.retain(|change| (span.from..=looked.to).contains(&change.at));
        Some(told(seen, looked, window, zone))
    }
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
    header: rdiag_history::Header,
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

/// From when to when a block has samples; none if it has none.
pub(super) fn part(block: &Block) -> Option<Span> {
    let last = block.collectors.values().filter_map(|record| record.times.last().copied());
    Some(Span { from: wall(block, 0.0), to: wall(block, last.reduce(f64::max)?) })
}

/// A name whose length is not trusted.
pub(super) fn short(text: &str) -> String {
    const LONGEST: usize = 80;
    if text.chars().count() <= LONGEST {
        return text.to_owned();
    }
    text.chars().take(LONGEST - 1).chain(['…']).collect()
}
