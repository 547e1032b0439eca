//! A file of unknown origin, opened by the process that may open it, and read by its confined copy.

use std::fs::File;
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, FileType, Mode, OFlags, ResolveFlags, fstat, openat, openat2};
use rustix::io::Errno;

use super::confined::Desk;
use crate::cli::exit::Failure;
use rdiag_kernel::host::files;
use rdiag_model::ProbeResult;
use rdiag_session as session;
use rdiag_session::StoreError;

/// The file.
pub(super) struct Input {
    file: File,
    /// What the user called it.
    pub(super) name: String,
}

/// How often a path is tried again in which something was moved.
const TRIES: usize = 8;

/// A folder that was sent, such as an unpacked sosreport: a link in it leads to no file outside of it.
pub(super) struct SentFolder {
    handle: OwnedFd,
    path: PathBuf,
}

impl SentFolder {
    /// Opens it.
    pub(super) fn open(path: &Path) -> Result<Self, Failure> {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let opened = openat(CWD, path, flags, Mode::empty()).map_err(Into::into);
        let handle = opened.map_err(Failure::reading(&path.display().to_string()))?;
        Ok(Self { handle, path: path.to_owned() })
    }

    /// What is there under a path, `/` in a link being the folder.
    fn found(&self, path: &str) -> Result<OwnedFd, Errno> {
        let flags = OFlags::PATH | OFlags::CLOEXEC;
        for _ in 0..TRIES {
            match openat2(&self.handle, path, flags, Mode::empty(), ResolveFlags::IN_ROOT) {
                Err(Errno::AGAIN) => {}
                // A filter forbids the call, or does not know it.
                Err(Errno::NOSYS | Errno::PERM) => return self.without_links(path),
                found => return found,
            }
        }
        Err(Errno::AGAIN)
    }

    fn without_links(&self, path: &str) -> Result<OwnedFd, Errno> {
        let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let mut at = openat(&self.handle, ".", flags, Mode::empty())?;
        for part in path.split('/').filter(|part| !part.is_empty()) {
            at = openat(&at, part, flags, Mode::empty())?;
            if part == ".." || FileType::from_raw_mode(fstat(&at)?.st_mode) == FileType::Symlink {
                return Err(Errno::LOOP);
            }
        }
        Ok(at)
    }

    fn is(&self, path: &str, kind: FileType) -> bool {
        let found = self.found(path).and_then(fstat);
        found.is_ok_and(|found| FileType::from_raw_mode(found.st_mode) == kind)
    }

    /// Whether there is a regular file under a path.
    pub(super) fn is_file(&self, path: &str) -> bool {
        self.is(path, FileType::RegularFile)
    }

    /// Whether there is a folder under a path.
    pub(super) fn is_dir(&self, path: &str) -> bool {
        self.is(path, FileType::Directory)
    }

    /// Opens a file of it.
    pub(super) fn input(&self, path: &str) -> Result<Input, Failure> {
        let name = self.path.join(path).display().to_string();
        let opened = self.found(path).map_err(Into::into).and_then(|found| {
            // What it is was asked of the one that was found, and is asked again there.
            files::open_named(Path::new(&format!("/proc/self/fd/{}", found.as_raw_fd())))
        });
        Ok(Input { file: opened.map_err(Failure::reading(&name))?, name })
    }
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

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    #[expect(clippy::disallowed_methods, reason = "the test makes the folder")]
    fn a_link_in_a_folder_that_was_sent_leads_to_no_file_outside() {
        let outside = tempfile::tempdir().unwrap();
        let folder = outside.path().join("report");
        std::fs::create_dir_all(folder.join("var/log")).unwrap();
        std::fs::write(outside.path().join("secret"), "secret").unwrap();
        std::fs::write(folder.join("own"), "own").unwrap();
        let absolute = outside.path().join("secret");
        let links = [("out", absolute.to_str().unwrap()), ("var/log/up", "../../../secret"), ("var/log/in", "/own")];
        for (link, target) in links {
            symlink(target, folder.join(link)).unwrap();
        }
        let sent = SentFolder::open(&folder).unwrap();
        for name in ["out", "var/log/up", "../secret", "var/../../secret", "nosuch"] {
            assert!(!sent.is_file(name) && sent.input(name).is_err(), "{name}");
            assert!(sent.without_links(name).is_err(), "{name}");
        }
        assert!(sent.is_dir("var/log") && !sent.is_dir("own") && !sent.is_file("var/log"));
        for name in ["own", "var/log/in"] {
            let input = sent.input(name).unwrap();
            assert_eq!(input.bytes(10).ok().as_deref(), Some(&b"own"[..]), "{name}");
            assert!(sent.is_file(name) && input.name.ends_with(name));
        }
        assert!(sent.without_links("own").is_ok() && sent.without_links("var/log/in").is_err());
    }
}
