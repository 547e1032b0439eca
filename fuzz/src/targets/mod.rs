//! What is fuzzed: one function for each reader of what strangers wrote. The same functions run in `fuzz_targets/` with libFuzzer, and in
//! `tests/fuzzed.rs` over everything that was kept.
//!
//! A function fails by panicking: where rdiag panics, and where one of the oracles here does not hold. Memory and time are measured
//! around it, by the limits in [`ALL`].

pub mod elf;
pub mod elsewhere;
pub mod expression;
pub mod fleet;
pub mod history;
pub mod host;
pub mod past;
pub mod profile;
pub mod recorded;
pub mod shown;
pub mod trace;
pub mod yaml;

/// A reader, and what it may take for one input.
#[derive(Debug, Clone, Copy)]
pub struct Target {
    /// As in `fuzz_targets/`, `corpus/` and `found/`.
    pub name: &'static str,
    /// Reads one input, and says whether it was one that can be read.
    pub check: fn(&[u8]) -> bool,
    /// Memory that may be in use at once, in MiB.
    pub mebibytes: usize,
    /// CPU time in seconds, with all counters and assertions on.
    pub seconds: u32,
}

/// All of them.
pub const ALL: &[Target] = &[
    Target { name: "recording", check: recorded::recording, mebibytes: 512, seconds: 20 },
    Target { name: "report", check: recorded::report, mebibytes: 512, seconds: 20 },
    Target { name: "diff", check: recorded::diff, mebibytes: 512, seconds: 20 },
    Target { name: "perf_data", check: profile::perf_data, mebibytes: 512, seconds: 20 },
    Target { name: "folded", check: profile::folded, mebibytes: 512, seconds: 20 },
    Target { name: "playbook", check: yaml::playbook, mebibytes: 256, seconds: 20 },
    Target { name: "rules", check: yaml::rules, mebibytes: 256, seconds: 20 },
    Target { name: "scenario", check: yaml::scenario, mebibytes: 256, seconds: 20 },
    Target { name: "expression", check: expression::expression, mebibytes: 256, seconds: 10 },
    Target { name: "proc", check: host::files, mebibytes: 256, seconds: 10 },
    Target { name: "kernel_log", check: host::kernel_log, mebibytes: 128, seconds: 10 },
    Target { name: "trace_pages", check: trace::pages, mebibytes: 64, seconds: 5 },
    Target { name: "trace_events", check: trace::events, mebibytes: 64, seconds: 5 },
    Target { name: "elf", check: elf::symbols, mebibytes: 768, seconds: 60 },
    Target { name: "binaries", check: elf::points, mebibytes: 256, seconds: 10 },
    Target { name: "history", check: history::column, mebibytes: 512, seconds: 20 },
    Target { name: "past", check: past::blocks, mebibytes: 512, seconds: 20 },
    Target { name: "incidents", check: history::incidents, mebibytes: 64, seconds: 5 },
    Target { name: "fleet", check: fleet::hosts, mebibytes: 512, seconds: 20 },
    Target { name: "stream", check: fleet::stream, mebibytes: 64, seconds: 10 },
    Target { name: "class", check: fleet::class, mebibytes: 64, seconds: 5 },
    Target { name: "elsewhere", check: elsewhere::printed, mebibytes: 512, seconds: 20 },
    Target { name: "process_maps", check: elf::maps, mebibytes: 64, seconds: 5 },
];

/// The target of a name.
#[must_use]
pub fn find(name: &str) -> Option<&'static Target> {
    ALL.iter().find(|target| target.name == name)
}
