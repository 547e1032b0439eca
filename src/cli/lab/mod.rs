//! `rdiag lab`: exercises on this host, from the symptom to the checked answer.

mod exam;
mod list;
mod run;

use std::path::Path;
use std::sync::Arc;

use super::{Exit, Failure, ui::Ui};
use crate::host::Host;
use crate::lab::place::Place;
use crate::lab::{LabError, dev_check, library};

/// Learn to diagnose: exercises that bring a symptom onto this host, ask what is behind it, and check the answers.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Exit codes of `lab check`: 0 passed; 1 not passed; 2 nothing to check; 3 cannot be judged now (too noisy, or \
                        the time is over)."
)]
pub(super) struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    /// Which exercises there are, which of them can run here, and what was reached.
    List(list::Args),
    /// What an exercise is about, what it needs, and what it changes on this host.
    Info(list::InfoArgs),
    /// Start an exercise: returns when the symptom is there.
    Start(run::StartArgs),
    /// How much time is left, how strong the symptom is now, what was answered so far.
    Status,
    /// The next hint.
    Hint(exam::IdArgs),
    /// Answer questions, as key=value; without any on a terminal, one after the other.
    Answer(exam::AnswerArgs),
    /// Have the answers checked against what is measured now.
    Check(exam::CheckArgs),
    /// What it was, with the figures of this host; after a check, or with --give-up.
    Solution(exam::SolutionArgs),
    /// End the exercise and clean up; does no harm if there is nothing to do.
    Stop,
    /// For authors: start, answer wrongly and rightly, diagnose, stop and kill every variant that can run here.
    DevCheck(DevCheckArgs),
}

#[derive(Debug, clap::Args)]
struct DevCheckArgs {
    /// Exercises; all if none is named.
    #[arg(value_name = "ID")]
    ids: Vec<String>,
}

pub(super) fn main(args: &Args, ui: &Ui) -> Result<Exit, Failure> {
    match &args.command {
        Command::List(args) => list::main(args, ui),
        Command::Info(args) => list::info(args, ui),
        Command::Start(args) => run::start(args, ui),
        Command::Status => run::status(ui),
        Command::Hint(args) => exam::hint(args, ui),
        Command::Answer(args) => exam::answer(args, ui),
        Command::Check(args) => exam::check(args, ui),
        Command::Solution(args) => exam::solution(args, ui),
        Command::Stop => run::stop(ui),
        Command::DevCheck(args) => check_all(args, ui),
    }
}

/// This machine.
fn live() -> Host {
    Host::live(Path::new("/"))
}

/// Paragraphs, wrapped to the terminal.
fn wrapped(text: &str, indent: &str, ui: &Ui) -> String {
    let options = textwrap::Options::new(ui.style().width).initial_indent(indent).subsequent_indent(indent);
    let paragraph = |text: &str| textwrap::fill(&text.split_whitespace().collect::<Vec<_>>().join(" "), &options);
    text.trim().split("\n\n").map(paragraph).collect::<Vec<_>>().join("\n\n")
}

/// A list whose lines begin with `1.`, `2.` …, each wrapped by itself.
fn wrapped_steps(text: &str, ui: &Ui) -> String {
    let mut steps: Vec<String> = Vec::new();
    for line in text.trim().lines() {
        match steps.last_mut() {
            Some(last) if line.starts_with(' ') => {
                last.push(' ');
                last.push_str(line.trim());
            }
            _ => steps.push(line.to_owned()),
        }
    }
    let options = textwrap::Options::new(ui.style().width).subsequent_indent("   ");
    steps.iter().map(|step| textwrap::fill(step, &options)).collect::<Vec<_>>().join("\n")
}

fn check_all(args: &DevCheckArgs, ui: &Ui) -> Result<Exit, Failure> {
    let host = Arc::new(live());
    let place = Place::of_user()?;
    let _lock = place.lock()?;
    if place.run()?.is_some() {
        return Err(LabError::usage("an exercise was started and not stopped", "`rdiag lab stop` ends it").into());
    }
    let scenarios = match args.ids.as_slice() {
        [] => library::all()?,
        ids => ids.iter().map(|id| library::find(id)).collect::<Result<_, _>>()?,
    };
    let mut bad = 0;
    for scenario in &scenarios {
        for variant in &scenario.variants {
            ui.note(format!("checking {} {} …", scenario.id, variant.name));
            let line = match dev_check::check(&host, &place, scenario, variant) {
                Ok(dev_check::Checked::Well) => "ok".to_owned(),
                Ok(dev_check::Checked::NotHere(why)) => format!("not here: {why}"),
                Ok(dev_check::Checked::Wrong(wrong)) => {
                    bad += 1;
                    format!("WRONG\n    {}", wrong.join("\n    "))
                }
                Err(error) => {
                    bad += 1;
                    format!("FAILED: {error}")
                }
            };
            ui.print(&format!("{} {}: {line}\n", scenario.id, variant.name))?;
        }
    }
    Ok(if bad == 0 { Exit::Done } else { Exit::Findings })
}
