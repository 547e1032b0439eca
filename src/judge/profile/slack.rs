//! What of a saving may be lost: waits of the threads on the path for what does not depend on them, and threads beside those that
//! were joined.
//!
//! Only sums are known. Of two threads of which one waits for the other, the longest way after a saving is all that is left of the one
//! and all that the other does without it: more than that cannot come one after the other. What a clock or an input ends may end as
//! it did.

use std::collections::{BTreeMap, BTreeSet};

use rdiag_model::Component;
use rdiag_model::ledger::{Link, WakerKind};

use super::account::{Account, ThreadAccount, clean};
use super::beside::Beside;
use super::serial::{Family, Group, Step, Walk, groups, has_ended_for, may_be_join};

/// Waits that may end when others set the time, however early they begin.
const PACING: [Component; 5] =
    [Component::WaitSleep, Component::WaitPoll, Component::IpcPipe, Component::NetAccept, Component::WaitTty];
/// Waits set a pace above this share of a thread's time.
const PACED: f64 = 0.05;

/// Process and thread.
type Id = (u32, u32);

/// Why a saving may be lost.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Pacer {
    /// Waits that no observed thread ended.
    Outside(Component),
    /// A thread, by name, of which one waits for the other.
    Thread(String),
}

/// A saving that may be lost, in seconds, and to what.
#[derive(Debug, Default)]
pub(super) struct Lost {
    pub(super) seconds: f64,
    pub(super) to: BTreeSet<Pacer>,
}

/// The waits that set a pace, of parts of so many seconds, once another component is smaller.
pub(super) fn outside(parts: &BTreeMap<Component, f64>, whole: f64, id: Component) -> BTreeSet<Pacer> {
    let part = |wait: &Component| parts.get(wait).copied().unwrap_or(0.0);
    let waits = PACING.into_iter().filter(|wait| *wait != id && part(wait) > PACED * whole);
    waits.map(Pacer::Outside).collect()
}

/// The threads of a path, and those beside them.
pub(super) struct Slack<'a> {
    steps: Vec<Step<'a, 'a>>,
    /// Threads of the first one's process that had ended when it did, taken together where their lives overlap.
    beside: Vec<Group<'a, 'a>>,
    /// Those of them that it waited for.
    joined: Vec<&'a ThreadAccount<'a>>,
    by_id: BTreeMap<Id, Vec<&'a ThreadAccount<'a>>>,
    links: BTreeMap<Id, Vec<&'a Link>>,
    /// Who waited for a thread.
    waiters: BTreeMap<Id, BTreeSet<Id>>,
    /// Children that ran side by side on the path.
    children: Vec<Beside>,
    /// Weights of the threads on the path.
    weights: BTreeMap<*const ThreadAccount<'a>, f64>,
}

impl<'a> Slack<'a> {
    pub(super) fn new(
        account: &'a Account<'a>,
        family: &Family<'a, 'a>,
        first: &'a ThreadAccount<'a>,
        walk: Walk<'a, 'a>,
    ) -> Self {
        let mut by_id: BTreeMap<Id, Vec<&ThreadAccount<'_>>> = BTreeMap::new();
        for own in account.threads.iter().filter(|own| own.thread.tid != 0) {
            by_id.entry(id_of(own)).or_default().push(own);
        }
        let mut links: BTreeMap<Id, Vec<&Link>> = BTreeMap::new();
        let mut waiters: BTreeMap<Id, BTreeSet<Id>> = BTreeMap::new();
        let of_threads = |link: &&Link| link.edge.waker.kind == WakerKind::Thread && link.edge.waker.tid != 0;
        for link in account.links.iter().filter(of_threads) {
            links.entry((link.pid, link.tid)).or_default().push(link);
            waiters.entry(waker(link)).or_default().insert((link.pid, link.tid));
        }
        // Some that were not followed may have been beside them, too.
        let all_known = account.threads.iter().all(|own| own.thread.tid != 0);
        let is_beside = |own: &&ThreadAccount<'_>| {
            let life = own.thread;
            all_known
                && life.pid == first.thread.pid
                && life.tid != life.pid
                && life.born
                && life.died
                && life.began >= first.thread.began
                && has_ended_for(own, first)
        };
        let mut beside: Vec<&ThreadAccount<'_>> = account.threads.iter().filter(is_beside).collect();
        beside.sort_by(|a, b| a.thread.began.total_cmp(&b.thread.began));
        let joined = family.joined(first).into_iter().map(|(own, ..)| own).collect();
        // What one of threads that count as one does not do another one may.
        let one_by_one = walk.steps.iter().filter(|step| step.as_one.is_none());
        let weights = one_by_one.map(|step| (std::ptr::from_ref(step.own), step.weight)).collect();
        let (steps, children) = (walk.steps, walk.besides);
        Self { steps, beside: groups(&beside), joined, by_id, links, waiters, children, weights }
    }

    /// What of a saving in all threads of the path their waits may take, where so much of a component is left.
    pub(super) fn lost(&self, id: Component, kept: f64) -> Lost {
        let mut all = Lost::default();
        for step in self.steps.iter().filter(|step| step.as_one.is_none() && part(step.own, id) > 0.0) {
            let lost = self.lost_of(step.own, step.piped, id, kept);
            all.seconds += lost.seconds * step.weight;
            if lost.seconds * step.weight > 0.0 {
                all.to.extend(lost.to);
            }
        }
        all
    }

    /// Seconds of what is saved in joined threads, and in children side by side, that none beside them can take, as all are done sooner.
    pub(super) fn surely_saved(&self, id: Component, kept: f64) -> f64 {
        let of_group = |group: &Group<'a, 'a>| {
            let saved = |member: &&ThreadAccount<'a>| {
                let weight = self.weights.get(&std::ptr::from_ref(*member)).copied().unwrap_or(0.0);
                part(member, id) * weight * (1.0 - kept)
            };
            let in_path: f64 = group.members.iter().map(saved).sum();
            let left = |member: &&ThreadAccount<'_>| {
                let lost = self.lost_of(member, 0.0, id, kept).seconds;
                member.thread.began - group.from + member.seconds - part(member, id) * (1.0 - kept) + lost
            };
            let longest = group.members.iter().map(left).fold(0.0, f64::max);
            (group.until - group.from - longest).clamp(0.0, in_path)
        };
        let of_children = self.children.iter().map(|beside| beside.surely_saved(id, kept));
        self.beside.iter().map(of_group).chain(of_children).sum()
    }

    /// Seconds that may be saved beyond the share of each life that is in the run: all that a thread saves may shorten the wait for it.
    pub(super) fn at_most_more(&self, id: Component, kept: f64) -> f64 {
        let of = |step: &Step<'_, '_>| {
            if let Some(bounds) = &step.as_one {
                return bounds.at_most_more(id, kept) * step.weight;
            }
            let saved = part(step.own, id) * (1.0 - kept);
            ((step.weight * step.own.seconds).min(saved) - step.weight * saved).max(0.0)
        };
        self.steps.iter().map(of).sum()
    }

    /// Seconds of waits for pipes in whose place stands what children did.
    pub(super) fn piped(&self) -> f64 {
        self.steps.iter().map(|step| step.piped * step.weight).sum()
    }

    /// Seconds that the run takes in any case: the work and the pauses of each thread that was joined.
    pub(super) fn floor(&self, id: Component, kept: f64) -> f64 {
        let of = |own: &&ThreadAccount<'_>| -> f64 {
            let stays = |component: Component| component.on_cpu() || component == Component::WaitSleep;
            let of_part = |(component, seconds): (&Component, &f64)| {
                let left = seconds - self.by_threads(own, *component);
                left.max(0.0) * if *component == id { kept } else { 1.0 }
            };
            own.parts.iter().filter(|(component, _)| stays(**component)).map(of_part).sum()
        };
        self.joined.iter().map(of).fold(0.0, f64::max)
    }

    /// `piped`: seconds of waits for pipes that stand for what children did.
    fn lost_of(&self, own: &ThreadAccount<'_>, piped: f64, id: Component, kept: f64) -> Lost {
        let saved = part(own, id) * (1.0 - kept);
        let by_none = |(component, seconds): (&Component, &f64)| {
            let replaced = if *component == Component::IpcPipe { piped } else { 0.0 };
            (*component, seconds - replaced.max(self.by_threads(own, *component)))
        };
        let clocks = outside(&own.parts.iter().map(by_none).collect(), own.seconds, id);
        if !clocks.is_empty() {
            return Lost { seconds: saved, to: clocks };
        }
        let mut lost = Lost::default();
        for other in self.peers(own) {
            let for_it = self.waits(own, other, Some(id));
            if for_it + self.waits(other, own, Some(id)) <= PACED * own.seconds {
                continue;
            }
            // What it did of its own while this one did not wait for it.
            let all_waits = self.waits(own, other, None);
            let beside = other.seconds.min(own.seconds) - self.waits(other, own, None) - all_waits;
            if beside > 0.0 {
                lost.seconds += beside;
                lost.to.insert(Pacer::Thread(other.name()));
            }
        }
        lost.seconds = lost.seconds.min(saved);
        lost
    }

    /// Threads of which one waits for the other, without children and joined threads that are on the path in the place of the wait.
    fn peers(&self, own: &ThreadAccount<'_>) -> Vec<&'a ThreadAccount<'a>> {
        let of_own = self.links.get(&id_of(own)).into_iter().flatten().map(|link| waker(link));
        let for_own = self.waiters.get(&id_of(own)).into_iter().flatten().copied();
        let ids: BTreeSet<Id> = of_own.chain(for_own).collect();
        let is_child = |other: &ThreadAccount<'a>| {
            other.thread.pid != own.thread.pid && self.weights.contains_key(&std::ptr::from_ref(other))
        };
        let one = |id: Id| match self.by_id.get(&id).map(Vec::as_slice) {
            Some([only]) if id != id_of(own) && !is_child(only) => Some(*only),
            _ => None,
        };
        ids.into_iter().filter_map(one).collect()
    }

    /// Seconds that one thread waited for the other in other components than one, joins apart.
    fn waits(&self, own: &ThreadAccount<'_>, other: &ThreadAccount<'_>, but: Option<Component>) -> f64 {
        let links = self.links.get(&id_of(own)).into_iter().flatten();
        let of_other = links.filter(|link| {
            waker(link) == id_of(other) && Some(link.edge.component) != but && !may_be_join(link, other)
        });
        of_other.map(|link| clean(link.edge.seconds)).sum()
    }

    /// Seconds of a component that observed threads ended.
    fn by_threads(&self, own: &ThreadAccount<'_>, component: Component) -> f64 {
        let links = self.links.get(&id_of(own)).into_iter().flatten();
        let known = links.filter(|link| link.edge.component == component && self.by_id.contains_key(&waker(link)));
        known.map(|link| clean(link.edge.seconds)).sum()
    }
}

fn id_of(own: &ThreadAccount<'_>) -> Id {
    (own.thread.pid, own.thread.tid)
}

fn waker(link: &Link) -> Id {
    (link.edge.waker.pid, link.edge.waker.tid)
}

fn part(own: &ThreadAccount<'_>, id: Component) -> f64 {
    own.parts.get(&id).copied().unwrap_or(0.0)
}
