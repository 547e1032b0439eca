//! Recorded hosts: trees of kernel files under tests/fixtures/hosts, replayed by the shipped binary. One file for each
//! resource.

mod cgroup;
mod cpu;
mod memory;
mod network;
mod tasks;
