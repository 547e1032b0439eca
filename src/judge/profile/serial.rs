//! The time of one run: the life of its first thread, in which the waits for children and for threads that it joined are replaced by what
//! those did.

use std::collections::{BTreeMap, BTreeSet};

use rdiag_model::Component;
use rdiag_model::ledger::Link;

use super::account::{Account, ThreadAccount, clean};
use super::beside::{Beside, by_a_thread};
use super::together::{self, Bounds};

mod joins;

use joins::on_futex_for_thread;
pub(super) use joins::{has_ended_for, may_be_join};

/// Children of children of … are followed so far.
const MAX_DEPTH: usize = 32;
/// A child has ended for its parent a moment before its last switch: lives of children may overlap by this, in seconds.
pub(super) const MOMENT: f64 = 1e-3;
/// The lives of children may be longer than the waits for them by this share, and still be what was waited for: the parent
/// may have been about something else, or without a CPU, when they began. They then count in proportion.
const LONGER: f64 = 0.25;

/// The key of a part of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Key<'l> {
    pub(super) component: Component,
    pub(super) call: &'l str,
    /// What it was about.
    pub(super) object: &'l str,
    /// Name of the child, or of the joined thread, that it happened in; "" for the run's own first thread.
    pub(super) child: &'l str,
    /// It happened in a thread that was joined, or in one of several children, beside which others may have run.
    pub(super) joined: bool,
}

impl Key<'_> {
    /// What children that ran side by side leave of the wait for them.
    pub(super) fn of_wait_for_children() -> Self {
        Key { component: Component::WaitChild, call: "", object: "", child: "", joined: false }
    }
}

/// Children, or threads, whose lives overlap, or one that is alone.
pub(super) struct Group<'l, 'a> {
    pub(super) members: Vec<&'a ThreadAccount<'l>>,
    pub(super) from: f64,
    pub(super) until: f64,
}

/// Seconds by key.
pub(super) type Parts<'l> = BTreeMap<Key<'l>, f64>;

/// A thread that the time of a run went through.
pub(super) struct Step<'l, 'a> {
    pub(super) own: &'a ThreadAccount<'l>,
    /// How much of its life stands in the time of the run.
    pub(super) weight: f64,
    /// Seconds of its waits for pipes in whose place is what its children did meanwhile.
    pub(super) piped: f64,
    /// Of its time on CPUs, how much of it stands there: less than all of one of several threads that count as one.
    pub(super) on_cpu: f64,
    /// It is such a thread; of the first of them, what can have been in the time of all.
    pub(super) as_one: Option<Bounds>,
}

/// The way that the time of a run took.
#[derive(Default)]
pub(super) struct Walk<'l, 'a> {
    seen: BTreeSet<*const ThreadAccount<'l>>,
    pub(super) steps: Vec<Step<'l, 'a>>,
    /// Children that ran side by side.
    pub(super) besides: Vec<Beside>,
    /// It goes through children that ran side by side, too.
    through: bool,
}

impl Walk<'_, '_> {
    /// How far it has come.
    pub(super) fn mark(&self) -> (usize, usize) {
        (self.steps.len(), self.besides.len())
    }

    /// Of what came after a mark, this share counts.
    pub(super) fn weigh(&mut self, (steps, besides): (usize, usize), share: f64) {
        let share = if share.is_finite() { share } else { 0.0 };
        self.steps.iter_mut().skip(steps).for_each(|step| step.weight *= share);
        self.besides.iter_mut().skip(besides).for_each(|beside| beside.weight *= share);
    }

    /// What came after a mark is no part of the way.
    pub(super) fn forget(&mut self, (steps, besides): (usize, usize)) {
        self.steps.truncate(steps);
        self.besides.truncate(besides);
    }
}

/// What a thread's own time went into; `name` if it is a child.
pub(super) fn own_parts<'l>(own: &ThreadAccount<'l>, name: &'l str) -> Parts<'l> {
    let mut parts = Parts::new();
    for part in &own.thread.parts {
        let key = Key { component: part.component, call: &part.call, object: &part.key, child: name, joined: false };
        *parts.entry(key).or_default() += clean(part.seconds);
    }
    parts
}

/// The first threads of all processes, by the process that had started theirs; and threads that ended others' waits on a futex.
pub(super) struct Family<'l, 'a> {
    by_parent: BTreeMap<u32, Vec<&'a ThreadAccount<'l>>>,
    by_id: BTreeMap<(u32, u32), Vec<&'a ThreadAccount<'l>>>,
    /// Waits that may have been joins, and all that threads ended.
    links: BTreeMap<(u32, u32), Vec<&'l Link>>,
    ended: BTreeMap<(u32, u32), Vec<&'l Link>>,
    /// The threads of processes whose threads count as one.
    as_one: BTreeMap<u32, Vec<&'a ThreadAccount<'l>>>,
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
        let mut by_id: BTreeMap<(u32, u32), Vec<&ThreadAccount<'l>>> = BTreeMap::new();
        for own in account.threads.iter().filter(|own| own.thread.tid != 0) {
            by_id.entry((own.thread.pid, own.thread.tid)).or_default().push(own);
        }
        let mut links: BTreeMap<(u32, u32), Vec<&'l Link>> = BTreeMap::new();
        for link in account.links.iter().filter(|link| on_futex_for_thread(link)) {
            links.entry((link.pid, link.tid)).or_default().push(link);
        }
        let mut ended: BTreeMap<(u32, u32), Vec<&'l Link>> = BTreeMap::new();
        for link in account.links.iter().filter(|link| by_a_thread(link)) {
            ended.entry((link.pid, link.tid)).or_default().push(link);
        }
        let mut as_one: BTreeMap<u32, Vec<&ThreadAccount<'l>>> = BTreeMap::new();
        for own in leaders(account) {
            as_one.entry(own.thread.pid).or_default().push(own);
        }
        // Of two processes that had the same number it is not known whose a thread was.
        as_one.retain(|_, first| matches!(first.as_slice(), [only] if only.thread.together.is_some()));
        for own in account.threads.iter().filter(|own| own.thread.tid != 0 && own.thread.tid != own.thread.pid) {
            as_one.entry(own.thread.pid).and_modify(|all| all.push(own));
        }
        Self { by_parent, by_id, links, ended, as_one }
    }

    /// Whether the threads of a process count as one.
    pub(super) fn is_as_one(&self, pid: u32) -> bool {
        self.as_one.contains_key(&pid)
    }

    /// All threads of a process that count as one, if this is its first.
    fn counted_with(&self, first: &ThreadAccount<'l>) -> &[&'a ThreadAccount<'l>] {
        let is_first = first.thread.tid == first.thread.pid;
        self.as_one.get(&first.thread.pid).filter(|_| is_first).map(Vec::as_slice).unwrap_or_default()
    }

    /// What a thread's time went into, or that of the process of which it is the first, and the steps that this is.
    /// `name` if it is a child.
    fn taken(&self, own: &'a ThreadAccount<'l>, name: &'l str) -> (Parts<'l>, Vec<Step<'l, 'a>>) {
        let all = self.counted_with(own);
        let Some(together) = together::as_one(own, all, name) else {
            return (own_parts(own, name), vec![Step { own, weight: 1.0, piped: 0.0, on_cpu: 1.0, as_one: None }]);
        };
        let (on_cpu, mut bounds) = (together.weight, Some(together.bounds));
        let step = |own: &&'a ThreadAccount<'l>| {
            let as_one = Some(bounds.take().unwrap_or_default());
            Step { own, weight: 1.0, piped: 0.0, on_cpu, as_one }
        };
        (together.parts, all.iter().map(step).collect())
    }

    /// The waits of a thread that others ended.
    pub(super) fn ended_by_threads(&self, own: &ThreadAccount<'l>) -> &[&'l Link] {
        self.ended.get(&(own.thread.pid, own.thread.tid)).map(Vec::as_slice).unwrap_or_default()
    }

    /// The only thread that had these numbers.
    pub(super) fn only(&self, pid: u32, tid: u32) -> Option<&'a ThreadAccount<'l>> {
        match self.by_id.get(&(pid, tid))?.as_slice() {
            [only] => Some(*only),
            _ => None,
        }
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
        self.follow(first, "", MAX_DEPTH, &mut Walk::default())
    }

    /// The same, but through children that ran side by side as well, and the way that it took.
    pub(super) fn path(&self, first: &'a ThreadAccount<'l>) -> (Parts<'l>, Walk<'l, 'a>) {
        let mut walk = Walk { through: true, ..Walk::default() };
        let (parts, _) = self.follow(first, "", MAX_DEPTH, &mut walk);
        (parts, walk)
    }

    pub(super) fn follow(
        &self,
        own: &'a ThreadAccount<'l>,
        name: &'l str,
        depth: usize,
        walk: &mut Walk<'l, 'a>,
    ) -> (Parts<'l>, bool) {
        let (mut parts, steps) = self.taken(own, name);
        let at = walk.steps.len();
        walk.steps.extend(steps);
        self.look_through_joins(own, &mut parts, depth, walk);
        let children = self.children(own);
        if children.is_empty() {
            return (parts, true);
        }
        // A made-up ledger may have processes that are their own ancestors.
        let is_new = children.iter().all(|child| walk.seen.insert(std::ptr::from_ref(*child)));
        let groups = groups(&children);
        let lives: f64 = groups.iter().map(|group| group.seconds_within(own)).sum();
        let events = self.ended_by_children(own, &children);
        let Some(waits) = waits_for(&parts, &events, lives, children.len()).filter(|_| is_new && depth > 0) else {
            return (parts, false);
        };
        let waited: f64 = sum_of(&parts, &waits);
        let scale = if lives > waited { waited / lives } else { 1.0 };
        // What no child accounts for stays a wait.
        let left = if waited > 0.0 { 1.0 - lives * scale / waited } else { 0.0 };
        for (key, seconds) in parts.iter_mut().filter(|(key, _)| waits.contains(&key.component)) {
            if let Some(step) = walk.steps.get_mut(at).filter(|_| key.component == Component::IpcPipe) {
                step.piped += *seconds * (1.0 - left);
            }
            *seconds *= left;
        }
        let mut whole = true;
        for group in &groups {
            match group.members.as_slice() {
                [only] if has_ended_for(only, own) => {
                    let from = walk.mark();
                    let (of_child, all) = self.follow(only, &only.thread.comm, depth - 1, walk);
                    walk.weigh(from, scale);
                    whole &= all;
                    for (key, seconds) in of_child {
                        *parts.entry(key).or_default() += seconds * scale;
                    }
                }
                _ if walk.through => {
                    whole = false;
                    let from = walk.mark();
                    let of_group = self.through(group, (own, group.seconds_within(own)), depth, walk);
                    walk.weigh(from, scale);
                    for (key, seconds) in of_group {
                        *parts.entry(key).or_default() += seconds * scale;
                    }
                }
                _ => {
                    whole = false;
                    let key = Key { child: group.longest(), ..Key::of_wait_for_children() };
                    *parts.entry(key).or_default() += group.seconds_within(own) * scale;
                }
            }
        }
        (parts, whole)
    }
}

impl<'l> Group<'l, '_> {
    /// The name of the one that lived longest.
    pub(super) fn longest(&self) -> &'l str {
        let longest = self.members.iter().max_by(|a, b| a.seconds.total_cmp(&b.seconds));
        longest.map_or("", |longest| longest.thread.comm.as_str())
    }

    /// How long any of them lived while their parent did.
    fn seconds_within(&self, parent: &ThreadAccount<'l>) -> f64 {
        match self.members.as_slice() {
            [only] if has_ended_for(only, parent) => only.seconds,
            _ => clean(self.until.min(parent.thread.ended) - self.from),
        }
    }
}

/// The first thread of each process.
pub(super) fn leaders<'l, 'a>(account: &'a Account<'l>) -> impl Iterator<Item = &'a ThreadAccount<'l>> {
    account.threads.iter().filter(|own| own.thread.tid != 0 && own.thread.tid == own.thread.pid)
}

/// Children in the order of their births, taken together where their lives overlap.
pub(super) fn groups<'l, 'a>(children: &[&'a ThreadAccount<'l>]) -> Vec<Group<'l, 'a>> {
    let mut groups: Vec<Group<'l, 'a>> = Vec::new();
    for child in children {
        let (from, until) = (child.thread.began, child.thread.ended);
        match groups.last_mut() {
            Some(last) if from + MOMENT < last.until => {
                last.members.push(child);
                last.until = last.until.max(until);
            }
            _ => groups.push(Group { members: vec![child], from, until }),
        }
    }
    groups
}

/// The waits in which a parent waited for its children, if it waited for most of their `lives`: wait4 and the like, `events` that
/// children ended, or reading what they write, as a shell does for `$(…)`.
fn waits_for(parts: &Parts<'_>, events: &[Component], lives: f64, children: usize) -> Option<Vec<Component>> {
    let with_events = [&[Component::WaitChild], events].concat();
    let with_pipes = [with_events.as_slice(), &[Component::IpcPipe]].concat();
    let fits = |waits: &Vec<Component>| lives <= sum_of(parts, waits) * (1.0 + LONGER) + MOMENT * children as f64;
    [vec![Component::WaitChild], with_events, with_pipes].into_iter().find(fits)
}

fn sum_of(parts: &Parts<'_>, wanted: &[Component]) -> f64 {
    parts.iter().filter(|(key, _)| wanted.contains(&key.component)).map(|(_, seconds)| seconds).sum()
}
