//! The time of a process whose runtime moves the work between its threads, as Go's does: its first thread is parked like any other, so
//! that its life tells nothing. The process was on a CPU while any of its threads was, and waited for one while none was and any could
//! have been.
//!
//! Of the rest of the time only what each thread waited for is known, and not what the work did: threads that are parked wait for work, one
//! that polls does so for the runtime, any other wait is one of the work itself. So those come first, as far as they reach; but none that
//! was as long as the process: what waited so did not hold up its work. What threads did beside each other is divided by their sums.

use std::collections::BTreeMap;

use rdiag_model::Component;
use rdiag_model::component::ThreadState;
use rdiag_model::ledger::Part;

use super::account::{ThreadAccount, clean, share};
use super::serial::{Key, Parts};

/// A wait of this share of a process's life was as long as that.
const WHOLE: f64 = 0.9;

/// What parts are of, in the order in which they get the time that the one before leaves.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Kind {
    OnCpu,
    Runnable,
    /// Waits of the work itself.
    Waits,
    /// The runtime waits for events.
    Polls,
    /// Threads that have nothing to run, the runtime's own one that looks after the others, and waits as long as the process.
    Parked,
}

impl Kind {
    fn of(part: &Part, life: f64) -> Self {
        let longest = part.durations.as_ref().map_or(0.0, |waits| clean(waits.max));
        match part.component {
            component if component.on_cpu() => Self::OnCpu,
            component if component.def().state == ThreadState::Runnable => Self::Runnable,
            Component::WaitPoll => Self::Polls,
            Component::WaitFutex | Component::WaitSleep => Self::Parked,
            // Who starts another program waits for that one to end.
            Component::WaitChild => Self::Waits,
            _ if longest >= WHOLE * life => Self::Parked,
            _ => Self::Waits,
        }
    }
}

/// What the time of such a process went into.
#[derive(Default)]
pub(super) struct AsOne<'l> {
    pub(super) parts: Parts<'l>,
    /// Of its threads' time on CPUs, how much the time of the process had any on one.
    pub(super) weight: f64,
    pub(super) bounds: Bounds,
}

/// How much of each component can have been in the time of a process.
#[derive(Default)]
pub(super) struct Bounds(BTreeMap<Component, Bound>);

#[derive(Default)]
struct Bound {
    /// Of all threads.
    sum: f64,
    /// Of the process, with all else that is of the same kind.
    most: f64,
    /// What it is taken for.
    told: f64,
}

impl Bounds {
    /// Seconds that may be saved beyond those that a component is taken for, where so much of it is left: it may have been alone whenever
    /// others were not.
    pub(super) fn at_most_more(&self, id: Component, kept: f64) -> f64 {
        let more = |bound: &Bound| (bound.sum * (1.0 - kept)).min(bound.most) - bound.told * (1.0 - kept);
        self.0.get(&id).map_or(0.0, more).max(0.0)
    }
}

/// What the time of a process went into, of which this is the first thread and these are all; none if nothing says that they count as one.
/// `name` if it is a child.
pub(super) fn as_one<'l>(first: &ThreadAccount<'l>, all: &[&ThreadAccount<'l>], name: &'l str) -> Option<AsOne<'l>> {
    let together = first.thread.together.as_ref().filter(|_| !all.is_empty())?;
    let life = first.seconds;
    let parts = || all.iter().flat_map(|own| &own.thread.parts).map(|part| (Kind::of(part, life), part));
    let mut sums: BTreeMap<Kind, f64> = BTreeMap::new();
    for (kind, part) in parts() {
        *sums.entry(kind).or_default() += clean(part.seconds);
    }
    let sum = |kind| sums.get(&kind).copied().unwrap_or(0.0);
    // No less than the thread that ran most.
    let busiest = all.iter().map(|own| own.sum_of(Component::on_cpu)).fold(0.0, f64::max);
    let mut left = life;
    let mut seconds: BTreeMap<Kind, f64> = BTreeMap::new();
    for kind in [Kind::OnCpu, Kind::Runnable, Kind::Waits, Kind::Polls, Kind::Parked] {
        let wanted = match kind {
            Kind::OnCpu => clean(together.on_cpu).max(busiest),
            Kind::Runnable => clean(together.runnable),
            _ => f64::INFINITY,
        };
        let own = wanted.min(sum(kind)).min(left);
        left -= own;
        seconds.insert(kind, own);
    }
    let of = |kind| seconds.get(&kind).copied().unwrap_or(0.0);
    let mut result = AsOne { weight: share(of(Kind::OnCpu), sum(Kind::OnCpu)).min(1.0), ..AsOne::default() };
    let mut kinds: BTreeMap<Component, Vec<Kind>> = BTreeMap::new();
    for (kind, part) in parts() {
        // Others that ran beside it may have held it up as long.
        let key = Key { component: part.component, call: &part.call, object: &part.key, child: name, joined: true };
        let told = clean(part.seconds) * share(of(kind), sum(kind)).min(1.0);
        *result.parts.entry(key).or_default() += told;
        let bound = result.bounds.0.entry(part.component).or_default();
        bound.sum += clean(part.seconds);
        bound.told += told;
        let kinds = kinds.entry(part.component).or_default();
        if !kinds.contains(&kind) {
            kinds.push(kind);
            bound.most += of(kind);
        }
    }
    Some(result)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::super::account::Account;
    use super::super::testing::{durations, ledger, part, thread, waits};
    use super::*;
    use rdiag_model::ledger::{Part, Thread, Together};

    /// Seconds by component of a process of ten seconds with these threads, of which some ran, or could have, for so long.
    fn divided(threads: &[&[(Component, f64)]], together: Option<(f64, f64)>) -> Option<BTreeMap<Component, f64>> {
        let parts_of = |parts: &[(Component, f64)]| -> Vec<Part> {
            parts.iter().map(|(component, seconds)| part(*component, *seconds)).collect()
        };
        let numbered = (1..).zip(threads);
        let mut threads: Vec<Thread> = numbered.map(|(tid, parts)| thread(tid, 1, 10.0, parts_of(parts))).collect();
        threads[0].together = together.map(|(on_cpu, runnable)| Together { on_cpu, runnable });
        let ledger = ledger(10.0, threads);
        let account = Account::new(&ledger, false);
        let all: Vec<_> = account.threads.iter().collect();
        let mut sums = BTreeMap::new();
        for (key, seconds) in as_one(all[0], &all, "")?.parts.into_iter().filter(|(_, seconds)| *seconds > 0.0) {
            assert!(key.joined, "others may have held it up as long");
            *sums.entry(key.component).or_insert(0.0) += seconds;
        }
        Some(sums)
    }

    use Component::{CpuSys, CpuUser, IoBlockRead, RunqWakeup, WaitFutex, WaitPoll, WaitSleep};

    #[test]
    fn what_any_thread_did_counts_and_not_that_the_first_one_was_parked() {
        let first: &[_] = &[(WaitFutex, 9.0), (CpuUser, 1.0)];
        let worker: &[_] = &[(CpuUser, 5.0), (CpuSys, 2.0), (RunqWakeup, 1.0), (WaitFutex, 2.0)];
        let poller: &[_] = &[(WaitPoll, 8.0), (WaitFutex, 2.0)];
        let all = divided(&[first, worker, poller], Some((7.0, 1.0))).unwrap();
        // Eight seconds on CPUs, of which one was beside another.
        assert_eq!(all, [(CpuUser, 5.25), (CpuSys, 1.75), (RunqWakeup, 1.0), (WaitPoll, 2.0)].into());
    }

    #[test]
    fn the_works_own_waits_come_before_those_of_the_runtime() {
        let first: &[_] = &[(WaitFutex, 10.0)];
        let reader: &[_] = &[(IoBlockRead, 3.0), (CpuSys, 1.0), (WaitFutex, 6.0)];
        let keeper: &[_] = &[(WaitSleep, 10.0)];
        let all = divided(&[first, reader, keeper, &[(WaitPoll, 4.0)]], Some((1.0, 0.0))).unwrap();
        assert_eq!(all.get(&IoBlockRead), Some(&3.0));
        assert_eq!(all.get(&WaitPoll), Some(&4.0));
        let parked: f64 = [WaitFutex, WaitSleep].iter().filter_map(|wait| all.get(wait)).sum();
        assert!((parked - 2.0).abs() < 1e-9, "{all:?}");
    }

    #[test]
    fn a_wait_as_long_as_the_process_did_not_hold_up_its_work() {
        let mut terminal = waits(Component::WaitTty, "", &[(1, 9.9)]);
        let mut process = thread(1, 1, 10.0, vec![part(WaitFutex, 10.0)]);
        process.together = Some(Together { on_cpu: 2.0, runnable: 0.0 });
        let of = |terminal: &Part, component| {
            let reader = thread(2, 1, 10.0, vec![terminal.clone(), part(CpuUser, 0.1)]);
            let poller = thread(3, 1, 10.0, vec![part(WaitPoll, 8.0), part(CpuUser, 1.9)]);
            let ledger = ledger(10.0, vec![process.clone(), reader, poller]);
            let account = Account::new(&ledger, false);
            let all: Vec<_> = account.threads.iter().collect();
            let parts = as_one(all[0], &all, "").unwrap().parts;
            parts.iter().filter(|(key, _)| key.component == component).map(|(_, seconds)| seconds).sum::<f64>()
        };
        assert!((of(&terminal, WaitPoll) - 8.0).abs() < 1e-9, "the terminal was read without success");
        terminal.durations = Some(durations(&[(99, 0.1)]));
        assert!((of(&terminal, Component::WaitTty) - 8.0).abs() < 1e-9, "line by line");
    }

    #[test]
    fn the_parts_add_up_to_the_life_of_the_process_as_far_as_threads_were_seen() {
        let threads: &[&[_]] = &[&[(WaitFutex, 8.0), (CpuUser, 2.0)], &[(CpuUser, 6.0), (WaitPoll, 4.0)]];
        for together in [(0.0, 0.0), (6.0, 1.0), (1e300, 1e300), (f64::NAN, -1.0), (-1.0, f64::INFINITY)] {
            let all = divided(threads, Some(together)).unwrap();
            let on_cpu = all[&CpuUser];
            assert!((6.0..=8.0).contains(&on_cpu), "no less than the busiest, no more than all: {together:?} {all:?}");
            assert!((all.values().sum::<f64>() - 10.0).abs() < 1e-9, "{together:?} {all:?}");
        }
        // What none of them did belongs to none, and is no number without an end.
        let short = divided(&[&[(WaitFutex, 5e-324), (CpuUser, 1.0)]], Some((1.0, 0.0))).unwrap();
        assert_eq!(short, [(CpuUser, 1.0), (WaitFutex, 5e-324)].into());
    }

    #[test]
    fn what_was_beside_others_may_have_been_alone() {
        // Five seconds of one thread in user mode, then of nine in the kernel.
        let mut process = thread(1, 1, 10.0, vec![part(CpuUser, 5.0)]);
        process.together = Some(Together { on_cpu: 10.0, runnable: 0.0 });
        let nine = (2..11).map(|tid| thread(tid, 1, 10.0, vec![part(CpuSys, 5.0)]));
        let ledger = ledger(10.0, [process].into_iter().chain(nine).collect());
        let account = Account::new(&ledger, false);
        let all: Vec<_> = account.threads.iter().collect();
        let bounds = as_one(all[0], &all, "").unwrap().bounds;
        let told: f64 = 10.0 * 5.0 / 50.0;
        assert!((told + bounds.at_most_more(CpuUser, 0.0) - 5.0).abs() < 1e-9);
        assert!((told / 2.0 + bounds.at_most_more(CpuUser, 0.5) - 2.5).abs() < 1e-9);
        assert_eq!(bounds.at_most_more(WaitPoll, 0.0), 0.0);
    }

    #[test]
    fn threads_of_any_other_program_count_one_by_one() {
        assert_eq!(divided(&[&[(WaitFutex, 10.0)], &[(CpuUser, 10.0)]], None), None);
    }
}
