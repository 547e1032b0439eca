//! `rdiag completions`: for the shell.

use clap_complete::Shell;

use super::ui::{Text, Ui};
use super::{Exit, Failure, command};

/// Print the completion script for a shell.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// The shell.
    #[arg(value_enum)]
    shell: Shell,
}

pub(super) fn main(args: &Args, ui: &Ui) -> Result<Exit, Failure> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut command(), "rdiag", &mut script);
    ui.print(&Text::lines(String::from_utf8_lossy(&script)))?;
    Ok(Exit::Done)
}
