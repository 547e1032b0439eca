//! Stacks as the programs keep them: under a name.

use std::collections::HashMap;
use std::collections::hash_map::Entry;

use rdiag_kernel::mechanism::ebpf::Object;
use rdiag_kernel::mechanism::symbols::Part;

/// Frames that a stack has at most.
pub(super) const DEPTH: usize = 127;
/// `struct stack` of the programs.
type StackWords = [u64; DEPTH];

/// Set in the names of stacks that were walked by tables.
const BY_TABLES: u64 = 1;

/// Whether the stack of this name was walked by tables.
pub(super) fn is_by_tables(name: u64) -> bool {
    name > MISSING && name & BY_TABLES != 0
}

/// Stacks by name, as far as they were asked for.
#[derive(Debug, Default)]
pub(super) struct StackNames(HashMap<u64, Vec<u64>>);

/// A stack that could not be taken; 0 is one that was not asked for.
pub(super) const MISSING: u64 = 1;

impl StackNames {
    /// The addresses, innermost first; reads them when they are new.
    pub(super) fn learn(&mut self, object: &Object, name: u64) -> Option<&[u64]> {
        if name <= MISSING {
            return None;
        }
        match self.0.entry(name) {
            Entry::Occupied(known) => Some(known.into_mut()),
            Entry::Vacant(fresh) => {
                let mut stack = object.hash_value::<u64, StackWords>("stacks", &name)?.to_vec();
                stack.truncate(stack.iter().position(|address| *address == 0).unwrap_or(DEPTH));
                Some(fresh.insert(stack))
            }
        }
    }

    /// Takes in one that was read already; whether it is new.
    pub(super) fn insert(&mut self, name: u64, stack: &StackWords) -> bool {
        let ends = stack.iter().position(|address| *address == 0).unwrap_or(DEPTH);
        let known = self.0.entry(name);
        let is_new = matches!(known, Entry::Vacant(_));
        known.or_insert_with(|| stack.iter().take(ends).copied().collect());
        is_new
    }

    /// Takes in as much of one as is known.
    pub(super) fn begin(&mut self, name: u64, so_far: Vec<u64>) {
        self.0.insert(name, so_far);
    }

    /// Completes one that ends with this place, of which the first of these words is; whether it does.
    pub(super) fn go_on(&mut self, name: u64, place: u64, rest: &[u64]) -> bool {
        let Some(stack) = self.0.get_mut(&name).filter(|stack| stack.last() == Some(&place)) else { return false };
        stack.pop();
        stack.extend(rest);
        stack.truncate(DEPTH);
        true
    }

    /// The addresses, if they were learnt.
    pub(super) fn get(&self, name: u64) -> Option<&[u64]> {
        self.0.get(&name).map(Vec::as_slice)
    }
}

/// What is known of the stack of a name.
pub(super) fn part(stacks: &StackNames, name: u64) -> Part<'_> {
    match (name, stacks.get(name)) {
        (0, _) => Part::None,
        (MISSING, _) | (_, None) => Part::Missing,
        (_, Some(stack)) => Part::Taken(stack),
    }
}
