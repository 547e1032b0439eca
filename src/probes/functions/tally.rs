//! Calls, counted by function and caller, and the first of them one by one.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap, HashMap};

use rdiag_model::Unit;
use rdiag_model::probe::{Cell, Column, ProbeTable, Row};

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
        let mut functions: BTreeMap<Vec<String>, u64> = BTreeMap::new();
        let mut callers: BTreeMap<Vec<String>, u64> = BTreeMap::new();
        for ((function, caller), count) in std::mem::take(&mut self.counts) {
            *functions.entry(vec![name(function)]).or_default() += count;
            *callers.entry(vec![name(function), name(caller)]).or_default() += count;
        }
        let mut first = std::mem::take(&mut self.first).into_vec();
        first.sort_unstable();
        let row = |call: &Call| {
            let cells = vec![
                (call.time as f64 * 1e-9 - began).max(0.0).into(),
                call.cpu.to_string().into(),
                tasks.get(&call.tid).map_or(Cell::Unknown(()), |name| name.clone().into()),
                call.tid.to_string().into(),
                name(call.function).into(),
                name(call.caller).into(),
            ];
            Row { instance: String::new(), cells }
        };
        let all = std::mem::take(&mut self.all);
        let calls = ProbeTable {
            id: "calls".into(),
            title: "The first calls".into(),
            columns: vec![
                Column::number("time", "time", Unit::Seconds),
                Column::text("cpu", "cpu"),
                Column::text("name", "task"),
                Column::text("tid", "tid"),
                Column::text("function", "function"),
                Column::text("caller", "called by"),
            ],
            rows: first.iter().map(row).collect(),
            others: if first.is_empty() { 0 } else { all.saturating_sub(first.len() as u64) },
            ..ProbeTable::default()
        };
        let function = || Column::text("function", "function");
        (
            counted("functions", "Calls by function", vec![function()], functions, top),
            counted(
                "callers",
                "Calls by function and caller",
                vec![function(), Column::text("caller", "called by")],
                callers,
                top,
            ),
            calls,
        )
    }
}

/// A table of counts, the largest first.
fn counted(id: &str, title: &str, keys: Vec<Column>, counts: BTreeMap<Vec<String>, u64>, top: usize) -> ProbeTable {
    let mut counts: Vec<(Vec<String>, u64)> = counts.into_iter().collect();
    counts.sort_by_key(|(_, count)| Reverse(*count));
    let others = counts.split_off(top.min(counts.len())).len() as u64;
    let row = |(keys, count): (Vec<String>, u64)| Row {
        instance: keys.join(" < "),
        cells: std::iter::once((count as f64).into()).chain(keys.into_iter().map(Cell::Text)).collect(),
    };
    ProbeTable {
        id: id.into(),
        title: title.into(),
        dimension: Some(id.trim_end_matches('s').to_owned()),
        columns: std::iter::once(Column::number("count", "count", Unit::Count)).chain(keys).collect(),
        rows: counts.into_iter().map(row).collect(),
        others,
        ..ProbeTable::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
    fn without_lines_calls_are_only_counted() {
        let mut tally = Tally::new(0);
        tally.add(call(1, 2, 3));
        let (functions, _, calls) = tally.take(&BTreeMap::new(), &BTreeMap::new(), 0.0, 9);
        assert_eq!((functions.rows.len(), calls.rows.len(), calls.others), (1, 0, 0));
    }
}
