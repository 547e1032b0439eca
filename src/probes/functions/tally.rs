//! Calls, counted by function and caller, and the first of them one by one.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap, HashMap};

use crate::table::TableSpec;
use rdiag_model::Unit;
use rdiag_model::probe::ProbeTable;

/// Distinct pairs of functions and callers.
const PAIRS: usize = 100_000;

/// A call of a function. They are ordered by time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Call {
    /// Nanoseconds of the clock in force.
    pub(super) time: u64,
    pub(super) cpu: u32,
    /// Id of the thread.
    pub(super) tid: u32,
    /// Addresses.
    pub(super) function: u64,
    pub(super) caller: u64,
}

/// Calls since the last reading.
#[derive(Debug)]
pub(super) struct Tally {
    counts: HashMap<(u64, u64), u64>,
    untold: u64,
    /// The earliest calls, the latest of them on top: the buffers of the CPUs are read one after the other.
    first: BinaryHeap<Call>,
    lines: usize,
    all: u64,
}

impl Tally {
    /// A tally that keeps so many calls.
    pub(super) fn new(lines: usize) -> Self {
        Self { counts: HashMap::new(), untold: 0, first: BinaryHeap::new(), lines, all: 0 }
    }

    pub(super) fn add(&mut self, call: Call) {
        let key = (call.function, call.caller);
        if self.counts.len() >= PAIRS && !self.counts.contains_key(&key) {
            self.untold += 1;
            return;
        }
        *self.counts.entry(key).or_default() += 1;
        self.all += 1;
        self.first.push(call);
        if self.first.len() > self.lines {
            self.first.pop();
        }
    }

    /// Calls that were not counted since the last reading.
    pub(super) fn untold(&mut self) -> u64 {
        std::mem::take(&mut self.untold)
    }

    /// All addresses that need a name.
    pub(super) fn addresses(&self) -> BTreeSet<u64> {
        self.counts.keys().flat_map(|(function, caller)| [*function, *caller]).collect()
    }

    /// Functions by their number of calls, the same with each caller, and the first calls; forgets them.
    pub(super) fn take(
        &mut self,
        names: &BTreeMap<u64, String>,
        tasks: &BTreeMap<u32, String>,
        began: f64,
        top: usize,
    ) -> (ProbeTable, ProbeTable, ProbeTable) {
        let name = |address: u64| names.get(&address).cloned().unwrap_or_default();
        let mut functions: BTreeMap<String, u64> = BTreeMap::new();
        let mut callers: BTreeMap<(String, String), u64> = BTreeMap::new();
        for ((function, caller), count) in std::mem::take(&mut self.counts) {
            *functions.entry(name(function)).or_default() += count;
            *callers.entry((name(function), name(caller))).or_default() += count;
        }
        let mut first = std::mem::take(&mut self.first).into_vec();
        first.sort_unstable();
        let mut calls = TableSpec::<Call>::new("calls", "The first calls")
            .number("time", "time", Unit::Seconds, |call| (call.time as f64 * 1e-9 - began).max(0.0))
            .text("cpu", "cpu", |call| call.cpu.to_string())
            .text("name", "task", |call| tasks.get(&call.tid).cloned())
            .text("tid", "tid", |call| call.tid.to_string())
            .text("function", "function", |call| name(call.function))
            .text("caller", "called by", |call| name(call.caller))
            .all(first);
        let all = std::mem::take(&mut self.all);
        calls.others = if calls.rows.is_empty() { 0 } else { all.saturating_sub(calls.rows.len() as u64) };
        let functions = TableSpec::<(String, u64)>::new("functions", "Calls by function")
            .rows("function", |(function, _)| function.clone())
            .number("count", "count", Unit::Count, |(_, count)| *count as f64)
            .text("function", "function", |(function, _)| function.clone())
            .top(largest_first(functions), top);
        let callers = TableSpec::<((String, String), u64)>::new("callers", "Calls by function and caller")
            .rows("caller", |((function, caller), _)| format!("{function} < {caller}"))
            .number("count", "count", Unit::Count, |(_, count)| *count as f64)
            .text("function", "function", |((function, _), _)| function.clone())
            .text("caller", "called by", |((_, caller), _)| caller.clone())
            .top(largest_first(callers), top);
        (functions, callers, calls)
    }
}

fn largest_first<K>(counts: BTreeMap<K, u64>) -> Vec<(K, u64)> {
    let mut counts: Vec<(K, u64)> = counts.into_iter().collect();
    counts.sort_by_key(|(_, count)| Reverse(*count));
    counts
}

#[cfg(test)]
mod tests {
    use super::*;
    use rdiag_model::probe::Cell;

    fn call(time: u64, function: u64, caller: u64) -> Call {
        Call { time, cpu: 1, tid: 7, function, caller }
    }

    fn told(table: &ProbeTable) -> Vec<(String, f64)> {
        table.rows.iter().map(|row| (row.instance.clone(), row.cells[0].number().unwrap())).collect()
    }

    #[test]
    fn calls_are_counted_by_function_and_by_caller_and_the_earliest_are_told() {
        let mut tally = Tally::new(2);
        for (time, function, caller) in [(9, 1, 2), (5, 1, 2), (7, 1, 3), (6, 4, 2)] {
            tally.add(call(time * 1_000_000_000, function, caller));
        }
        let names: BTreeMap<u64, String> = tally.addresses().into_iter().map(|at| (at, format!("f{at}"))).collect();
        assert_eq!(names.len(), 4);
        let tasks = BTreeMap::from([(7, "cat".to_owned())]);
        let (functions, callers, calls) = tally.take(&names, &tasks, 4.0, 2);
        assert_eq!(told(&functions), [("f1".to_owned(), 3.0), ("f4".to_owned(), 1.0)]);
        assert_eq!(told(&callers), [("f1 < f2".to_owned(), 2.0), ("f1 < f3".to_owned(), 1.0)]);
        assert_eq!((functions.others, callers.others, calls.others), (0, 1, 2));
        let times: Vec<f64> = calls.rows.iter().map(|row| row.cells[0].number().unwrap()).collect();
        assert_eq!(times, [1.0, 2.0]);
        assert_eq!(calls.rows[1].cells[2..], ["cat", "7", "f4", "f2"].map(|text| Cell::Text(text.into())));
        let (functions, _, calls) = tally.take(&names, &tasks, 4.0, 2);
        assert!(functions.rows.is_empty() && calls.rows.is_empty() && calls.others == 0);
    }

    #[test]
    fn counts_stand_before_the_names_that_they_are_of() {
        let mut tally = Tally::new(0);
        tally.add(call(1, 2, 3));
        let names = BTreeMap::from([(2, "open".to_owned()), (3, "main".to_owned())]);
        let (functions, callers, _) = tally.take(&names, &BTreeMap::new(), 0.0, 9);
        assert_eq!(functions.rows[0].cells, [1.0.into(), "open".into()]);
        assert_eq!(callers.rows[0].cells, [1.0.into(), "open".into(), "main".into()]);
        let dimensions = [&functions, &callers].map(|table| table.dimension.as_deref());
        assert_eq!(dimensions, [Some("function"), Some("caller")]);
    }

    #[test]
    fn without_lines_calls_are_only_counted() {
        let mut tally = Tally::new(0);
        tally.add(call(1, 2, 3));
        let (functions, _, calls) = tally.take(&BTreeMap::new(), &BTreeMap::new(), 0.0, 9);
        assert_eq!((functions.rows.len(), calls.rows.len(), calls.others), (1, 0, 0));
    }
}
