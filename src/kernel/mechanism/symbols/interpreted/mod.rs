//! Functions that an interpreter works on. The stack of the processor has those of the interpreter alone; which functions of its program
//! these are is in its memory, which programs in the kernel read at the moment a thread goes to sleep or is sampled
//! (`probes/response/interpreted.h`). What they are told is where to find it, and what it looks like there.

mod hotspot;
mod javascript;
pub(super) mod parked;
mod python;

pub use hotspot::HotSpot;
pub use javascript::V8;
pub use parked::Parked;
pub use python::{CPython, Layout};

use std::fs::File;

use serde::{Deserialize, Serialize};

use super::maps::Maps;

/// The bit that marks a word on a stack as a function of a language whose interpreter has it in its memory: no address of code has it.
pub const INTERPRETED: u64 = 1 << 63;
/// Such a word for what could not be read: the stack is cut there.
pub const CUT: u64 = INTERPRETED | 1;

/// As many words of a stack that ends with such as there can be.
pub(super) const DEPTH: usize = 100;

/// What an interpreter works on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Language {
    /// `CPython`, of this minor version of 3.
    Python(u8),
    /// V8, as node has it.
    JavaScript,
    /// `HotSpot`, of which not the functions are known, but what its threads are parked for.
    Java,
}

/// What a file says of the interpreter in it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Described {
    Python(python::Python),
    /// None if its version is not known.
    JavaScript(Option<V8>),
    /// None if it does not say enough.
    Java(Option<HotSpot>),
}

/// The interpreter of a process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Interpreter {
    /// `CPython`.
    Python(CPython),
    /// V8.
    JavaScript(V8),
    /// `HotSpot`.
    Java(HotSpot),
}

impl Language {
    /// That of the interpreter that a file of this name has, if its layout can be known.
    pub(super) fn of(object: &str) -> Option<Self> {
        if javascript::is_of_node(object) {
            return Some(Self::JavaScript);
        }
        if hotspot::is_of_java(object) {
            return Some(Self::Java);
        }
        python::version(object).filter(|minor| *minor >= python::FIRST).map(Self::Python)
    }

    /// What is missing where it is not known.
    pub(super) fn gap(self, object: &str) -> String {
        match self {
            Self::Python(_) => format!("functions of Python in {object} have no names"),
            Self::JavaScript => format!("functions of JavaScript in {object} have no names"),
            Self::Java => format!("what threads of Java ({object}) are parked for is not known"),
        }
    }
}

impl Described {
    /// From a copy of a file's tables of symbols and from the file; none if there is no such interpreter.
    pub(super) fn read(tables: &File, file: &File, language: Language) -> Option<Self> {
        match language {
            Language::Python(minor) => python::elf::read(tables, file, minor).map(Self::Python),
            Language::JavaScript => javascript::read(tables, file).map(Self::JavaScript),
            Language::Java => hotspot::read(tables, file).map(Self::Java),
        }
    }

    /// Where it is in the memory of a process, or why that is not known.
    pub(super) fn in_memory(&self, maps: &Maps, object: &str) -> Result<Interpreter, String> {
        match self {
            Self::Python(python) => python.in_memory(maps, object).map(Interpreter::Python),
            Self::JavaScript(Some(v8)) => Ok(Interpreter::JavaScript(*v8)),
            Self::JavaScript(None) => Err("the layout of this V8 is not known".to_owned()),
            Self::Java(Some(hotspot)) => hotspot.in_memory(maps, object).map(Interpreter::Java),
            Self::Java(None) => Err("its file does not say where that is".to_owned()),
        }
    }

    /// Whether its layout is known.
    pub(super) fn has_layout(&self) -> bool {
        match self {
            Self::Python(python) => python.layout.is_some(),
            Self::JavaScript(v8) => v8.is_some(),
            Self::Java(hotspot) => hotspot.is_some(),
        }
    }
}
