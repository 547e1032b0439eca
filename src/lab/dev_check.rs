//! The gate for authors: every variant that this host can express is started, answered wrongly in every listed way, answered rightly,
//! diagnosed by rdiag itself, stopped, and killed; nothing may be left.

use std::collections::BTreeMap;
use std::sync::atomic::AtomicBool;

use super::clean::{Cleaned, clean};
use super::error::LabError;
use super::exam::{Outcome, mark, outcome};
use super::judge::{Truth, Verdict, accept, judge};
use super::load;
use super::needs;
use super::place::{Place, Run};
use super::runner::{self, Wish};
use super::scenario::{Answer, Question, Scenario, Variant};
use super::text::fill;
use crate::host::{Host, SharedHost, files};
use crate::model::{Finding, Status, Target};
use crate::playbook::{Plan, PlannedStep};
use crate::session::{self, Observer};

/// Names, numbers and variants of a check are always the same.
const SEED: u64 = 1;
/// How long the load of a check may run, in seconds.
const SECONDS: f64 = 120.0;
/// Window of rdiag's own diagnosis.
const WINDOW: &str = "5s";

/// What a check of one variant gave.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Checked {
    /// All is as it should be.
    Well,
    /// This host cannot express it, and why.
    NotHere(String),
    /// What is wrong.
    Wrong(Vec<String>),
}

/// Checks one variant, in a folder of its own below the lab's.
pub fn check(host: &SharedHost, place: &Place, scenario: &Scenario, variant: &Variant) -> Result<Checked, LabError> {
    if let Some(gap) = needs::missing(host, place, variant) {
        return Ok(Checked::NotHere(gap.why));
    }
    let folder = place.folder().join("dev-check");
    files::prepare_directory(&folder).map_err(LabError::failed("preparing a folder for the check"))?;
    let own = Place::existing(folder);
    clean(host, &own)?;
    let mut wrong = Vec::new();
    let tried = try_variant(host, &own, scenario, variant, &mut wrong);
    let cleaned = clean(host, &own);
    files::remove_directory(own.folder()).map_err(LabError::failed("removing the folder of the check"))?;
    tried?;
    cleaned?;
    Ok(if wrong.is_empty() { Checked::Well } else { Checked::Wrong(wrong) })
}

fn try_variant(
    host: &SharedHost,
    place: &Place,
    scenario: &Scenario,
    variant: &Variant,
    wrong: &mut Vec<String>,
) -> Result<(), LabError> {
    let run = start(host, place, scenario, variant)?;
    let truth = runner::truth(host, place, variant, &run);
    answers(scenario, &truth, wrong);
    let text = fill(&format!("{} {}", variant.explanation, scenario.solution), &truth.words());
    if text.contains('{') {
        wrong.push("the solution has a hole that is not filled".into());
    }
    diagnosis(host, variant, &truth, wrong)?;
    let stopped = clean(host, place)?;
    if stopped.processes == 0 || stopped.folders != 1 {
        wrong.push(format!("stop found {} processes and {} folders to clean up", stopped.processes, stopped.folders));
    }
    nothing_left(host, &run, "stop", wrong);
    if clean(host, place)? != Cleaned::default() {
        wrong.push("a second stop found something to do".into());
    }
    let run = start(host, place, scenario, variant)?;
    if let Some(keeper) = &run.keeper {
        keeper.kill().map_err(LabError::failed("killing the keeper"))?;
    }
    // The kernel ends what it started; its folder is left for the journal.
    host.wait(host.now() + 1.0, 0, &AtomicBool::new(false));
    if runner::is_running(host, &run) {
        wrong.push("the exercise is said to run although its keeper was killed".into());
    }
    clean(host, place)?;
    nothing_left(host, &run, "kill -9 and stop", wrong);
    Ok(())
}

fn start(host: &SharedHost, place: &Place, scenario: &Scenario, variant: &Variant) -> Result<Run, LabError> {
    let wish = Wish { variant: Some(variant.name.clone()), seed: Some(SEED), seconds: Some(SECONDS), force: true };
    let plan = runner::plan(host, place, scenario, &wish)?;
    runner::start(host, place, &plan, &mut |_| {})
}

/// No answer and every wrong answer fail, each with what is said to it; the right ones pass.
fn answers(scenario: &Scenario, truth: &Truth, wrong: &mut Vec<String>) {
    if outcome(&mark(scenario, &BTreeMap::new(), truth)) != Outcome::NotPassed {
        wrong.push("no answer at all does not fail".into());
    }
    let mut right = BTreeMap::new();
    for question in &scenario.questions {
        for (answer, said) in wrong_answers(question, truth) {
            match judge(question, Some(&answer), truth) {
                Verdict::Wrong(text) if !text.trim().is_empty() => {}
                verdict => wrong.push(format!("{} = {answer} ({said}) is answered by {verdict:?}", question.key)),
            }
        }
        match truth.right_answer(question).map(|answer| accept(question, &answer, |_| None)) {
            Some(Ok(answer)) => {
                right.insert(question.key.clone(), answer);
            }
            Some(Err(error)) => wrong.push(format!("the right answer is refused: {error}")),
            None => wrong.push(format!("{} cannot be answered here", question.key)),
        }
    }
    let marks = mark(scenario, &right, truth);
    if outcome(&marks) != Outcome::Passed {
        let others: Vec<_> = marks.iter().filter(|(_, verdict)| *verdict != Verdict::Right).collect();
        wrong.push(format!("the right answers do not pass: {others:?}"));
    }
}

/// Answers that must fail, each with what is wrong about it.
fn wrong_answers(question: &Question, truth: &Truth) -> Vec<(String, &'static str)> {
    match &question.answer {
        Answer::Choice { options, .. } => {
            let right = truth.choices.get(&question.key);
            options.keys().filter(|option| right != Some(*option)).map(|option| (option.clone(), "another")).collect()
        }
        Answer::Name { .. } => vec![("nobody".into(), "another")],
        Answer::Number { tolerance, .. } => {
            let Some(value) = truth.right_answer(question).and_then(|answer| answer.parse::<f64>().ok()) else {
                return Vec::new();
            };
            let off = 1.5 * tolerance.absolute.max(tolerance.relative * value.abs());
            vec![((value - off).to_string(), "too low"), ((value + off).to_string(), "too high")]
        }
    }
}

/// rdiag's own answer: what it must find is found, what it must not find is not.
fn diagnosis(host: &SharedHost, variant: &Variant, truth: &Truth, wrong: &mut Vec<String>) -> Result<(), LabError> {
    if variant.diagnosis.is_empty() && variant.quiet.is_empty() {
        return Ok(());
    }
    let failed = |error: String| LabError::failed("diagnosing")(std::io::Error::other(error));
    let named = session::resolve("use-method").map_err(|error| failed(error.to_string()))?;
    let given = BTreeMap::from([("duration".to_owned(), WINDOW.to_owned())]);
    let plan = Plan::new(&named.loaded, &named.library, &given).map_err(|error| failed(error.to_string()))?;
    let stop = AtomicBool::new(false);
    let run =
        session::run(host, &plan, &Target::default(), &stop, &mut Silent).map_err(LabError::failed("diagnosing"))?;
    let of_rule =
        |rule: &str| -> Vec<&Finding> { run.analysis.findings.iter().filter(|finding| finding.id == rule).collect() };
    let told = |finding: &&Finding| format!("{}: {}", finding.status.word(), finding.summary);
    for wanted in &variant.diagnosis {
        let found = of_rule(&wanted.rule);
        let name = wanted.culprit.as_ref().and_then(|role| truth.names.get(role));
        let is_it = |finding: &&&Finding| {
            finding.status.fired()
                && name.is_none_or(|name| finding.culprit.as_ref().is_some_and(|who| who.name == *name))
        };
        if !found.iter().any(|finding| is_it(&finding)) {
            let said: Vec<String> = found.iter().map(told).collect();
            wrong.push(format!("rdiag does not find {} of {name:?}: {said:?}", wanted.rule));
        }
    }
    // What others on this host do is theirs, so only blame of the load counts.
    let is_own = |finding: &&&Finding| {
        finding.culprit.as_ref().is_some_and(|who| truth.names.values().any(|name| *name == who.name))
    };
    for rule in &variant.quiet {
        for finding in of_rule(rule).iter().filter(|finding| finding.status >= Status::Warning).filter(is_own) {
            wrong.push(format!("rdiag is wrong about {rule}: {}", told(finding)));
        }
    }
    Ok(())
}

fn nothing_left(host: &Host, run: &Run, after: &str, wrong: &mut Vec<String>) {
    let is_left = |pid: &String| {
        let words = host.read(&format!("proc/{pid}/cmdline")).unwrap_or_default();
        let mut words = words.split('\0');
        let name = words.next().and_then(|program| program.rsplit('/').next()).unwrap_or_default();
        run.jobs.iter().any(|job| job.name == name) && words.next() == Some(load::ARGUMENT)
    };
    let left: Vec<String> = host.list("proc").unwrap_or_default().into_iter().filter(is_left).collect();
    if !left.is_empty() {
        wrong.push(format!("after {after} these processes are left: {left:?}"));
    }
    if run.scratch.symlink_metadata().is_ok() {
        wrong.push(format!("after {after} the folder {} is left", run.scratch.display()));
    }
}

struct Silent;

impl Observer for Silent {
    fn window(&mut self, _: &[&PlannedStep], _: f64, _: bool) {}
    fn begun(&mut self) {}
    fn progress(&mut self, _: f64) {}
    fn window_ended(&mut self) {}
}
