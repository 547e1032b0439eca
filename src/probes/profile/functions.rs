//! The functions, lines and processes that take the most: what is shown before any stack.

use std::collections::{BTreeMap, HashMap};

use super::tally::Key;
use crate::table::TableSpec;
use rdiag_kernel::mechanism::symbols::{COMPILED, Process};
use rdiag_model::Unit;
use rdiag_model::probe::{Frame, Output, ProbeTable};

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
/// A line, and the function that was inlined there.
type Line = (Option<String>, Option<String>);

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
    lines: Sums<Line>,
}

impl OfFunction {
    /// The task that takes most of it.
    fn task(&self) -> Option<String> {
        self.processes.largest().map(|((id, task), _)| match *id {
            Key::ENDED => task.clone(),
            Process { pid, .. } => format!("{task} ({pid})"),
        })
    }

    /// The line that takes most of it.
    fn line(&self) -> Option<String> {
        let ((line, _), _) = self.lines.largest()?;
        line.as_deref().map(|line| short(line).to_owned())
    }
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
        for table in &mut outputs {
            // These sums are there even where nothing is left out.
            for id in ["share", "value"] {
                table.others_sum.entry(id.into()).or_default();
            }
        }
        outputs.into_iter().map(Output::Table).collect()
    }

    /// How much there was, in one row; shares as far as they are known.
    pub(super) fn all_samples(
        &self,
        samples: u64,
        kernel: Option<f64>,
        idle: Option<f64>,
        unit: Unit,
        value: &str,
    ) -> ProbeTable {
        TableSpec::<()>::new("host", "All samples")
            .number("samples", "samples", Unit::Count, |()| samples as f64)
            .number("value", value, unit, |()| self.whole)
            .number("kernel", "in the kernel", Unit::Ratio, |()| kernel)
            .number("idle", "CPUs idle", Unit::Ratio, |()| idle)
            .all([()])
    }

    fn function_table(
        &self,
        functions: &[(&Function, &OfFunction)],
        unit: Unit,
        value: &str,
        top: usize,
    ) -> ProbeTable {
        TableSpec::<(&Function, &OfFunction)>::new("functions", "Hottest functions")
            .rows("function", |((name, object, _), _)| function_instance(name, object))
            .sum("share", "share", Unit::Ratio, |(_, of)| self.share(of.value))
            .sum("value", value, unit, |(_, of)| of.value)
            .text("name", "function", |((name, ..), _)| name.clone())
            .text("object", "in", |((_, object, _), _)| object.clone())
            .text("mode", "mode", |((.., kernel), _)| mode(*kernel).to_owned())
            .text("process", "mostly of", |(_, of)| of.task().unwrap_or_default())
            .text("line", "mostly at", |(_, of)| of.line())
            .top(functions.iter().copied(), top)
    }

    fn process_table(&self, unit: Unit, value: &str, top: usize) -> ProbeTable {
        let mut processes: Vec<(&Process, &OfProcess)> = self.processes.iter().collect();
        processes.sort_by(|(a, x), (b, y)| y.value.total_cmp(&x.value).then_with(|| a.cmp(b)));
        let rows = processes.into_iter().map(|(id, of)| (id, of, of.functions.largest()));
        let part = |value: f64, of: &OfProcess| value / of.value.max(f64::MIN_POSITIVE);
        TableSpec::<(&Process, &OfProcess, Option<(&Function, f64)>)>::new("processes", "Processes by CPU time")
            .rows("process", |(id, ..)| format!("{}:{}", id.pid, id.born))
            .sum("share", "share", Unit::Ratio, |(_, of, _)| self.share(of.value))
            .sum("value", value, unit, |(_, of, _)| of.value)
            .text("name", "task", |(_, of, _)| of.tasks.largest().map(|(task, _)| task.clone()).unwrap_or_default())
            .text("pid", "pid", |(id, ..)| (**id != Key::ENDED).then(|| id.pid.to_string()))
            .number("kernel", "in the kernel", Unit::Ratio, |(_, of, _)| part(of.in_kernel, of))
            .text("function", "hottest function", |(.., hottest)| {
                hottest.map(|((name, ..), _)| name.clone()).unwrap_or_default()
            })
            .number("function_share", "its share", Unit::Ratio, |(_, of, hottest)| {
                hottest.map_or(0.0, |(_, value)| part(value, of))
            })
            .text("object", "in", |(.., hottest)| hottest.map(|((_, object, _), _)| object.clone()).unwrap_or_default())
            .text("line", "mostly at", |(.., hottest)| {
                hottest.and_then(|(function, _)| self.functions.get(function)?.line())
            })
            .top(rows, top)
    }

    fn lines(&self, functions: &[(&Function, &OfFunction)]) -> ProbeTable {
        let with_lines = functions.iter().filter(|(_, of)| of.lines.0.keys().any(|(line, _)| line.is_some()));
        let rows = with_lines.take(WITH_LINES).flat_map(|(function, of)| {
            let hottest = of.lines.sorted().into_iter().take(LINES);
            hottest.map(move |(line, value)| (*function, *of, line, value))
        });
        TableSpec::<(&Function, &OfFunction, &Line, f64)>::new("lines", "Hottest lines of the hottest functions")
            .rows("line", |((name, object, _), _, (line, inlined), _)| {
                let [line, inlined] = [line, inlined].map(|text| text.as_deref().unwrap_or_default());
                format!("{} {line} {inlined}", function_instance(name, object))
            })
            .text("function", "function", |((name, ..), ..)| name.clone())
            .number("of_function", "of its share", Unit::Ratio, |(_, of, _, value)| {
                value / of.value.max(f64::MIN_POSITIVE)
            })
            .sum("share", "share", Unit::Ratio, |(.., value)| self.share(*value))
            .text("line", "line", |(.., (line, _), _)| line.clone())
            .text("inlined", "inlined function", |(.., (_, inlined), _)| inlined.clone())
            .all(rows)
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
