//! `rdiag record`: measure now, judge elsewhere.

use std::path::{Path, PathBuf};

use super::measure::{MeasureArgs, measure, prepare};
use super::output::{is_file, save_recording, split};
use super::screen::TalkArgs;
use super::ui::{Text, Ui};
use crate::cli::exit::{Exit, Failure};
use rdiag_kernel::host::files;
use rdiag_model::{Recording, quantity};
use rdiag_report::shown;
use rdiag_session::{write_armored, write_recording};

/// Record only: write a recording that `rdiag analyze` judges later, anywhere.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    #[command(flatten)]
    pub(super) measure: MeasureArgs,
    /// The file to write, or a folder for it; `-` for stdout: `ssh HOST rdiag record use-method -o - > HOST.json.gz`.
    #[arg(long, short, value_name = "FILE|DIR", default_value = "recording.json.gz")]
    out: PathBuf,
    /// As text, for what carries nothing else (`kubectl logs`, a console): a line with length and SHA-256, then base64. With `-o -`.
    #[arg(long)]
    armor: bool,
    #[command(flatten)]
    talk: TalkArgs,
}

pub(super) fn main(args: &Args, ui: &Ui) -> Result<Exit, Failure> {
    let ui = &args.talk.ui(ui);
    if args.out == Path::new("-") {
        return pour(args, ui);
    }
    if args.armor {
        let hint = Some("rdiag record use-method --armor -o -");
        return Err(Failure::usage("--armor is for a recording that goes to stdout".to_owned(), hint));
    }
    let mut prepared = prepare(&args.measure, false, ui)?;
    // As for every command: a name with a known ending is a file.
    let path = if is_file(&args.out) { args.out.clone() } else { args.out.join("recording.json.gz") };
    let (parent, _) = split(&path)?;
    files::prepare_directory(&parent)
        .map_err(Failure::io(format!("preparing the output folder {}", parent.display())))?;
    let run = measure(&mut prepared, &|recording| save_recording(&path, recording), ui)?;
    if args.talk.is_verbose() {
        tell(&run.recording, ui);
    }
    let out = Text::seen(path.display().to_string());
    ui.note(shown!("Written to {}; judge it with: rdiag analyze {}", &out, &out));
    Ok(prepared.failed.unwrap_or_else(|| exit(&run.recording)))
}

/// Writes the recording to stdout, once it is whole: what is begun there cannot be written again.
fn pour(args: &Args, ui: &Ui) -> Result<Exit, Failure> {
    if ui.is_terminal() && !args.armor {
        let message = "a recording is no text, and stdout is a terminal".to_owned();
        return Err(Failure::usage(message, Some("send it to a file (> recording.json.gz) or to `rdiag analyze -`")));
    }
    let mut prepared = prepare(&args.measure, false, ui)?;
    let run = measure(&mut prepared, &|_| Ok(()), ui)?;
    ui.pour(|out| {
        if !args.armor {
            return write_recording(&run.recording, out);
        }
        let mut bytes = Vec::new();
        write_recording(&run.recording, &mut bytes)?;
        write_armored(&bytes, out)
    })?;
    if args.talk.is_verbose() {
        tell(&run.recording, ui);
    }
    Ok(prepared.failed.unwrap_or_else(|| exit(&run.recording)))
}

/// What each window holds, and what could not be read.
fn tell(recording: &Recording, ui: &Ui) {
    for (at, window) in recording.windows.iter().enumerate() {
        let [from, to] = [window.begins, window.begins + window.seconds].map(|at| Text::seen(quantity::seconds(at)));
        let (collectors, probes) = (window.collectors.len(), window.probes.len());
        ui.note(shown!("window {}, {} to {}: {} collectors, {} probes", at + 1, from, to, collectors, probes));
        let of_collectors =
            window.collectors.iter().filter_map(|(id, record)| Some((id, record.unavailable.as_ref()?)));
        let of_probes = window.probes.iter().filter_map(|(id, result)| Some((id, result.as_ref().err()?)));
        for (id, gap) in of_collectors.chain(of_probes) {
            ui.note(shown!("  {}: {}", Text::seen(id), Text::seen(gap.to_string())));
        }
    }
    let own = &recording.overhead;
    ui.note(shown!("rdiag used {} of CPU time", Text::seen(quantity::seconds(own.cpu_seconds))));
}

fn exit(recording: &Recording) -> Exit {
    let nothing = recording.windows.iter().all(|window| {
        window.collectors.values().all(|record| record.series.is_empty() && record.processes.is_empty())
            && window.probes.values().all(Result::is_err)
            && window.ledgers.values().all(Result::is_err)
    });
    let mut accounts = recording.windows.iter().flat_map(|window| window.ledgers.values().flatten());
    match (recording.interrupted, nothing) {
        (true, _) => Exit::Interrupted,
        (false, true) => Exit::Nothing,
        _ if accounts.any(|account| account.stopped.is_some()) => Exit::OverBudget,
        _ => Exit::Done,
    }
}
