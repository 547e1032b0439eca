//! perf_event_open(2): samples from the kernel's rings.

pub mod event;
mod record;
mod ring;
pub mod sampler;
