//! A block with fewer samples: of each minute the first, and the last of all. Counters lose nothing but their course within the minute: on
//! either side of a reset, a wrap or a replaced device a sample stays, so each is seen as it was. Levels become the mean of what came until
//! the next sample that stays. Processes that lived in between keep what they used, if a sample saw them.

use super::block::{self, Block, Header};
use super::frame::{self, Kind, Piece};
use super::{Damage, column, table};
use rdiag_model::SeriesKind;
use rdiag_model::recording::{CollectorRecord, Number, Process, ProcessPoint, Series};

/// A sample that comes so much too early, as a part of the distance, belongs to the next minute all the same.
const EARLY: f64 = 0.01;
/// Means of small whole numbers (tasks that wait) keep so many parts of one; larger ones are whole.
const PARTS: f64 = 100.0;
const SMALL: f64 = 1000.0;

impl Header {
    /// Whether there is anything to leave out for a sample every so many seconds.
    #[must_use]
    pub fn is_finer(&self, seconds: f64) -> bool {
        self.interval_seconds * 1.5 < seconds
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
    let mut known: Option<(String, Vec<usize>)> = None;
    frame::walk(bytes, |piece| match piece {
        Piece::Damaged(raw) => out.extend_from_slice(raw),
        Piece::Whole(frame) => {
            let content = match frame.kind {
                Kind::Header => Some(header.clone()),
                Kind::Series => column::read(&frame.content).map(|(mut times, mut all)| {
                    let stay = stay(&times, &all, seconds);
                    figures(&mut times, &mut all, &stay);
                    known = Some((frame.name.clone(), stay));
                    column::write(&times, &all)
                }),
                Kind::Processes => known.as_ref().filter(|(name, _)| *name == frame.name).and_then(|(_, stay)| {
                    let (mut all, idle) = table::read(&frame.content)?;
                    all.iter_mut().for_each(|one| process(one, stay));
                    Some(table::write(&all, &idle))
                }),
                Kind::Text | Kind::Sample => None,
            };
            frame::write(&mut out, frame.kind, &frame.name, content.as_ref().unwrap_or(&frame.content));
        }
    });
    Ok(Some(out))
}

fn record(record: &mut CollectorRecord, seconds: f64) {
    let stay = stay(&record.times, &record.series, seconds);
    figures(&mut record.times, &mut record.series, &stay);
    record.processes.iter_mut().for_each(|one| process(one, &stay));
}

/// Whether a series says which device, interface or control group stands behind a name.
fn is_identity(series: &Series) -> bool {
    series.name.ends_with(".identity")
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
            if let Some((at_before, value_before)) = before
                && is_break(series, value_before, value)
            {
                for at in [at_before, at] {
                    stays.get_mut(at).into_iter().for_each(|stays| *stays = true);
                }
            }
            before = Some((at, value));
        }
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

fn figures(times: &mut Vec<f64>, all: &mut [Series], stay: &[usize]) {
    for series in all {
        let at = |at: &usize| series.values.get(*at).copied().flatten();
        series.values = if series.kind == SeriesKind::Gauge && !is_identity(series) {
            let ends = stay.iter().skip(1).copied().chain([times.len()]);
            let values = stay.iter().zip(ends).map(|(from, to)| mean(series.values.get(*from..to).unwrap_or_default()));
            values.collect()
        } else {
            stay.iter().map(at).collect()
        };
    }
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
    (process.first, process.last) = (to(process.first), to(process.last));
    let mut points: Vec<ProcessPoint> = Vec::new();
    for point in std::mem::take(&mut process.points) {
        let mut point = ProcessPoint { at: to(point.at), ..point };
        if let Some(before) = points.pop_if(|before| before.at == point.at) {
            keep_known(&mut point, &before);
        }
        points.push(point);
    }
    process.points = points;
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
mod tests {
    use super::*;
    use crate::history::{read_block, write_block};
    use rdiag_model::RawUnit;

    fn series(name: &str, kind: SeriesKind, values: impl IntoIterator<Item = u64>) -> Series {
        let values = values.into_iter().map(|value| Some(Number::Whole(value))).collect();
        Series { name: name.into(), instance: None, kind, unit: RawUnit::Count, values }
    }

    /// A block of so many samples, 5 s apart, which come a little late.
    fn block(samples: usize, series: Vec<Series>, processes: Vec<Process>) -> Block {
        let (mut block, _) = read_block(&crate::history::framed(0, b"")).unwrap_or_else(|why| panic!("{why}"));
        block.header.seconds = samples.saturating_sub(1) as f64 * 5.0;
        block.header.stretched = [("a".to_owned(), 2), ("b".to_owned(), 24)].into();
        let times: Vec<f64> = (0..samples).map(|at| at as f64 * 5.0 + 0.000_3).collect();
        let record = |series, processes| CollectorRecord {
            times: times.clone(),
            series,
            processes,
            ..CollectorRecord::default()
        };
        block.collectors.insert("figures".into(), record(series, Vec::new()));
        if !processes.is_empty() {
            block.collectors.insert(Block::PROCESSES.into(), record(Vec::new(), processes));
        }
        block
    }

    /// What both ways give: in memory, and file to file.
    fn thinned(block: &Block) -> Block {
        let bytes = thin_block(&write_block(block), 60.0).unwrap().unwrap();
        let (read, damage) = read_block(&bytes).unwrap();
        assert_eq!(damage, Vec::<String>::new());
        let mut own = block.clone();
        own.thin(60.0);
        assert_eq!(own, read);
        assert!(thin_block(&bytes, 60.0).unwrap().is_none(), "once is enough");
        read
    }

    /// Sum of the changes that are growth, as the judge counts a counter.
    fn sum(series: &Series) -> u64 {
        let values: Vec<u64> = series.values.iter().flatten().map(|value| value.as_f64() as u64).collect();
        values.windows(2).map(|pair| pair[1].saturating_sub(pair[0])).sum()
    }

    #[test]
    fn of_each_minute_the_first_sample_stays_and_the_last_of_all() {
        let counter = || series("a", SeriesKind::Counter, (0..120).map(|at| 7 + at * at));
        let before = block(120, vec![counter()], Vec::new());
        let thin = thinned(&before);
        let record = &thin.collectors["figures"];
        let whole: Vec<i64> = record.times.iter().map(|time| *time as i64).collect();
        assert_eq!(whole, [0, 60, 120, 180, 240, 300, 360, 420, 480, 540, 595]);
        assert_eq!(sum(&record.series[0]), sum(&counter()));
        assert_eq!(
            (thin.header.interval_seconds, thin.header.recorded_interval(), thin.header.seconds),
            (60.0, 5.0, 595.0)
        );
        assert_eq!(thin.header.stretched, [("b".to_owned(), 2)].into(), "every 10 s is often enough now");
        for samples in [0, 1, 2] {
            let few = block(samples, vec![series("a", SeriesKind::Counter, 0..samples as u64)], Vec::new());
            assert_eq!(thinned(&few).collectors, few.collectors, "{samples}");
        }
    }

    #[test]
    fn a_reset_a_wrap_and_another_device_are_seen_as_they_were() {
        // Within a minute it falls and grows past what it was: in the sum that is no growth of 95.
        let reset = |at: u64| if at < 27 { 100 + at } else { (at - 27) * 40 };
        let wrap = |at: u64| (at * 900_000_000) & 0xffff_ffff;
        let before = vec![
            series("a", SeriesKind::Counter, (0..120).map(reset)),
            series("b", SeriesKind::CounterStepsBack, (0..120).map(|at| 1000 + at * 10 - at % 2 * 15)),
        ];
        let thin = thinned(&block(120, before.clone(), Vec::new()));
        assert_eq!(sum(&thin.collectors["figures"].series[0]), sum(&before[0]));
        assert_eq!(thin.collectors["figures"].times.len(), 13, "one on either side");
        let wraps = series("a", SeriesKind::Counter32, (0..120).map(wrap));
        let thin = thinned(&block(120, vec![wraps.clone()], Vec::new()));
        let grown = |series: &Series| {
            let values: Vec<u64> = series.values.iter().flatten().map(|value| value.as_f64() as u64).collect();
            values.windows(2).map(|pair| pair[1].wrapping_sub(pair[0]) & 0xffff_ffff).sum::<u64>()
        };
        assert_eq!(grown(&thin.collectors["figures"].series[0]), grown(&wraps));
        let other = series("disk.identity", SeriesKind::Gauge, (0..120).map(|at| u64::from(at > 30)));
        let thin = thinned(&block(120, vec![other], Vec::new()));
        let known: Vec<f64> =
            thin.collectors["figures"].series[0].values.iter().flatten().map(|value| value.as_f64()).collect();
        assert_eq!(known.iter().filter(|value| **value == 0.0).count(), 4, "as it was, and no mean: {known:?}");
        assert_eq!(known.len(), 13);
    }

    #[test]
    fn a_level_becomes_the_mean_of_its_minute_and_stays_where_it_did_not_move() {
        let mut levels = vec![
            series("tasks", SeriesKind::Gauge, (0..24).map(|at| u64::from(at == 3) * 9)),
            series("bytes", SeriesKind::Gauge, (0..24).map(|at| 1_000_000 + at)),
            series("limit", SeriesKind::Gauge, [u64::MAX; 24]),
            series("late", SeriesKind::Gauge, [5; 24]),
        ];
        levels[3].values[..14].fill(None);
        let thin = thinned(&block(24, levels, Vec::new()));
        let of = |at: usize| thin.collectors["figures"].series[at].values.clone();
        assert_eq!(of(0), [Some(Number::Real(0.75)), Some(Number::Whole(0)), Some(Number::Whole(0))]);
        assert_eq!(of(1), [1_000_006, 1_000_017, 1_000_023].map(|value| Some(Number::Whole(value))));
        assert_eq!(of(2), [Some(Number::Whole(u64::MAX)); 3]);
        assert_eq!(of(3), [None, Some(Number::Whole(5)), Some(Number::Whole(5))]);
    }

    #[test]
    fn a_process_keeps_what_it_used_and_one_that_lived_in_between_does() {
        let point = |(at, utime, read_bytes): (u16, u64, Option<u64>)| ProcessPoint {
            at,
            utime,
            read_bytes,
            state: 'S',
            ..ProcessPoint::default()
        };
        let process = |pid, first, last, points: &[(u16, u64, Option<u64>)]| Process {
            pid,
            first,
            last,
            points: points.iter().copied().map(point).collect(),
            ..Process::default()
        };
        let all = vec![
            process(
                1,
                0,
                119,
                &[(0, 10, Some(5)), (3, 40, Some(6)), (12, 50, Some(7)), (13, 60, Some(7)), (119, 70, Some(9))],
            ),
            // Born, and gone, between two samples that stay; as a zombie it told less.
            process(2, 14, 17, &[(14, 30, Some(100)), (16, 90, Some(4096)), (17, 95, None)]),
            process(3, 118, 118, &[(118, 3, None)]),
        ];
        let thin = thinned(&block(120, Vec::new(), all));
        let all = &thin.collectors[Block::PROCESSES].processes;
        let told = |at: usize| {
            let one = &all[at];
            let points: Vec<_> = one.points.iter().map(|point| (point.at, point.utime, point.read_bytes)).collect();
            (one.first, one.last, points)
        };
        assert_eq!(told(0), (0, 10, vec![(0, 10, Some(5)), (1, 50, Some(7)), (2, 60, Some(7)), (10, 70, Some(9))]));
        assert_eq!(told(1), (2, 2, vec![(2, 95, Some(4096))]));
        assert_eq!(told(2), (10, 10, vec![(10, 3, None)]));
    }

    #[test]
    fn what_is_damaged_stays_so_alone_and_is_named_as_before() {
        let figures = (0..4)
            .map(|at| series(&format!("s{at}"), SeriesKind::Counter, (0..120).map(|n| n * n * (at + 1))))
            .collect();
        let points =
            (0..120).map(|at| ProcessPoint { at, utime: u64::from(at) * 3, ..ProcessPoint::default() }).collect();
        let whole = block(120, figures, vec![Process { pid: 9, last: 119, points, ..Process::default() }]);
        let bytes = write_block(&whole);
        let mut thin = whole.clone();
        thin.thin(60.0);
        for bit in (0..bytes.len() * 8).step_by(37) {
            let mut bytes = bytes.clone();
            bytes[bit / 8] ^= 1 << (bit % 8);
            let (_, before) = read_block(&bytes).unwrap();
            let (read, after) = read_block(&thin_block(&bytes, 60.0).unwrap().unwrap()).unwrap();
            assert_eq!(after, before, "bit {bit}");
            let unlike = thin.collectors.iter().filter(|(id, record)| read.collectors.get(*id) != Some(record)).count();
            assert!(unlike <= 1, "bit {bit}");
        }
        for length in 0..bytes.len() {
            // Torn anywhere: refused, or its end is missing as before.
            let cut = &bytes[..length];
            let thin = thin_block(cut, 60.0);
            assert_eq!(thin.is_ok(), read_block(cut).is_ok(), "{length}");
        }
        assert!(thin_block(b"no block", 60.0).unwrap_err().contains("no header"));
    }
}
