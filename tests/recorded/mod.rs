//! Recorded hosts: trees of kernel files under tests/fixtures/hosts, replayed by the shipped binary. One file for each
//! resource.

mod cgroup;
mod confidence;
mod context;
mod counters;
mod cpu;
mod diff;
mod disk;
mod figures;
mod filesystem;
mod hardware;
mod kernel_log;
mod memory;
mod memory_nodes;
mod network;
mod network_devices;
mod probes;
mod stacks;
mod symptoms;
mod tasks;
mod worlds;
