//! Where CPython has what, by version. Until 3.12 it is what its headers say (`Include/internal`, of builds for 64 bits without
//! `Py_DEBUG`); from 3.13 on the state begins with a table for debuggers (`_Py_DebugOffsets`), whose own layout is that of its version.

use serde::{Deserialize, Serialize};

/// The first version of 3 whose layout is known.
pub(in super::super) const FIRST: u8 = 8;
/// As much of the state as is looked at.
pub(super) const STATE_BYTES: usize = 1024;

/// Bytes of a frame that the programs in the kernel look at.
const FRAME_BYTES: u32 = 80;
/// Words of `_Py_DebugOffsets` before its structures: a cookie, the version, whether there is no global lock.
const COOKIE: u64 = u64::from_le_bytes(*b"xdebugpy");

/// Offsets in bytes from the beginning of a structure.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Layout {
    /// In the state: the first interpreter.
    pub first_interpreter: u32,
    /// In an interpreter: the next one.
    pub next_interpreter: u32,
    /// In an interpreter: its first thread.
    pub first_thread: u32,
    /// In a thread: the next one.
    pub next_thread: u32,
    /// In a thread: `pthread_self()`.
    pub thread_id: u32,
    /// In a thread: `gettid()`, from 3.11 on.
    pub native_id: Option<u32>,
    /// In a thread: the innermost frame.
    pub frame: u32,
    /// That leads to something else, which has it there (3.11 and 3.12).
    pub frame_within: Option<u32>,
    /// In a frame: its code.
    pub code: u32,
    /// In a frame: the one that called.
    pub previous: u32,
    /// In a frame: whose it is, from 3.12 on.
    pub owner: Option<u32>,
    /// In code: the file.
    pub file: u32,
    /// In code: the name, from 3.11 on with its class (`Server.handle`).
    pub name: u32,
    /// In a text: its length.
    pub length: u32,
    /// In a text: what it consists of, of which bit 6 says that it is ASCII.
    pub state: u32,
    /// In a text of ASCII: the characters.
    pub text: u32,
}

impl Layout {
    /// That of a minor version of CPython 3, whose state begins with these bytes.
    pub(in super::super) fn of(minor: u8, state: &[u8]) -> Option<Self> {
        match minor {
            8..=10 => Some(Self {
                first_interpreter: 32,
                next_interpreter: 0,
                first_thread: 8,
                next_thread: 8,
                thread_id: 176,
                frame: 24,
                code: 32,
                previous: 24,
                file: 104,
                name: 112,
                ..Self::texts(48)
            }),
            11 => Some(Self {
                first_interpreter: 40,
                first_thread: 16,
                thread_id: 152,
                native_id: Some(160),
                frame_within: Some(8),
                code: 32,
                previous: 48,
                ..Self::since_11(48)
            }),
            12 => Some(Self {
                first_interpreter: 40,
                first_thread: 72,
                thread_id: 136,
                native_id: Some(144),
                frame_within: Some(0),
                code: 0,
                previous: 8,
                owner: Some(70),
                ..Self::since_11(40)
            }),
            13 => Self::told(minor, state, &TABLE_13),
            14 => Self::told(minor, state, &TABLE_14),
            _ => None,
        }
    }

    fn texts(text: u32) -> Self {
        Self { length: 16, state: 32, text, ..Self::default() }
    }

    fn since_11(text: u32) -> Self {
        Self { next_interpreter: 0, next_thread: 8, frame: 56, file: 112, name: 128, ..Self::texts(text) }
    }

    /// What the table says that the state begins with.
    fn told(minor: u8, state: &[u8], table: &Table) -> Option<Self> {
        let word = |at: usize| {
            let bytes = state.get(at * 8..at * 8 + 8)?;
            Some(u64::from_ne_bytes(bytes.try_into().ok()?))
        };
        // Without a global lock, a frame's code and the texts are others.
        let is_version = word(1)? >> 16 == 0x300 | u64::from(minor);
        if word(0)? != COOKIE || word(2)? != 0 || !is_version {
            return None;
        }
        // No structure of CPython is larger than that of an interpreter, which has less than 1 MiB.
        let offset =
            |at: usize| word(at).and_then(|offset| u32::try_from(offset).ok()).filter(|offset| *offset < 1 << 20);
        // As much of a frame is read.
        let in_frame = |at: usize, size: u32| offset(at).filter(|offset| *offset <= FRAME_BYTES - size);
        Some(Self {
            first_interpreter: offset(FIRST_INTERPRETER)?,
            next_interpreter: offset(NEXT_INTERPRETER)?,
            first_thread: offset(FIRST_THREAD)?,
            next_thread: offset(table.thread + 2)?,
            thread_id: offset(table.thread + 5)?,
            native_id: Some(offset(table.thread + 6)?),
            frame: offset(table.thread + 4)?,
            frame_within: None,
            code: in_frame(table.frame + 2, 8)?,
            previous: in_frame(table.frame + 1, 8)?,
            owner: Some(in_frame(table.frame + 5, 1)?),
            file: offset(table.code + 1)?,
            name: offset(table.code + 3)?,
            length: offset(table.text + 2)?,
            state: offset(table.text + 1)?,
            text: offset(table.text + 3)?,
        })
    }
}

/// Words of the table, which are the same in 3.13 and 3.14.
const FIRST_INTERPRETER: usize = 5;
const NEXT_INTERPRETER: usize = 8;
const FIRST_THREAD: usize = 9;

/// The words at which the parts of the table begin, each with the size of the structure.
struct Table {
    thread: usize,
    frame: usize,
    code: usize,
    text: usize,
}

const TABLE_13: Table = Table { thread: 19, frame: 28, code: 34, text: 67 };
const TABLE_14: Table = Table { thread: 22, frame: 31, code: 39, text: 77 };
