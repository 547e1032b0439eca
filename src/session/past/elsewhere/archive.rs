//! An sosreport as the archive that was sent: what sadf printed of that time is found in it while it is unpacked, in memory.
//!
//! Nothing is written, and no link is followed: an entry is its bytes. Entries that carry the name of the next one are read here, within a
//! bound of their own.

#[cfg(test)]
mod tests;

use std::cell::Cell;
use std::io::{self, Read};

use tar::Archive;

use super::intervals::Time;
use super::packed::{Limits, Unpacked, size};
use super::sosreport::{Day, Found, Given, Kind};
use crate::past::time::Past;

/// A name takes no more; one that does is that of no file that is looked for.
const MAX_EXTENSION: u64 = 64 << 10;
const MAX_PATH: usize = 512;

/// The recording of a time, from the archive of a report.
pub(super) fn past(from: Unpacked<'_>, time: &Time<'_>, limits: &Limits) -> Result<Past, String> {
    let mut search = Search {
        time,
        limits,
        days: Day::around(time.span, time.zone),
        found: Found::default(),
        best: None,
        refused: None,
    };
    let (left, ended) = (Cell::new(limits.archive), Cell::new(false));
    let mut archive = Archive::new(Watched { from, left: &left, ended: &ended });
    let walked = search.walk(&mut archive);
    let from = archive.into_inner().from;
    match walked {
        Ok(()) => search.outcome(),
        Err(_) if search.best.is_some() || search.refused.is_some() => search.outcome(),
        Err(_) if left.get() == 0 => Err(format!(
            "it is larger than {} unpacked, and nothing of that time was found so far: `tar xf FILE`, and give --from the folder",
            size(limits.archive)
        )),
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof || ended.get() => {
            Err("it is cut off: the archive is incomplete, so copy it again".to_owned())
        }
        Err(error) => Err(from.broken(&error)),
    }
}

/// What is read, and whether it is at its end.
struct Watched<'c, R> {
    from: R,
    left: &'c Cell<u64>,
    ended: &'c Cell<bool>,
}

impl<R: Read> Read for Watched<'_, R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let left = self.left.get();
        if left == 0 && !buffer.is_empty() {
            return Err(io::Error::other("no more is read"));
        }
        let most = usize::try_from(left).unwrap_or(usize::MAX).min(buffer.len());
        let read = self.from.read(buffer.get_mut(..most).unwrap_or_default())?;
        self.left.set(left.saturating_sub(read as u64));
        self.ended.set(read == 0 && most > 0);
        Ok(read)
    }
}

struct Search<'t> {
    time: &'t Time<'t>,
    limits: &'t Limits,
    /// The day that is meant, and its neighbours.
    days: [Day; 3],
    found: Found,
    /// What the file of the day before or after has of the time.
    best: Option<Past>,
    /// Why the file of the day itself is of no use.
    refused: Option<String>,
}

impl Search<'_> {
    /// Looks at each entry, until one of the day itself has the time.
    fn walk<R: Read>(&mut self, archive: &mut Archive<R>) -> io::Result<()> {
        let mut named = None;
        for entry in archive.entries()?.raw(true) {
            let mut entry = entry?;
            let kind = entry.header().entry_type();
            if kind.is_gnu_longname() || kind.is_pax_local_extensions() {
                let mut text = Vec::new();
                entry.by_ref().take(MAX_EXTENSION).read_to_end(&mut text)?;
                let name = if kind.is_gnu_longname() { Some(text.as_slice()) } else { pax(&text, b"path=") };
                named = name.map(name_of).or(named);
                if kind.is_pax_local_extensions() && pax(&text, b"size=").is_some() {
                    return Err(io::Error::other("it holds a file of 8 GiB or more"));
                }
                continue;
            }
            if kind.is_gnu_longlink() || kind.is_pax_global_extensions() {
                continue;
            }
            if kind.is_gnu_sparse() && entry.header().as_gnu().is_some_and(tar::GnuHeader::is_extended) {
                return Err(io::Error::other("it holds sparse files, which are not read here"));
            }
            let path = named.take().unwrap_or_else(|| name_of(&entry.path_bytes()));
            if !(kind.is_file() || kind.is_contiguous()) || path.len() > MAX_PATH {
                continue;
            }
            let day =
                self.days.iter().position(|day| day.place(&path).is_some_and(|place| place.kind == Kind::Printed));
            let Some(day) = day else {
                self.found.note(&path, &self.days[0]);
                continue;
            };
            if self.read(&path, entry.size(), &mut entry, day == 0)? {
                return Ok(());
            }
        }
        Ok(())
    }

    /// Reads a file; whether that is all that has to be read.
    fn read(&mut self, path: &str, length: u64, entry: &mut impl Read, is_of_day: bool) -> io::Result<bool> {
        let limit = self.limits.file;
        let read = if length > limit {
            Err(format!("it is larger than {}", size(limit)))
        } else {
            let mut bytes = Vec::new();
            if entry.take(limit).read_to_end(&mut bytes)? as u64 != length {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            super::printed(&bytes, self.time)
        };
        match read {
            Ok(mut past) => {
                past.notes.insert(0, format!("Read from the archive: {path}"));
                self.best = Some(past);
                return Ok(is_of_day);
            }
            Err(why) if is_of_day => self.refused = Some(format!("{path}: {why}")),
            Err(_) => {}
        }
        Ok(false)
    }

    fn outcome(self) -> Result<Past, String> {
        if let Some(past) = self.best {
            return Ok(past);
        }
        let (why, what) = self.found.refusal(&self.days[0], Given::Archive);
        match (self.refused, &self.found.sysstat) {
            (Some(refused), None) => Err(refused),
            (Some(refused), Some(_)) => Err(format!("{refused}; {why}: {what}")),
            (None, _) => Err(format!("{why}: {what}")),
        }
    }
}

fn name_of(bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(bytes);
    text.trim_end_matches('\0').to_owned()
}

/// A record of what comes before an entry (`27 path=…`), by its beginning.
fn pax<'t>(mut records: &'t [u8], key: &[u8]) -> Option<&'t [u8]> {
    while let Some(space) = records.iter().position(|byte| *byte == b' ') {
        let length: usize = std::str::from_utf8(records.get(..space)?).ok()?.parse().ok()?;
        let record = records.get(space + 1..length)?;
        if let Some(value) = record.strip_prefix(key) {
            return Some(value.strip_suffix(b"\n").unwrap_or(value));
        }
        records = records.get(length..)?;
    }
    None
}
