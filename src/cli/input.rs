//! A file that somebody may have sent, opened by the process that may, and read by its confined copy.

use std::fs::File;
use std::path::Path;

use super::Failure;
use super::confined::Desk;
use crate::session;
use rdiag_kernel::host::files;
use rdiag_model::ProbeResult;

/// The file.
pub(super) struct Input {
    file: File,
    /// What the user called it.
    pub(super) name: String,
}

impl Input {
    pub(super) fn open(path: &Path) -> Result<Self, Failure> {
        // What comes through a pipe has this name as well.
        let path = if path == Path::new("-") { Path::new("/dev/stdin") } else { path };
        let name = path.display().to_string();
        let file = files::open_named(path).map_err(Failure::io(format!("reading {name}")))?;
        Ok(Self { file, name })
    }

    /// All of it, if it is no larger than `limit`.
    pub(super) fn bytes(&self, limit: u64) -> Result<Vec<u8>, Failure> {
        files::read_open(&self.file, limit).map_err(Failure::io(format!("reading {}", self.name)))
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
