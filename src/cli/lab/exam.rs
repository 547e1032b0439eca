//! Hints, answers, their check, and the solution.

use std::fmt::Write as _;

use serde_json::json;

use super::super::output::json as to_json;
use super::super::ui::{Text, Ui};
use super::{live, run::questions, wrapped, wrapped_steps};
use crate::cli::exit::{Exit, Failure};
use rdiag_kernel::host::Host;
use rdiag_lab::disturbance;
use rdiag_lab::exam::{Outcome, mark, outcome};
use rdiag_lab::fixed::{self, Repair};
use rdiag_lab::judge::{Assessment, accept};
use rdiag_lab::place::{Place, Run};
use rdiag_lab::recipe::Recipe;
use rdiag_lab::text::fill;
use rdiag_lab::{LabError, Scenario, library, runner};
use rdiag_model::Unit;
use rdiag_model::quantity::with_unit;
use rdiag_report::escape::visible;
use rdiag_report::shown;

/// The exercise that is meant.
#[derive(Debug, clap::Args)]
pub(super) struct IdArgs {
    /// The exercise; what was started if it is not said.
    id: Option<String>,
}

/// Answers.
#[derive(Debug, clap::Args)]
pub(super) struct AnswerArgs {
    /// The exercise if you like, then answers: cause=disk who=4711.
    #[arg(value_name = "KEY=VALUE")]
    words: Vec<String>,
}

/// What to check.
#[derive(Debug, clap::Args)]
pub(super) struct CheckArgs {
    #[command(flatten)]
    id: IdArgs,
    /// For programs; passed, with the recipe for the same exercise again.
    #[arg(long)]
    json: bool,
    /// Whether you put it right: the symptom must be gone, and every program must still do its work. No answer is looked at.
    #[arg(long, conflicts_with = "json")]
    fixed: bool,
}

/// What to explain.
#[derive(Debug, clap::Args)]
pub(super) struct SolutionArgs {
    #[command(flatten)]
    id: IdArgs,
    /// Before any check.
    #[arg(long)]
    give_up: bool,
}

fn started(place: &Place, id: Option<&str>) -> Result<(Scenario, Run), Failure> {
    let asked = id.map(library::find).transpose()?;
    let run = runner::started(place, asked.as_ref().map(|scenario| scenario.id.as_str()))?;
    Ok((library::find(&run.scenario)?, run))
}

pub(super) fn hint(args: &IdArgs, ui: &Ui) -> Result<Exit, Failure> {
    let place = Place::of_user()?;
    let _lock = place.lock()?;
    let (scenario, mut run) = started(&place, args.id.as_deref())?;
    let Some(hint) = scenario.hints.get(run.hints) else {
        let message = format!("there are no more than {} hints", scenario.hints.len());
        return Err(LabError::usage(message, "`rdiag lab solution --give-up` tells all").into());
    };
    run.hints += 1;
    place.keep_run(&run)?;
    let text = format!("Hint {} of {}: {hint}", run.hints, scenario.hints.len());
    ui.print(&Text::lines(format!("{}\n", wrapped(&text, "", ui))))?;
    Ok(Exit::Done)
}

pub(super) fn answer(args: &AnswerArgs, ui: &Ui) -> Result<Exit, Failure> {
    let (host, place) = (live(), Place::of_user()?);
    let _lock = place.lock()?;
    let (id, pairs) = match args.words.split_first() {
        Some((first, rest)) if !first.contains('=') => (Some(first.as_str()), rest),
        _ => (None, args.words.as_slice()),
    };
    let (scenario, mut run) = started(&place, id)?;
    if pairs.is_empty() {
        ask_all(&host, &scenario, &mut run, ui)?;
    }
    for pair in pairs {
        let Some((key, value)) = pair.split_once('=') else {
            return Err(LabError::usage(format!("{pair:?} is no answer"), "write key=value").into());
        };
        put(&host, &scenario, &mut run, key, value)?;
    }
    place.keep_run(&run)?;
    let open: Vec<&str> =
        scenario.questions.iter().map(|q| q.key.as_str()).filter(|key| !run.answers.contains_key(*key)).collect();
    if open.is_empty() {
        ui.note("everything is answered; `rdiag lab check` has it checked");
    } else {
        ui.note(shown!("not answered yet: {}", Text::seen(open.join(", "))));
    }
    Ok(Exit::Done)
}

fn put(host: &Host, scenario: &Scenario, run: &mut Run, key: &str, value: &str) -> Result<(), LabError> {
    let Some(question) = scenario.question(key) else {
        let known: Vec<&str> = scenario.questions.iter().map(|question| question.key.as_str()).collect();
        return Err(LabError::usage(
            format!("{} does not ask for {key:?}", scenario.id),
            format!("it asks for {}", known.join(", ")),
        ));
    };
    let name_of = |pid: u32| host.read_line(&format!("proc/{pid}/comm")).ok();
    run.answers.insert(key.to_owned(), accept(question, value, name_of)?);
    Ok(())
}

/// Asks one question after the other; an empty line leaves one as it is.
fn ask_all(host: &Host, scenario: &Scenario, run: &mut Run, ui: &Ui) -> Result<(), Failure> {
    if !ui.is_interactive() {
        let first = scenario.questions.first().map_or("key", |question| question.key.as_str());
        return Err(LabError::usage("no answer was given", format!("write key=value, as in {first}=…")).into());
    }
    ui.print(&Text::lines(questions(scenario, ui)))?;
    for question in &scenario.questions {
        while let Some(line) = ui.line(shown!("{} = ", Text::seen(&question.key))).filter(|line| !line.is_empty()) {
            match put(host, scenario, run, &question.key, &line) {
                Ok(()) => break,
                Err(error) => {
                    let hint = Text::seen(error.hint.as_deref().unwrap_or_default());
                    ui.note(shown!("{}; {}", Text::seen(error.to_string()), hint));
                }
            }
        }
    }
    Ok(())
}

pub(super) fn check(args: &CheckArgs, ui: &Ui) -> Result<Exit, Failure> {
    let (host, place) = (live(), Place::of_user()?);
    let _lock = place.lock()?;
    let (scenario, mut run) = started(&place, args.id.id.as_deref())?;
    runner::running(&host, &place, None)?;
    if args.fixed {
        return check_fixed(&host, &place, &scenario, &run, ui);
    }
    if run.answers.is_empty() {
        let first = scenario.questions.first().map_or("key", |question| question.key.as_str());
        let hint = format!("`rdiag lab answer {first}=…`; `rdiag lab status` shows what is asked");
        return Err(LabError::usage("nothing is answered yet, so there is nothing to check", hint).into());
    }
    ui.note("measuring twice what is true now …");
    let variant = runner::variant_of(&scenario, &run)?;
    let measured = || runner::truth(&host, &place, &scenario, variant, &run, runner::TRUTH_SECONDS);
    let (truth, disturbance) = disturbance::during(&host, &place, measured);
    let truth = truth?;
    // What ended meanwhile was not measured to the end.
    runner::running(&host, &place, None)?;
    if !truth.readings.iter().any(|readings| runner::shows(&scenario, &run.baseline, readings)) {
        let message = "the symptom is not there at this moment, so nothing can be judged";
        return Err(LabError::not_here(message, "try again; `rdiag lab status` shows it").into());
    }
    let marks = mark(&scenario, &run.answers, &truth);
    let outcome = outcome(&marks);
    run.checks += 1;
    place.keep_run(&run)?;
    keep_progress(&host, &place, &run, outcome)?;
    let mut out = String::new();
    for (key, verdict) in &marks {
        let given = run.answers.get(key).map_or("", String::as_str);
        let (word, text) = match verdict {
            Assessment::Right => ("right", String::new()),
            Assessment::Wrong(text) => ("not yet", text.clone()),
            Assessment::Unanswered => ("open", "there is no answer yet".into()),
            Assessment::Undecided(why) => ("undecided", why.clone()),
        };
        let line = format!("{word:<9} {key} = {given}");
        let _ = writeln!(out, "{}", visible(line.trim_end_matches(" = ")));
        if !text.is_empty() {
            let _ = writeln!(out, "{}", wrapped(&visible(&text), "          ", ui));
        }
    }
    let (exit, end) = match outcome {
        Outcome::Passed => {
            (Exit::Done, "Passed. `rdiag lab solution` tells the whole story; `rdiag lab stop` ends it.")
        }
        Outcome::NotPassed => (Exit::Findings, "Not passed yet. `rdiag lab hint` helps; a check costs nothing."),
        Outcome::CannotJudge => (Exit::Nothing, "Nothing is wrong, but the host is too noisy to be sure. Check again."),
    };
    let is_disturbed = disturbance.is_too_much() && outcome != Outcome::Passed;
    let meanwhile = if is_disturbed { format!("While it was measured, {disturbance}. ") } else { String::new() };
    let _ = writeln!(out, "\n{meanwhile}{end}");
    if args.json {
        let marks: Vec<_> = marks.iter().map(|(key, verdict)| mark_json(key, verdict)).collect();
        // Before it is passed, the recipe would tell the cause.
        let recipe = (outcome == Outcome::Passed).then(|| Recipe::of(&run, host.facts()));
        let all = json!({"scenario": run.scenario, "passed": outcome == Outcome::Passed, "hints": run.hints,
            "checks": run.checks, "answers": run.answers, "marks": marks, "recipe": recipe});
        ui.print(&to_json(&all)?)?;
    } else {
        ui.print(&Text::lines(&out))?;
    }
    Ok(exit)
}

fn check_fixed(host: &Host, place: &Place, scenario: &Scenario, run: &Run, ui: &Ui) -> Result<Exit, Failure> {
    ui.note("looking twice whether it is put right …");
    let meter = scenario.meter.reading;
    let (exit, told) = match fixed::look(host, place, scenario, run)? {
        Repair::Done => (Exit::Done, "It is put right: the symptom is gone, and the work goes on.".to_owned()),
        Repair::StillThere(value) => {
            let value = value.map_or_else(|| "not measured".into(), |value| with_unit(value, meter.unit()));
            (Exit::Findings, format!("Not yet: the symptom is still there ({}: {value}).", meter.title()))
        }
        Repair::WorkGone(name) => (
            Exit::Findings,
            format!("The symptom is gone, but {name} does nothing any more. To end the work is no fix."),
        ),
    };
    ui.print(&Text::lines(format!("{}\n", wrapped(&visible(&told), "", ui))))?;
    Ok(exit)
}

fn mark_json(key: &str, verdict: &Assessment) -> serde_json::Value {
    let (word, text) = match verdict {
        Assessment::Right => ("right", None),
        Assessment::Wrong(text) => ("wrong", Some(text)),
        Assessment::Unanswered => ("unanswered", None),
        Assessment::Undecided(text) => ("undecided", Some(text)),
    };
    json!({"key": key, "verdict": word, "text": text})
}

fn keep_progress(host: &Host, place: &Place, run: &Run, outcome: Outcome) -> Result<(), LabError> {
    let mut progress = place.progress()?;
    let reached = progress.entry(run.scenario.clone()).or_default();
    reached.checks += 1;
    if outcome == Outcome::Passed {
        let is_better = (run.solution, run.hints) < (reached.after_solution, reached.hints);
        if !reached.passed || is_better {
            (reached.after_solution, reached.hints) = (run.solution, run.hints);
        }
        reached.passed = true;
        reached.when = Some(host.wall_clock());
    }
    place.keep_progress(&progress)
}

pub(super) fn solution(args: &SolutionArgs, ui: &Ui) -> Result<Exit, Failure> {
    let (host, place) = (live(), Place::of_user()?);
    let _lock = place.lock()?;
    let (scenario, mut run) = started(&place, args.id.id.as_deref())?;
    runner::running(&host, &place, None)?;
    if run.checks == 0 && !args.give_up {
        let message = "nothing was checked yet, and a solution that is read first teaches little";
        return Err(LabError::usage(message, "try `rdiag lab check`, or add --give-up").into());
    }
    ui.note("measuring what to explain with …");
    let variant = runner::variant_of(&scenario, &run)?;
    let truth = runner::truth(&host, &place, &scenario, variant, &run, runner::TRUTH_SECONDS)?;
    run.solution = true;
    place.keep_run(&run)?;
    let words = truth.words();
    let mut out = format!("{}\n\n", wrapped(&fill(&variant.explanation, &words), "", ui));
    let _ = writeln!(out, "{}\n", wrapped_steps(&fill(&scenario.solution, &words), ui));
    for question in &scenario.questions {
        let right = truth.right_answer(question).unwrap_or_else(|| "cannot be measured here".into());
        let _ = writeln!(out, "  {} = {right}", question.key);
    }
    let recipe = Recipe::of(&run, host.facts());
    let _ = writeln!(
        out,
        "\nThe same again: {}\n(rdiag {}; here: Linux {} on {}, {} CPUs, {} of memory)",
        recipe.command,
        recipe.version,
        visible(&recipe.kernel),
        recipe.architecture,
        recipe.cpus,
        with_unit(recipe.memory_bytes as f64, Unit::Bytes)
    );
    ui.print(&Text::lines(&out))?;
    Ok(Exit::Done)
}
