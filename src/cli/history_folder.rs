//! The folder of the recorder: its files, and those of them that may cover a time.

use std::path::{Path, PathBuf};

use super::state;
use super::ui::{Text, Ui};
use crate::cli::exit::Failure;
use rdiag_kernel::host::Zone;
use rdiag_kernel::host::files::Folder;
use rdiag_report::shown;
use rdiag_session::{HistoryFile, NEAR, Span, TAIL, begins};

/// A block is no longer, in seconds.
const LONGEST_BLOCK: i64 = 3700;
/// A file is never larger, nor are all of one time together.
const MAX_FILE: u64 = rdiag_history::MAX_FILE;
const MAX_FILES: u64 = 256 << 20;
/// What is beside the time that is judged must not crowd it out.
const MAX_BESIDE: u64 = 16 << 20;

/// The folder that is meant: what was asked for, or the one of this user's recorder.
pub(super) fn place(asked: Option<&PathBuf>) -> Result<PathBuf, Failure> {
    state::folder(asked, "history")
}

/// Opens it for reading.
pub(super) fn open(path: &Path) -> Result<Folder, Failure> {
    Folder::kept(path).map_err(|source| match source.kind() {
        std::io::ErrorKind::NotFound => Failure::usage(
            format!("there is no history in {}", path.display()),
            Some(&format!("`rdiag watch` records it from now on; {}", elsewhere("/var/log/sysstat/saDD"))),
        ),
        _ => Failure::Io { attempt: format!("opening the history in {}", path.display()), source },
    })
}

/// What is known of a time that the recorder did not record.
fn elsewhere(file: &str) -> String {
    format!(
        "with sysstat: sadf -j {file} -- -A | rdiag run use-method --at TIME --from -, the kernel log alone: \
         journalctl _TRANSPORT=kernel -o json in its place"
    )
}

/// The same of one time, with the file of sysstat for that day where there is one.
pub(super) fn not_recorded(span: Span, zone: &Zone) -> String {
    let day = zone.day(span.to);
    let names = [format!("sa{}", day.get(6..).unwrap_or_default()), format!("sa{day}")];
    let folders = ["/var/log/sysstat", "/var/log/sa"].map(Path::new);
    let mut files = folders.iter().flat_map(|folder| names.iter().map(|name| folder.join(name)));
    let known = files.find(|file| file.is_file());
    let kept = known.map_or_else(|| "/var/log/sysstat/saDD".to_owned(), |file| file.display().to_string());
    format!("`rdiag history list` shows what was recorded; {}", elsewhere(&kept))
}

/// The files that may cover a time, in order, the tail last; and those that may cover a longer one around it.
pub(super) fn files(
    folder: &Folder,
    span: Span,
    around: Option<Span>,
    ui: &Ui,
) -> Result<(Vec<HistoryFile>, Vec<HistoryFile>), Failure> {
    let listing = || format!("listing the history in {}", folder.path().display());
    // What is rarely read lies after it, too.
    let near = Span { to: span.to.saturating_add((NEAR * 1e6) as i64), ..span };
    let is_within = |name: &str| name == TAIL || tells(near, name);
    let all = folder.list().map_err(Failure::io(listing()))?.into_iter().map(|file| file.name);
    let wanted = all.filter(|name| is_within(name) || around.is_some_and(|of| tells(of, name)));
    let (within, beside): (Vec<String>, Vec<String>) = wanted.partition(|name| is_within(name));
    let mut room = MAX_FILES;
    let mut read = |names: Vec<String>, limit: u64| {
        let mut kept = Vec::new();
        for name in names {
            match folder.read(&name, limit.min(room)) {
                Ok(bytes) => {
                    room = room.saturating_sub(bytes.len() as u64);
                    kept.push(HistoryFile { name, bytes });
                }
                // It may have gone between listing and reading.
                Err(error) => ui.warn(shown!("reading {}: {}", Text::seen(&name), Text::seen(error.to_string()))),
            }
        }
        kept.sort_by(|a, b| order(&a.name).cmp(&order(&b.name)));
        kept
    };
    Ok((read(within, MAX_FILE), read(beside, MAX_BESIDE)))
}

/// Whether a block may tell something of a time, by its name.
fn tells(span: Span, name: &str) -> bool {
    let (from, to) = (span.from.div_euclid(1_000_000) - LONGEST_BLOCK, span.to.div_euclid(1_000_000));
    begins(name).is_some_and(|begins| (from..=to).contains(&begins))
}

/// Blocks as they were recorded; the tail is the newest.
pub(super) fn order(name: &str) -> (bool, &str) {
    (name == TAIL, name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_block_may_tell_of_a_time_an_hour_after_it_began_and_none_that_began_later_does() {
        let span = Span { from: 10_000_000_000, to: 10_600_000_000 };
        let told = |second: i64| tells(span, &format!("0000000007-{second}.rdh"));
        assert_eq!([6_299, 6_300, 10_600, 10_601].map(told), [false, true, true, false]);
        assert!(!tells(span, TAIL) && !tells(span, "lock"));
    }
}
