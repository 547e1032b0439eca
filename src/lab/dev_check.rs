//! The gate for authors: every variant that this host can express is started, answered wrongly in every listed way, answered rightly,
//! diagnosed by rdiag itself, stopped, and killed; nothing may be left.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::AtomicBool;

use super::clean::{Cleaned, clean};
use super::diagnose::{Programs, diagnose};
use super::disturbance::{self, Disturbance};
use super::error::{LabError, Trouble};
use super::exam::{Outcome, mark, outcome};
use super::judge::{Assessment, Truth, accept, judge};
use super::limit;
use super::load;
use super::module;
use super::needs;
use super::place::{Place, Run};
use super::plan::{self, StartPlan, Wish};
use super::reading::{LabMetric, Readings};
use super::runner;
use super::scenario::{Answer, Diagnosis, Question, Scenario, Variant};
use super::text::fill;
use rdiag_kernel::host::{Host, SharedHost, files};

/// Names, numbers and variants of a check are always the same.
const SEED: u64 = 1;
/// Each of the two measurements behind the right answers, in seconds, the first time and at most: shorter than a student's where they
/// agree at once, so that all variants are checked in minutes.
const TRUTH_SECONDS: [f64; 2] = [1.5, 6.0];
/// How long the load of a check may run, in seconds.
const SECONDS: f64 = 120.0;

/// How long the load of the second run may take to be started, in seconds.
const START_SECONDS: f64 = 5.0;
/// How long a killed keeper may take to be gone, in seconds.
const KILL_SECONDS: f64 = 2.0;
/// For how long the end of a disturbance is waited for at most, in seconds.
const PATIENCE_SECONDS: f64 = 30.0;
/// Variants that are checked at the same time.
const AT_ONCE: usize = 3;

/// What a check of one variant gave.
#[derive(Debug, Clone, PartialEq)]
pub enum Checked {
    /// All is as it should be.
    Well,
    /// This host cannot express it, and why.
    NotHere(String),
    /// So much disturbed it that nothing follows from what was wrong.
    CannotJudge(Disturbance, Vec<String>),
    /// What is wrong.
    Wrong(Vec<String>),
}

/// What was seen of one variant.
#[derive(Debug, Default)]
struct Seen {
    /// What is wrong, and may be so because of a disturbance.
    wrong: Vec<String>,
    /// What came out right, and may be so because of a disturbance.
    unproven: Vec<String>,
    /// What was left behind, which is wrong on any host.
    left: Vec<String>,
    /// What disturbed it from before its start until it was solved.
    disturbance: Disturbance,
}

impl Seen {
    fn judged(mut self) -> Checked {
        let is_disturbed = self.left.is_empty() && self.disturbance.is_too_much();
        self.wrong.append(&mut self.left);
        match (self.wrong.is_empty(), is_disturbed) {
            (true, false) => Checked::Well,
            (true, true) if self.unproven.is_empty() => Checked::Well,
            (true, true) => Checked::CannotJudge(self.disturbance, self.unproven),
            (false, true) => Checked::CannotJudge(self.disturbance, self.wrong),
            (false, false) => Checked::Wrong(self.wrong),
        }
    }
}

/// What rdiag must find in the CPU time of all tasks, where others' may look like the load's.
fn about_all_tasks(variant: &Variant) -> Vec<String> {
    let is_about_cpus = |rule: &str| ["cpu.", "interrupts."].iter().any(|of| rule.starts_with(of));
    let rule = |wanted: &Diagnosis| match wanted {
        Diagnosis::Rule { rule, culprit: None } if is_about_cpus(rule) => {
            Some(format!("others may be why rdiag finds {rule}"))
        }
        _ => None,
    };
    variant.diagnosis.iter().filter_map(rule).collect()
}

/// All variants in groups whose members can be checked at the same time: those that are judged by what the load itself does, so that
/// another load beside it makes no difference, or that take next to nothing from the host; and whose programs cannot be taken for each
/// other's.
#[must_use]
pub fn batches(scenarios: &[Scenario]) -> Vec<Vec<(&Scenario, &Variant)>> {
    let all = scenarios.iter().flat_map(|scenario| scenario.variants.iter().map(move |variant| (scenario, variant)));
    let (side_by_side, alone): (Vec<_>, Vec<_>) =
        all.partition(|(scenario, variant)| is_judged_by_itself(scenario, variant) || is_gentle(scenario, variant));
    let mut batches: Vec<Vec<_>> = alone.into_iter().map(|one| vec![one]).collect();
    let first = batches.len();
    for (scenario, variant) in side_by_side {
        let names = |variant: &Variant| variant.load.iter().flat_map(|job| job.names.clone()).collect::<BTreeSet<_>>();
        let has_room = |batch: &&mut Vec<(&Scenario, &Variant)>| {
            batch.len() < AT_ONCE && batch.iter().all(|(_, other)| names(other).is_disjoint(&names(variant)))
        };
        match batches.iter_mut().skip(first).find(has_room) {
            Some(batch) => batch.push((scenario, variant)),
            None => batches.push(vec![(scenario, variant)]),
        }
    }
    batches
}

/// Whether it takes next to no CPU time and nothing of a disk, and is not judged by what other loads would change.
fn is_gentle(scenario: &Scenario, variant: &Variant) -> bool {
    let is_undisturbed = |reading: LabMetric| {
        reading.is_own()
            || matches!(
                reading,
                LabMetric::LostDatagrams | LabMetric::RefusedConnections | LabMetric::OddEntry | LabMetric::SpaceUsed
            )
    };
    let is_fit = |question: &Question| match &question.answer {
        Answer::Number { truth, .. } => is_undisturbed(*truth),
        Answer::Block { .. } => false,
        Answer::Choice { .. } | Answer::Name { .. } => true,
    };
    variant.load.iter().all(|job| job.work.is_gentle() || limit::leaves_most_of_a_cpu(job.limit))
        && is_undisturbed(scenario.meter.reading)
        && scenario.questions.iter().all(is_fit)
}

fn is_judged_by_itself(scenario: &Scenario, variant: &Variant) -> bool {
    let is_own = |question: &Question| match &question.answer {
        Answer::Number { truth, .. } => truth.is_own(),
        Answer::Block { .. } => false,
        Answer::Choice { .. } | Answer::Name { .. } => true,
    };
    variant.diagnosis.is_empty()
        && variant.quiet.is_empty()
        && variant.load.iter().all(|job| job.limit.is_none())
        && scenario.meter.reading.is_own()
        && scenario.questions.iter().all(is_own)
}

/// Checks one variant, in a folder of its own below the lab's.
pub fn check(host: &SharedHost, place: &Place, scenario: &Scenario, variant: &Variant) -> Result<Checked, LabError> {
    if let Some(gap) = needs::missing(host, place, variant) {
        return Ok(Checked::NotHere(gap.why));
    }
    let folder = place.folder().join(format!("dev-check-{}-{}", scenario.id, variant.name));
    files::prepare_directory(&folder).map_err(LabError::failed("preparing a folder for the check"))?;
    let own = Place::existing(&folder)?;
    let checked = clean(host, &own).and_then(|_| check_below(host, &own, scenario, variant));
    files::remove_directory(own.folder()).map_err(LabError::failed("removing the folder of the check"))?;
    checked
}

/// Checks a variant by itself that could not be judged, once the host is quiet or the patience is over.
pub fn check_again(
    host: &SharedHost,
    place: &Place,
    scenario: &Scenario,
    variant: &Variant,
) -> Result<Checked, LabError> {
    disturbance::await_quiet(host, PATIENCE_SECONDS);
    check(host, place, scenario, variant)
}

fn check_below(host: &SharedHost, place: &Place, scenario: &Scenario, variant: &Variant) -> Result<Checked, LabError> {
    let is_not_here = |error: &LabError| error.trouble == Trouble::NotHere;
    let plan = match plan(host, place, scenario, variant) {
        Err(error) if is_not_here(&error) => return Ok(Checked::NotHere(error.message)),
        plan => plan?,
    };
    let mut seen = Seen { unproven: about_all_tasks(variant), ..Seen::default() };
    let tried = try_variant(host, place, &plan, &mut seen);
    clean(host, place)?;
    match tried {
        Err(error) if is_not_here(&error) => {
            // A need that was met a moment ago: which CPUs of the machine underneath it has may change, and how quick they are to each
            // other.
            if let Some(gap) = needs::missing(host, place, variant).filter(|_| seen.wrong.is_empty()) {
                return Ok(Checked::NotHere(gap.why));
            }
            seen.wrong.push(error.message);
        }
        tried => tried?,
    }
    Ok(seen.judged())
}

fn try_variant(host: &SharedHost, place: &Place, plan: &StartPlan<'_>, seen: &mut Seen) -> Result<(), LabError> {
    let StartPlan { scenario, variant, .. } = *plan;
    let wrong = &mut seen.wrong;
    let (run, disturbance) = disturbance::during(host, place, || solve(host, place, plan, wrong));
    seen.disturbance = disturbance;
    let run = run?;
    let stopped = clean(host, place)?;
    if stopped.processes == 0 || stopped.folders != 1 {
        wrong.push(format!("stop found {} processes and {} folders to clean up", stopped.processes, stopped.folders));
    }
    nothing_left(host, &run, "stop", &mut seen.left);
    if clean(host, place)? != Cleaned::default() {
        seen.left.push("a second stop found something to do".into());
    }
    let is_first = scenario.variants.first().is_some_and(|first| first.name == variant.name);
    // It makes no difference to the other variants, and takes as long again.
    if !is_first && variant.load.iter().all(|job| job.limit.is_none()) {
        return Ok(());
    }
    let run = runner::launch(host, place, plan, Readings::default())?;
    let never = AtomicBool::new(false);
    let begun = host.now();
    while runner::subject(host, place, &run).groups.is_empty() && host.now() - begun < START_SECONDS {
        host.wait(host.now() + 0.05, 0, &never);
    }
    if let Some(keeper) = &run.keeper {
        keeper.kill().map_err(LabError::failed("killing the keeper"))?;
    }
    // The kernel ends what it started; its folder is left for the journal.
    let begun = host.now();
    while runner::is_running(host, &run) && host.now() - begun < KILL_SECONDS {
        host.wait(host.now() + 0.05, 0, &never);
    }
    if runner::is_running(host, &run) {
        seen.left.push("the exercise is said to run although its keeper was killed".into());
    }
    clean(host, place)?;
    nothing_left(host, &run, "kill -9 and stop", &mut seen.left);
    Ok(())
}

/// Starts it, answers it wrongly and rightly, and has rdiag diagnose it.
fn solve(host: &SharedHost, place: &Place, plan: &StartPlan<'_>, wrong: &mut Vec<String>) -> Result<Run, LabError> {
    let StartPlan { scenario, variant, .. } = *plan;
    let run = runner::start(host, place, plan, &mut |_| {})?;
    let programs = programs(host, place, &run);
    let (truth, found) = std::thread::scope(|scope| {
        let found = scope.spawn(|| diagnose(host, variant, &programs));
        (runner::truth(host, place, scenario, variant, &run, TRUTH_SECONDS), found.join())
    });
    let ended = || LabError::failed("diagnosing")(std::io::Error::other("its thread ended"));
    wrong.extend(found.map_err(|_| ended())??);
    let truth = truth?;
    answers(scenario, &truth, wrong);
    let text = fill(&format!("{} {}", variant.explanation, scenario.solution), &truth.words());
    if text.contains('{') {
        wrong.push("the solution has a hole that is not filled".into());
    }
    Ok(run)
}

fn plan<'s>(
    host: &SharedHost,
    place: &Place,
    scenario: &'s Scenario,
    variant: &Variant,
) -> Result<StartPlan<'s>, LabError> {
    let wish = Wish { variant: Some(variant.name.clone()), seed: Some(SEED), seconds: Some(SECONDS), force: true };
    let mut plan = plan::plan(host, place, scenario, &wish)?;
    if !scenario.meter.is_compared() {
        plan.baseline_seconds = 0.2;
    }
    Ok(plan)
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
                Assessment::Wrong(text) if !text.trim().is_empty() => {}
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
        let others: Vec<_> = marks.iter().filter(|(_, verdict)| *verdict != Assessment::Right).collect();
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
        Answer::Name { .. } => vec![("noname".into(), "another")],
        Answer::Block { .. } => vec![("0.0625".into(), "a block of 64 bytes")],
        Answer::Number { tolerance, .. } => {
            let Some(value) = truth.right_answer(question).and_then(|answer| answer.parse::<f64>().ok()) else {
                return Vec::new();
            };
            let off = 1.5 * tolerance.absolute.max(tolerance.relative * value.abs());
            vec![((value - off).to_string(), "too low"), ((value + off).to_string(), "too high")]
        }
    }
}

fn programs(host: &Host, place: &Place, run: &Run) -> Programs {
    let started = runner::subject(host, place, run).groups;
    let pid = |role: &String| started.get(role).copied();
    run.jobs.iter().filter_map(|job| Some((job.role.clone(), (job.name.clone(), pid(&job.role)?)))).collect()
}

fn nothing_left(host: &Host, run: &Run, after: &str, left_behind: &mut Vec<String>) {
    let is_left = |pid: &String| {
        let words = host.read(&format!("proc/{pid}/cmdline")).unwrap_or_default();
        let mut words = words.split('\0');
        let name = words.next().and_then(|program| program.rsplit('/').next()).unwrap_or_default();
        run.jobs.iter().any(|job| job.name == name) && words.next() == Some(load::ARGUMENT)
    };
    for job in run.jobs.iter().filter(|job| module::is_loaded(&job.name, module::mark(&run.scratch))) {
        left_behind.push(format!("after {after} the kernel module {} is loaded", job.name));
    }
    if run.jobs.iter().any(|job| job.task.slow_disk().is_some()) && module::slow_disk(host).is_some() {
        left_behind.push(format!("after {after} the disk in memory is left"));
    }
    let left: Vec<String> = host.list("proc").unwrap_or_default().into_iter().filter(is_left).collect();
    if !left.is_empty() {
        left_behind.push(format!("after {after} these processes are left: {left:?}"));
    }
    let mounts = host.read("proc/self/mounts").unwrap_or_default();
    // The kernel writes a blank as \040 there.
    let folder = run.scratch.display().to_string().replace(' ', "\\040");
    if mounts.lines().filter_map(|line| line.split(' ').nth(1)).any(|place| place.starts_with(&folder)) {
        left_behind.push(format!("after {after} a file system is still mounted below {}", run.scratch.display()));
    }
    if run.scratch.symlink_metadata().is_ok() {
        left_behind.push(format!("after {after} the folder {} is left", run.scratch.display()));
    }
}

#[cfg(test)]
mod tests;
