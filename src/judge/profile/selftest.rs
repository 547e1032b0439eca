//! The tests that advice carries: an account of one second, and what is to be mentioned of it.

use std::collections::BTreeSet;

use rdiag_model::ledger::{Accuracy, Ledger, Level, Link, Part, Target, Thread, Waker, WakerEdge, WakerKind};
use rdiag_model::profile::{Conversation, Profile};
use rdiag_model::{Component, quantity};

use super::book::{AdviceBook, Case};
use super::{Input, profile};

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
        let all: [(&str, Threshold); 8] = [
            ("headline", |book| &mut book.mentioned.headline),
            ("unaccounted", |book| &mut book.mentioned.unaccounted),
            ("next_steps", |book| &mut book.mentioned.next_steps),
            ("saving", |book| &mut book.mentioned.saving),
            ("forecast", |book| &mut book.mentioned.forecast),
            ("chain", |book| &mut book.mentioned.chain),
            ("behind", |book| &mut book.mentioned.behind),
            ("behind_of_all", |book| &mut book.mentioned.behind_of_all),
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

/// The components that a headline names. The phrase of one may be part of another's, so the longest are looked for first.
fn named(headline: &str) -> BTreeSet<Component> {
    let mut all: Vec<Component> = Component::ALL.to_vec();
    all.sort_by_key(|component| std::cmp::Reverse(component.def().phrase.len()));
    let mut rest = headline.to_owned();
    let mut found = BTreeSet::new();
    for component in all {
        let without = rest.replace(component.def().phrase, "\n");
        if without != rest {
            found.insert(component);
            rest = without;
        }
    }
    found
}

impl Case {
    fn failures(&self, number: usize, book: &AdviceBook) -> Vec<String> {
        let profile = self.profile(book);
        let headline = &profile.answer.headline;
        let rows = profile.components.iter().filter(|row| !row.next.is_empty()).map(|row| row.id);
        let goal = profile.forecast.goal.iter().flat_map(|goal| &goal.reductions);
        let behind = profile.components.iter().filter(|row| book.mentioned.may_be_behind(row));
        let first_links = profile.chains.iter().filter_map(|chain| chain.links.first());
        let lists: [(&str, &BTreeSet<Component>, BTreeSet<Component>); 6] = [
            ("headline", &self.headline, named(headline)),
            ("next_steps", &self.next_steps, rows.collect()),
            ("forecast", &self.forecast, profile.forecast.rows.iter().map(|row| row.id).collect()),
            ("behind", &self.behind, behind.map(|row| row.id).collect()),
            ("chain", &self.chain, first_links.map(|link| link.component).collect()),
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
        let by = Waker { kind: WakerKind::Thread, pid: 2, tid: 2, comm: "waker".into() };
        let link = |(component, seconds): (&Component, &f64)| {
            let edge = WakerEdge { component: *component, waker: by.clone(), seconds: *seconds, count: 1 };
            Link { tid: 1, pid: 1, comm: "task".into(), edge }
        };
        let links = self.woken.iter().map(link).collect();
        let ledger = Ledger { level: Level::L3, ended: 1.0, threads: vec![thread], links, ..Ledger::default() };
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_phrase_that_is_part_of_another_names_its_component_alone() {
        let all = Component::ALL.iter().map(|component| (*component, component.def().phrase));
        for (component, phrase) in all {
            assert_eq!(named(&format!("took 1.0 s: {phrase} 90.0 %")), BTreeSet::from([component]), "{phrase}");
        }
        assert!(named("nothing").is_empty());
    }
}
