//! Waits for a CPU after a wakeup, in a forecast: each follows a wait for something else, and goes with it.

use std::collections::{BTreeMap, BTreeSet};

use rdiag_model::Component;

use super::account::{ThreadAccount, clean, share};

/// Waits for a CPU of this mean length (seconds) and below are what it takes the kernel to switch: no other task stands before them.
const SWITCHING: f64 = 100e-6;

/// What is known of the waits for a CPU.
#[derive(Default)]
pub(super) struct Wakeups {
    /// Waits for a CPU that no other task stood before: more CPUs or a higher priority save nothing of them.
    switching: BTreeSet<Component>,
    /// Of all wakeups, the share that ended waits of this component.
    after: BTreeMap<Component, f64>,
}

impl Wakeups {
    /// Of these threads: whose waits are another one's wakeups is not known.
    pub(super) fn of(threads: &[&ThreadAccount<'_>]) -> Self {
        let parts = threads.iter().flat_map(|own| &own.thread.parts);
        let mut waits: BTreeMap<Component, (f64, f64)> = BTreeMap::new();
        for (component, durations) in parts.filter_map(|part| Some((part.component, part.durations.as_ref()?))) {
            let (count, seconds) = waits.entry(component).or_default();
            *count += durations.count as f64;
            *seconds += clean(durations.seconds);
        }
        let queued = [Component::Runq, Component::RunqPreempt, Component::RunqWakeup];
        let is_short = |component: &Component| {
            waits.get(component).is_some_and(|(count, seconds)| *count > 0.0 && share(*seconds, *count) <= SWITCHING)
        };
        let switching = queued.into_iter().filter(is_short).collect();
        waits.retain(|component, _| !component.on_cpu() && !component.runnable());
        let all: f64 = waits.values().map(|(count, _)| count).sum();
        let after = waits.into_iter().map(|(component, (count, _))| (component, share(count, all))).collect();
        Self { switching, after }
    }

    /// Whether a component is no more than the time that switching tasks takes.
    pub(super) fn is_switching(&self, component: Component) -> bool {
        self.switching.contains(&component)
    }

    /// Seconds that tasks waited for a CPU right after waits of a component, of `parts`.
    pub(super) fn after(&self, component: Component, parts: &BTreeMap<Component, f64>) -> f64 {
        let woken = parts.get(&Component::RunqWakeup).copied().unwrap_or(0.0);
        woken * self.after.get(&component).copied().unwrap_or(0.0)
    }

    /// Seconds that tasks were preempted and that may go with waits of a component: a task that wakes up may get a CPU that it shares,
    /// where one that does not sleep has one to itself.
    pub(super) fn preempted_after(&self, component: Component, parts: &BTreeMap<Component, f64>) -> f64 {
        let preempted = parts.get(&Component::RunqPreempt).copied().unwrap_or(0.0);
        preempted * self.after.get(&component).copied().unwrap_or(0.0)
    }
}
