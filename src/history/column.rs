//! The numbers of one collector as a column: its times, the names of its series, and their values.

use super::bytes::{Reader, Writer};
use super::numbers;
use rdiag_model::recording::Series;
use rdiag_model::{RawUnit, SeriesKind};

/// Samples of a block: ten minutes have 120.
pub(super) const MAX_SAMPLES: usize = 4096;
/// Series of a collector.
pub(super) const MAX_SERIES: usize = 50_000;
/// Values of a column, at 16 bytes each.
const MAX_VALUES: usize = 4_000_000;

/// No block lasts as long (60 years), and a real number has each microsecond of it.
const MAX_MICROS: u64 = 2_000_000_000_000_000;

/// The unit of times.
const PER_SECOND: f64 = 1e6;

/// A time as a block keeps it.
#[cfg(test)]
pub(super) fn rounded(seconds: f64) -> f64 {
    micros(seconds) as f64 / PER_SECOND
}

fn micros(seconds: f64) -> i64 {
    (seconds * PER_SECOND).round() as i64
}

/// Writes times.
pub(super) fn times(out: &mut Writer, times: &[f64]) {
    let (mut before, mut step) = (0_i64, 0_i64);
    for time in times {
        let now = micros(*time);
        let next = now.wrapping_sub(before);
        out.signed(next.wrapping_sub(step));
        (before, step) = (now, next);
    }
}

/// Reads so many times.
pub(super) fn read_times(reader: &mut Reader<'_>, samples: usize) -> Option<Vec<f64>> {
    let (mut before, mut step) = (0_i64, 0_i64);
    let mut times = Vec::with_capacity(samples);
    for _ in 0..samples {
        step = step.wrapping_add(reader.signed()?);
        before = before.wrapping_add(step);
        if before.unsigned_abs() > MAX_MICROS {
            return None;
        }
        times.push(before as f64 / PER_SECOND);
    }
    Some(times)
}

/// The name of a series, and what it counts.
pub(super) fn name(out: &mut Writer, series: &Series, before: &str) {
    out.text(if series.name == before { "" } else { &series.name });
    match &series.instance {
        None => out.unsigned(0),
        Some(instance) => {
            out.unsigned(1);
            out.text(instance);
        }
    }
    out.0.push(KINDS.iter().position(|kind| *kind == series.kind).unwrap_or(0) as u8);
    out.0.push(UNITS.iter().position(|unit| *unit == series.unit).unwrap_or(0) as u8);
}

/// Reads the name of a series, which has no values yet.
pub(super) fn read_name(reader: &mut Reader<'_>, before: &str) -> Option<Series> {
    let name = match reader.text()? {
        "" => before,
        other => other,
    };
    let instance = match reader.byte()? {
        0 => None,
        _ => Some(reader.text()?.to_owned()),
    };
    let kind = *KINDS.get(usize::from(reader.byte()?))?;
    let unit = *UNITS.get(usize::from(reader.byte()?))?;
    Some(Series { name: name.to_owned(), instance, kind, unit, values: Vec::new() })
}

/// In the order of their numbers on disk: what is new comes last.
const KINDS: [SeriesKind; 4] =
    [SeriesKind::Counter, SeriesKind::Counter32, SeriesKind::CounterStepsBack, SeriesKind::Gauge];
const UNITS: [RawUnit; 11] = [
    RawUnit::Count,
    RawUnit::Ratio,
    RawUnit::Bytes,
    RawUnit::Kibibytes,
    RawUnit::Pages,
    RawUnit::Sectors,
    RawUnit::Seconds,
    RawUnit::Ticks,
    RawUnit::Milliseconds,
    RawUnit::Microseconds,
    RawUnit::Nanoseconds,
];

/// Writes the column. Each series has one value for each time.
pub(super) fn write(of_times: &[f64], all: &[Series]) -> Vec<u8> {
    let mut out = Writer::default();
    out.size(of_times.len());
    times(&mut out, of_times);
    out.size(all.len());
    let mut before = "";
    for series in all {
        name(&mut out, series, before);
        before = &series.name;
    }
    for series in all {
        let mut values = series.values.clone();
        values.resize(of_times.len(), None);
        numbers::write(&mut out, &values);
    }
    out.0
}

/// Reads a column; none if it is none.
pub(super) fn read(content: &[u8]) -> Option<(Vec<f64>, Vec<Series>)> {
    let mut reader = Reader(content);
    let samples = reader.count(MAX_SAMPLES)?;
    let times = read_times(&mut reader, samples)?;
    let count = reader.count(MAX_SERIES)?;
    if count.saturating_mul(samples) > MAX_VALUES {
        return None;
    }
    let mut all: Vec<Series> = Vec::new();
    let mut before = String::new();
    for _ in 0..count {
        let series = read_name(&mut reader, &before)?;
        before.clone_from(&series.name);
        all.push(series);
    }
    for series in &mut all {
        series.values = numbers::read(&mut reader, samples)?;
    }
    reader.0.is_empty().then_some((times, all))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_and_units_are_all_there() {
        // A new one that is not listed would come back as another.
        let kind = |kind| match kind {
            SeriesKind::Counter | SeriesKind::Counter32 | SeriesKind::CounterStepsBack | SeriesKind::Gauge => {
                KINDS.contains(&kind)
            }
        };
        assert!(KINDS.into_iter().all(kind));
        let unit = |unit| match unit {
            RawUnit::Count
            | RawUnit::Ratio
            | RawUnit::Bytes
            | RawUnit::Kibibytes
            | RawUnit::Pages
            | RawUnit::Sectors
            | RawUnit::Seconds
            | RawUnit::Ticks
            | RawUnit::Milliseconds
            | RawUnit::Microseconds
            | RawUnit::Nanoseconds => UNITS.contains(&unit),
        };
        assert!(UNITS.into_iter().all(unit));
    }

    #[test]
    fn many_missing_values_in_few_bytes_are_bounded() {
        let series = |n: usize| Series {
            name: format!("s{n}"),
            instance: None,
            kind: SeriesKind::Gauge,
            unit: RawUnit::Count,
            values: Vec::new(),
        };
        let all: Vec<Series> = (0..1000).map(series).collect();
        let times: Vec<f64> = (0..4096).map(f64::from).collect();
        assert!(read(&write(&times, &all)).is_none(), "4,096,000 values");
        assert!(read(&write(&times[..4000], &all)).is_some());
    }
}
