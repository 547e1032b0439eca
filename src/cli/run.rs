//! `rdiag run`: record, analyse and report in one go.

use super::fail_on::{FailOn, exit};
use super::measure::{MeasureArgs, measure, prepare};
use super::output::OutputArgs;
use super::{Exit, Failure, guided, stacks, ui::Ui};
use crate::lab::library::reproducing;
use crate::report;
use crate::session;

/// Run a playbook: measure, judge, and write the report.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    #[command(flatten)]
    pub(super) measure: MeasureArgs,
    #[command(flatten)]
    output: OutputArgs,
    /// Walk through the steps of the playbook; the default on a terminal.
    #[arg(long, overrides_with = "no_guided")]
    guided: bool,
    /// Print the verdict and nothing to answer to.
    #[arg(long)]
    no_guided: bool,
    /// Exit with code 1 when a finding is at least this bad.
    #[arg(long, value_enum, value_name = "STATUS")]
    pub(super) fail_on: Option<FailOn>,
}

pub(super) fn main(args: &Args, ui: &Ui) -> Result<Exit, Failure> {
    let asks = !args.no_guided && ui.is_interactive() && !args.output.is_stdout();
    let mut prepared = prepare(&args.measure, asks, ui)?;
    let facts = prepared.host.facts();
    let stamp: String = prepared.host.wall_clock().chars().filter(|c| c.is_ascii_alphanumeric()).collect();
    let safe: String =
        facts.hostname.chars().map(|c| if c.is_ascii_alphanumeric() || c == '-' { c } else { '_' }).collect();
    let default = format!("rdiag-{}-{safe}-{stamp}", prepared.plan.playbook.name);
    let target = args.output.prepare(Some(default))?;
    let guided = !args.no_guided && !target.owns_stdout() && (args.guided || ui.is_interactive());
    let run = measure(&mut prepared, &|recording| target.keep(recording), ui)?;
    let interrupted = run.recording.interrupted;
    let report = session::document(&run.recording, &run.analysis, &prepared.plan, &reproducing());
    let mut written = target.write(&report, &stacks::of_recording(&run.recording), ui)?;
    if !target.owns_stdout() {
        if guided {
            guided::walk(&report, ui)?;
        } else {
            ui.print(&report::terminal(&report, &ui.style()))?;
        }
        written.push("recording.json.gz".to_owned());
        if let Some(told) = target.told(&written) {
            ui.note(told);
        }
    }
    Ok(exit(&report, &run.analysis, args.fail_on, interrupted))
}
