//! What the sentence and the steps of a finding lack as long as its rule sees nothing else: a rule is judged alone, and its steps are the
//! same on every host. Here each finding is read beside the others of its run, before anything is made of it.

mod answered;
mod deleted;
mod frozen;
mod limits;
mod niced;
mod refaults;
mod unseen;

use rdiag_model::{Evidence, Finding, NextStep, Recording};

/// Completes the findings of a run, in whatever order they are.
pub(super) fn complete(findings: &mut [Finding], recording: &Recording) {
    let host = &recording.host;
    let judged = answered::judged(findings);
    let hits = limits::hits(findings);
    let held = deleted::held(findings);
    let writers = frozen::writers(recording);
    let parent = unseen::parent(findings);
    for finding in findings {
        answered::complete(finding, &judged, &host.kernel);
        limits::complete(finding, &hits);
        deleted::complete(finding, &held);
        refaults::complete(finding, host);
        frozen::complete(finding, &writers);
        niced::complete(finding);
        unseen::complete(finding, parent.as_deref());
    }
}

/// What a finding read of a metric.
fn reading<'f>(finding: &'f Finding, metric: &str) -> Option<&'f Evidence> {
    finding.evidence.iter().find(|reading| reading.metric == metric)
}

/// The mean of a metric that a finding read.
fn mean(finding: &Finding, metric: &str) -> Option<f64> {
    reading(finding, metric)?.mean
}

/// Says each step in other words, or leaves it out.
fn reword(finding: &mut Finding, words: impl Fn(&str) -> Option<String>) {
    let steps = std::mem::take(&mut finding.next);
    let told = |step: NextStep| words(&step.action).map(|action| NextStep { action, ..step });
    finding.next = steps.into_iter().filter_map(told).collect();
}

#[cfg(test)]
mod tests {
    use super::super::sample::finding;
    use rdiag_model::{Evidence, Finding, NextStep, Status, Unit};

    /// A finding with what it read: metric, mean and total.
    pub(super) fn having(id: &str, status: Status, read: &[(&str, f64, f64)]) -> Finding {
        let evidence = |(metric, mean, total): &(&str, f64, f64)| Evidence {
            metric: (*metric).to_owned(),
            instance: None,
            window: 0,
            mean: Some(*mean),
            max: Some(*mean),
            total: Some(*total),
            unit: Unit::Ratio,
            source: String::new(),
        };
        Finding { evidence: read.iter().map(evidence).collect(), ..finding(id, status) }
    }

    /// The same with steps.
    pub(super) fn advising(finding: Finding, steps: &[&str]) -> Finding {
        let step = |action: &&str| NextStep { action: (*action).to_owned(), changes_host: false };
        Finding { next: steps.iter().map(step).collect(), ..finding }
    }

    pub(super) fn advice(finding: &Finding) -> Vec<&str> {
        finding.next.iter().map(|step| step.action.as_str()).collect()
    }
}
