//! Command lines that are no commands, and are understood all the same.

use std::ffi::OsString;
use std::process::ExitCode;

use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{CommandFactory as _, Error, Parser as _};

use super::ui::Ui;
use super::{Cli, Command, ended, run, tools};
use crate::cli::exit::Exit;
use rdiag_playbook::suggest::did_you_mean;
use rdiag_probes as probes;
use rdiag_session as session;

/// How long the look takes that bare `rdiag` is.
const LOOK: &str = "3s";

/// The command line; `rdiag use-method` means `rdiag run use-method`.
pub(super) fn parse() -> Result<Cli, Error> {
    let words: Vec<OsString> = std::env::args_os().collect();
    Cli::try_parse_from(&words).or_else(|error| match with_run(&words, &error) {
        Some(words) => Cli::try_parse_from(words),
        None => Err(error),
    })
}

fn with_run(words: &[OsString], error: &Error) -> Option<Vec<OsString>> {
    let named = unknown(error)?;
    let at = words.iter().skip(1).position(|word| word.to_str() == Some(named))? + 1;
    if !named.ends_with(".yaml") && !named.ends_with(".yml") && session::resolve(named).is_err() {
        return None;
    }
    let mut words = words.to_vec();
    words.insert(at, "run".into());
    Some(words)
}

/// What stands where a command should.
fn unknown(error: &Error) -> Option<&str> {
    match (error.kind(), error.get(ContextKind::InvalidSubcommand)) {
        (ErrorKind::InvalidSubcommand, Some(ContextValue::String(named))) => Some(named),
        _ => None,
    }
}

/// What was probably meant by a command that does not exist.
pub(super) fn hint(error: &Error) -> Option<String> {
    let named = unknown(error)?;
    if probes::find(named).is_some() {
        return Some(format!("`rdiag probe {named}` runs the probe of this name"));
    }
    if tools::map().named(named).is_some() {
        return Some(format!("`rdiag explain {named}` shows the rdiag command for it"));
    }
    let library = session::library(&session::default_folders(), &[]).ok()?;
    did_you_mean(named, library.playbooks.keys().map(String::as_str))
}

/// Bare `rdiag`: a short look where a person sits at a terminal, or else the help.
pub(super) fn alone(ui: &Ui) -> ExitCode {
    if ui.is_interactive() {
        let look = Cli::try_parse_from(["rdiag", "run", "use-method", "--duration", LOOK]);
        if let Ok(Cli { command: Some(Command::Run(args)), .. }) = look {
            return ended(run::look(&args, ui), ui);
        }
    }
    Ui::help(&mut Cli::command());
    Exit::Usage.into()
}
