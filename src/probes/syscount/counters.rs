//! The program's counters only grow; what happened in a window is the difference of two readings.

use std::collections::BTreeMap;

use crate::calls;
use rdiag_kernel::mechanism::ebpf::{Object, words};
use rdiag_model::probe::{Cell, Column, Output, ProbeTable, Row};
use rdiag_model::{Unavailable, Unit};

/// Errors of one call that its row names.
const NAMED_ERRORS: usize = 3;

/// `struct cpu` of the program.
type Cpu = [u64; 2 + 4 * calls::CALLS];

/// `struct sum` of the program.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Sum {
    count: u64,
    errors: u64,
    nanoseconds: u64,
    /// Since the start: a maximum has no difference.
    max: u64,
}

impl Sum {
    fn of<'w>(copies: impl IntoIterator<Item = &'w [u64]>) -> Self {
        let mut sum = Self::default();
        for copy in copies {
            if let [count, errors, nanoseconds, max] = copy {
                sum.count += count;
                sum.errors += errors;
                sum.nanoseconds += nanoseconds;
                sum.max = sum.max.max(*max);
            }
        }
        sum
    }

    fn since(self, before: Self) -> Self {
        Self {
            count: self.count.saturating_sub(before.count),
            errors: self.errors.saturating_sub(before.errors),
            nanoseconds: self.nanoseconds.saturating_sub(before.nanoseconds),
            max: self.max,
        }
    }
}

/// A process, and when it started.
type Key = (u64, u64);

/// What the program has counted.
#[derive(Debug, Clone, Default)]
pub(super) struct Counters {
    calls: Vec<Sum>,
    processes: BTreeMap<Key, (String, Sum)>,
    /// Of processes that found no room.
    rest: Sum,
    /// By call and error.
    errors: BTreeMap<(usize, u64), u64>,
    untimed: u64,
    pub(super) errors_without_room: u64,
}

impl Counters {
    pub(super) fn read(object: &Object) -> Result<Self, Unavailable> {
        let cpus: Vec<Cpu> = object.per_cpu_element("cpus", 0)?;
        let call = |at: usize| Sum::of(cpus.iter().filter_map(|cpu| cpu.get(2 + 4 * at..6 + 4 * at)));
        let slot = |slot: u64| -> Result<Sum, Unavailable> {
            let copies: Vec<[u64; 4]> = object.per_cpu_element("sums", u32::try_from(slot).unwrap_or(0))?;
            Ok(Sum::of(copies.iter().map(<[u64; 4]>::as_slice)))
        };
        let mut processes = BTreeMap::new();
        for ([pid, born], [at, comm @ ..]) in object.hash::<[u64; 2], [u64; 3]>("processes")? {
            processes.insert((pid, born), (words::text_of_words(&comm), slot(at)?));
        }
        let errors = object.per_cpu_hash::<u32, u64>("errnos")?.into_iter();
        let errors = errors.map(|(key, counts)| (((key >> 16) as usize, u64::from(key & 0xffff)), counts.iter().sum()));
        let missed = |at| object.per_cpu_element::<u64>("missed", at).map(|counts| counts.iter().sum());
        Ok(Self {
            calls: (0..calls::CALLS).map(call).collect(),
            processes,
            rest: slot(0)?,
            errors: errors.collect(),
            untimed: missed(0)?,
            errors_without_room: missed(1)?,
        })
    }
}

/// The reading before.
#[derive(Debug, Default)]
pub(super) struct Before(Counters);

impl Before {
    /// What happened since the reading before.
    pub(super) fn change(&mut self, now: Counters) -> Counters {
        let before = std::mem::replace(&mut self.0, now);
        let now = &self.0;
        let calls = now.calls.iter().enumerate();
        let process = |(key, (name, sum)): (&Key, &(String, Sum))| {
            let known = before.processes.get(key).map(|(_, sum)| *sum).unwrap_or_default();
            (*key, (name.clone(), sum.since(known)))
        };
        let error = |(key, count): (&(usize, u64), &u64)| {
            (*key, count.saturating_sub(before.errors.get(key).copied().unwrap_or(0)))
        };
        Counters {
            calls: calls.map(|(at, sum)| sum.since(before.calls.get(at).copied().unwrap_or_default())).collect(),
            processes: now.processes.iter().map(process).collect(),
            rest: now.rest.since(before.rest),
            errors: now.errors.iter().map(error).collect(),
            untimed: now.untimed.saturating_sub(before.untimed),
            errors_without_room: now.errors_without_room.saturating_sub(before.errors_without_room),
        }
    }
}

impl Counters {
    /// The tables of a window of this many seconds.
    pub(super) fn outputs(&self, latency: bool, top: usize, seconds: f64) -> Vec<Output> {
        vec![self.by_call(latency, top, seconds), self.by_process(latency, top, seconds)]
    }

    /// What the reader must know.
    pub(super) fn notes(&self, latency: bool) -> Vec<String> {
        let mut notes = Vec::new();
        if self.rest.count > 0 {
            notes.push(format!("{} calls were made by processes beyond the 8191 counted separately", self.rest.count));
        }
        if latency && self.untimed > 0 {
            notes.push(format!("{} calls have no time: when they began is not known", self.untimed));
        }
        notes
    }

    fn by_call(&self, latency: bool, top: usize, seconds: f64) -> Output {
        let rows = self.calls.iter().enumerate().filter(|(_, sum)| sum.count > 0).map(|(number, sum)| {
            let name = calls::name(number);
            (name.clone(), vec![name.into()], *sum, Some(self.errors_of(number)))
        });
        let mut table = table("calls", "call", rows.collect(), Sum::default(), latency, top, seconds);
        table.title = "System calls by number of calls".into();
        table.columns.insert(0, Column::text("call", "call"));
        table.columns.push(Column::text("which", "which errors"));
        Output::Table(table)
    }

    fn by_process(&self, latency: bool, top: usize, seconds: f64) -> Output {
        let rows = self.processes.iter().filter(|(_, (_, sum))| sum.count > 0).map(|((pid, born), (name, sum))| {
            (format!("{pid}:{born}"), vec![name.as_str().into(), pid.to_string().into()], *sum, None)
        });
        let mut table = table("processes", "process", rows.collect(), self.rest, latency, top, seconds);
        table.title = "Processes by number of system calls".into();
        table.columns.splice(0..0, [Column::text("name", "process"), Column::text("pid", "pid")]);
        Output::Table(table)
    }

    /// The errors of a call, most frequent first.
    fn errors_of(&self, number: usize) -> Cell {
        let of_call = self.errors.range((number, 0)..=(number, u64::MAX)).filter(|(_, count)| **count > 0);
        let mut errors: Vec<(u64, u64)> = of_call.map(|((_, error), count)| (*error, *count)).collect();
        errors.sort_by_key(|(error, count)| (std::cmp::Reverse(*count), *error));
        let more = errors.len().saturating_sub(NAMED_ERRORS);
        let named = errors.iter().take(NAMED_ERRORS).map(|(error, count)| format!("{count} {}", calls::error(*error)));
        let mut text = named.collect::<Vec<_>>().join(", ");
        if more > 0 {
            text.push_str(&format!(" and {more} more kinds"));
        }
        text.into()
    }
}

/// A row: its key, its first cells, its sums and its last cell.
type Line = (String, Vec<Cell>, Sum, Option<Cell>);

/// A table of sums; its title and its columns of text are still to be set.
fn table(
    id: &str,
    dimension: &str,
    mut lines: Vec<Line>,
    mut others: Sum,
    latency: bool,
    top: usize,
    seconds: f64,
) -> ProbeTable {
    let mut columns = vec![
        Column::number("count", "calls", Unit::Count),
        Column::number("per_second", "rate", Unit::PerSecond),
        Column::number("errors", "errors", Unit::Count),
        Column::number("errors_per_second", "error rate", Unit::PerSecond),
    ];
    if latency {
        columns.push(Column::number("time", "time", Unit::Seconds));
        columns.push(Column::number("mean", "mean", Unit::Seconds));
        columns.push(Column::number("max", "longest", Unit::Seconds));
    }
    let cells = |sum: &Sum| -> Vec<Cell> {
        let (count, errors, time) = (sum.count as f64, sum.errors as f64, sum.nanoseconds as f64 * 1e-9);
        let mut cells: Vec<Cell> = [count, count / seconds, errors, errors / seconds].map(Cell::from).to_vec();
        if latency {
            cells.extend([time, time / count.max(1.0), sum.max as f64 * 1e-9].map(Cell::from));
        }
        cells
    };
    // By time where it was measured: few long calls matter more than many short ones.
    lines.sort_by_key(|(_, _, sum, _)| std::cmp::Reverse(if latency { sum.nanoseconds } else { sum.count }));
    let left_out = lines.split_off(top.min(lines.len()));
    let mut table = ProbeTable { id: id.into(), dimension: Some(dimension.into()), ..ProbeTable::default() };
    table.others = left_out.len() as u64 + u64::from(others.count > 0);
    for (_, _, sum, _) in &left_out {
        others = Sum {
            count: others.count + sum.count,
            errors: others.errors + sum.errors,
            nanoseconds: others.nanoseconds + sum.nanoseconds,
            max: others.max.max(sum.max),
        };
    }
    for (column, cell) in columns.iter().zip(cells(&others)) {
        // Means and maxima do not add up.
        if let Cell::Number(value) = cell
            && table.others > 0
            && !["mean", "max"].contains(&column.id.as_str())
        {
            table.others_sum.insert(column.id.clone(), value);
        }
    }
    for (instance, first, sum, last) in lines {
        table.rows.push(Row { instance, cells: first.into_iter().chain(cells(&sum)).chain(last).collect() });
    }
    table.columns = columns;
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sum(count: u64, errors: u64, nanoseconds: u64, max: u64) -> Sum {
        Sum { count, errors, nanoseconds, max }
    }

    fn counters(reads: u64) -> Counters {
        let mut counters = Counters { calls: vec![Sum::default(); calls::CALLS], ..Counters::default() };
        let read = calls::number("read").unwrap() as usize;
        counters.calls[read] = sum(reads, reads / 2, reads * 1000, 5000);
        counters.calls[511] = sum(1, 0, 10, 10);
        counters.processes.insert((7, 1), ("one".into(), sum(reads, reads / 2, reads * 1000, 5000)));
        counters.processes.insert((7, 2), ("two".into(), sum(1, 0, 10, 10)));
        counters.errors.insert((read, 11), reads / 2);
        counters
    }

    fn tables(counters: &Counters, latency: bool, top: usize) -> (ProbeTable, ProbeTable) {
        match <[Output; 2]>::try_from(counters.outputs(latency, top, 2.0)).unwrap() {
            [Output::Table(calls), Output::Table(processes)] => (calls, processes),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_window_holds_what_was_counted_since_the_reading_before() {
        let mut before = Before::default();
        let first = before.change(counters(10));
        let second = before.change(counters(30));
        let (calls, processes) = tables(&second, true, 20);
        assert_eq!(tables(&first, false, 20).0.rows[0].cells[1], Cell::Number(10.0));
        let cells = [20.0, 10.0, 10.0, 5.0, 2e4 * 1e-9, 2e4 * 1e-9 / 20.0, 5e3 * 1e-9].map(Cell::from);
        assert_eq!(calls.rows.len(), 1, "what did not happen again is not shown");
        assert_eq!(calls.rows[0].cells[0], "read".into());
        assert_eq!(calls.rows[0].cells[1..8], cells);
        assert_eq!(calls.rows[0].cells[8], "10 EAGAIN".into());
        assert_eq!((calls.rows[0].cells.len(), calls.columns.len()), (9, 9));
        assert_eq!(processes.rows[0].instance, "7:1", "a pid that is used again is another process");
        assert_eq!((processes.rows[0].cells.len(), processes.columns.len()), (9, 9));
    }

    #[test]
    fn what_is_left_out_is_summed_up_with_what_found_no_room() {
        let mut counters = counters(10);
        counters.rest = sum(5, 1, 0, 0);
        let (_, processes) = tables(&counters, false, 1);
        assert_eq!((processes.rows.len(), processes.others), (1, 2));
        assert_eq!((processes.others_sum["count"], processes.others_sum["errors"]), (6.0, 1.0));
        assert!(counters.notes(false)[0].starts_with("5 calls were made by processes beyond"));
    }

    #[test]
    fn the_most_frequent_errors_of_a_call_are_named_and_the_rest_is_counted() {
        let mut counters = counters(10);
        let read = calls::number("read").unwrap() as usize;
        counters.errors.extend([((read, 4), 7), ((read, 9), 1), ((read, 512), 1), ((read + 1, 2), 99)]);
        assert_eq!(counters.errors_of(read), "7 EINTR, 5 EAGAIN, 1 EBADF and 1 more kinds".into());
    }
}
