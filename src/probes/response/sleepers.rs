//! Threads that are asleep when an observation begins: they send no stack, but nothing on theirs changes.

use std::collections::BTreeMap;

use super::kind::Type;
use super::record::Record;
use super::stacks::StackNames;
use super::steps::{Steps, Waiting, Whose};
use rdiag_kernel::host::Host;
use rdiag_kernel::mechanism::symbols::Symbols;
use rdiag_kernel::mechanism::symbols::unwind::{Dump, Registers};

/// So many stacks of threads that are asleep.
const MOST_ASLEEP: usize = 512;

impl Steps {
    /// Has the stack of a thread walked that is asleep from the beginning, and so will send none.
    pub(super) fn ask_asleep(
        &mut self,
        (host, symbols): (&Host, &mut Symbols),
        stacks: &mut StackNames,
        record: &Record,
        whose: Whose,
    ) {
        let (process, [place, sp, pointer, link]) = (record.process(), record.asleep);
        if self.asleep.len() >= MOST_ASLEEP || self.asleep.contains_key(&(process, record.tid)) {
            return;
        }
        // No stack that the programs have named is called so.
        let stack = u64::MAX - 4 * self.asleep.len() as u64;
        self.asleep.insert((process, record.tid), stack);
        stacks.begin(stack, vec![place]);
        self.incomplete.insert(stack);
        self.last_ticket += 1;
        let dump = Dump {
            ticket: self.last_ticket,
            registers: Registers::of_frame(place, sp, pointer, link),
            is_called: false,
            is_asleep: true,
            follows_pointers: true,
            base: sp,
            bytes: Vec::new(),
            pointers: Vec::new(),
            functions: BTreeMap::new(),
        };
        // Which program it executes is not known, so that the programs are told no steps.
        let waiting = Waiting { process, program: 0, stack, is_running: false, whose, place, tries: 0 };
        self.waiting.insert(self.last_ticket, waiting);
        symbols.unwind(host, process, vec![dump]);
    }

    /// Gives the wait of a thread that has slept all the time its stack.
    pub(super) fn complete_sleeper(&self, record: &mut Record) {
        let stack = self.asleep.get(&(record.process(), record.tid)).filter(|_| record.slept());
        let Some(stack) = stack.filter(|stack| !self.incomplete.contains(stack)) else { return };
        for cell in record.cells.iter_mut().filter(|cell| cell.kind.of() == Type::Stack) {
            cell.object.first_mut().filter(|of| **of == 0).into_iter().for_each(|of| *of = *stack);
        }
    }
}
