//! Single events counted by when they happened and how long they took. A histogram of a whole window cannot tell a steady latency from
//! one that came in bursts; events have both, so this is made of events and of nothing else.

use rdiag_model::Unit;
use rdiag_model::heat::{HeatBand, HeatMap};
use rdiag_model::probe::ProbeTable;

/// Columns.
const COLUMNS: usize = 60;
/// Most bands.
const BANDS: i32 = 16;
/// Fewer events are read faster in their table.
const FEWEST: usize = 30;
/// Columns of tables that say how long an event took.
const LATENCIES: [&str; 3] = ["latency", "wait", "took"];

/// The map of a table of events; none where they have no time, or took none, or are few.
pub(super) fn heat(table: &ProbeTable, seconds: f64) -> Option<HeatMap> {
    let place = |ids: &[&str]| {
        table.columns.iter().position(|of| of.unit == Some(Unit::Seconds) && ids.contains(&of.id.as_str()))
    };
    let (at, took) = (place(&["time"])?, place(&LATENCIES)?);
    let number = |cells: &[rdiag_model::probe::Cell], column: usize| cells.get(column)?.number();
    let events: Vec<(f64, f64)> = table
        .rows
        .iter()
        .filter_map(|row| Some((number(&row.cells, at)?, number(&row.cells, took)?)))
        .filter(|(at, took)| at.is_finite() && *at >= 0.0 && took.is_finite() && *took > 0.0)
        .collect();
    if events.len() < FEWEST {
        return None;
    }
    let last = events.iter().map(|(at, _)| *at).fold(0.0, f64::max);
    // A probe keeps the first events and counts the rest: after the last one that it kept nothing is known, which is not that nothing was
    // slow.
    let seconds = if table.others > 0 && last > 0.0 { last } else { seconds.max(last) };
    let Scale { per_octave, lowest, highest } = Scale::of(&events);
    let bound = |band: i32| (f64::from(band) / per_octave).exp2();
    let mut bands: Vec<HeatBand> = (lowest..=highest)
        .map(|band| HeatBand { from: bound(band), below: bound(band + 1), counts: vec![0; COLUMNS] })
        .collect();
    let whole = events.len() as u64;
    for (at, took) in events {
        let band = ((took.log2() * per_octave).floor() as i32).clamp(lowest, highest) - lowest;
        let column = ((at / seconds * COLUMNS as f64) as usize).min(COLUMNS - 1);
        if let Some(count) = bands.get_mut(band as usize).and_then(|band| band.counts.get_mut(column)) {
            *count += 1;
        }
    }
    let unplaced = (table.rows.len() as u64).saturating_sub(whole);
    Some(HeatMap {
        id: table.id.clone(),
        title: table.title.clone(),
        seconds,
        bands,
        others: table.others.saturating_add(unplaced),
    })
}

/// Bands of equal ratio: four, two or one for each power of two, as many as there is room for.
struct Scale {
    per_octave: f64,
    lowest: i32,
    highest: i32,
}

impl Scale {
    fn of(events: &[(f64, f64)]) -> Self {
        let logs = || events.iter().map(|(_, took)| took.log2());
        let (low, high) = (logs().fold(f64::INFINITY, f64::min), logs().fold(f64::NEG_INFINITY, f64::max));
        let scale = |per_octave: f64| {
            let [lowest, highest] = [low, high].map(|log| (log * per_octave).floor() as i32);
            Self { per_octave, lowest, highest }
        };
        let fitting = [4.0, 2.0].into_iter().map(scale).find(|of| of.highest - of.lowest < BANDS);
        let mut chosen = fitting.unwrap_or_else(|| scale(1.0));
        // Only a file that no probe wrote spans more: the least of it is put together.
        chosen.lowest = chosen.lowest.max(chosen.highest - 2 * BANDS);
        chosen
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rdiag_model::probe::{Column, Row};

    fn events(rows: &[(f64, f64)]) -> ProbeTable {
        ProbeTable {
            id: "waits".into(),
            title: "Long waits for a CPU".into(),
            columns: vec![
                Column::number("time", "time", Unit::Seconds),
                Column::text("name", "task"),
                Column::number("wait", "waited", Unit::Seconds),
            ],
            rows: rows
                .iter()
                .map(|(at, took)| Row {
                    instance: String::new(),
                    cells: vec![(*at).into(), "a".into(), (*took).into()],
                })
                .collect(),
            others: 3,
            ..ProbeTable::default()
        }
    }

    #[test]
    fn every_event_is_in_the_field_of_its_time_and_its_latency() {
        let mut rows = vec![(0.05, 0.025); 40];
        rows.push((5.95, 0.1));
        rows.push((6.0, 0.1));
        let map = heat(&events(&rows), 6.0).unwrap();
        assert_eq!((map.seconds, map.counts().sum::<u64>(), map.others), (6.0, 42, 3));
        let (first, last) = (map.bands.first().unwrap(), map.bands.last().unwrap());
        assert!(first.from <= 0.025 && 0.025 < first.below, "{first:?}");
        assert!(last.from <= 0.1 && 0.1 < last.below, "{last:?}");
        assert_eq!((first.counts[0], last.counts[COLUMNS - 1]), (40, 2), "the end belongs to the last column");
        for pair in map.bands.windows(2) {
            assert_eq!(pair[0].below, pair[1].from, "no gap between bands");
        }
    }

    #[test]
    fn without_times_or_with_few_events_there_is_no_map() {
        assert!(heat(&events(&[(1.0, 0.02); FEWEST - 1]), 6.0).is_none(), "the table says it");
        let mut counted = events(&[(1.0, 0.02); 40]);
        counted.columns[0].unit = Some(Unit::Count);
        assert!(heat(&counted, 6.0).is_none(), "a clock that does not count seconds");
        counted.columns.clear();
        assert!(heat(&counted, 6.0).is_none());
    }

    #[test]
    fn a_file_may_say_anything_and_the_map_stays_small() {
        let odd = [f64::NAN, f64::INFINITY, -1.0, 0.0, 1e-300, 1e300, 1e-3, 5.0];
        let rows: Vec<_> = odd.iter().flat_map(|at| odd.iter().map(move |took| (*at, *took))).collect();
        let map = heat(&events(&rows), f64::NAN);
        for map in map.into_iter().chain(heat(&events(&[(0.0, 0.5); 40]), 0.0)) {
            assert!(
                map.bands.len() as i32 <= 2 * BANDS + 1 && map.bands.iter().all(|band| band.counts.len() == COLUMNS)
            );
        }
    }
}
