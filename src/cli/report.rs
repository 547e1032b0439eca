//! `rdiag report`: draw a report again, in another format; or make one of a time that is over, and keep nothing.

use std::ops::Deref;
use std::path::PathBuf;

use super::at::{self, AtArgs};
use super::confined::confined;
use super::fail_on::FailOn;
use super::input::Input;
use super::output::{OutputArgs, Target};
use super::screen::ScreenArgs;
use super::{stacks, ui::Ui};
use crate::cli::exit::{Exit, Failure};
use rdiag_lab::library::reproducing;
use rdiag_model::{Recording, Report};
use rdiag_session as session;
use rdiag_session::{Analysis, Sources};

/// Files larger than this are no reports.
const MAX_FILE: u64 = 64 << 20;

/// Draw a report.json again: on the terminal, or as HTML or Markdown; or the stacks of a recording; or the report of a time that is over.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// The report (report.json), a recording (recording.json.gz), or the folder of a run.
    // Options of a time that is over would be ignored, silently: clap asks for no --at beside what excludes it.
    #[arg(value_name = "REPORT", required_unless_present = "at", conflicts_with_all = ["at", "last", "history", "from", "playbook"])]
    report: Option<PathBuf>,
    #[command(flatten)]
    at: AtArgs,
    /// Judge the time by this playbook [default: use-method].
    #[arg(long, value_name = "PLAYBOOK", requires = "at")]
    playbook: Option<String>,
    #[command(flatten)]
    output: OutputArgs,
    #[command(flatten)]
    screen: ScreenArgs,
    /// Exit with code 1 when a finding is at least this bad.
    #[arg(long, value_enum, value_name = "STATUS")]
    fail_on: Option<FailOn>,
}

pub(super) fn main(args: &Args, ui: &Ui) -> Result<Exit, Failure> {
    let Some(report) = &args.report else {
        let playbook = args.playbook.as_deref().unwrap_or(at::PLAYBOOK);
        let (at, output, screen, fail_on) = (&args.at, &args.output, args.screen, args.fail_on);
        return at::run(&at::Order { playbook, at, output, keeps: false, screen, fail_on }, &screen.ui(ui));
    };
    // Some formats have more of a recording; where there is no report, the recording can be judged again.
    let target = args.output.prepare(None)?;
    let names = if target.is_of_recordings() {
        ["recording.json.gz", "report.json"]
    } else {
        ["report.json", "recording.json.gz"]
    };
    let input = Input::open(report, &names)?;
    let sources = session::sources_for(None)?;
    confined(ui, target.folder().as_deref().map(Deref::deref), |desk| {
        draw(args, &input, &sources, &target.through(&desk), ui)
    })
}

fn draw(args: &Args, input: &Input, sources: &Sources, target: &Target, ui: &Ui) -> Result<Exit, Failure> {
    let bytes = input.bytes(MAX_FILE)?;
    // Stacks need no judgement, so a recording will do, which has all of them.
    if target.is_of_stacks()
        && let Ok(recording) = session::read_recording(&bytes)
    {
        let written = stacks::write(&stacks::of_recording(&recording), target, ui)?;
        target.told(&written).into_iter().for_each(|told| ui.note(told));
        return Ok(Exit::Done);
    }
    let (report, written) = match session::read_report(&bytes) {
        Ok(_) if target.has_rows() => {
            let message = format!("--format rows is made of a recording, and {} is a report", input.name);
            return Err(Failure::usage(message, Some("give recording.json.gz, or the folder of the run")));
        }
        Ok(report) => {
            let written = target.write(&report, None, args.screen.is_whole(), ui)?;
            (report, written)
        }
        Err(source) => match session::read_recording(&bytes) {
            Ok(recording) => {
                let (report, analysis) = judged(&recording, sources)?;
                let mut written = target.write(&report, Some(&recording), args.screen.is_whole(), ui)?;
                let rows = session::rows(&recording, &analysis, &report, &input.name, "");
                written.extend(target.write_rows(rows, ui)?);
                (report, written)
            }
            Err(_) => return Err(input.foreign(&bytes, source)),
        },
    };
    if !target.owns_stdout() {
        args.screen.show(&report, target.told(&written).as_ref(), ui)?;
    }
    Ok(match args.fail_on {
        Some(level) if level.fails(&report) => Exit::Findings,
        _ => Exit::Done,
    })
}

/// The report of a recording, by the playbook that it was made with.
fn judged(recording: &Recording, sources: &Sources) -> Result<(Report, Analysis), Failure> {
    let plan = session::resolve_recorded(&recording.playbook, sources)?.plan_of(recording)?;
    let analysis = session::analyze(recording, &plan);
    Ok((session::document(recording, &analysis, &plan, &reproducing()), analysis))
}
