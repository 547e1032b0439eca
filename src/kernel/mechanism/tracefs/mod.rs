//! The kernel's own tracing (tracefs), in a private instance: its buffer, events and filters are rdiag's alone, and the global ones stay as
//! they are.
//!
//! - The instance has the process id and start time of rdiag in its name: a killed rdiag's is known by its dead owner, and removed by the
//!   process that rdiag registered it with (`undo/`), or by the next start (`stale.rs`).
//! - Filters and ids are in force before the first event is switched on, and where a filter is rejected, none is (`instance.rs`).
//! - Events and calls of functions come as binary pages, whose layout the kernel describes (`page.rs`, `format.rs`), those of all CPUs in
//!   the
//!   order of their times (`merged.rs`). Text would not do: any user chooses names in it, with line breaks (`records.rs`, `names.rs`).
//!   What an event says is worded by the kernel's own format, as far as it is understood (`print/mod.rs`).
//! - Which functions a pattern means is tried, not read from a list: what the kernel has taken over as the instance's limit is read back,
//!   and nothing is traced if that is empty, which would mean all (`functions.rs`).
//! - Orders to start and stop are carried out by the kernel; that they concern the instance alone is tried first (`trigger.rs`).
//! - Where a tracer runs in no instance, the global tracing may be taken, if the user says so and it is unused (`global.rs`).
//! - Where it is not mounted, rdiag mounts it in a mount namespace of its own (`private.rs`).
//! - What an event costs is measured, since the kernel counts no time for its own tracing (`event_cost.rs`).

mod error_log;
pub mod event_cost;
pub mod format;
pub mod functions;
mod global;
pub mod instance;
pub mod merged;
pub mod names;
pub mod page;
mod place;
pub mod print;
pub mod private;
pub mod probe_events;
pub mod raw;
pub mod records;
pub mod select;
mod stale;
pub mod sums;
pub mod tally;
#[cfg(test)]
mod tests;
pub mod trigger;
pub mod undo;
