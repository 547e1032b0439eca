//! The last part of a window that is under way, as a window of its own.

use std::collections::BTreeMap;

use rdiag_collectors::Cadence;
use rdiag_model::{CollectorRecord, Process};

/// What collectors read from so many seconds on, as one interval: it begins with what each had read last until then, and ends with what it
/// read last. Levels that are read often keep what was read in between.
pub(super) fn since(
    from: f64,
    records: Vec<(&'static str, Cadence, CollectorRecord)>,
) -> BTreeMap<String, CollectorRecord> {
    let part = |(id, cadence, record): (&str, _, _)| (id.to_owned(), record_since(from, cadence, record));
    records.into_iter().map(part).collect()
}

fn record_since(from: f64, cadence: Cadence, mut record: CollectorRecord) -> CollectorRecord {
    let first = record.times.partition_point(|time| *time <= from).saturating_sub(1);
    let last = record.times.len().saturating_sub(1);
    let keeps = |at: usize| at == first || at == last || at > first && cadence == Cadence::Gauge;
    let mut at = 0..;
    record.times.retain(|_| at.next().is_some_and(keeps));
    record.times.iter_mut().for_each(|time| *time -= from);
    for series in &mut record.series {
        let mut at = 0..;
        series.values.retain(|_| at.next().is_some_and(keeps));
    }
    let first = u16::try_from(first).unwrap_or(u16::MAX);
    record.processes = record.processes.into_iter().filter_map(|process| process_since(first, process)).collect();
    record
}

/// None if the process had ended before this sample. Of what came later it keeps what was seen last.
fn process_since(first: u16, mut process: Process) -> Option<Process> {
    if process.last < first {
        return None;
    }
    // Between its points nothing moved.
    let before = process.points.iter().rposition(|point| point.at <= first);
    let last = process.points.len().checked_sub(1);
    let mut at = 0..;
    process.points.retain(|_| at.next().is_some_and(|at| Some(at) == before || Some(at) == last));
    for point in &mut process.points {
        point.at = u16::from(point.at > first);
    }
    process.first = u16::from(process.first > first);
    process.last = u16::from(process.last > first);
    Some(process)
}

#[cfg(test)]
mod tests {
    use super::*;
    use rdiag_model::{Number, ProcessPoint, RawUnit, Series, SeriesKind};

    fn process(pid: u32, first: u16, last: u16, points: &[(u16, u64)]) -> Process {
        let point = |&(at, utime): &(u16, u64)| ProcessPoint { at, utime, ..ProcessPoint::default() };
        Process { pid, first, last, points: points.iter().map(point).collect(), ..Process::default() }
    }

    fn of(processes: Vec<Process>) -> CollectorRecord {
        let values = [1, 2, 4, 8].map(|value| Some(Number::Whole(value))).to_vec();
        let (name, kind, unit) = ("ticks".to_owned(), SeriesKind::Counter, RawUnit::Ticks);
        let series = vec![Series { name, instance: None, kind, unit, values }];
        CollectorRecord { times: vec![0.01, 1.01, 2.01, 3.01], series, processes, ..CollectorRecord::default() }
    }

    fn part(from: f64, record: CollectorRecord) -> CollectorRecord {
        record_since(from, Cadence::Interval, record)
    }

    #[test]
    fn a_part_goes_from_the_last_reading_before_it_to_the_last_of_all() {
        let part = part(1.5, of(Vec::new()));
        assert_eq!(part.times.len(), 2);
        assert!((part.times[0] - -0.49).abs() < 1e-9 && (part.times[1] - 1.51).abs() < 1e-9, "{:?}", part.times);
        assert_eq!(part.series[0].values, [2, 8].map(|value| Some(Number::Whole(value))));
    }

    #[test]
    fn levels_that_are_read_often_keep_what_lies_between() {
        let part = record_since(1.5, Cadence::Gauge, of(Vec::new()));
        assert_eq!(part.series[0].values, [2, 4, 8].map(|value| Some(Number::Whole(value))));
    }

    #[test]
    fn a_part_knows_of_each_process_what_it_had_used_until_then() {
        let idle = process(1, 0, 3, &[(0, 5)]);
        let busy = process(2, 0, 3, &[(0, 5), (1, 6), (2, 7), (3, 9)]);
        let ended = process(3, 0, 0, &[(0, 5)]);
        let born = process(4, 2, 3, &[(2, 1), (3, 4)]);
        let ends = process(5, 0, 2, &[(0, 5), (2, 6)]);
        let part = part(1.5, of(vec![idle, busy, ended, born, ends])).processes;
        let wanted = [
            process(1, 0, 1, &[(0, 5)]),
            process(2, 0, 1, &[(0, 6), (1, 9)]),
            process(4, 1, 1, &[(1, 4)]),
            process(5, 0, 1, &[(0, 5), (1, 6)]),
        ];
        assert_eq!(part, wanted);
    }

    #[test]
    fn what_was_read_once_is_the_level_of_each_part() {
        let mut once = of(Vec::new());
        once.times.truncate(1);
        once.series[0].values.truncate(1);
        let part = part(2.5, once);
        assert_eq!((part.times, &part.series[0].values), (vec![0.01 - 2.5], &vec![Some(Number::Whole(1))]));
    }
}
