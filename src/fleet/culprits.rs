//! Names that are behind findings on several hosts.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use super::document::CommonCulprit;
use super::gather::Gathering;

/// On so many hosts it is no coincidence.
const HOSTS: usize = 3;
/// Names that are reported.
const TOLD: usize = 10;

/// The most frequent first.
pub(crate) fn common(all: &Gathering) -> Vec<CommonCulprit> {
    let mut names: BTreeMap<u32, (usize, BTreeMap<u32, usize>)> = BTreeMap::new();
    for host in &all.hosts {
        let own: BTreeSet<(u32, u32)> =
            host.fired.iter().filter_map(|fired| Some((fired.culprit?, fired.rule))).collect();
        for name in own.iter().map(|(name, _)| *name).collect::<BTreeSet<_>>() {
            names.entry(name).or_default().0 += 1;
        }
        for (name, rule) in own {
            *names.entry(name).or_default().1.entry(rule).or_default() += 1;
        }
    }
    let mut found: Vec<CommonCulprit> = names
        .into_iter()
        .filter(|(_, (hosts, _))| *hosts >= HOSTS)
        .map(|(name, (hosts, rules))| CommonCulprit {
            name: all.names.name(name).to_owned(),
            hosts,
            rules: rules.into_iter().map(|(rule, hosts)| (all.names.name(rule).to_owned(), hosts)).collect(),
        })
        .collect();
    found.sort_by(|a, b| (Reverse(a.hosts), &a.name).cmp(&(Reverse(b.hosts), &b.name)));
    found.truncate(TOLD);
    found
}
