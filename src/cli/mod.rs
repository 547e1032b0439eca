//! The command line: one file for each command.

mod advice;
mod analyze;
mod at;
mod baseline;
mod check;
mod command;
mod completions;
mod confined;
mod conversation;
mod diff;
mod doctor;
#[cfg(test)]
mod documented;
mod exit;
mod explain;
mod fail_on;
mod fleet;
mod guided;
mod hanging;
mod history;
mod history_folder;
mod incidents;
mod input;
mod lab;
mod list;
mod man;
mod measure;
mod output;
mod params;
mod points;
mod probe;
mod record;
mod report;
mod root;
mod run;
mod screen;
mod sides;
mod signals;
mod size;
mod stacks;
mod state;
mod task;
mod tools;
mod typed;
mod ui;
mod unpacked;
mod wait;
mod watch;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

pub use exit::{Exit, Failure};
pub use fleet::taken_apart;

use rdiag_kernel::host::{again, launch, rights, statvfs};
use rdiag_kernel::mechanism::symbols::reader;
use rdiag_kernel::mechanism::tracefs::undo;
use rdiag_lab::{keeper, load};

/// Guided performance diagnosis for Linux: what is saturated, who is behind it, what was ruled out.
#[derive(Debug, Parser)]
#[command(name = "rdiag", version, about, max_term_width = 100, after_help = exit::HELP)]
struct Cli {
    #[command(subcommand)]
    command: Option<Command>,
    /// When to use colours.
    #[arg(long, global = true, value_enum, default_value_t = ui::ColorWhen::Auto)]
    color: ui::ColorWhen,
}

#[derive(Debug, Subcommand)]
enum Command {
    Run(run::Args),
    Record(record::Args),
    Probe(probe::Args),
    Analyze(analyze::Args),
    Report(report::Args),
    Diff(diff::Args),
    Fleet(fleet::Args),
    Watch(watch::Args),
    Wait(wait::Args),
    History(history::Args),
    Baseline(baseline::Args),
    Lab(lab::Args),
    List(list::Args),
    Explain(explain::Args),
    Check(check::Args),
    Doctor(doctor::Args),
    Completions(completions::Args),
    Man(man::Args),
}

/// Runs the program.
#[must_use]
pub fn main() -> ExitCode {
    // Before anything else: the helper is started for each run and has nothing to do with the command line.
    if std::env::args_os().nth(1).is_some_and(|first| first == statvfs::HELPER_ARGUMENT) {
        let outcome = statvfs::helper_main(std::io::stdin().lock(), std::io::stdout().lock());
        return if outcome.is_ok() { Exit::Done.into() } else { Exit::Failed.into() };
    }
    if std::env::args_os().nth(1).is_some_and(|first| first == launch::HELPER_ARGUMENT) {
        return launch::helper_main(std::env::args_os().skip(2));
    }
    if std::env::args_os().nth(1).is_some_and(|first| first == again::HELPER_ARGUMENT) {
        return again::helper_main(std::env::args_os().skip(2));
    }
    if std::env::args_os().nth(1).is_some_and(|first| first == reader::HELPER_ARGUMENT) {
        return reader::main();
    }
    if std::env::args_os().nth(1).is_some_and(|first| first == undo::HELPER_ARGUMENT) {
        return undo::main();
    }
    // A process of an exercise has one argument and no other.
    match (std::env::args_os().nth(1), std::env::args_os().len()) {
        (Some(first), 2) if first == load::ARGUMENT => return load::main(),
        (Some(first), 2) if first == keeper::ARGUMENT => return keeper::main(),
        _ => {}
    }
    let cli = match typed::parse() {
        Ok(cli) => cli,
        Err(mut error) => {
            let code = if error.use_stderr() { Exit::Usage } else { Exit::Done };
            ui::Ui::usage(&mut error);
            if let Some(hint) = typed::hint(&error) {
                ui::Ui::new(ui::ColorWhen::Auto).note(rdiag_report::shown!("  hint: {}", ui::Text::seen(hint)));
            }
            return code.into();
        }
    };
    rights::forbid_dumps();
    let ui = ui::Ui::new(cli.color);
    let Some(command) = &cli.command else { return typed::alone(&ui) };
    let outcome = match command {
        Command::Run(args) => run::main(args, &ui),
        Command::Record(args) => record::main(args, &ui),
        Command::Probe(args) => probe::main(args, &ui),
        Command::Analyze(args) => analyze::main(args, &ui),
        Command::Report(args) => report::main(args, &ui),
        Command::Diff(args) => diff::main(args, &ui),
        Command::Fleet(args) => fleet::main(args, &ui),
        Command::Watch(args) => watch::main(args, &ui),
        Command::Wait(args) => wait::main(args, &ui),
        Command::History(args) => history::main(args, &ui),
        Command::Baseline(args) => baseline::main(args, &ui),
        Command::Lab(args) => lab::main(args, &ui),
        Command::List(args) => list::main(args, &ui),
        Command::Explain(args) => explain::main(args, &ui),
        Command::Check(args) => check::main(args, &ui),
        Command::Doctor(args) => doctor::main(args, &ui),
        Command::Completions(args) => completions::main(args, &ui),
        Command::Man(args) => man::main(args, &ui),
    };
    ended(outcome, &ui)
}

/// The exit code of an outcome, after its error has been told.
fn ended(outcome: Result<Exit, Failure>, ui: &ui::Ui) -> ExitCode {
    match outcome {
        Ok(exit) => exit.into(),
        Err(failure) if failure.is_closed_pipe() => Exit::Done.into(),
        // What a person chose is no error.
        Err(failure @ Failure::Quit) => {
            ui.note(failure.shown());
            failure.exit().into()
        }
        Err(failure) => {
            ui.error(&failure);
            failure.exit().into()
        }
    }
}

/// The command line as clap sees it, for completions and the manual page.
#[must_use]
pub fn command() -> clap::Command {
    <Cli as clap::CommandFactory>::command()
}
