//! Windows that begin within another one. What was promised to take 10 s takes 10 s: as soon as the condition of a step holds, its collectors and
//! probes begin, in a window of their own that ends with the first one.
//!
//! Conditions are looked at on a thread of its own, and each drill-down has one, so that neither judging nor attaching holds up the samples of the
//! first window. All are judged when they are over, and each by its own length.

use std::io;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, TryRecvError, channel};
use std::thread::{Scope, ScopedJoinHandle};
use std::time::Duration;

use super::group::judges_groups;
use super::probing::ProbeShares;
use super::provisional::{self, Provisional};
use super::record::{self, Costs, Follow, Recorded, SoFar, WindowSpec};
use super::run::{Observer, collectors_for, probes_for, work_of};
use crate::playbook::{Plan, PlannedStep};
use rdiag_kernel::host::SharedHost;
use rdiag_kernel::host::rights::Phase;
use rdiag_model::{Recording, Target, Window};

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
/// Share of one CPU that judging all rules may take for who wants to see what comes.
const SHOWING: f64 = 0.005;
/// From one such judgement to the next, in seconds, at least.
const SHOWN_EVERY: f64 = 1.0;

/// Windows that end together do so within this time; one whose attaching took long ends later.
const TOGETHER: Duration = Duration::from_millis(200);

/// What all windows of a run have in common.
#[derive(Clone, Copy)]
pub(super) struct Run<'r> {
    pub(super) host: &'r SharedHost,
    pub(super) plan: &'r Plan,
    pub(super) target: &'r Target,
    /// On the host's clock.
    pub(super) began: f64,
    pub(super) stop: &'r AtomicBool,
}

impl Run<'_> {
    /// A window of its own for some steps, the run's `window`th.
    pub(super) fn spec(&self, steps: &[&PlannedStep], window: usize) -> WindowSpec {
        WindowSpec {
            steps: steps.iter().map(|planned| planned.step.id.clone()).collect(),
            collectors: collectors_for(steps),
            probes: probes_for(steps, &self.probed(), self.plan.budget, window),
            target: self.target.clone(),
            duration: self.plan.duration,
            until: None,
            interval: self.plan.interval,
            begin_at: None,
            then: None,
            shares: Arc::new(ProbeShares::default()),
        }
    }

    /// What probes look at. Where one control group is judged on its host, rules about the host ask them who is behind it, and that may be a
    /// neighbour.
    fn probed(&self) -> Target {
        let cgroup = self.target.cgroup.clone().filter(|_| !judges_groups(self.plan));
        Target { cgroup, ..self.target.clone() }
    }

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

/// Records a window, and within it those of the `drills` whose conditions hold early enough, and enters them into the recording. `gives_up` if
/// nothing is attached after these. Whether none was ended early, and what each collector took.
pub(super) fn windows(
    run: &mut Run<'_>,
    mut spec: WindowSpec,
    drills: Option<&Vec<PlannedStep>>,
    gives_up: bool,
    recording: &mut Recording,
    observer: &mut dyn Observer,
) -> io::Result<(bool, Costs)> {
    let narrows = gives_up.then(|| Phase::Measuring(work_of(run.plan)));
    if drills.is_none() {
        spec.then = narrows;
    }
    let all = run;
    let run = *all;
    std::thread::scope(|scope| {
        let watch = drills.map(|drills| ConditionWatch {
            run,
            scope,
            provisional: Provisional::new(run.host.facts(), run.plan, run.target, drills),
            shares: Arc::clone(&spec.shares),
            then: observer.gives_up_rights().then(|| Phase::Measuring(work_of(run.plan))),
            begun: 0,
        });
        let mut first = First {
            run,
            scope,
            watch,
            begun: None,
            narrows,
            next_show: 0.0,
            has_probes: !spec.probes.is_empty(),
            inner: Vec::new(),
            recording,
            observer,
        };
        let recorded = record::window(run.host, &spec, run.began, run.stop, &mut first)?;
        all.began = first.run.began;
        first.conclude(recorded)
    })
}

/// Looks at the conditions of steps while the first window runs, by short windows of its own: some collectors give all they have only at the end
/// of one.
struct ConditionWatch<'s, 'e, 'r> {
    run: Run<'r>,
    scope: &'s Scope<'s, 'e>,
    provisional: Provisional<'r>,
    shares: Arc<ProbeShares>,
    /// What a drill-down needs once everything is attached.
    then: Option<Phase>,
    /// How many have begun.
    begun: usize,
}

impl<'s, 'r: 'e, 'e> ConditionWatch<'s, 'e, 'r> {
    /// Looks until all steps are wanted, or too little is left of the window that ends at `ends`.
    fn go_on(mut self, ends: f64, tell: &Sender<io::Result<Begun<'s, 'r>>>) {
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
            if !wanted.is_empty() && tell.send(self.begin(wanted, ends, least)).is_err() {
                return;
            }
            length = (self.run.first_look() * NEXT_SHARE).max((host.now() - began) * NEXT_SHARE_OF_ALL);
        }
    }

    /// Begins a window for some steps that ends when the first one does.
    fn begin(&mut self, steps: Vec<&'r PlannedStep>, ends: f64, least: f64) -> io::Result<Begun<'s, 'r>> {
        let run = self.run;
        self.begun += 1;
        let mut spec = run.spec(&steps, self.begun);
        spec.duration = least;
        spec.until = Some(ends);
        spec.shares = Arc::clone(&self.shares);
        spec.then = self.then;
        let (tell, unread) = channel();
        let (go_on, going_on) = channel();
        let mut told = Told { has_probes: !spec.probes.is_empty(), tell, going_on };
        let seconds = (ends - run.host.now()).max(least);
        let record = move || record::window(run.host, &spec, run.began, run.stop, &mut told);
        let thread = std::thread::Builder::new().name("rdiag-drill".into()).spawn_scoped(self.scope, record)?;
        Ok(Begun { steps, seconds, inner: Inner { thread, unread: Some((unread, go_on)) } })
    }
}

/// A drill-down that has begun.
struct Begun<'s, 'r> {
    steps: Vec<&'r PlannedStep>,
    seconds: f64,
    inner: Inner<'s>,
}

/// A look has no follower.
struct NoFollower;

impl Follow for NoFollower {
    fn measured(&mut self, _: &dyn Fn() -> Window) {}
}

/// Follows the first window, and has others begin.
struct First<'s, 'e, 'r, 'o> {
    run: Run<'r>,
    scope: &'s Scope<'s, 'e>,
    watch: Option<ConditionWatch<'s, 'e, 'r>>,
    /// The drill-downs that begin, as long as any can.
    begun: Option<Receiver<io::Result<Begun<'s, 'r>>>>,
    /// What is given up when none can begin any more.
    narrows: Option<Phase>,
    next_show: f64,
    has_probes: bool,
    inner: Vec<Inner<'s>>,
    recording: &'o mut Recording,
    observer: &'o mut dyn Observer,
}

/// A window that runs within the first one.
struct Inner<'s> {
    thread: ScopedJoinHandle<'s, io::Result<Recorded>>,
    /// What it has read before its probes are, which it does once the other side has let go.
    unread: Option<(Receiver<Window>, Sender<()>)>,
}

impl First<'_, '_, '_, '_> {
    /// Takes over the drill-downs that have begun; waits for those that may still begin if `is_last`.
    fn take_over(&mut self, is_last: bool) -> io::Result<()> {
        let Some(all) = &self.begun else { return Ok(()) };
        loop {
            let next = if is_last { all.recv().map_err(|_| TryRecvError::Disconnected) } else { all.try_recv() };
            match next {
                Ok(begun) => {
                    let Begun { steps, seconds, inner } = begun?;
                    self.observer.window(&steps, seconds, true);
                    self.inner.push(inner);
                }
                Err(TryRecvError::Empty) => return Ok(()),
                Err(TryRecvError::Disconnected) => break,
            }
        }
        self.begun = None;
        Ok(())
    }

    /// Tells who wants to know what would follow if the window ended here; not at its end, which is judged anyway.
    fn show(&mut self, so_far: &SoFar<'_, '_>) {
        let (host, seconds) = (self.run.host, so_far.seconds().0);
        let now = host.now();
        let is_soon = seconds < SHOWN_EVERY * 0.99 || now < self.next_show || so_far.ticks.0 >= so_far.ticks.1;
        if is_soon || host.is_recorded() || !self.observer.wants_findings() {
            return;
        }
        let before = host.thread_usage();
        let findings = provisional::all(host.facts(), self.run.plan, self.run.target, so_far);
        self.next_show = now + ((host.thread_usage() - before) / SHOWING).max(SHOWN_EVERY * 0.99);
        self.observer.findings(seconds, findings);
    }

    /// Writes down what is known, with what those of the other windows tell within `patience` that have probes to read, and lets these go on.
    fn keep_unread(&mut self, patience: Option<Duration>) {
        let before = self.recording.windows.len();
        let mut released = Vec::new();
        for inner in &mut self.inner {
            let Some((unread, go_on)) = inner.unread.take() else { continue };
            let told = match patience {
                Some(patience) => unread.recv_timeout(patience).map_err(|error| error == RecvTimeoutError::Timeout),
                None => unread.recv().map_err(|_| false),
            };
            match told {
                Ok(window) => {
                    self.recording.windows.push(window);
                    released.push(go_on);
                }
                Err(is_late) => inner.unread = is_late.then_some((unread, go_on)),
            }
        }
        if self.recording.windows.len() > before || patience.is_some() && self.has_probes {
            let was = std::mem::replace(&mut self.recording.interrupted, true);
            self.observer.keep(self.recording);
            self.recording.interrupted = was;
        }
        self.recording.windows.truncate(before);
    }

    /// Enters all windows into the recording, when the first one is over: whether none was ended early, and what each collector took.
    fn conclude(mut self, first: Recorded) -> io::Result<(bool, Costs)> {
        let Recorded { window, mut completed, mut costs } = first;
        self.recording.windows.push(window);
        self.take_over(true)?;
        self.keep_unread(None);
        for Inner { thread, .. } in self.inner {
            let ended = |_| io::Error::other("the thread of a drill-down ended");
            let recorded = thread.join().map_err(ended)??;
            self.recording.windows.push(recorded.window);
            completed &= recorded.completed;
            for (collector, seconds) in recorded.costs {
                *costs.entry(collector).or_default() += seconds;
            }
        }
        Ok((completed, costs))
    }
}

impl<'s, 'e, 'r: 'e> Follow for First<'s, 'e, 'r, '_> {
    fn begun(&mut self, so_far: &SoFar<'_, '_>) -> io::Result<()> {
        self.observer.begun();
        if let (began, Some(awaited)) = so_far.began() {
            self.run.began = began;
            self.recording.started.clone_from(&awaited.started);
            self.recording.setup.begin = Some(awaited.begin.clone());
        }
        let Some(mut watch) = self.watch.take() else { return Ok(()) };
        watch.run.began = self.run.began;
        let (tell, begun) = channel();
        let ends = so_far.ends();
        let look = move || watch.go_on(ends, &tell);
        std::thread::Builder::new().name("rdiag-look".into()).spawn_scoped(self.scope, look)?;
        self.begun = Some(begun);
        Ok(())
    }

    fn sampled(&mut self, so_far: &SoFar<'_, '_>) -> io::Result<Option<Phase>> {
        let (seconds, all) = so_far.seconds();
        self.observer.progress(if all > 0.0 { seconds / all } else { 1.0 });
        self.take_over(false)?;
        self.show(so_far);
        Ok(if self.begun.is_none() { self.narrows.take() } else { None })
    }

    fn measured(&mut self, known: &dyn Fn() -> Window) {
        // A step whose window could not begin is unknown in the report.
        let _ = self.take_over(false);
        if self.has_probes || !self.inner.is_empty() {
            self.recording.windows.push(known());
            self.keep_unread(Some(TOGETHER));
            self.recording.windows.pop();
        }
    }
}

/// Follows a window that runs within another: it waits until what it has read is written down, before it reads its probes.
struct Told {
    has_probes: bool,
    tell: Sender<Window>,
    going_on: Receiver<()>,
}

impl Follow for Told {
    fn measured(&mut self, known: &dyn Fn() -> Window) {
        if self.has_probes && self.tell.send(known()).is_ok() {
            // Nothing is ever sent: the other side lets go.
            let _ = self.going_on.recv();
        }
    }
}
