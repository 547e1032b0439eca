//! The last part of a window that is under way, as a window of its own.

use std::collections::BTreeMap;

use rdiag_model::{CollectorRecord, Process, ProcessPoint};

/// What collectors read from so many seconds on; what each had read last until then is what it begins with.
pub(super) fn since(from: f64, records: BTreeMap<String, CollectorRecord>) -> BTreeMap<String, CollectorRecord> {
    records.into_iter().map(|(id, record)| (id, record_since(from, record))).collect()
}

fn record_since(from: f64, mut record: CollectorRecord) -> CollectorRecord {
    let before = record.times.partition_point(|time| *time <= from).saturating_sub(1);
    record.times.drain(..before);
    record.times.iter_mut().for_each(|time| *time -= from);
    for series in &mut record.series {
        series.values.drain(..before.min(series.values.len()));
    }
    let first = u16::try_from(before).unwrap_or(u16::MAX);
    record.processes = record.processes.into_iter().filter_map(|process| process_since(first, process)).collect();
    record
}

/// None if the process had ended before this sample.
fn process_since(first: u16, mut process: Process) -> Option<Process> {
    if process.last < first {
        return None;
    }
    // Between its points nothing moved.
    let before = process.points.partition_point(|point| point.at <= first).saturating_sub(1);
    process.points.drain(..before);
    let moved = |point: ProcessPoint| ProcessPoint { at: point.at.saturating_sub(first), ..point };
    process.points = process.points.into_iter().map(moved).collect();
    process.first = process.first.saturating_sub(first);
    process.last -= first;
    Some(process)
}

#[cfg(test)]
mod tests {
    use super::*;
    use rdiag_model::{Number, RawUnit, Series, SeriesKind};

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

    #[test]
    fn a_part_begins_with_the_last_reading_before_it() {
        let part = record_since(1.5, of(Vec::new()));
        assert_eq!(part.times.len(), 3);
        assert!((part.times[0] - -0.49).abs() < 1e-9 && (part.times[2] - 1.51).abs() < 1e-9, "{:?}", part.times);
        assert_eq!(part.series[0].values, [2, 4, 8].map(|value| Some(Number::Whole(value))));
    }

    #[test]
    fn the_whole_of_a_window_is_a_part_of_it() {
        let whole = of(vec![process(1, 0, 3, &[(0, 5), (2, 6)])]);
        assert_eq!(record_since(0.0, whole.clone()), whole);
    }

    #[test]
    fn a_part_knows_of_each_process_what_it_had_used_until_then() {
        let idle = process(1, 0, 3, &[(0, 5)]);
        let busy = process(2, 0, 3, &[(0, 5), (1, 6), (3, 9)]);
        let ended = process(3, 0, 1, &[(0, 5), (1, 6)]);
        let born = process(4, 3, 3, &[(3, 1)]);
        let part = record_since(2.5, of(vec![idle, busy, ended, born])).processes;
        let wanted = [process(1, 0, 1, &[(0, 5)]), process(2, 0, 1, &[(0, 6), (1, 9)]), process(4, 1, 1, &[(1, 1)])];
        assert_eq!(part, wanted);
    }

    #[test]
    fn what_is_read_at_the_ends_only_stays() {
        let mut once = of(Vec::new());
        once.times.truncate(1);
        once.series[0].values.truncate(1);
        let part = record_since(2.5, once);
        assert_eq!((part.times.len(), part.series[0].values.len()), (1, 1));
    }
}
