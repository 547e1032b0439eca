//! The events that every kernel knows by a number of its own, whether or not the machine can count them.

use perf_event_open_sys::bindings as sys;

use super::select::{Encoding, Family};

/// An event with a fixed number.
#[derive(Debug, Clone, Copy)]
pub(super) struct Known {
    /// The name, and another one in use.
    pub(super) names: (&'static str, &'static str),
    pub(super) family: Family,
    pub(super) config: u32,
    /// What it counts.
    pub(super) help: &'static str,
}

const fn hardware(name: &'static str, also: &'static str, config: u32, help: &'static str) -> Known {
    Known { names: (name, also), family: Family::Hardware, config, help }
}

const fn software(name: &'static str, also: &'static str, config: u32, help: &'static str) -> Known {
    Known { names: (name, also), family: Family::Software, config, help }
}

/// Events of the kernel itself, which need no counter of the CPU, and the general events of CPUs.
#[rustfmt::skip]
pub(super) const KNOWN: &[Known] = &[
    software("task-clock", "", sys::PERF_COUNT_SW_TASK_CLOCK, "time that the tasks ran on a CPU"),
    software("cpu-clock", "", sys::PERF_COUNT_SW_CPU_CLOCK, "time that passed on the CPUs that are looked at"),
    software("context-switches", "cs", sys::PERF_COUNT_SW_CONTEXT_SWITCHES, "a CPU left one task for another"),
    software("cpu-migrations", "migrations", sys::PERF_COUNT_SW_CPU_MIGRATIONS, "a task moved to another CPU"),
    software("page-faults", "faults", sys::PERF_COUNT_SW_PAGE_FAULTS, "memory was touched that had no page yet"),
    software("minor-faults", "", sys::PERF_COUNT_SW_PAGE_FAULTS_MIN, "page faults that needed no disk"),
    software("major-faults", "", sys::PERF_COUNT_SW_PAGE_FAULTS_MAJ, "page faults that had to wait for a disk"),
    software("alignment-faults", "", sys::PERF_COUNT_SW_ALIGNMENT_FAULTS, "unaligned accesses that the kernel put right"),
    software("emulation-faults", "", sys::PERF_COUNT_SW_EMULATION_FAULTS, "instructions that the kernel did in place of the CPU"),
    software("cgroup-switches", "", sys::PERF_COUNT_SW_CGROUP_SWITCHES, "a CPU left a task for one of another control group"),
    hardware("cycles", "cpu-cycles", sys::PERF_COUNT_HW_CPU_CYCLES, "clock cycles in which the CPU was not halted"),
    hardware("instructions", "", sys::PERF_COUNT_HW_INSTRUCTIONS, "instructions that were completed"),
    hardware("cache-references", "", sys::PERF_COUNT_HW_CACHE_REFERENCES, "accesses to the last cache, on most CPUs"),
    hardware("cache-misses", "", sys::PERF_COUNT_HW_CACHE_MISSES, "accesses that the last cache had to take from memory, on most CPUs"),
    hardware("branches", "branch-instructions", sys::PERF_COUNT_HW_BRANCH_INSTRUCTIONS, "branches that were completed"),
    hardware("branch-misses", "", sys::PERF_COUNT_HW_BRANCH_MISSES, "branches that went another way than was guessed"),
    hardware("bus-cycles", "", sys::PERF_COUNT_HW_BUS_CYCLES, "cycles of the bus; what that is depends on the CPU"),
    hardware("ref-cycles", "", sys::PERF_COUNT_HW_REF_CPU_CYCLES, "cycles at the nominal clock, whatever the real one"),
    hardware("stalled-cycles-frontend", "idle-cycles-frontend", sys::PERF_COUNT_HW_STALLED_CYCLES_FRONTEND, "cycles without new \
        instructions to execute"),
    hardware("stalled-cycles-backend", "idle-cycles-backend", sys::PERF_COUNT_HW_STALLED_CYCLES_BACKEND, "cycles in which instructions \
        waited for data or units"),
];

/// Caches: name, number, the operations that are counted of it, and what it holds.
const CACHES: &[(&str, u32, &[&str], &str)] = &[
    ("L1-dcache", sys::PERF_COUNT_HW_CACHE_L1D, &["load", "store", "prefetch"], "the first data cache"),
    ("L1-icache", sys::PERF_COUNT_HW_CACHE_L1I, &["load", "prefetch"], "the first instruction cache"),
    ("LLC", sys::PERF_COUNT_HW_CACHE_LL, &["load", "store", "prefetch"], "the last cache before memory"),
    ("dTLB", sys::PERF_COUNT_HW_CACHE_DTLB, &["load", "store", "prefetch"], "the cache of data addresses"),
    ("iTLB", sys::PERF_COUNT_HW_CACHE_ITLB, &["load"], "the cache of instruction addresses"),
    ("branch", sys::PERF_COUNT_HW_CACHE_BPU, &["load"], "the branch predictor"),
    ("node", sys::PERF_COUNT_HW_CACHE_NODE, &["load", "store", "prefetch"], "the memory of the CPU's own node"),
];

/// The events of caches: name, encoding, what is counted.
pub(super) fn cache_events() -> impl Iterator<Item = (String, Encoding, String)> {
    CACHES.iter().flat_map(|(cache, number, operations, what)| {
        operations.iter().flat_map(move |operation| {
            let plural = if *operation == "prefetch" { "prefetches".to_owned() } else { format!("{operation}s") };
            let code = match *operation {
                "load" => sys::PERF_COUNT_HW_CACHE_OP_READ,
                "store" => sys::PERF_COUNT_HW_CACHE_OP_WRITE,
                _ => sys::PERF_COUNT_HW_CACHE_OP_PREFETCH,
            };
            let event = move |miss: u32| {
                let config = u64::from(number | code << 8 | miss << 16);
                Encoding { kind: sys::PERF_TYPE_HW_CACHE, config, ..Encoding::default() }
            };
            [
                (format!("{cache}-{plural}"), event(0), format!("{plural} that asked {what}")),
                (format!("{cache}-{operation}-misses"), event(1), format!("{plural} that {what} could not answer")),
            ]
        })
    })
}

impl Known {
    pub(super) fn encoding(&self) -> Encoding {
        let kind = if self.family == Family::Software { sys::PERF_TYPE_SOFTWARE } else { sys::PERF_TYPE_HARDWARE };
        Encoding { kind, config: u64::from(self.config), ..Encoding::default() }
    }

    pub(super) fn is_named(&self, name: &str) -> bool {
        !name.is_empty() && (self.names.0 == name || self.names.1 == name)
    }
}
