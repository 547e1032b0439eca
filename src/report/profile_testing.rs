//! Profiles of hand-made accounts, and reports of them.

use std::collections::BTreeMap;

use super::build;
use super::sample::recording;
use crate::accounts::{part, run};
use crate::parts::Parts;
use rdiag_judge::profile::{Input, profile};
use rdiag_model::ledger::{Ledger, Part, Thread};
use rdiag_model::profile::Conversation;
use rdiag_model::report::PlaybookInfo;
use rdiag_model::{Component as C, Finding, Profile, Report, Target, Unavailable};
use rdiag_playbook::advice;

/// A program that sleeps in every fifth run.
pub(super) fn napping(call: &str) -> Vec<Thread> {
    let one = |number: u32| {
        let mut parts = vec![part(C::CpuUser, 0.08 + f64::from(number % 3) * 0.01), part(C::CpuSys, 0.02)];
        if number % 5 == 4 {
            parts.push(Part { call: call.into(), ..part(C::WaitSleep, 1.0) });
        }
        run(100 + number, 10, f64::from(number) * 2.0, parts)
    };
    (0..20).map(one).collect()
}

/// The profile of an account that a probe made in a window of 10 s.
pub(super) fn profile_of(ledger: &Ledger, target: &Target, conversation: Conversation) -> Profile {
    profile(input(ledger, target, conversation))
}

/// What that profile is made of.
pub(super) fn input<'l>(ledger: &'l Ledger, target: &'l Target, conversation: Conversation) -> Input<'l> {
    Input {
        ledger,
        source: "response",
        refused: Vec::new(),
        window: 0,
        window_seconds: 10.0,
        suspended_seconds: 0.0,
        target,
        conversation,
        cpus: None,
        observing: 0.0,
        advice: advice::book(),
    }
}

/// A task that has this long for one execution.
pub(super) fn goal(seconds: f64) -> Conversation {
    Conversation { goal_seconds: Some(seconds), ..Conversation::default() }
}

/// The report of a profile, with findings about the sample's host beside it.
pub(super) fn report_of(profile: Result<Profile, Unavailable>, findings: Vec<Finding>) -> Report {
    build(Parts {
        recording: &recording(),
        metrics: &[],
        findings,
        profile: Some(profile),
        answer: None,
        steps: Vec::new(),
        playbook: PlaybookInfo {
            name: "method-r".into(),
            title: "Method R: where the time of one task goes".into(),
            params: BTreeMap::new(),
        },
        titles: &super::sample::metric,
        probes: &|_| None,
        levels: &BTreeMap::new(),
        may_be_behind: &|row| advice::book().mentioned.may_be_behind(row),
    })
}
