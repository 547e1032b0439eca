//! Performance events (perf_event_open(2)): counters of the kernel, the CPUs and their devices, and samples from its rings.

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
