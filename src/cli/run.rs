//! `rdiag run`: record, analyse and report in one go.

use super::at::{self, AtArgs};
use super::fail_on::{FailOn, exit};
use super::measure::{MeasureArgs, measure, prepare};
use super::output::OutputArgs;
use super::screen::ScreenArgs;
use super::{guided, list, ui::Ui};
use crate::cli::exit::{Exit, Failure};
use rdiag_lab::library::reproducing;
use rdiag_report::shown;
use rdiag_session as session;

/// Run a playbook: measure, judge, and write the report.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    #[command(flatten)]
    pub(super) measure: MeasureArgs,
    #[command(flatten)]
    at: AtArgs,
    #[command(flatten)]
    output: OutputArgs,
    #[command(flatten)]
    screen: ScreenArgs,
    /// Ask what is not given, then walk through the steps of the playbook one by one.
    #[arg(long, overrides_with = "no_guided")]
    guided: bool,
    /// Ask nothing: the default.
    #[arg(long, hide = true)]
    no_guided: bool,
    /// Exit with code 1 when a finding is at least this bad.
    #[arg(long, value_enum, value_name = "STATUS")]
    pub(super) fail_on: Option<FailOn>,
}

pub(super) fn main(args: &Args, ui: &Ui) -> Result<Exit, Failure> {
    let ui = &args.screen.ui(ui);
    if args.measure.playbook.is_none() {
        return list::by_symptom(ui);
    }
    if args.at.at.is_some() {
        let (playbook, at) = (args.measure.past()?, &args.at);
        let (output, screen, fail_on) = (&args.output, args.screen, args.fail_on);
        let order = at::Order { playbook, at, output, keeps: true, screen, fail_on };
        return at::run(&order, ui);
    }
    let asks = args.guided && ui.is_interactive() && !args.output.is_stdout();
    let mut prepared = prepare(&args.measure, asks, ui)?;
    let facts = prepared.host.facts();
    let stamp: String = prepared.host.wall_clock().chars().filter(|c| c.is_ascii_alphanumeric()).collect();
    let safe: String =
        facts.hostname.chars().map(|c| if c.is_ascii_alphanumeric() || c == '-' { c } else { '_' }).collect();
    let default = format!("rdiag-{}-{safe}-{stamp}", prepared.plan.playbook.name);
    let target = args.output.prepare(Some(default))?;
    let guided = args.guided && !target.owns_stdout();
    prepared.streams = !target.owns_stdout();
    let run = measure(&mut prepared, &|recording| target.keep(recording), ui)?;
    let interrupted = run.recording.interrupted;
    let report = session::document(&run.recording, &run.analysis, &prepared.plan, &reproducing());
    let mut written = target.write(&report, Some(&run.recording), args.screen.is_whole(), ui)?;
    let rows = session::rows(&run.recording, &run.analysis, &report, "", "");
    written.extend(target.write_rows(rows, ui)?);
    if !target.owns_stdout() {
        if target.keeps() {
            written.push("recording.json.gz".to_owned());
        }
        if guided {
            guided::walk(&report, ui)?;
        }
        args.screen.show(&report, target.told(&written).as_ref(), ui)?;
    }
    if let Some(failed) = prepared.failed {
        return Ok(failed);
    }
    let exit = exit(&report, &run.analysis, args.fail_on, interrupted);
    // What was asked for is the account, and only its beginning is there.
    let is_partial = report.profile.as_ref().is_some_and(|profile| profile.partial.is_some());
    Ok(if exit == Exit::Done && is_partial { Exit::OverBudget } else { exit })
}

/// One window without drill-down that writes nothing, for a user who typed `rdiag` alone; says what to type next.
pub(super) fn look(args: &Args, ui: &Ui) -> Result<Exit, Failure> {
    let mut prepared = prepare(&args.measure, false, ui)?;
    prepared.plan.windows.truncate(1);
    prepared.streams = true;
    let run = measure(&mut prepared, &|_| Ok(()), ui)?;
    let report = session::document(&run.recording, &run.analysis, &prepared.plan, &reproducing());
    ui.note("A look of 3 seconds, with nothing written. To go on, type:");
    for (command, what) in GO_ON {
        ui.note(shown!("  {:<30} {}", command, what));
    }
    ui.note("");
    args.screen.show(&report, None, ui)?;
    Ok(exit(&report, &run.analysis, None, run.recording.interrupted))
}

/// What to type after the look.
const GO_ON: [(&str, &str); 5] = [
    ("rdiag run use-method", "10 s with drill-down, and a report for the ticket"),
    ("rdiag run", "playbooks by symptom: high load, disk full, cannot fork …"),
    ("rdiag run method-r --pid PID", "where the time of one process goes"),
    ("rdiag doctor", "what can be measured here, and what would help"),
    ("rdiag --help", "all commands"),
];
