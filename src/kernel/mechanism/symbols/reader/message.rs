//! What rdiag and the process that reads symbols say to each other.

use serde::{Deserialize, Serialize};

use crate::mechanism::symbols::interpreted::{Described, Language};
use crate::mechanism::symbols::unwind::Row;

#[derive(Debug, Serialize, Deserialize)]
pub(super) enum Question {
    /// A file, which comes with this message, and the number that it goes by from now on.
    Open { file: u32 },
    /// The functions at these offsets of a file; with `lines` what is inlined there and the lines too, from debug information.
    Names { file: u32, offsets: Vec<u64>, lines: bool },
    /// How to get from code at these offsets of a file to its callers.
    Rows { file: u32, offsets: Vec<u64> },
    /// What a file says of the interpreter of this language in it.
    Interpreter { file: u32, language: Language },
}

#[derive(Debug, Serialize, Deserialize)]
pub(super) enum Reply {
    /// The file can be asked about; whether it has Go's table of functions.
    Opened { build_id: Option<Vec<u8>>, has_go: bool },
    /// For each offset the functions, outermost first, each with its line (`FILE:LINE`); and why debug information was left out, if it was.
    Names { names: Vec<Vec<(String, Option<String>)>>, left_out: Option<String> },
    /// For each offset the row of the unwind tables, if there is one.
    Rows(Vec<Option<Row>>),
    /// None where there is none.
    Interpreter(Option<Described>),
    /// It is no file with symbols, and why.
    Refused(String),
}
