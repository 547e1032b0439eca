//! Performance events (perf_event_open(2)): counters of the kernel, the CPUs and their devices, and samples from its rings. They need no
//! program in the kernel.
//!
//! A list of events is read against what sysfs and tracefs describe (`select.rs`). Each event is opened by itself first, to learn whether
//! it can be counted, then in one group with those that it is divided by, in every place (`open.rs`). Counts are differences, scaled for
//! each place to the time in which they should have counted; an event that never ran is unknown, not 0 (`counters.rs`). The system call
//! stands behind a trait of four functions (`pmc.rs`), so that a scripted machine tests what a virtual machine cannot count (`tests.rs`).

pub mod catalogue;
pub mod counters;
pub mod cpus;
pub mod dynamic;
pub mod event;
mod names;
mod open;
mod pmc;
mod pmu;
mod record;
mod refusal;
mod ring;
pub mod sampler;
pub mod select;
#[cfg(test)]
mod tests;
