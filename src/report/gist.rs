//! What one screen, and a short comment in a ticket, hold of a report: the problems, what to do next.

use super::groups::{self, Group};
use super::{headline, words};
use rdiag_model::{Finding, Report, Status};

/// Findings with a line of their own.
const MAX_PROBLEMS: usize = 4;
/// Next actions.
const MAX_NEXT: usize = 3;

/// What fired, shortened.
pub(super) struct Gist<'r> {
    /// The first problems, in order.
    pub(super) problems: Vec<Problem<'r>>,
    /// The problems after these.
    pub(super) more: Vec<&'r Finding>,
    /// What is only worth knowing.
    pub(super) notes: Vec<&'r Finding>,
}

/// A problem with a line of its own.
pub(super) struct Problem<'r> {
    /// The instance to look at first.
    pub(super) lead: &'r Finding,
    /// The other instances.
    pub(super) others: Vec<&'r Finding>,
    /// What it says, unless the verdict, or a problem before it, says as much.
    pub(super) sentence: Option<String>,
    /// Who is behind it, unless that is who is behind the problem before it.
    pub(super) who: Option<String>,
}

impl<'r> Gist<'r> {
    pub(super) fn of(report: &'r Report) -> Self {
        let groups = groups::fired(report);
        let mut gist = Self { problems: Vec::new(), more: Vec::new(), notes: Vec::new() };
        let mut named = None;
        for (at, group) in groups.iter().enumerate() {
            let finding = group.lead;
            if finding.status < Status::Warning {
                gist.notes.push(finding);
            } else if gist.problems.len() == MAX_PROBLEMS {
                gist.more.push(finding);
            } else {
                let is_told =
                    report.verdict.headline.detail.contains(&headline::first_sentence(&finding.summary, true));
                let is_news = !is_told && groups::lead_of_cell(&groups, at).is_none();
                let culprit = finding.culprit.as_ref().map(words::culprit);
                gist.problems.push(Problem {
                    lead: finding,
                    others: group.others.clone(),
                    sentence: is_news.then(|| headline::first_sentence(&finding.summary, false)),
                    who: culprit.clone().filter(|_| culprit != named),
                });
                named = culprit;
            }
        }
        gist
    }
}

/// At most three actions, each with whether it changes the host: those that only look come first, and the first of each problem before
/// the second of any.
pub(super) fn next_actions(report: &Report) -> Vec<(String, bool)> {
    let task = report.profile.iter().flat_map(|profile| &profile.components).filter(|row| row.share >= 0.05);
    let mut lists: Vec<_> = task.map(|row| &row.next).collect();
    let groups = groups::fired(report);
    let is_problem = |(at, group): &(usize, &Group<'_>)| {
        group.lead.status >= Status::Warning && groups::lead_of_cell(&groups, *at).is_none()
    };
    lists.extend(groups.iter().enumerate().filter(is_problem).map(|(_, group)| &group.lead.next));
    let longest = lists.iter().map(|list| list.len()).max().unwrap_or(0);
    let mut chosen: Vec<(String, bool)> = Vec::new();
    for changes_host in [false, true] {
        for at in 0..longest {
            for step in lists.iter().filter_map(|list| list.get(at)).filter(|step| step.changes_host == changes_host) {
                let action = (step.action.clone(), changes_host);
                if chosen.len() < MAX_NEXT && !chosen.contains(&action) {
                    chosen.push(action);
                }
            }
        }
    }
    chosen
}
