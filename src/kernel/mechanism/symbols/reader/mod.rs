//! Symbols are read by a process of their own, since the user who runs a program chooses every byte of its file.
//!
//! The process is this program itself. It is handed files that were opened and verified for it (`open.rs`), copies the tables that it
//! needs with a bound on their size (`copy.rs`), and looks addresses up in the copies: a file that is truncated or rewritten meanwhile
//! harms nothing. Unwind tables it copies and reads in the same way (`tables.rs`), and tells where an interpreter keeps what
//! (`interpreted/`). It has no privileges, no other
//! descriptor, and can open nothing but `/usr/lib/debug` (`host/confine`). A file that
//! crashes, stalls or exhausts it costs its own names; the process is killed, left alone and started again for the others.

mod child;
mod client;
mod copy;
mod message;
mod tables;

pub use child::main;
pub(super) use child::{interpreter, names, rows};
pub use client::missing_layers;
pub(super) use client::{Client, Source};

/// The hidden first argument that makes this program the one that reads symbols.
pub const HELPER_ARGUMENT: &str = "symbol-reader";
