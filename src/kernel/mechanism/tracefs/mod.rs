//! The kernel's own tracing (tracefs), in a private instance: its buffer, events and filters are nobody else's, and the global ones stay as
//! they are.
//!
//! - The instance has the process id and start time of rdiag in its name: a killed rdiag's is known by its dead owner, and removed by the
//!   process that rdiag told of it (`undo/`), or by the next start (`stale.rs`).
//! - Filters and ids are in force before the first event is switched on, and where a filter is rejected, none is (`instance.rs`).
//! - Events come as text, whose fields are found by place, since any user chooses the names in it (`line.rs`). Calls of functions come as
//!   binary pages, whose layout the kernel describes (`page.rs`, `format.rs`).
//! - Which functions a pattern means is tried, not read from a list: what the kernel has taken over as the instance's limit is read back,
//!   and nothing is traced if that is empty, which would mean all (`functions.rs`).
//! - Orders to start and stop are carried out by the kernel; that they concern the instance alone is tried first (`trigger.rs`).
//! - Where a tracer runs in no instance, the global tracing may be taken, if the user says so and nobody uses it (`global.rs`).
//! - What an event costs is measured, since the kernel counts no time for its own tracing (`toll.rs`).

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
pub mod undo;
