//! Stacks as a tree of calls that is never built as a whole: the stacks are sorted, so whatever lies below one call is a range
//! of them, and only the ranges that are looked at are divided further.

use std::cmp::Ordering;
use std::collections::{BinaryHeap, HashMap};

use rdiag_model::probe::{Frame, Stacks};

/// Frames of a stack that are looked at, from its root.
pub(super) const MAX_DEPTH: usize = 256;
/// What code that was compiled at run time says in place of its file.
const RUN_TIME: &str = "[compiled at run time]";

/// What kind of code a function is.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum Family {
    /// No code: whose the stack is.
    #[default]
    Owner,
    /// A program or a library.
    User,
    /// Compiled while it ran.
    RunTime,
    /// The kernel and its modules.
    Kernel,
}

/// A function: frames that differ by their line alone are one.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Function {
    pub(super) name: String,
    pub(super) object: Option<String>,
    pub(super) family: Family,
}

impl Function {
    fn of(frame: &Frame) -> Self {
        let family = match frame.object.as_deref() {
            _ if frame.kernel => Family::Kernel,
            Some(RUN_TIME) => Family::RunTime,
            _ => Family::User,
        };
        Self { name: frame.name.clone(), object: frame.object.clone(), family }
    }
}

/// A stack: indices of functions, the owner first; a value for each side of a comparison.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Path {
    pub(super) functions: Vec<u32>,
    pub(super) values: [f64; 2],
}

impl Path {
    fn weight(&self) -> f64 {
        self.values.iter().sum()
    }
}

/// The stacks of one measurement, or of two that are compared.
#[derive(Debug, Clone, Default)]
pub(super) struct Calls {
    pub(super) functions: Vec<Function>,
    pub(super) paths: Vec<Path>,
    /// Whether a stack was deeper than what is looked at.
    pub(super) has_deeper: bool,
    index: HashMap<Function, u32>,
}

/// A call: a function below others.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Node {
    pub(super) function: u32,
    pub(super) depth: usize,
    /// The node above; none for a root.
    pub(super) parent: Option<usize>,
    /// Sum of what stands left of it, in the order of names.
    pub(super) left: f64,
    /// Of the stacks that go through it, by side.
    pub(super) values: [f64; 2],
    /// Of the stacks that end in it.
    pub(super) own: [f64; 2],
}

/// Nodes that are not among those given, because they are too small or too many.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(super) struct LeftOut {
    pub(super) branches: usize,
    pub(super) value: f64,
    pub(super) largest: f64,
}

/// A value that a measurement can give; a file may say anything.
pub(super) fn is_real(value: f64) -> bool {
    value > 0.0 && value < 1e18
}

impl Calls {
    /// The stacks of one measurement.
    pub(super) fn of(stacks: &Stacks) -> Self {
        let mut calls = Self::default();
        calls.add(stacks, 0, 1.0);
        calls.sort();
        calls
    }

    /// Takes stacks in, as one side of a comparison, with their values multiplied. [`Self::sort`] must follow.
    pub(super) fn add(&mut self, stacks: &Stacks, side: usize, factor: f64) {
        let places: Vec<u32> = stacks.frames.iter().map(|frame| self.intern(Function::of(frame))).collect();
        for stack in stacks.stacks.iter().filter(|stack| is_real(stack.value)) {
            let owner = Function { name: stack.owner.clone(), ..Function::default() };
            let mut functions = vec![self.intern(owner)];
            functions.extend(stack.frames.iter().take(MAX_DEPTH).filter_map(|at| places.get(*at as usize)));
            self.has_deeper |= stack.frames.len() > MAX_DEPTH;
            let mut values = [0.0; 2];
            if let Some(value) = values.get_mut(side) {
                *value = stack.value * factor;
            }
            self.paths.push(Path { functions, values });
        }
    }

    fn intern(&mut self, function: Function) -> u32 {
        if let Some(at) = self.index.get(&function) {
            return *at;
        }
        let at = u32::try_from(self.functions.len()).unwrap_or(u32::MAX);
        self.functions.push(function.clone());
        self.index.insert(function, at);
        at
    }

    /// Puts neighbours beside each other, by name, and makes one of what is the same.
    pub(super) fn sort(&mut self) {
        let mut order: Vec<u32> = (0..self.functions.len() as u32).collect();
        order.sort_by_key(|at| self.functions.get(*at as usize));
        let mut ranks = vec![0; order.len()];
        for (rank, at) in order.iter().enumerate() {
            if let Some(place) = ranks.get_mut(*at as usize) {
                *place = rank as u32;
            }
        }
        for path in &mut self.paths {
            for function in &mut path.functions {
                *function = ranks.get(*function as usize).copied().unwrap_or_default();
            }
        }
        self.functions.sort();
        self.index = self.functions.iter().cloned().zip(0..).collect();
        self.merge();
    }

    fn merge(&mut self) {
        self.paths.sort_by(|a, b| a.functions.cmp(&b.functions));
        self.paths.dedup_by(|next, kept| {
            let same = next.functions == kept.functions;
            if same {
                kept.values.iter_mut().zip(next.values).for_each(|(sum, value)| *sum += value);
            }
            same
        });
    }

    /// Cuts the scheduler's own functions off the inner ends: every task that sleeps stands in them, and they tell nothing.
    pub(super) fn end_before_scheduler(&mut self) {
        let scheduler: Vec<bool> = self.functions.iter().map(is_scheduler).collect();
        let is = |at: &u32| scheduler.get(*at as usize).copied().unwrap_or(false);
        for path in &mut self.paths {
            let inner = path.functions.iter().rev().take_while(|at| is(at)).count();
            // The owner and at least one function stay.
            path.functions.truncate((path.functions.len() - inner).max(2));
        }
        self.merge();
    }

    /// The same stacks without their owners, read from the innermost function outwards.
    pub(super) fn reversed(&self) -> Self {
        let mut calls = self.clone();
        for path in &mut calls.paths {
            path.functions = path.functions.split_off(path.functions.len().min(1));
            path.functions.reverse();
        }
        calls.paths.retain(|path| !path.functions.is_empty());
        calls.merge();
        calls
    }

    pub(super) fn function(&self, at: u32) -> Option<&Function> {
        self.functions.get(at as usize)
    }

    /// The sum of all stacks, both sides together.
    pub(super) fn whole(&self) -> f64 {
        self.paths.iter().map(Path::weight).sum()
    }

    /// The largest nodes: no smaller than `least`, no more than `most`, each with the nodes above it. Parents stand before
    /// their children.
    pub(super) fn nodes(&self, least: f64, most: usize) -> (Vec<Node>, LeftOut) {
        let mut before = Vec::with_capacity(self.paths.len() + 1);
        let mut sum = 0.0;
        before.push(sum);
        for path in &self.paths {
            sum += path.weight();
            before.push(sum);
        }
        let mut waiting = BinaryHeap::new();
        let (mut nodes, mut cut) = (Vec::new(), LeftOut::default());
        self.divide(0..self.paths.len(), 0, None, &before, &mut waiting);
        while let Some(Waiting { weight, start, end, depth, parent }) = waiting.pop() {
            if weight < least || nodes.len() >= most {
                cut.branches += 1;
                cut.value += weight;
                cut.largest = cut.largest.max(weight);
                continue;
            }
            let range = self.paths.get(start..end).unwrap_or_default();
            let function = range.first().and_then(|path| path.functions.get(depth)).copied().unwrap_or_default();
            let sum = |paths: &mut dyn Iterator<Item = &Path>| {
                paths.fold([0.0; 2], |sum, path| [sum[0] + path.values[0], sum[1] + path.values[1]])
            };
            nodes.push(Node {
                function,
                depth,
                parent,
                left: before.get(start).copied().unwrap_or_default(),
                values: sum(&mut range.iter()),
                own: sum(&mut range.iter().take_while(|path| path.functions.len() == depth + 1)),
            });
            self.divide(start..end, depth + 1, Some(nodes.len() - 1), &before, &mut waiting);
        }
        (nodes, cut)
    }

    /// What lies below one call, by the next function.
    fn divide(
        &self,
        range: std::ops::Range<usize>,
        depth: usize,
        parent: Option<usize>,
        before: &[f64],
        waiting: &mut BinaryHeap<Waiting>,
    ) {
        let mut start = range.start;
        while start < range.end {
            let paths = self.paths.get(start..range.end).unwrap_or_default();
            let next = paths.first().and_then(|path| path.functions.get(depth));
            // They are sorted: those that end here come first.
            let same = paths.partition_point(|path| path.functions.get(depth) <= next).max(1);
            let end = start + same;
            if next.is_some() {
                let at = |place: usize| before.get(place).copied().unwrap_or_default();
                waiting.push(Waiting { weight: at(end) - at(start), start, end, depth, parent });
            }
            start = end;
        }
    }
}

fn is_scheduler(function: &Function) -> bool {
    let name = function.name.trim_start_matches('_');
    let stems = ["schedule", "io_schedule", "preempt_schedule"];
    function.family == Family::Kernel && stems.iter().any(|stem| name.starts_with(stem))
}

/// A node that may be looked at: the largest first.
#[derive(Debug, PartialEq)]
struct Waiting {
    weight: f64,
    start: usize,
    end: usize,
    depth: usize,
    parent: Option<usize>,
}

impl Eq for Waiting {}

impl Ord for Waiting {
    fn cmp(&self, other: &Self) -> Ordering {
        // Of the same weight, the outer one, then the left one.
        let key = |waiting: &Self| std::cmp::Reverse((waiting.depth, waiting.start));
        self.weight.total_cmp(&other.weight).then_with(|| key(self).cmp(&key(other)))
    }
}

impl PartialOrd for Waiting {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}
