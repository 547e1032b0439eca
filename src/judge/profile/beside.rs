//! Children that ran side by side: which of them held up their parent, and what is saved for sure where all of them do less.
//!
//! Read from the end: the parent had to wait for the one that ended last; what had ended as that one began made room for it (a job of
//! `make -j2`); and so on, back to the first. Those that ran beside this way would have held the parent up almost as long. A wait for the
//! other end of a pipe or a socket stands for what the process there did meanwhile. Only sums are known: what it did without waiting for
//! this one stands for that in proportion, which says little of a short wait.

use std::collections::BTreeMap;

use rdiag_model::Component;
use rdiag_model::ledger::{Link, WakerKind};

use super::account::{ThreadAccount, clean, share};
use super::serial::{Family, Group, Key, MOMENT, Parts, Walk, has_ended_for, own_parts};

/// Waits for the other end of a pipe or a socket.
const FOR_PEERS: [Component; 3] = [Component::IpcPipe, Component::IpcUnix, Component::WaitPoll];
/// A wait for such an end is looked through if it was as long as this share of what that end did without waiting for this one.
const MOSTLY: f64 = 0.5;
/// Waits of a parent that its children ended are for them, where those are this share of their kind.
const ENDED: f64 = 0.9;
/// A child whose end ended less than this share of its own time of its parent's waits held it up hardly, where another one did most of
/// the time.
const BARELY: f64 = 0.05;
/// Processes of a pipeline that are followed one after the other.
const MAX_PIPES: usize = 16;

/// Children that ran side by side until the last of them had ended for their parent.
pub(super) struct Beside {
    from: f64,
    until: f64,
    members: Vec<Member>,
    /// How much of this time stands in the time of the run.
    pub(super) weight: f64,
}

struct Member {
    began: f64,
    ended: f64,
    on_path: bool,
    /// What it did, and what those did that it waited for alone.
    parts: BTreeMap<Component, f64>,
}

impl Beside {
    /// Seconds that are saved for sure of what the path saves: each begins when the one had ended that made room for it.
    pub(super) fn surely_saved(&self, id: Component, kept: f64) -> f64 {
        let saved = |member: &Member| member.parts.get(&id).copied().unwrap_or(0.0) * (1.0 - kept);
        // By when they ended: positive numbers are in the order of their bits.
        let mut ends: BTreeMap<u64, f64> = BTreeMap::new();
        for member in &self.members {
            let before = ends.range(..=clean(member.began + MOMENT).to_bits()).next_back();
            let begins = before.map_or(member.began - self.from, |(ended, now)| {
                now + (member.began - f64::from_bits(*ended)).max(0.0)
            });
            let now = begins + (member.ended - member.began - saved(member)).max(0.0);
            let end = ends.entry(clean(member.ended).to_bits()).or_default();
            *end = end.max(now);
        }
        let longest = ends.values().copied().fold(0.0, f64::max);
        let in_path: f64 = self.members.iter().filter(|member| member.on_path).map(saved).sum();
        (self.until - self.from - longest).clamp(0.0, in_path) * self.weight
    }
}

impl<'l, 'a> Family<'l, 'a> {
    /// What held up the parent of these children, of so many seconds; what no child accounts for is a wait for them.
    pub(super) fn through(
        &self,
        group: &Group<'l, 'a>,
        (parent, seconds): (&'a ThreadAccount<'l>, f64),
        depth: usize,
        walk: &mut Walk<'l, 'a>,
    ) -> Parts<'l> {
        let path = self.one_by_one(group, parent);
        let steps: BTreeMap<*const ThreadAccount<'l>, f64> =
            path.iter().map(|(step, began)| (std::ptr::from_ref(*step), *began)).collect();
        let begins = walk.mark();
        let (mut parts, mut members) = (Parts::new(), Vec::new());
        for member in group.members.iter().filter(|member| has_ended_for(member, parent)) {
            let (began, ended) = (member.thread.began, member.thread.ended);
            let counts_from = steps.get(&std::ptr::from_ref(*member)).copied();
            let (on_path, from_then) = (counts_from.is_some(), counts_from.unwrap_or(began));
            let from = walk.mark();
            let (mut own, _) = self.follow(member, &member.thread.comm, depth.saturating_sub(1), walk);
            let mut weight = 1.0;
            if from_then > began {
                // What it waited for its parent was before then.
                self.leave_out_waits_for(&mut own, member, parent);
                weight = share(ended - from_then, own.values().sum()).min(1.0);
            }
            let mut alone: BTreeMap<Component, f64> = BTreeMap::new();
            for (key, part) in own.iter().filter(|(key, _)| !key.joined) {
                *alone.entry(key.component).or_default() += part * weight;
            }
            members.push(Member { began: from_then, ended, on_path, parts: alone });
            if !on_path {
                walk.forget(from);
                continue;
            }
            walk.weigh(from, weight);
            self.look_through_peers(member, &mut own, group, &mut vec![*member]);
            for (key, part) in own {
                *parts.entry(Key { joined: true, ..key }).or_default() += part * weight;
            }
        }
        let until = path.first().map_or(group.from, |(last, _)| last.thread.ended);
        walk.besides.push(Beside { from: group.from, until, members, weight: 1.0 });
        let sum: f64 = parts.values().sum();
        let scale = if sum > seconds { seconds / sum } else { 1.0 };
        walk.weigh(begins, scale);
        parts.values_mut().for_each(|part| *part *= scale);
        let key = Key { child: group.longest(), ..Key::of_wait_for_children() };
        *parts.entry(key).or_default() += (seconds - sum).max(0.0);
        parts
    }

    /// The members that their parent waited for one after the other, the last one first, each with the moment from which on it did;
    /// of those that ended at once, the one born last.
    ///
    /// A server that is killed once its client is done ends last, and the parent did not wait for it.
    fn one_by_one(&self, group: &Group<'l, 'a>, parent: &ThreadAccount<'l>) -> Vec<(&'a ThreadAccount<'l>, f64)> {
        let mut ended: Vec<&'a ThreadAccount<'l>> =
            group.members.iter().rev().copied().filter(|member| has_ended_for(member, parent)).collect();
        let held_up: Vec<(&ThreadAccount<'l>, f64)> =
            ended.iter().map(|member| (*member, self.waited_for(parent, member))).collect();
        let most = held_up.iter().map(|(_, seconds)| *seconds).fold(0.0, f64::max);
        if most > MOSTLY * (group.until - group.from) {
            let barely = |member: &ThreadAccount<'l>| {
                let held =
                    held_up.iter().find(|(known, _)| std::ptr::eq(*known, member)).map_or(0.0, |(_, held)| *held);
                held < BARELY * (member.thread.ended - member.thread.began)
            };
            let last = |ended: &[&ThreadAccount<'l>]| {
                let latest = |a: &&usize, b: &&usize| {
                    let at = |index: usize| ended.get(index).map_or(0.0, |member| member.thread.ended);
                    at(**a).total_cmp(&at(**b))
                };
                (0..ended.len()).collect::<Vec<_>>().iter().max_by(latest).copied()
            };
            while let Some(at) = last(&ended).filter(|at| ended.get(*at).is_some_and(|member| barely(member))) {
                ended.remove(at);
            }
        }
        ended.sort_by(|a, b| b.thread.ended.total_cmp(&a.thread.ended));
        let mut path: Vec<(&'a ThreadAccount<'l>, f64)> = Vec::new();
        for member in ended {
            if path.last().is_none_or(|(_, next)| member.thread.ended <= next + MOMENT) {
                path.push((member, self.held_up_since(parent, member)));
            }
        }
        path
    }

    /// From when on a child held up its parent: from its beginning, unless the parent woke it. One that waited for its parent, as a server
    /// does for the signal that ends it, was not waited for until then.
    fn held_up_since(&self, parent: &ThreadAccount<'l>, child: &ThreadAccount<'l>) -> f64 {
        let (began, ended) = (child.thread.began, child.thread.ended);
        if self.waited_for(child, parent) <= BARELY * (ended - began) {
            return began;
        }
        // Any thread of the child may be the one whose end tells.
        let links = self.ended_by_threads(parent).iter().filter(|link| link.edge.waker.pid == child.thread.pid);
        (ended - links.map(|link| clean(link.edge.seconds)).sum::<f64>()).max(began)
    }

    /// Seconds of a thread's waits that another one ended.
    fn waited_for(&self, own: &ThreadAccount<'l>, other: &ThreadAccount<'l>) -> f64 {
        let ids = (other.thread.pid, other.thread.tid);
        let links = self.ended_by_threads(own).iter();
        links
            .filter(|link| (link.edge.waker.pid, link.edge.waker.tid) == ids)
            .map(|link| clean(link.edge.seconds))
            .sum()
    }

    /// Puts what the processes at the other ends of pipes and sockets did in the place of the waits of `own` for them; `before` are those
    /// that the others wait for in turn.
    fn look_through_peers(
        &self,
        own: &'a ThreadAccount<'l>,
        parts: &mut Parts<'l>,
        group: &Group<'l, 'a>,
        before: &mut Vec<&'a ThreadAccount<'l>>,
    ) {
        let links = self.ended_by_threads(own).iter().filter(|link| FOR_PEERS.contains(&link.edge.component));
        for link in links {
            let Some(other) = self.other_end(link, own, group) else { continue };
            let is_such = |key: &Key<'_>| {
                key.component == link.edge.component && key.child == own.thread.comm.as_str() && !key.joined
            };
            let left: f64 = parts.iter().filter(|(key, _)| is_such(key)).map(|(_, part)| part).sum();
            if before.len() >= MAX_PIPES || before.iter().any(|one| std::ptr::eq(*one, other)) {
                continue;
            }
            let mut of_other = self.without_waits_for(other, own);
            let whole: f64 = of_other.values().sum();
            let waited = clean(link.edge.seconds).min(whole).min(left);
            if waited <= 0.0 || waited < MOSTLY * whole {
                continue;
            }
            before.push(other);
            self.look_through_peers(other, &mut of_other, group, before);
            before.pop();
            let kept = 1.0 - waited / left;
            parts.iter_mut().filter(|(key, _)| is_such(key)).for_each(|(_, part)| *part *= kept);
            for (key, part) in of_other {
                *parts.entry(Key { joined: true, ..key }).or_default() += part * waited / whole;
            }
        }
    }

    /// The thread of another process that ended these waits, if it lived while these children did.
    fn other_end(&self, link: &Link, own: &ThreadAccount<'l>, group: &Group<'l, 'a>) -> Option<&'a ThreadAccount<'l>> {
        let only = self.only(link.edge.waker.pid, link.edge.waker.tid)?;
        let life = only.thread;
        let within = life.began + MOMENT >= group.from && life.ended <= group.until + MOMENT;
        // What one of threads that count as one did says nothing of the others.
        (within && !self.is_as_one(life.pid) && life.pid != own.thread.pid).then_some(only)
    }

    /// What a thread did, but for its waits that another one ended: while that one waits, it does not.
    fn without_waits_for(&self, own: &'a ThreadAccount<'l>, other: &ThreadAccount<'l>) -> Parts<'l> {
        let mut parts = own_parts(own, &own.thread.comm);
        self.leave_out_waits_for(&mut parts, own, other);
        parts
    }

    /// Takes the waits that another thread ended out of what a thread did.
    fn leave_out_waits_for(&self, parts: &mut Parts<'l>, own: &ThreadAccount<'l>, other: &ThreadAccount<'l>) {
        let ids = (other.thread.pid, other.thread.tid);
        for link in self.ended_by_threads(own).iter().filter(|link| (link.edge.waker.pid, link.edge.waker.tid) == ids) {
            let of_component = |key: &Key<'_>| key.component == link.edge.component;
            let all: f64 = parts.iter().filter(|(key, _)| of_component(key)).map(|(_, part)| part).sum();
            let left = if all > 0.0 { (1.0 - clean(link.edge.seconds) / all).max(0.0) } else { 1.0 };
            parts.iter_mut().filter(|(key, _)| of_component(key)).for_each(|(_, part)| *part *= left);
        }
    }

    /// Kinds of waits for events that were waits for children, as the end of one ended nearly all of them: SIGCHLD ends a `pselect` of
    /// make.
    pub(super) fn ended_by_children(
        &self,
        own: &ThreadAccount<'l>,
        children: &[&'a ThreadAccount<'l>],
    ) -> Vec<Component> {
        let is_child = |link: &Link| {
            let waker = &link.edge.waker;
            children.iter().any(|child| (child.thread.pid, child.thread.tid) == (waker.pid, waker.tid))
        };
        let for_children = |component: &Component| {
            let all = own.parts.get(component).copied().unwrap_or(0.0);
            let links = self.ended_by_threads(own).iter();
            let ended: f64 = links
                .filter(|link| link.edge.component == *component && is_child(link))
                .map(|link| clean(link.edge.seconds))
                .sum();
            all > 0.0 && ended >= ENDED * all
        };
        [Component::WaitPoll, Component::WaitSignal].into_iter().filter(for_children).collect()
    }
}

/// Whether a thread ended these waits, and not an interrupt.
pub(super) fn by_a_thread(link: &Link) -> bool {
    link.edge.waker.kind == WakerKind::Thread && link.edge.waker.tid != 0 && link.tid != 0
}
