//! Whether the conditions of steps hold while the first window runs, and the windows that begin where they do.

use std::io;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::{Scope, ScopedJoinHandle};

use super::super::probing::ProbeShares;
use super::super::provisional::Provisional;
use super::super::record::{self, Follow, Recorded, WindowSpec};
use super::RunContext;
use crate::playbook::{Plan, PlannedStep};
use rdiag_kernel::host::rights::Phase;
use rdiag_model::Window;

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

/// Looks at the conditions of steps while the first window runs, by short windows of its own: some collectors give all they have only at
/// the end of one.
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

    /// Looks until all steps are wanted, or too little is left of the window that ends at `ends`.
    pub(super) fn look_until(mut self, ends: f64, begun: &Sender<io::Result<StartedDrill<'s, 'r>>>) {
        let (host, least) = (self.run.host, self.run.least());
        let began = host.now();
        let mut length = self.run.first_look();
        while !self.provisional.is_over() && ends - (host.now() + length) >= least * 0.99 {
            let spec = WindowSpec {
                collectors: self.provisional.collectors(),
                duration: length,
                interval: length,
                ..self.run.spec(&[], 0)
            };
            let Ok(Recorded { window, completed: true, .. }) =
                record::window(host, &spec, self.run.began, self.run.stop, &mut NoFollower)
            else {
                return;
            };
            let wanted = self.provisional.wanted(&window);
            if !wanted.is_empty() && begun.send(self.begin(wanted, ends, least)).is_err() {
                return;
            }
            length = (self.run.first_look() * NEXT_SHARE).max((host.now() - began) * NEXT_SHARE_OF_ALL);
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

/// A look has no follower.
struct NoFollower;

impl Follow for NoFollower {
    fn measured(&mut self, _: &dyn Fn() -> Window) {}
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
