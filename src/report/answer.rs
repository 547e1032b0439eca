//! The answer to a symptom: the sentences of its causes, and the headline that begins with the symptom.

use std::collections::BTreeMap;

use super::headline::{behind, when};
use super::quiet::Quiet;
use super::sentence::{first_sentence, listed};
use super::{quiet, words};
use rdiag_model::answer::{Answer, Cause, Outcome};
use rdiag_model::finding::Levels;
use rdiag_model::headline::{Headline, Link};
use rdiag_model::{Confidence, Finding, Status};

/// Causes that are listed.
pub(super) const MAX_CAUSES: usize = 24;
/// Causes that a headline names as not clear, not measured or ruled out.
const MAX_RULED_OUT: usize = 4;

/// Tells what is not clear from what is ruled out, fills in what the findings say of each cause, and puts the findings of the causes that
/// were found first. The findings are in order.
pub(super) fn complete(answer: &mut Answer, findings: &mut [Finding], levels: &BTreeMap<String, Levels>) {
    let quiet = Quiet(levels);
    let found: Vec<Cause> = answer.with(Outcome::Found).cloned().collect();
    for cause in &mut answer.causes {
        if cause.outcome == Outcome::RuledOut && speaks_for(cause, findings, quiet).is_some() {
            (cause.outcome, cause.sentence) = (Outcome::NotClear, String::new());
        }
        if cause.sentence.is_empty() {
            cause.sentence = sentence(cause, &found, findings, quiet);
        }
    }
    answer.causes.sort_by_key(|cause| cause.outcome);
    let found: Vec<&Cause> = answer.with(Outcome::Found).collect();
    findings.sort_by_cached_key(|finding| {
        // What one of its rules knows of long ago is history, here too.
        let tells = finding.status.fired() && !finding.is_past();
        let cause = found.iter().position(|cause| cause.rules.contains(&finding.id) && tells);
        cause.unwrap_or(usize::MAX)
    });
}

/// The finding that tells most of a cause that is there: the first of its rules that fired.
fn lead<'f>(cause: &Cause, findings: &'f [Finding]) -> Option<&'f Finding> {
    let fired = |least: Status| {
        let of = move |rule: &String| findings.iter().find(|finding| finding.id == *rule && finding.status >= least);
        cause.rules.iter().find_map(of)
    };
    fired(Status::Warning).or_else(|| fired(Status::Info))
}

/// What speaks for a cause that was not established.
enum Hint<'f> {
    /// One of its rules fired, and what else the cause asks for is missing.
    Fired(&'f Finding),
    /// The figure of one of its rules is near its threshold or beyond; the finding stands for so many.
    Figure(&'f Finding, usize),
}

/// A rule rules out its cause only with a figure that is well on the other side of its threshold, or where another one is missed by far.
/// Another rule of the same cause, which detects it by other signs, takes nothing back.
fn speaks_for<'f>(cause: &Cause, findings: &'f [Finding], quiet: Quiet<'_>) -> Option<Hint<'f>> {
    // What is over, or only worth knowing, is no sign of it at all.
    let fired = lead(cause, findings).filter(|finding| finding.status > Status::Info && !finding.is_over());
    let calm = calm(cause, findings);
    let figure = |is: &dyn Fn(&Finding) -> bool| {
        let of = |same: &Vec<&'f Finding>| Some(Hint::Figure(same.iter().find(|finding| is(finding))?, same.len()));
        calm.iter().find_map(of)
    };
    let is_open = |finding: &Finding| quiet.is_near(finding) && quiet.is_beyond(finding);
    fired.map(Hint::Fired).or_else(|| figure(&is_open)).or_else(|| figure(&|finding| quiet.is_near(finding)))
}

fn sentence(cause: &Cause, found: &[Cause], findings: &[Finding], quiet: Quiet<'_>) -> String {
    let of = |status: Status| {
        let is = move |finding: &&Finding| cause.rules.contains(&finding.id) && finding.status == status;
        findings.iter().filter(is)
    };
    match cause.outcome {
        Outcome::Found | Outcome::Beside => lead(cause, findings).map(|finding| finding.summary.trim().to_owned()),
        Outcome::Unknown => of(Status::Unknown)
            .find_map(|finding| Some(finding.unavailable.as_ref()?.why.clone()))
            .or_else(|| Some(NOT_RUN.to_owned())),
        Outcome::NotClear => speaks_for(cause, findings, quiet).map(|sign| open(&sign, found, quiet)),
        Outcome::RuledOut => {
            let skipped = || of(Status::Skipped).find_map(|finding| Some(finding.unavailable.as_ref()?.why.clone()));
            let fired = || lead(cause, findings).map(|finding| finding.summary.trim().to_owned());
            let calm = calm(cause, findings);
            let said = |same: &Vec<&Finding>| Some(quiet::sentence(same.first()?, same.len()));
            let is_below = |same: &&Vec<&Finding>| !same.iter().any(|finding| quiet.is_beyond(finding));
            let alone = || Some(format!("{}{WITHOUT_SIGNS}.", calm.first().and_then(said)?.trim_end_matches('.')));
            let below = calm.iter().find(is_below).and_then(said).or_else(alone);
            below.or_else(fired).or_else(skipped)
        }
        Outcome::NotLookedFor => Some("nothing pointed to it".into()),
    }
    .unwrap_or_default()
}

/// What was seen of a cause that is not clear, and why that does not establish it.
fn open(hint: &Hint<'_>, found: &[Cause], quiet: Quiet<'_>) -> String {
    let with = |seen: &str, why: &str| format!("{}{why}.", seen.trim().trim_end_matches('.'));
    match hint {
        Hint::Fired(finding) => match found.iter().find(|cause| cause.rules.contains(&finding.id)) {
            Some(other) => with(&finding.summary, &format!("; counted under: {}", other.title)),
            None => with(&finding.summary, WITHOUT_SIGNS),
        },
        Hint::Figure(finding, same) => {
            let why = if quiet.is_beyond(finding) { WITHOUT_SIGNS } else { ", near its threshold" };
            with(&quiet::sentence(finding, *same), why)
        }
    }
}

/// Of a cause whose step was called for too late, or by a figure that is missing.
const NOT_RUN: &str = "the step that looks for it was not run";
const WITHOUT_SIGNS: &str = ", without the other signs of it";

/// What the rules of a cause say that did not fire, by rule in the order in which the cause names them.
fn calm<'f>(cause: &Cause, findings: &'f [Finding]) -> Vec<Vec<&'f Finding>> {
    let of_rule = |rule: &String| {
        let is_calm = |finding: &&Finding| finding.id == *rule && finding.status == Status::Ok;
        findings.iter().filter(is_calm).collect::<Vec<_>>()
    };
    cause.rules.iter().map(of_rule).filter(|same| !same.is_empty()).collect()
}

/// The status and the headline: the symptom, what it comes from and who is behind it; or what was ruled out.
pub(super) fn of(answer: &Answer, findings: &[Finding]) -> (Status, Headline) {
    let there = answer.with(Outcome::Found).chain(answer.with(Outcome::Beside));
    let mut worst = there.map(|cause| cause.status).max().unwrap_or(Status::Ok);
    let mut found = answer.with(Outcome::Found);
    let first = found.next();
    let explained = |finding: &&Finding| {
        let of = |cause: &Cause| cause.outcome == Outcome::Found && cause.rules.contains(&finding.id);
        answer.causes.iter().any(of)
    };
    let told = |finding: &&Finding| answer.with(Outcome::Beside).any(|cause| cause.rules.contains(&finding.id));
    let others = findings.iter().filter(|finding| finding.status >= Status::Warning && !explained(finding));
    let titled = |cause: &Cause| cause.title.clone() + &lead(cause, findings).map(when).unwrap_or_default();
    let mut also: Vec<String> = found.chain(answer.with(Outcome::Beside)).map(titled).collect();
    for finding in others {
        worst = worst.max(finding.status);
        let cell = words::cell(finding.resource, finding.kind) + &when(finding);
        if !told(&finding) && !also.contains(&cell) {
            also.push(cell);
        }
    }
    let titles = |outcome| -> Vec<String> { answer.with(outcome).map(|cause| cause.title.clone()).collect() };
    let unknown = titles(Outcome::Unknown);
    let Some(cause) = first else {
        let mut clauses = vec!["no cause found".to_owned()];
        let rest = [Outcome::NotClear, Outcome::Unknown, Outcome::RuledOut].map(|of| (of.word(), titles(of)));
        for (label, causes) in std::iter::once(("also", also)).chain(rest) {
            if !causes.is_empty() {
                clauses.push(format!("{label}: {}", listed(&causes, MAX_RULED_OUT)));
            }
        }
        let open = if unknown.is_empty() { Status::Info } else { Status::Unknown };
        let status = match answer.present {
            _ if worst > Status::Ok => worst,
            Some(true) => open,
            Some(false) => Status::Ok,
            None if unknown.is_empty() => Status::Ok,
            None => Status::Unknown,
        };
        return (status, Headline { title: answer.symptom.clone(), link: Link::Semicolon, detail: clauses.join("; ") });
    };
    let mut detail = first_sentence(&cause.sentence, false);
    if let Some(lead) = lead(cause, findings) {
        if lead.confidence == Confidence::Low {
            detail = format!("likely: {}", first_sentence(&cause.sentence, true));
        }
        detail.push_str(&behind(lead, &[&answer.symptom, &cause.sentence]));
    }
    if !also.is_empty() {
        detail.push_str(&format!(" (also: {})", listed(&also, 3)));
    }
    (worst, Headline { title: answer.symptom.clone(), link: Link::Dash, detail })
}
