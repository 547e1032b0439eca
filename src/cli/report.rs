//! `rdiag report`: draw a report again, in another format.

use std::path::PathBuf;

use super::confined::confined;
use super::fail_on::FailOn;
use super::input::Input;
use super::output::{OutputArgs, Target};
use super::{Exit, Failure, stacks, ui::Ui};
use crate::report;
use crate::session;

/// Files larger than this are no reports.
const MAX_FILE: u64 = 64 << 20;

/// Draw a report.json again: on the terminal, or as HTML or Markdown; or the stacks of a recording.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// The report (report.json); for folded, svg and speedscope also a recording (recording.json.gz).
    #[arg(value_name = "REPORT")]
    report: PathBuf,
    #[command(flatten)]
    output: OutputArgs,
    /// Exit with code 1 when a finding is at least this bad.
    #[arg(long, value_enum, value_name = "STATUS")]
    fail_on: Option<FailOn>,
}

pub(super) fn main(args: &Args, ui: &Ui) -> Result<Exit, Failure> {
    let input = Input::open(&args.report)?;
    let target = args.output.prepare(None)?;
    confined(target.folder().as_deref(), |desk| draw(args, &input, &target.through(&desk), ui))
}

fn draw(args: &Args, input: &Input, target: &Target, ui: &Ui) -> Result<Exit, Failure> {
    let bytes = input.bytes(MAX_FILE)?;
    // Stacks need no judgement, so a recording will do, which has all of them.
    if target.is_of_stacks()
        && let Ok(recording) = session::read_recording(&bytes)
    {
        let written = stacks::write(&stacks::of_recording(&recording), target, ui)?;
        target.told(&written).into_iter().for_each(|told| ui.note(told));
        return Ok(Exit::Done);
    }
    let report =
        session::read_report(&bytes).map_err(|source| Failure::Recording { path: input.name.clone(), source })?;
    let written = target.write(&report, &stacks::of_report(&report), ui)?;
    if !target.owns_stdout() {
        ui.print(&report::terminal(&report, &ui.style()))?;
        if let Some(told) = target.told(&written) {
            ui.note(told);
        }
    }
    Ok(match args.fail_on {
        Some(level) if level.fails(&report) => Exit::Findings,
        _ => Exit::Done,
    })
}
