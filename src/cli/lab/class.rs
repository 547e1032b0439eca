//! What was reached: by oneself, and by a class.

use std::path::{Path, PathBuf};

use super::super::confined::confined;
use super::super::output::json;
use super::super::ui::Ui;
use crate::cli::exit::{Exit, Failure};
use rdiag_kernel::host::files;
use rdiag_lab::class::{Student, overview};
use rdiag_lab::place::{Place, Progress};
use rdiag_lab::{LabError, lesson, library};

/// No student's file is larger.
const MAX_BYTES: u64 = 1 << 20;

/// What a class reached.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// One file for each student, as `rdiag lab progress` prints it; its name is the student's.
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
    /// For programs; Markdown otherwise.
    #[arg(long)]
    json: bool,
}

/// Prints what was reached so far, to be handed in.
pub(super) fn progress(ui: &Ui) -> Result<Exit, Failure> {
    let progress = Place::of_user()?.progress()?;
    print_json(&progress, ui)
}

pub(super) fn main(args: &Args, ui: &Ui) -> Result<Exit, Failure> {
    let read = |path: &PathBuf| {
        let bytes = files::read_named(path, MAX_BYTES);
        Ok((path.clone(), bytes.map_err(Failure::reading(&path.display().to_string()))?))
    };
    let files = args.files.iter().map(read).collect::<Result<Vec<_>, Failure>>()?;
    confined(ui, None, |_| draw(args, &files, ui))
}

fn draw(args: &Args, files: &[(PathBuf, Vec<u8>)], ui: &Ui) -> Result<Exit, Failure> {
    let students = files.iter().map(|(path, bytes)| student(path, bytes)).collect::<Result<Vec<_>, _>>()?;
    let mut titles: Vec<(String, String)> =
        library::all()?.into_iter().map(|scenario| (scenario.id, scenario.title)).collect();
    titles.extend(lesson::all()?.into_iter().map(|lesson| (lesson.id, lesson.title)));
    let overview = overview(students, &titles);
    if args.json {
        return print_json(&overview, ui);
    }
    ui.print(&overview.markdown())?;
    Ok(Exit::Done)
}

fn student(path: &Path, bytes: &[u8]) -> Result<Student, Failure> {
    let progress: Progress = serde_json::from_slice(bytes).map_err(|error| {
        let message = format!("{} is not what `rdiag lab progress` prints: {error}", path.display());
        LabError::usage(message, "each student runs `rdiag lab progress > NAME.json`, and hands that in")
    })?;
    let name = path.file_stem().map_or_else(String::new, |name| name.to_string_lossy().into_owned());
    Ok(Student { name, progress })
}

fn print_json(what: &impl serde::Serialize, ui: &Ui) -> Result<Exit, Failure> {
    let text = json(what)?;
    ui.print(&text)?;
    Ok(Exit::Done)
}
