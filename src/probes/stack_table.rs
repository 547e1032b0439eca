//! Stacks that the programs of any point keep by name (whence.h): read, and their addresses looked up, while the processes live.

use std::collections::hash_map::Entry;
use std::collections::{HashMap, HashSet};

use crate::def::Context;
use rdiag_kernel::host::Host;
use rdiag_kernel::mechanism::ebpf::Object;
use rdiag_kernel::mechanism::symbols::{Process, Symbols, calls};
use rdiag_model::Unavailable;

/// Frames that the program takes at most.
pub(super) const DEPTH: usize = 127;
/// What stands in place of a stack's name when it could not be taken.
const MISSING: u64 = 1;

/// What is known of stacks. They have the same name at every point.
pub(super) struct StackTable {
    pub(super) symbols: Symbols,
    pub(super) addresses: HashMap<u64, Vec<u64>>,
    /// Stacks that the kernel's tables hold, as far as we have seen them, by the place of the point.
    kept: HashSet<(usize, u64)>,
    /// As many are left there.
    most: usize,
}

impl StackTable {
    /// For tables of the kernel that hold more than so many stacks, all together.
    pub(super) fn new(context: &Context<'_>, most: usize) -> Self {
        let symbols = Symbols::new(context.host, context.kernel().ok());
        Self { symbols, addresses: HashMap::new(), kept: HashSet::new(), most }
    }

    /// Reads a stack that is new, and has its addresses looked up.
    pub(super) fn learn(&mut self, host: &Host, (at, object): (usize, &Object), process: Option<Process>, id: u64) {
        if id <= MISSING {
            return;
        }
        self.kept.insert((at, id));
        let stack = match self.addresses.entry(id) {
            Entry::Occupied(known) => known.into_mut(),
            Entry::Vacant(vacant) => match object.hash_value::<u64, [u64; DEPTH]>("point_stacks", &id) {
                Some(stack) => vacant.insert(taken(&stack)),
                None => return,
            },
        };
        self.symbols.learn(host, process, calls(process, stack));
    }

    /// Empties the kernel's tables in time; each point has its part of the room.
    pub(super) fn make_room<'o>(
        &mut self,
        objects: impl ExactSizeIterator<Item = &'o mut Object>,
    ) -> Result<(), Unavailable> {
        if self.kept.len() > self.most / objects.len().max(1) {
            self.kept.clear();
            for object in objects {
                object.take_hash::<u64, [u64; DEPTH]>("point_stacks")?;
            }
        }
        Ok(())
    }

    /// Forgets stacks if there are many, once they are no longer needed.
    pub(super) fn forget(&mut self) {
        if self.addresses.len() > self.most {
            self.addresses.clear();
        }
    }
}

/// The addresses of a stack, innermost first. The first place is empty where the kernel knew the caller itself.
fn taken(stack: &[u64; DEPTH]) -> Vec<u64> {
    let skip = usize::from(stack.first() == Some(&0));
    stack.iter().skip(skip).take_while(|address| **address != 0).copied().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stack_is_read_to_its_end_and_without_the_place_kept_for_the_caller() {
        let mut stack = [0; DEPTH];
        stack[1..4].copy_from_slice(&[5, 6, 7]);
        assert_eq!(taken(&stack), [5, 6, 7]);
        stack[0] = 4;
        assert_eq!(taken(&stack), [4, 5, 6, 7]);
        assert_eq!(taken(&[0; DEPTH]), [0_u64; 0]);
    }
}
