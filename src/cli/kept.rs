//! Where history is kept, and how much of it.

use std::path::{Path, PathBuf};

use super::Failure;
use super::ui::{Text, Ui};
use crate::session::{HistoryFile, Span, TAIL, begins};
use crate::shown;
use rdiag_kernel::host::files::Folder;

/// Where root keeps it.
const OF_ROOT: &str = "/var/lib/rdiag";
/// A block is no longer, in seconds.
const LONGEST_BLOCK: i64 = 3700;
/// A file is never larger, nor are all of one time together.
const MAX_FILE: u64 = crate::history::MAX_FILE;
const MAX_FILES: u64 = 256 << 20;
/// What is beside the time that is judged must not crowd it out.
const MAX_BESIDE: u64 = 16 << 20;

/// The folder that is meant: what was asked for, or the one of this user's recorder.
pub(super) fn place(asked: Option<&PathBuf>) -> Result<PathBuf, Failure> {
    of_user(asked, "history")
}

/// A folder of what this user keeps; `--WHAT` names another one.
pub(super) fn of_user(asked: Option<&PathBuf>, what: &str) -> Result<PathBuf, Failure> {
    if let Some(asked) = asked {
        return Ok(asked.clone());
    }
    if rustix::process::geteuid().is_root() {
        return Ok(Path::new(OF_ROOT).join(what));
    }
    let set = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let state = set("XDG_STATE_HOME").or_else(|| set("HOME").map(|home| home.join(".local/state")));
    let hint = format!("name a folder with --{what}");
    let unknown = || Failure::usage(format!("there is no home to keep {what} in"), Some(&hint));
    Ok(state.ok_or_else(unknown)?.join("rdiag").join(what))
}

/// Opens it for reading.
pub(super) fn open(path: &Path) -> Result<Folder, Failure> {
    Folder::kept(path).map_err(|source| match source.kind() {
        std::io::ErrorKind::NotFound => Failure::usage(
            format!("there is no history in {}", path.display()),
            Some("`rdiag watch` records it from now on; with sysstat: sadf -j /var/log/sysstat/saDD -- -A | rdiag run use-method --at TIME --from -"),
        ),
        _ => Failure::Io { attempt: format!("opening the history in {}", path.display()), source },
    })
}

/// The files that may cover a time, in order, the tail last; and those that may cover a longer one around it.
pub(super) fn files(
    folder: &Folder,
    span: Span,
    around: Option<Span>,
    ui: &Ui,
) -> Result<(Vec<HistoryFile>, Vec<HistoryFile>), Failure> {
    let listing = || format!("listing the history in {}", folder.path().display());
    let tells = |span: Span, name: &str| {
        let (from, to) = (span.from.div_euclid(1_000_000) - LONGEST_BLOCK, span.to.div_euclid(1_000_000));
        begins(name).is_some_and(|begins| (from..=to).contains(&begins))
    };
    let is_within = |name: &str| name == TAIL || tells(span, name);
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

/// Blocks as they were recorded; the tail is the newest.
pub(super) fn order(name: &str) -> (bool, &str) {
    (name == TAIL, name)
}

/// A number of bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Size(pub(super) u64);

/// `256MB`, `1GiB`, `500 kB`.
pub(super) fn size(text: &str) -> Result<Size, String> {
    let wrong = || format!("{text:?} is no size; write 256MB or 1GiB");
    let digits = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (number, unit) = text.split_at_checked(digits).ok_or_else(wrong)?;
    let factor = match unit.trim().to_ascii_lowercase().as_str() {
        "" | "b" => 1,
        "k" | "kb" => 1000,
        "m" | "mb" => 1_000_000,
        "g" | "gb" => 1_000_000_000,
        "kib" => 1 << 10,
        "mib" => 1 << 20,
        "gib" => 1 << 30,
        _ => return Err(wrong()),
    };
    let number: u64 = number.parse().map_err(|_| wrong())?;
    number.checked_mul(factor).filter(|bytes| *bytes > 0).map(Size).ok_or_else(wrong)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_what_people_write() {
        let bytes = |text| size(text).map(|size| size.0).ok();
        assert_eq!(bytes("256MB"), Some(256_000_000));
        assert_eq!(bytes("1GiB"), Some(1 << 30));
        assert_eq!((bytes("500 kB"), bytes("77")), (Some(500_000), Some(77)));
        for wrong in ["", "MB", "-1MB", "1.5GB", "0", "99999999999GiB", "5 bananas"] {
            assert_eq!(bytes(wrong), None, "{wrong}");
        }
    }
}
