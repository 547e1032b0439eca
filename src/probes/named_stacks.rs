//! Stacks that a program of named_stacks.h has named by what they hold. Sums by stack are made in the kernel, so what is read grows with
//! the number of stacks, not with that of events.

use std::collections::{HashMap, HashSet};

use super::offcputime::PROBE_FRAMES;
use rdiag_kernel::host::Host;
use rdiag_kernel::mechanism::ebpf::Object;
use rdiag_kernel::mechanism::symbols::{Part, Process, Symbols, calls};
use rdiag_model::Unavailable;

/// Frames that the program takes at most.
pub(super) const DEPTH: usize = 64;
/// What stands in place of a stack's name when it could not be taken.
const MISSING: u64 = 1;
/// The kernel's table has room for twice as many; it is emptied in time.
const KEPT: usize = 4096;
const TABLE: &str = "kept_stacks";

/// Stacks by name, of kernel and programs, as far as they were asked for.
#[derive(Debug, Default)]
pub(super) struct NamedStacks {
    known: HashMap<u64, Vec<u64>>,
    /// Those in the kernel's table, as far as we have seen them.
    there: HashSet<u64>,
    /// Stacks of programs begin at an address that a function has just returned to.
    at_return: bool,
}

impl NamedStacks {
    /// For stacks of programs that are taken when a function returns: the call stands right before the first address too.
    pub(super) fn at_return() -> Self {
        Self { at_return: true, ..Self::default() }
    }

    /// Takes over a stack of a process, or of the kernel (no process), and has its addresses looked up while the process lives.
    pub(super) fn learn(
        &mut self,
        host: &Host,
        object: &Object,
        symbols: &mut Symbols,
        process: Option<Process>,
        name: u64,
    ) {
        if name <= MISSING {
            return;
        }
        self.there.insert(name);
        if !self.known.contains_key(&name) {
            let Some(stack) = object.hash_value::<u64, [u64; DEPTH]>(TABLE, &name) else { return };
            let mut stack: Vec<u64> = stack.iter().copied().take_while(|address| *address != 0).collect();
            if let Some(first) = stack.first_mut().filter(|_| self.at_return) {
                *first -= 1;
            }
            self.known.insert(name, stack);
        }
        if let Some(stack) = self.known.get(&name) {
            symbols.learn(host, process, calls(process, stack));
        }
    }

    /// The stack as a part of one that is shown.
    pub(super) fn part(&self, name: u64) -> Part<'_> {
        match (name, self.known.get(&name)) {
            (0, _) => Part::None,
            (_, Some(stack)) => Part::Taken(stack),
            (_, None) => Part::Missing,
        }
    }

    /// The same of a stack of the kernel, without the functions between a tracepoint and the program that took it.
    pub(super) fn kernel_part(&self, symbols: &Symbols, name: u64) -> Part<'_> {
        let Part::Taken(stack) = self.part(name) else { return self.part(name) };
        let of_probe = |address: &u64| {
            let function = symbols.name(None, address.saturating_sub(1)).unwrap_or_default();
            PROBE_FRAMES.iter().any(|begin| function.starts_with(begin))
        };
        let first = stack.iter().position(|address| !of_probe(address)).unwrap_or(0);
        Part::Taken(stack.get(first..).unwrap_or_default())
    }

    /// The innermost function of a process's stack that has a name, as far as it is known by now.
    pub(super) fn innermost(&self, symbols: &Symbols, process: Process, name: u64) -> Option<String> {
        let Part::Taken(stack) = self.part(name) else { return None };
        calls(Some(process), stack).find_map(|address| symbols.name(Some(process), address)).map(str::to_owned)
    }

    /// Makes room in the kernel's table, once the sums that name its stacks were taken over.
    pub(super) fn make_room(&mut self, object: &mut Object) -> Result<(), Unavailable> {
        if self.there.len() > KEPT {
            self.there.clear();
            object.take_hash::<u64, [u64; DEPTH]>(TABLE)?;
        }
        Ok(())
    }

    /// Forgets what a reading has shown, when it was much.
    pub(super) fn settle(&mut self) {
        if self.known.len() > KEPT {
            self.known.clear();
        }
    }
}

/// What found a table of named_stacks.h full: sums, stacks.
pub(super) fn lost(object: &mut Object) -> Result<Vec<(&'static str, u64)>, Unavailable> {
    let names = ["waits of more kinds than the table holds", "stacks that found no room"];
    Ok(names.into_iter().zip(object.take_counts("lost")?).collect())
}
