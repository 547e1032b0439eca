//! The program's counters only grow; what happened in a window is the difference of two readings.

use std::collections::BTreeMap;

use crate::calls;
use crate::table::TableSpec;
use rdiag_kernel::mechanism::ebpf::{Object, words};
use rdiag_model::probe::{Output, ProbeTable};
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

    fn seconds(&self) -> f64 {
        self.nanoseconds as f64 * 1e-9
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
        [self.by_call(latency, top, seconds), self.by_process(latency, top, seconds)].map(Output::Table).into()
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

    fn by_call(&self, latency: bool, top: usize, seconds: f64) -> ProbeTable {
        let spec = TableSpec::<(usize, Sum)>::new("calls", "System calls by number of calls")
            .rows("call", |(number, _)| calls::name(*number))
            .text("call", "call", |(number, _)| calls::name(*number));
        let spec = figures(spec, latency, seconds).text("which", "which errors", |(number, _)| self.errors_of(*number));
        let rows = self.calls.iter().copied().enumerate().filter(|(_, sum)| sum.count > 0);
        table(&spec, rows.collect(), Sum::default(), latency, top)
    }

    fn by_process(&self, latency: bool, top: usize, seconds: f64) -> ProbeTable {
        let spec = TableSpec::<((Key, &str), Sum)>::new("processes", "Processes by number of system calls")
            .rows("process", |(((pid, born), _), _)| format!("{pid}:{born}"))
            .text("name", "process", |((_, name), _)| (*name).to_owned())
            .text("pid", "pid", |(((pid, _), _), _)| pid.to_string());
        let rows = self.processes.iter().filter(|(_, (_, sum))| sum.count > 0);
        let rows = rows.map(|(key, (name, sum))| ((*key, name.as_str()), *sum));
        table(&figures(spec, latency, seconds), rows.collect(), self.rest, latency, top)
    }

    /// The errors of a call, most frequent first.
    fn errors_of(&self, number: usize) -> String {
        let of_call = self.errors.range((number, 0)..=(number, u64::MAX)).filter(|(_, count)| **count > 0);
        let mut errors: Vec<(u64, u64)> = of_call.map(|((_, error), count)| (*error, *count)).collect();
        errors.sort_by_key(|(error, count)| (std::cmp::Reverse(*count), *error));
        let more = errors.len().saturating_sub(NAMED_ERRORS);
        let named = errors.iter().take(NAMED_ERRORS).map(|(error, count)| format!("{count} {}", calls::error(*error)));
        let mut text = named.collect::<Vec<_>>().join(", ");
        if more > 0 {
            text.push_str(&format!(" and {more} more kinds"));
        }
        text
    }
}

/// Adds the columns of sums.
fn figures<'c, K: 'c>(spec: TableSpec<'c, (K, Sum)>, latency: bool, seconds: f64) -> TableSpec<'c, (K, Sum)> {
    let spec = spec
        .sum("count", "calls", Unit::Count, |(_, sum)| sum.count as f64)
        .sum("per_second", "rate", Unit::PerSecond, move |(_, sum)| sum.count as f64 / seconds)
        .sum("errors", "errors", Unit::Count, |(_, sum)| sum.errors as f64)
        .sum("errors_per_second", "error rate", Unit::PerSecond, move |(_, sum)| sum.errors as f64 / seconds);
    if !latency {
        return spec;
    }
    spec.sum("time", "time", Unit::Seconds, |(_, sum)| sum.seconds())
        // Means and maxima do not add up.
        .number("mean", "mean", Unit::Seconds, |(_, sum)| sum.seconds() / (sum.count as f64).max(1.0))
        .number("max", "longest", Unit::Seconds, |(_, sum)| sum.max as f64 * 1e-9)
}

/// The largest rows; what is left out is summed up with what found no room.
fn table<'c, K: Default + 'c>(
    spec: &TableSpec<'c, (K, Sum)>,
    mut rows: Vec<(K, Sum)>,
    rest: Sum,
    latency: bool,
    top: usize,
) -> ProbeTable {
    // By time where it was measured: few long calls matter more than many short ones.
    rows.sort_by_key(|(_, sum)| std::cmp::Reverse(if latency { sum.nanoseconds } else { sum.count }));
    spec.top_with_rest(rows, top, (rest, rest.count > 0), |rest, sum| {
        rest.count += sum.count;
        rest.errors += sum.errors;
        rest.nanoseconds += sum.nanoseconds;
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use rdiag_model::probe::Cell;

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
    fn means_and_maxima_of_what_is_left_out_are_not_summed_up() {
        let (_, processes) = tables(&counters(10), true, 1);
        let numbers = [10.0, 5.0, 5.0, 2.5, 1e4 * 1e-9, 1e4 * 1e-9 / 10.0, 5e3 * 1e-9].map(Cell::from);
        assert_eq!(processes.rows[0].cells, [&["one", "7"].map(Cell::from)[..], &numbers].concat());
        let sums =
            [("count", 1.0), ("per_second", 0.5), ("errors", 0.0), ("errors_per_second", 0.0), ("time", 1e1 * 1e-9)];
        assert_eq!(processes.others_sum, sums.map(|(id, sum)| (id.to_owned(), sum)).into());
    }

    #[test]
    fn the_most_frequent_errors_of_a_call_are_named_and_the_rest_is_counted() {
        let mut counters = counters(10);
        let read = calls::number("read").unwrap() as usize;
        counters.errors.extend([((read, 4), 7), ((read, 9), 1), ((read, 512), 1), ((read + 1, 2), 99)]);
        assert_eq!(counters.errors_of(read), "7 EINTR, 5 EAGAIN, 1 EBADF and 1 more kinds");
    }
}
