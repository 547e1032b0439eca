//! Memory limits of control groups: how full, how often hit, who stalled, who was killed.
//!
//! Only groups with a limit of their own are recorded. A process that is killed in a group below counts for the group
//! whose limit it is.

mod metrics;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use crate::def::{Cadence, Collect, CollectorDef, Sink};
use rdiag_kernel::host::Host;
use rdiag_kernel::host::cgroups::{Hierarchy, Pressures, Tally, Version, Watch, keyed};
use rdiag_model::{CollectorRecord, Reason, Unavailable};

pub(super) static COLLECTOR: CollectorDef = CollectorDef {
    id: "cgroup_memory",
    help: "Limit, use, stalls and out-of-memory kills of the control groups that have a memory limit, v1 and v2.",
    cadence: Cadence::Interval,
    series: metrics::SERIES,
    metrics: metrics::METRICS,
    overhead: "four small reads per interval and group with a limit, and its memory.stat (about 50 µs) every fifth time, \
               or each time while it is near its limit; every fifth time a walk over at most 2000 groups; at the end the \
               processes of at most 200",
    start: |host| Box::new(CgroupMemory::new(host)),
};

/// v1 shows "no limit" as the largest number of whole pages; nothing near it is a limit.
const NO_LIMIT: u64 = 1 << 60;
/// memory.stat, which is long, is read at each such sample.
const STAT_EVERY: usize = 5;
/// Above this share of the limit, memory.stat is read each time.
const NEAR: f64 = 0.8;

struct CgroupMemory {
    state: Result<State, Unavailable>,
}

struct State {
    watch: Watch,
    pressures: Pressures,
    /// Kills that v1 counts only for the very group of the victim.
    kills: Tally,
    /// Each group when it was first seen.
    begin: BTreeMap<String, Troubles>,
    samples: usize,
}

/// Counters of a group that make it worth reporting when they grow.
#[derive(Debug, Clone, Copy, Default)]
struct Troubles {
    kills: u64,
    stalled: u64,
    refaults: u64,
}

impl Troubles {
    /// Whether a process was killed, or the group lost time worth mentioning, since `first`.
    fn grew_since(self, first: Self) -> bool {
        self.kills > first.kills
            || self.stalled.saturating_sub(first.stalled) > 100_000
            || self.refaults.saturating_sub(first.refaults) > 1000
    }
}

impl CgroupMemory {
    fn new(host: &Host) -> Self {
        let state = Hierarchy::find(host, "memory").map(|hierarchy| {
            let pressures = Pressures::find(host, &hierarchy);
            let watch = Watch::new(host, hierarchy, "memory");
            State { watch, pressures, kills: Tally::default(), begin: BTreeMap::new(), samples: 0 }
        });
        Self { state }
    }
}

impl Collect for CgroupMemory {
    fn sample(&mut self, host: &Host, out: &Sink) -> Result<(), Unavailable> {
        let state = self.state.as_mut().map_err(|gap| gap.clone())?;
        state.watch.refresh(host, |hierarchy, group| limit(host, hierarchy, group).is_some());
        for (rest, gap) in state.watch.not_seen().into_iter().chain(state.watch.hidden()) {
            out.gap("cgroup_memory.used", rest, gap);
        }
        if state.watch.hierarchy.version == Version::V1 {
            state.count_kills(host);
        }
        let thorough = state.samples.is_multiple_of(STAT_EVERY);
        state.samples += 1;
        for group in state.watch.limited() {
            state.record(host, &group, thorough, out);
        }
        Ok(())
    }

    fn finish(&mut self, host: &Host, out: &Sink) {
        let Ok(State { watch, .. }) = &self.state else { return };
        for (group, names) in watch.processes(host) {
            out.label(group, "processes", names);
        }
        for (group, list) in watch.lists(host) {
            out.label(group, CollectorRecord::MEMBERS, list);
        }
        let worth = watch.worth_reporting();
        if worth.is_empty() {
            let why = format!("none of the control groups here ({}) has a memory limit", watch.seen);
            out.gap("cgroup_memory.", "", Unavailable::new(Reason::NotApplicable, why));
        } else if watch.hierarchy.version == Version::V1 {
            let why = "control groups of version 1 have no memory.high";
            out.gap("cgroup_memory.high", "", Unavailable::new(Reason::NotApplicable, why));
        }
        out.retain_instances(|group| worth.contains(group));
    }
}

impl State {
    fn count_kills(&mut self, host: &Host) {
        for (group, limited_by) in &self.watch.members {
            let path = self.watch.hierarchy.file(group, "memory.oom_control");
            if let Some(count) = keyed(&host.read(&path).unwrap_or_default(), "oom_kill") {
                self.kills.add(group, limited_by, count);
            }
        }
    }

    /// Records a group; nothing of it when it is gone or has lost its limit.
    fn record(&mut self, host: &Host, group: &str, thorough: bool, out: &Sink) {
        let hierarchy = &self.watch.hierarchy;
        let Some(limit) = limit(host, hierarchy, group) else { return };
        let file = match hierarchy.version {
            Version::V1 => "memory.usage_in_bytes",
            Version::V2 => "memory.current",
        };
        let Ok(charged) = host.read_u64(&hierarchy.file(group, file)) else { return };
        out.level("cgroup_memory.limit", group, limit as f64);
        out.level("cgroup_memory.charged", group, charged as f64);
        if let Some(inode) = hierarchy.inode(host, group) {
            out.count("cgroup_memory.identity", group, inode);
        }
        let mut weight = 0.0;
        let mut now = Troubles::default();
        if (thorough || charged as f64 > NEAR * limit as f64)
            && let Ok(text) = host.read(&hierarchy.file(group, "memory.stat"))
        {
            let (used, refaults) = record_stat(hierarchy.version, &text, group, out);
            now.refaults = refaults;
            weight = used as f64 / limit.max(1) as f64;
        }
        now.kills = match hierarchy.version {
            Version::V1 => record_hits(host, hierarchy, group, self.kills.total(group), out),
            Version::V2 => record_events(host, hierarchy, group, out),
        };
        match self.pressures.read(host, group, "memory") {
            Ok((some, full)) => {
                now.stalled = some;
                out.count("cgroup_memory.stalled_some", group, some);
                out.count("cgroup_memory.stalled_full", group, full);
            }
            Err(gap) => out.gap("cgroup_memory.stalled", "", gap),
        }
        let first = *self.begin.entry(group.to_owned()).or_insert(now);
        self.watch.weigh(group, if now.grew_since(first) { f64::INFINITY } else { weight });
        self.watch.label(group, &mut |key, value| out.label(group, key, value));
    }
}

/// Bytes that a group's own limit allows; none without a limit, with one above the machine's memory (which never
/// binds), or when the group is gone.
fn limit(host: &Host, hierarchy: &Hierarchy, group: &str) -> Option<u64> {
    // `max`, for no limit, is no whole number.
    let read = |name: &str| host.read_u64(&hierarchy.file(group, name)).ok();
    let limit = match hierarchy.version {
        Version::V1 => read("memory.limit_in_bytes").filter(|limit| *limit < NO_LIMIT),
        Version::V2 => read("memory.max").into_iter().chain(read("memory.high")).min(),
    };
    let machine = host.facts().memory_bytes;
    limit.filter(|limit| machine == 0 || *limit <= machine)
}

/// What of memory.stat (v2) cannot simply be dropped.
const KEPT: [&str; 9] = [
    "anon",
    "shmem",
    "kernel_stack",
    "pagetables",
    "sec_pagetables",
    "percpu",
    "sock",
    "vmalloc",
    "slab_unreclaimable",
];

/// Records what memory.stat tells, and returns the bytes in use and the refaults.
fn record_stat(version: Version, text: &str, group: &str, out: &Sink) -> (u64, u64) {
    let (kept, refaults, faults): (&[&str], [&str; 3], &str) = match version {
        Version::V2 => {
            (&KEPT, ["workingset_refault_anon", "workingset_refault_file", "workingset_refault"], "pgmajfault")
        }
        Version::V1 => (
            &["total_rss", "total_shmem"],
            ["total_workingset_refault_anon", "total_workingset_refault_file", "total_workingset_refault"],
            "total_pgmajfault",
        ),
    };
    let sum = |keys: &[&str]| keys.iter().filter_map(|key| keyed(text, key)).fold(0_u64, u64::saturating_add);
    let known = |keys: &[&str]| keys.iter().any(|key| keyed(text, key).is_some());
    let (used, again) = (sum(kept), sum(&refaults));
    if known(kept) {
        out.level("cgroup_memory.used", group, used as f64);
    }
    if known(&refaults) {
        out.count("cgroup_memory.refaults", group, again);
    }
    if let Some(count) = keyed(text, faults) {
        out.count("cgroup_memory.major_faults", group, count);
    }
    (used, again)
}

/// Records what v1 counts of a limit; returns the kills.
fn record_hits(host: &Host, hierarchy: &Hierarchy, group: &str, kills: u64, out: &Sink) -> u64 {
    if let Ok(hits) = host.read_u64(&hierarchy.file(group, "memory.failcnt")) {
        out.count("cgroup_memory.limit_hits", group, hits);
    }
    out.count("cgroup_memory.oom_kill", group, kills);
    out.level("cgroup_memory.oom_kill_so_far", group, kills as f64);
    kills
}

/// Records what v2 counts of a limit; returns the kills. memory.events contains the groups below, memory.events.local
/// (Linux 5.2) does not: only the latter tells whose limit it was.
fn record_events(host: &Host, hierarchy: &Hierarchy, group: &str, out: &Sink) -> u64 {
    let Ok(all) = host.read(&hierarchy.file(group, "memory.events")) else { return 0 };
    let own = host.read(&hierarchy.file(group, "memory.events.local"));
    let own = own.as_deref().unwrap_or(&all);
    let counts = [
        ("cgroup_memory.limit_hits", own, "max"),
        ("cgroup_memory.high", own, "high"),
        ("cgroup_memory.out_of_memory", own, "oom"),
        ("cgroup_memory.oom_kill", all.as_str(), "oom_kill"),
    ];
    for (series, text, key) in counts {
        if let Some(count) = keyed(text, key) {
            out.count(series, group, count);
        }
    }
    let kills = keyed(&all, "oom_kill").unwrap_or(0);
    out.level("cgroup_memory.oom_kill_so_far", group, kills as f64);
    kills
}
