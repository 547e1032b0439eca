//! A file of unknown origin, opened by the process that may open it, and read by its confined copy.

use std::fs::File;
use std::path::Path;

use super::Failure;
use super::confined::Desk;
use crate::session::{self, StoreError};
use rdiag_kernel::host::files;
use rdiag_model::ProbeResult;

/// The file.
pub(super) struct Input {
    file: File,
    /// What the user called it.
    pub(super) name: String,
}

impl Input {
    /// Opens it. Of a folder that `rdiag run` wrote, the first of `names` that is there is meant; `-` is stdin.
    pub(super) fn open(path: &Path, names: &[&str]) -> Result<Self, Failure> {
        // What comes through a pipe has this name as well.
        let path = if path == Path::new("-") { Path::new("/dev/stdin") } else { path };
        let within = names.iter().map(|name| path.join(name));
        let path = match path.is_dir() {
            false => path.to_owned(),
            true => within.into_iter().find(|path| path.exists()).ok_or_else(|| {
                let message = format!("reading {}: the folder has no {}", path.display(), names.join(" and no "));
                Failure::usage(message, Some("name a folder that `rdiag run` wrote, or a file in it"))
            })?,
        };
        let name = path.display().to_string();
        let file = files::open_named(&path).map_err(Failure::reading(&name))?;
        Ok(Self { file, name })
    }

    /// What to say of a file that is none of those a command takes: perhaps it is one of the others that a run writes.
    pub(super) fn foreign(&self, bytes: &[u8], source: StoreError) -> Failure {
        let is = |wanted: &[u8]| bytes.get(..1000).unwrap_or(bytes).windows(wanted.len()).any(|part| part == wanted);
        let (what, hint) = if is(b"<!doctype html") || is(b"<!DOCTYPE html") || is(b"# rdiag") {
            ("it is a report for people", "give report.json or recording.json.gz, or the folder of the run")
        } else if matches!(source, StoreError::Foreign(_)) && session::read_report(bytes).is_ok() {
            (
                "it is a report, which was judged already",
                "`rdiag report FILE` shows it; `rdiag analyze` takes recording.json.gz",
            )
        } else {
            return Failure::Recording { path: self.name.clone(), source };
        };
        Failure::usage(format!("reading {}: {what}", self.name), Some(hint))
    }

    /// All of it, if it is no larger than `limit`.
    pub(super) fn bytes(&self, limit: u64) -> Result<Vec<u8>, Failure> {
        files::read_open(&self.file, limit).map_err(Failure::reading(&self.name))
    }

    /// It, for what reads and bounds it piece by piece.
    pub(super) fn reader(&self) -> impl std::io::Read + '_ {
        &self.file
    }

    /// The profile of another program that it is; none if it is something of rdiag's own.
    pub(super) fn profile(&self, desk: &Desk) -> Result<Option<ProbeResult>, Failure> {
        // What is no file cannot be asked what it is; a recording may come from a pipe.
        if !self.file.metadata().is_ok_and(|meta| meta.is_file()) {
            return Ok(None);
        }
        session::import(&mut desk.clone(), &self.file)
            .map_err(|source| Failure::Import { path: self.name.clone(), source })
    }
}
