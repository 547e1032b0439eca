//! How much of a report people are shown; the JSON has everything.

use rdiag_model::{Finding, Report};

/// Findings of one rule with one status: told once, for the worst instance, with the others below it.
pub(super) struct Group<'r> {
    /// The instance to look at first.
    pub(super) lead: &'r Finding,
    /// The other instances, in order.
    pub(super) others: Vec<&'r Finding>,
}

/// What fired, in order, by rule and status.
pub(super) fn fired(report: &Report) -> Vec<Group<'_>> {
    of(&report.findings)
}

/// The same of findings that are in order.
pub(super) fn of(findings: &[Finding]) -> Vec<Group<'_>> {
    let mut groups: Vec<Group<'_>> = Vec::new();
    let mut places = std::collections::BTreeMap::new();
    for finding in findings.iter().filter(|finding| finding.status.fired()) {
        let at = *places.entry((finding.id.as_str(), finding.status)).or_insert(groups.len());
        match groups.get_mut(at) {
            Some(group) => group.others.push(finding),
            None => groups.push(Group { lead: finding, others: Vec::new() }),
        }
    }
    groups
}

/// The finding that was already told about the same cell of the matrix, if there is one: what follows it there tells
/// much the same, and needs less room.
pub(super) fn lead_of_cell<'r>(groups: &[Group<'r>], at: usize) -> Option<&'r Finding> {
    let own = groups.get(at)?.lead;
    let earlier = groups.get(..at)?.iter().map(|group| group.lead);
    earlier.into_iter().find(|lead| lead.resource == own.resource && lead.kind == own.kind)
}
