//! `rdiag fleet`: many recordings, judged one at a time, and what they have in common.

mod files;
mod judging;
mod reduce;

use std::collections::BTreeSet;
use std::io::{self, BufRead as _, BufReader, PipeReader, Read as _};
use std::path::{Path, PathBuf};

use clap::ValueEnum;
use rdiag_fleet::{Fleet, Gathering, NotJudged, Why};

use self::files::{Expected, Grouping, Sent};
use self::judging::Line;
use super::confined::{Desk, confined};
use super::fail_on::FailOn;
use super::{Exit, Failure, ui::Ui};
use crate::report;
use crate::session;
use rdiag_kernel::host::confine::{Side, fork};
use rdiag_kernel::host::files::Folder;

/// What is kept of one host is no larger, in bytes.
const MAX_LINE: u64 = 16 << 20;

/// Judge many recordings: which fault is common to them, and which host is unlike the others.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Hosts are compared within their group: all of them together, unless --group or --group-by says otherwise.\n\n\
Exit codes: 0 done, whatever was found, also if some hosts were not judged (they are listed); 1 findings at or above --fail-on; \
2 wrong usage or an invalid playbook; 3 no host could be judged; 4 a failure while running."
)]
pub(super) struct Args {
    /// Recordings, or folders of them (*.json.gz, *.json, */recording.json.gz).
    #[arg(value_name = "FILE|DIR", required = true)]
    files: Vec<PathBuf>,
    /// A group of hosts that should be alike: its name, and their files or hosts with `*` for any text (web=web-*). May be repeated.
    #[arg(long, value_name = "NAME=PATTERN")]
    group: Vec<String>,
    /// Facts by which to group hosts, separated by commas: cpus, memory, kernel, os, arch, cgroup, virtual, container.
    #[arg(long, value_name = "FACTS", value_delimiter = ',', conflicts_with = "group")]
    group_by: Vec<String>,
    /// A file with the names of all hosts that should be there, one a line: those without a recording are listed as unreachable.
    #[arg(long, value_name = "FILE")]
    expect: Option<PathBuf>,
    /// Judge by this playbook instead of the ones that were recorded.
    #[arg(long, value_name = "PLAYBOOK")]
    playbook: Option<String>,
    /// Write one format, instead of the text for people.
    #[arg(long, value_enum, value_name = "FORMAT")]
    format: Option<Format>,
    /// A file for it, in place of stdout; its ending says the format (.html, .md, .json).
    #[arg(long, short, value_name = "FILE")]
    out: Option<PathBuf>,
    /// Exit with code 1 when a fault that is told is at least this bad.
    #[arg(long, value_enum, value_name = "STATUS")]
    fail_on: Option<FailOn>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Format {
    /// The text for people.
    Term,
    /// One self-contained page with a heat map of hosts and resources.
    Html,
    /// Markdown: a comment for a ticket.
    #[value(alias = "markdown")]
    Md,
    /// For programs; the schema is reports/schema/fleet.schema.json.
    Json,
}

impl Format {
    /// The format that the name of a file asks for.
    fn of_name(path: &Path) -> Option<Self> {
        match path.extension()?.to_str()? {
            "html" => Some(Self::Html),
            "md" => Some(Self::Md),
            "json" => Some(Self::Json),
            "txt" => Some(Self::Term),
            _ => None,
        }
    }
}

pub(super) fn main(args: &Args, ui: &Ui) -> Result<Exit, Failure> {
    let grouping = Grouping::of(&args.group, &args.group_by)?;
    let expected = args.expect.as_deref().map(Expected::read).transpose()?;
    let out = args.out.as_deref().filter(|path| *path != Path::new("-"));
    let format = args.format.or_else(|| out.and_then(Format::of_name));
    if let (Some(path), None) = (out, format) {
        let message = format!("--out {}: its ending names no format", path.display());
        return Err(Failure::usage(message, Some("end it in .html, .md or .json, or add --format")));
    }
    let target = out.map(|path| into(path).map_err(Failure::io(format!("writing {}", path.display())))).transpose()?;
    let sent = files::find(&args.files, target.as_ref().map(|(folder, _)| folder.path()))?;
    let sources = session::sources_for(args.playbook.as_deref())?;
    let cannot = || Failure::io("starting the process that judges");
    let (reader, writer) = io::pipe().map_err(cannot())?;
    // One process opens the recordings and has others judge them; the copy that is confined below reads what they say of each.
    let judging = match fork().map_err(cannot())? {
        Side::Child => {
            drop(reader);
            judging::all(&sent, &sources, args.playbook.as_deref(), &grouping, &writer, ui);
            return Ok(Exit::Done);
        }
        Side::Parent(child) => child,
    };
    drop(writer);
    let folder = target.as_ref().map(|(folder, _)| folder);
    let name = target.as_ref().map(|(_, name)| name.as_str());
    let mut is_copy = false;
    let outcome = confined(folder, |desk| {
        is_copy = true;
        roll_up(args, &sent, expected, reader, format, name, &desk, ui)
    });
    // The copy comes back here as well, and has no child.
    if !is_copy {
        judging.wait().map_err(cannot())?;
    }
    outcome
}

/// The folder of a file that is to be written, and its name.
fn into(path: &Path) -> io::Result<(Folder, String)> {
    let name = path.file_name().and_then(|name| name.to_str());
    let name = name.ok_or_else(|| io::Error::new(io::ErrorKind::InvalidInput, "it is no name of a file"))?;
    Ok((Folder::at(path.parent().unwrap_or(Path::new("")))?, name.to_owned()))
}

#[expect(clippy::too_many_arguments, reason = "what the confined process is given")]
fn roll_up(
    args: &Args,
    sent: &[Sent],
    expected: Option<Expected>,
    reader: PipeReader,
    format: Option<Format>,
    name: Option<&str>,
    desk: &Desk,
    ui: &Ui,
) -> Result<Exit, Failure> {
    let fleet = gathered(sent, expected, reader)?;
    let text = match format {
        None | Some(Format::Term) => report::fleet::text(&fleet, &ui.style()).whole(),
        Some(Format::Md) => report::fleet::markdown(&fleet).whole(),
        Some(Format::Json) => report::fleet::json(&fleet)?.whole(),
        Some(Format::Html) => report::fleet::html(&fleet)?.whole(),
    };
    match (name, &args.out) {
        (Some(name), Some(path)) => {
            desk.write(name, &text).map_err(Failure::io(format!("writing {}", path.display())))?;
        }
        _ => ui.print(&text)?,
    }
    Ok(match args.fail_on {
        _ if fleet.judged == 0 => Exit::Nothing,
        Some(level) if fleet.status >= level.least() => Exit::Findings,
        _ => Exit::Done,
    })
}

/// All that the judging processes say, and the hosts that were expected and are not there.
fn gathered(sent: &[Sent], expected: Option<Expected>, reader: PipeReader) -> Result<Fleet, Failure> {
    let mut all = Gathering::default();
    let mut lines = BufReader::with_capacity(1 << 16, reader);
    let mut seen = BTreeSet::new();
    let mut line = Vec::new();
    let mut count = 0;
    loop {
        line.clear();
        let read = (&mut lines).take(MAX_LINE).read_until(b'\n', &mut line);
        if read.map_err(Failure::io("reading what was judged"))? == 0 {
            break;
        }
        // What a process had written of a host when it ended is no line; that it ended is told by the next.
        match serde_json::from_slice(&line) {
            Ok(Line::Host(host)) => {
                seen.extend([host.name.clone(), files::stem(&host.file)]);
                all.add(*host);
            }
            Ok(Line::Absent(gap)) => {
                seen.insert(gap.host.clone());
                all.absent(gap);
            }
            Err(_) => continue,
        }
        count += 1;
    }
    if count < sent.len() {
        let message = format!(
            "{} of {} recordings were not read: the process that opens them has ended",
            sent.len() - count,
            sent.len()
        );
        return Err(Failure::Ended { message, hint: None });
    }
    for host in expected.into_iter().flat_map(|expected| expected.hosts).filter(|host| !seen.contains(host)) {
        all.absent(NotJudged { host, why: Why::Unreachable, detail: "there is no recording of it".to_owned() });
    }
    Ok(all.conclude())
}
