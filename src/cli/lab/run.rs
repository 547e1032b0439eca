//! Starting, watching and ending an exercise.

use std::fmt::Write as _;

use super::super::ui::{Text, Ui};
use super::{as_it_is, live, wrapped};
use crate::cli::exit::{Exit, Failure};
use rdiag_lab::place::Place;
use rdiag_lab::plan::{self, Wish};
use rdiag_lab::runner;
use rdiag_lab::{Answer, LabError, LabMetric, Scenario, clean, library};
use rdiag_model::quantity::with_unit;
use rdiag_playbook as playbook;
use rdiag_report::shown;

/// What to start.
#[derive(Debug, clap::Args)]
pub(super) struct StartArgs {
    /// The exercise: its id, its number, or the word behind the number.
    id: String,
    /// One cause among those of this symptom, by name or by number; chance decides otherwise.
    #[arg(long, value_name = "NAME|NUMBER")]
    variant: Option<String>,
    /// The same number gives the same exercise.
    #[arg(long, value_name = "NUMBER")]
    seed: Option<u64>,
    /// For how long: 300s, 10m.
    #[arg(long = "for", value_name = "TIME")]
    time: Option<String>,
    /// Say what would be changed on this host and how it is undone, and change nothing.
    #[arg(long)]
    dry_run: bool,
    /// Start on a busy host too.
    #[arg(long)]
    force: bool,
}

pub(super) fn start(args: &StartArgs, ui: &Ui) -> Result<Exit, Failure> {
    let (host, place) = (live(), Place::of_user()?);
    let scenario = library::find(&args.id)?;
    let seconds = args.time.as_deref().map(|time| playbook::duration("--for", time)).transpose()?;
    let wish = Wish { variant: args.variant.clone(), seed: args.seed, seconds, force: args.force };
    let _lock = place.lock()?;
    if let Some(run) = place.run()? {
        if runner::is_running(&host, &run) {
            let left = run.until - host.now();
            return Err(LabError::usage(
                format!("{} runs already, for another {left:.0} s", run.scenario),
                "`rdiag lab stop` ends it",
            )
            .into());
        }
        ui.note(shown!("cleaning up after {}, which was not stopped", Text::seen(&run.scenario)));
    }
    let plan = plan::plan(&host, &place, &scenario, &wish)?;
    if args.dry_run {
        let lines: Vec<String> = plan.changes().iter().map(|change| as_it_is(change, "  ", ui)).collect();
        ui.print(&Text::lines(format!("{} would change on this host:\n{}\n", scenario.id, lines.join("\n"))))?;
        if args.seed.is_none() {
            ui.note(shown!("started with --seed {}, it is this one; otherwise chance chooses again", plan.seed));
        }
        return Ok(Exit::Done);
    }
    clean::clean(&host, &place)?;
    runner::start(&host, &place, &plan, &mut |text| ui.note(Text::seen(text)))?;
    ui.print(&Text::lines(briefing(&scenario, plan.seconds, ui)))?;
    Ok(Exit::Done)
}

/// What a student reads first.
fn briefing(scenario: &Scenario, seconds: f64, ui: &Ui) -> String {
    let mut out = format!("\n{}: {}\n\n{}\n\n", scenario.id, scenario.title, wrapped(&scenario.symptom, "  ", ui));
    let _ = writeln!(out, "The symptom is there now, and will be for {seconds:.0} s. You are asked:\n");
    out.push_str(&questions(scenario, ui));
    // A drill asks for one measurement, and says so.
    if !scenario.topics.iter().any(|topic| topic == "drills") {
        let advice = "Go from the symptom to a baseline, look at every resource, form a hypothesis, find the one measurement that \
                      would prove it wrong, and only then answer.";
        let _ = write!(out, "\n{}", wrapped(advice, "", ui));
    }
    let _ = writeln!(
        out,
        "\nAny tool will do.\n\n  \
         rdiag lab status             the symptom, measured, and the time that is left\n  \
         rdiag lab hint               the next hint\n  \
         rdiag lab answer key=value   an answer; rdiag lab check has all of them checked\n  \
         rdiag lab stop               ends it"
    );
    out
}

/// The questions with what can be answered.
pub(super) fn questions(scenario: &Scenario, ui: &Ui) -> String {
    let mut out = String::new();
    for question in &scenario.questions {
        let _ = writeln!(out, "{}", wrapped(&format!("{}: {}", question.key, question.ask), "  ", ui));
        if let Answer::Choice { options, .. } = &question.answer {
            for (option, text) in options {
                let _ = writeln!(out, "{}", wrapped(&format!("{option} = {text}"), "      ", ui));
            }
        }
    }
    out
}

pub(super) fn status(ui: &Ui) -> Result<Exit, Failure> {
    let (host, place) = (live(), Place::of_user()?);
    let run = runner::running(&host, &place, None)?;
    let scenario = library::find(&run.scenario)?;
    let now = runner::look(&host, &place, &run);
    let mut out = format!("{} runs for another {:.0} s\n", run.scenario, run.until - host.now());
    let delays = [LabMetric::WakeupDelayMedian, LabMetric::WakeupDelayLongest];
    let meter = Some(scenario.meter.reading).filter(|meter| !delays.contains(meter));
    for reading in delays.into_iter().chain(meter) {
        // What is asked for is not told.
        if Some(reading) == meter && scenario.asks_for(reading) {
            let _ = writeln!(out, "  {}: you are asked for it", reading.title());
            continue;
        }
        let told =
            |value: Option<f64>| value.map_or_else(|| "not measured".into(), |value| with_unit(value, reading.unit()));
        let _ = writeln!(
            out,
            "  {}: {} (before: {})",
            reading.title(),
            told(now.get(reading, None)),
            told(run.baseline.get(reading, None))
        );
    }
    let there = runner::shows(&scenario, &run.baseline, &now);
    let _ = writeln!(out, "  the symptom {}", if there { "is there" } else { "is not there at this moment" });
    let _ = writeln!(out, "  hints used: {} of {}; checked: {}", run.hints, scenario.hints.len(), run.checks);
    for question in &scenario.questions {
        let answer = run.answers.get(&question.key).map_or("no answer yet", String::as_str);
        let _ = writeln!(out, "  {}: {answer}", question.key);
    }
    ui.print(&Text::lines(&out))?;
    Ok(Exit::Done)
}

pub(super) fn stop(ui: &Ui) -> Result<Exit, Failure> {
    let (host, place) = (live(), Place::of_user()?);
    let _lock = place.lock()?;
    // What cannot be read is cleaned up all the same: the journal is enough.
    let run = place.run().ok().flatten();
    let cleaned = clean::clean(&host, &place)?;
    let what = run.map_or_else(|| "no exercise was started".to_owned(), |run| format!("{} is ended", run.scenario));
    let (processes, folders) = (cleaned.processes, cleaned.folders);
    ui.print(&shown!("{}; processes ended: {}, folders removed: {}\n", Text::seen(what), processes, folders))?;
    Ok(Exit::Done)
}
