//! `rdiag check`: lint playbooks, rules, exercises, the map of old tools and the advice of Method R, and run the tests that they carry.

use std::path::{Path, PathBuf};

use super::advice;
use super::confined::confined;
use super::tools::{self, dry_run};
use super::ui::{Text, Ui};
use crate::cli::exit::{Exit, Failure};
use rdiag_kernel::host::files;
use rdiag_lab as lab;
use rdiag_playbook::{Library, Problem, check, load, untested, words};
use rdiag_session as session;
use rdiag_session::Sources;

/// Check playbooks, rules, exercises, the map of old tools and the advice of Method R: everything they cite exists, and their tests pass.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// Files to check, with the built-in ones behind them; without any, all that `run` would use.
    #[arg(value_name = "FILE")]
    files: Vec<PathBuf>,
}

pub(super) fn main(args: &Args, ui: &Ui) -> Result<Exit, Failure> {
    let folders = if args.files.is_empty() { session::default_folders() } else { Vec::new() };
    let (mut labs, mut others) = (Vec::new(), Vec::new());
    for path in &args.files {
        match lab_text(path) {
            Some(text) => labs.push((path.display().to_string(), text)),
            None => others.push(path.clone()),
        }
    }
    let sources = session::sources(&folders, &others)?;
    confined(ui, None, |_| check_all(args, &labs, &sources, ui))
}

fn check_all(args: &Args, labs: &[(String, String)], sources: &Sources, ui: &Ui) -> Result<Exit, Failure> {
    let library = sources.library();
    let map = tools::map();
    let catalogue = session::catalogue();
    let mut problems = check::everything(&library, &catalogue);
    let mut warnings = words::everything(&library, &catalogue);
    let named: Vec<String> = args.files.iter().map(|path| path.display().to_string()).collect();
    problems.extend(untested::everything(&library, &catalogue, &|file| {
        named.is_empty() || named.iter().any(|n| n == file)
    }));
    if args.files.is_empty() {
        problems.extend(check::unused(&library));
        problems.extend(dry_run::problems(&map, &library));
        problems.extend(advice::problems(&library, dry_run::run_dry));
        let builtin = lab::SCENARIOS.iter().map(|(name, text)| (format!("built-in {name}"), *text));
        problems.extend(builtin.flat_map(|(file, text)| lab_problems(&file, text, &library)));
        let lessons = lab::lesson::LESSONS.iter().map(|(name, text)| (format!("built-in lesson {name}"), *text));
        problems.extend(lessons.flat_map(|(file, text)| lab_problems(&file, text, &library)));
    } else {
        problems.retain(|problem| named.contains(&problem.file));
        warnings.retain(|problem| named.contains(&problem.file));
        problems.extend(labs.iter().flat_map(|(file, text)| lab_problems(file, text, &library)));
    }
    for problem in &problems {
        ui.print(&Text::lines(format!("{problem}\n\n")))?;
    }
    // What is hard to read is no reason to refuse it.
    for warning in &warnings {
        ui.print(&Text::lines(format!("warning: {warning}\n\n")))?;
    }
    let tests: usize = library.rules.values().map(|loaded| loaded.rule.tests.len()).sum();
    let summary = format!(
        "{} playbooks, {} rules, {tests} rule tests, {} exercises and lessons, {} old tools: {}{}\n",
        library.playbooks.len(),
        library.rules.len(),
        if args.files.is_empty() { lab::SCENARIOS.len() + lab::lesson::LESSONS.len() } else { labs.len() },
        map.all().count(),
        match problems.len() {
            0 => "all is well".to_owned(),
            1 => "1 problem".to_owned(),
            n => format!("{n} problems"),
        },
        match warnings.len() {
            0 => String::new(),
            1 => ", 1 warning".to_owned(),
            n => format!(", {n} warnings"),
        }
    );
    ui.print(&Text::lines(&summary))?;
    Ok(if problems.is_empty() { Exit::Done } else { Exit::Usage })
}

/// The text of a file that holds an exercise or a lesson: nothing else has a symptom or a story.
fn lab_text(path: &Path) -> Option<String> {
    let text = String::from_utf8(files::read_named(path, load::MAX_BYTES).ok()?).ok()?;
    text.lines().any(|line| line.starts_with("symptom:") || is_story(line)).then_some(text)
}

fn is_story(line: &str) -> bool {
    line.starts_with("story:")
}

fn lesson_problems(file: &str, text: &str, library: &Library) -> Vec<Problem> {
    match lab::lesson::parse(file, text) {
        Ok(lesson) => lab::lesson::problems(file, text, &lesson, library),
        Err(problem) => vec![problem],
    }
}

fn lab_problems(file: &str, text: &str, library: &Library) -> Vec<Problem> {
    if text.lines().any(is_story) {
        return lesson_problems(file, text, library);
    }
    match lab::library::parse(file, text) {
        Ok(scenario) => lab::lint::problems(file, text, &scenario, library),
        Err(problem) => vec![problem],
    }
}
