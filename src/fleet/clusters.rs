//! Hosts on which the same rules fire.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use rdiag_model::Status;

use super::contrast::{Tally, contrast};
use super::document::Clustered;
use super::gather::Gathering;

/// Sets of rules are merged if they share so much of what either has.
const ALIKE: f64 = 0.7;
/// Sets that others may join: comparing all with all would take too long where each host is unlike each other.
const MOST: usize = 500;
/// Clusters that are reported.
const TOLD: usize = 12;
/// Hosts of a cluster that are named.
const NAMED: usize = 20;

/// A rule and an instance.
type Signature = BTreeSet<(u32, u32)>;

/// The clusters of two hosts and more, by the worst status and then by size.
pub(crate) fn of(all: &Gathering, tally: &Tally) -> Vec<Clustered> {
    let mut found = Vec::new();
    for group in all.groups() {
        let mut same: BTreeMap<Signature, Vec<usize>> = BTreeMap::new();
        for (at, host) in all.hosts.iter().enumerate().filter(|(_, host)| host.group == group && !host.fired.is_empty())
        {
            same.entry(host.fired.iter().map(|fired| (fired.rule, fired.role)).collect()).or_default().push(at);
        }
        let mut sets: Vec<(Signature, Vec<usize>)> = same.into_iter().collect();
        sets.sort_by_key(|(_, hosts)| Reverse(hosts.len()));
        let mut clusters: Vec<(Signature, Vec<usize>)> = Vec::new();
        for (signature, hosts) in sets {
            let like = clusters.iter().position(|(seed, _)| alike(seed, &signature));
            let is_full = clusters.len() >= MOST;
            match like.and_then(|at| clusters.get_mut(at)) {
                Some((_, members)) => members.extend(hosts),
                None if is_full => {}
                None => clusters.push((signature, hosts)),
            }
        }
        let told = clusters.into_iter().filter(|(_, hosts)| hosts.len() > 1);
        found.extend(told.map(|(signature, hosts)| cluster(all, tally, group, &signature, &hosts)));
    }
    found.sort_by_key(|cluster: &Clustered| (Reverse(cluster.status), Reverse(cluster.size), cluster.rules.clone()));
    found.truncate(TOLD);
    found
}

fn alike(one: &Signature, other: &Signature) -> bool {
    let both = one.intersection(other).count() as f64;
    let either = (one.len() + other.len()) as f64 - both;
    both >= ALIKE * either
}

fn cluster(all: &Gathering, tally: &Tally, group: usize, signature: &Signature, hosts: &[usize]) -> Clustered {
    let members = || hosts.iter().filter_map(|at| all.hosts.get(*at));
    let name = |(rule, role): &(u32, u32)| match all.names.name(*role) {
        "" => all.names.name(*rule).to_owned(),
        role => format!("{} ({role})", all.names.name(*rule)),
    };
    Clustered {
        group: all.group_name(group).to_owned(),
        status: members().flat_map(|host| &host.fired).map(|fired| fired.status).max().unwrap_or(Status::Ok),
        size: hosts.len(),
        rules: signature.iter().map(name).collect(),
        hosts: members().take(NAMED).map(|host| host.name.clone()).collect(),
        contrast: contrast(all, tally, group, &hosts.iter().copied().collect()),
    }
}
