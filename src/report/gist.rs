//! What one screen, and a short comment in a ticket, hold of a report: the problems.

use super::sentence::first_sentence;
use super::{groups, past, words};
use rdiag_model::report::MatrixRow;
use rdiag_model::{Confidence, Finding, Report, Status};

/// Findings with a line of their own.
const MAX_PROBLEMS: usize = 4;

/// What fired, shortened.
#[derive(Default)]
pub(super) struct Gist<'r> {
    /// The first problems, in order.
    pub(super) problems: Vec<Problem<'r>>,
    /// The problems after these.
    pub(super) more: Vec<&'r Finding>,
    /// What is only worth knowing.
    pub(super) notes: Vec<&'r Finding>,
    /// What happened before the window, which is no news of now.
    pub(super) history: Vec<&'r Finding>,
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
    /// The label of that: `who`, or `where`.
    pub(super) label: &'static str,
}

impl<'r> Gist<'r> {
    pub(super) fn of(report: &'r Report) -> Self {
        let groups = groups::fired(report);
        let mut gist = Self::default();
        let mut named = None;
        for (at, group) in groups.iter().enumerate() {
            let finding = group.lead;
            if finding.is_past() {
                gist.history.push(finding);
            } else if finding.status < Status::Warning {
                gist.notes.push(finding);
            } else if gist.problems.len() >= MAX_PROBLEMS && !gist.is_worst(finding) {
                gist.more.push(finding);
            } else {
                let is_told = report.verdict.headline.detail.contains(&first_sentence(&finding.summary, true));
                let is_news = !is_told && groups::lead_of_cell(&groups, at).is_none();
                let culprit = finding.culprit.as_ref().map(words::culprit);
                gist.problems.push(Problem {
                    lead: finding,
                    others: group.others.clone(),
                    sentence: is_news.then(|| first_sentence(&finding.summary, false)),
                    who: culprit.clone().filter(|_| culprit != named),
                    label: finding.culprit.as_ref().map_or("who", words::who_or_where),
                });
                named = culprit;
            }
        }
        gist
    }

    /// Whether nothing that has a line is as bad: such a finding always has one.
    fn is_worst(&self, finding: &Finding) -> bool {
        self.problems.iter().all(|problem| problem.lead.status < finding.status)
    }

    /// What has no line of its own, by headings.
    pub(super) fn lists(&self) -> [(&'static str, Vec<Named>); 3] {
        let history = named(&self.history).into_iter();
        let history = history.map(|(title, value)| (past::below_heading(&title).to_owned(), value)).collect();
        [("More", named(&self.more)), ("Worth knowing", named(&self.notes)), (past::BEFORE, history)]
    }

    /// How sure the first problem is, what makes it less so, and which of the others is less sure still; none where nothing fired.
    pub(super) fn confidence(&self) -> Option<String> {
        let said = |finding: &Finding| {
            let word = words::confidence(finding.confidence);
            let reason = finding.confidence_reasons.first().filter(|_| finding.confidence < Confidence::High);
            reason.map_or_else(|| word.to_owned(), |reason| format!("{word} ({})", reason.why()))
        };
        let mut leads = self.problems.iter().map(|problem| problem.lead);
        let first = leads.next()?;
        let least = leads.filter(|other| other.confidence < first.confidence).min_by_key(|other| other.confidence);
        let least = least.map(|other| format!("; of {}: {}", words::full_title(other), said(other)));
        Some(format!("{}{}", said(first), least.unwrap_or_default()))
    }
}

/// A title, with the value where it is not 0.
pub(super) type Named = (String, String);

/// Findings that share a line.
pub(super) fn named(all: &[&Finding]) -> Vec<Named> {
    let value = |finding: &Finding| if finding.value == Some(0.0) { String::new() } else { words::value(finding) };
    all.iter().map(|one| (words::full_title(one), value(one))).collect()
}

/// The rows of the matrix, by whether they have something to tell.
pub(super) struct Rows<'r> {
    /// Those with a cell that is neither ok nor without a check.
    pub(super) telling: Vec<&'r MatrixRow>,
    /// Those that were checked and are ok.
    pub(super) quiet: Vec<&'r MatrixRow>,
    /// Those with nothing to check on this host.
    pub(super) unchecked: Vec<&'r MatrixRow>,
}

pub(super) fn rows(report: &Report) -> Rows<'_> {
    let is_quiet = |row: &&MatrixRow| {
        row.cells.iter().all(|cell| matches!(cell.status, None | Some(Status::Ok | Status::Skipped)))
    };
    let is_judged = |row: &&MatrixRow| row.cells.iter().any(|cell| cell.status == Some(Status::Ok));
    let (quiet, telling): (Vec<&MatrixRow>, Vec<&MatrixRow>) = report.matrix.iter().partition(is_quiet);
    let (quiet, unchecked) = quiet.into_iter().partition(is_judged);
    Rows { telling, quiet, unchecked }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample::finding;

    fn problem(lead: &Finding) -> Problem<'_> {
        Problem { lead, others: Vec::new(), sentence: None, who: None, label: "who" }
    }

    #[test]
    fn what_is_over_has_a_heading_of_its_own_that_no_title_repeats() {
        let (now, mut over) =
            (finding("tasks.errors.zombies", Status::Info), finding("memory.errors.oom", Status::Info));
        over.value = Some(0.0);
        over.title = "OOM kills".into();
        over.threshold.conditions.insert("info".into(), "memory.oom_kills_since_boot.count.last > 0".into());
        let report = crate::sample::report(vec![now, over]);
        let [_, (_, notes), history] = Gist::of(&report).lists();
        assert_eq!(notes.len(), 1);
        assert_eq!(history, ("Before the window", vec![("OOM kills (since boot)".to_owned(), String::new())]));
    }

    #[test]
    fn the_confidence_is_that_of_the_first_problem_and_of_one_that_is_less_sure() {
        let sure = finding("cpu.saturation", Status::Critical);
        let mut short = finding("memory.saturation", Status::Warning);
        short.confidence = Confidence::Low;
        short.confidence_reasons = ["the window was only 2 s", "another"].map(|why| why.to_owned().into()).into();
        let said = |problems: Vec<Problem<'_>>| Gist { problems, ..Gist::default() }.confidence();
        assert_eq!(said(Vec::new()), None);
        assert_eq!(said(vec![problem(&sure), problem(&sure)]).unwrap(), "high");
        let title = words::full_title(&short);
        assert_eq!(
            said(vec![problem(&sure), problem(&short)]).unwrap(),
            format!("high; of {title}: low (the window was only 2 s)")
        );
        assert_eq!(said(vec![problem(&short), problem(&sure)]).unwrap(), "low (the window was only 2 s)");
    }
}
