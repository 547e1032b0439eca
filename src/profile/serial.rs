//! The time of one run: the life of its first thread, in which the waits for children are replaced by what those did.

use std::collections::{BTreeMap, BTreeSet};

use crate::model::Component;

use super::account::{Account, ThreadAccount, clean};

/// Children of children of … are followed so far.
const MAX_DEPTH: usize = 32;
/// A child has ended for its parent a moment before its last switch: lives of children may overlap by this, in seconds.
const MOMENT: f64 = 1e-3;
/// The lives of children may be longer than the waits for them by this share, and still be what was waited for.
const LONGER: f64 = 0.05;

/// What a part of a run is told apart by: the component, the call, what it was about.
pub(super) type Key<'l> = (Component, &'l str, &'l str);
/// Seconds by key.
pub(super) type Parts<'l> = BTreeMap<Key<'l>, f64>;

/// The first threads of all processes, by the process that had started theirs.
pub(super) struct Family<'l, 'a> {
    by_parent: BTreeMap<u32, Vec<&'a ThreadAccount<'l>>>,
}

impl<'l, 'a> Family<'l, 'a> {
    pub(super) fn new(account: &'a Account<'l>) -> Self {
        let mut by_parent: BTreeMap<u32, Vec<&ThreadAccount<'l>>> = BTreeMap::new();
        for own in leaders(account) {
            by_parent.entry(own.thread.parent).or_default().push(own);
        }
        for children in by_parent.values_mut() {
            children.sort_by(|a, b| a.thread.began.total_cmp(&b.thread.began));
        }
        Self { by_parent }
    }

    /// Children that were born within the life of their parent: process numbers are used again.
    fn children(&self, of: &ThreadAccount<'l>) -> Vec<&'a ThreadAccount<'l>> {
        let life = of.thread.began..=of.thread.ended;
        let all = self.by_parent.get(&of.thread.pid).map(Vec::as_slice).unwrap_or_default();
        all.iter().copied().filter(|child| life.contains(&child.thread.began)).collect()
    }

    /// What the time of a run went into, and whether all children are in it: they are not where they ran side by side,
    /// or beside their parent, so that their times do not add up to its own.
    pub(super) fn serial(&self, first: &'a ThreadAccount<'l>) -> (Parts<'l>, bool) {
        let mut seen = BTreeSet::new();
        self.follow(first, MAX_DEPTH, &mut seen)
    }

    fn follow(
        &self,
        own: &'a ThreadAccount<'l>,
        depth: usize,
        seen: &mut BTreeSet<*const ThreadAccount<'l>>,
    ) -> (Parts<'l>, bool) {
        let mut parts = Parts::new();
        for part in &own.thread.parts {
            *parts.entry((part.component, &part.call, &part.key)).or_default() += clean(part.seconds);
        }
        let children = self.children(own);
        if children.is_empty() {
            return (parts, true);
        }
        // A made-up ledger may have processes that are their own ancestors.
        let is_new = children.iter().all(|child| seen.insert(std::ptr::from_ref(*child)));
        let waited: f64 = waits(&parts).map(|(_, seconds)| *seconds).sum();
        let lives: f64 = children.iter().map(|child| child.seconds).sum();
        let most = waited * (1.0 + LONGER) + MOMENT * children.len() as f64;
        if depth == 0 || !is_new || lives > most || !one_after_the_other(&children) {
            return (parts, false);
        }
        let left = if waited > 0.0 { (1.0 - lives / waited).max(0.0) } else { 0.0 };
        for (key, seconds) in &mut parts {
            if key.0 == Component::WaitChild {
                *seconds *= left;
            }
        }
        let mut whole = true;
        for child in children {
            let (of_child, all) = self.follow(child, depth - 1, seen);
            whole &= all;
            for (key, seconds) in of_child {
                *parts.entry(key).or_default() += seconds;
            }
        }
        (parts, whole)
    }
}

/// The first thread of each process.
pub(super) fn leaders<'l, 'a>(account: &'a Account<'l>) -> impl Iterator<Item = &'a ThreadAccount<'l>> {
    account.threads.iter().filter(|own| own.thread.tid != 0 && own.thread.tid == own.thread.pid)
}

fn waits<'p, 'l>(parts: &'p Parts<'l>) -> impl Iterator<Item = (&'p Key<'l>, &'p f64)> {
    parts.iter().filter(|(key, _)| key.0 == Component::WaitChild)
}

fn one_after_the_other(children: &[&ThreadAccount<'_>]) -> bool {
    let mut pairs = children.iter().zip(children.iter().skip(1));
    pairs.all(|(one, next)| next.thread.began + MOMENT >= one.thread.ended)
}
