//! What a report is built from.

use std::collections::BTreeMap;

use rdiag_model::finding::Levels;
use rdiag_model::profile::ComponentRow;
use rdiag_model::report::{PlaybookInfo, StepOutcome};
use rdiag_model::{Answer, Finding, MetricDef, Metrics, Profile, Recording, Unavailable};

/// What a report is built from.
pub struct Parts<'p> {
    /// The recording that was judged.
    pub recording: &'p Recording,
    /// The readings of its windows, in order.
    pub metrics: &'p [Metrics],
    /// What the rules concluded, in any order.
    pub findings: Vec<Finding>,
    /// Where the observed task's time went, for playbooks of Method R; or why that could not be told.
    pub profile: Option<Result<Profile, Unavailable>>,
    /// What the symptom comes from, for playbooks that start from one.
    pub answer: Option<Answer>,
    /// The steps of the playbook.
    pub steps: Vec<StepOutcome>,
    /// Which playbook.
    pub playbook: PlaybookInfo,
    /// The definition of a metric, by its id.
    pub titles: &'p dyn Fn(&str) -> Option<&'static MetricDef>,
    /// What a probe is about, by its id.
    pub probes: &'p dyn Fn(&str) -> Option<ProbeTexts>,
    /// The levels of a rule's conditions, by its id: of every rule that has a finding.
    pub levels: &'p BTreeMap<String, Levels>,
    /// Whether the rules that explain a component of a task's time may be what is behind it.
    pub may_be_behind: &'p dyn Fn(&ComponentRow) -> bool,
}

/// What a probe is about.
#[derive(Debug, Clone, Copy)]
pub struct ProbeTexts {
    /// The question it answers.
    pub question: &'static str,
    /// What its figures do not mean.
    pub caveats: &'static str,
    /// Metrics derived from it.
    pub metrics: &'static [MetricDef],
}
