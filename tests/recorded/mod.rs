//! Recorded hosts: trees of kernel files under tests/fixtures/hosts, replayed by the shipped binary. One file for each
//! resource.

mod cgroup;
mod confidence;
mod cpu;
mod diff;
mod disk;
mod figures;
mod filesystem;
mod memory;
mod network;
mod probes;
mod stacks;
mod symptoms;
mod tasks;
