//! `rdiag check`: lint playbooks, rules and the map of old tools, and run the tests that rules carry.

use std::path::PathBuf;

use super::{Exit, Failure, tools, ui::Ui};
use crate::playbook::check;
use crate::session;

/// Check playbooks, rules and the map of old tools: everything they cite exists, and the tests of the rules pass.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// Files to check, with the built-in ones behind them; without any, all that `run` would use.
    #[arg(value_name = "FILE")]
    files: Vec<PathBuf>,
}

pub(super) fn main(args: &Args, ui: &Ui) -> Result<Exit, Failure> {
    let folders = if args.files.is_empty() { session::default_folders() } else { Vec::new() };
    let library = session::library(&folders, &args.files)?;
    let map = tools::map();
    let mut problems = check::everything(&library, &session::catalogue());
    if args.files.is_empty() {
        problems.extend(check::unused(&library));
        problems.extend(tools::problems(&map, &library));
    } else {
        let named: Vec<String> = args.files.iter().map(|path| path.display().to_string()).collect();
        problems.retain(|problem| named.contains(&problem.file));
    }
    for problem in &problems {
        ui.print(&format!("{problem}\n\n"))?;
    }
    let tests: usize = library.rules.values().map(|loaded| loaded.rule.tests.len()).sum();
    let summary = format!(
        "{} playbooks, {} rules, {tests} rule tests, {} old tools: {}\n",
        library.playbooks.len(),
        library.rules.len(),
        map.all().count(),
        match problems.len() {
            0 => "all is well".to_owned(),
            1 => "1 problem".to_owned(),
            n => format!("{n} problems"),
        }
    );
    ui.print(&summary)?;
    Ok(if problems.is_empty() { Exit::Done } else { Exit::Usage })
}
