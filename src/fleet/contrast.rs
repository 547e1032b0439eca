//! Facts that set hosts apart from the others of their group.

use std::collections::{BTreeMap, BTreeSet};

use super::document::Contrast;
use super::gather::{Gathering, Row};

/// Facts that are told.
const MOST: usize = 6;
/// A fact sets hosts apart if fewer than one in so many of the others share it.
const SHARED_BY: usize = 10;

/// What is the same on all of these hosts, shared by fewer than a tenth of the others, and something else on at least half of them. The
/// least shared first.
pub(crate) fn contrast(all: &Gathering, group: usize, hosts: &BTreeSet<usize>) -> Vec<Contrast> {
    let mut own: Option<BTreeSet<(u32, u32)>> = None;
    for host in hosts.iter().filter_map(|at| all.hosts.get(*at)) {
        let facts: BTreeSet<(u32, u32)> = host.facts.iter().copied().collect();
        own = Some(match own {
            None => facts,
            Some(own) => own.intersection(&facts).copied().collect(),
        });
    }
    let others: Vec<&Row> = all
        .hosts
        .iter()
        .enumerate()
        .filter(|(at, host)| host.group == group && !hosts.contains(at))
        .map(|(_, host)| host)
        .collect();
    let mut found = Vec::new();
    for (fact, value) in own.unwrap_or_default() {
        let mut values: BTreeMap<u32, usize> = BTreeMap::new();
        for host in &others {
            if let Ok(place) = host.facts.binary_search_by_key(&fact, |(fact, _)| *fact)
                && let Some((_, value)) = host.facts.get(place)
            {
                *values.entry(*value).or_default() += 1;
            }
        }
        let known: usize = values.values().sum();
        let shared = values.get(&value).copied().unwrap_or_default();
        let Some((most, count)) = values.iter().max_by_key(|(_, count)| **count) else { continue };
        // Three others are needed to say what is usual.
        if *most != value && known >= 3 && shared * SHARED_BY < known && 2 * count >= known {
            found.push(Contrast {
                fact: all.names.name(fact).to_owned(),
                value: all.names.name(value).to_owned(),
                others: all.names.name(*most).to_owned(),
                shared,
            });
        }
    }
    found.sort_by(|a, b| a.shared.cmp(&b.shared).then_with(|| a.fact.cmp(&b.fact)));
    found.truncate(MOST);
    found
}
