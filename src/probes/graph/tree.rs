//! Records of calls and returns, in order of time, become calls with durations.

use std::collections::HashMap;

/// What a record says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Step {
    /// A function was called.
    Entry,
    /// It returned after so many nanoseconds.
    Exit(u64),
}

/// A record of the tracer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Record {
    /// Nanoseconds of the clock in force.
    pub(super) time: u64,
    /// Id of the thread.
    pub(super) tid: u32,
    pub(super) cpu: u32,
    /// Address of the function.
    pub(super) function: u64,
    /// Functions of the kernel that it was called through.
    pub(super) depth: u32,
    pub(super) step: Step,
}

/// A call that is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Node {
    /// Number of the outermost call that it belongs to.
    root: usize,
    pub(super) tid: u32,
    pub(super) cpu: u32,
    pub(super) function: u64,
    /// Within that outermost call.
    pub(super) depth: u32,
    pub(super) time: u64,
    /// Nanoseconds; none if its end was not seen.
    pub(super) duration: Option<u64>,
}

/// What is kept of all calls.
#[derive(Debug, Clone, Copy)]
pub(super) struct Limits {
    /// So many levels.
    pub(super) depth: u32,
    pub(super) calls: usize,
}

/// Calls in the order of the output: those of one outermost call together.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Tree {
    pub(super) nodes: Vec<Node>,
    /// Left out because there were too many.
    pub(super) others: u64,
    /// Left out because they were too deep.
    pub(super) deeper: u64,
    /// Calls whose end was not seen.
    pub(super) open: u64,
}

/// The calls that a task is in the middle of.
#[derive(Debug, Default)]
struct Task {
    root: usize,
    path: Vec<Open>,
}

/// A call that has not returned.
#[derive(Debug)]
struct Open {
    depth: u32,
    function: u64,
    /// Its place among the nodes, if it is kept.
    kept: Option<usize>,
}

/// Builds the calls below each outermost one; `is_root` says which functions may be outermost.
pub(super) fn build(records: &mut [Record], is_root: impl Fn(u64) -> bool, limits: Limits) -> Tree {
    // Every CPU has a buffer of its own. Records of one that bear the same time keep their order.
    records.sort_by_key(|record| record.time);
    let mut tree = Tree::default();
    let mut tasks: HashMap<u32, Task> = HashMap::new();
    let mut roots = 0;
    for record in records.iter() {
        let task = tasks.entry(record.tid).or_default();
        match record.step {
            Step::Entry => {
                // Calls that should have ended by now have, and the record of it is lost.
                task.leave(|open| open.depth >= record.depth);
                if task.path.is_empty() {
                    if !is_root(record.function) {
                        continue;
                    }
                    task.root = roots;
                    roots += 1;
                }
                let kept = tree.keep(record, task.root, task.path.len(), limits);
                task.path.push(Open { depth: record.depth, function: record.function, kept });
            }
            Step::Exit(duration) => {
                task.leave(|open| open.depth > record.depth);
                let is_it = |open: &mut Open| open.depth == record.depth && open.function == record.function;
                let kept = task.path.pop_if(is_it).and_then(|open| open.kept);
                if let Some(node) = kept.and_then(|at| tree.nodes.get_mut(at)) {
                    node.duration = Some(duration);
                }
            }
        }
    }
    tree.open = tree.nodes.iter().filter(|node| node.duration.is_none()).count() as u64;
    tree.nodes.sort_by_key(|node| node.root);
    tree
}

impl Task {
    /// Forgets the innermost calls as long as something holds of them.
    fn leave(&mut self, holds: impl Fn(&Open) -> bool) {
        while self.path.pop_if(|open| holds(open)).is_some() {}
    }
}

impl Tree {
    fn keep(&mut self, record: &Record, root: usize, level: usize, limits: Limits) -> Option<usize> {
        let depth = u32::try_from(level).unwrap_or(u32::MAX);
        if depth >= limits.depth {
            self.deeper += 1;
            return None;
        }
        if self.nodes.len() >= limits.calls {
            self.others += 1;
            return None;
        }
        let Record { time, tid, cpu, function, .. } = *record;
        self.nodes.push(Node { root, tid, cpu, function, depth, time, duration: None });
        Some(self.nodes.len() - 1)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const ALL: Limits = Limits { depth: 99, calls: 99 };

    fn entry(time: u64, tid: u32, function: u64, depth: u32) -> Record {
        Record { time, tid, cpu: 0, function, depth, step: Step::Entry }
    }

    fn exit(time: u64, tid: u32, function: u64, depth: u32, took: u64) -> Record {
        Record { step: Step::Exit(took), ..entry(time, tid, function, depth) }
    }

    fn told(tree: &Tree) -> Vec<(u32, u64, Option<u64>)> {
        tree.nodes.iter().map(|node| (node.depth, node.function, node.duration)).collect()
    }

    /// Task 1 calls 10 → 20 → 30 and 10 → 21; task 2 calls 20 in between.
    fn records() -> Vec<Record> {
        vec![
            entry(1, 1, 10, 0),
            entry(2, 1, 20, 1),
            entry(3, 2, 20, 0),
            entry(4, 1, 30, 2),
            exit(5, 1, 30, 2, 1),
            exit(6, 2, 20, 0, 3),
            exit(7, 1, 20, 1, 5),
            entry(8, 1, 21, 1),
            exit(9, 1, 21, 1, 1),
            exit(10, 1, 10, 0, 9),
        ]
    }

    #[test]
    fn calls_of_several_tasks_are_told_one_after_the_other() {
        let tree = build(&mut records(), |_| true, ALL);
        let all = [(0, 10, Some(9)), (1, 20, Some(5)), (2, 30, Some(1)), (1, 21, Some(1)), (0, 20, Some(3))];
        assert_eq!(told(&tree), all);
        assert_eq!((tree.others, tree.deeper, tree.open), (0, 0, 0));
    }

    #[test]
    fn the_order_of_the_buffers_does_not_matter() {
        let mut mixed = records();
        mixed.reverse();
        assert_eq!(build(&mut mixed, |_| true, ALL), build(&mut records(), |_| true, ALL));
    }

    #[test]
    fn only_what_the_asked_function_calls_is_kept() {
        let tree = build(&mut records(), |function| function == 20, ALL);
        assert_eq!(told(&tree), [(0, 20, Some(5)), (1, 30, Some(1)), (0, 20, Some(3))]);
    }

    #[test]
    fn what_is_cut_is_counted_and_the_rest_keeps_its_durations() {
        let tree = build(&mut records(), |_| true, Limits { depth: 2, calls: 3 });
        assert_eq!(told(&tree), [(0, 10, Some(9)), (1, 20, Some(5)), (0, 20, Some(3))]);
        assert_eq!((tree.others, tree.deeper), (1, 1));
    }

    #[test]
    fn a_call_whose_end_was_lost_stays_open_and_does_not_swallow_what_follows() {
        let mut lost = records();
        lost.retain(|record| record.function != 20 || record.step == Step::Entry);
        let tree = build(&mut lost, |_| true, ALL);
        assert_eq!(told(&tree)[..4], [(0, 10, Some(9)), (1, 20, None), (2, 30, Some(1)), (1, 21, Some(1))]);
        assert_eq!(tree.open, 2);
    }

    #[test]
    fn a_return_without_its_call_belongs_to_nothing() {
        let mut strays = vec![exit(1, 1, 10, 0, 5), exit(2, 1, 11, 7, 5), entry(3, 1, 10, 4), exit(4, 1, 9, 1, 5)];
        assert_eq!(told(&build(&mut strays, |_| true, ALL)), [(0, 10, None)]);
    }

    proptest! {
        #[test]
        fn no_records_are_too_odd(all in proptest::collection::vec((0_u64..20, 0_u32..3, 0_u64..4, 0_u32..5, any::<bool>()), 0..80)) {
            let mut records: Vec<Record> = all
                .iter()
                .map(|(time, tid, function, depth, is_exit)| {
                    if *is_exit { exit(*time, *tid, *function, *depth, 1) } else { entry(*time, *tid, *function, *depth) }
                })
                .collect();
            let entries = all.iter().filter(|(.., is_exit)| !is_exit).count();
            let tree = build(&mut records, |_| true, ALL);
            prop_assert_eq!(tree.nodes.len() as u64 + tree.others + tree.deeper, entries as u64);
            let mut most = 0;
            for node in &tree.nodes {
                prop_assert!(node.depth <= most);
                most = node.depth + 1;
            }
        }
    }
}
