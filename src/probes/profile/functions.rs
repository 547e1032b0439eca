//! The functions, lines and processes that take the most: what is shown before any stack.

use std::collections::{BTreeMap, HashMap};

use super::tally::Key;
use rdiag_kernel::mechanism::symbols::{COMPILED, Process};
use rdiag_model::Unit;
use rdiag_model::probe::{Cell, Column, Frame, Output, ProbeTable, Row};

/// Functions whose lines are listed, and lines of each.
const WITH_LINES: usize = 8;
const LINES: usize = 4;
/// What stands where the place could not be taken.
const NO_STACK: &str = "[no stack]";

/// What was executed at a place, and by which task.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Executed {
    pub(super) process: Process,
    /// Name of the task.
    pub(super) task: String,
    pub(super) in_kernel: bool,
    /// The function; none where the place could not be taken.
    pub(super) function: Option<Frame>,
    /// Whether it has a name.
    pub(super) named: bool,
    /// The function that was inlined there, if any.
    pub(super) inlined: Option<String>,
    /// `file:line`.
    pub(super) line: Option<String>,
    pub(super) value: f64,
}

/// A function: its name, its file, and whether it is the kernel's.
type Function = (String, String, bool);

/// Sums by some key, and their largest.
#[derive(Debug)]
struct Sums<K>(HashMap<K, f64>);

impl<K: std::hash::Hash + Eq + Ord + Clone> Sums<K> {
    fn add(&mut self, key: K, value: f64) {
        *self.0.entry(key).or_default() += value;
    }

    /// Largest first.
    fn sorted(&self) -> Vec<(&K, f64)> {
        let mut all: Vec<(&K, f64)> = self.0.iter().map(|(key, value)| (key, *value)).collect();
        all.sort_by(|(a, x), (b, y)| y.total_cmp(x).then_with(|| a.cmp(b)));
        all
    }

    fn largest(&self) -> Option<(&K, f64)> {
        self.sorted().into_iter().next()
    }
}

impl<K> Default for Sums<K> {
    fn default() -> Self {
        Self(HashMap::new())
    }
}

#[derive(Debug, Default)]
struct OfFunction {
    value: f64,
    processes: Sums<(Process, String)>,
    lines: Sums<(Option<String>, Option<String>)>,
}

#[derive(Debug, Default)]
struct OfProcess {
    value: f64,
    in_kernel: f64,
    tasks: Sums<String>,
    functions: Sums<Function>,
}

/// What was executed, summed up in all the ways in which it is shown.
#[derive(Debug, Default)]
pub(super) struct Hottest {
    whole: f64,
    in_kernel: f64,
    nameless: Sums<String>,
    functions: BTreeMap<Function, OfFunction>,
    processes: BTreeMap<Process, OfProcess>,
}

impl Hottest {
    pub(super) fn add(&mut self, executed: Executed) {
        let Executed { process: id, task, in_kernel, function: frame, named, inlined, line, value } = executed;
        self.whole += value;
        self.in_kernel += if in_kernel { value } else { 0.0 };
        let function: Function = match frame {
            None => (NO_STACK.into(), String::new(), in_kernel),
            Some(frame) if named => (frame.name, frame.object.unwrap_or_default(), frame.kernel),
            // Addresses are no functions: what is known is the file.
            Some(frame) => {
                let object = frame.object.unwrap_or_else(|| "[unknown]".into());
                self.nameless.add(object.clone(), value);
                (no_symbols(&object), object, frame.kernel)
            }
        };
        let process = self.processes.entry(id).or_default();
        process.value += value;
        process.in_kernel += if in_kernel { value } else { 0.0 };
        process.tasks.add(task.clone(), value);
        process.functions.add(function.clone(), value);
        let of = self.functions.entry(function).or_default();
        of.value += value;
        of.processes.add((id, task), value);
        of.lines.add((line, inlined), value);
    }

    /// The sum of all.
    pub(super) fn whole(&self) -> f64 {
        self.whole
    }

    /// The share of the kernel.
    pub(super) fn in_kernel(&self) -> f64 {
        self.share(self.in_kernel)
    }

    fn share(&self, value: f64) -> f64 {
        value / self.whole.max(f64::MIN_POSITIVE)
    }

    /// The share of what was executed in code without names: all of it, and by file, largest first. Code that was compiled
    /// at run time is a group of its own.
    pub(super) fn nameless(&self) -> (Vec<(String, f64)>, f64) {
        let all = self.nameless.sorted().into_iter().map(|(object, value)| (object.clone(), self.share(value)));
        let (compiled, in_files): (Vec<_>, Vec<_>) = all.partition(|(object, _)| object == COMPILED);
        (in_files, compiled.iter().map(|(_, share)| share).sum())
    }

    /// The share that was executed in functions with such names.
    pub(super) fn in_functions(&self, fits: impl Fn(&str) -> bool) -> f64 {
        let fitting = self.functions.iter().filter(|((name, _, kernel), _)| *kernel && fits(name));
        self.share(fitting.map(|(_, of)| of.value).sum())
    }

    /// All tables with so many rows at most, in the order in which they are shown. `unit` is that of values.
    pub(super) fn tables(&self, unit: Unit, value: &str, top: usize) -> Vec<Output> {
        let mut functions: Vec<(&Function, &OfFunction)> = self.functions.iter().collect();
        functions.sort_by(|(a, x), (b, y)| y.value.total_cmp(&x.value).then_with(|| a.cmp(b)));
        let lines = self.lines(&functions);
        let mut outputs = vec![self.function_table(&functions, unit, value, top), self.process_table(unit, value, top)];
        outputs.extend((!lines.rows.is_empty()).then_some(lines));
        outputs.into_iter().map(Output::Table).collect()
    }

    fn function_table(
        &self,
        functions: &[(&Function, &OfFunction)],
        unit: Unit,
        value: &str,
        top: usize,
    ) -> ProbeTable {
        let columns = vec![
            Column::number("share", "share", Unit::Ratio),
            Column::number("value", value, unit),
            Column::text("name", "function"),
            Column::text("object", "in"),
            Column::text("mode", "mode"),
            Column::text("process", "mostly of"),
            Column::text("line", "mostly at"),
        ];
        let row = |((name, object, kernel), of): &(&Function, &OfFunction)| {
            let process = of.processes.largest().map(|((id, task), _)| match *id {
                Key::ENDED => task.clone(),
                Process { pid, .. } => format!("{task} ({pid})"),
            });
            let line = of.lines.largest().and_then(|((line, _), _)| line.as_deref());
            let cells = vec![
                self.share(of.value).into(),
                of.value.into(),
                name.as_str().into(),
                object.as_str().into(),
                mode(*kernel).into(),
                process.unwrap_or_default().into(),
                line.map_or(Cell::Unknown(()), |line| short(line).into()),
            ];
            (function_instance(name, object), of.value, cells)
        };
        let rows = functions.iter().map(row).collect();
        self.table("functions", "Hottest functions", "function", columns, rows, top)
    }

    fn process_table(&self, unit: Unit, value: &str, top: usize) -> ProbeTable {
        let columns = vec![
            Column::number("share", "share", Unit::Ratio),
            Column::number("value", value, unit),
            Column::text("name", "task"),
            Column::text("pid", "pid"),
            Column::number("kernel", "in the kernel", Unit::Ratio),
            Column::text("function", "hottest function"),
            Column::number("function_share", "its share", Unit::Ratio),
            Column::text("object", "in"),
            Column::text("line", "mostly at"),
        ];
        let mut processes: Vec<(&Process, &OfProcess)> = self.processes.iter().collect();
        processes.sort_by(|(a, x), (b, y)| y.value.total_cmp(&x.value).then_with(|| a.cmp(b)));
        let row = |(id, of): &(&Process, &OfProcess)| {
            let part = |value: f64| value / of.value.max(f64::MIN_POSITIVE);
            let task = of.tasks.largest().map(|(task, _)| task.as_str()).unwrap_or_default();
            let hottest = of.functions.largest();
            let (name, object, _) = hottest.map(|(function, _)| function.clone()).unwrap_or_default();
            let line = hottest.and_then(|(function, _)| self.functions.get(function)?.lines.largest());
            let line = line.and_then(|((line, _), _)| line.as_deref());
            let cells = vec![
                self.share(of.value).into(),
                of.value.into(),
                task.into(),
                if **id == Key::ENDED { Cell::Unknown(()) } else { id.pid.to_string().into() },
                part(of.in_kernel).into(),
                name.into(),
                hottest.map_or(0.0, |(_, value)| part(value)).into(),
                object.into(),
                line.map_or(Cell::Unknown(()), |line| short(line).into()),
            ];
            (format!("{}:{}", id.pid, id.born), of.value, cells)
        };
        let rows = processes.iter().map(row).collect();
        self.table("processes", "Processes by CPU time", "process", columns, rows, top)
    }

    fn lines(&self, functions: &[(&Function, &OfFunction)]) -> ProbeTable {
        let columns = vec![
            Column::text("function", "function"),
            Column::number("of_function", "of its share", Unit::Ratio),
            Column::number("share", "share", Unit::Ratio),
            Column::text("line", "line"),
            Column::text("inlined", "inlined function"),
        ];
        let mut rows = Vec::new();
        let with_lines = functions.iter().filter(|(_, of)| of.lines.0.keys().any(|(line, _)| line.is_some()));
        for ((name, object, _), of) in with_lines.take(WITH_LINES) {
            for ((line, inlined), value) in of.lines.sorted().into_iter().take(LINES) {
                let text = |text: &Option<String>| text.as_deref().map_or(Cell::Unknown(()), Cell::from);
                let cells = vec![
                    name.as_str().into(),
                    (value / of.value.max(f64::MIN_POSITIVE)).into(),
                    self.share(value).into(),
                    text(line),
                    text(inlined),
                ];
                let place = line.as_deref().unwrap_or_default();
                let inlined = inlined.as_deref().unwrap_or_default();
                let instance = format!("{} {place} {inlined}", function_instance(name, object));
                rows.push((instance, value, cells));
            }
        }
        self.table("lines", "Hottest lines of the hottest functions", "line", columns, rows, WITH_LINES * LINES)
    }

    fn table(
        &self,
        id: &str,
        title: &str,
        dimension: &str,
        columns: Vec<Column>,
        rows: Vec<(String, f64, Vec<Cell>)>,
        most: usize,
    ) -> ProbeTable {
        let mut table = ProbeTable {
            id: id.into(),
            title: title.into(),
            dimension: Some(dimension.into()),
            columns,
            others_sum: ["share", "value"].map(|column| (column.to_owned(), 0.0)).into(),
            ..ProbeTable::default()
        };
        for (at, (instance, value, cells)) in rows.into_iter().enumerate() {
            if at < most {
                table.rows.push(Row { instance, cells });
                continue;
            }
            table.others += 1;
            *table.others_sum.entry("value".into()).or_default() += value;
            *table.others_sum.entry("share".into()).or_default() += self.share(value);
        }
        table
    }
}

/// What stands for all functions of a file without symbols. Each file has its own: a culprit is found by its name.
fn no_symbols(object: &str) -> String {
    format!("[no symbols: {}]", object.trim_matches(['[', ']']))
}

fn mode(kernel: bool) -> &'static str {
    if kernel { "kernel" } else { "user" }
}

fn function_instance(name: &str, object: &str) -> String {
    format!("{name} in {object}")
}

/// The file without its directories: `hot.c:12`.
fn short(line: &str) -> &str {
    line.rsplit('/').next().unwrap_or(line)
}

#[cfg(test)]
#[path = "functions_tests.rs"]
mod tests;
