//! One recording after the other, judged by processes without rights.
//!
//! A recording may be crafted to exhaust the memory or time of its reader. So a reader takes a few dozen files, which were
//! opened for it, says a line of each, and after each line moves a mark. If it ends before its last file, the file at the mark is to blame:
//! it is named, and another reader goes on behind it. A reader that has used up much of its time leaves the next files to another one, so
//! that no file is blamed for the time that those before it took. What is said of a file is bounded as well: a line that is longer than its
//! reader takes would be lost, and with it the count of all.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, PipeWriter, Read as _, Write as _};

use rdiag_fleet::{Host, NotJudged, Why};
use serde::{Deserialize, Serialize};

use super::MAX_LINE;
use super::files::{Grouping, Sent, stem};
use super::reduce::reduce;
use crate::cli::ui::{Text, Ui};
use rdiag_kernel::host::confine::{Confinement, Ended, Side, confine, fork};
use rdiag_kernel::host::{files, thread_usage};
use rdiag_lab::library::reproducing;
use rdiag_model::rows::Row;
use rdiag_model::{Recording, Report};
use rdiag_report::shown;
use rdiag_session as session;
use rdiag_session::{Analysis, NamedPlaybook, Sources, StoreError};

/// Recordings of the largest hosts take a tenth of this memory, and so many of them a part of this time.
const CONFINEMENT: Confinement = Confinement { address_space: 4 << 30, cpu_seconds: 300, readable: &[] };
/// Files that one process reads.
const AT_ONCE: usize = 64;
/// CPU seconds after which a reader begins no other file: each has two thirds of [`CONFINEMENT`] for itself.
const ENOUGH: f64 = 100.0;
/// Files larger than this are no recordings.
const MAX_FILE: u64 = 512 << 20;
/// Characters of the reason why a file cannot be used. An error may repeat what it found there.
const MAX_DETAIL: usize = 1000;

/// What is said of one file.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Line {
    /// It was judged.
    Host(Box<Host>),
    /// It was not.
    Absent(NotJudged),
    /// What was measured on the host that comes next.
    Row(Row),
    /// There are no more, and there were so many.
    End(usize),
}

/// A recording that is open.
pub(super) struct Opened {
    pub(super) sent: Sent,
    pub(super) file: io::Result<File>,
}

impl Opened {
    /// A file that was named.
    pub(super) fn of(sent: Sent) -> Self {
        Self { file: files::open_named(&sent.path), sent }
    }
}

/// Files that were named, each opened when its turn comes.
pub(super) fn files(sent: Vec<Sent>) -> impl Iterator<Item = Opened> {
    sent.into_iter().map(Opened::of)
}

/// What judges recordings.
struct Judge<'j> {
    by: By<'j>,
    exercises: BTreeMap<String, String>,
    /// Playbooks that were understood, by name.
    known: BTreeMap<String, NamedPlaybook>,
}

/// By what recordings are judged, and what is to be said of them.
#[derive(Debug, Clone, Copy)]
pub(super) struct By<'j> {
    pub(super) sources: &'j Sources,
    pub(super) playbook: Option<&'j str>,
    pub(super) grouping: &'j Grouping,
    pub(super) rows: bool,
}

/// Says a line of each recording, in order, and how many there were.
pub(super) fn all(mut sent: impl Iterator<Item = Opened>, by: By<'_>, out: &PipeWriter, ui: &Ui) {
    let (mut told, mut count) = (false, 0);
    loop {
        let opened: Vec<Opened> = sent.by_ref().take(AT_ONCE).collect();
        if opened.is_empty() {
            // If the reader is gone, it is not missed.
            let _ = say(out, &Line::End(count));
            return;
        }
        count += opened.len();
        let mut left = opened.as_slice();
        while !left.is_empty() {
            let (done, why) = match reader(left, Judge::new(by), out, (!told).then_some(ui)) {
                Ok(Some(result)) => result,
                // This is the reader, and it is done.
                Ok(None) => return,
                Err(error) => (0, Some(format!("no process could be started to read it: {error}"))),
            };
            told = true;
            left = left.get(done..).unwrap_or_default();
            if let (Some(blamed), Some(why)) = (left.first(), why) {
                let line = Line::Absent(gap(&blamed.sent, why));
                // The end of the line that was begun, if one was.
                if (&mut &*out).write_all(b"\n").and_then(|()| say(out, &line)).is_err() {
                    return;
                }
                left = left.get(1..).unwrap_or_default();
            }
        }
    }
}

/// Has a process without rights read files: how many it was done with when it ended, and why it ended at the next one. None in that process
/// itself.
fn reader(
    files: &[Opened],
    judge: Judge<'_>,
    out: &PipeWriter,
    ui: Option<&Ui>,
) -> io::Result<Option<(usize, Option<String>)>> {
    let (mut marks, mark) = io::pipe()?;
    match fork()? {
        Side::Child => {
            drop(marks);
            // What is missing of it here, `rdiag doctor` says.
            let _ = confine(CONFINEMENT);
            read(files, judge, out, &mark, ui);
            Ok(None)
        }
        Side::Parent(child) => {
            drop(mark);
            let ended = child.wait()?;
            let mut done = Vec::new();
            (&mut marks).take(files.len() as u64).read_to_end(&mut done)?;
            Ok(Some((done.len(), why(&ended, done.len()))))
        }
    }
}

/// Why a reader ended at a file; none if it has read others and left that one to another reader.
fn why(ended: &Ended, done: usize) -> Option<String> {
    match ended {
        Ended::Exited(0) if done > 0 => None,
        Ended::Killed(libc::SIGXCPU) => Some("its reader used up its CPU time".to_owned()),
        Ended::Killed(libc::SIGABRT) => Some("its reader ran out of memory".to_owned()),
        Ended::Killed(signal) => Some(format!("its reader was ended by signal {signal}")),
        Ended::Exited(code) => Some(format!("its reader ended with code {code}")),
    }
}

fn read(files: &[Opened], mut judge: Judge<'_>, out: &PipeWriter, mark: &PipeWriter, ui: Option<&Ui>) {
    judge.exercises = reproducing();
    for (at, opened) in files.iter().enumerate() {
        if at > 0 && thread_usage() > ENOUGH {
            return;
        }
        let told = judge.judged(opened, ui.filter(|_| at == 0)).and_then(|(host, rows)| {
            let too_long =
                || gap(&opened.sent, format!("what is compared of it takes more than {} MiB", MAX_LINE >> 20));
            lines(host, rows).ok_or_else(too_long)
        });
        let said = match told {
            Ok(lines) => (&mut &*out).write_all(&lines),
            Err(gap) => say(out, &Line::Absent(gap)),
        };
        // If the reader is gone, there is no use in going on.
        if said.is_err() || (&mut &*mark).write_all(b".").is_err() {
            return;
        }
    }
}

/// What is said of a host that was judged; none if a line of it is longer than is taken.
fn lines(host: Host, rows: Vec<Row>) -> Option<Vec<u8>> {
    let mut text = Vec::new();
    for line in rows.into_iter().map(Line::Row).chain([Line::Host(Box::new(host))]) {
        let begins = text.len();
        serde_json::to_writer(&mut text, &line).ok()?;
        text.push(b'\n');
        if (text.len() - begins) as u64 > MAX_LINE {
            return None;
        }
    }
    Some(text)
}

fn say(mut out: &PipeWriter, line: &Line) -> io::Result<()> {
    let mut text = serde_json::to_vec(line)?;
    text.push(b'\n');
    out.write_all(&text)
}

/// A file that cannot be used.
fn gap(sent: &Sent, detail: String) -> NotJudged {
    let file = sent.path.display().to_string();
    let lines: Vec<&str> = detail.lines().map(str::trim).collect();
    let detail: String = lines.join("; ").chars().take(MAX_DETAIL).collect();
    NotJudged { host: stem(&file), why: Why::Unreadable, detail: format!("{file}: {detail}") }
}

/// The report of one host, from a process without rights; or why there is none.
pub(super) fn report(opened: &Opened, by: By<'_>) -> Result<Report, String> {
    let mut judge = Judge { exercises: reproducing(), ..Judge::new(by) };
    let named = format!("{}: ", opened.sent.path.display());
    let why = |gap: NotJudged| gap.detail.strip_prefix(&named).unwrap_or(&gap.detail).to_owned();
    judge.understood(opened, None).map(|(_, _, report)| report).map_err(why)
}

impl<'j> Judge<'j> {
    fn new(by: By<'j>) -> Self {
        Self { by, exercises: BTreeMap::new(), known: BTreeMap::new() }
    }

    fn judged(&mut self, opened: &Opened, ui: Option<&Ui>) -> Result<(Host, Vec<Row>), NotJudged> {
        let (recording, analysis, report) = self.understood(opened, ui)?;
        let mut host = reduce(&recording, &analysis, &report);
        host.file = opened.sent.path.display().to_string();
        host.report.clone_from(&opened.sent.report);
        host.group = self.by.grouping.group(&host.name, &host.file, &host.facts);
        let rows = if self.by.rows {
            session::rows(&recording, &analysis, &report, &host.file, &host.group).collect()
        } else {
            Vec::new()
        };
        Ok((host, rows))
    }

    fn understood(&mut self, opened: &Opened, ui: Option<&Ui>) -> Result<(Recording, Analysis, Report), NotJudged> {
        let cannot = |why: String| gap(&opened.sent, why);
        let file = opened.file.as_ref().map_err(|error| cannot(error.to_string()))?;
        let bytes = files::read_open(file, MAX_FILE).map_err(|error| cannot(error.to_string()))?;
        if bytes.is_empty() {
            // What the shell makes of `ssh host … > host.json.gz` when the host does not answer.
            let gap = cannot("the file is empty: the host has sent nothing".to_owned());
            return Err(NotJudged { why: Why::Unreachable, ..gap });
        }
        let recording = session::read_recording(&bytes).map_err(|error: StoreError| cannot(error.to_string()))?;
        drop(bytes);
        let By { sources, playbook, .. } = self.by;
        let name = playbook.unwrap_or(&recording.playbook).to_owned();
        if !self.known.contains_key(&name) {
            let named = match playbook {
                Some(playbook) => session::resolve_among(playbook, sources),
                None => session::resolve_recorded(&recording.playbook, sources),
            };
            let named = named.map_err(|error| cannot(error.to_string()))?;
            if let Some(ui) = ui {
                named.warnings.iter().for_each(|it| ui.warn(shown!("left out: {}", Text::lines(it.to_string()))));
                named.notes.iter().for_each(|note| ui.warn(Text::seen(note)));
            }
            self.known.insert(name.clone(), named);
        }
        let named = self.known.get(&name).ok_or_else(|| cannot("its playbook is gone".to_owned()))?;
        let plan = named.plan_of(&recording).map_err(|error| cannot(error.to_string()))?;
        let analysis = session::analyze(&recording, &plan);
        let report = session::document(&recording, &analysis, &plan, &self.exercises);
        Ok((recording, analysis, report))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_blamed_for_what_its_own_reading_took_alone() {
        assert_eq!(why(&Ended::Exited(0), 3), None, "its reader had read enough, and another one goes on");
        for (ended, done) in [(Ended::Exited(0), 0), (Ended::Exited(101), 3), (Ended::Killed(libc::SIGXCPU), 3)] {
            assert!(why(&ended, done).is_some(), "{done}");
        }
        assert!(ENOUGH * 2.0 < CONFINEMENT.cpu_seconds as f64);
    }

    #[test]
    fn an_error_that_repeats_what_it_found_is_cut_to_what_a_line_takes() {
        let sent = Sent { path: "runs/web-1.json".into(), report: None };
        let gap = gap(&sent, "x".repeat(17 << 20));
        assert!(gap.host == "web-1" && gap.detail.len() < 2 * MAX_DETAIL, "{}", gap.detail.len());
    }
}
