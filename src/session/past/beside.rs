//! What is rarely read: capacities once a minute, some tables once a block, and what is expensive less often still. A time in which
//! none of that was read has what was read last before it, and a counter what was read on either side, as long as the host was not booted,
//! did not sleep, and it is not old. Such a reading keeps its time, below 0 or beyond the end of the window, and each finding that rests on
//! it says how far away it is.

use std::collections::{BTreeMap, BTreeSet};

use super::join::is_of_means;
use super::pick::{Picked, ROUNDING, continues, slept};
use super::time::Piece;
use rdiag_collectors::{self as collectors, Cadence};
use rdiag_history::Header;
use rdiag_model::recording::{CollectorRecord, Number, Series};
use rdiag_model::{Reason, SeriesKind, Unavailable, Window, quantity};

/// A reading that is further from a time tells nothing of it, in seconds.
pub const NEAR: f64 = 900.0;

/// Which samples of a block are readings of a series. A collector is made for a window of some seconds: what changes over hours is read
/// once in it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Reads {
    /// Each one; what is not there was not there.
    Each,
    /// The one of this number.
    Once(usize),
    /// Those with an answer.
    Answered,
}

/// Series that not every sample reads, by the beginning of their names.
const NOT_EACH: &[(&str, Reads)] = &[
    ("deleted_files.", Reads::Once(0)),
    ("file_handles.limit", Reads::Once(0)),
    ("file_handles.open", Reads::Once(0)),
    ("filesystems.", Reads::Answered),
    ("held_descriptors.", Reads::Once(0)),
    ("kernel_tables.", Reads::Once(0)),
    ("memory_maps.", Reads::Once(1)),
    ("user_tasks.", Reads::Once(0)),
];

fn reads(series: &str) -> Reads {
    NOT_EACH.iter().find(|(prefix, _)| series.starts_with(prefix)).map_or(Reads::Each, |(_, reads)| *reads)
}

/// The blocks of a time, and those before and after it that are not far.
pub(super) struct Beside<'p> {
    blocks: Vec<&'p Piece>,
    /// On the monotonic clock.
    begin: f64,
    seconds: f64,
}

impl<'p> Beside<'p> {
    pub(super) fn of(pieces: &'p [Piece], picked: &Picked<'p>) -> Self {
        let header = |piece: &'p Piece| &piece.block.header;
        let parts: Vec<&'p Piece> = picked.parts.iter().map(|part| part.piece).collect();
        let at =
            |part: Option<&&'p Piece>| part.and_then(|part| pieces.iter().position(|piece| std::ptr::eq(piece, *part)));
        let (first, last) = (picked.parts.first(), picked.parts.last());
        let begin = first.map_or(0.0, |part| header(part.piece).monotonic + part.from);
        let end = last.map_or(begin, |part| header(part.piece).monotonic + part.to);
        let mut blocks = Vec::new();
        let mut next = parts.first().copied();
        for piece in pieces.get(..at(parts.first()).unwrap_or(0)).unwrap_or_default().iter().rev() {
            let is_near = header(piece).monotonic + header(piece).seconds >= begin - NEAR;
            if !is_near || !next.is_some_and(|next| goes_on(header(piece), header(next))) {
                break;
            }
            blocks.insert(0, piece);
            next = Some(piece);
        }
        blocks.extend(&parts);
        let mut before = parts.last().copied();
        for piece in at(parts.last()).and_then(|at| pieces.get(at + 1..)).unwrap_or_default() {
            let is_near = header(piece).monotonic <= end + NEAR;
            if !is_near || !before.is_some_and(|before| goes_on(header(before), header(piece))) {
                break;
            }
            blocks.push(piece);
            before = Some(piece);
        }
        Self { blocks, begin, seconds: (end - begin).max(0.0) }
    }

    /// Adds what the window lacks; in words, if anything was added.
    pub(super) fn complete(&self, window: &mut Window) -> Option<String> {
        let (mut oldest, mut sources) = (0.0_f64, 0);
        for (id, record) in &mut window.collectors {
            let is_stretched = || self.blocks.iter().any(|piece| piece.block.header.stretched.contains_key(id));
            let is_seldom = collectors::find(id).is_some_and(|def| def.cadence == Cadence::Ends) || is_stretched();
            if !is_seldom || !record.processes.is_empty() {
                continue;
            }
            let samples = self.samples(id);
            let wanted = self.wanted(id, &samples);
            explain(record, id, &samples, &wanted);
            let age = wanted.keys().filter_map(|at| samples.get(*at)).map(|sample| -sample.time).fold(0.0, f64::max);
            if age > 0.0 {
                (oldest, sources) = (oldest.max(age), sources + 1);
            }
            enter(record, &samples, &wanted);
        }
        (sources > 0).then(|| {
            let source = if sources == 1 { "source" } else { "sources" };
            format!(
                "Of {sources} {source} that the recorder reads once a minute or less often, the last reading before this time is judged, \
                 {} old at most; the findings say how old",
                quantity::seconds(oldest)
            )
        })
    }

    /// All samples of a collector, in order.
    fn samples(&self, id: &str) -> Vec<Sample<'p>> {
        let mut all = Vec::new();
        for piece in self.blocks.iter().filter(|piece| !is_of_means(id, &piece.block.header)) {
            let Some(record) = piece.block.collectors.get(id) else { continue };
            let time = |time: &f64| time + piece.block.header.monotonic - self.begin;
            let times = record.times.iter().map(time).enumerate();
            let sample = |(at, time)| {
                let has_answer = record.series.iter().any(|series| value(series, at).is_some());
                Sample { record, at, time, place: self.place(time), has_answer }
            };
            all.extend(times.map(sample));
        }
        all
    }

    fn place(&self, time: f64) -> Place {
        match time {
            time if time < -NEAR || time > self.seconds + NEAR => Place::Far,
            time if time < -ROUNDING => Place::Before,
            time if time > self.seconds + ROUNDING => Place::After,
            _ => Place::Inside,
        }
    }

    /// The samples that are to be added, by their number, and for which series.
    fn wanted(&self, id: &str, samples: &[Sample<'p>]) -> BTreeMap<usize, BTreeSet<&'p str>> {
        let mut wanted: BTreeMap<usize, BTreeSet<&'p str>> = BTreeMap::new();
        // A reading that found nothing has no series, and says why.
        let mut names: BTreeMap<&'p str, bool> = prefixes(id).map(|prefix| (prefix, false)).collect();
        // Samples of one block have its series.
        for block in samples.chunk_by(|one, next| std::ptr::eq(one.record, next.record)) {
            let counts = |series: &'p Series| (series.name.as_str(), series.kind != SeriesKind::Gauge);
            let all = block.first().map_or(&[][..], |sample| &sample.record.series);
            names.extend(all.iter().filter(|series| !is_identity(&series.name)).map(counts));
        }
        for (name, is_counter) in names {
            let reads = reads(name);
            let readings = |place| {
                let of_place =
                    move |(_, sample): &(usize, &Sample<'p>)| sample.place == place && sample.is_reading(reads);
                samples.iter().enumerate().filter(of_place).map(|(at, _)| at)
            };
            let lacking =
                usize::from(is_counter) + 1 - readings(Place::Inside).count().min(1 + usize::from(is_counter));
            let before = readings(Place::Before).next_back().filter(|_| lacking > 0);
            let still = lacking - usize::from(before.is_some());
            // What was so later says nothing of a level.
            let after = readings(Place::After).next().filter(|_| is_counter && still > 0);
            for at in before.into_iter().chain(after) {
                wanted.entry(at).or_default().insert(name);
            }
        }
        wanted
    }
}

/// Whether a reading of a block holds in the next one.
fn goes_on(before: &Header, next: &Header) -> bool {
    continues(before, next) && slept(before, next).is_none()
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Place {
    Before,
    Inside,
    After,
    Far,
}

/// A sample of a block; its time counts from the beginning of the window.
struct Sample<'p> {
    record: &'p CollectorRecord,
    at: usize,
    time: f64,
    place: Place,
    /// Whether any series has a value then.
    has_answer: bool,
}

impl Sample<'_> {
    fn is_reading(&self, reads: Reads) -> bool {
        match reads {
            Reads::Each => true,
            Reads::Once(at) => self.at == at,
            Reads::Answered => self.has_answer,
        }
    }
}

fn value(series: &Series, at: usize) -> Option<Number> {
    series.values.get(at).copied().flatten()
}

fn is_identity(name: &str) -> bool {
    name.ends_with(".identity")
}

/// Says of what was read neither in the window nor near it that it is so: nothing else is known of it.
fn explain(record: &mut CollectorRecord, id: &str, samples: &[Sample<'_>], wanted: &BTreeMap<usize, BTreeSet<&str>>) {
    if record.unavailable.is_some() {
        return;
    }
    let gap = || {
        let away = quantity::seconds(NEAR);
        let why = format!("the recorder read {id} neither in this time nor in the {away} before it");
        Unavailable::new(Reason::ShortWindow, why).with_remedy("ask for a longer time with --last")
    };
    if wanted.is_empty() && samples.iter().all(|sample| matches!(sample.place, Place::After | Place::Far)) {
        record.unavailable = Some(gap());
        return;
    }
    let is_inside =
        |prefix: &str| samples.iter().any(|sample| sample.place == Place::Inside && sample.is_reading(reads(prefix)));
    let is_added = |prefix: &str| wanted.values().any(|names| names.contains(prefix));
    for prefix in prefixes(id).filter(|prefix| !is_inside(prefix) && !is_added(prefix)) {
        if !record.gaps.keys().any(|key| key.starts_with(prefix) || prefix.starts_with(key.as_str())) {
            record.gaps.insert(prefix.to_owned(), gap());
        }
    }
}

/// How the names of those series of a collector begin that not every sample reads.
fn prefixes(id: &str) -> impl Iterator<Item = &'static str> {
    let is_own = move |prefix: &&str| prefix.split_once('.').is_some_and(|(owner, _)| owner == id);
    NOT_EACH.iter().map(|(prefix, _)| *prefix).filter(is_own)
}

/// Adds samples to a record, with the names and the gaps that belong to them.
fn enter(record: &mut CollectorRecord, samples: &[Sample<'_>], wanted: &BTreeMap<usize, BTreeSet<&str>>) {
    if wanted.is_empty() {
        return;
    }
    let times = std::mem::take(&mut record.times);
    let added = wanted.iter().filter_map(|(at, names)| Some((samples.get(*at)?, names)));
    let (before, after): (Vec<_>, Vec<_>) = added.partition(|(sample, _)| sample.place == Place::Before);
    let own = times.len();
    record.times.extend(before.iter().map(|(sample, _)| sample.time));
    record.times.extend(times);
    record.times.extend(after.iter().map(|(sample, _)| sample.time));
    let all = record.times.len();
    let mut series: BTreeMap<(String, Option<String>), Series> = BTreeMap::new();
    for mut one in std::mem::take(&mut record.series) {
        one.values.splice(0..0, std::iter::repeat_n(None, before.len()));
        one.values.resize(all, None);
        series.insert((one.name.clone(), one.instance.clone()), one);
    }
    let places = (0..before.len()).chain(before.len() + own..all);
    for (place, (sample, names)) in places.zip(before.iter().chain(&after)) {
        for one in &sample.record.series {
            let value = value(one, sample.at).filter(|_| names.contains(one.name.as_str()) || is_identity(&one.name));
            let Some(value) = value else { continue };
            let key = (one.name.clone(), one.instance.clone());
            let known = series.entry(key).or_insert_with(|| Series { values: vec![None; all], ..one.clone() });
            if let Some(slot) = known.values.get_mut(place) {
                *slot = Some(value);
            }
        }
        for (key, gap) in &sample.record.gaps {
            record.gaps.entry(key.clone()).or_insert_with(|| gap.clone());
        }
        for (instance, labels) in &sample.record.labels {
            let known = record.labels.entry(instance.clone()).or_default();
            for (key, value) in labels {
                known.entry(key.clone()).or_insert_with(|| value.clone());
            }
        }
        if record.unavailable.is_none() {
            record.unavailable.clone_from(&sample.record.unavailable);
        }
    }
    record.series = series.into_values().collect();
}

#[cfg(test)]
mod tests;
