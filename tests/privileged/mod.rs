//! Induced faults: each rule is proven on a fault that is really there. One file for each resource.

mod cgroup;
mod cpu;
mod disk;
mod each;
mod filesystem;
mod kernels;
mod levels;
mod memory;
mod network;
mod picture;
mod probes;
mod probes_any;
mod probes_block;
mod probes_calls;
mod probes_command;
mod probes_filters;
mod probes_profile;
mod probes_sched;
mod probes_stacks;
mod probes_stat;
mod probes_trace;
mod process_table;
mod real_programs;
mod response;
mod task_states;
mod tasks;
