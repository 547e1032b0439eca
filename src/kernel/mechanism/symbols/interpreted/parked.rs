//! What threads of a Java machine are parked for, by the memory of its process: of those that sleep all the time, which tell the programs
//! in the kernel nothing (`probes/response/java.h`).

use std::io;

use super::HotSpot;
use crate::mechanism::symbols::memory::Memory;

/// Threads at most.
const MOST_THREADS: u64 = 1024;
/// Bytes of the end of a class's name.
const NAME: u64 = 63;
/// How far in an object the pointer to its class lies.
const CLASS: u64 = 8;

/// A thread that is parked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Parked {
    /// Where the machine has it, in the memory of its process.
    pub thread: u64,
    /// How many bytes it takes there.
    pub size: u64,
    /// The class of what it is parked for.
    pub class: String,
}

impl Parked {
    /// Whether a futex is one of the thread's own, on which its machine parks it.
    #[must_use]
    pub fn has(&self, futex: u64) -> bool {
        futex.wrapping_sub(self.thread) < self.size
    }
}

/// Those of a process.
///
/// # Errors
/// When its memory may not be looked at.
pub(in super::super) fn read(pid: u32, java: &HotSpot) -> io::Result<Vec<Parked>> {
    Ok(Machine { memory: Memory::open(pid)?, java }.parked().unwrap_or_default())
}

/// A machine that has begun.
struct Machine<'m> {
    memory: Memory,
    java: &'m HotSpot,
}

impl Machine<'_> {
    /// None if it is not one of which that is known.
    fn parked(&self) -> Option<Vec<Parked>> {
        let Self { memory, java } = self;
        let is_set = |flag: &u64| *flag != 0 && memory.word(*flag).is_none_or(|word| word & 0xff != 0);
        let blocker = half(memory.word(java.blocker)?);
        if blocker == 0 || java.unlike.iter().any(is_set) {
            return None;
        }
        let list = memory.word(java.threads)?;
        let field = |of: u64, offset: u64| memory.word(of.wrapping_add(memory.word(offset)?));
        let length = half(field(list, java.length)?).min(MOST_THREADS);
        let threads = memory.read(field(list, java.array)?, usize::try_from(8 * length).ok()?);
        let threads = threads.as_chunks().0.iter().map(|thread| u64::from_ne_bytes(*thread));
        let parked = threads.filter_map(|thread| {
            let object = memory.word(field(thread, java.object)?).filter(|object| *object != 0)?;
            let parked_for = self.pointer(&java.objects, object.wrapping_add(blocker))?;
            let class = self.pointer(&java.classes, parked_for.wrapping_add(CLASS))?;
            let name = field(class, java.name)?;
            let length = field(name, java.name_length)? & 0xffff;
            let letters = name.wrapping_add(memory.word(java.letters)?).wrapping_add(length.saturating_sub(NAME));
            let letters = memory.read(letters, usize::try_from(length.min(NAME)).ok()?);
            let class = letters.into_iter().map(char::from).collect();
            Some(Parked { thread, size: java.size, class })
        });
        Some(parked.collect())
    }

    /// What a pointer at an address leads to; none if it leads nowhere.
    fn pointer(&self, [base, shift, is_narrow]: &[u64; 3], address: u64) -> Option<u64> {
        let word = self.memory.word(address)?;
        if *is_narrow != 0 && self.memory.word(*is_narrow)? & 0xff == 0 {
            return Some(word).filter(|word| *word != 0);
        }
        let shift = half(self.memory.word(*shift)?) & 63;
        let narrow = Some(half(word)).filter(|word| *word != 0)?;
        Some(self.memory.word(*base)?.wrapping_add(narrow << shift))
    }
}

/// The lower 32 bits.
fn half(word: u64) -> u64 {
    word & 0xffff_ffff
}
