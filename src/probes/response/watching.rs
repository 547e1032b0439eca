//! When system calls are watched. What sees them puts every call of the whole host on the kernel's slow path, so of a process that runs it
//! is attached for short parts only, which are spread over the time: a program does not do in its first second what it does later. Another
//! thread takes it away again. A command's calls are watched all the time for as long as they are few.
//!
//! A call counts if it ends while calls are watched; its time is as much of it as was watched. A thread that blocks tells its call by its
//! registers at any time, so a wait of hours has its share of each part, and `Call::stands_for` scales both to the whole.

use std::sync::atomic::AtomicBool;
use std::thread::JoinHandle;

use super::first_calls::FirstCalls;
use rdiag_kernel::host::Clock;
use rdiag_kernel::mechanism::ebpf::{Held, Object, Twin};
use rdiag_model::Unavailable;

/// Where calls are watched. The end comes first, so that none that is seen to begin is missed at its end.
pub(super) const EVENTS: [&str; 2] = ["sys_exit", "sys_enter"];
/// The watches in turn, and the element of `control` that has the number of the latest.
const WATCHES: &str = "watches";
const CONTROL: &str = "control";
const NUMBER: u32 = 2;
/// A part of each such time is watched, at a moment of it that no program can guess. In ns.
pub(super) const PERIOD: u64 = 1_000_000_000;
/// Of which so much is watched where that was not said.
const PART: u64 = 50_000_000;
/// A command that makes fewer calls per second is slowed down by less than a percent.
const FEW_CALLS: f64 = 20_000.0;
/// Whether a command makes few is asked after this time, in ns; before that, whether it has made as many as that would be.
pub(super) const FIRST: u64 = 500_000_000;

/// How calls are to be watched.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum CallWatching {
    Never,
    Always,
    /// All the time while they are few, then as below.
    WhileFew(u64),
    /// This many ns of each second.
    Parts(u64),
}

impl CallWatching {
    /// The next cheaper one, and what it is; `is_whole` if calls are watched all the time now. What was watched stands for the rest, too.
    fn cheaper(self, is_whole: bool) -> Option<(Self, &'static str)> {
        match (self, is_whole) {
            (Self::Never, _) => None,
            (Self::WhileFew(length), true) => Some((Self::Parts(length), PARTS_ONLY)),
            (Self::Always, true) => Some((Self::Parts(PART), PARTS_ONLY)),
            _ => Some((Self::Never, "system calls are no longer watched")),
        }
    }
}

const PARTS_ONLY: &str = "system calls are watched in parts of the time only";

/// What was watched so far; instants and times in ns of CLOCK_MONOTONIC.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Watched {
    /// From when until when all the time.
    pub(super) whole: Option<(u64, u64)>,
    /// Since when parts only, and these.
    pub(super) parts_from: Option<u64>,
    parts: Vec<(u64, u64)>,
}

/// The programs at work.
#[derive(Debug)]
pub(super) struct Watching {
    mode: CallWatching,
    number: u64,
    held: Vec<Held>,
    /// While all are watched, and they may turn out to be many: what is held then.
    first: Option<FirstCalls<Held>>,
    /// Less is watched since the latest poll: what was before cost more.
    eased: bool,
    part: Option<JoinHandle<()>>,
    next: u64,
    random: u64,
    watched: Watched,
}

impl Watched {
    /// Whether calls were watched all the time until then.
    pub(super) fn all_until(&self, ended: u64) -> bool {
        self.whole.is_some() && self.parts_from.is_none_or(|from| ended <= from)
    }

    /// How much of the time from `began` to `ended` the parts are, of which they are a sample; 1 without any.
    pub(super) fn parts_share(&self, began: u64, ended: u64) -> f64 {
        let Some(from) = self.parts_from else { return 1.0 };
        let whole = ended.saturating_sub(from.max(began));
        let watched = self.parts_within(began, ended);
        if whole == 0 || watched == 0 { 1.0 } else { watched as f64 / whole as f64 }
    }

    /// How much of the time from `began` to `ended` was watched; none if all of it.
    pub(super) fn share(&self, began: u64, ended: u64) -> Option<f64> {
        let from = self.parts_from.filter(|from| *from < ended)?;
        let first = if self.whole.is_some() { from.saturating_sub(began) } else { 0 };
        let watched = first.saturating_add(self.parts_within(began, ended));
        Some((watched as f64 / ended.saturating_sub(began).max(1) as f64).min(1.0))
    }

    fn parts_within(&self, began: u64, ended: u64) -> u64 {
        let within = |(from, until): &(u64, u64)| (*until).min(ended).saturating_sub((*from).max(began));
        self.parts.iter().map(within).sum()
    }
}

impl Watching {
    pub(super) fn new(mode: CallWatching) -> Self {
        let watched = Watched::default();
        Self { mode, number: 0, held: Vec::new(), first: None, eased: false, part: None, next: 0, random: 0, watched }
    }

    pub(super) fn watched(&self) -> &Watched {
        &self.watched
    }

    /// The observation begins now.
    pub(super) fn begin(&mut self, object: &mut Object, now: u64) -> Result<(), Unavailable> {
        self.settle();
        self.watched = Watched::default();
        self.random = now | 1;
        match self.mode {
            CallWatching::Never => Ok(()),
            CallWatching::Always | CallWatching::WhileFew(_) => {
                if self.held.is_empty() {
                    self.held = hold(object)?;
                }
                self.watched.whole = Some((now, u64::MAX));
                self.set(object, [now, u64::MAX, 0, 0, 0])?;
                if matches!(self.mode, CallWatching::WhileFew(_)) {
                    self.look_soon(object, now)?;
                }
                Ok(())
            }
            CallWatching::Parts(_) => self.begin_parts(object, now, 0),
        }
    }

    /// Begins and ends watching as the mode says; `made` tells how many calls have ended so far.
    pub(super) fn poll(
        &mut self,
        object: &mut Object,
        now: u64,
        made: impl FnOnce(&mut Object) -> Result<u64, Unavailable>,
    ) -> Result<(), Unavailable> {
        self.eased = false;
        match &self.first {
            Some(first) if !first.are_over() => return Ok(()),
            _ => self.settle(),
        }
        if let (CallWatching::WhileFew(_), Some((from, u64::MAX))) = (self.mode, self.watched.whole) {
            let passed = now.saturating_sub(from);
            if passed < FIRST || made(object)? as f64 <= FEW_CALLS * passed as f64 * 1e-9 {
                return Ok(());
            }
            self.change_to_parts(object, from, now)?;
        }
        let (CallWatching::WhileFew(length) | CallWatching::Parts(length)) = self.mode else { return Ok(()) };
        if self.part.as_ref().is_some_and(JoinHandle::is_finished) {
            self.part = None;
        }
        if now >= self.next && self.part.is_none() {
            self.watch_part(object, length)?;
            self.plan_next(now);
        }
        Ok(())
    }

    /// Watches less from now on, since it costs too much, and says what (nothing if it does so since the latest poll); none where nothing
    /// is watched any more.
    pub(super) fn relieve(&mut self, object: &mut Object, now: u64) -> Result<Option<&'static str>, Unavailable> {
        self.settle();
        if std::mem::take(&mut self.eased) {
            return Ok(Some(""));
        }
        let from = self.watched.whole.filter(|(_, until)| *until == u64::MAX).map(|(from, _)| from);
        let Some((mode, said)) = self.mode.cheaper(from.is_some()) else { return Ok(None) };
        if let Some(from) = from {
            self.change_to_parts(object, from, now)?;
        }
        self.mode = mode;
        Ok(Some(said))
    }

    /// From here on parts only are watched, and no longer all the time.
    fn change_to_parts(&mut self, object: &mut Object, from: u64, now: u64) -> Result<(), Unavailable> {
        self.watched.whole = Some((from, now));
        self.begin_parts(object, now, now.saturating_sub(from))?;
        self.held.clear();
        self.eased = true;
        Ok(())
    }

    /// Has a thread look before the next poll whether calls are many. Without it the poll decides.
    fn look_soon(&mut self, object: &mut Object, from: u64) -> Result<(), Unavailable> {
        let twins = (object.twin("calls_made"), object.twin(WATCHES), object.twin(CONTROL));
        let (Some(made), Some(watches), Some(control)) = twins else { return Ok(()) };
        let many = (FEW_CALLS * FIRST as f64 * 1e-9) as u64;
        let are_many = move || made.count().is_ok_and(|made| made > many);
        let number = self.number + 1;
        let watch_fewer = move || fewer(from, number, watches, control);
        self.first = FirstCalls::begin(std::mem::take(&mut self.held), are_many, watch_fewer);
        if self.first.is_none() {
            self.held = hold(object)?;
        }
        Ok(())
    }

    /// Takes over what the thread has found that looked before the first polls.
    fn settle(&mut self) {
        let Some(first) = self.first.take() else { return };
        let (held, fewer_since) = first.end();
        self.held = held;
        if let (Some((from, u64::MAX)), Some(now)) = (self.watched.whole, fewer_since) {
            self.number += 1;
            self.watched.whole = Some((from, now));
            self.expect_parts(now);
            self.eased = true;
        }
    }

    /// The observation ended at this instant.
    pub(super) fn end(&mut self, now: u64) {
        self.settle();
        self.held.clear();
        if let Some((_, until)) = &mut self.watched.whole {
            *until = (*until).min(now);
        }
    }

    fn begin_parts(&mut self, object: &mut Object, now: u64, whole: u64) -> Result<(), Unavailable> {
        self.expect_parts(now);
        self.set(object, parts_to_come(now, whole))
    }

    fn expect_parts(&mut self, now: u64) {
        self.watched.parts_from = Some(now);
        self.next = now + self.random() % (PERIOD / 2);
    }

    /// Has calls watched from now on for this long. A thread of its own takes the programs away again, since the next poll comes later.
    fn watch_part(&mut self, object: &mut Object, length: u64) -> Result<(), Unavailable> {
        let before: u64 = self.watched.parts.iter().map(|(from, until)| until - from).sum();
        let held = hold(object)?;
        let from = (Clock::live().now(0) * 1e9) as u64;
        let until = from + length;
        let wait = move || {
            Clock::live().wait_until(until as f64 * 1e-9, &AtomicBool::new(false));
            drop(held);
        };
        // Without another thread there is no such part.
        let name = "rdiag-calls".to_owned();
        self.part = std::thread::Builder::new().name(name).stack_size(128 * 1024).spawn(wait).ok();
        if self.part.is_some() {
            let whole = self.watched.whole.map_or(0, |(from, until)| until - from);
            self.set(object, [from, until, before, 1, whole])?;
            self.watched.parts.push((from, until));
        }
        Ok(())
    }

    /// A moment of the next period. Periods in which there was no look are left out.
    fn plan_next(&mut self, now: u64) {
        let from = self.watched.parts_from.unwrap_or(now);
        let periods = now.saturating_sub(from) / PERIOD + 1;
        self.next = from + periods * PERIOD + self.random() % PERIOD;
    }

    /// The watch that is to be in force: `struct watch`.
    fn set(&mut self, object: &mut Object, watch: [u64; 5]) -> Result<(), Unavailable> {
        self.number += 1;
        object.set_element(WATCHES, place(self.number), watch)?;
        object.set_element(CONTROL, NUMBER, self.number)
    }

    /// Numbers that no program's habits go along with.
    pub(super) fn random(&mut self) -> u64 {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        self.random
    }
}

/// Where the watch of a number is.
fn place(number: u64) -> u32 {
    (number & 1) as u32
}

/// `struct watch`: one that is over as it begins, and after which parts come; so much was watched before, in ns.
fn parts_to_come(now: u64, whole: u64) -> [u64; 5] {
    [now, now, 0, 1, whole]
}

/// Ends the watch of all calls, which began at an instant, with the watch of this number; when that was.
fn fewer(from: u64, number: u64, mut watches: Twin, mut control: Twin) -> Option<u64> {
    let now = (Clock::live().now(0) * 1e9) as u64;
    watches.set(place(number), parts_to_come(now, now.saturating_sub(from))).ok()?;
    control.set(NUMBER, number).ok()?;
    Some(now)
}

fn hold(object: &mut Object) -> Result<Vec<Held>, Unavailable> {
    EVENTS.into_iter().map(|event| object.hold(event)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_costs_too_much_is_watched_in_parts_and_then_no_more() {
        let cheaper = |mode: CallWatching, is_whole| mode.cheaper(is_whole).map(|(mode, _)| mode);
        assert_eq!(cheaper(CallWatching::WhileFew(7), true), Some(CallWatching::Parts(7)));
        assert_eq!(cheaper(CallWatching::Always, true), Some(CallWatching::Parts(PART)));
        assert_eq!(
            [CallWatching::WhileFew(7), CallWatching::Parts(7)].map(|mode| cheaper(mode, false)),
            [Some(CallWatching::Never); 2]
        );
        assert_eq!(cheaper(CallWatching::Never, false), None);
    }

    #[test]
    fn parts_stand_for_the_time_from_the_first_on() {
        let parts = Watched { whole: None, parts_from: Some(1000), parts: vec![(1100, 1150), (2500, 2550)] };
        assert_eq!(parts.parts_share(1000, 3000), 0.05);
        assert_eq!(parts.share(1000, 3000), Some(0.05));
        // One is under way at the end, another would come after it.
        assert_eq!(parts.parts_share(1000, 2525), 75.0 / 1525.0);
        assert_eq!(parts.parts_share(1000, 2000), 0.05);
        assert!(!parts.all_until(900));
        assert_eq!(parts.parts_share(1000, 1050), 1.0, "where there are none, none is scaled");
    }

    #[test]
    fn what_was_watched_all_the_time_is_not_scaled_with_the_parts_after_it() {
        let first = Watched { whole: Some((1000, 2000)), parts_from: Some(2000), parts: vec![(2100, 2200)] };
        assert_eq!((first.parts_share(1000, 3000), first.share(1000, 3000)), (0.1, Some(0.55)));
        assert!(first.all_until(2000) && !first.all_until(2001));
        assert_eq!(first.share(1000, 1900), None, "it ended before");
        let all = Watched { whole: Some((1000, 5000)), ..Watched::default() };
        assert_eq!((all.parts_share(1000, 5000), all.share(1000, 5000)), (1.0, None));
        assert!(all.all_until(5000));
    }
}
