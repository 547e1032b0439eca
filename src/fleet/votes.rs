//! On how many hosts each rule fires: common to the group, odd, or in between.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use rdiag_model::{Confidence, Kind, Status};

use super::contrast::{Tally, contrast};
use super::document::{Fault, OddFinding, OddHost, Outlier, Reach};
use super::gather::{Fired, Gathering, is_judged};
use super::outliers::{LEAST_HOSTS, Outliers};
use super::spread::wilson;

/// A common fault is on so many hosts at least, whatever their share.
const COMMON_HOSTS: usize = 3;
/// Hosts of a fault that are named.
const NAMED: usize = 20;
/// Readings of an outlier that are reported.
const READINGS: usize = 8;
/// Instances of a fault that are reported.
const ROLES: usize = 5;

/// What a group's hosts say of a rule.
#[derive(Debug, Default)]
pub(crate) struct Count {
    /// At warning or worse, by their place.
    hosts: Vec<usize>,
    judged: usize,
    unknown: usize,
}

/// By group and rule.
pub(crate) type Counts = BTreeMap<(usize, u32), Count>;

impl Count {
    /// On half of the hosts and on three: one fault.
    fn is_common(&self) -> bool {
        self.hosts.len() >= COMMON_HOSTS && 2 * self.hosts.len() >= self.judged
    }

    /// On a tenth of the hosts at most, or on one, where there are enough of them to say so.
    fn is_odd(&self) -> bool {
        !self.hosts.is_empty() && self.judged >= LEAST_HOSTS && self.hosts.len() <= few(self.judged)
    }

    fn reach(&self) -> Reach {
        let (hosts, judged) = (self.hosts.len(), self.judged);
        Reach { hosts, judged, unknown: self.unknown, share: wilson(hosts, judged) }
    }
}

/// A tenth of the hosts, or one.
pub(crate) fn few(hosts: usize) -> usize {
    (hosts / 10).max(1)
}

pub(crate) fn count(all: &Gathering) -> Counts {
    let mut counts = Counts::new();
    for (at, host) in all.hosts.iter().enumerate() {
        for (rule, status) in &host.rules {
            let count = counts.entry((host.group, *rule)).or_default();
            count.judged += usize::from(is_judged(*status));
            count.unknown += usize::from(*status == Status::Unknown);
            if *status >= Status::Warning {
                count.hosts.push(at);
            }
        }
    }
    counts
}

/// Common faults, and those that are neither common nor odd; the worst first.
pub(crate) fn faults(all: &Gathering, counts: &Counts) -> (Vec<Fault>, Vec<Fault>) {
    let (mut common, mut some) = (Vec::new(), Vec::new());
    for ((group, rule), count) in counts.iter().filter(|(_, count)| !count.hosts.is_empty()) {
        if count.is_common() {
            common.extend(fault(all, *group, *rule, count));
        } else if !count.is_odd() {
            some.extend(fault(all, *group, *rule, count));
        }
    }
    for faults in [&mut common, &mut some] {
        faults.sort_by_key(|fault: &Fault| {
            let rank = (Reverse(fault.status), fault.is_likely, kind_rank(fault.kind), Reverse(fault.reach.hosts));
            // The general rule of a resource says more than a special one.
            (rank, fault.rule.matches('.').count(), fault.rule.clone(), fault.group.clone())
        });
    }
    (common, some)
}

/// Errors are understood at once; that work waits matters more than that something is busy.
pub(crate) fn kind_rank(kind: Kind) -> u8 {
    match kind {
        Kind::Errors => 0,
        Kind::Saturation => 1,
        Kind::Utilization => 2,
    }
}

fn fault(all: &Gathering, group: usize, rule: u32, count: &Count) -> Option<Fault> {
    let info = all.rules.get(&rule)?;
    let (mut roles, mut culprits): (BTreeMap<&str, usize>, BTreeMap<&str, usize>) = Default::default();
    let mut worst: Vec<(usize, &Fired)> = Vec::new();
    for (at, host) in count.hosts.iter().filter_map(|at| Some((*at, all.hosts.get(*at)?))) {
        let own: Vec<&Fired> = host.fired.iter().filter(|fired| fired.rule == rule).collect();
        let named =
            |names: BTreeSet<u32>| names.into_iter().map(|name| all.names.name(name)).filter(|name| !name.is_empty());
        for role in named(own.iter().map(|fired| fired.role).collect()) {
            *roles.entry(role).or_default() += 1;
        }
        for culprit in named(own.iter().filter_map(|fired| fired.culprit).collect()) {
            *culprits.entry(culprit).or_default() += 1;
        }
        worst.extend(own.first().map(|first| (at, *first)));
    }
    worst.sort_by_key(|(at, fired)| (Reverse(fired.status), Reverse(fired.confidence), *at));
    let mut roles: Vec<(String, usize)> = roles.into_iter().map(|(role, hosts)| (role.to_owned(), hosts)).collect();
    roles.sort_by_key(|(_, hosts)| Reverse(*hosts));
    roles.truncate(ROLES);
    let culprit = culprits.into_iter().max_by_key(|(name, hosts)| (*hosts, Reverse(*name)));
    let (_, first) = worst.first()?;
    Some(Fault {
        group: all.group_name(group).to_owned(),
        rule: all.names.name(rule).to_owned(),
        title: info.title.clone(),
        resource: info.resource,
        kind: info.kind,
        status: first.status,
        reach: count.reach(),
        is_likely: worst.iter().all(|(_, fired)| fired.confidence == Confidence::Low),
        roles,
        culprit: culprit.map(|(name, hosts)| (name.to_owned(), hosts)),
        summary: first.summary.to_string(),
        hosts: worst.iter().take(NAMED).filter_map(|(at, _)| Some(all.hosts.get(*at)?.name.clone())).collect(),
    })
}

/// Hosts that are unlike the others of their group, with their place; the worst first.
pub(crate) fn odd(all: &Gathering, tally: &Tally, counts: &Counts, found: &Outliers) -> Vec<(usize, OddHost)> {
    let mut rules: BTreeMap<usize, BTreeSet<u32>> = BTreeMap::new();
    for ((_, rule), count) in counts.iter().filter(|(_, count)| count.is_odd() && !count.is_common()) {
        for at in &count.hosts {
            rules.entry(*at).or_default().insert(*rule);
        }
    }
    let places: BTreeSet<usize> =
        rules.keys().chain(found.readings.keys()).chain(found.errors.keys()).copied().collect();
    let none = BTreeSet::new();
    let one = |at: usize| odd_host(all, tally, counts, found, at, rules.get(&at).unwrap_or(&none)).map(|odd| (at, odd));
    let mut odd: Vec<(usize, OddHost)> = places.into_iter().filter_map(one).collect();
    odd.sort_by(|(_, a), (_, b)| {
        let rank = |odd: &OddHost| (Reverse(odd.status), Reverse(odd.findings.len()), Reverse(odd.errors.len()));
        let far = |odd: &OddHost| odd.readings.first().map_or(0.0, |reading| reading.z.abs());
        rank(a).cmp(&rank(b)).then_with(|| far(b).total_cmp(&far(a))).then_with(|| a.host.cmp(&b.host))
    });
    odd
}

fn odd_host(
    all: &Gathering,
    tally: &Tally,
    counts: &Counts,
    found: &Outliers,
    at: usize,
    rules: &BTreeSet<u32>,
) -> Option<OddHost> {
    let host = all.hosts.get(at)?;
    let mut told = BTreeSet::new();
    let finding = |fired: &Fired| {
        let info = all.rules.get(&fired.rule)?;
        Some(OddFinding {
            rule: all.names.name(fired.rule).to_owned(),
            title: info.title.clone(),
            resource: info.resource,
            kind: info.kind,
            role: all.names.name(fired.role).to_owned(),
            status: fired.status,
            summary: fired.summary.to_string(),
            culprit: fired.culprit.map(|name| all.names.name(name).to_owned()),
            reach: counts.get(&(host.group, fired.rule))?.reach(),
        })
    };
    let own = host.fired.iter().filter(|fired| rules.contains(&fired.rule) && told.insert(fired.rule));
    let mut findings: Vec<OddFinding> = own.filter_map(finding).collect();
    findings.sort_by_key(|finding| (Reverse(finding.status), kind_rank(finding.kind), finding.rule.clone()));
    let mut readings = found.readings.get(&at).cloned().unwrap_or_default();
    readings.sort_by(|a, b| b.z.abs().total_cmp(&a.z.abs()));
    let contrast = contrast(all, tally, host.group, &BTreeSet::from([at]));
    let mut readings = folded(readings, contrast.iter().any(|it| it.fact == "memory"));
    let readings_others = readings.iter().skip(READINGS).map(|reading| 1 + reading.also).sum();
    readings.truncate(READINGS);
    Some(OddHost {
        host: host.name.clone(),
        group: all.group_name(host.group).to_owned(),
        status: findings.first().map_or(Status::Ok, |finding| finding.status),
        findings,
        errors: found.errors.get(&at).cloned().unwrap_or_default(),
        readings,
        readings_others,
        contrast,
    })
}

/// Readings of one thing as one: the farthest of them, and how many go with it. On a host with another amount of memory all sizes of memory
/// are one thing.
fn folded(readings: Vec<Outlier>, has_other_memory: bool) -> Vec<Outlier> {
    let mut kept: Vec<Outlier> = Vec::new();
    for reading in readings {
        let same = family(&reading.metric, has_other_memory);
        match kept.iter_mut().find(|first| family(&first.metric, has_other_memory) == same) {
            Some(first) => first.also += 1,
            None => kept.push(reading),
        }
    }
    kept
}

/// `memory.zone` of `memory.zone.free.bytes`.
fn family(metric: &str, has_other_memory: bool) -> &str {
    let parts = if has_other_memory && metric.starts_with("memory.") { 1 } else { 2 };
    let end = metric.match_indices('.').nth(parts - 1).map_or(metric.len(), |(at, _)| at);
    metric.get(..end).unwrap_or(metric)
}

#[cfg(test)]
mod tests {
    use rdiag_model::Unit;

    use super::*;

    #[test]
    fn readings_of_one_thing_are_told_once() {
        let reading = |metric: &str, z| Outlier {
            metric: metric.into(),
            role: String::new(),
            unit: Unit::Bytes,
            value: 1.0,
            median: 2.0,
            z,
            also: 0,
        };
        let all = || {
            let metrics = ["memory.zone.free.bytes", "memory.zone.low.bytes", "cpu.busy.ratio", "memory.free.bytes"];
            metrics.iter().zip([9.0, 8.0, 7.5, 7.2]).map(|(metric, z)| reading(metric, z)).collect::<Vec<_>>()
        };
        let told = |all: Vec<Outlier>| all.into_iter().map(|one| (one.metric, one.also)).collect::<Vec<_>>();
        let of = |metric: &str, also| (metric.to_owned(), also);
        assert_eq!(
            told(folded(all(), false)),
            [of("memory.zone.free.bytes", 1), of("cpu.busy.ratio", 0), of("memory.free.bytes", 0)]
        );
        assert_eq!(told(folded(all(), true)), [of("memory.zone.free.bytes", 2), of("cpu.busy.ratio", 0)]);
        assert_eq!(family("load", true), "load");
    }
}
