//! CPU quotas of control groups (CFS bandwidth): how much is used, and how often the group is stopped for it.
//!
//! Only groups with a quota of their own are recorded. A group below one has no quota to run into: what stops it is
//! the quota above, and that group is named.

mod metrics;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use crate::def::{Cadence, Collect, CollectorDef, Sink};
use rdiag_kernel::host::Host;
use rdiag_kernel::host::cgroups::{Hierarchy, Pressures, Version, Watch, keyed};
use rdiag_model::{CollectorRecord, Reason, Unavailable};

pub(super) static COLLECTOR: CollectorDef = CollectorDef {
    id: "cgroup_cpu",
    help: "Quota, use and throttling of the control groups that have a CPU quota, v1 and v2.",
    cadence: Cadence::Interval,
    series: metrics::SERIES,
    metrics: metrics::METRICS,
    overhead: "three small reads per interval and group with a quota; every fifth time a walk over at most 2000 groups \
               (about 20 µs each); at the end the processes of at most 200",
    start: |host| Box::new(CgroupCpu::new(host)),
};

struct CgroupCpu {
    state: Result<State, Unavailable>,
}

struct State {
    watch: Watch,
    /// Where v1 counts the use.
    accounts: Option<Hierarchy>,
    pressures: Pressures,
    /// Each group when it was first seen.
    begin: BTreeMap<String, Seen>,
    /// Why the use of a group is not known.
    unmeasured: BTreeMap<String, Unavailable>,
}

/// What decides whether a group is worth reporting.
#[derive(Debug, Clone, Copy)]
struct Seen {
    quota: f64,
    used: u64,
    throttled: u64,
}

impl Seen {
    /// CPU time used per quota, or more than any of that if the group was stopped.
    fn weight_since(self, first: Self) -> f64 {
        if self.throttled > first.throttled {
            return f64::INFINITY;
        }
        self.used.saturating_sub(first.used) as f64 / self.quota.max(1e-6)
    }
}

impl CgroupCpu {
    fn new(host: &Host) -> Self {
        let state = Hierarchy::find(host, "cpu").map(|hierarchy| {
            let is_v1 = hierarchy.version == Version::V1;
            let accounts = if is_v1 { Hierarchy::find(host, "cpuacct").ok() } else { None };
            let pressures = Pressures::find(host, &hierarchy);
            State {
                watch: Watch::new(host, hierarchy, "cpu"),
                accounts,
                pressures,
                begin: BTreeMap::new(),
                unmeasured: BTreeMap::new(),
            }
        });
        Self { state }
    }
}

impl Collect for CgroupCpu {
    fn sample(&mut self, host: &Host, out: &Sink) -> Result<(), Unavailable> {
        let State { watch, accounts, pressures, begin, unmeasured } = self.state.as_mut().map_err(|gap| gap.clone())?;
        watch.refresh(host, |hierarchy, group| quota(host, hierarchy, group).is_some());
        if let Some((rest, gap)) = watch.not_seen() {
            out.gap("cgroup_cpu.usage", rest, gap);
        }
        for group in watch.limited() {
            let Some(state) = record(host, &watch.hierarchy, accounts.as_ref(), &group, unmeasured, out) else {
                continue;
            };
            match pressures.read(host, &group, "cpu") {
                Ok((_, full)) => out.count("cgroup_cpu.stalled", &group, full),
                Err(gap) => out.gap("cgroup_cpu.stalled", "", gap),
            }
            let first = *begin.entry(group.clone()).or_insert(state);
            watch.weigh(&group, state.weight_since(first));
            watch.label(&group, &mut |key, value| out.label(&group, key, value));
        }
        match watch.hidden() {
            Some((above, gap)) => {
                record_top(host, &watch.hierarchy, gap.clone(), out);
                out.gap("cgroup_cpu.usage", above, gap);
            }
            None => {
                let why = "all control groups up to the root are visible";
                out.gap("cgroup_cpu.held", "", Unavailable::new(Reason::NotApplicable, why));
            }
        }
        Ok(())
    }

    fn finish(&mut self, host: &Host, out: &Sink) {
        let Ok(State { watch, unmeasured, .. }) = &self.state else { return };
        for (group, names) in watch.processes(host) {
            out.label(group, "processes", names);
        }
        for (group, list) in watch.lists(host) {
            out.label(group, CollectorRecord::MEMBERS, list);
        }
        let worth = watch.worth_reporting();
        if worth.is_empty() {
            let why = format!("none of the control groups here ({}) has a CPU quota", watch.seen);
            out.gap("cgroup_cpu.", "", Unavailable::new(Reason::NotApplicable, why));
        }
        for (group, gap) in unmeasured.iter().filter(|(group, _)| worth.contains(group.as_str())) {
            out.gap("cgroup_cpu.usage", group, gap.clone());
        }
        let top = watch.hierarchy.first_group();
        out.retain_instances(|group| worth.contains(group) || group == top);
    }
}

/// CPUs that a group's own quota allows; none without a quota, or when the group is gone.
fn quota(host: &Host, hierarchy: &Hierarchy, group: &str) -> Option<f64> {
    let (quota, period) = match hierarchy.version {
        Version::V2 => {
            let text = host.read_line(&hierarchy.file(group, "cpu.max")).ok()?;
            let (quota, period) = text.split_once(' ')?;
            (quota.parse::<u64>().ok()?, period.parse::<u64>().ok()?)
        }
        Version::V1 => (
            // Without a quota it holds -1, which is no whole number.
            host.read_u64(&hierarchy.file(group, "cpu.cfs_quota_us")).ok()?,
            host.read_u64(&hierarchy.file(group, "cpu.cfs_period_us")).ok()?,
        ),
    };
    (period > 0).then(|| quota as f64 / period as f64)
}

/// Records a group; nothing of it when it is gone or has lost its quota, so that a ratio never mixes what was read with
/// what was not.
fn record(
    host: &Host,
    hierarchy: &Hierarchy,
    accounts: Option<&Hierarchy>,
    group: &str,
    unmeasured: &mut BTreeMap<String, Unavailable>,
    out: &Sink,
) -> Option<Seen> {
    let quota = quota(host, hierarchy, group)?;
    let stat = host.read(&hierarchy.file(group, "cpu.stat")).ok()?;
    let (periods, throttled) = (keyed(&stat, "nr_periods")?, keyed(&stat, "nr_throttled")?);
    let stopped = throttled_time(hierarchy.version, &stat)?;
    let used = usage(host, hierarchy, accounts, group, &stat);
    if let Some(inode) = hierarchy.inode(host, group) {
        out.count("cgroup_cpu.identity", group, inode);
    }
    out.level("cgroup_cpu.quota", group, quota);
    out.count("cgroup_cpu.periods", group, periods);
    out.count("cgroup_cpu.throttled_periods", group, throttled);
    out.count("cgroup_cpu.throttled", group, stopped);
    let seen = Seen { quota, used: used.as_ref().copied().unwrap_or(0), throttled };
    match used {
        Ok(used) => out.count("cgroup_cpu.usage", group, used),
        Err(gap) => {
            unmeasured.insert(group.to_owned(), gap);
        }
    }
    Some(seen)
}

/// Nanoseconds for which a group was stopped, from its cpu.stat or cpu.stat.local.
fn throttled_time(version: Version, stat: &str) -> Option<u64> {
    match version {
        Version::V2 => Some(keyed(stat, "throttled_usec")?.saturating_mul(1000)),
        Version::V1 => keyed(stat, "throttled_time"),
    }
}

/// Nanoseconds of CPU that a group used.
fn usage(
    host: &Host,
    hierarchy: &Hierarchy,
    accounts: Option<&Hierarchy>,
    group: &str,
    stat: &str,
) -> Result<u64, Unavailable> {
    if hierarchy.version == Version::V2 {
        let used = keyed(stat, "usage_usec").map(|used| used.saturating_mul(1000));
        return used.ok_or_else(|| Unavailable::new(Reason::Malformed, "cpu.stat shows no usage_usec"));
    }
    let Some(accounts) = accounts else {
        return Err(Unavailable::new(
            Reason::Absent,
            "the cpuacct controller, which counts CPU use on v1, is not mounted",
        ));
    };
    host.read_u64(&accounts.file(group, "cpuacct.usage")).map_err(|error| match error.reason {
        Reason::Absent => {
            let why = "cpu and cpuacct are mounted apart, and cpuacct, which counts the use, has no such group";
            Unavailable::new(Reason::Absent, why)
        }
        _ => error.gap(),
    })
}

/// The topmost visible group below hidden ones: only cpu.stat.local tells what the hidden ones do to it.
fn record_top(host: &Host, hierarchy: &Hierarchy, hidden: Unavailable, out: &Sink) {
    let top = hierarchy.first_group();
    let read =
        |name: &str| throttled_time(hierarchy.version, &host.read(&hierarchy.file(top, name)).unwrap_or_default());
    match read("cpu.stat.local") {
        Some(held) => {
            out.count("cgroup_cpu.held", top, held);
            out.count("cgroup_cpu.held_by_itself", top, read("cpu.stat").unwrap_or(0));
        }
        None => out.gap("cgroup_cpu.held", top, hidden),
    }
}
