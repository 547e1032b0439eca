//! What Method R says of the components of a task's time, and from which share on it mentions them, as data: one file of YAML, which
//! `rdiag check` holds against all that it names (`playbooks/method-r/components.yaml`).

use std::collections::{BTreeMap, BTreeSet};

use rdiag_model::Component;
use rdiag_model::profile::{ComponentRow, Saving};
use serde::Deserialize;

/// The advice on all components.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AdviceBook {
    /// Must be 1.
    pub format_version: u32,
    /// From which share on something is mentioned.
    pub mentioned: Mentioned,
    /// What to look at next, by name; `{target}` becomes the option that selects the task, `{again}` the command that is to run meanwhile.
    pub steps: BTreeMap<String, String>,
    /// A step in place of another one, both by name, where it is known in which functions most of a component's time went.
    pub where_code_is_known: BTreeMap<String, String>,
    /// Steps, by name, where waits after wake-ups are for CPUs that were idle: in place of those of the component.
    pub slow_wake_ups: Vec<String>,
    /// What is said of each component.
    pub components: BTreeMap<Component, Advice>,
    /// Accounts, and what is mentioned of them.
    pub tests: Vec<Case>,
}

/// Shares, 0–1, from which on something is mentioned.
#[derive(Debug, Clone, Copy, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Mentioned {
    /// Of the observed time: a further component in the headline. The largest always is.
    pub headline: f64,
    /// Of the observed time: that nothing is known of the rest, in the headline.
    pub unaccounted: f64,
    /// Of the observed time: next steps for a component.
    pub next_steps: f64,
    /// Of the response time: what may be lost of a saving, and what adds up to a goal.
    pub saving: f64,
    /// Of the response time: a row of the forecast.
    pub forecast: f64,
    /// Of the window: the waits that a chain of wakers begins with.
    pub chain: f64,
    /// Of what the slow runs take longer than the fast ones: what a component grew by.
    pub growth: f64,
    /// Of the observed time: a component whose rules may be named as what is behind it all.
    pub behind: f64,
    /// Of the observed time: what such a component must hold if that share is one of the busy time.
    pub behind_of_all: f64,
}

impl Mentioned {
    /// Whether the rules that explain a component may be what is behind it all.
    #[must_use]
    pub fn may_be_behind(&self, row: &ComponentRow) -> bool {
        let of_busy = row.busy_share.is_some_and(|share| share >= self.behind);
        row.share >= self.behind || row.share >= self.behind_of_all && of_busy
    }
}

/// What is said of a component.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Advice {
    /// Whether its time can be saved.
    pub saving: Saving,
    /// What one can do about it, or why nothing: full sentences.
    pub says: String,
    /// Steps, by name.
    pub next: Vec<String>,
}

impl AdviceBook {
    /// Whether time of a kind can be saved; what is not known is the time of others.
    pub(super) fn saving(&self, component: Component) -> Saving {
        self.components.get(&component).map_or(Saving::Elsewhere, |advice| advice.saving)
    }

    /// What one can do about a component, in sentences.
    #[must_use]
    pub fn says(&self, component: Component) -> &str {
        self.components.get(&component).map_or("", |advice| &advice.says)
    }

    /// The texts of a component's steps, with their holes.
    #[must_use]
    pub fn next(&self, component: Component) -> Vec<&str> {
        let named = self.components.get(&component).map(|advice| advice.next.as_slice()).unwrap_or_default();
        self.texts(named)
    }

    /// The same, where it is known in which functions most of its time went.
    pub(super) fn next_with_code(&self, component: Component) -> Vec<&str> {
        let named = self.components.get(&component).map(|advice| advice.next.as_slice()).unwrap_or_default();
        let known = |name: &String| self.where_code_is_known.get(name).unwrap_or(name).clone();
        self.texts(&named.iter().map(known).collect::<Vec<_>>())
    }

    /// The texts of the steps where idle CPUs take long to wake up, with their holes.
    pub(super) fn on_slow_wake_ups(&self) -> Vec<&str> {
        self.texts(&self.slow_wake_ups)
    }

    fn texts(&self, named: &[String]) -> Vec<&str> {
        named.iter().filter_map(|name| self.steps.get(name).map(String::as_str)).collect()
    }
}

/// An account of the one thread of a process, and what is mentioned of it; what stands in no list is not.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Case {
    /// Seconds of each component in one second; the rest is unaccounted.
    pub given: BTreeMap<Component, f64>,
    /// Of these, seconds of waits that another thread ended.
    #[serde(default)]
    pub woken: BTreeMap<Component, f64>,
    /// How long it may take, in seconds.
    #[serde(default)]
    pub goal: Option<f64>,
    /// Components that the headline names.
    pub headline: BTreeSet<Component>,
    /// Whether the headline says how much is unaccounted.
    #[serde(default)]
    pub unaccounted: bool,
    /// Components with next steps.
    pub next_steps: BTreeSet<Component>,
    /// Components with a row in the forecast.
    pub forecast: BTreeSet<Component>,
    /// Components whose rules may be behind it all.
    pub behind: BTreeSet<Component>,
    /// Components that a chain of wakers begins with.
    #[serde(default)]
    pub chain: BTreeSet<Component>,
    /// Components that are to shrink for the goal.
    #[serde(default)]
    pub less: BTreeSet<Component>,
}
