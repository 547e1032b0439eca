//! Threads that joined others.
//!
//! A thread that joins another waits on a futex that the kernel wakes when the other ends, or on a lock that this gives back as the last
//! thing that it does. Either way the wait ends by a thread that was born within the waiter's life and is gone: until then all went as
//! fast as that one did. What it did in that part of its life is not recorded, so its whole life stands for it, in proportion. One that was
//! waited for all its life stands for that, however often it ended a wait: it may give results, or the interpreter's lock, in between.

use rdiag_model::Component;
use rdiag_model::ledger::{Link, WakerKind};

use super::super::account::{ThreadAccount, clean};
use super::{Family, Key, MOMENT, Parts, Walk};

/// How often at most the thread that made another one waits for it: in CPython until it says that it has begun, too.
const MOST_JOINS: u64 = 2;
/// Waits of this share of a thread's life are for all that it did.
const WHOLE_LIFE: f64 = 0.9;

impl<'l, 'a> Family<'l, 'a> {
    /// Threads that this one joined, and how long it waited for each.
    pub(in super::super) fn joined(&self, of: &ThreadAccount<'l>) -> Vec<(&'a ThreadAccount<'l>, Component, f64)> {
        let ids = (of.thread.pid, of.thread.tid);
        // Of several threads that had the same TID, it is not known which one waited.
        let [_] = self.by_id.get(&ids).map(Vec::as_slice).unwrap_or_default() else { return Vec::new() };
        if self.is_as_one(of.thread.pid) {
            return Vec::new();
        }
        let links = self.links.get(&ids).map(Vec::as_slice).unwrap_or_default();
        let joined = links.iter().filter_map(|link| {
            let waker = &link.edge.waker;
            let only = self.only(waker.pid, waker.tid)?;
            let gone = only.thread.born && only.thread.died && only.thread.tid != only.thread.pid;
            let within = of.thread.began <= only.thread.began && has_ended_for(only, of);
            let seconds = clean(link.edge.seconds).min(only.seconds);
            let is_one = gone && within && seconds > 0.0 && may_be_join(link, only);
            is_one.then_some((only, link.edge.component, seconds))
        });
        joined.collect()
    }

    /// Puts what joined threads did in the place of the waits for them.
    pub(super) fn look_through_joins(
        &self,
        own: &'a ThreadAccount<'l>,
        parts: &mut Parts<'l>,
        depth: usize,
        walk: &mut Walk<'l, 'a>,
    ) {
        for (joined, component, seconds) in self.joined(own) {
            if depth == 0 || !walk.seen.insert(std::ptr::from_ref(joined)) {
                continue;
            }
            let waits = parts.iter().filter(|(key, _)| key.component == component && !key.joined);
            let waited: f64 = waits.map(|(_, seconds)| seconds).sum();
            let seconds = seconds.min(waited);
            let from = walk.mark();
            let (of_joined, _) = self.follow(joined, &joined.thread.comm, depth - 1, walk);
            let whole: f64 = of_joined.values().sum();
            if seconds <= 0.0 || whole <= 0.0 {
                walk.forget(from);
                continue;
            }
            walk.weigh(from, seconds / whole);
            let left = 1.0 - seconds / waited;
            parts
                .iter_mut()
                .filter(|(key, _)| key.component == component && !key.joined)
                .for_each(|(_, rest)| *rest *= left);
            for (key, part) in of_joined {
                *parts.entry(Key { joined: true, ..key }).or_default() += part * seconds / whole;
            }
        }
    }
}

/// Whether a child or a thread had ended for the one that waited for it, which it wakes before its last switch: it may be preempted between
/// the two, for no longer than it was at any time.
pub(in super::super) fn has_ended_for(ended: &ThreadAccount<'_>, waiter: &ThreadAccount<'_>) -> bool {
    let is_off = |component| matches!(component, Component::Runq | Component::RunqPreempt | Component::Throttled);
    let parts = ended.thread.parts.iter().filter(|part| is_off(part.component));
    let longest = parts.filter_map(|part| part.durations.as_ref()).map(|waits| clean(waits.max)).fold(0.0, f64::max);
    ended.thread.ended <= waiter.thread.ended + MOMENT + longest
}

/// Whether waits on a futex were ended by another thread of the process.
pub(super) fn on_futex_for_thread(link: &Link) -> bool {
    let (edge, waker) = (&link.edge, &link.edge.waker);
    matches!(edge.component, Component::WaitFutex | Component::LockUser)
        && waker.kind == WakerKind::Thread
        && waker.pid == link.pid
        && waker.tid != link.tid
        && link.tid != 0
}

/// Whether these waits may have been for the end of the thread that ended them: they were not time and again, or for all its life. Who
/// gives back a lock time and again is not waited for but for the lock.
pub(in super::super) fn may_be_join(link: &Link, ended_by: &ThreadAccount<'_>) -> bool {
    let edge = &link.edge;
    let for_its_life = edge.component == Component::WaitFutex && edge.seconds >= WHOLE_LIFE * ended_by.seconds;
    on_futex_for_thread(link) && (edge.count <= MOST_JOINS || for_its_life)
}
