//! The tests that advice carries: an account of one second, and what is to be mentioned of it.

use std::collections::{BTreeMap, BTreeSet};

use rdiag_model::ledger::{Accuracy, Ledger, Level, Part, Target, Thread};
use rdiag_model::profile::{Conversation, Profile};
use rdiag_model::{Component, quantity};
use serde::Deserialize;

use super::{AdviceBook, Input, profile};

/// An account of the one thread of a process, and what is mentioned of it; what stands in no list is not.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Case {
    /// Seconds of each component in one second; the rest is unaccounted.
    pub given: BTreeMap<Component, f64>,
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
    /// Components that are to shrink for the goal.
    #[serde(default)]
    pub less: BTreeSet<Component>,
}

/// Where a threshold stands in a book.
type Threshold = fn(&mut AdviceBook) -> &mut f64;

impl AdviceBook {
    /// What each test that fails expected, and what was mentioned instead.
    #[must_use]
    pub fn failures(&self) -> Vec<String> {
        self.tests.iter().enumerate().flat_map(|(at, case)| case.failures(at + 1, self)).collect()
    }

    /// The thresholds that could be a tenth higher or lower without a test that fails.
    #[must_use]
    pub fn untested(&self) -> Vec<String> {
        let all: [(&str, Threshold); 5] = [
            ("headline", |book| &mut book.mentioned.headline),
            ("unaccounted", |book| &mut book.mentioned.unaccounted),
            ("next_steps", |book| &mut book.mentioned.next_steps),
            ("saving", |book| &mut book.mentioned.saving),
            ("forecast", |book| &mut book.mentioned.forecast),
        ];
        let mut untested = Vec::new();
        for (name, threshold) in all {
            for changed in [0.9, 1.1] {
                let mut book = self.clone();
                let value = threshold(&mut book);
                let (was, is) = (*value, *value * changed);
                *value = is;
                if book.failures().is_empty() {
                    untested.push(format!("no test tells {name}: {was} from {}", quantity::number(is)));
                }
            }
        }
        untested
    }
}

impl Case {
    fn failures(&self, number: usize, book: &AdviceBook) -> Vec<String> {
        let profile = self.profile(book);
        let headline = &profile.answer.headline;
        let named = Component::ALL.iter().filter(|component| headline.contains(component.def().phrase));
        let rows = profile.components.iter().filter(|row| !row.next.is_empty()).map(|row| row.id);
        let goal = profile.forecast.goal.iter().flat_map(|goal| &goal.reductions);
        let lists: [(&str, &BTreeSet<Component>, BTreeSet<Component>); 4] = [
            ("headline", &self.headline, named.copied().collect()),
            ("next_steps", &self.next_steps, rows.collect()),
            ("forecast", &self.forecast, profile.forecast.rows.iter().map(|row| row.id).collect()),
            ("less", &self.less, goal.map(|(component, _)| *component).collect()),
        ];
        let mut failures = Vec::new();
        for (list, expected, found) in lists {
            if *expected != found {
                let ids = |all: &BTreeSet<Component>| {
                    all.iter().map(|component| component.id()).collect::<Vec<_>>().join(", ")
                };
                failures.push(format!("test {number}: {list} is [{}], not [{}]", ids(&found), ids(expected)));
            }
        }
        if headline.contains("is unaccounted") != self.unaccounted {
            failures.push(format!("test {number}: the headline is: {headline}"));
        }
        failures
    }

    fn profile(&self, book: &AdviceBook) -> Profile {
        let part = |(component, seconds): (&Component, &f64)| Part {
            component: *component,
            call: String::new(),
            key: String::new(),
            seconds: *seconds,
            accuracy: Accuracy::Exact,
            edge_seconds: 0.0,
            open: 0,
            durations: None,
        };
        let parts = self.given.iter().map(part).collect();
        let of = |tid: u32| Thread { tid, pid: tid, comm: "task".into(), stands_for: 1, ..Thread::default() };
        let thread = Thread { ended: 1.0, seconds: 1.0, parts, ..of(1) };
        let ledger = Ledger { level: Level::L3, ended: 1.0, threads: vec![thread], ..Ledger::default() };
        profile(Input {
            ledger: &ledger,
            source: "test",
            refused: Vec::new(),
            window: 0,
            window_seconds: 1.0,
            suspended_seconds: 0.0,
            target: &Target { pids: vec![1], ..Target::default() },
            conversation: Conversation {
                now_seconds: self.goal.map(|_| 1.0),
                goal_seconds: self.goal,
                ..Conversation::default()
            },
            cpus: None,
            observing: 0.0,
            advice: book,
        })
    }
}
