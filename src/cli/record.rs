//! `rdiag record`: measure now, judge elsewhere.

use std::path::PathBuf;

use super::measure::{MeasureArgs, measure, prepare};
use super::output::save_recording;
use super::ui::{Text, Ui};
use super::{Exit, Failure};
use crate::shown;
use rdiag_kernel::host::files;

/// Record only: write a recording that `rdiag analyze` judges later, anywhere.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    #[command(flatten)]
    pub(super) measure: MeasureArgs,
    /// The file to write.
    #[arg(long, short, value_name = "FILE", default_value = "recording.json.gz")]
    out: PathBuf,
}

pub(super) fn main(args: &Args, ui: &Ui) -> Result<Exit, Failure> {
    let mut prepared = prepare(&args.measure, false, ui)?;
    let parent =
        args.out.parent().filter(|dir| !dir.as_os_str().is_empty()).map_or_else(|| PathBuf::from("."), PathBuf::from);
    files::prepare_directory(&parent)
        .map_err(Failure::io(format!("preparing the output folder {}", parent.display())))?;
    let run = measure(&mut prepared, &|recording| save_recording(&args.out, recording), ui)?;
    let out = Text::seen(args.out.display().to_string());
    ui.note(shown!("Written to {}; judge it with: rdiag analyze {}", &out, &out));
    let nothing = run.recording.windows.iter().all(|window| {
        window.collectors.values().all(|record| record.series.is_empty() && record.processes.is_empty())
            && window.probes.values().all(Result::is_err)
            && window.ledgers.values().all(Result::is_err)
    });
    Ok(match (run.recording.interrupted, nothing) {
        (true, _) => Exit::Interrupted,
        (false, true) => Exit::Nothing,
        _ => Exit::Done,
    })
}
