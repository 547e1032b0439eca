//! Frames whose callers the programs do not know (`struct frame_asked` of `walk.h`).

use rdiag_kernel::mechanism::ebpf::words;
use rdiag_kernel::mechanism::symbols::Process;
use rdiag_kernel::mechanism::symbols::unwind::{Dump, Registers};

/// Bytes that the copy of a stack begins at a multiple of.
const CHUNK: u64 = 1024;
/// Words of `struct frame_asked`: before the stack so far, and of that, 0 at its end included.
const HEAD: usize = 8;
const SO_FAR: usize = 81;
/// Functions of JavaScript by their frame pointers, which follow.
const FUNCTIONS: usize = 64;
/// Of all before the copy.
const BEFORE_COPY: usize = HEAD + SO_FAR + 2 * FUNCTIONS + 1;

/// A frame whose caller the programs do not know.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Asked {
    pub(super) process: Process,
    /// By which number the programs know what it executes, or what stands there while they know none.
    pub(super) known: u64,
    /// The name of the stack up to there, if it has one, and its addresses.
    pub(super) stack: u64,
    pub(super) so_far: Vec<u64>,
    /// The thread is on a CPU.
    pub(super) is_running: bool,
    pub(super) dump: Dump,
}

impl Asked {
    /// `struct frame_asked`; none of what is too short.
    pub(super) fn of(record: &[u8]) -> Option<Self> {
        let word = |at: usize| words::word(record, at * 8);
        let [ids, born, known, place, sp, pointer, link, stack] = std::array::from_fn(word);
        let so_far: Vec<u64> = (HEAD..HEAD + SO_FAR).map(word).take_while(|address| *address != 0).collect();
        let pairs = (0..FUNCTIONS).map(|at| HEAD + SO_FAR + 2 * at).map(|at| (word(at), word(at + 1)));
        let functions = pairs.take_while(|(pointer, _)| *pointer != 0);
        let size = usize::try_from(word(BEFORE_COPY - 1)).ok()?;
        let bytes = record.get(BEFORE_COPY * 8..)?.get(..size)?.to_vec();
        let registers = Registers::of_frame(place, sp, pointer, link);
        let dump = Dump {
            ticket: 0,
            registers,
            is_called: ids & 1 == 0,
            is_asleep: false,
            follows_pointers: true,
            base: sp & !(CHUNK - 1),
            bytes,
            pointers: Vec::new(),
            functions: functions.collect(),
        };
        let process = Process { pid: (ids >> 32) as u32, born };
        Some(Self { process, known, stack, so_far, is_running: ids & 2 != 0, dump })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_is_a_frame_with_the_stack_from_the_chunk_on_that_it_begins_in() {
        let record = |size: u64| {
            let mut words = vec![7 << 32 | 3, 9, 3, 0x4040, 0x7fff_0468, 0x7fff_0500, 0, 11, 0x2000, 0x4040];
            words.resize(HEAD + SO_FAR, 0);
            words.extend([0x7fff_0510, 1 << 63 | 6, 0x7fff_0520, 0, 0, 9]);
            words.resize(BEFORE_COPY - 1, 0);
            words.push(size);
            let mut record: Vec<u8> = words.iter().flat_map(|word: &u64| word.to_ne_bytes()).collect();
            record.resize(record.len() + 2048, 5);
            record
        };
        let asked = Asked::of(&record(2048)).unwrap();
        assert_eq!((asked.process, asked.known, asked.stack), (Process { pid: 7, born: 9 }, 3, 11));
        assert_eq!((asked.so_far, asked.is_running), (vec![0x2000, 0x4040], true));
        assert_eq!((asked.dump.is_called, asked.dump.base, asked.dump.bytes.len()), (false, 0x7fff_0400, 2048));
        assert_eq!(asked.dump.registers.pc(), 0x4040);
        assert_eq!(asked.dump.functions, [(0x7fff_0510, 1 << 63 | 6), (0x7fff_0520, 0)].into());
        assert_eq!(Asked::of(&record(2049)), None);
    }
}
