//! Slices of equal length, and what happened in each. What happened between two samples is taken to be spread evenly over the time between
//! them. What was not recorded is missing, and never 0.

use std::collections::BTreeMap;

use super::super::time::Span;
use super::sums::{STALLED, Sums};
use super::tasks::{Largest, Users};
use rdiag_history::Block;
use rdiag_kernel::host::Zone;
use rdiag_model::Facts;
use rdiag_model::recording::{CollectorRecord, Number};
use rdiag_model::report::{Around, Course, Span as Seconds, Unrecorded};

/// Lengths of a slice in seconds: the first that gives no more slices than this.
const WIDTHS: [f64; 4] = [30.0, 60.0, 120.0, 300.0];
const MOST_SLICES: usize = 240;
/// The same of the rows of a table; each is a whole number of slices.
const ROWS: [f64; 4] = [300.0, 600.0, 1800.0, 3600.0];
const MOST_ROWS: usize = 16;
/// A slice of which less was recorded says nothing: a part of it, or most of the distance of two samples, whichever is shorter.
const ENOUGH: f64 = 0.5;
const OF_SAMPLE: f64 = 0.9;

/// Parts of the CPU time that are busy, the others, and those that step back on some kernels: then nothing of them passed.
const BUSY: [&str; 5] = ["cpu_stat.user", "cpu_stat.nice", "cpu_stat.system", "cpu_stat.irq", "cpu_stat.softirq"];
const OTHERS: [&str; 3] = ["cpu_stat.idle", "cpu_stat.iowait", "cpu_stat.steal"];
const STEP_BACK: [&str; 2] = ["cpu_stat.idle", "cpu_stat.iowait"];

/// What was recorded of a stretch of time: a block, or what another program has.
pub(super) struct Stretch<'s> {
    /// Its times count from the beginning of this.
    pub(super) part: Span,
    pub(super) collectors: &'s BTreeMap<String, CollectorRecord>,
    pub(super) host: &'s Facts,
    pub(super) interval_seconds: f64,
    /// Times in which counters stand still because nothing was recorded, in order.
    pub(super) holes: &'s [(f64, f64)],
}

/// The slices.
pub(super) struct Grid {
    /// The first slice begins here, in microseconds since 1970, and so many slices before the window does.
    from: i64,
    before: usize,
    axis: Axis,
    /// Slices of a row.
    per_row: usize,
    window: Span,
    slices: Vec<Sums>,
    users: Users,
    /// The shortest distance of samples.
    every: f64,
    known: Option<Span>,
}

/// So many slices of so many seconds.
#[derive(Clone, Copy)]
pub(super) struct Axis {
    pub(super) slices: usize,
    width: f64,
}

impl Axis {
    /// The slices between two moments: which, what part of the time between them lies in each, and how many seconds.
    pub(super) fn shares(self, (from, until): (f64, f64)) -> impl Iterator<Item = (usize, f64, f64)> {
        let Self { slices, width } = self;
        let length = until - from;
        let first = (from.max(0.0) / width) as usize;
        let is_time = length > 0.0 && length.is_finite();
        let share = move |at: usize| {
            let begin = at as f64 * width;
            let seconds = until.min(begin + width) - from.max(begin);
            (seconds > 0.0).then_some((at, seconds / length, seconds))
        };
        (first..if is_time { slices } else { first }).map_while(share)
    }
}

/// Where the times of a stretch lie on the axis, which begins with the first slice.
pub(super) struct Place<'s> {
    stretch: &'s Stretch<'s>,
    offset: f64,
}

impl Place<'_> {
    pub(super) fn host(&self) -> &Facts {
        self.stretch.host
    }

    /// The length of the stretch.
    pub(super) fn seconds(&self) -> f64 {
        seconds(self.stretch.part.from, self.stretch.part.to)
    }

    /// From one sample of a collector to another, in seconds of the axis; none if that is no time, or one of which nothing was recorded.
    pub(super) fn between(&self, record: &CollectorRecord, from: usize, until: usize) -> Option<(f64, f64)> {
        let (from, until) = (*record.times.get(from)?, *record.times.get(until)?);
        let (middle, holes) = ((from + until) / 2.0, self.stretch.holes);
        let hole = holes.get(holes.partition_point(|(_, end)| *end <= middle));
        let is_hole = hole.is_some_and(|(begin, _)| *begin <= middle);
        (until > from && !is_hole).then_some((self.offset + from, self.offset + until))
    }
}

impl Grid {
    /// Slices for a span. One begins with the window, and so does a row.
    pub(super) fn new(span: Span, window: Span) -> Self {
        let total = seconds(span.from, span.to);
        let first = |widths: [f64; 4], most: usize| {
            let is_enough = |width: &f64| total / width < most as f64;
            widths.into_iter().find(is_enough).unwrap_or(widths[3])
        };
        let (width, row) = (first(WIDTHS, MOST_SLICES), first(ROWS, MOST_ROWS));
        let slices = |seconds: f64| ((seconds / width).ceil().max(0.0) as usize).min(MOST_SLICES);
        let before = slices(seconds(span.from, window.from));
        let count = (before + slices(seconds(window.from, span.to))).clamp(1, MOST_SLICES + 1);
        Self {
            from: window.from.saturating_sub((before as f64 * width * 1e6) as i64),
            before,
            axis: Axis { slices: count, width },
            per_row: (row / width).round().max(1.0) as usize,
            window,
            slices: vec![Sums::default(); count],
            users: Users::default(),
            every: f64::INFINITY,
            known: None,
        }
    }

    /// The length of a slice, how many there are, and how many of them are a row.
    #[cfg(test)]
    pub(super) fn shape(&self) -> (f64, usize, usize) {
        (self.axis.width, self.slices.len(), self.per_row)
    }

    /// Adds a stretch.
    pub(super) fn add(&mut self, stretch: &Stretch<'_>) {
        let part = stretch.part;
        let place = Place { stretch, offset: seconds(self.from, part.from) };
        let known = self.known.get_or_insert(part);
        *known = Span { from: known.from.min(part.from), to: known.to.max(part.to) };
        self.every = self.every.min(stretch.interval_seconds);
        let of = |id: &str| stretch.collectors.get(id);
        if let Some(record) = of("cpu_stat") {
            self.cpu(record, &place);
        }
        if let Some(record) = of("psi") {
            self.pressure(record, &place);
        }
        if let Some(record) = of(Block::PROCESSES) {
            self.tasks(record, &place);
        }
    }

    fn spread(&mut self, between: (f64, f64), mut put: impl FnMut(&mut Sums, f64, f64)) {
        for (at, part, seconds) in self.axis.shares(between) {
            if let Some(sums) = self.slices.get_mut(at) {
                put(sums, part, seconds);
            }
        }
    }

    fn cpu(&mut self, record: &CollectorRecord, place: &Place<'_>) {
        let fields = BUSY.iter().chain(&OTHERS).map(|name| Some((*name, series(record, name)?)));
        let Some(fields) = fields.collect::<Option<Vec<_>>>() else { return };
        for at in 1..record.times.len() {
            let grown = |(name, values): &(&str, &[Option<Number>])| grown(values, at, STEP_BACK.contains(name));
            let Some(parts) = fields.iter().map(grown).collect::<Option<Vec<f64>>>() else { continue };
            let Some(between) = place.between(record, at - 1, at) else { continue };
            let busy: f64 = parts.iter().take(BUSY.len()).sum();
            let all: f64 = parts.iter().sum();
            if all > 0.0 {
                self.spread(between, |sums, part, seconds| sums.busy.add(busy * part, all * part, seconds));
            }
        }
    }

    fn pressure(&mut self, record: &CollectorRecord, place: &Place<'_>) {
        for (which, name) in STALLED.iter().enumerate() {
            let Some(values) = series(record, name) else { continue };
            for at in 1..record.times.len() {
                let Some(stalled) = grown(values, at, false) else { continue };
                let Some(between) = place.between(record, at - 1, at) else { continue };
                self.spread(between, |sums, part, seconds| {
                    if let Some(sum) = sums.stalled.get_mut(which) {
                        sum.add(stalled * 1e-6 * part, seconds, seconds);
                    }
                });
            }
        }
    }

    fn tasks(&mut self, record: &CollectorRecord, place: &Place<'_>) {
        let cpus = f64::from(place.host().cpus.max(1));
        for at in 1..record.times.len() {
            if let Some(between) = place.between(record, at - 1, at) {
                self.spread(between, |sums, _, seconds| sums.looked.add(0.0, seconds * cpus, seconds));
            }
        }
        record.processes.iter().for_each(|process| self.users.add(process, (record, place), self.axis));
    }

    /// The slices from the first to the last of which something is known; none if that is nothing beside the window.
    pub(super) fn told(self, source: String, zone: &Zone) -> Option<Around> {
        let width = self.axis.width;
        let wall = |seconds: f64| self.window.from.saturating_add((seconds * 1e6) as i64);
        let least = (width * ENOUGH).min(self.every * OF_SAMPLE);
        let course = |(begins, sums, largest): &(isize, Sums, Largest<'_>)| {
            let seconds = *begins as f64 * width;
            Course { shown: zone.time_of_day(wall(seconds)), seconds, ..sums.told(least, largest) }
        };
        let slices = trimmed(self.joined(1).iter().map(course).collect());
        let rows = trimmed(self.joined(self.per_row).iter().map(course).collect());
        let (first, last) = slices.first().zip(slices.last())?;
        let axis = Seconds { from: first.seconds, until: last.seconds + width };
        let judged = Seconds { from: 0.0, until: seconds(self.window.from, self.window.to) };
        if axis.from >= judged.from - width && axis.until <= judged.until + width {
            return None;
        }
        let known = self.known?;
        let (from, to) = (known.from.max(wall(axis.from)), known.to.min(wall(axis.until)));
        let unrecorded = unrecorded(&slices, width).into_iter().map(|span| {
            let ends = [span.from, span.until].map(|at| zone.time_of_day(wall(at)));
            Unrecorded { span, shown: ends.join(" to ") }
        });
        Some(Around {
            span: format!("{} to {}", zone.shown(from), zone.time_of_day(to)),
            ends: zone.time_of_day(wall(axis.until)),
            source,
            judged,
            slice_seconds: width,
            unrecorded: unrecorded.collect(),
            row_seconds: self.per_row as f64 * width,
            rows,
            slices,
            marks: Vec::new(),
        })
    }

    /// So many slices joined to one: where each begins, in slices from the beginning of the window, with which one of them begins.
    fn joined(&self, count: usize) -> Vec<(isize, Sums, Largest<'_>)> {
        let (before, count) = (self.before.cast_signed(), count.cast_signed());
        let begins = |at: usize| (at.cast_signed() - before).div_euclid(count) * count;
        let first = begins(0);
        let group = |at: usize| ((begins(at) - first) / count).cast_unsigned();
        let largest = self.users.largest(group(self.slices.len()) + 1, group);
        let groups = largest.into_iter().zip((0..).map(|at: isize| first + at * count));
        let mut all: Vec<_> = groups.map(|(largest, begins)| (begins, Sums::default(), largest)).collect();
        for (at, sums) in self.slices.iter().enumerate() {
            if let Some((_, joined, _)) = all.get_mut(group(at)) {
                joined.join(sums);
            }
        }
        all
    }
}

fn seconds(from: i64, to: i64) -> f64 {
    to.saturating_sub(from) as f64 * 1e-6
}

/// Without those before the first, and after the last, of which something is known.
fn trimmed(mut all: Vec<Course>) -> Vec<Course> {
    let is_known = |slice: &Course| !slice.is_unknown();
    let (first, last) = (all.iter().position(is_known), all.iter().rposition(is_known));
    all.truncate(last.map_or(0, |last| last + 1));
    all.drain(..first.unwrap_or(all.len()));
    all
}

/// Runs of slices of which nothing is known.
fn unrecorded(slices: &[Course], width: f64) -> Vec<Seconds> {
    let runs = slices.chunk_by(|one, next| one.is_unknown() == next.is_unknown());
    let unknown = runs.filter(|run| run.first().is_some_and(Course::is_unknown));
    let span = |run: &[Course]| {
        let (first, last) = run.first().zip(run.last())?;
        Some(Seconds { from: first.seconds, until: last.seconds + width })
    };
    unknown.filter_map(span).collect()
}

/// The values of a series of the whole host.
fn series<'r>(record: &'r CollectorRecord, name: &str) -> Option<&'r [Option<Number>]> {
    record.series.iter().find(|series| series.name == name && series.instance.is_none()).map(|series| &*series.values)
}

/// By how much a counter grew up to a sample; none where it was reset or is missing.
fn grown(values: &[Option<Number>], at: usize, steps_back: bool) -> Option<f64> {
    let [before, now] = [at - 1, at].map(|at| values.get(at).copied().flatten());
    let change = now?.as_f64() - before?.as_f64();
    (change >= 0.0 || steps_back).then_some(change.max(0.0))
}
