//! What threads did over time: their sums, looked at with each poll (four times per interval) while they grow. What they grew by between
//! two looks is a slice of the timeline; the programs in the kernel have no part in it.

use std::collections::BTreeMap;

use super::kernel::cells_of;
use super::kind::{Kind, PREEMPTED, THROTTLED, Type, WOKEN};
use super::polls::{Asleep, YOUNGEST};
use super::record::{Record, ThreadWords};
use rdiag_kernel::mechanism::ebpf::Object;
use rdiag_model::Unavailable;
use rdiag_model::ledger::MAX_TIMELINES;

/// Threads that are looked at: more than are shown, since it is not known yet which these are.
const MAX_WATCHED: usize = MAX_TIMELINES;
/// Looks that are kept of a thread; with more, every second one is forgotten.
const MAX_LOOKS: u64 = 200;
/// A thread with more cells would take too long; its timeline has a longer last slice.
const MAX_CELLS: usize = 200;
/// Places of threads that are searched.
const MAX_SLOTS: u32 = 2048;

const ON: u64 = 1;
const BLOCKED: u64 = 5;
/// Not in a call, in the programs.
const NO_CALL: u64 = 510;

/// What a thread can do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Doing {
    User,
    Kernel,
    Preempted,
    Woken,
    Throttled,
    /// A wait of this kind.
    Waiting(Kind),
}

impl Doing {
    fn queued(mode: u64) -> Option<Self> {
        match mode {
            PREEMPTED => Some(Self::Preempted),
            WOKEN => Some(Self::Woken),
            THROTTLED => Some(Self::Throttled),
            _ => None,
        }
    }

    /// What a cell is a sum of, if it is one of time that nothing else holds.
    fn of(kind: Kind) -> Option<Self> {
        match kind.of() {
            Type::Runq => Self::queued(kind.call()),
            Type::Wait => Some(Self::Waiting(kind.wait())),
            _ => None,
        }
    }
}

/// Nanoseconds since the thread's beginning.
pub(super) type Sums = BTreeMap<Doing, u64>;

/// The sums at one moment.
#[derive(Debug, Clone, PartialEq)]
struct Snapshot {
    round: u64,
    at: u64,
    sums: Sums,
}

/// A thread that is looked at.
#[derive(Debug, Default)]
struct Watched {
    samples: Vec<Snapshot>,
    /// Its context switches and its mode at the last look, and the sums that change with these only.
    moved: Option<(u64, u64)>,
    cells: Sums,
}

/// The looks so far, by thread id and birth of its process.
#[derive(Debug, Default)]
pub(super) struct TimelineSamples {
    watched: BTreeMap<(u32, u64), Watched>,
    round: u64,
    /// Of so many rounds one is kept, less one.
    skipped: u64,
}

/// A slice between two looks.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Grown {
    pub(super) from: u64,
    pub(super) until: u64,
    pub(super) sums: Sums,
}

impl TimelineSamples {
    /// Looks at all threads, and returns those that have been asleep for a while; `now` tells ns of CLOCK_MONOTONIC.
    pub(super) fn look(
        &mut self,
        object: &Object,
        slots: u32,
        now: impl Fn() -> u64,
    ) -> Result<Vec<Asleep>, Unavailable> {
        let mut asleep = Vec::new();
        self.round += 1;
        let every = self.skipped + 1;
        if !self.round.is_multiple_of(every) {
            return Ok(asleep);
        }
        for slot in 0..slots.min(MAX_SLOTS) {
            // Going through all of them takes a while, in which others go on.
            let at = now();
            let thread: ThreadWords = object.element("threads", slot)?;
            let Some(live) = Live::of(&thread) else { continue };
            asleep.extend(live.asleep(slot, at));
            let full = self.watched.len() >= MAX_WATCHED;
            let key = (live.tid, live.process_born);
            if full && !self.watched.contains_key(&key) {
                continue;
            }
            let watched = self.watched.entry(key).or_default();
            // Nothing of the cells changes but when it goes out or comes in.
            let moved = (live.switches, live.mode);
            if watched.moved != Some(moved) {
                // Without them there is no look, now or at the next time.
                watched.moved = None;
                let Some(cells) = cells_of(object, live.first, MAX_CELLS)? else { continue };
                watched.cells = Sums::new();
                for (kind, ns) in cells {
                    add(&mut watched.cells, Doing::of(kind), ns);
                }
                watched.moved = Some(moved);
            }
            let sums = live.sums(watched.cells.clone(), at);
            watched.samples.push(Snapshot { round: self.round, at, sums });
        }
        self.thin(every);
        Ok(asleep)
    }

    /// Twice the distance of looks when there are too many.
    fn thin(&mut self, every: u64) {
        if self.round / every < MAX_LOOKS {
            return;
        }
        self.skipped = 2 * every - 1;
        for watched in self.watched.values_mut() {
            watched.samples.retain(|look| look.round.is_multiple_of(2 * every));
        }
    }

    /// What a thread did from its beginning to its end.
    pub(super) fn of(&self, record: &Record) -> Vec<Grown> {
        let looks = self.watched.get(&(record.tid, record.process().born)).map_or(&[][..], |watched| &watched.samples);
        let mut last = Sums::new();
        add(&mut last, Some(Doing::User), record.user);
        add(&mut last, Some(Doing::Kernel), record.kernel);
        for cell in &record.cells {
            add(&mut last, Doing::of(cell.kind), cell.ns.saturating_add(cell.open_ns));
        }
        let within = looks.iter().filter(|look| record.began < look.at && look.at < record.ended);
        let mut all: Vec<(u64, Sums)> = within.map(|look| (look.at, look.sums.clone())).collect();
        all.push((record.ended, last));
        settle(&mut all);
        let (mut from, mut before, mut slices) = (record.began, Sums::new(), Vec::new());
        for (until, sums) in all {
            let grown =
                sums.iter().map(|(doing, ns)| (*doing, ns.saturating_sub(before.get(doing).copied().unwrap_or(0))));
            let sums_of = grown.filter(|(_, ns)| *ns > 0).collect();
            if until > from {
                slices.push(Grown { from, until, sums: sums_of });
            }
            (from, before) = (until, sums);
        }
        slices
    }
}

/// A look takes what is under way for what the thread seems to do. The next event may say otherwise: it had come back from a call while
/// none were watched, or had been woken without that being seen. No sum can have been larger before than it is later, so the time is
/// moved to another one that is large enough, of the same side (on a CPU or off it) if there is one.
fn settle(looks: &mut [(u64, Sums)]) {
    let is_on_cpu = |doing: &Doing| matches!(doing, Doing::User | Doing::Kernel);
    let mut at = looks.len().saturating_sub(1);
    while let Some((before, [(_, later), ..])) = looks.split_at_mut_checked(at)
        && let Some((_, sums)) = before.last_mut()
    {
        at -= 1;
        let most = |doing: &Doing| later.get(doing).copied().unwrap_or(0);
        for on_cpu in [true, false] {
            let mut excess = 0;
            for (doing, ns) in sums.iter_mut().filter(|(doing, _)| is_on_cpu(doing) == on_cpu) {
                excess = ns.saturating_sub(most(doing)).saturating_add(excess);
                *ns = (*ns).min(most(doing));
            }
            while excess > 0 {
                let room = |doing: &Doing| most(doing) - sums.get(doing).copied().unwrap_or(0).min(most(doing));
                let rooms = later.keys().map(|doing| (is_on_cpu(doing) == on_cpu, room(doing), *doing));
                let Some((_, room, doing)) = rooms.filter(|(_, room, _)| *room > 0).max() else { break };
                *sums.entry(doing).or_default() += room.min(excess);
                excess -= room.min(excess);
            }
        }
    }
}

fn add(sums: &mut Sums, doing: Option<Doing>, ns: u64) {
    if let Some(doing) = doing.filter(|_| ns > 0) {
        let sum = sums.entry(doing).or_default();
        *sum = sum.saturating_add(ns);
    }
}

/// The words of a live thread that tell what it does now.
struct Live {
    mode: u64,
    since: u64,
    user: u64,
    kernel: u64,
    switches: u64,
    tid: u32,
    pid: u32,
    process_born: u64,
    is_kernel_thread: bool,
    first: u64,
    call: u64,
    argument: u64,
    woken: u64,
    wait: Kind,
}

impl Live {
    /// None if no thread is there, or it has ended: then its record says it.
    fn of(thread: &ThreadWords) -> Option<Self> {
        let [mode, since, _, _, _, _, _, user, kernel, _, _, switches, rest @ ..] = thread;
        let [_, _, _, _, _, _, _, _, _, _, _, _, ids, process_born, _, flags, _, _, first, _, _, rest @ ..] = rest;
        let [_, call, _, _, _, argument, _, woken, _, _, _, _, wait, ..] = rest;
        (ON..=BLOCKED).contains(mode).then_some(Self {
            mode: *mode,
            since: *since,
            user: *user,
            kernel: *kernel,
            switches: *switches,
            tid: *ids as u32,
            pid: (ids >> 32) as u32,
            process_born: *process_born,
            is_kernel_thread: flags & 1 != 0,
            first: *first,
            call: *call,
            argument: *argument,
            woken: *woken,
            wait: Kind(*wait),
        })
    }

    /// The wait that it is in, if that has lasted for a while.
    fn asleep(&self, slot: u32, at: u64) -> Option<Asleep> {
        let is_asleep = self.mode == BLOCKED && self.woken <= self.since && !self.is_kernel_thread;
        (is_asleep && at.saturating_sub(self.since) >= YOUNGEST).then_some(Asleep {
            slot,
            tid: self.tid,
            pid: self.pid,
            process_born: self.process_born,
            call: self.wait.call(),
            argument: self.argument,
            since: self.since,
            at,
        })
    }

    /// The sums with what is under way.
    fn sums(&self, cells: Sums, now: u64) -> Sums {
        let mut sums = cells;
        add(&mut sums, Some(Doing::User), self.user);
        add(&mut sums, Some(Doing::Kernel), self.kernel);
        let passed = now.saturating_sub(self.since);
        match self.mode {
            ON if self.call == NO_CALL && !self.is_kernel_thread => add(&mut sums, Some(Doing::User), passed),
            ON => add(&mut sums, Some(Doing::Kernel), passed),
            BLOCKED => {
                let woken =
                    if self.woken > self.since { self.woken.min(now.max(self.since)) } else { now.max(self.since) };
                add(&mut sums, Doing::of(self.wait), woken - self.since);
                add(&mut sums, Some(Doing::Woken), now.saturating_sub(woken));
            }
            mode => add(&mut sums, Doing::queued(mode), passed),
        }
        sums
    }
}

#[cfg(test)]
mod tests {
    use super::super::record::Cell;
    use super::*;

    const READ: Kind = Kind(2 | 7 << 8);

    /// A live thread with this in its words: mode, since, user, kernel, switches, call, woken, wait.
    fn words(mode: u64, since: u64, user: u64, kernel: u64, call: u64, woken: u64, wait: u64) -> ThreadWords {
        let mut words = [0; super::super::record::THREAD_WORDS];
        for (at, word) in [(0, mode), (1, since), (7, user), (8, kernel), (24, 9 << 32 | 10), (25, 77), (34, call)] {
            words[at] = word;
        }
        (words[40], words[45]) = (woken, wait);
        words
    }

    fn sums(words: &ThreadWords, now: u64) -> Vec<(Doing, u64)> {
        Live::of(words).unwrap().sums(Sums::new(), now).into_iter().collect()
    }

    #[test]
    fn what_is_under_way_counts_for_what_the_thread_does_now() {
        assert_eq!(sums(&words(ON, 100, 40, 5, NO_CALL, 0, 0), 160), [(Doing::User, 100), (Doing::Kernel, 5)]);
        assert_eq!(sums(&words(ON, 100, 40, 5, 0, 0, 0), 160), [(Doing::User, 40), (Doing::Kernel, 65)]);
        assert_eq!(sums(&words(PREEMPTED, 100, 0, 0, 0, 0, 0), 160), [(Doing::Preempted, 60)]);
        assert_eq!(sums(&words(BLOCKED, 100, 0, 0, 0, 0, READ.0), 160), [(Doing::Waiting(READ), 60)]);
        let woken = words(BLOCKED, 100, 0, 0, 0, 130, READ.0);
        assert_eq!(sums(&woken, 160), [(Doing::Woken, 30), (Doing::Waiting(READ), 30)]);
        // An event after the clock was read: nothing has passed yet.
        assert_eq!(sums(&words(BLOCKED, 200, 0, 0, 0, 0, READ.0), 160), []);
        assert_eq!(sums(&words(BLOCKED, 200, 0, 0, 0, 230, READ.0), 160), []);
        assert!(Live::of(&words(0, 1, 1, 1, 0, 0, 0)).is_none() && Live::of(&words(6, 1, 1, 1, 0, 0, 0)).is_none());
    }

    #[test]
    fn a_thread_is_asleep_for_a_while_from_some_milliseconds_on_unless_it_was_woken() {
        let asleep = |words: &ThreadWords, now| Live::of(words).unwrap().asleep(3, now);
        let blocked = words(BLOCKED, 100, 0, 0, 0, 0, READ.0);
        let is =
            Asleep { slot: 3, tid: 10, pid: 9, process_born: 77, call: 7, argument: 0, since: 100, at: 100 + YOUNGEST };
        assert_eq!((asleep(&blocked, 100 + YOUNGEST), asleep(&blocked, 99 + YOUNGEST)), (Some(is), None));
        assert_eq!(asleep(&words(BLOCKED, 100, 0, 0, 0, 130, READ.0), 100 + YOUNGEST), None);
        assert_eq!(asleep(&words(PREEMPTED, 100, 0, 0, 0, 0, READ.0), 100 + YOUNGEST), None);
    }

    fn record(began: u64, ended: u64, user: u64, waited: u64) -> Record {
        let cell = Cell { kind: READ, ns: waited, ..Cell::default() };
        Record { tid: 10, process_born: 77, began, ended, user, cells: vec![cell], ..Record::default() }
    }

    fn looks(of: &[(u64, &[(Doing, u64)])]) -> TimelineSamples {
        let look =
            |(at, sums): &(u64, &[(Doing, u64)])| Snapshot { round: 1, at: *at, sums: sums.iter().copied().collect() };
        let watched = Watched { samples: of.iter().map(look).collect(), ..Watched::default() };
        TimelineSamples { watched: [((10, 77), watched)].into(), ..TimelineSamples::default() }
    }

    #[test]
    fn slices_hold_what_the_sums_grew_by_and_together_all_of_it() {
        let wait = Doing::Waiting(READ);
        let looks = looks(&[
            (50, &[(Doing::User, 999)]),
            (150, &[(Doing::User, 50)]),
            (250, &[(Doing::User, 60), (wait, 90)]),
            (350, &[(Doing::User, 60), (wait, 190)]),
        ]);
        let slices = looks.of(&record(100, 400, 80, 220));
        let seen: Vec<_> = slices.iter().map(|grown| (grown.from, grown.until)).collect();
        assert_eq!(seen, [(100, 150), (150, 250), (250, 350), (350, 400)], "a look before its beginning is of no use");
        let sum = |doing| slices.iter().filter_map(|grown| grown.sums.get(&doing)).sum::<u64>();
        assert_eq!((sum(Doing::User), sum(wait)), (80, 220));
        assert_eq!(slices[2].sums, [(wait, 100)].into());
    }

    #[test]
    fn what_a_look_took_for_something_else_moves_to_what_it_was() {
        let wait = Doing::Waiting(READ);
        // It had come back from a call that was not watched; and what seemed to be a wait was one for a CPU.
        let looks = looks(&[
            (200, &[(Doing::User, 10), (Doing::Kernel, 90)]),
            (300, &[(Doing::User, 10), (Doing::Kernel, 190)]),
            (400, &[(Doing::User, 210), (wait, 90)]),
        ]);
        let mut ended = record(100, 500, 230, 0);
        ended.cells = vec![Cell { kind: Kind(1 | WOKEN << 8), ns: 170, ..Cell::default() }];
        let slices: Vec<_> = looks.of(&ended).into_iter().map(|grown| grown.sums).collect();
        let (user, woken) = (|ns| Sums::from([(Doing::User, ns)]), |ns| (Doing::Woken, ns));
        let last = Sums::from([(Doing::User, 20), woken(80)]);
        assert_eq!(slices, [user(100), user(100), Sums::from([(Doing::User, 10), woken(90)]), last]);
    }

    #[test]
    fn a_thread_that_nobody_looked_at_is_one_slice() {
        let slices = TimelineSamples::default().of(&record(100, 400, 80, 220));
        assert_eq!(slices.len(), 1);
        assert_eq!(slices[0].sums, [(Doing::User, 80), (Doing::Waiting(READ), 220)].into());
    }

    #[test]
    fn however_long_it_takes_looks_are_few_and_evenly_apart() {
        let mut looks = looks(&[]);
        for _ in 0..10_000 {
            looks.round += 1;
            let every = looks.skipped + 1;
            if looks.round.is_multiple_of(every) {
                let look = Snapshot { round: looks.round, at: looks.round, sums: Sums::new() };
                looks.watched.get_mut(&(10, 77)).unwrap().samples.push(look);
                looks.thin(every);
            }
        }
        let kept = &looks.watched[&(10, 77)].samples;
        assert!(kept.len() as u64 <= MAX_LOOKS && kept.len() as u64 >= MAX_LOOKS / 2 - 1, "{}", kept.len());
        assert!(kept.windows(2).all(|pair| pair[1].at - pair[0].at == kept[0].at));
    }
}
