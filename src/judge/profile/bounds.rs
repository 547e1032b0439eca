//! The bounds of one forecast: what follows if everything beside the saved part stays on the path, and what follows if something else,
//! which runs beside it, then bounds the time.

use rdiag_model::Component;
use rdiag_model::quantity;

use super::account::{Account, ThreadAccount, share};
use super::forecast::Basis;
use super::slack::{Lost, Pacer, outside};

/// What a component of joined threads, or of children side by side, may not gain.
const BESIDE: &str = "Threads or children that ran in parallel may take as long; the upper bound assumes that they do.";
/// Standard errors of an estimate that its bounds hold on each side.
const ERRORS: f64 = 2.0;
/// Threads that are named.
const MAX_NAMES: usize = 2;

impl Basis<'_> {
    /// R with so much left of a component of so many seconds, as [lowest, highest].
    pub(super) fn bounds(&self, id: Component, seconds: f64, kept: f64, account: &Account<'_>) -> [f64; 2] {
        let (response, saved) = (self.response, seconds * (1.0 - kept));
        if self.adds_up {
            let after = response - saved;
            // No wakeup follows a wait that does not happen, and what needs less CPU time is preempted and throttled less.
            let preempted = self.wakeups.preempted_after(id, &self.parts);
            let woken = self.wakeups.after(id, &self.parts) + preempted + with_cpu_time(id, seconds, self);
            let called = self.calls.get(&id).copied().unwrap_or(0.0);
            let floor = self.slack.as_ref().map_or(0.0, |slack| slack.floor(id, kept) * self.scale).min(response);
            let more = self.slack.as_ref().map_or(0.0, |slack| slack.at_most_more(id, kept) * self.scale);
            let error = self.error(id, kept);
            let least = (after - error - more - (woken + called) * (1.0 - kept)).max(floor) - self.uncertain;
            let lost = (self.lost(id, saved, kept).seconds + self.beside(id, kept)).min(saved);
            return [least.max(0.0), (after + lost + error + self.uncertain).max(floor).min(response)];
        }
        // Side by side: nothing at least, and no more than leaves the busiest thread its other work.
        let remaining = |thread: &ThreadAccount<'_>| {
            let own = thread.parts.get(&id).copied().unwrap_or(0.0);
            let busy = thread.busy() - if account.is_idle(id) { 0.0 } else { own * (1.0 - kept) };
            busy * self.scale
        };
        let floor = account.threads.iter().map(remaining).fold(0.0, f64::max);
        let lowest = (response - saved).max(floor) - self.uncertain - self.error(id, kept);
        [lowest.clamp(0.0, response), response]
    }

    /// By how much a saving may be larger or smaller, as the part is an estimate.
    fn error(&self, id: Component, kept: f64) -> f64 {
        ERRORS * self.errors.get(&id).copied().unwrap_or(0.0) * (1.0 - kept)
    }

    /// What is left of the time that observing took, if so much of a component is: it is system time.
    pub(super) fn observing_left(&self, id: Component, kept: f64) -> f64 {
        self.observing * if id == Component::CpuSys { kept } else { 1.0 }
    }

    /// What of a saving waits may take, of so many seconds.
    fn lost(&self, id: Component, saved: f64, kept: f64) -> Lost {
        match &self.slack {
            Some(slack) => {
                let lost = slack.lost(id, kept);
                Lost { seconds: (lost.seconds * self.scale).min(saved), ..lost }
            }
            None => {
                let to = outside(&self.parts, self.response, id);
                Lost { seconds: if to.is_empty() { 0.0 } else { saved }, to }
            }
        }
    }

    /// What of a saving in joined threads others that ran beside them may take.
    fn beside(&self, id: Component, kept: f64) -> f64 {
        let in_joined = self.joined.get(&id).copied().unwrap_or(0.0) * (1.0 - kept);
        let surely = self.slack.as_ref().map_or(0.0, |slack| slack.surely_saved(id, kept) * self.scale);
        (in_joined - surely).max(0.0)
    }

    /// Why less may be gained than the part has, in words that complete those for a goal; none where it is certain.
    pub(super) fn at_best(&self, id: Component, seconds: f64) -> Option<&'static str> {
        let is_worth = |lost: f64| lost > self.book.mentioned.saving * self.response;
        if is_worth(self.beside(id, 0.0)) {
            return Some("what ran in parallel to the threads and children that it waited for may take as long");
        }
        is_worth(self.lost(id, seconds, 0.0).seconds).then_some("its waits for what goes on beside it may grow instead")
    }

    /// The most that can be saved of a component of so many seconds, whatever of it vanishes.
    pub(super) fn most(&self, id: Component, seconds: f64) -> f64 {
        let floor = self.slack.as_ref().map_or(0.0, |slack| slack.floor(id, 0.0) * self.scale);
        seconds.min((self.response - floor).max(0.0))
    }

    /// Why the forecast of a component is a range, a sentence each; nothing where nothing beside it can take what is saved.
    pub(super) fn why_a_range(&self, id: Component, seconds: f64) -> Vec<String> {
        let is_worth = |lost: f64| self.adds_up && lost > self.book.mentioned.saving * self.response;
        let mut why = Vec::new();
        let error = self.error(id, 0.0);
        if error > self.book.mentioned.saving * self.response {
            let seconds = quantity::seconds(error);
            why.push(format!("It is an estimate: the bounds allow for an error of {seconds} on each side."));
        }
        if is_worth(self.beside(id, 0.0)) {
            why.push(BESIDE.to_owned());
        }
        let lost = if self.adds_up { self.lost(id, seconds, 0.0) } else { Lost::default() };
        if !is_worth(lost.seconds) {
            return why;
        }
        let (mut waits, mut threads) = (Vec::new(), Vec::new());
        for pacer in lost.to {
            match pacer {
                Pacer::Outside(component) => waits.push(component.id()),
                Pacer::Thread(name) => threads.push(name),
            }
        }
        if !waits.is_empty() {
            why.push(format!(
                "If its waits ({}) end at times that it does not set (a clock, input), what is saved only lengthens them.",
                waits.join(", ")
            ));
        }
        if let Some(more) = threads.len().checked_sub(1) {
            // One more takes no more room than saying so.
            let others = more.checked_sub(MAX_NAMES - 1).filter(|more| *more > 1);
            threads.truncate(others.map_or(MAX_NAMES + 1, |_| MAX_NAMES));
            let others = others.map_or(String::new(), |more| format!(" and {more} others"));
            why.push(format!(
                "{}{others} ran in parallel and may become the bottleneck; the upper bound assumes that.",
                threads.join(", ")
            ));
        }
        why
    }
}

/// Waits for a CPU that come with CPU time, and go with it: those of a task that had one. The share of them that goes with so many seconds.
fn with_cpu_time(id: Component, seconds: f64, basis: &Basis<'_>) -> f64 {
    if !id.on_cpu() {
        return 0.0;
    }
    let sum = |wanted: fn(Component) -> bool| -> f64 {
        basis.parts.iter().filter(|(component, _)| wanted(**component)).map(|(_, part)| part).sum()
    };
    let taken = sum(|component| matches!(component, Component::Runq | Component::RunqPreempt | Component::Throttled));
    taken * share(seconds, sum(Component::on_cpu)).min(1.0)
}
