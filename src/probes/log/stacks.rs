//! The stacks of lines. Names come later than addresses, so a line has the number of its stack until it is handed on.

use std::collections::HashMap;

use super::FIRST_STACK;
use crate::def::Context;
use crate::stack_table::{DEPTH, StackTable};
use rdiag_kernel::host::Host;
use rdiag_kernel::mechanism::ebpf::{Object, words};
use rdiag_kernel::mechanism::symbols::{Part, Piece, Process, functions};
use rdiag_model::Unavailable;
use rdiag_model::probe::{Cell, Frame, Row};

/// Stacks that the kernel's tables hold; they are emptied in time.
const ROOM: usize = 8192;
const LEAST_ROOM: usize = 1024;
/// Lines with a stack, in one reading.
const LINES: usize = 10_000;
/// Functions of one stack that are shown.
const SHOWN: usize = 64;

/// Stacks that the table of one of so many points holds.
pub(super) fn room(of: usize) -> u32 {
    u32::try_from((ROOM / of.max(1)).max(LEAST_ROOM)).unwrap_or(u32::MAX)
}

/// The stacks of one event: `struct whence` of the program.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct Whence {
    kernel: u64,
    user: u64,
    process: Process,
}

pub(super) struct LineStacks {
    table: StackTable,
    /// Of the lines since the last reading.
    lines: Vec<Whence>,
    /// Of as many the addresses are being looked up.
    learned: usize,
}

impl LineStacks {
    pub(super) fn new(context: &Context<'_>) -> Self {
        Self { table: StackTable::new(context, ROOM / 2), lines: Vec::new(), learned: 0 }
    }

    /// What stands in a line for the stack of its record.
    pub(super) fn add(&mut self, record: &[u8]) -> Cell {
        if self.lines.len() >= LINES {
            return Cell::Unknown(());
        }
        let [kernel, user, tgid, born] = [0, 1, 2, 3].map(|at| words::word(record, (FIRST_STACK + at) * 8));
        self.lines.push(Whence { kernel, user, process: Process { pid: tgid as u32, born } });
        Cell::Number((self.lines.len() - 1) as f64)
    }

    /// Has the addresses of the last lines looked up, which are all of one point.
    pub(super) fn learn(&mut self, host: &Host, at: usize, object: &Object) {
        for Whence { kernel, user, process } in self.lines.iter().skip(self.learned).copied() {
            self.table.learn(host, (at, object), None, kernel);
            self.table.learn(host, (at, object), Some(process), user);
        }
        self.learned = self.lines.len();
    }

    pub(super) fn make_room<'o>(
        &mut self,
        objects: impl ExactSizeIterator<Item = &'o mut Object>,
    ) -> Result<(), Unavailable> {
        self.table.make_room(objects)
    }

    /// Puts the names into the last cells of the lines, and forgets the stacks.
    pub(super) fn name(&mut self, host: &Host, rows: &mut [Row]) {
        self.table.symbols.settle(host);
        let mut named: HashMap<Whence, Cell> = HashMap::new();
        for cell in rows.iter_mut().filter_map(|row| row.cells.last_mut()) {
            let whence = cell.number().and_then(|number| self.lines.get(number as usize));
            let Some(whence) = whence.copied() else { continue };
            *cell = named.entry(whence).or_insert_with(|| stack(&mut self.table, whence)).clone();
        }
        self.lines.clear();
        self.learned = 0;
        self.table.forget();
    }

    pub(super) fn notes(&self) -> impl Iterator<Item = &str> {
        self.table.symbols.notes()
    }
}

/// The functions of a stack, innermost first: those of the kernel, then those of the program.
fn stack(table: &mut StackTable, Whence { kernel, user, process }: Whence) -> Cell {
    let StackTable { symbols, addresses, .. } = table;
    let part = |id: u64| match (id, addresses.get(&id)) {
        (0, _) => Part::None,
        (_, Some(stack)) => Part::Taken(stack.as_slice()),
        (_, None) => Part::Missing,
    };
    let frames = |process, id| Piece::Frames { process, part: part(id), reversed: false };
    let (frames, is_cut) = functions(symbols, &[frames(Some(process), user), frames(None, kernel)], DEPTH);
    lines(&frames, is_cut)
}

fn lines(frames: &[Frame], is_cut: bool) -> Cell {
    let text = |frame: &Frame| match &frame.object {
        Some(object) if !frame.kernel => format!("{} ({object})", frame.name),
        _ => frame.name.clone(),
    };
    let mut lines: Vec<String> = frames.iter().take(SHOWN).map(text).collect();
    match (frames.len().saturating_sub(SHOWN), is_cut) {
        (0, false) => {}
        (0, true) => lines.push("(what called it is not known)".into()),
        (more, _) => lines.push(format!("(and {more} more)")),
    }
    if lines.is_empty() { Cell::Unknown(()) } else { Cell::Stack(lines) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn functions_stand_innermost_first_those_of_programs_with_their_file_and_what_is_left_out_is_told() {
        let frame = |name: &str, kernel| Frame { name: name.into(), object: Some("x".into()), line: None, kernel };
        let frames = [frame("vfs_read", true), frame("main", false)];
        let stack = |lines: &[&str]| Cell::Stack(lines.iter().map(|line| (*line).to_owned()).collect());
        assert_eq!(lines(&frames, false), stack(&["vfs_read", "main (x)"]));
        assert_eq!(lines(&frames, true), stack(&["vfs_read", "main (x)", "(what called it is not known)"]));
        let Cell::Stack(deep) = lines(&vec![frame("f", true); SHOWN + 5], true) else { panic!() };
        assert_eq!((deep.len(), deep.last().map(String::as_str)), (SHOWN + 1, Some("(and 5 more)")));
        // A thread of the kernel has no stack in a program.
        assert_eq!(lines(&[], false), Cell::Unknown(()));
    }
}
