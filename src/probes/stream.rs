//! Single events, as the programs of stream.h hand them on.

use crate::def::{Probe, Taken};
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

    /// Takes over what the ring holds; `each` makes an event's cells from its record, or keeps it for itself.
    pub(super) fn drain(
        &mut self,
        object: &mut Object,
        mut each: impl FnMut(&[u8]) -> Option<Vec<Cell>>,
    ) -> Result<(), Unavailable> {
        object.drain("events", MOST, |record| self.add(record, &mut each)).map(drop)
    }

    /// One record, whose first word is its time in nanoseconds.
    pub(super) fn add(&mut self, record: &[u8], each: &mut impl FnMut(&[u8]) -> Option<Vec<Cell>>) {
        let Some(cells) = each(record) else { return };
        if self.rows.len() < ROWS {
            self.rows.push((words::word(record, 0), cells));
        } else {
            self.others += 1;
        }
    }

    /// The events in order of time, and forgets them; the first column is the time since the start.
    pub(super) fn table(&mut self, id: &str, title: &str, columns: &[Column]) -> ProbeTable {
        let mut rows = std::mem::take(&mut self.rows);
        // Every CPU hands on its own events, so they come in order only nearly.
        rows.sort_by_key(|(at, _)| *at);
        let seconds = |at: u64| (at as f64 * 1e-9 - self.began).max(0.0);
        let row = |(at, cells): (u64, Vec<Cell>)| Row {
            instance: String::new(),
            cells: std::iter::once(seconds(at).into()).chain(cells).collect(),
        };
        ProbeTable {
            id: id.into(),
            title: title.into(),
            columns: std::iter::once(Column::number("time", "time", Unit::Seconds))
                .chain(columns.iter().cloned())
                .collect(),
            rows: rows.into_iter().map(row).collect(),
            others: std::mem::take(&mut self.others),
            ..ProbeTable::default()
        }
    }
}

/// A probe that hands on events and nothing else.
pub(super) struct Lines {
    pub(super) object: Object,
    pub(super) events: Events,
    /// Of the table.
    pub(super) id: &'static str,
    pub(super) title: &'static str,
    /// But for the time, which comes first.
    pub(super) columns: Vec<Column>,
    /// The cells of a record, one for each column.
    pub(super) line: fn(&[u8]) -> Vec<Cell>,
}

impl Probe for Lines {
    fn object(&self) -> Option<&Object> {
        Some(&self.object)
    }

    fn poll(&mut self, _: &Host) -> Result<(), Unavailable> {
        let Self { object, events, line, .. } = self;
        events.drain(object, |record| Some(line(record)))
    }

    fn read(&mut self, host: &Host) -> Result<Taken, Unavailable> {
        self.poll(host)?;
        let table = self.events.table(self.id, self.title, &self.columns);
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

    #[test]
    fn events_are_in_order_of_time_and_a_reading_forgets_them() {
        let mut events = Events::new(5.0);
        let mut each = |record: &[u8]| Some(vec![Cell::from(words::word(record, 0) as f64)]);
        for at in [7_000_000_000, 6_000_000_000, 4_000_000_000] {
            events.add(&record(at), &mut each);
        }
        let table = events.table("x", "…", &[Column::number("n", "n", Unit::Count)]);
        let times: Vec<&Cell> = table.rows.iter().map(|row| &row.cells[0]).collect();
        assert_eq!(times, [&0.0.into(), &1.0.into(), &2.0.into()]);
        assert!(table.rows.iter().all(|row| row.cells.len() == table.columns.len()));
        assert!(events.table("x", "…", &[]).rows.is_empty());
    }

    #[test]
    fn events_beyond_what_a_reading_holds_are_counted_and_short_records_harm_nobody() {
        let mut events = Events::new(0.0);
        for at in 0..ROWS as u64 + 3 {
            events.add(&record(at), &mut |_| Some(Vec::new()));
        }
        events.add(&[1], &mut |_| Some(Vec::new()));
        events.add(&[], &mut |_| None);
        let table = events.table("x", "…", &[]);
        assert_eq!((table.rows.len(), table.others), (ROWS, 4));
        assert_eq!(events.table("x", "…", &[]).others, 0);
    }
}
