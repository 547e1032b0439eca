//! What is where on a host: names in directories, links, and what a file is, of the machine or of a recorded tree.

use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;

use rustix::fs::OFlags;

use super::{Host, tree};
use crate::host::source::SourceError;

impl Host {
    /// Names in a directory, sorted.
    #[expect(clippy::disallowed_methods, reason = "this is the door")]
    pub fn list(&self, path: &str) -> Result<Vec<String>, SourceError> {
        self.fault(path)?;
        let fail = |e: std::io::Error| SourceError::io(path, &e);
        let mut names: Vec<String> = if self.is_tree() {
            let entries = self.in_tree(path, OFlags::DIRECTORY).and_then(tree::entries).map_err(fail)?;
            entries.into_iter().map(|(name, _)| name).collect()
        } else {
            let entries = std::fs::read_dir(self.locate(path)).map_err(fail)?;
            entries.flatten().map(|entry| entry.file_name().to_string_lossy().into_owned()).collect()
        };
        names.sort_unstable();
        Ok(names)
    }

    /// Names of the directories in a directory, sorted; links are not followed. In a recorded tree, an instant holds
    /// only what changed, so those of the instants before count too, unless they are said to be absent.
    pub fn subdirectories(&self, path: &str) -> Result<Vec<String>, SourceError> {
        self.fault(path)?;
        let mut names = Vec::new();
        let mut found = Err(SourceError::io(path, &std::io::Error::from(rustix::io::Errno::NOENT)));
        for folder in self.folders() {
            match self.directories(&folder, path) {
                Ok(directories) => {
                    names.extend(directories);
                    found = Ok(());
                }
                Err(error) if found.is_err() => found = Err(SourceError::io(path, &error)),
                Err(_) => {}
            }
        }
        found?;
        names.sort_unstable();
        names.dedup();
        names.retain(|name| self.fault(&format!("{path}/{name}")).is_ok());
        Ok(names)
    }

    #[expect(clippy::disallowed_methods, reason = "this is the door")]
    fn directories(&self, folder: &Path, path: &str) -> std::io::Result<Vec<String>> {
        let relative = path.trim_start_matches('/');
        if self.is_tree() {
            let entries = tree::entries(tree::open(folder, relative, OFlags::DIRECTORY)?)?;
            return Ok(entries.into_iter().filter(|(_, is_folder)| *is_folder).map(|(name, _)| name).collect());
        }
        let entries = std::fs::read_dir(folder.join(relative))?.flatten();
        let directories = entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()));
        Ok(directories.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect())
    }

    /// Where a symbolic link points to, unresolved.
    #[expect(clippy::disallowed_methods, reason = "this is the door")]
    pub fn link(&self, path: &str) -> Result<String, SourceError> {
        self.fault(path)?;
        let fail = |e: std::io::Error| SourceError::io(path, &e);
        if self.is_tree() {
            let link = self.in_tree(path, OFlags::PATH | OFlags::NOFOLLOW).map_err(fail)?;
            let target = rustix::fs::readlinkat(&link, "", Vec::new()).map_err(|e| fail(e.into()))?;
            return Ok(target.to_string_lossy().into_owned());
        }
        let target = std::fs::read_link(self.locate(path)).map_err(fail)?;
        Ok(target.to_string_lossy().into_owned())
    }

    /// Whether a file or directory is there and may be seen.
    pub fn exists(&self, path: &str) -> bool {
        self.fault(path).is_ok() && self.found(path, OFlags::NOFOLLOW).is_ok()
    }

    /// Whether there is a regular file at the end of this path, links followed. Nothing is opened: that alone can do something to a
    /// device.
    pub fn is_file(&self, path: &str) -> bool {
        let is_file = |meta: std::fs::Metadata| meta.is_file();
        self.fault(path).is_ok() && self.found(path, OFlags::empty()).is_ok_and(is_file)
    }

    /// Owner and inode of a file or directory, without following a link.
    pub fn owner_and_inode(&self, path: &str) -> Option<(u32, u64)> {
        use std::os::unix::fs::MetadataExt as _;
        let meta = self.found(path, OFlags::NOFOLLOW).ok()?;
        Some((meta.uid(), meta.ino()))
    }

    /// The stat(2) result of a file that is not opened; of a link itself with `NOFOLLOW`.
    fn found(&self, path: &str, how: OFlags) -> std::io::Result<std::fs::Metadata> {
        if self.is_tree() {
            return std::fs::File::from(self.in_tree(path, OFlags::PATH | how)?).metadata();
        }
        let place = self.locate(path);
        if how.contains(OFlags::NOFOLLOW) { place.symlink_metadata() } else { place.metadata() }
    }

    /// The file's place: under the root, or under the latest instant that has it.
    pub(crate) fn locate(&self, path: &str) -> PathBuf {
        self.folder_of(path).join(path.trim_start_matches('/'))
    }

    /// The root, or the latest instant that has the file. No more is asked than whether something is there.
    pub(super) fn folder_of(&self, path: &str) -> PathBuf {
        if self.replay.is_none() {
            return self.root.clone();
        }
        let relative = path.trim_start_matches('/');
        let newest = self.folders().into_iter().rev().find(|folder| folder.join(relative).symlink_metadata().is_ok());
        newest.unwrap_or_else(|| self.root.join("t0"))
    }

    /// All folders that may hold a file or directory.
    fn folders(&self) -> Vec<PathBuf> {
        if self.replay.is_none() {
            return vec![self.root.clone()];
        }
        let instants = 0..=self.instant.load(Ordering::Relaxed);
        instants.map(|t| self.root.join(format!("t{t}"))).collect()
    }

    /// Whether a folder stands in for the machine: no link leads out of it.
    pub(super) fn is_tree(&self) -> bool {
        self.replay.is_some() || self.root != Path::new("/")
    }

    pub(super) fn in_tree(&self, path: &str, flags: OFlags) -> std::io::Result<std::os::fd::OwnedFd> {
        tree::open(&self.folder_of(path), path.trim_start_matches('/'), flags)
    }
}
