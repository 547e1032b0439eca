//! How the kernel is measured, beyond reading files: programs inside the kernel, performance events, its own trace buffers, and
//! names for addresses. Nothing here knows what is measured, or judges it.

pub mod btf;
pub mod descriptors;
pub mod driver_counters;
pub mod ebpf;
mod netlink;
mod obstacles;
pub mod perf;
pub mod perf_data;
pub mod points;
pub mod symbols;
pub mod taskstats;
pub mod tracefs;
pub mod traffic_control;
