//! Events as rows, at most so many, and their number by name.

use std::collections::{BTreeMap, HashMap, VecDeque};

use crate::table::TableSpec;
use rdiag_kernel::mechanism::tracefs::records::{Head, Kinds};
use rdiag_model::Unit;
use rdiag_model::probe::ProbeTable;

/// Events that are kept for a reading; later ones are only counted.
const ROWS: usize = 10_000;
/// Bytes of their records. Most have less than 100; those with the longest paths, 4096.
const BYTES: usize = 16 << 20;

/// Events since the last reading.
#[derive(Debug)]
pub(super) struct Log {
    clock: Clock,
    /// As many may still be shown.
    room: u64,
    /// Whether the last events are shown, all at the end, in place of the first as they come.
    keeps_last: bool,
    rows: VecDeque<ShownEvent>,
    bytes: usize,
    others: u64,
    /// By the number of their kind.
    counts: HashMap<u16, u64>,
}

/// What the kernel's stamps mean.
#[derive(Debug, Clone, Copy)]
pub(super) struct Clock {
    pub(super) unit: Unit,
    /// One step of the clock, in that unit.
    pub(super) step: f64,
    /// What it said at the start, where that is known.
    pub(super) began: Option<f64>,
}

/// An event that is to be shown.
#[derive(Debug)]
pub(super) struct ShownEvent {
    pub(super) time: u64,
    pub(super) cpu: u32,
    pub(super) head: Head,
    /// Name of the task, where it is known.
    pub(super) task: Option<String>,
    /// The whole record.
    pub(super) record: Vec<u8>,
}

impl Log {
    /// A log of which at most `room` events are shown.
    pub(super) fn new(clock: Clock, room: u64) -> Self {
        Self { clock, room, keeps_last: false, rows: VecDeque::new(), bytes: 0, others: 0, counts: HashMap::new() }
    }

    /// Shows the last events, when it is taken for the last time, in place of the first.
    pub(super) fn keep_last(&mut self) {
        self.keeps_last = true;
    }

    /// Nothing follows: what was kept until now is shown when it is taken.
    pub(super) fn close(&mut self) {
        self.keeps_last = false;
    }

    /// Counts an event; it is asked for in full only if it is shown.
    pub(super) fn add(&mut self, kind: u16, event: impl FnOnce() -> ShownEvent) {
        *self.counts.entry(kind).or_default() += 1;
        let is_full = self.room == 0 || self.rows.len() >= ROWS || self.bytes >= BYTES;
        if is_full {
            self.others += 1;
            let first = if self.keeps_last { self.rows.pop_front() } else { None };
            let Some(first) = first else { return };
            self.bytes -= first.record.len();
        } else {
            self.room -= 1;
        }
        let event = event();
        self.bytes += event.record.len();
        self.rows.push_back(event);
    }

    /// The events that would be shown now.
    pub(super) fn rows(&self) -> impl Iterator<Item = &ShownEvent> {
        self.rows.iter().filter(|_| !self.keeps_last)
    }

    /// The events and their counts, and forgets them. `text` tells what an event says.
    pub(super) fn take(&mut self, kinds: &Kinds, text: impl Fn(&ShownEvent) -> String) -> (ProbeTable, ProbeTable) {
        let (rows, others) = match self.keeps_last {
            true => (VecDeque::new(), 0),
            false => {
                self.bytes = 0;
                (std::mem::take(&mut self.rows), std::mem::take(&mut self.others))
            }
        };
        let clock = self.clock;
        let mut events = TableSpec::<ShownEvent>::new("events", "Events")
            .number("time", "time", clock.unit, |event| clock.time(event.time))
            .text("cpu", "cpu", |event| event.cpu.to_string())
            .text("name", "task", |event| event.task.clone())
            .text("tid", "tid", |event| event.head.tid.to_string())
            .text("event", "event", |event| kinds.name(event.head.kind).to_owned())
            .text("context", "context", |event| event.head.context())
            .text("fields", "fields", text)
            .all(rows);
        events.others = others;
        // All kinds that rdiag did not ask for are one.
        let mut by_name: BTreeMap<&str, u64> = BTreeMap::new();
        for (kind, count) in std::mem::take(&mut self.counts) {
            *by_name.entry(kinds.name(kind)).or_default() += count;
        }
        let mut counts: Vec<(&str, u64)> = by_name.into_iter().collect();
        counts.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
        let counts = TableSpec::<(&str, u64)>::new("counts", "Number of events")
            .rows("event", |(event, _)| (*event).to_owned())
            .text("event", "event", |(event, _)| (*event).to_owned())
            .number("count", "count", Unit::Count, |(_, count)| *count as f64)
            .all(counts);
        (events, counts)
    }
}

impl Clock {
    fn time(self, stamp: u64) -> f64 {
        let time = stamp as f64 * self.step;
        self.began.map_or(time, |began| (time - began).max(0.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rdiag_kernel::mechanism::tracefs::format::Format;
    use rdiag_kernel::mechanism::tracefs::print::Constants;
    use rdiag_kernel::mechanism::tracefs::select::TraceEvent;
    use rdiag_model::probe::Cell;

    const COMMON: &str = "\tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;\n\
                          \tfield:unsigned char common_flags;\toffset:2;\tsize:1;\tsigned:0;\n\
                          \tfield:unsigned char common_preempt_count;\toffset:3;\tsize:1;\tsigned:0;\n\
                          \tfield:int common_pid;\toffset:4;\tsize:4;\tsigned:1;\n";
    const MARK: u16 = 5;
    const X: u16 = 11;
    const Y: u16 = 12;
    const OTHER_Y: u16 = 13;

    fn kinds() -> Kinds {
        let format = |id: u16| Format::parse(&format!("ID: {id}\n{COMMON}"));
        let event = |group: &str, name: &str| TraceEvent { group: group.into(), name: name.into() };
        let events = [event("a", "x"), event("a", "y"), event("b", "y")];
        let formats: Vec<_> = events.iter().zip([X, Y, OTHER_Y].map(format)).collect();
        let mark = format!("ID: {MARK}\n{COMMON}\tfield:char buf[];\toffset:16;\tsize:0;\tsigned:0;\n");
        Kinds::of(&Format::parse(&mark), &formats, &Constants::new()).unwrap()
    }

    fn log(room: u64) -> Log {
        Log::new(Clock { unit: Unit::Seconds, step: 1e-9, began: Some(10.0) }, room)
    }

    fn add(log: &mut Log, kind: u16, at: f64) {
        let record = [&kind.to_ne_bytes()[..], &[8, 1], &5_u32.to_ne_bytes()].concat();
        let head = kinds().head(&record).unwrap();
        log.add(kind, || ShownEvent { time: (at * 1e9) as u64, cpu: 1, head, task: None, record });
    }

    fn take(log: &mut Log) -> (ProbeTable, ProbeTable) {
        log.take(&kinds(), |event| format!("{} bytes", event.record.len()))
    }

    fn counts(log: &mut Log) -> Vec<(String, f64)> {
        let (_, table) = take(log);
        table.rows.into_iter().map(|row| (row.instance, row.cells[1].number().unwrap())).collect()
    }

    #[test]
    fn events_have_their_groups_and_times_count_from_the_start() {
        let mut log = log(9);
        add(&mut log, X, 11.5);
        let (events, _) = take(&mut log);
        let cells = &events.rows[0].cells;
        assert_eq!(cells.len(), events.columns.len());
        assert_eq!((cells[0].number(), cells[4].text()), (Some(1.5), Some("a:x")));
        assert_eq!((&cells[2], cells[5].text()), (&Cell::Unknown(()), Some("hard interrupt, preemption off (1)")));
        assert_eq!((cells[3].text(), cells[6].text()), (Some("5"), Some("8 bytes")));
        assert!(take(&mut log).0.rows.is_empty());
    }

    #[test]
    fn the_last_events_are_shown_when_nothing_follows_and_not_before() {
        let mut log = log(2);
        log.keep_last();
        for at in [11.0, 12.0, 13.0] {
            add(&mut log, X, at);
        }
        assert_eq!(log.rows().count(), 0);
        let (events, counts) = take(&mut log);
        assert_eq!((events.rows.len(), events.others, counts.rows.len()), (0, 0, 1));
        add(&mut log, Y, 14.0);
        log.close();
        assert_eq!(log.rows().count(), 2);
        let (events, _) = take(&mut log);
        let times: Vec<f64> = events.rows.iter().filter_map(|row| row.cells[0].number()).collect();
        assert_eq!((times, events.others), (vec![3.0, 4.0], 2));
    }

    #[test]
    fn all_are_counted_and_so_many_shown_as_was_asked_for() {
        let mut log = log(2);
        for kind in [X, X, Y, X, MARK, 99, 98] {
            add(&mut log, kind, 11.0);
        }
        let (events, _) = take(&mut log);
        assert_eq!((events.rows.len(), events.others), (2, 5));
        for kind in [OTHER_Y, X, X, 98, 99, 99] {
            add(&mut log, kind, 12.0);
        }
        let expected = [("other", 3.0), ("a:x", 2.0), ("b:y", 1.0)].map(|(name, count)| (name.to_owned(), count));
        assert_eq!(counts(&mut log), expected);
    }

    #[test]
    fn long_records_take_the_room_of_many() {
        let mut log = log(1000);
        let head = kinds().head(&[0; 8]).unwrap();
        for _ in 0..3 {
            log.add(X, || ShownEvent { time: 0, cpu: 0, head, task: None, record: vec![0; BYTES / 2] });
        }
        let (events, _) = take(&mut log);
        assert_eq!((events.rows.len(), events.others), (2, 1));
        add(&mut log, X, 11.0);
        assert_eq!(take(&mut log).0.rows.len(), 1);
    }
}
