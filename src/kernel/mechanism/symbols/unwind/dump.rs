//! What is walked, and what comes of it.

use std::collections::BTreeMap;

use super::registers::Registers;
use super::way::Way;

/// What a thread's registers and the top of its stack held at a sample.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Dump {
    /// By which the answer is known.
    pub ticket: u64,
    /// The registers.
    pub registers: Registers,
    /// The place is one that a call returns to, and not the innermost.
    pub is_called: bool,
    /// The thread is asleep, and nothing on its stack changes as long as that is so.
    pub is_asleep: bool,
    /// Frame pointers are followed where no table leads on, if they tell of the caller what tables need.
    pub follows_pointers: bool,
    /// The address of the first byte.
    pub base: u64,
    /// The stack from there on, outwards. Of a thread that is asleep it is read from the memory of its process.
    pub bytes: Vec<u8>,
    /// The stack as frame pointers have it, innermost first.
    pub pointers: Vec<u64>,
    /// Words that stand for functions of JavaScript, by the frame pointers of their frames: in code without tables they take the place
    /// of the address. 0: the frame is none of a function.
    pub functions: BTreeMap<u64, u64>,
}

/// A stack that was walked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Walked {
    /// That of its dump.
    pub ticket: u64,
    /// Addresses, innermost first; none if frame pointers lead further.
    pub stack: Option<ByTables>,
    /// How it was walked, as far as it was.
    pub steps: Vec<Step>,
    /// Frame pointers were followed where a table may be that could not be read.
    pub is_guessed: bool,
    /// What was to be walked, if there was no time for all of it: what was read meanwhile is known from now on.
    pub unfinished: Option<Dump>,
}

/// From one place to its caller.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Step {
    /// The address; if it is one to return to that before it, where the call stands.
    pub place: u64,
    /// It is one to return to.
    pub is_called: bool,
    /// The same step leads from so many bytes of code before it on,
    pub before: u64,
    /// and below so many from it on.
    pub after: u64,
    /// The step.
    pub way: Way,
}

/// A stack by unwind tables.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ByTables {
    /// Addresses, innermost first.
    pub addresses: Vec<u64>,
    /// Whether a table says that the outermost has no caller.
    pub is_whole: bool,
}
