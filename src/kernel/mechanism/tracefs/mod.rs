//! The kernel's own tracing (tracefs), in a private instance: its buffer, events and filters are nobody else's, and the global
//! ones stay as they are.

pub mod format;
pub mod functions;
mod global;
pub mod instance;
pub mod line;
pub mod page;
mod place;
pub mod probe_events;
pub mod raw;
pub mod select;
mod stale;
pub mod sums;
#[cfg(test)]
mod tests;
pub mod toll;
pub mod trigger;
