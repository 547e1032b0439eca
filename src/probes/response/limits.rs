//! What keeps the ledger small: keys and threads beyond a limit are summed up.

use std::collections::{BTreeMap, BTreeSet};

use super::fill::PartKey;
use rdiag_model::Component;
use rdiag_model::ledger::{Accuracy, MAX_KEYS, MAX_THREADS, OTHER_KEYS, Part, Thread};

/// Keeps the largest keys of each component, and sums up the others.
pub(super) fn limit_keys(threads: &mut [Thread]) {
    let mut totals: BTreeMap<(Component, &str), f64> = BTreeMap::new();
    for part in threads.iter().flat_map(|thread| &thread.parts).filter(|part| !part.key.is_empty()) {
        *totals.entry((part.component, part.key.as_str())).or_default() += part.seconds;
    }
    let mut by_component: BTreeMap<Component, Vec<(f64, String)>> = BTreeMap::new();
    for ((component, key), seconds) in totals {
        by_component.entry(component).or_default().push((seconds, key.to_owned()));
    }
    by_component.retain(|_, keys| keys.len() > MAX_KEYS);
    for (component, mut keys) in by_component {
        keys.sort_by(|a, b| b.0.total_cmp(&a.0));
        let rest: BTreeSet<&str> = keys.iter().skip(MAX_KEYS).map(|(_, key)| key.as_str()).collect();
        for thread in &mut *threads {
            for part in thread.parts.iter_mut().filter(|part| part.component == component) {
                if rest.contains(part.key.as_str()) {
                    OTHER_KEYS.clone_into(&mut part.key);
                }
            }
            merge_parts(&mut thread.parts);
        }
    }
}

/// Sums up parts that nothing distinguishes any more.
fn merge_parts(parts: &mut Vec<Part>) {
    let mut merged: BTreeMap<PartKey, Part> = BTreeMap::new();
    for own in parts.drain(..) {
        let key = (own.component, own.call.clone(), own.key.clone());
        match merged.get_mut(&key) {
            None => drop(merged.insert(key, own)),
            Some(sum) => add_part(sum, &own),
        }
    }
    parts.extend(merged.into_values());
}

fn add_part(sum: &mut Part, other: &Part) {
    sum.seconds += other.seconds;
    sum.edge_seconds += other.edge_seconds;
    sum.open = sum.open.saturating_add(other.open);
    match (&mut sum.durations, &other.durations) {
        (Some(sum), Some(other)) => sum.add(other),
        (durations, None) => *durations = None,
        (None, Some(_)) => {}
    }
    if other.accuracy != Accuracy::Exact {
        sum.accuracy = Accuracy::Estimate(None);
    }
}

/// Keeps the threads with the longest time, and sums up the others in one row.
pub(super) fn limit_threads(threads: &mut Vec<Thread>) {
    if threads.len() <= MAX_THREADS {
        return;
    }
    threads.sort_by(|a, b| b.seconds.total_cmp(&a.seconds));
    let rest = threads.split_off(MAX_THREADS - 1);
    let mut row = Thread { comm: "(others)".to_owned(), began: f64::INFINITY, ..Thread::default() };
    for thread in rest {
        row.stands_for = row.stands_for.saturating_add(thread.stands_for);
        row.began = row.began.min(thread.began);
        row.ended = row.ended.max(thread.ended);
        row.seconds += thread.seconds;
        row.parts.extend(thread.parts.into_iter().map(|part| Part { key: String::new(), ..part }));
        merge_parts(&mut row.parts);
    }
    threads.push(row);
}
