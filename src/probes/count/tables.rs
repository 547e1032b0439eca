//! From the program's sums to tables, histograms and stacks.

use std::cmp::Reverse;
use std::collections::HashMap;

use super::Key;
use super::plan::{Plan, Value};
use crate::mechanism::ebpf::{hist, words};
use crate::mechanism::symbols::{Part, Piece, Process, Sample};
use crate::model::Unit;
use crate::model::probe::{Cell, Column, Histogram, Output, ProbeTable, Row};

/// `struct sum` of the program.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Sum {
    pub(super) count: u64,
    /// Modulo 2⁶⁴, as the program adds up values with a sign.
    pub(super) sum: u64,
}

impl Value {
    /// Base unit, and what one unit of the program is in it.
    pub(super) fn unit(&self) -> (Unit, f64) {
        if self.is_time { (Unit::Seconds, 1e-9) } else { (Unit::Count, 1.0) }
    }

    /// A sum of values.
    pub(super) fn sum(&self, sum: u64) -> f64 {
        let whole = if self.is_signed { sum.cast_signed() as f64 } else { sum as f64 };
        whole * self.unit().1
    }
}

impl Plan {
    /// `kmem:kmalloc by comm, bytes_req`.
    pub(super) fn title(&self, what: &str) -> String {
        let mut by: Vec<&str> = self.keys.iter().map(|(name, _)| name.as_str()).collect();
        if self.by_comm {
            by.insert(0, "task");
        }
        if self.has_stack() {
            by.push("stack");
        }
        let by = if by.is_empty() { String::new() } else { format!(" by {}", by.join(", ")) };
        format!("{what}{}{by}", self.reads.point.name)
    }

    /// The key's parts as text, the task's name first.
    fn parts(&self, key: &Key) -> Vec<String> {
        let [first, second, third, comm @ ..] = key;
        let numbers = self.keys.iter().zip([first, second, third]).map(|((_, read), word)| read.shown(*word));
        let name = self.by_comm.then(|| words::text_of_words(comm.get(..2).unwrap_or_default()));
        name.into_iter().chain(numbers).collect()
    }

    /// What a row of the outputs is.
    fn dimension(&self) -> Option<String> {
        self.has_key().then(|| "key".to_owned())
    }

    /// Counts and sums by key, largest first.
    pub(super) fn table(&self, sums: &[(Key, Sum)], seconds: f64, top: usize) -> ProbeTable {
        let mut columns = Vec::new();
        if self.by_comm {
            columns.push(Column::text("name", "task"));
        }
        columns.extend(self.keys.iter().map(|(name, _)| Column::text(name, name)));
        columns.push(Column::number("count", "times", Unit::Count));
        columns.push(Column::number("per_second", "per second", Unit::PerSecond));
        if let Some(value) = &self.value {
            let (unit, _) = value.unit();
            columns.push(Column::number("sum", &format!("sum of {}", value.name), unit));
            columns.push(Column::number("mean", "mean", unit));
        }
        let mut sorted: Vec<&(Key, Sum)> = sums.iter().collect();
        let size = |sum: &Sum| self.value.as_ref().map_or(sum.count as f64, |value| value.sum(sum.sum));
        sorted.sort_by(|(a, left), (b, right)| size(right).total_cmp(&size(left)).then(a.cmp(b)));
        let mut table = ProbeTable {
            id: "counts".into(),
            title: self.title(""),
            dimension: self.dimension(),
            columns,
            ..ProbeTable::default()
        };
        for (at, (key, sum)) in sorted.into_iter().enumerate() {
            let figures = self.figures(*sum, seconds);
            if at >= top {
                table.others += 1;
                for (id, figure) in ["count", "per_second", "sum"].into_iter().zip(figures) {
                    *table.others_sum.entry(id.into()).or_default() += figure;
                }
                continue;
            }
            let parts = self.parts(key);
            let mean = self.value.as_ref().map(|value| value.sum(sum.sum) / sum.count.max(1) as f64);
            let cells = parts.iter().cloned().map(Cell::from).chain(figures.into_iter().map(Cell::from));
            table.rows.push(Row { instance: parts.join(", "), cells: cells.chain(mean.map(Cell::from)).collect() });
        }
        table
    }

    /// Count, rate, and the sum if there is one.
    fn figures(&self, sum: Sum, seconds: f64) -> Vec<f64> {
        let value = self.value.as_ref().map(|value| value.sum(sum.sum));
        [sum.count as f64, sum.count as f64 / seconds].into_iter().chain(value).collect()
    }

    /// Distributions by key, largest count first; and how many values were left out.
    pub(super) fn histogram(&self, mut hists: Vec<(Key, hist::Hist)>, top: usize) -> (Output, u64) {
        let (unit, scale) = self.value.as_ref().map_or((Unit::Count, 1.0), Value::unit);
        hists.sort_by_key(|(key, [count, ..])| (Reverse(*count), *key));
        let left_out = hists.iter().skip(top).map(|(_, [count, ..])| *count).sum();
        let name = self.value.as_ref().map_or("", |value| value.name.as_str());
        let rows = hists.iter().take(top).map(|(key, values)| hist::row(&self.parts(key).join(", "), values, scale));
        let histogram = Histogram {
            id: "values".into(),
            title: self.title(&format!("{name} of ")),
            unit,
            dimension: self.dimension(),
            rows: rows.collect(),
        };
        (Output::Histogram(histogram), left_out)
    }

    /// A sum with its stacks, as far as they were kept.
    pub(super) fn sample<'s>(&self, key: &Key, sum: Sum, stacks: &'s HashMap<u64, Vec<u64>>) -> Sample<'s> {
        let [.., kernel, user, tgid, born] = *key;
        let process = Process { pid: tgid as u32, born };
        let part = |id: u64| match (id, stacks.get(&id)) {
            (0, _) => Part::None,
            (_, Some(stack)) => Part::Taken(stack),
            (_, None) => Part::Missing,
        };
        let parts = self.parts(key);
        let owner = if parts.is_empty() { self.reads.point.name.clone() } else { parts.join(", ") };
        let value = self.value.as_ref().map_or(sum.count as f64, |value| value.sum(sum.sum));
        let frames = |process, id| Piece::Frames { process, part: part(id), reversed: false };
        Sample {
            owner,
            pid: (tgid != 0).then_some(tgid as u32),
            pieces: vec![frames(Some(process), user), frames(None, kernel)],
            value,
            count: sum.count,
        }
    }
}
