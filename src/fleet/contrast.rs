//! Facts that distinguish hosts from the others of their group.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use super::document::Contrast;
use super::gather::{Gathering, Row};

/// Facts that are reported.
const MOST: usize = 6;
/// A fact distinguishes hosts if fewer than one in so many of the others share it.
const SHARED_BY: usize = 10;
/// What is chosen says more than what follows from the hardware, and comes first; what is not listed comes last.
const FIRST: [&str; 12] =
    ["memory", "cpus", "kernel", "governor", "boot ", "sysctl ", "thp ", "tuned ", "mount ", "disk:", "net:", "cpu "];

/// How many hosts of each group have which value of a fact.
#[derive(Debug, Default)]
pub(crate) struct Tally(HashMap<(usize, u32), BTreeMap<u32, usize>>);

impl Tally {
    pub(crate) fn of(all: &Gathering) -> Self {
        let mut counts: HashMap<(usize, u32), BTreeMap<u32, usize>> = HashMap::new();
        for host in &all.hosts {
            for (fact, value) in &host.facts {
                *counts.entry((host.group, *fact)).or_default().entry(*value).or_default() += 1;
            }
        }
        Self(counts)
    }
}

/// What is the same on all of these hosts, shared by fewer than a tenth of the others, and something else on at least half of them. What is
/// shared least and what was configured come first.
pub(crate) fn contrast(all: &Gathering, tally: &Tally, group: usize, hosts: &BTreeSet<usize>) -> Vec<Contrast> {
    let members: Vec<&Row> = hosts.iter().filter_map(|at| all.hosts.get(*at)).collect();
    let mut own: Option<BTreeSet<(u32, u32)>> = None;
    for host in &members {
        let facts: BTreeSet<(u32, u32)> = host.facts.iter().copied().collect();
        own = Some(match own {
            None => facts,
            Some(own) => own.intersection(&facts).copied().collect(),
        });
    }
    let mut found = Vec::new();
    for (fact, value) in own.unwrap_or_default() {
        // All of these hosts have the same value, so that the others are what is left of it.
        let mut values = tally.0.get(&(group, fact)).cloned().unwrap_or_default();
        if let Some(count) = values.get_mut(&value) {
            *count = count.saturating_sub(members.len());
        }
        let known: usize = values.values().sum();
        let shared = values.get(&value).copied().unwrap_or_default();
        let Some((most, count)) = values.iter().rev().max_by_key(|(_, count)| **count) else { continue };
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
    found.sort_by(|a, b| {
        a.shared.cmp(&b.shared).then_with(|| rank(&a.fact).cmp(&rank(&b.fact))).then_with(|| a.fact.cmp(&b.fact))
    });
    found.truncate(MOST);
    found
}

fn rank(fact: &str) -> usize {
    FIRST.iter().position(|first| fact.starts_with(first)).unwrap_or(FIRST.len())
}
