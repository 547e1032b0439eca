//! What in a report cannot be true together.

use rdiag_model::answer::{Cause, Outcome};
use rdiag_model::{Answer, Finding, Kind, Report, Status};

/// Rules that say that CPUs are short, and so that none of them may say that they are not beside another.
const SHORT_OF_CPUS: &[&str] = &["cpu.saturation", "cpu.saturation.runnable", "cpu.saturation.pressure"];
/// Rules that say that a disk is.
const FULL_DISK: &[&str] = &["disk.saturation", "disk.saturation.depth"];
/// Words that deny a shortage, and the rules which must not have fired beside them.
const DENIALS: &[(&str, &[&str])] = &[
    ("the host was not short of CPUs", SHORT_OF_CPUS),
    ("some CPUs idled while others were full", SHORT_OF_CPUS),
    ("not because the host ran out", &["memory.errors.oom"]),
    ("no disk is overloaded", FULL_DISK),
    ("for serial I/O", FULL_DISK),
];
/// Words by which a cause claims to be the only one.
const ONLY: &[&str] = &["the only ", "nothing else", "no other cause", "on purpose"];
/// Causes, by title, of which the first says that the other is not there.
const EXCLUDING: &[(&str, &str)] = &[
    ("a program that does one request after the other", "a full disk queue"),
    ("a program that does one disk request after the other", "a disk"),
    ("busy CPUs without a queue", "more runnable tasks than CPUs"),
    ("a full CPU while others are idle", "busy CPUs without a queue"),
    ("niced work", "busy CPUs without a queue"),
];

fn is_serious(finding: &Finding) -> bool {
    finding.status >= Status::Warning && !finding.is_over()
}

/// All contradictions of a report, in words.
pub(super) fn contradictions(report: &Report) -> Vec<String> {
    let mut found = between_findings(report);
    if let Some(answer) = &report.answer {
        found.extend(between_causes(answer));
        found.extend(against_findings(answer, &report.findings));
        found.extend(in_headline(answer, report));
    }
    found
}

fn between_findings(report: &Report) -> Vec<String> {
    let findings = &report.findings;
    let fired: Vec<&Finding> = findings.iter().filter(|finding| finding.status >= Status::Warning).collect();
    let headline = report.verdict.headline.to_string();
    let mut found = Vec::new();
    for finding in findings {
        let said = [finding.refuted_by.as_deref().unwrap_or_default(), finding.summary.as_str()];
        for said in said.into_iter().filter(|_| finding.status != Status::Skipped) {
            found.extend(denied(said, findings).map(|id| format!("{id} fired, and {} says {said}", finding.id)));
        }
        if finding.is_past() && finding.status != Status::Info {
            found.push(format!("{} is of the past and {:?}", finding.id, finding.status));
        }
    }
    if let Some(first) = fired.first().filter(|_| headline.starts_with("No bottleneck")) {
        found.push(format!("{} fired, and the headline is: {headline}", first.id));
    }
    let order: Vec<bool> = findings.iter().filter(|finding| finding.status.fired()).map(Finding::is_past).collect();
    if order.windows(2).any(|pair| pair == [true, false]) {
        found.push("what was before the window stands above what was in it".to_owned());
    }
    for resource in report.ruled_out.iter().filter(|resource| resource.complete) {
        if let Some(finding) = findings.iter().find(|f| f.resource == resource.resource && is_serious(f)) {
            found.push(format!("{} fired, and all of {:?} is ruled out", finding.id, resource.resource));
        }
    }
    found
}

/// The rules that fired although a sentence denies it.
fn denied(said: &str, findings: &[Finding]) -> impl Iterator<Item = &'static str> {
    let against = DENIALS.iter().filter(|(words, _)| said.contains(words)).flat_map(|(_, ids)| ids.iter());
    against.copied().filter(|id| findings.iter().any(|finding| finding.id == *id && is_serious(finding)))
}

fn between_causes(answer: &Answer) -> Vec<String> {
    let mut found = Vec::new();
    for (at, cause) in answer.causes.iter().enumerate() {
        for other in answer.causes.iter().skip(at + 1) {
            if cause.id == other.id || cause.title == other.title {
                found.push(format!("{} is {:?} and {:?}", cause.title, cause.outcome, other.outcome));
            }
        }
        if cause.sentence.trim().is_empty() {
            found.push(format!("{} is {:?} without a sentence", cause.title, cause.outcome));
        }
    }
    let there: Vec<&Cause> = answer.with(Outcome::Found).collect();
    let only: Vec<&&Cause> =
        there.iter().filter(|cause| ONLY.iter().any(|words| cause.sentence.contains(words))).collect();
    if let [first, second, ..] = only.as_slice() {
        found.push(format!("both claim to be the only one: {} | {}", first.sentence, second.sentence));
    }
    let is_there = |title: &str| there.iter().any(|cause| cause.title == title);
    for (one, other) in EXCLUDING.iter().filter(|(one, other)| is_there(one) && is_there(other)) {
        found.push(format!("{one} and {other} are both found"));
    }
    found
}

/// A cause that is excluded although a finding of now says that it is there.
fn against_findings(answer: &Answer, findings: &[Finding]) -> Vec<String> {
    let mut found = Vec::new();
    let is_explained = |id: &String| answer.with(Outcome::Found).any(|cause| cause.rules.contains(id));
    let is_excluded = |cause: &&Cause| matches!(cause.outcome, Outcome::RuledOut | Outcome::NotLookedFor);
    for cause in answer.causes.iter().filter(is_excluded) {
        for finding in findings.iter().filter(|finding| is_serious(finding)) {
            let is_own = cause.rules.contains(&finding.id);
            let is_same = |rule: &String| rdiag_report::is_same_shortage(rule, &finding.id);
            let is_alike =
                finding.kind == Kind::Saturation && !is_explained(&finding.id) && cause.rules.iter().any(is_same);
            if is_own || is_alike {
                let what = if is_own { "its own" } else { "the same" };
                found.push(format!(
                    "{} is {:?} ({}), and {what} {} says {}",
                    cause.title, cause.outcome, cause.sentence, finding.id, finding.summary
                ));
            }
        }
    }
    for cause in &answer.causes {
        let said = &cause.sentence;
        found.extend(denied(said, findings).map(|id| format!("{id} fired, and the cause {} says {said}", cause.title)));
    }
    found
}

/// A headline that names what another line of the report excludes.
fn in_headline(answer: &Answer, report: &Report) -> Vec<String> {
    let headline = report.verdict.headline.to_string();
    let mut found = Vec::new();
    let first = answer.with(Outcome::Found).next();
    if first.is_some() && headline.contains("no cause found") {
        found.push(format!("a cause was found, and the headline is: {headline}"));
    }
    if report.verdict.status < answer.with(Outcome::Found).map(|cause| cause.status).max().unwrap_or(Status::Ok) {
        found.push(format!("a cause is worse than the verdict: {:?}", report.verdict.status));
    }
    // No cause stands behind two labels.
    let labels = ["also: ", "not clear: ", "not measured: ", "ruled out: "];
    let places = |title: &str| {
        let clauses = headline.split("; ").filter(|clause| labels.iter().any(|label| clause.starts_with(label)));
        clauses.filter(|clause| clause.split([':', ',']).any(|name| name.trim() == title)).count()
    };
    let twice = answer.causes.iter().filter(|cause| places(&cause.title) > 1);
    found.extend(twice.map(|cause| format!("{} stands behind two labels: {headline}", cause.title)));
    let Some(first) = first else { return found };
    let lead = first.rules.iter().find_map(|rule| report.findings.iter().find(|f| f.id == *rule && f.status.fired()));
    // A mount or an interface may well be what another line is about.
    let culprit = lead.and_then(|lead| lead.culprit.as_ref()).filter(|culprit| culprit.kind == "process");
    let Some(name) = culprit.map(|culprit| culprit.name.as_str()) else { return found };
    let excluded = [format!("not {name}"), format!("{name} is not"), format!("{name} did not")];
    for line in report.findings.iter().map(|finding| &finding.summary).chain(answer.causes.iter().map(|c| &c.sentence))
    {
        if headline.contains(name) && excluded.iter().any(|words| line.contains(words.as_str())) {
            found.push(format!("{line} | {headline}"));
        }
    }
    found
}
