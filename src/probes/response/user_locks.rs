//! Futexes that are locks, by the functions on the stacks of the threads that wait for them, or by who ends their waits.

use std::collections::{HashMap, HashSet};

use super::kind::Type;
use super::record::{Cell, Record};
use super::semaphores::Evidence;
use super::stacks::StackNames;
use super::steps::Steps;
use rdiag_kernel::classify::user::{is_lock_of_java, takes_lock, waits_for_work};
use rdiag_kernel::mechanism::symbols::{INTERPRETED, Process, Symbols, calls};

/// Functions that are looked at, from the innermost.
const FRAMES: usize = 16;
/// The same of Python: of a lock it is the method of another class that takes it.
const FRAMES_OF_PYTHON: usize = 4;

/// By process and futex, or the class of what a machine of Java parked a thread for: whether all stacks that waited for it, as far as they
/// are known, are in a function that takes a lock, or the class is one of locks, or it is a semaphore that is used as one.
#[derive(Debug, Default)]
pub(super) struct Locks(HashMap<(u32, u64), bool>);

impl Locks {
    pub(super) fn new(symbols: &Symbols, (stacks, steps): (&StackNames, &Steps), records: &[Record]) -> Self {
        let (mut locks, mut for_work) = (HashMap::new(), HashSet::new());
        for record in records {
            for cell in record.cells.iter().filter(|cell| cell.kind.of() == Type::Stack) {
                let [name, ..] = cell.object;
                if cell.kind.parked() {
                    let class =
                        futex(cell).and_then(|class| Some((class, symbols.name(Some(record.process()), class)?)));
                    locks.extend(class.map(|(class, name)| ((record.pid, class), is_lock_of_java(name))));
                    continue;
                }
                let stack = stacks.get(name).filter(|_| steps.is_certain(name)).unwrap_or_default();
                if is_for_work(symbols, record.process(), stack) {
                    for_work.extend(futex(cell));
                }
                if let (Some(futex), Some(takes)) = (futex(cell), takes(symbols, record.process(), stack)) {
                    *locks.entry((record.pid, futex)).or_insert(true) &= takes;
                }
            }
        }
        let is_lock = |((_, futex), all): &((u32, u64), Evidence)| all.is_lock() && !for_work.contains(futex);
        let semaphores = Evidence::of(records).into_iter().filter(is_lock);
        locks.extend(semaphores.map(|(futex, _)| (futex, true)));
        Self(locks)
    }

    pub(super) fn has(&self, pid: u32, futex: u64) -> bool {
        self.0.get(&(pid, futex)).copied().unwrap_or(false)
    }

    /// Whether the wait that a stack was taken of was for such a lock; none if that is not asked of its kind.
    pub(super) fn of_stack(&self, pid: u32, cell: &Cell) -> Option<bool> {
        futex(cell).map(|futex| self.has(pid, futex))
    }
}

/// The futex that a stack waited for, if nothing else tells the use of it, or that class.
fn futex(cell: &Cell) -> Option<u64> {
    let [_, futex, _] = cell.object;
    (futex != 0).then_some(futex)
}

/// Whether a stack is in a function that takes a lock; none if it has no names there.
fn takes(symbols: &Symbols, process: Process, stack: &[u64]) -> Option<bool> {
    let mut known = 0;
    for at in calls(Some(process), stack).take(FRAMES) {
        if takes_lock(symbols.name(Some(process), at)?) {
            return Some(true);
        }
        known += 1;
    }
    (known > 1).then_some(false)
}

/// Whether a thread of Python waits in a function that waits for work.
fn is_for_work(symbols: &Symbols, process: Process, stack: &[u64]) -> bool {
    let of_python = calls(Some(process), stack).filter(|at| at & INTERPRETED != 0).take(FRAMES_OF_PYTHON);
    let mut frames = of_python.filter_map(|at| symbols.frame(Some(process), at));
    frames.any(|frame| waits_for_work(&frame.name, frame.object.as_deref().unwrap_or_default()))
}
