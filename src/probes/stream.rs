//! Single events, as the programs of stream.h hand them on.

use crate::def::{Probe, Taken};
use crate::table::TableSpec;
use rdiag_kernel::host::Host;
use rdiag_kernel::mechanism::ebpf::{Object, words};
use rdiag_model::probe::{Cell, Column, Output, ProbeTable, Row};
use rdiag_model::{Unavailable, Unit};

/// Events that are kept for a reading; later ones are counted.
const ROWS: usize = 10_000;
/// As many records are taken over at once; the ring holds fewer.
const MOST: usize = 100_000;

/// Events since the last reading, each with the time when it happened.
#[derive(Debug, Default)]
pub(super) struct Events {
    /// CLOCK_MONOTONIC seconds when the probe began.
    pub(super) began: f64,
    rows: Vec<(u64, Vec<Cell>)>,
    others: u64,
}

impl Events {
    pub(super) fn new(began: f64) -> Self {
        Self { began, ..Self::default() }
    }

    /// Takes over what the ring holds; `each` makes an event of its record, or keeps it for itself.
    pub(super) fn drain<E>(
        &mut self,
        object: &mut Object,
        spec: &TableSpec<'_, E>,
        mut each: impl FnMut(&[u8]) -> Option<E>,
    ) -> Result<(), Unavailable> {
        self.take_over(object, &mut |record| each(record).map(|event| spec.cells(&event)))
    }

    fn take_over(
        &mut self,
        object: &mut Object,
        cells: &mut dyn FnMut(&[u8]) -> Option<Vec<Cell>>,
    ) -> Result<(), Unavailable> {
        let each = |record: &[u8]| cells(record).into_iter().for_each(|cells| self.push(record, cells));
        object.drain("events", MOST, each).map(drop)
    }

    /// One event and its record, whose first word is its time in nanoseconds.
    pub(super) fn add<E>(&mut self, record: &[u8], event: &E, spec: &TableSpec<'_, E>) {
        self.push(record, spec.cells(event));
    }

    fn push(&mut self, record: &[u8], cells: Vec<Cell>) {
        if self.rows.len() < ROWS {
            self.rows.push((words::word(record, 0), cells));
        } else {
            self.others += 1;
        }
    }

    /// The events in order of time, and forgets them; before the columns of the table stands the time since the start.
    pub(super) fn table<E>(&mut self, spec: &TableSpec<'_, E>) -> ProbeTable {
        self.take(spec.empty().clone())
    }

    fn take(&mut self, mut table: ProbeTable) -> ProbeTable {
        let mut rows = std::mem::take(&mut self.rows);
        // Every CPU hands on its own events, so they come in order only nearly.
        rows.sort_by_key(|(at, _)| *at);
        let seconds = |at: u64| (at as f64 * 1e-9 - self.began).max(0.0);
        let row = |(at, cells): (u64, Vec<Cell>)| Row {
            instance: String::new(),
            cells: std::iter::once(seconds(at).into()).chain(cells).collect(),
        };
        table.columns.insert(0, Column::number("time", "time", Unit::Seconds));
        table.rows = rows.into_iter().map(row).collect();
        table.others = std::mem::take(&mut self.others);
        table
    }
}

/// The task of an event.
pub(super) struct Task {
    pub(super) pid: u64,
    pub(super) tid: u64,
    comm: [u64; 2],
}

impl Task {
    /// Process << 32 | thread in one word of a record, the name in two.
    pub(super) fn read(record: &[u8], ids: usize, name: usize) -> Self {
        let [ids, first, second] = [ids, name, name + 1].map(|at| words::word(record, at * 8));
        Self { pid: ids >> 32, tid: ids & 0xffff_ffff, comm: [first, second] }
    }

    pub(super) fn name(&self) -> String {
        words::text_of_words(&self.comm)
    }
}

/// A probe that hands on events and nothing else.
pub(super) struct Lines<E: 'static> {
    pub(super) object: Object,
    pub(super) events: Events,
    pub(super) spec: fn() -> TableSpec<'static, E>,
    /// An event of its record.
    pub(super) read: fn(&[u8]) -> E,
}

impl<E> Probe for Lines<E> {
    fn object(&self) -> Option<&Object> {
        Some(&self.object)
    }

    fn poll(&mut self, _: &Host) -> Result<(), Unavailable> {
        let Self { object, events, spec, read } = self;
        events.drain(object, &spec(), |record| Some(read(record)))
    }

    fn read(&mut self, host: &Host) -> Result<Taken, Unavailable> {
        self.poll(host)?;
        let table = self.events.table(&(self.spec)());
        Ok(Taken { lost: lost(&mut self.object, &table)?, outputs: vec![Output::Events(table)], ..Taken::default() })
    }
}

/// What is not in a reading: events that found the ring full, and those that a reading does not hold.
pub(super) fn lost(object: &mut Object, table: &ProbeTable) -> Result<Vec<(&'static str, u64)>, Unavailable> {
    Ok(vec![dropped(object)?, beyond(table)])
}

/// Events that found the ring full.
pub(super) fn dropped(object: &mut Object) -> Result<(&'static str, u64), Unavailable> {
    Ok(("the buffer was full", object.take_counts("dropped")?.iter().sum()))
}

/// Events that a reading does not hold.
pub(super) fn beyond(table: &ProbeTable) -> (&'static str, u64) {
    ("more than a reading holds", table.others)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(at: u64) -> [u8; 8] {
        at.to_ne_bytes()
    }

    fn spec() -> TableSpec<'static, f64> {
        TableSpec::<f64>::new("x", "…").number("n", "n", Unit::Count, |number| *number)
    }

    #[test]
    fn events_are_in_order_of_time_and_a_reading_forgets_them() {
        let mut events = Events::new(5.0);
        for (at, number) in [(7_000_000_000, 1.0), (6_000_000_000, 2.0), (4_000_000_000, 3.0)] {
            events.add(&record(at), &number, &spec());
        }
        let table = events.table(&spec());
        let rows: Vec<&[Cell]> = table.rows.iter().map(|row| &row.cells[..]).collect();
        assert_eq!(rows, [[0.0, 3.0], [1.0, 2.0], [2.0, 1.0]].map(|row| row.map(Cell::from)));
        let columns: Vec<&str> = table.columns.iter().map(|column| column.id.as_str()).collect();
        assert_eq!((table.id.as_str(), table.title.as_str(), &columns[..]), ("x", "…", &["time", "n"][..]));
        assert!(events.table(&spec()).rows.is_empty());
    }

    #[test]
    fn events_beyond_what_a_reading_holds_are_counted_and_short_records_harm_nobody() {
        let mut events = Events::new(0.0);
        for at in 0..ROWS as u64 + 3 {
            events.add(&record(at), &0.0, &spec());
        }
        events.add(&[1], &0.0, &spec());
        let table = events.table(&spec());
        assert_eq!((table.rows.len(), table.others), (ROWS, 4));
        assert_eq!(events.table(&spec()).others, 0);
    }
}
