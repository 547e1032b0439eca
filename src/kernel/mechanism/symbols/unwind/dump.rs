//! What is walked, and what comes of it.

use super::registers::Registers;

/// What a thread's registers and the top of its stack held at a sample.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Dump {
    /// By which the answer is known.
    pub ticket: u64,
    /// The registers.
    pub registers: Registers,
    /// The address of the first byte.
    pub base: u64,
    /// The stack from there on, outwards.
    pub bytes: Vec<u8>,
    /// The stack as frame pointers have it, innermost first.
    pub pointers: Vec<u64>,
}

/// A stack that was walked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Walked {
    /// That of its dump.
    pub ticket: u64,
    /// Addresses, innermost first; none if frame pointers lead further.
    pub stack: Option<ByTables>,
}

/// A stack by unwind tables.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ByTables {
    /// Addresses, innermost first.
    pub addresses: Vec<u64>,
    /// Whether a table says that the outermost has no caller.
    pub is_whole: bool,
}
