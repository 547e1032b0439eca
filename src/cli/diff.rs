//! `rdiag diff`: what appeared, went and moved between two measurements.

use std::path::{Path, PathBuf};

use clap::ValueEnum;

use super::at::{self, Asked};
use super::confined::{Desk, confined};
use super::fail_on::FailOn;
use super::input as sent;
use super::output::{is_file, split};
use super::screen::TalkArgs;
use super::sides::{SidesArgs, Source};
use super::stacks::{NamedStacks, of_recording, of_report, of_result};
use super::ui::Ui;
use crate::cli::exit::{Exit, Failure};
use rdiag_history::is_finer;
use rdiag_kernel::host::files::Folder;
use rdiag_lab::library::reproducing;
use rdiag_model::comparison::{Change, Side};
use rdiag_model::{Recording, Report};
use rdiag_report as report;
use rdiag_report::diff::{self, Input};
use rdiag_session as session;
use rdiag_session::{Origin, Sources, StoreError};

/// Files larger than this are none of ours.
const MAX_FILE: u64 = 512 << 20;

/// Compare two reports, recordings, profiles, or times that are over: findings, metrics and stacks.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    #[command(flatten)]
    sides: SidesArgs,
    /// Judge recordings by this playbook instead of their own, and times of the recorder [default of those: use-method].
    #[arg(long, value_name = "PLAYBOOK")]
    playbook: Option<String>,
    /// Write one format to stdout, instead of the text for people.
    #[arg(long, value_enum, value_name = "FORMAT")]
    format: Option<Format>,
    /// A file, whose ending says the format (.html, .md, .json, .svg), or a folder for it; or `-` for stdout.
    #[arg(long, short, value_name = "FILE|DIR")]
    out: Option<PathBuf>,
    /// Exit with code 1 when a finding that is at least this bad appeared or got worse.
    #[arg(long, value_enum, value_name = "STATUS")]
    fail_on: Option<FailOn>,
    #[command(flatten)]
    talk: TalkArgs,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Format {
    /// One self-contained page, with differential flame graphs.
    Html,
    /// Markdown: a comment for a ticket.
    #[value(alias = "markdown")]
    Md,
    /// For programs; the schema is reports/schema/comparison.schema.json.
    Json,
    /// The differential flame graph of the first pair of stacks.
    Svg,
}

pub(super) fn main(args: &Args, ui: &Ui) -> Result<Exit, Failure> {
    let ui = &args.talk.ui(ui);
    let both = args.sides.open(ui)?;
    let sources = session::sources_for(args.playbook.as_deref())?;
    let wanted = Wanted::of(args)?;
    let folder = wanted.file.as_ref().map(|(folder, _)| folder);
    confined(ui, folder, |desk| compare(args, &both, &sources, &wanted, desk, ui))
}

/// What to make of the comparison: the text for people if no format is wanted, on stdout if no file is.
struct Wanted {
    format: Option<Format>,
    file: Option<(Folder, String)>,
}

impl Wanted {
    /// From `--format` and `--out`; a missing folder is reported before anything is compared.
    fn of(args: &Args) -> Result<Self, Failure> {
        let Some(out) = args.out.as_deref().filter(|path| *path != Path::new("-")) else {
            return Ok(Self { format: args.format, file: None });
        };
        let ending = if is_file(out) { Format::of_name(out) } else { None };
        let (path, format) = match (ending, args.format) {
            (Some(ending), given) if given.is_none_or(|given| given == ending) => (out.to_owned(), ending),
            (Some(_), _) => {
                let message = format!("--out {} ends in another format than --format says", out.display());
                return Err(Failure::usage(message, Some("leave --format out")));
            }
            (None, Some(format)) => (out.join(format!("diff.{}", format.ending())), format),
            (None, None) => {
                let message = format!("--out {} is a folder, and no format is named", out.display());
                return Err(Failure::usage(message, Some("name a file (--out diff.html), or add --format html")));
            }
        };
        let (folder, name) = split(&path)?;
        let attempt = format!("preparing the output folder {}", folder.display());
        let folder = Folder::prepare(&folder).map_err(Failure::io(attempt))?;
        Ok(Self { format: Some(format), file: Some((folder, name)) })
    }
}

impl Format {
    fn ending(self) -> &'static str {
        match self {
            Self::Html => "html",
            Self::Md => "md",
            Self::Json => "json",
            Self::Svg => "svg",
        }
    }

    /// The format that the name of a file asks for.
    fn of_name(path: &Path) -> Option<Self> {
        let ending = path.extension()?.to_str()?;
        [Self::Html, Self::Md, Self::Json, Self::Svg].into_iter().find(|format| format.ending() == ending)
    }
}

fn compare(
    args: &Args,
    both: &[Source; 2],
    sources: &Sources,
    wanted: &Wanted,
    desk: Desk,
    ui: &Ui,
) -> Result<Exit, Failure> {
    let playbook = args.playbook.as_deref();
    let load = |source: &Source| match source {
        Source::File(input) => Ok((load(input, playbook, sources, &desk)?, Vec::new())),
        Source::Time(asked) => of_time(asked, playbook.unwrap_or(at::PLAYBOOK), sources, 0.0),
    };
    let (mut before, mut after) = (load(&both[0])?, load(&both[1])?);
    if let [Source::Time(first), Source::Time(second)] = both {
        // A maximum over minutes is no maximum over 5 s: both get the distance of the one that has fewer samples.
        let again = |asked: &Asked, every| of_time(asked, playbook.unwrap_or(at::PLAYBOOK), sources, every);
        // A time too short for that stays as it is, which is told below.
        if let Some(evened) = finer(&before, &after).and_then(|every| again(first, every).ok()) {
            before = evened;
        }
        if let Some(evened) = finer(&after, &before).and_then(|every| again(second, every).ok()) {
            after = evened;
        }
    }
    // Both are RFC 3339 in UTC; when a profile was made is not known.
    if matches!(both, [Source::File(_), Source::Time(_)]) && after.0.side.started < before.0.side.started {
        std::mem::swap(&mut before, &mut after);
    }
    let is_uneven = finer(&before, &after).is_some() || finer(&after, &before).is_some();
    let is_recorded = both.iter().any(|source| matches!(source, Source::Time(asked) if !asked.is_from_elsewhere()));
    let ((before, of_before), (after, of_after)) = (before, after);
    if before.report.is_some() != after.report.is_some() && diff::pairs(&before, &after).next().is_none() {
        let message = "they have nothing in common: one is a profile, and the other has no stacks".to_owned();
        return Err(Failure::Usage { message, hint: None });
    }
    let mut comparison = diff::compare(&before, &after);
    if let (true, Some(before), Some(after)) = (is_uneven && is_recorded, interval(&before), interval(&after)) {
        comparison.notes.push(format!(
            "before has a sample every {}, after every {}: maxima, percentiles and \"intervals in a row\" are of different \
             times; compare means",
            session::interval(before),
            session::interval(after)
        ));
    }
    let (both, of_before): (Vec<_>, Vec<_>) = of_before.into_iter().partition(|note| of_after.contains(note));
    let of_after: Vec<String> = of_after.into_iter().filter(|note| !both.contains(note)).collect();
    for (name, notes) in [("both", both), ("before", of_before), ("after", of_after)] {
        comparison.notes.extend(notes.into_iter().map(|note| format!("{name}: {note}")));
    }
    let text = match wanted.format {
        None if args.talk.is_quiet() => diff::in_one_line(&comparison).whole(),
        None => diff::text(&comparison, args.talk.is_verbose()).whole(),
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
    match &wanted.file {
        Some((folder, name)) => {
            let attempt = format!("writing {}", folder.path().join(name).display());
            desk.write(name, &text).map_err(Failure::io(attempt))?;
        }
        None => ui.print(&text)?,
    }
    let fails = |level: FailOn| {
        let worse = comparison.findings.iter().filter(|finding| finding.change <= Change::Worse);
        worse.filter_map(|finding| finding.after).any(|status| status >= level.least())
    };
    Ok(if args.fail_on.is_some_and(fails) { Exit::Findings } else { Exit::Done })
}

/// Seconds from sample to sample.
fn interval(one: &Input) -> Option<f64> {
    one.report.as_ref().map(|report| report.window.interval_seconds)
}

/// The distance of the other's samples, if one has more of them.
fn finer((one, _): &(Input, Vec<String>), (other, _): &(Input, Vec<String>)) -> Option<f64> {
    let (own, other) = (interval(one)?, interval(other)?);
    is_finer(own, other).then_some(other)
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
    judged(file, &recording, playbook, sources, None)
}

/// A time of the recorder or of another program, with at least so many seconds from sample to sample, and what is missing of it.
fn of_time(asked: &Asked, playbook: &str, sources: &Sources, at_least: f64) -> Result<(Input, Vec<String>), Failure> {
    let past = asked.past_every(&at::plan_of(&session::resolve_among(playbook, sources)?)?, at_least)?;
    let name = format!("{}, {}", past.origin.name, at::judged(&past.recording, past.began, &asked.zone));
    Ok((judged(name, &past.recording, Some(playbook), sources, Some(&past.origin))?, past.notes))
}

fn judged(
    file: String,
    recording: &Recording,
    playbook: Option<&str>,
    sources: &Sources,
    origin: Option<&Origin>,
) -> Result<Input, Failure> {
    let named = match playbook {
        Some(playbook) => session::resolve_among(playbook, sources)?,
        None => session::resolve_recorded(&recording.playbook, sources)?,
    };
    let plan = named.plan_of(recording)?;
    let mut analysis = session::analyze(recording, &plan);
    if let Some(origin) = origin {
        session::temper(&mut analysis, origin);
    }
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

fn stacks(named: Vec<NamedStacks>) -> Vec<(String, rdiag_model::probe::Stacks)> {
    named.into_iter().map(|named| (named.name, named.stacks)).collect()
}
