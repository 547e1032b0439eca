//! Induced faults: each rule is proven on a fault that is really there. One file for each resource.

#[macro_use]
mod probing;

mod cgroup;
mod cpu;
mod disk;
mod each;
mod filesystem;
mod kernels;
mod lab;
mod lab_modules;
mod levels;
mod memory;
mod network;
mod odd_targets;
mod picture;
mod probes;
mod probes_answers;
mod probes_any;
mod probes_block;
mod probes_cache;
mod probes_calls;
mod probes_command;
mod probes_files;
mod probes_filters;
mod probes_functions;
mod probes_hardware;
mod probes_instead;
mod probes_keys;
mod probes_locks;
mod probes_memory;
mod probes_network;
mod probes_others;
mod probes_points;
mod probes_profile;
mod probes_sched;
mod probes_stacks;
mod probes_stat;
mod probes_swap;
mod probes_trace;
mod process_table;
mod real_programs;
mod response;
mod response_peers;
mod task_states;
mod tasks;
