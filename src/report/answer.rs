//! The answer to a symptom: the sentences of its causes, and the headline that begins with the symptom.

use super::headline::{behind, when};
use super::sentence::{first_sentence, listed};
use super::{quiet, words};
use rdiag_model::answer::{Answer, Cause, Outcome};
use rdiag_model::headline::{Headline, Link};
use rdiag_model::{Confidence, Finding, Status};

/// Causes that are listed.
pub(super) const MAX_CAUSES: usize = 24;
/// Causes that a headline names as ruled out.
const MAX_RULED_OUT: usize = 4;

/// Fills in what the findings say of each cause, and puts the findings of the causes that were found first. The findings are in order.
pub(super) fn complete(answer: &mut Answer, findings: &mut [Finding]) {
    for cause in &mut answer.causes {
        if cause.sentence.is_empty() {
            cause.sentence = sentence(cause, findings);
        }
    }
    let found: Vec<&Cause> = answer.with(Outcome::Found).collect();
    findings.sort_by_cached_key(|finding| {
        let cause = found.iter().position(|cause| cause.rules.contains(&finding.id) && finding.status.fired());
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

fn sentence(cause: &Cause, findings: &[Finding]) -> String {
    let of = |status: Status| {
        let is = move |finding: &&Finding| cause.rules.contains(&finding.id) && finding.status == status;
        findings.iter().filter(is)
    };
    match cause.outcome {
        Outcome::Found | Outcome::Beside => lead(cause, findings).map(|finding| finding.summary.trim().to_owned()),
        Outcome::Unknown => of(Status::Unknown).find_map(|finding| Some(finding.unavailable.as_ref()?.why.clone())),
        Outcome::RuledOut => {
            let calm = calm(cause, findings);
            let said = |same: &Vec<&Finding>| Some(quiet::sentence(same.first()?, same.len()));
            let alone = || {
                let said = calm.first().and_then(said)?;
                Some(without_signs(&said))
            };
            let skipped = || of(Status::Skipped).find_map(|finding| Some(finding.unavailable.as_ref()?.why.clone()));
            let below = calm.iter().find(|same| is_below(same)).and_then(said);
            // What its rules found belongs to another cause, or lacks what else this one asks for.
            // What is over, or only worth knowing, is no sign of it at all.
            let fired = || {
                let finding = lead(cause, findings)?;
                let is_sign = finding.status > Status::Info;
                Some(if is_sign { without_signs(&finding.summary) } else { finding.summary.trim().to_owned() })
            };
            below.or_else(alone).or_else(fired).or_else(skipped)
        }
        Outcome::NotLookedFor => Some("nothing pointed to it".into()),
    }
    .unwrap_or_default()
}

fn without_signs(sentence: &str) -> String {
    format!("{}, without the other signs of it.", sentence.trim().trim_end_matches('.'))
}

/// What the rules of a cause say that did not fire, by rule in the order in which the cause names them.
fn calm<'f>(cause: &Cause, findings: &'f [Finding]) -> Vec<Vec<&'f Finding>> {
    let of_rule = |rule: &String| {
        let is_calm = |finding: &&Finding| finding.id == *rule && finding.status == Status::Ok;
        findings.iter().filter(is_calm).collect::<Vec<_>>()
    };
    cause.rules.iter().map(of_rule).filter(|same| !same.is_empty()).collect()
}

/// Whether the figures of a rule speak against it, and not only what else it asks for.
fn is_below(same: &[&Finding]) -> bool {
    !same.iter().any(|finding| quiet::is_beyond(finding))
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
        let unmeasured = ("not measured", unknown.clone());
        // What is as large as the cause would make it is no news that calms.
        let is_clear = |cause: &&Cause| {
            let calm = calm(cause, findings);
            calm.is_empty() || calm.iter().any(|same| is_below(same))
        };
        let clear = answer.with(Outcome::RuledOut).filter(is_clear).map(|cause| cause.title.clone()).collect();
        for (label, causes) in [("also", also), unmeasured, ("ruled out", clear)] {
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
