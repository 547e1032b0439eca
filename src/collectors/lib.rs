//! What is measured: one file for each source. A collector reads and records; it never judges.
//!
//! To add one: write `name.rs` with a `pub static COLLECTOR: CollectorDef`, and add its line to `registry.rs`. A test fails when a file is
//! not registered, a series or metric id is used twice, or a metric cites an unknown series. A collector imports what it is made of from
//! `def.rs` and `sink.rs`, and never the list.
//!
//! Files of /proc that others read too are parsed by `src/proc`, which says what the crate procfs parses and what it does not; those that
//! one collector alone reads have small parsers in that collector.

mod block_devices;
mod blocked_tasks;
mod cgroup_count;
mod cgroup_cpu;
mod cgroup_freezer;
mod cgroup_io;
mod cgroup_memory;
mod cgroup_pids;
mod clocksource;
mod conntrack;
mod cpu_stat;
mod cpu_throttling;
mod cpu_topology;
mod def;
mod deleted_files;
mod disk_slots;
mod diskstats;
mod driver_counters;
mod edac;
mod entropy;
mod fabric_ports;
mod file_handles;
mod filesystem_errors;
mod filesystems;
mod held_descriptors;
mod interfaces;
mod interrupts;
mod kernel_log;
mod kernel_tables;
mod listeners;
mod loadavg;
mod lock_waits;
mod md;
mod meminfo;
mod memory_maps;
mod neighbours;
mod nfs;
mod numa;
mod outgoing_tcp;
mod pcie_errors;
mod pcie_links;
mod powercap;
mod process_changes;
mod processes;
mod psi;
mod qdiscs;
mod registry;
mod schedstat;
mod scsi_errors;
mod sink;
mod socket_table;
mod sockets;
mod softnet;
mod stopped_tasks;
mod swaps;
mod task_limits;
mod task_states;
mod tcp_udp;
mod temperatures;
#[cfg(test)]
mod testing;
mod threads;
mod transmit_queues;
mod udp_sockets;
mod user_tasks;
mod vmstat;
mod waiting_tasks;
mod zoneinfo;
mod zram;

pub use def::{Cadence, Collect, CollectorDef};
pub use process_changes::PROCESS_CHANGES;
pub use registry::{ALL, find, find_metric, metrics};
pub use sink::{Shared, Sink, Size};
