//! `rdiag diff`: what appeared, went and moved between two measurements.

use std::io;
use std::path::{Path, PathBuf};

use clap::ValueEnum;

use super::confined::{Desk, confined};
use super::fail_on::FailOn;
use super::input as sent;
use super::stacks::{Named, of_recording, of_report, of_result};
use super::{Exit, Failure, ui::Ui};
use crate::lab::library::reproducing;
use crate::report::diff::{self, Input};
use crate::report::{self};
use crate::session::{self, Sources, StoreError};
use rdiag_kernel::host::files::Folder;
use rdiag_model::comparison::{Change, Side};
use rdiag_model::{Recording, Report};

/// Files larger than this are none of ours.
const MAX_FILE: u64 = 512 << 20;

/// Compare two reports, recordings or profiles: findings, metrics and stacks.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// The first: report.json, recording.json.gz, perf.data or folded text.
    #[arg(value_name = "BEFORE")]
    before: PathBuf,
    /// The second.
    #[arg(value_name = "AFTER")]
    after: PathBuf,
    /// Judge recordings by this playbook instead of their own.
    #[arg(long, value_name = "PLAYBOOK")]
    playbook: Option<String>,
    /// Write one format to stdout, instead of the text for people.
    #[arg(long, value_enum, value_name = "FORMAT")]
    format: Option<Format>,
    /// A file for it, in place of stdout.
    #[arg(long, short, value_name = "FILE", requires = "format")]
    out: Option<PathBuf>,
    /// Exit with code 1 when a finding that is at least this bad appeared or got worse.
    #[arg(long, value_enum, value_name = "STATUS")]
    fail_on: Option<FailOn>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Format {
    /// One self-contained page, with differential flame graphs.
    Html,
    /// A comment for a ticket.
    Md,
    /// For programs; the schema is reports/schema/comparison.schema.json.
    Json,
    /// The differential flame graph of the first pair of stacks.
    Svg,
}

pub(super) fn main(args: &Args, ui: &Ui) -> Result<Exit, Failure> {
    let files = (sent::Input::open(&args.before)?, sent::Input::open(&args.after)?);
    let sources = session::sources_for(args.playbook.as_deref())?;
    let path = args.out.as_deref().filter(|path| *path != Path::new("-"));
    let out = path.map(|path| into(path).map_err(Failure::io(format!("writing {}", path.display())))).transpose()?;
    let folder = out.as_ref().map(|(folder, _)| folder);
    confined(folder, |desk| {
        compare(args, (&files.0, &files.1), &sources, out.as_ref().map(|(_, name)| &**name), desk, ui)
    })
}

/// The folder of a file that is to be written, and its name.
fn into(path: &Path) -> io::Result<(Folder, String)> {
    let name = path.file_name().and_then(|name| name.to_str());
    let name = name.ok_or_else(|| io::Error::new(io::ErrorKind::InvalidInput, "it is no name of a file"))?;
    Ok((Folder::at(path.parent().unwrap_or(Path::new("")))?, name.to_owned()))
}

fn compare(
    args: &Args,
    (before, after): (&sent::Input, &sent::Input),
    sources: &Sources,
    out: Option<&str>,
    desk: Desk,
    ui: &Ui,
) -> Result<Exit, Failure> {
    let load = |input| load(input, args.playbook.as_deref(), sources, &desk);
    let (before, after) = (load(before)?, load(after)?);
    if before.report.is_some() != after.report.is_some() && diff::pairs(&before, &after).next().is_none() {
        let message = "they have nothing in common: one is a profile, and the other has no stacks".to_owned();
        return Err(Failure::Usage { message, hint: None });
    }
    let comparison = diff::compare(&before, &after);
    let text = match args.format {
        None => diff::text(&comparison).whole(),
        Some(Format::Json) => report::comparison_json(&comparison)?.whole(),
        Some(Format::Md) => diff::markdown(&comparison).whole(),
        Some(Format::Html) => {
            let flames: Vec<_> =
                diff::pairs(&before, &after).map(|(_, one, other)| diff::picture(one, other, true)).collect();
            report::comparison_html(&comparison, &flames)?.whole()
        }
        Some(Format::Svg) => {
            let mut pairs = diff::pairs(&before, &after);
            let drawn = pairs.next().and_then(|(_, one, other)| diff::picture(one, other, false));
            let drawn = drawn.ok_or_else(|| Failure::Usage {
                message: "there are no stacks that both have".into(),
                hint: Some("`rdiag list probes` shows which probes have stacks".into()),
            })?;
            drawn.whole()
        }
    };
    match (out, &args.out) {
        (Some(name), Some(path)) => {
            desk.write(name, &text).map_err(Failure::io(format!("writing {}", path.display())))?;
        }
        _ => ui.print(&text)?,
    }
    let fails = |level: FailOn| {
        let worse = comparison.findings.iter().filter(|finding| finding.change <= Change::Worse);
        worse.filter_map(|finding| finding.after).any(|status| status >= level.least())
    };
    Ok(if args.fail_on.is_some_and(fails) { Exit::Findings } else { Exit::Done })
}

/// What a file is, and as much as it has.
fn load(input: &sent::Input, playbook: Option<&str>, sources: &Sources, desk: &Desk) -> Result<Input, Failure> {
    let file = input.name.clone();
    if let Some(result) = input.profile(desk)? {
        let side = Side { file, seconds: result.seconds, ..Side::default() };
        return Ok(Input { side, stacks: stacks(of_result(&result)), ..Input::default() });
    }
    let bytes = input.bytes(MAX_FILE)?;
    match session::read_report(&bytes) {
        Ok(report) => {
            let stacks = stacks(of_report(&report));
            return Ok(Input { side: side(file, &report), stacks, report: Some(report), ..Input::default() });
        }
        Err(source @ StoreError::Version { .. }) => return Err(Failure::Recording { path: file, source }),
        // It may be a recording.
        Err(_) => {}
    }
    let recording =
        session::read_recording(&bytes).map_err(|source| Failure::Recording { path: file.clone(), source })?;
    judged(file, &recording, playbook, sources)
}

fn judged(file: String, recording: &Recording, playbook: Option<&str>, sources: &Sources) -> Result<Input, Failure> {
    let named = match playbook {
        Some(playbook) => session::resolve_among(playbook, sources)?,
        None => session::resolve_recorded(&recording.playbook, sources)?,
    };
    let plan = named.plan_of(recording)?;
    let analysis = session::analyze(recording, &plan);
    let report = session::document(recording, &analysis, &plan, &reproducing());
    Ok(Input {
        side: side(file, &report),
        report: Some(report),
        metrics: analysis.metrics,
        stacks: stacks(of_recording(recording)),
    })
}

fn side(file: String, report: &Report) -> Side {
    Side {
        file,
        host: format!("{}, Linux {}", report.host.hostname, report.host.kernel),
        started: report.window.started.clone(),
        playbook: report.playbook.name.clone(),
        seconds: report.window.seconds,
    }
}

fn stacks(named: Vec<Named>) -> Vec<(String, rdiag_model::probe::Stacks)> {
    named.into_iter().map(|named| (named.name, named.stacks)).collect()
}
