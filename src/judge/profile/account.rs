//! The identity: T of each thread = its components + what is unaccounted − what is over-accounted. The latter two are not netted between
//! threads: what one counts too much does not hide what another lacks.

use std::collections::{BTreeMap, BTreeSet};

use rdiag_model::Component;
use rdiag_model::component::ThreadState;
use rdiag_model::ledger::{Call, Ledger, Link, MAX_LINKS, MAX_SLICES, Slice, Target, Thread, Timeline};
use rdiag_model::profile::{NotFollowed, Population, ThreadRow};

/// No duration is longer than this (30 years): whatever claims to be is nonsense.
const LONGEST: f64 = 1e9;

/// A duration that can be added up: what is no duration counts as 0.
pub(super) fn clean(seconds: f64) -> f64 {
    if seconds.is_finite() && seconds > 0.0 && seconds <= LONGEST { seconds } else { 0.0 }
}

/// Whether a figure had to be cleaned.
pub(super) fn is_absurd(seconds: f64) -> bool {
    // A rounding error below zero is none.
    !(-1e-9..=LONGEST).contains(&seconds)
}

/// A part of a whole; 0 of nothing.
pub(super) fn share(part: f64, whole: f64) -> f64 {
    if whole > 0.0 { part / whole } else { 0.0 }
}

/// All threads, added up.
pub(super) struct Account<'l> {
    pub(super) threads: Vec<ThreadAccount<'l>>,
    /// E.
    pub(super) elapsed: f64,
    /// T.
    pub(super) total: f64,
    pub(super) unaccounted: f64,
    pub(super) over_accounted: f64,
    /// Figures that no duration can have.
    pub(super) absurd: u64,
    /// Threads stand for requests: no time within one is idle.
    pub(super) requests: bool,
    /// The wakers of each thread's waits.
    pub(super) links: &'l [Link],
    /// Calls of all threads.
    pub(super) calls: &'l [Call],
}

/// One thread, added up.
pub(super) struct ThreadAccount<'l> {
    pub(super) thread: &'l Thread,
    /// T.
    pub(super) seconds: f64,
    pub(super) parts: BTreeMap<Component, f64>,
    /// T less the parts, signed.
    pub(super) residual: f64,
    /// It is a request.
    requests: bool,
}

impl<'l> Account<'l> {
    /// `requests`: each thread of the ledger is the time from one mark to another.
    pub(super) fn new(ledger: &'l Ledger, requests: bool) -> Self {
        let threads: Vec<_> = ledger.threads.iter().map(|thread| ThreadAccount::new(thread, requests)).collect();
        let figures = ledger.threads.iter().flat_map(|thread| {
            thread.parts.iter().flat_map(|part| [part.seconds, part.edge_seconds]).chain([thread.seconds])
        });
        Self {
            elapsed: clean(ledger.elapsed()),
            total: threads.iter().map(|thread| thread.seconds).sum(),
            unaccounted: threads.iter().map(|thread| thread.residual.max(0.0)).sum(),
            over_accounted: threads.iter().map(|thread| (-thread.residual).max(0.0)).sum(),
            absurd: figures.filter(|seconds| is_absurd(*seconds)).count() as u64,
            threads,
            requests,
            links: ledger.links.get(..ledger.links.len().min(MAX_LINKS)).unwrap_or_default(),
            calls: &ledger.calls,
        }
    }

    /// The state of a thread in it.
    pub(super) fn state(&self, component: Component) -> ThreadState {
        match component.def().state {
            ThreadState::Idle if self.requests => ThreadState::Sleeping,
            state => state,
        }
    }

    /// Whether time in it is often no part of a response time.
    pub(super) fn is_idle(&self, component: Component) -> bool {
        !self.requests && component.def().idle
    }

    /// Seconds of all components that are wanted.
    pub(super) fn sum_of(&self, wanted: impl Fn(Component) -> bool) -> f64 {
        self.threads.iter().map(|thread| thread.sum_of(&wanted)).sum()
    }

    /// Seconds of one component.
    pub(super) fn component(&self, component: Component) -> f64 {
        self.threads.iter().filter_map(|thread| thread.parts.get(&component)).sum()
    }

    /// The first thread of the command that was started, whose life is the time that its user waits.
    pub(super) fn first_of(&self, target: &Target) -> Option<&ThreadAccount<'l>> {
        // A request of that thread is not its life.
        let first = target.pids.first().filter(|_| target.command.is_some() && !self.requests)?;
        self.threads.iter().find(|thread| thread.thread.tid == *first && thread.seconds > 0.0)
    }

    /// Threads that found no room; none if there was room for all.
    pub(super) fn not_followed(&self) -> Option<NotFollowed> {
        let rows = self.threads.iter().filter(|own| own.thread.is_not_followed());
        let sum = rows.fold(NotFollowed::default(), |sum, own| NotFollowed {
            threads: sum.threads.saturating_add(u64::from(own.thread.stands_for)),
            seconds: sum.seconds + own.seconds,
        });
        (sum.threads > 0).then_some(sum)
    }

    /// How many threads there were, and when.
    pub(super) fn population(&self, ledger: &Ledger) -> Population {
        let mut changes: Vec<(f64, i64)> = Vec::new();
        let not_followed = self.not_followed();
        let (mut start, mut end, mut seen) = (0_u64, 0_u64, not_followed.map_or(0, |beyond| beyond.threads));
        for thread in self.threads.iter().map(|account| account.thread) {
            let count = u64::from(thread.stands_for);
            // Threads that were not seen have no life that could be counted.
            if thread.tid == 0 && thread.parts.iter().all(|part| part.component.on_cpu()) {
                continue;
            }
            seen = seen.saturating_add(count);
            start += if thread.born { 0 } else { count };
            end += if thread.died { 0 } else { count };
            changes.push((thread.began, i64::from(thread.stands_for)));
            changes.push((thread.ended, -i64::from(thread.stands_for)));
        }
        // Who ends at an instant is gone before another begins.
        changes.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
        let (mut now, mut peak) = (0_i64, 0_i64);
        for (_, change) in changes {
            now += change;
            peak = peak.max(now);
        }
        let pids = self.threads.iter().map(|account| account.thread.pid);
        // Rows that sum up threads of several processes have none.
        let processes: BTreeSet<u32> = pids.filter(|pid| *pid != 0).collect();
        Population {
            start,
            peak: u64::try_from(peak).unwrap_or(0),
            end,
            seen,
            unseen: ledger.unseen_threads,
            not_followed,
            mean: share(self.total, self.elapsed),
            processes: processes.len() as u64,
        }
    }
}

impl<'l> ThreadAccount<'l> {
    fn new(thread: &'l Thread, requests: bool) -> Self {
        let seconds = clean(thread.seconds);
        let mut parts: BTreeMap<Component, f64> = BTreeMap::new();
        for part in &thread.parts {
            *parts.entry(part.component).or_default() += clean(part.seconds);
        }
        parts.retain(|_, seconds| *seconds > 0.0);
        let residual = seconds - parts.values().sum::<f64>();
        // Nanoseconds that floating point loses are no residual.
        let residual = if residual.abs() < seconds * 1e-9 { 0.0 } else { residual };
        Self { thread, seconds, parts, residual, requests }
    }

    pub(super) fn sum_of(&self, wanted: impl Fn(Component) -> bool) -> f64 {
        self.parts.iter().filter(|(component, _)| wanted(**component)).map(|(_, seconds)| seconds).sum()
    }

    /// Time in components that are not potentially idle.
    pub(super) fn busy(&self) -> f64 {
        self.sum_of(|component| self.requests || !component.def().idle)
    }

    pub(super) fn row(&self) -> ThreadRow {
        let mut parts: Vec<(Component, f64)> =
            self.parts.iter().map(|(component, seconds)| (*component, *seconds)).collect();
        parts.sort_by(|a, b| b.1.total_cmp(&a.1));
        ThreadRow {
            tid: self.thread.tid,
            pid: self.thread.pid,
            comm: self.thread.comm.clone(),
            kernel: self.thread.kernel,
            seconds: self.seconds,
            busy_seconds: self.busy(),
            born: self.thread.born,
            died: self.thread.died,
            parts,
            unaccounted_seconds: self.residual.max(0.0),
            over_accounted_seconds: (-self.residual).max(0.0),
        }
    }

    /// `postgres (thread 4711)`.
    pub(super) fn name(&self) -> String {
        match (self.thread.tid, self.thread.stands_for) {
            (0, 0 | 1) => self.thread.comm.clone(),
            (0, count) => format!("{} ({count} threads)", self.thread.comm),
            (tid, _) => format!("{} (thread {tid})", self.thread.comm),
        }
    }
}

/// A timeline within the window, in order, without overlap and without absurd parts.
pub(super) fn clean_timeline(timeline: &Timeline, ledger: &Ledger) -> Timeline {
    let end = clean(ledger.elapsed());
    let mut slices: Vec<Slice> = Vec::new();
    for slice in timeline.slices.iter().take(MAX_SLICES) {
        let after = slices.last().map_or(0.0, |last| last.until);
        let (from, until) = (slice.from.max(after), slice.until.min(end));
        if from < until {
            let parts = slice.parts.iter().map(|(component, seconds)| (*component, clean(*seconds)));
            slices.push(Slice { from, until, parts: parts.filter(|(_, seconds)| *seconds > 0.0).collect() });
        }
    }
    Timeline { tid: timeline.tid, slices }
}
