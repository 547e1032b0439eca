//! Windows that begin within another one. What was promised to take 10 s takes 10 s: as soon as the condition of a step holds, its
//! collectors and probes begin, in a window of their own that ends with the first one.
//!
//! Conditions are judged on a thread of its own, on parts of what the first window has read, and each drill-down has one, so that neither
//! judging nor attaching holds up the samples of the first window. All are judged when they are over, and each by its own length.

mod conditions;

use std::collections::BTreeSet;
use std::io;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, TryRecvError, TrySendError, channel, sync_channel};
use std::thread::Scope;
use std::time::Duration;

use self::conditions::{ConditionWatch, InnerWindow, PartSchedule, StartedDrill};
use super::group::judges_groups;
use super::probing::ProbeShares;
use super::provisional;
use super::record::{self, Costs, Follow, Recorded, SoFar, WindowSpec};
use super::run::{Observer, collectors_for, probes_for, work_of};
use rdiag_kernel::host::SharedHost;
use rdiag_kernel::host::release_memory;
use rdiag_kernel::host::rights::Phase;
use rdiag_model::{Recording, Target, Window};
use rdiag_playbook::{Plan, PlannedStep};
use rdiag_proc::Pressure;

/// Share of one CPU that judging all rules may take for who wants to see what comes.
const SHOWING: f64 = 0.002;
/// From one such judgement to the next, in seconds, at least.
const SHOWN_EVERY: f64 = 1.0;

/// Percent of the last ten seconds in which tasks stalled, on a host whose memory and disks are calm.
const CALM: f64 = 1.0;

/// Windows that end together do so within this time; one whose attaching took long ends later.
const TOGETHER: Duration = Duration::from_millis(200);

/// What all windows of a run have in common.
#[derive(Clone, Copy)]
pub(super) struct RunContext<'r> {
    pub(super) host: &'r SharedHost,
    pub(super) plan: &'r Plan,
    pub(super) target: &'r Target,
    /// On the host's clock.
    pub(super) began: f64,
    pub(super) stop: &'r AtomicBool,
}

impl RunContext<'_> {
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

    /// What probes look at. Where one control group is judged on its host, rules about the host ask them who is behind it, and that may be
    /// a neighbour.
    fn probed(&self) -> Target {
        let cgroup = self.target.cgroup.clone().filter(|_| !judges_groups(self.plan));
        Target { cgroup, ..self.target.clone() }
    }
}

/// Records a window, and within it those of the `drills` whose conditions hold early enough, and enters them into the recording. `gives_up`
/// if nothing is attached after these. Whether none was ended early, and what each collector took.
pub(super) fn windows(
    context: &mut RunContext<'_>,
    mut spec: WindowSpec,
    drills: Option<&Vec<PlannedStep>>,
    gives_up: bool,
    recording: &mut Recording,
    observer: &mut dyn Observer,
) -> io::Result<(bool, Costs)> {
    let run = *context;
    let narrows = gives_up.then(|| Phase::Measuring(work_of(run.plan)));
    if drills.is_none() {
        spec.then = narrows;
    }
    std::thread::scope(|scope| {
        let then = observer.gives_up_rights().then(|| Phase::Measuring(work_of(run.plan)));
        let watch = drills.map(|drills| ConditionWatch::new(run, scope, drills, &spec.shares, then));
        let mut first = FirstFollower {
            run,
            scope,
            watch,
            looking: None,
            begun: None,
            began: 0.0,
            ends: 0.0,
            narrows,
            next_show: 0.0,
            has_probes: !spec.probes.is_empty(),
            inner: Vec::new(),
            recording,
            observer,
        };
        let recorded = record::window(run.host, &spec, run.began, run.stop, &mut first)?;
        context.began = first.run.began;
        first.conclude(recorded)
    })
}

/// Follows the first window, and has others begin.
struct FirstFollower<'s, 'e, 'r, 'o> {
    run: RunContext<'r>,
    scope: &'s Scope<'s, 'e>,
    watch: Option<ConditionWatch<'s, 'e, 'r>>,
    /// What the conditions are judged on, as long as a drill-down can begin.
    looking: Option<Looking<'r>>,
    /// The drill-downs that begin, as long as any can.
    begun: Option<Receiver<io::Result<StartedDrill<'s, 'r>>>>,
    /// When the window began and ends, on the host's clock.
    began: f64,
    ends: f64,
    /// What is given up when none can begin any more.
    narrows: Option<Phase>,
    next_show: f64,
    has_probes: bool,
    inner: Vec<InnerWindow<'s>>,
    recording: &'o mut Recording,
    observer: &'o mut dyn Observer,
}

/// Parts of the first window on their way to the thread that judges them.
struct Looking<'r> {
    schedule: PartSchedule,
    /// Of which parts are made, and those of them that give what is judged.
    collectors: [BTreeSet<&'r str>; 2],
    parts: SyncSender<Window>,
}

impl FirstFollower<'_, '_, '_, '_> {
    /// Seconds since the window began, and those that are left of it.
    fn times(&self) -> (f64, f64) {
        let now = self.run.host.now();
        (now - self.began, self.ends - now)
    }

    /// Hands over what the conditions are to be judged on next. It ends where a drill-down would be too short, or all have begun.
    fn look(&mut self, so_far: &mut SoFar<'_, '_>) -> io::Result<()> {
        let (now, left) = self.times();
        let Some(Looking { schedule, collectors: [all, _], parts }) = &mut self.looking else { return Ok(()) };
        let mut goes_on = !schedule.is_late(left);
        if schedule.is_due(now, left) {
            let from = schedule.ended();
            let part = so_far.part((from, now), |collector| all.contains(collector))?;
            match parts.try_send(part) {
                Ok(()) => schedule.take(now),
                // The last one is still judged: the next part is the longer.
                Err(TrySendError::Full(_)) => {}
                Err(TrySendError::Disconnected(_)) => goes_on = false,
            }
        }
        if !goes_on {
            self.looking = None;
        }
        Ok(())
    }

    /// Takes over the drill-downs that have begun; waits for those that may still begin if `is_last`.
    fn take_over(&mut self, is_last: bool) -> io::Result<()> {
        let Some(all) = &self.begun else { return Ok(()) };
        loop {
            let next = if is_last { all.recv().map_err(|_| TryRecvError::Disconnected) } else { all.try_recv() };
            match next {
                Ok(begun) => {
                    let StartedDrill { steps, seconds, inner } = begun?;
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

    /// Writes down what is known, with what those of the other windows tell within `patience` that have probes to read, and lets these go
    /// on.
    fn keep_unread(&mut self, patience: Option<Duration>) {
        let before = self.recording.windows.len();
        let mut released = Vec::new();
        for inner in &mut self.inner {
            let Some((unread, release)) = inner.unread.take() else { continue };
            let received = match patience {
                Some(patience) => unread.recv_timeout(patience).map_err(|error| error == RecvTimeoutError::Timeout),
                None => unread.recv().map_err(|_| false),
            };
            match received {
                Ok(window) => {
                    self.recording.windows.push(window);
                    released.push(release);
                }
                Err(is_late) => inner.unread = is_late.then_some((unread, release)),
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
        self.looking = None;
        self.take_over(true)?;
        self.keep_unread(None);
        for InnerWindow { thread, .. } in self.inner {
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

impl<'s, 'e, 'r: 'e> Follow for FirstFollower<'s, 'e, 'r, '_> {
    fn begun(&mut self, so_far: &SoFar<'_, '_>) -> io::Result<()> {
        if is_calm(self.run.host) {
            // What only the start needs (the readers of playbooks and of the kernel's types) is most of what is resident by now.
            release_memory();
        }
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
        (self.began, self.ends) = (so_far.began().0, ends);
        let (hand_over, parts) = sync_channel(1);
        self.looking =
            Some(Looking { schedule: PartSchedule::of(self.run), collectors: watch.collectors(), parts: hand_over });
        let look = move || watch.judge(&parts, ends, &tell);
        std::thread::Builder::new().name("rdiag-look".into()).spawn_scoped(self.scope, look)?;
        self.begun = Some(begun);
        Ok(())
    }

    fn asks(&self, collector: &str) -> bool {
        let (now, left) = self.times();
        self.looking.as_ref().is_some_and(|Looking { schedule, collectors: [_, cited], .. }| {
            cited.contains(collector) && schedule.is_due(now, left)
        })
    }

    fn sampled(&mut self, so_far: &mut SoFar<'_, '_>) -> io::Result<Option<Phase>> {
        let (seconds, all) = so_far.seconds();
        self.observer.progress(if all > 0.0 { seconds / all } else { 1.0 });
        self.look(so_far)?;
        self.take_over(false)?;
        self.show(so_far);
        Ok(if self.begun.is_none() { self.narrows.take() } else { None })
    }

    fn measured(&mut self, known: &dyn Fn() -> Window) {
        self.looking = None;
        // A step whose window could not begin is unknown in the report.
        let _ = self.take_over(false);
        if self.has_probes || !self.inner.is_empty() {
            self.recording.windows.push(known());
            self.keep_unread(Some(TOGETHER));
            self.recording.windows.pop();
        }
    }
}

/// Whether pages of the program that are given back will be there when they are needed: not where memory or its disk is short.
fn is_calm(host: &SharedHost) -> bool {
    let stalled = |of: &str| {
        let text = host.read(&format!("/proc/pressure/{of}")).ok()?;
        Pressure::parse(text.as_bytes(), "some")?.avg10()
    };
    !host.is_recorded() && ["memory", "io"].into_iter().all(|of| stalled(of).is_some_and(|percent| percent < CALM))
}
