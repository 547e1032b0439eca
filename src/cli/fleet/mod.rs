//! `rdiag fleet`: many recordings, judged one at a time, and what they have in common.
//!
//! A few dozen recordings at a time go to a confined reader of their own (`judging.rs`), and another confined process adds up what readers
//! say of each host.

mod files;
mod holding;
mod judging;
mod output;
mod own;
mod reduce;
mod stream;

use std::collections::BTreeSet;
use std::io::{self, BufRead as _, BufReader, PipeReader, Read as _};
use std::path::{Path, PathBuf};

use rdiag_fleet::{Fleet, Gathering, NotJudged, Why};

use self::files::{Expected, Grouping, Sent};
use self::judging::{By, Line};
use self::output::{Format, Output};
use self::own::Names;
use self::stream::Pieces;
pub use self::stream::taken_apart;
use super::confined::confined;
use super::fail_on::FailOn;
use super::output::line as line_of;
use super::ui::Ui;
use crate::cli::exit::{Exit, Failure};
use rdiag_kernel::host::confine::{Child, Side, fork};
use rdiag_kernel::host::files::Folder;
use rdiag_model::rows::Row;
use rdiag_session as session;

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
    /// Recordings, or folders of them (*.json.gz, *.json, */recording.json.gz); or `-` for recordings on stdin, one after the other. As
    /// text, too (`record --armor`).
    #[arg(value_name = "FILE|DIR|-", required = true)]
    files: Vec<PathBuf>,
    /// A group of hosts that should be alike: its name, and their files or hosts with `*` for any text (web=web-*). May be repeated.
    #[arg(long, value_name = "NAME=PATTERN")]
    group: Vec<String>,
    /// Facts by which to group hosts, separated by commas: cpus, memory, kernel, os, arch, cgroup, virtual, container.
    #[arg(long, value_name = "FACTS", value_delimiter = ',', conflicts_with = "group")]
    group_by: Vec<String>,
    /// A file with the names of all hosts that should be there, one a line: those without a recording are listed as unreachable, with
    /// the reason, if one follows behind a tab.
    #[arg(long, value_name = "FILE")]
    expect: Option<PathBuf>,
    /// Judge by this playbook instead of the ones that were recorded.
    #[arg(long, value_name = "PLAYBOOK")]
    playbook: Option<String>,
    /// Formats, separated by commas. One format without --out is printed to stdout, and nothing else is.
    #[arg(long, value_enum, value_delimiter = ',', value_name = "FORMATS")]
    format: Vec<Format>,
    /// Folder for the files; or one file, by its ending (fleet.html, .md, .json); or `-` for stdout.
    #[arg(long, short, value_name = "DIR|FILE")]
    out: Option<PathBuf>,
    /// Write the own reports of so many hosts into a folder beside the page, which links them: those that are odd first, then the worst.
    /// For a folder as --out, and recordings that are files.
    #[arg(long, value_name = "COUNT", default_value_t = own::DEFAULT)]
    #[arg(value_parser = clap::value_parser!(u16).range(0..=i64::from(own::MOST)))]
    reports: u16,
    /// Exit with code 1 when a reported fault is at least this bad.
    #[arg(long, value_enum, value_name = "STATUS")]
    fail_on: Option<FailOn>,
    /// Print the verdict only, in one line.
    #[arg(long, short, visible_alias = "summary", conflicts_with = "format")]
    quiet: bool,
}

pub(super) fn main(args: &Args, ui: &Ui) -> Result<Exit, Failure> {
    let grouping = Grouping::of(&args.group, &args.group_by)?;
    let expected = args.expect.as_deref().map(Expected::read).transpose()?;
    let output = Output::of(args.out.as_deref(), &args.format)?;
    let target = output.folder()?;
    let sources = session::sources_for(args.playbook.as_deref())?;
    // One that is wrong is no fault of the hosts.
    args.playbook.as_deref().map(|name| session::resolve_among(name, &sources)).transpose()?;
    let by = By { sources: &sources, playbook: args.playbook.as_deref(), grouping: &grouping, rows: output.is_rows() };
    let cannot = || Failure::io("starting the process that judges");
    let mut splitting = None;
    let mut names = Names::default();
    let sent = if args.files.iter().any(|path| path == Path::new("-")) {
        if args.files.len() > 1 {
            let message = "recordings on stdin (-) and named ones are not judged together".to_owned();
            return Err(Failure::usage(message, Some("cat *.json.gz | rdiag fleet -")));
        }
        match stream::split().map_err(cannot())? {
            Some((pieces, splitter)) => {
                splitting = Some(splitter);
                Origin::Stdin(pieces)
            }
            // This is the process that finds where they end, and it is done.
            None => return Ok(Exit::Done),
        }
    } else {
        let found = files::find(&args.files, target.as_ref().map(Folder::path), expected.is_some())?;
        if output.is_folder_with_page() {
            names = Names::of(&found);
        }
        Origin::Files(found)
    };
    let (reader, writer) = io::pipe().map_err(cannot())?;
    let (chosen, choosing) = io::pipe().map_err(cannot())?;
    // One process opens the recordings and has others judge them; the copy that is confined below reads what they say of each.
    let judging = match fork().map_err(cannot())? {
        Side::Child => {
            drop((reader, chosen, choosing));
            match sent {
                Origin::Files(sent) => judging::all(judging::files(sent), by, &writer, ui),
                Origin::Stdin(pieces) => judging::all(pieces, by, &writer, ui),
            }
            return Ok(Exit::Done);
        }
        Side::Parent(child) => child,
    };
    drop(writer);
    // The process that splits stdin must notice when the reader is gone.
    drop(sent);
    let mut is_copy = false;
    let outcome = confined(&if args.quiet { ui.hushed() } else { *ui }, target.as_ref(), |desk| {
        is_copy = true;
        let mut fleet = gathered(expected, reader, output.is_rows().then_some(ui))?;
        names.link(&mut fleet, args.reports, &choosing).map_err(cannot())?;
        output.write(&fleet, &desk, args.quiet, ui)?;
        Ok(match args.fail_on {
            _ if fleet.judged == 0 => Exit::Nothing,
            Some(level) if fleet.status >= level.least() => Exit::Findings,
            _ => Exit::Done,
        })
    });
    // The copy comes back here as well, and has no child.
    if is_copy {
        return outcome;
    }
    judging.wait().map_err(cannot())?;
    splitting.map(Child::wait).transpose().map_err(cannot())?;
    drop(choosing);
    let exit = outcome?;
    match target {
        Some(page) => names.write(chosen, &page, by, ui, exit),
        None => Ok(exit),
    }
}

/// Where recordings come from.
enum Origin {
    Files(Vec<Sent>),
    Stdin(Pieces),
}

/// All that the judging processes say, and the hosts that were expected and are not there.
/// `rows` is where they go, if they are asked for.
fn gathered(expected: Option<Expected>, reader: PipeReader, rows: Option<&Ui>) -> Result<Fleet, Failure> {
    let row = |row: &Row| rows.map_or(Ok(()), |ui| ui.print(&line_of(row)?));
    let without = |gap: &NotJudged| row(&session::row_without_run(&gap.host, gap.why.word(), &gap.detail));
    let mut end = None;
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
        // What a process had written of a host when it ended is not a complete line; the next one says that it ended.
        match serde_json::from_slice(&line) {
            Ok(Line::Host(host)) => {
                seen.extend([host.name.clone(), files::stem(&host.file)]);
                all.add(*host);
            }
            Ok(Line::Row(one)) => {
                row(&one)?;
                continue;
            }
            Ok(Line::End(count)) => {
                end = Some(count);
                continue;
            }
            Ok(Line::Absent(gap)) => {
                without(&gap)?;
                seen.insert(gap.host.clone());
                all.absent(gap);
            }
            Err(_) => continue,
        }
        count += 1;
    }
    match end {
        Some(sent) if count >= sent => {}
        Some(sent) => {
            let message = format!("{} of {sent} recordings were not read: what was said of them is lost", sent - count);
            return Err(Failure::Ended { message, hint: None });
        }
        None => {
            let message = format!("the process that opens recordings has ended; {count} of them were judged");
            return Err(Failure::Ended { message, hint: None });
        }
    }
    let expected = expected.into_iter().flat_map(|expected| expected.hosts);
    for (host, why) in expected.filter(|(host, _)| !seen.contains(host)) {
        let detail = why.unwrap_or_else(|| "there is no recording of it".to_owned());
        let gap = NotJudged { host, why: Why::Unreachable, detail };
        without(&gap)?;
        all.absent(gap);
    }
    Ok(all.conclude())
}
