//! The kernel's own tracing (tracefs), in a private instance: its buffer, events and filters are nobody else's, and the global
//! ones stay as they are.

pub mod instance;
pub mod line;
mod place;
pub mod select;
mod stale;
#[cfg(test)]
mod tests;
