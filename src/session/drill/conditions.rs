//! Whether the conditions of steps hold while the first window runs, and the windows that begin where they do.

use std::collections::BTreeSet;
use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::{Scope, ScopedJoinHandle};

use super::super::probing::ProbeShares;
use super::super::provisional::Provisional;
use super::super::record::{self, Follow, Recorded};
use super::RunContext;
use rdiag_kernel::host::rights::Phase;
use rdiag_model::Window;
use rdiag_playbook::{Plan, PlannedStep};

/// Conditions are first looked at after so many intervals: most rules want three in a row.
const FIRST_INTERVALS: f64 = 3.0;
/// Not before so many seconds, with shorter intervals.
const FIRST_SECONDS: f64 = 1.0;
/// In a short window, after this share of it.
const FIRST_SHARE: f64 = 1.0 / 3.0;
/// In less, what the kernel counts in ticks says nothing.
const FIRST_LEAST: f64 = 0.25;
/// The next look is as long as this part of the first one, or of what is over: in a long window, what begins late is seen later.
const NEXT_SHARE: f64 = 0.5;
const NEXT_SHARE_OF_ALL: f64 = 0.25;
/// A drill-down takes at least this share of the first window, and need not take longer than so many seconds.
const LEAST_SHARE: f64 = 0.25;
const LEAST_SECONDS: f64 = 2.0;

impl RunContext<'_> {
    /// How long a drill-down takes at least.
    fn least(&self) -> f64 {
        (self.plan.duration * LEAST_SHARE).min(LEAST_SECONDS)
    }

    /// How long the first look takes.
    fn first_look(&self) -> f64 {
        let Plan { duration, interval, .. } = self.plan;
        (FIRST_INTERVALS * interval).max(FIRST_SECONDS).min(duration * FIRST_SHARE).max(FIRST_LEAST)
    }
}

/// When the next part of the first window is looked at. All times are seconds of the window by the clock.
pub(super) struct PartSchedule {
    /// How long the first part is, a drill-down at least, and an interval.
    first: f64,
    least: f64,
    interval: f64,
    /// Where the last part ended, and how long the next one is at least.
    ended: f64,
    length: f64,
}

impl PartSchedule {
    pub(super) fn of(run: RunContext<'_>) -> Self {
        let first = run.first_look();
        Self { first, least: run.least(), interval: run.plan.interval, ended: 0.0, length: first }
    }

    /// Whether a part is to be looked at at the end of this interval, with so much left of the window: when it is long enough, or no later
    /// one would leave time for a drill-down.
    pub(super) fn is_due(&self, now: f64, left: f64) -> bool {
        let is_last = self.is_late(left - self.interval) && now > self.first * 0.99;
        !self.is_late(left) && (is_last || now - self.ended >= self.length * 0.99)
    }

    /// Where the next part begins.
    pub(super) fn ended(&self) -> f64 {
        self.ended
    }

    /// Goes on to the part after one that ends now.
    pub(super) fn take(&mut self, now: f64) {
        self.length = (self.first * NEXT_SHARE).max(now * NEXT_SHARE_OF_ALL);
        self.ended = now;
    }

    /// Whether a drill-down that begins with so much left is too short.
    pub(super) fn is_late(&self, left: f64) -> bool {
        left < self.least * 0.99
    }
}

/// Looks at the conditions of steps while the first window runs, on parts of what that has read.
pub(super) struct ConditionWatch<'s, 'e, 'r> {
    pub(super) run: RunContext<'r>,
    scope: &'s Scope<'s, 'e>,
    provisional: Provisional<'r>,
    shares: Arc<ProbeShares>,
    /// What a drill-down needs once everything is attached.
    then: Option<Phase>,
    /// How many have begun.
    begun: usize,
}

impl<'s, 'r: 'e, 'e> ConditionWatch<'s, 'e, 'r> {
    /// Of the conditions of `drills`, which share the cost of their probes with the first window.
    pub(super) fn new(
        run: RunContext<'r>,
        scope: &'s Scope<'s, 'e>,
        drills: &'r [PlannedStep],
        shares: &Arc<ProbeShares>,
        then: Option<Phase>,
    ) -> Self {
        let provisional = Provisional::new(run.host.facts(), run.plan, run.target, drills);
        Self { run, scope, provisional, shares: Arc::clone(shares), then, begun: 0 }
    }

    /// The collectors that it wants parts of, and those of them that give what is judged.
    pub(super) fn collectors(&self) -> [BTreeSet<&'r str>; 2] {
        self.provisional.collectors()
    }

    /// Judges parts until all steps are wanted, or no more come; drill-downs end at `ends`.
    pub(super) fn judge(
        mut self,
        parts: &Receiver<Window>,
        ends: f64,
        begun: &Sender<io::Result<StartedDrill<'s, 'r>>>,
    ) {
        let least = self.run.least();
        // What is handed over while the last part is judged may be over, too.
        let is_over = |run: RunContext<'_>| run.stop.load(Ordering::Relaxed) || ends - run.host.now() < least * 0.95;
        while !self.provisional.is_over() {
            let Ok(part) = parts.recv() else { return };
            if is_over(self.run) {
                return;
            }
            let wanted = self.provisional.wanted(&part);
            if is_over(self.run) || !wanted.is_empty() && begun.send(self.begin(wanted, ends, least)).is_err() {
                return;
            }
        }
    }

    /// Begins a window for some steps that ends when the first one does.
    fn begin(&mut self, steps: Vec<&'r PlannedStep>, ends: f64, least: f64) -> io::Result<StartedDrill<'s, 'r>> {
        let run = self.run;
        self.begun += 1;
        let mut spec = run.spec(&steps, self.begun);
        spec.duration = least;
        spec.until = Some(ends);
        spec.shares = Arc::clone(&self.shares);
        spec.then = self.then;
        let (known, unread) = channel();
        let (release, released) = channel();
        let mut follower = InnerFollower { has_probes: !spec.probes.is_empty(), known, released };
        let seconds = (ends - run.host.now()).max(least);
        let record = move || record::window(run.host, &spec, run.began, run.stop, &mut follower);
        let thread = std::thread::Builder::new().name("rdiag-drill".into()).spawn_scoped(self.scope, record)?;
        Ok(StartedDrill { steps, seconds, inner: InnerWindow { thread, unread: Some((unread, release)) } })
    }
}

/// A drill-down that has begun.
pub(super) struct StartedDrill<'s, 'r> {
    pub(super) steps: Vec<&'r PlannedStep>,
    pub(super) seconds: f64,
    pub(super) inner: InnerWindow<'s>,
}

/// A window that runs within the first one.
pub(super) struct InnerWindow<'s> {
    pub(super) thread: ScopedJoinHandle<'s, io::Result<Recorded>>,
    /// What it has read before its probes are, which it does once it is released: when the sender is dropped.
    pub(super) unread: Option<(Receiver<Window>, Sender<()>)>,
}

/// Follows a window that runs within another: it waits until what it has read is written down, before it reads its probes.
struct InnerFollower {
    has_probes: bool,
    known: Sender<Window>,
    released: Receiver<()>,
}

impl Follow for InnerFollower {
    fn measured(&mut self, known: &dyn Fn() -> Window) {
        if self.has_probes && self.known.send(known()).is_ok() {
            // Nothing is ever sent: the other side drops its end.
            let _ = self.released.recv();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// When parts are looked at, and where they begin.
    fn looks(first: f64, least: f64, interval: f64, duration: f64) -> Vec<(f64, f64)> {
        let mut schedule = PartSchedule { first, least, interval, ended: 0.0, length: first };
        let ticks = (duration / interval).round() as usize;
        let mut taken = Vec::new();
        for now in (1..=ticks).map(|tick| tick as f64 * interval) {
            if schedule.is_due(now, duration - now) {
                taken.push((schedule.ended(), now));
                schedule.take(now);
            }
        }
        taken
    }

    #[test]
    fn parts_follow_each_other_and_the_last_leaves_time_for_a_drill_down() {
        assert_eq!(looks(3.0, 2.0, 1.0, 10.0), [(0.0, 3.0), (3.0, 5.0), (5.0, 7.0), (7.0, 8.0)]);
        assert_eq!(looks(1.0, 0.75, 0.5, 3.0), [(0.0, 1.0), (1.0, 1.5), (1.5, 2.0)]);
    }

    #[test]
    fn a_window_of_one_interval_has_no_part() {
        assert_eq!(looks(3.3, 2.0, 10.0, 10.0), []);
        assert_eq!(looks(0.33, 0.25, 1.0, 1.0), []);
    }

    #[test]
    fn long_intervals_are_parts_of_their_own() {
        assert_eq!(looks(3.3, 2.0, 5.0, 10.0), [(0.0, 5.0)]);
    }

    #[test]
    fn in_a_long_window_parts_grow() {
        let all = looks(3.0, 2.0, 1.0, 60.0);
        assert_eq!((all.first(), all.last()), (Some(&(0.0, 3.0)), Some(&(48.0, 58.0))), "{all:?}");
        assert!(all.windows(2).all(|two| two[0].1 == two[1].0), "{all:?}");
    }
}
