//! `rdiag analyze`: judge a recording, here and now, with today's rules.

use std::ops::Deref;
use std::path::PathBuf;

use clap::ValueEnum;

use super::confined::confined;
use super::fail_on::{FailOn, exit};
use super::input::Input;
use super::output::{OutputArgs, Target, json};
use super::screen::ScreenArgs;
use super::ui::{Text, Ui};
use crate::cli::exit::{Exit, Failure};
use rdiag_lab::library::reproducing;
use rdiag_model::{ProbeResult, Recording};
use rdiag_report as report;
use rdiag_report::shown;
use rdiag_session as session;
use rdiag_session::Sources;

/// Files larger than this are no recordings.
const MAX_FILE: u64 = 512 << 20;

/// Judge a recording, made here or elsewhere, with the rules of this rdiag; or show where the time of a profile goes.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// The recording (recording.json.gz) or the folder that has it, or a profile: perf.data, or folded text; `-` for a recording on stdin.
    #[arg(value_name = "RECORDING")]
    recording: PathBuf,
    /// Judge by this playbook instead of the one that was recorded.
    #[arg(long, value_name = "PLAYBOOK")]
    playbook: Option<String>,
    /// Print one stage of the analysis as JSON to stdout, instead of the report.
    #[arg(long, value_enum, value_name = "STAGE", conflicts_with_all = ["out", "format"])]
    print: Option<Stage>,
    #[command(flatten)]
    output: OutputArgs,
    #[command(flatten)]
    screen: ScreenArgs,
    /// Exit with code 1 when a finding is at least this bad.
    #[arg(long, value_enum, value_name = "STATUS")]
    fail_on: Option<FailOn>,
}

/// A stage that can be printed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Stage {
    /// What the playbook asks for, resolved.
    Plan,
    /// The readings, by window.
    Metrics,
    /// What the rules conclude.
    Findings,
}

pub(super) fn main(args: &Args, ui: &Ui) -> Result<Exit, Failure> {
    let input = Input::open(&args.recording, &["recording.json.gz"])?;
    let sources = session::sources_for(args.playbook.as_deref())?;
    let target = args.output.prepare(None)?;
    confined(ui, target.folder().as_deref().map(Deref::deref), |desk| {
        let target = target.through(&desk);
        match input.profile(&desk)? {
            Some(result) => profile(args, &result, &target, ui),
            None => judge(args, &load(&input)?, &sources, &target, ui),
        }
    })
}

fn judge(args: &Args, recording: &Recording, sources: &Sources, target: &Target, ui: &Ui) -> Result<Exit, Failure> {
    let named = match &args.playbook {
        Some(playbook) => session::resolve_among(playbook, sources)?,
        None => session::resolve_recorded(&recording.playbook, sources)?,
    };
    for warning in &named.warnings {
        ui.warn(shown!("left out: {}", Text::lines(warning.to_string())));
    }
    named.notes.iter().for_each(|note| ui.warn(Text::seen(note)));
    let plan = named.plan_of(recording)?;
    let analysis = session::analyze(recording, &plan);
    if let Some(stage) = args.print {
        let text = match stage {
            Stage::Plan => json(&plan)?,
            Stage::Metrics => json(&analysis.metrics)?,
            Stage::Findings => json(&analysis.findings)?,
        };
        ui.print(&text)?;
        return Ok(Exit::Done);
    }
    let report = session::document(recording, &analysis, &plan, &reproducing());
    let mut written = target.write(&report, Some(recording), args.screen.is_whole(), ui)?;
    let file = args.recording.display().to_string();
    let file = if file == "-" { "" } else { &file };
    written.extend(target.write_rows(session::rows(recording, &analysis, &report, file, ""), ui)?);
    if !target.owns_stdout() {
        args.screen.show(&report, target.told(&written).as_ref(), ui)?;
    }
    Ok(exit(&report, &analysis, args.fail_on, false))
}

/// A profile of another program: there is nothing to judge, but much to see.
fn profile(args: &Args, result: &ProbeResult, target: &Target, ui: &Ui) -> Result<Exit, Failure> {
    if args.playbook.is_some() || args.print.is_some() || args.fail_on.is_some() {
        let message = "--playbook, --print and --fail-on are for recordings, and this is a profile".to_owned();
        return Err(Failure::Usage { message, hint: None });
    }
    let written = target.write_profile(result, &args.recording.display().to_string(), ui)?;
    if !target.owns_stdout() {
        ui.print(&report::probe::text(result, &ui.style()))?;
        target.told(&written).into_iter().for_each(|told| ui.note(told));
    }
    Ok(Exit::Done)
}

fn load(input: &Input) -> Result<Recording, Failure> {
    let bytes = input.bytes(MAX_FILE)?;
    session::read_recording(&bytes).map_err(|source| input.foreign(&bytes, source))
}
