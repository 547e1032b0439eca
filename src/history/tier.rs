//! A block with fewer samples: of each minute the first, and the last of all. Counters lose nothing but their course within the minute: on
//! either side of a reset, a wrap or a replaced device a sample stays, so each is seen as it was, and so do the first and the last that
//! know a counter: what came or went within a minute keeps what it counted. Levels become the mean of what came until the next sample
//! that stays; of some figures their extremes stay too (`bursts.rs`). Processes that lived in between keep what they used, if a sample saw
//! them.

use super::block::{self, Block, Header};
use super::bursts::{self, Extreme};
use super::frame::{self, Kind, Piece};
use super::text::Words;
use super::{Damage, column, table};
use rdiag_model::SeriesKind;
use rdiag_model::recording::{CollectorRecord, Number, Process, ProcessPoint, Series};

/// A sample that comes so much too early, as a part of the distance, belongs to the next minute all the same.
const EARLY: f64 = 0.01;
/// Means of small whole numbers (tasks that wait) keep so many parts of one; larger ones are whole.
const PARTS: f64 = 100.0;
const SMALL: f64 = 1000.0;
/// stat field 3 of a task that is dead.
const GONE: char = 'X';

/// Whether samples so many seconds apart are closer than those of another distance, and not by a rounding.
#[must_use]
pub fn is_finer(interval_seconds: f64, seconds: f64) -> bool {
    interval_seconds * 1.5 < seconds
}

impl Header {
    /// Whether there is anything to leave out for a sample every so many seconds.
    #[must_use]
    pub fn is_finer(&self, seconds: f64) -> bool {
        is_finer(self.interval_seconds, seconds)
    }

    /// Seconds from sample to sample when it was recorded.
    #[must_use]
    pub fn recorded_interval(&self) -> f64 {
        self.recorded_every.unwrap_or(self.interval_seconds)
    }

    fn thin(&mut self, seconds: f64) {
        self.recorded_every = Some(self.recorded_interval());
        let every = |times: u32| (f64::from(times) * self.interval_seconds / seconds).ceil() as u32;
        self.stretched = self.stretched.iter().map(|(id, times)| (id.clone(), every(*times))).collect();
        self.stretched.retain(|_, times| *times > 1);
        self.interval_seconds = seconds;
    }
}

impl Block {
    /// Leaves out samples, so that there is one every so many seconds.
    pub fn thin(&mut self, seconds: f64) {
        if !self.header.is_finer(seconds) {
            return;
        }
        for record in self.collectors.values_mut() {
            self::record(record, seconds);
        }
        self.header.thin(seconds);
    }
}

/// Rewrites a block with a sample every so many seconds, column by column, so that it takes no more memory than its largest one. What is
/// damaged stays as it is, and is named when it is read. None if there is nothing to leave out.
///
/// # Errors
/// When it is no block, or one of another version.
pub fn thin_block(bytes: &[u8], seconds: f64) -> Result<Option<Vec<u8>>, Damage> {
    let mut head = None;
    frame::walk(bytes, |piece| match piece {
        Piece::Whole(frame) if frame.kind == Kind::Header && head.is_none() => {
            head = Some(block::header(&frame.content))
        }
        Piece::Whole(_) | Piece::Damaged(_) => {}
    });
    let mut header = head.ok_or("it has no header that can be read, so it is no block of the recorder")??;
    if !header.is_finer(seconds) {
        return Ok(None);
    }
    header.thin(seconds);
    let header = serde_json::to_vec(&header).unwrap_or_default();
    let mut out = Vec::new();
    // The table of processes counts the samples of the figures before it.
    let mut known: Option<(String, Vec<usize>, usize)> = None;
    frame::walk(bytes, |piece| match piece {
        Piece::Damaged(raw) => out.extend_from_slice(raw),
        Piece::Whole(frame) => {
            let content = match frame.kind {
                Kind::Header => Some(header.clone()),
                Kind::Series => column::read(&frame.content).map(|(mut times, mut all)| {
                    let (stay, samples) = (stay(&times, &all, seconds), times.len());
                    figures(&mut times, &mut all, &stay);
                    known = Some((frame.name.clone(), stay, samples));
                    column::write(&times, &all)
                }),
                Kind::Processes => known.as_ref().filter(|(name, ..)| *name == frame.name).and_then(|(_, stay, _)| {
                    let (mut all, idle) = table::read(&frame.content)?;
                    all.iter_mut().for_each(|one| process(one, stay));
                    Some(table::write(&all, &idle))
                }),
                Kind::Text => known.as_ref().filter(|(name, ..)| *name == frame.name).and_then(|(_, stay, samples)| {
                    let mut words = Words::read(&frame.content)?;
                    words.jittered = of_samples(words.jittered, stay.len(), *samples);
                    Some(words.to_json())
                }),
                Kind::Sample => None,
            };
            frame::write(&mut out, frame.kind, &frame.name, content.as_ref().unwrap_or(&frame.content));
        }
    });
    Ok(Some(out))
}

fn record(record: &mut CollectorRecord, seconds: f64) {
    let stay = stay(&record.times, &record.series, seconds);
    record.jittered = of_samples(record.jittered, stay.len(), record.times.len());
    figures(&mut record.times, &mut record.series, &stay);
    record.processes.iter_mut().for_each(|one| process(one, &stay));
}

/// How many of some samples were slow, if so many of all were, rounded: which ones is not kept, and "40 of 11" would mean nothing.
#[must_use]
pub fn of_samples(slow: u32, some: usize, all: usize) -> u32 {
    let (some, all) = (some as u64, all.max(1) as u64);
    let share = (u64::from(slow).saturating_mul(some).saturating_add(all / 2)) / all;
    u32::try_from(share).unwrap_or(u32::MAX).min(slow)
}

/// Whether a level of a thinned block is the mean of the time until the next sample. Others are as they were at theirs: which device stands
/// behind a name, and what only grows, where a mean would be "0.58 processes".
#[must_use]
pub fn is_mean(series: &Series) -> bool {
    series.kind == SeriesKind::Gauge && !is_identity(series) && !is_cumulative(&series.name)
}

/// A level that counts: since the control group was made, or the number of a record.
fn is_cumulative(name: &str) -> bool {
    name.ends_with("_so_far") || name == "kernel_log.overwritten"
}

/// Whether a series says which device, interface or control group stands behind a name.
fn is_identity(series: &Series) -> bool {
    series.name.ends_with(".identity")
}

fn keep(stays: &mut [bool], at: usize) {
    stays.get_mut(at).into_iter().for_each(|stays| *stays = true);
}

/// The samples that stay.
fn stay(times: &[f64], all: &[Series], seconds: f64) -> Vec<usize> {
    let mut stays = vec![false; times.len()];
    let mut before = None;
    for (time, stays) in times.iter().zip(&mut stays) {
        let minute = (time / seconds + EARLY).floor() as i64;
        *stays = before != Some(minute);
        before = Some(minute);
    }
    if let Some(last) = stays.last_mut() {
        *last = true;
    }
    for series in all {
        let mut before: Option<(usize, Number)> = None;
        for (at, value) in series.values.iter().enumerate() {
            let Some(value) = *value else { continue };
            let is_edge = match before {
                Some((at_before, value_before)) => {
                    at_before + 1 < at && !is_mean(series) || is_break(series, value_before, value)
                }
                None => !is_mean(series),
            };
            let edges = [before.map(|(at, _)| at), Some(at)].into_iter().flatten().filter(|_| is_edge);
            edges.for_each(|at| keep(&mut stays, at));
            before = Some((at, value));
        }
        // It ends here, and perhaps before the block does.
        before.into_iter().filter(|_| !is_mean(series)).for_each(|(at, _)| keep(&mut stays, at));
    }
    stays.into_iter().enumerate().filter(|(_, stays)| *stays).map(|(at, _)| at).collect()
}

/// Whether a change between two samples means something else than growth.
fn is_break(series: &Series, before: Number, after: Number) -> bool {
    let went_back = match (before, after) {
        (Number::Whole(before), Number::Whole(after)) => after < before,
        _ => after.as_f64() < before.as_f64(),
    };
    match series.kind {
        _ if is_identity(series) => before != after,
        SeriesKind::Counter | SeriesKind::Counter32 => went_back,
        // One that steps back often and by little would keep all samples.
        SeriesKind::CounterStepsBack | SeriesKind::Gauge => false,
    }
}

fn figures(times: &mut Vec<f64>, all: &mut Vec<Series>, stay: &[usize]) {
    let extremes = bursts::of(times, all, stay);
    for series in all.iter_mut() {
        let at = |at: &usize| series.values.get(*at).copied().flatten();
        let values = |(from, to)| series.values.get(from..to).unwrap_or_default();
        series.values = if let Some(extreme) = Extreme::held(series) {
            let among = |range| extreme.among(values(range).iter().flatten().map(|value| value.as_f64()));
            bursts::ranges(stay, times.len()).map(among).collect()
        } else if is_mean(series) {
            bursts::ranges(stay, times.len()).map(|range| mean(values(range))).collect()
        } else {
            stay.iter().map(at).collect()
        };
    }
    all.extend(extremes);
    *times = stay.iter().filter_map(|at| times.get(*at).copied()).collect();
}

/// The mean of a level; what did not move stays bit by bit.
fn mean(values: &[Option<Number>]) -> Option<Number> {
    let first = *values.iter().flatten().next()?;
    if values.iter().flatten().all(|value| *value == first) {
        return Some(first);
    }
    let (sum, count) =
        values.iter().flatten().fold((0.0, 0.0), |(sum, count), value| (sum + value.as_f64(), count + 1.0));
    let mean = sum / count;
    let is_whole = values.iter().flatten().all(|value| matches!(value, Number::Whole(_)));
    Some(match is_whole && mean >= SMALL {
        true => Number::Whole(mean.round() as u64),
        false if is_whole => Number::Real((mean * PARTS).round() / PARTS),
        false => Number::Real(mean),
    })
}

/// What changed until a sample that stays, stands there.
fn process(process: &mut Process, stay: &[usize]) {
    let last = stay.len().saturating_sub(1);
    let to = |at: u16| {
        let index = stay.partition_point(|stays| *stays < usize::from(at)).min(last);
        u16::try_from(index).unwrap_or(u16::MAX)
    };
    let is_gone = stay.get(usize::from(to(process.last))).is_some_and(|stays| *stays > usize::from(process.last));
    (process.first, process.last) = (to(process.first), to(process.last));
    let mut points: Vec<ProcessPoint> = Vec::new();
    for point in std::mem::take(&mut process.points) {
        let mut point = ProcessPoint { at: to(point.at), ..point };
        if let Some(before) = points.pop_if(|before| before.at == point.at) {
            keep_known(&mut point, &before);
        }
        points.push(point);
    }
    // It ended before the sample at which it is seen last now, and holds nothing there.
    if is_gone
        && let Some(newest) = points.pop_if(|newest| newest.at == process.last).or_else(|| points.last().cloned())
    {
        points.push(gone(newest, process.last));
    }
    process.points = points;
}

/// A process that has ended: it keeps what it used.
fn gone(point: ProcessPoint, at: u16) -> ProcessPoint {
    let swap_kb = point.swap_kb.map(|_| 0);
    ProcessPoint { at, state: GONE, threads: 0, resident_pages: 0, swap_kb, ..point }
}

/// Of a task that has ended the kernel tells less: what it said before holds.
fn keep_known(point: &mut ProcessPoint, before: &ProcessPoint) {
    let fields = [
        (&mut point.run_ns, before.run_ns),
        (&mut point.wait_ns, before.wait_ns),
        (&mut point.voluntary_switches, before.voluntary_switches),
        (&mut point.involuntary_switches, before.involuntary_switches),
        (&mut point.read_bytes, before.read_bytes),
        (&mut point.write_bytes, before.write_bytes),
    ];
    for (field, before) in fields {
        *field = field.or(before);
    }
}

#[cfg(test)]
mod tests;
