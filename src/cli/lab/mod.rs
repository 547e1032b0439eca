//! `rdiag lab`: exercises on this host, from the symptom to the checked answer.

mod class;
mod dev_check;
mod exam;
mod lesson;
mod list;
mod run;

use std::path::Path;

use super::ui::Ui;
use crate::cli::exit::{Exit, Failure};
use rdiag_kernel::host::Host;
use rdiag_report::plain;

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
    /// A lesson, step by step: predict, measure, compare, and a quiz; without a name, which there are. Needs neither root nor a load.
    Lesson(lesson::Args),
    /// What was reached so far, as JSON: to be handed in.
    Progress,
    /// What a class reached, from what its students hand in.
    Class(class::Args),
    /// For authors: start, answer wrongly and rightly, diagnose, stop and kill every variant that can run here.
    DevCheck(dev_check::Args),
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
        Command::Lesson(args) => lesson::main(args, ui),
        Command::Progress => class::progress(ui),
        Command::Class(args) => class::main(args, ui),
        Command::DevCheck(args) => dev_check::main(args, ui),
    }
}

/// This machine.
fn live() -> Host {
    Host::live(Path::new("/"))
}

/// Markdown as plain words, wrapped to the terminal.
fn wrapped(text: &str, indent: &str, ui: &Ui) -> String {
    as_it_is(&plain(text), indent, ui)
}

/// Paragraphs, wrapped to the terminal; every character is kept, as commands need it.
fn as_it_is(text: &str, indent: &str, ui: &Ui) -> String {
    let deeper = format!("{indent}  ");
    let options = textwrap::Options::new(ui.style().width).initial_indent(indent).subsequent_indent(indent);
    let joined = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
    let item = options.clone().subsequent_indent(&deeper);
    let paragraph = |text: &str| match text.split("\n- ").collect::<Vec<_>>().as_slice() {
        [only] if !only.starts_with("- ") => textwrap::fill(&joined(only), &options),
        [first, items @ ..] => {
            let first = first.strip_prefix("- ").map_or_else(
                || textwrap::fill(&joined(first), &options),
                |first| textwrap::fill(&format!("- {}", joined(first)), &item),
            );
            let items = items.iter().map(|text| textwrap::fill(&format!("- {}", joined(text)), &item));
            std::iter::once(first).chain(items).collect::<Vec<_>>().join("\n")
        }
        [] => String::new(),
    };
    text.trim().split("\n\n").map(paragraph).collect::<Vec<_>>().join("\n\n")
}

/// A list whose lines begin with `1.`, `2.` …, each wrapped by itself.
fn wrapped_steps(text: &str, ui: &Ui) -> String {
    let mut steps: Vec<String> = Vec::new();
    for line in plain(text.trim()).lines() {
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
