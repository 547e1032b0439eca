//! Events as rows, at most so many, and their number by name.

use std::collections::{BTreeMap, VecDeque};

use rdiag_kernel::mechanism::tracefs::line::{Line, Stamp, context};
use rdiag_kernel::mechanism::tracefs::select::{Chosen, TraceEvent};
use rdiag_model::Unit;
use rdiag_model::probe::{Cell, Column, ProbeTable, Row};

/// Events that are kept for a reading; later ones are only counted.
const ROWS: usize = 10_000;

/// Events since the last reading.
#[derive(Debug)]
pub(super) struct Log {
    /// Seconds of the clock at the start, where that clock is known.
    began: Option<f64>,
    unit: Unit,
    /// As many may still be shown.
    room: u64,
    /// Whether the last events are shown, all at the end, in place of the first as they come.
    keeps_last: bool,
    /// Names with their group, by the name alone.
    names: BTreeMap<String, String>,
    rows: VecDeque<Row>,
    others: u64,
    counts: BTreeMap<String, u64>,
}

impl Log {
    /// A log of chosen events, of which at most `room` are shown.
    pub(super) fn new(began: Option<f64>, unit: Unit, room: u64, chosen: &[Chosen]) -> Self {
        let events = chosen.iter().flat_map(|(_, events)| events);
        // Two groups may have an event of the same name, and the text of the kernel does not tell which it is.
        let mut names: BTreeMap<String, String> = BTreeMap::new();
        for TraceEvent { group, name } in events {
            let whole = names.entry(name.clone()).or_insert_with(|| format!("{group}:{name}"));
            if !whole.split([':', '|']).any(|part| part == group) {
                *whole = format!("{group}|{whole}");
            }
        }
        Self { began, unit, room, keeps_last: false, names, rows: VecDeque::new(), others: 0, counts: BTreeMap::new() }
    }

    /// Shows the last events, when it is taken for the last time, in place of the first.
    pub(super) fn keep_last(&mut self) {
        self.keeps_last = true;
    }

    /// Nothing follows: what was kept until now is shown when it is taken.
    pub(super) fn close(&mut self) {
        self.keeps_last = false;
    }

    pub(super) fn add(&mut self, line: Line) {
        // Marks that programs write into the buffer are no tracepoints, and only names that are known may become keys.
        let event = match self.names.get(&line.event) {
            Some(whole) => whole.clone(),
            None if line.event == "tracing_mark_write" => "mark".to_owned(),
            None => "other".to_owned(),
        };
        *self.counts.entry(event.clone()).or_default() += 1;
        let is_full = self.room == 0 || self.rows.len() >= ROWS;
        if is_full {
            self.others += 1;
            if !self.keeps_last || self.rows.pop_front().is_none() {
                return;
            }
        } else {
            self.room -= 1;
        }
        let time = match (line.stamp, self.began) {
            (Stamp::Seconds(at), Some(began)) => (at - began).max(0.0),
            (Stamp::Seconds(at), None) => at,
            (Stamp::Ticks(at), _) => at as f64,
        };
        let cells = vec![
            time.into(),
            line.cpu.to_string().into(),
            line.task.map_or(Cell::Unknown(()), Cell::Text),
            line.tid.to_string().into(),
            event.into(),
            context(&line.flags).into(),
            line.fields.into(),
        ];
        self.rows.push_back(Row { instance: String::new(), cells });
    }

    /// The events and their counts, and forgets them.
    pub(super) fn take(&mut self) -> (ProbeTable, ProbeTable) {
        let (rows, others) = match self.keeps_last {
            true => (VecDeque::new(), 0),
            false => (std::mem::take(&mut self.rows), std::mem::take(&mut self.others)),
        };
        let events = ProbeTable {
            id: "events".into(),
            title: "Events".into(),
            columns: vec![
                Column::number("time", "time", self.unit),
                Column::text("cpu", "cpu"),
                Column::text("name", "task"),
                Column::text("tid", "tid"),
                Column::text("event", "event"),
                Column::text("context", "context"),
                Column::text("fields", "fields"),
            ],
            rows: rows.into(),
            others,
            ..ProbeTable::default()
        };
        let mut counts: Vec<(String, u64)> = std::mem::take(&mut self.counts).into_iter().collect();
        counts.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
        let row = |(event, count): (String, u64)| {
            let cells = vec![event.clone().into(), (count as f64).into()];
            Row { instance: event, cells }
        };
        let counts = ProbeTable {
            id: "counts".into(),
            title: "Number of events".into(),
            dimension: Some("event".into()),
            columns: vec![Column::text("event", "event"), Column::number("count", "count", Unit::Count)],
            rows: counts.into_iter().map(row).collect(),
            ..ProbeTable::default()
        };
        (events, counts)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn log(room: u64) -> Log {
        let event = |group: &str, name: &str| TraceEvent { group: group.into(), name: name.into() };
        let chosen = vec![event("a", "x"), event("a", "y"), event("b", "y"), event("a", "y")];
        Log::new(Some(10.0), Unit::Seconds, room, &[("*".to_owned(), chosen)])
    }

    fn line(event: &str, at: f64) -> Line {
        Line {
            task: None,
            tid: 5,
            cpu: 1,
            flags: "..h1.".into(),
            stamp: Stamp::Seconds(at),
            event: event.into(),
            fields: "n=1".into(),
        }
    }

    fn counts(log: &mut Log) -> Vec<(String, f64)> {
        let (_, table) = log.take();
        table.rows.into_iter().map(|row| (row.instance, row.cells[1].number().unwrap())).collect()
    }

    #[test]
    fn events_have_their_groups_and_times_count_from_the_start() {
        let mut log = log(9);
        log.add(line("x", 11.5));
        let (events, _) = log.take();
        let cells = &events.rows[0].cells;
        assert_eq!(cells.len(), events.columns.len());
        assert_eq!((cells[0].number(), cells[4].text()), (Some(1.5), Some("a:x")));
        assert_eq!((&cells[2], cells[5].text()), (&Cell::Unknown(()), Some("hard interrupt, preemption off (1)")));
        assert!(log.take().0.rows.is_empty());
    }

    #[test]
    fn the_last_events_are_shown_when_nothing_follows_and_not_before() {
        let mut log = log(2);
        log.keep_last();
        for at in [11.0, 12.0, 13.0] {
            log.add(line("x", at));
        }
        let (events, counts) = log.take();
        assert_eq!((events.rows.len(), events.others, counts.rows.len()), (0, 0, 1));
        log.add(line("y", 14.0));
        log.close();
        let (events, _) = log.take();
        let times: Vec<f64> = events.rows.iter().filter_map(|row| row.cells[0].number()).collect();
        assert_eq!((times, events.others), (vec![3.0, 4.0], 2));
    }

    #[test]
    fn all_are_counted_and_so_many_shown_as_was_asked_for() {
        let mut log = log(2);
        for event in ["x", "x", "y", "x", "tracing_mark_write", "forged"] {
            log.add(line(event, 11.0));
        }
        let (events, _) = log.take();
        assert_eq!((events.rows.len(), events.others), (2, 4));
        for event in ["y", "x", "x"] {
            log.add(line(event, 12.0));
        }
        assert_eq!(counts(&mut log), [("a:x".to_owned(), 2.0), ("b|a:y".to_owned(), 1.0)]);
    }
}
