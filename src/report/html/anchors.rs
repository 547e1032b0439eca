//! Where on the page a finding stands.

use std::collections::BTreeMap;

use crate::causes::Fired;
use crate::groups::Group;
use rdiag_model::{Finding, Kind, Report, Resource};

/// The places of the findings that the page has room for, by their places in the report.
pub(super) struct FindingAnchors {
    by_index: BTreeMap<usize, usize>,
}

impl FindingAnchors {
    /// Of the first findings of what fired, in the order of the page.
    pub(super) fn of_fired(report: &Report, fired: &Fired<'_>, most: usize) -> Self {
        let problems = fired.problems.iter().flat_map(|problem| std::iter::once(&problem.lead).chain(&problem.also));
        let all = problems.chain(&fired.notes).chain(&fired.history);
        let places = all.filter_map(|group: &Group<'_>| index(report, group.lead));
        Self { by_index: places.take(most).zip(1..).collect() }
    }

    /// The anchor of the finding at a place of the report's list.
    pub(super) fn of(&self, index: usize) -> Option<String> {
        self.by_index.get(&index).map(|at| format!("finding-{at}"))
    }

    /// The anchor of a finding of the report.
    pub(super) fn of_finding(&self, report: &Report, finding: &Finding) -> Option<String> {
        self.of(index(report, finding)?)
    }

    /// The first finding about a cell of the matrix.
    pub(super) fn of_cell(&self, report: &Report, resource: Resource, kind: Kind) -> Option<String> {
        let is_about = |finding: &Finding| finding.resource == resource && finding.kind == kind;
        let places = self.by_index.iter().filter(|(index, _)| report.findings.get(**index).is_some_and(is_about));
        places.min_by_key(|(_, at)| **at).map(|(_, at)| format!("finding-{at}"))
    }
}

fn index(report: &Report, finding: &Finding) -> Option<usize> {
    report.findings.iter().position(|other| std::ptr::eq(other, finding))
}
