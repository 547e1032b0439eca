//! The conclusion: one sentence, what limits it, and what was ruled out.

use std::collections::{BTreeMap, BTreeSet};

use super::answer as answers;
use super::headline::{self, CORE};
use super::quiet::{Quiet, sentence};
use super::sentence::listed;
use super::words;
use rdiag_model::finding::{Doubt, DoubtKind, Levels, SHORT_WINDOW_SECONDS};
use rdiag_model::report::{Coverage, RuledOut, Verdict};
use rdiag_model::{Answer, Finding, Kind, Recording, Resource, Status};

/// Limits that are listed; the coverage has all of them.
const MAX_LIMITS: usize = 8;
/// Sentences per resource that are listed as ruled out.
const MAX_SENTENCES: usize = 12;

/// The conclusion from findings that are in order.
pub(super) fn verdict(
    findings: &[Finding],
    answer: Option<&Answer>,
    coverage: &Coverage,
    recording: &Recording,
) -> Verdict {
    let (status, headline) = match answer {
        Some(answer) => answers::of(answer, findings),
        None => headline::of(findings),
    };
    Verdict { status, headline, limits: limits(findings, answer.is_some(), coverage, recording) }
}

fn limits(findings: &[Finding], is_answer: bool, coverage: &Coverage, recording: &Recording) -> Vec<String> {
    let mut limits = Vec::new();
    let seconds = recording.seconds();
    if recording.interrupted {
        limits.push(format!("The run was interrupted after {seconds:.1} s."));
    } else if seconds < SHORT_WINDOW_SECONDS {
        limits.push(format!("The run was only {seconds:.1} s long: short bursts weigh much in it."));
    }
    let short = !limits.is_empty();
    let suspended = recording.suspended_seconds();
    if suspended > 0.5 {
        limits.push(format!("The machine was suspended or paused for {suspended:.1} s during the run."));
    }
    if let Some(container) = &recording.host.container {
        limits.push(format!("rdiag ran inside a container ({container}) and saw what the container may see."));
    }
    let unlooked: Vec<String> = CORE
        .into_iter()
        .filter(|resource| !findings.iter().any(|finding| finding.resource == *resource))
        .map(words::resource_inline)
        .collect();
    // Who asks about one symptom expects no answer about the rest.
    if !unlooked.is_empty() && !findings.is_empty() && !is_answer {
        limits.push(format!("This playbook does not look at {}.", listed(&unlooked, 4)));
    }
    limits.extend(doubts(findings, short));
    for group in coverage.groups.iter().filter(|group| !group.rules.is_empty()) {
        let why = group.gap.why.trim_end_matches('.');
        let remedy = group.gap.remedy.as_ref().map(|remedy| format!(" To see it: {}.", remedy.trim_end_matches('.')));
        limits.push(format!("{} not judged: {why}.{}", listed(&group.rules, 3), remedy.unwrap_or_default()));
    }
    if limits.len() > MAX_LIMITS {
        let more = limits.len() - MAX_LIMITS;
        limits.truncate(MAX_LIMITS);
        let more = words::plural(more, "more limit is", "more limits are");
        limits.push(format!("{more} listed under what could not be measured."));
    }
    limits
}

/// What speaks against trusting what fired, each reason once.
fn doubts(findings: &[Finding], short: bool) -> Vec<String> {
    let mut reasons: Vec<(&str, Vec<String>)> = Vec::new();
    for finding in findings.iter().filter(|f| f.status >= Status::Warning) {
        // That the window was short has been said for all of them.
        let is_said = |reason: &&Doubt| short && reason.kind() == DoubtKind::ShortWindow;
        for reason in finding.confidence_reasons.iter().filter(|reason| !is_said(reason)) {
            match reasons.iter_mut().find(|(known, _)| *known == reason.why()) {
                Some((_, ids)) => ids.push(words::full_id(finding)),
                None => reasons.push((reason.why(), vec![words::full_id(finding)])),
            }
        }
    }
    let text = |(reason, ids): (&str, Vec<String>)| format!("Less confidence in {}: {reason}.", listed(&ids, 3));
    reasons.into_iter().take(3).map(text).collect()
}

/// Whether a check looked for lines of a log of which a part is lost: that it found none rules nothing out.
fn is_unread(finding: &Finding) -> bool {
    finding.confidence_reasons.iter().any(|reason| reason.kind() == DoubtKind::UnreadRecords)
}

/// By resource, what the checks that did not fire saw. A rule that fired for one instance rules nothing out, nor does one whose figure is
/// beyond its threshold.
pub(super) fn ruled_out(findings: &[Finding], levels: &BTreeMap<String, Levels>) -> Vec<RuledOut> {
    let quiet = Quiet(levels);
    let mut all = Vec::new();
    for resource in Resource::ALL {
        let of = || findings.iter().filter(move |finding| finding.resource == resource);
        let fired: BTreeSet<&str> = of().filter(|f| f.status.fired()).map(|f| f.id.as_str()).collect();
        let mut seen = BTreeSet::new();
        let mut sentences = Vec::new();
        let mut left = 0;
        let mut calm: Vec<&Finding> =
            of().filter(|f| f.status == Status::Ok && !fired.contains(f.id.as_str()) && !is_unread(f)).collect();
        // An instance that is beyond the threshold leaves nothing to be said of the others.
        let beyond: BTreeSet<&str> = calm.iter().filter(|f| quiet.is_beyond(f)).map(|f| f.id.as_str()).collect();
        calm.retain(|f| !beyond.contains(f.id.as_str()));
        // What is asked about a bottleneck first: does work wait? General rules say more than special ones, and a rule that can be critical
        // says more than one that cannot: a CPU quota more than cgroups that are gone.
        calm.sort_by_key(|f| {
            let is_grave = f.threshold.conditions.contains_key(Status::Critical.word());
            (f.kind == Kind::Errors, f.kind != Kind::Saturation, f.id.matches('.').count(), !is_grave)
        });
        for finding in calm {
            if !seen.insert(finding.id.as_str()) {
                continue;
            }
            if sentences.len() == MAX_SENTENCES {
                left += 1;
                continue;
            }
            let same = of().filter(|f| f.id == finding.id && f.status == Status::Ok).count();
            sentences.push(sentence(finding, same));
        }
        if left > 0 {
            sentences.push(format!("{} more found nothing.", words::plural(left, "check", "checks")));
        }
        if !sentences.is_empty() {
            let complete = beyond.is_empty()
                && !of().any(is_unread)
                && of().all(|f| matches!(f.status, Status::Ok | Status::Skipped | Status::Info));
            all.push(RuledOut { resource, complete, sentences });
        }
    }
    all
}
