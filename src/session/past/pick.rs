//! Which blocks cover a time. A block knows its boot, and the clocks as they were when it began: those of one boot, between which the wall
//! clock was not set, belong together. While a host sleeps the wall clock and that of the boot go on, and the monotonic one does not.

use super::time::{Piece, Span};
use rdiag_history::{Block, Header};
use rdiag_kernel::host::Zone;
use rdiag_model::quantity;

/// A wall clock that is off by less was not set.
const SAME_CLOCK: f64 = 1.0;

/// Times are kept to a microsecond, so the last sample may seem to come after the end of its block.
pub(super) const ROUNDING: f64 = 1e-6;

/// A block, and the part of the time that it covers: seconds of its own.
#[derive(Debug)]
pub(super) struct Part<'p> {
    pub(super) piece: &'p Piece,
    pub(super) from: f64,
    pub(super) to: f64,
}

impl Part<'_> {
    /// Whether a time of the block is within.
    pub(super) fn holds(&self, time: f64) -> bool {
        (self.from - ROUNDING..=self.to + ROUNDING).contains(&time)
    }
}

/// The blocks of a time.
#[derive(Debug)]
pub(super) struct Picked<'p> {
    pub(super) parts: Vec<Part<'p>>,
    pub(super) newest: &'p Block,
    /// What is missing, in words.
    pub(super) notes: Vec<String>,
}

fn wall(block: &Block, seconds: f64) -> i64 {
    block.header.wall_micros.saturating_add((seconds * 1e6) as i64)
}

/// Whether a block is of the same boot as one before it, and no clock was set between them.
pub(super) fn continues(before: &Header, next: &Header) -> bool {
    let booted = |header: &Header| header.wall_micros as f64 * 1e-6 - header.boottime;
    before.boot == next.boot && (booted(before) - booted(next)).abs() < SAME_CLOCK && next.monotonic >= before.monotonic
}

/// Seconds that the host slept between the beginnings of two blocks; none if it did not.
pub(super) fn slept(before: &Header, next: &Header) -> Option<f64> {
    let in_all = |header: &Header| header.boottime - header.monotonic;
    // A block may come from anywhere.
    Some(in_all(next) - in_all(before)).filter(|seconds| *seconds > SAME_CLOCK && seconds.is_finite())
}

/// The time within a block that is asked for; none if it tells nothing of it.
fn part<'p>(piece: &'p Piece, span: Span) -> Option<Part<'p>> {
    let header = &piece.block.header;
    let within = |micros: i64| (micros.saturating_sub(header.wall_micros)) as f64 * 1e-6;
    let (from, to) = (within(span.from).max(0.0), within(span.to).min(header.seconds));
    let part = Part { piece, from, to };
    let any = piece.block.collectors.values().any(|record| record.times.iter().any(|time| part.holds(*time)));
    any.then_some(part)
}

/// The blocks that tell most of a time, and what the others are; none if there is none.
pub(super) fn pick<'p>(pieces: &'p [Piece], span: Span, zone: &Zone) -> Option<Picked<'p>> {
    let mut groups: Vec<Vec<Part<'p>>> = Vec::new();
    for part in pieces.iter().filter_map(|piece| part(piece, span)) {
        match groups.last_mut() {
            Some(group)
                if group.last().is_some_and(|last| continues(&last.piece.block.header, &part.piece.block.header)) =>
            {
                group.push(part)
            }
            _ => groups.push(vec![part]),
        }
    }
    let length = |group: &[Part<'_>]| group.iter().map(|part| part.to - part.from).sum::<f64>();
    // Of two that are as long the later one.
    let best = (0..groups.len()).max_by(|a, b| {
        let of = |at: &usize| groups.get(*at).map_or(0.0, |group| length(group));
        of(a).total_cmp(&of(b))
    })?;
    let mut notes = Vec::new();
    let chosen_boot = groups.get(best)?.last()?.piece.block.header.boot.clone();
    for (at, group) in groups.iter().enumerate() {
        let (Some(first), Some(last)) = (group.first(), group.last()) else { continue };
        if at == best {
            continue;
        }
        let header = &first.piece.block.header;
        let why = if header.boot == chosen_boot { "The clock was set" } else { "The host was booted" };
        notes.push(format!(
            "{why} meanwhile: what was recorded from {} to {} is left out",
            zone.shown(wall(&first.piece.block, first.from)),
            zone.time_of_day(wall(&last.piece.block, last.to))
        ));
    }
    let parts = groups.swap_remove(best);
    notes.extend(gaps(&parts, span, zone));
    notes.extend(
        parts.iter().flat_map(|part| part.piece.damage.iter().map(move |what| format!("{}: {what}", part.piece.name))),
    );
    let newest = &parts.last()?.piece.block;
    Some(Picked { parts, newest, notes })
}

/// Times of which nothing was recorded.
fn gaps(parts: &[Part<'_>], span: Span, zone: &Zone) -> Vec<String> {
    let mut notes = Vec::new();
    let mut known_to = span.from;
    let gap = |from: i64, to: i64, interval: f64| {
        let is_one = (to.saturating_sub(from)) as f64 * 1e-6 > 2.5 * interval;
        is_one.then(|| format!("Nothing was recorded from {} to {}", zone.shown(from), zone.time_of_day(to)))
    };
    let mut interval = 5.0;
    let mut before: Option<&Part<'_>> = None;
    for part in parts {
        let begins = wall(&part.piece.block, part.from);
        interval = part.piece.block.header.recorded_interval();
        if let Some(seconds) = before.and_then(|before| slept(&before.piece.block.header, &part.piece.block.header)) {
            let length = quantity::seconds(seconds);
            notes.push(format!("The host slept for {length} before {}", zone.time_of_day(begins)));
            known_to = known_to.saturating_add((seconds * 1e6) as i64);
        }
        notes.extend(gap(known_to, begins, interval));
        known_to = wall(&part.piece.block, part.to);
        before = Some(part);
    }
    notes.extend(gap(known_to, span.to, interval));
    notes
}
