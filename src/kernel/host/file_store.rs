//! A folder in which rdiag keeps what it records: its files are read, added to, and removed by name, through the folder that was found.
//!
//! Nothing here waits for a disk: a recorder must go on when the disk is what is ill.

use std::fs::File;
use std::io::{self, Read as _, Write as _};
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::os::unix::fs::DirBuilderExt as _;
use std::path::Path;

use rustix::fs::{AtFlags, FlockOperation, Mode, OFlags, flock, fstat, openat, statat, unlinkat};
use rustix::io::Errno;

use super::files;
use super::folder::Folder;

/// More names than this are not looked at.
const MAX_NAMES: usize = 200_000;

/// A file of the folder.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredFile {
    /// Its name.
    pub name: String,
    /// Bytes that it holds.
    pub bytes: u64,
}

impl Folder {
    /// A folder of this user's or root's own, which no other user may write to; made with mode 0700 if it is not there.
    ///
    /// # Errors
    /// When it cannot be made or opened, or others could have put something there.
    pub fn keeping(path: &Path) -> io::Result<Self> {
        let path = path.components().as_path();
        Self::refuse_links_of_others(path)?;
        std::fs::DirBuilder::new().recursive(true).mode(0o700).create(path)?;
        Self::kept(path)
    }

    /// The same, of a folder that is there already.
    ///
    /// # Errors
    /// When there is none, or others could have put something there.
    pub fn kept(path: &Path) -> io::Result<Self> {
        let path = path.components().as_path();
        let folder = Self::open(path, OFlags::NOFOLLOW)?;
        // The descriptor, not the path: who owns a folder above could show another one to each look.
        match folder.distrust()? {
            Some(why) => Err(io::Error::new(io::ErrorKind::PermissionDenied, why)),
            None => Ok(folder),
        }
    }

    /// Why what lies there is not to be believed: others own it, or may write to it ([`files::distrust`]).
    ///
    /// # Errors
    /// When it does not say whose it is.
    pub fn distrust(&self) -> io::Result<Option<String>> {
        files::distrust_opened(&self.handle)
    }

    /// The same, or why one of the folders above it is not to be believed: who may write there can put another folder into its place. Where
    /// folders are sticky (/tmp), users may exchange only what is theirs.
    ///
    /// # Errors
    /// When one of them does not say whose it is.
    pub fn distrust_with_above(&self) -> io::Result<Option<String>> {
        if let Some(why) = self.distrust()? {
            return Ok(Some(why));
        }
        let above = |of: &OwnedFd| openat(of, "..", OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty());
        let own = rustix::process::geteuid().as_raw();
        let mut last = fstat(&self.handle)?;
        let mut folder = above(&self.handle)?;
        loop {
            let found = fstat(&folder)?;
            if (found.st_dev, found.st_ino) == (last.st_dev, last.st_ino) {
                return Ok(None);
            }
            let is_sticky = found.st_mode & 0o1000 != 0 && (found.st_uid == own || found.st_uid == 0);
            if let Some(why) = files::distrust_opened(&folder)?.filter(|_| !is_sticky) {
                return Ok(Some(format!("of a folder above it, {why}")));
            }
            (last, folder) = (found, above(&folder)?);
        }
    }

    /// Whose it is.
    ///
    /// # Errors
    /// When it does not say so.
    pub fn owner(&self) -> io::Result<u32> {
        Ok(fstat(&self.handle)?.st_uid)
    }

    /// Reads a file of another user's, at most `limit` bytes: a regular one of that user's that no other user may write to.
    ///
    /// # Errors
    /// When it is none, or larger.
    pub fn read_of_user(&self, name: &str, user: u32, limit: u64) -> io::Result<Vec<u8>> {
        let file = self.regular(name)?;
        let found = fstat(&file)?;
        if found.st_uid != user || found.st_mode & 0o022 != 0 {
            let why = format!("it is no file that only user {user} may write to");
            return Err(io::Error::new(io::ErrorKind::PermissionDenied, why));
        }
        files::read_open(&file, limit)
    }

    /// Adds a line to a file that only this user may read, and has it on the disk before it returns.
    ///
    /// # Errors
    /// When it cannot be opened or written.
    pub fn append_line(&self, name: &str, line: &str) -> io::Result<()> {
        let flags = OFlags::WRONLY | OFlags::APPEND | OFlags::CREATE | OFlags::NOFOLLOW | OFlags::NONBLOCK;
        let mode = Mode::RUSR | Mode::WUSR;
        let mut file = File::from(openat(&self.handle, named(name)?, flags | OFlags::CLOEXEC, mode)?);
        file.write_all(format!("{line}\n").as_bytes())?;
        file.sync_data()
    }

    /// Removes a folder in it and all that it holds, and follows no link; that it is not there is as good.
    ///
    /// # Errors
    /// When something of it stays.
    pub fn remove_folder(&self, name: &str) -> io::Result<()> {
        // The path of the descriptor leads to the folder that was found, and the rest is one name of it.
        let here = format!("/proc/self/fd/{}", self.handle.as_raw_fd());
        files::remove_directory(&Path::new(&here).join(named(name)?))
    }

    /// Its files, by name.
    ///
    /// # Errors
    /// When it cannot be listed.
    pub fn list(&self) -> io::Result<Vec<StoredFile>> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let listing = rustix::fs::Dir::new(openat(&self.handle, ".", flags, Mode::empty())?)?;
        let mut found = Vec::new();
        for entry in listing.take(MAX_NAMES) {
            let Ok(name) = entry?.file_name().to_str().map(str::to_owned) else { continue };
            let Ok(stat) = statat(&self.handle, &name, AtFlags::SYMLINK_NOFOLLOW) else { continue };
            if rustix::fs::FileType::from_raw_mode(stat.st_mode) == rustix::fs::FileType::RegularFile {
                found.push(StoredFile { name, bytes: u64::try_from(stat.st_size).unwrap_or(0) });
            }
        }
        found.sort_unstable_by(|a, b| a.name.cmp(&b.name));
        Ok(found)
    }

    /// Reads a file of it, at most `limit` bytes.
    ///
    /// # Errors
    /// When it is no regular file, or larger.
    pub fn read(&self, name: &str, limit: u64) -> io::Result<Vec<u8>> {
        files::read_open(&self.regular(name)?, limit)
    }

    /// Reads the first bytes of a file of it.
    ///
    /// # Errors
    /// When it is no regular file.
    pub fn read_start(&self, name: &str, bytes: u64) -> io::Result<Vec<u8>> {
        let mut start = Vec::new();
        self.regular(name)?.take(bytes).read_to_end(&mut start)?;
        Ok(start)
    }

    fn regular(&self, name: &str) -> io::Result<File> {
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
        let file = File::from(openat(&self.handle, named(name)?, flags, Mode::empty())?);
        match file.metadata()?.is_file() {
            true => Ok(file),
            false => Err(io::Error::new(io::ErrorKind::InvalidInput, "it is no regular file")),
        }
    }

    /// Begins a file that is written bit by bit, in place of any that has its name.
    ///
    /// # Errors
    /// When it cannot be made.
    pub fn begin(&self, name: &str) -> io::Result<File> {
        self.remove(name)?;
        let flags =
            OFlags::WRONLY | OFlags::APPEND | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        Ok(openat(&self.handle, named(name)?, flags, Mode::RUSR | Mode::WUSR)?.into())
    }

    /// Removes a file; that it is not there is as good.
    ///
    /// # Errors
    /// When it is there and stays.
    pub fn remove(&self, name: &str) -> io::Result<()> {
        match unlinkat(&self.handle, named(name)?, AtFlags::empty()) {
            Err(Errno::NOENT) | Ok(()) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    /// A lock that one process has until the file is dropped; none if another has it.
    ///
    /// # Errors
    /// When there can be none.
    pub fn lock(&self, name: &str) -> io::Result<Option<File>> {
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let file = File::from(openat(&self.handle, named(name)?, flags, Mode::RUSR | Mode::WUSR)?);
        match flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => Ok(Some(file)),
            Err(Errno::WOULDBLOCK) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// Bytes that this user may still write there.
    ///
    /// # Errors
    /// When the file system does not say.
    pub fn free(&self) -> io::Result<u64> {
        let found = rustix::fs::fstatvfs(&self.handle)?;
        Ok(found.f_bavail.saturating_mul(found.f_frsize))
    }
}

/// A name of a file in the folder, and no way out of it.
fn named(name: &str) -> io::Result<&str> {
    match Path::new(name).file_name().is_some_and(|last| last == name) {
        true => Ok(name),
        false => Err(io::Error::new(io::ErrorKind::InvalidInput, "it is no name of a file")),
    }
}

#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "the test's own files")]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    fn files_are_begun_read_listed_and_removed_by_name_alone() {
        let place = tempfile::tempdir().unwrap();
        let folder = Folder::keeping(&place.path().join("a/b")).unwrap();
        let mut file = folder.begin("tail").unwrap();
        file.write_all(b"one").unwrap();
        file.write_all(b"two").unwrap();
        assert_eq!(folder.read("tail", 6).unwrap(), b"onetwo");
        assert!(folder.read("tail", 5).is_err(), "larger than it may be");
        assert_eq!(folder.read_start("tail", 5).unwrap(), b"onetw");
        assert_eq!(folder.list().unwrap(), [StoredFile { name: "tail".into(), bytes: 6 }]);
        assert_eq!(place.path().join("a/b/tail").metadata().unwrap().permissions().mode() & 0o777, 0o600);
        folder.begin("tail").unwrap();
        assert_eq!(folder.read("tail", 5).unwrap(), b"");
        for name in ["../x", "a/b", "", "..", "/etc/passwd"] {
            assert!(
                folder.begin(name).is_err() && folder.read(name, 9).is_err() && folder.remove(name).is_err(),
                "{name}"
            );
        }
        folder.remove("tail").unwrap();
        folder.remove("tail").unwrap();
        assert!(folder.list().unwrap().is_empty() && folder.free().unwrap() > 0);
    }

    #[test]
    fn links_are_not_followed_and_a_folder_of_others_is_refused() {
        let place = tempfile::tempdir().unwrap();
        let folder = Folder::keeping(&place.path().join("kept")).unwrap();
        std::fs::write(place.path().join("target"), "secret").unwrap();
        std::os::unix::fs::symlink(place.path().join("target"), place.path().join("kept/tail")).unwrap();
        assert!(folder.read("tail", 100).is_err() && folder.lock("tail").is_err());
        folder.begin("tail").unwrap().write_all(b"x").unwrap();
        assert_eq!(std::fs::read(place.path().join("target")).unwrap(), b"secret");
        std::os::unix::fs::symlink(place.path().join("kept"), place.path().join("link")).unwrap();
        assert!(Folder::kept(&place.path().join("link")).is_err());
        std::fs::set_permissions(place.path().join("kept"), std::fs::Permissions::from_mode(0o777)).unwrap();
        assert_eq!(Folder::kept(&place.path().join("kept")).unwrap_err().to_string(), "others may write to it");
    }

    #[test]
    fn a_folder_is_judged_and_read_as_it_was_found_whatever_its_path_leads_to_now() {
        let place = tempfile::tempdir().unwrap();
        let (at, moved) = (place.path().join("at"), place.path().join("moved"));
        let folder = Folder::keeping(&at).unwrap();
        std::fs::set_permissions(&at, std::fs::Permissions::from_mode(0o777)).unwrap();
        std::fs::create_dir(at.join("run")).unwrap();
        std::fs::rename(&at, &moved).unwrap();
        let good = Folder::keeping(&at).unwrap();
        std::fs::create_dir(at.join("run")).unwrap();
        assert_eq!(folder.distrust().unwrap().as_deref(), Some("others may write to it"));
        assert_eq!(good.distrust().unwrap(), None);
        folder.append_line("journal", "one").unwrap();
        folder.append_line("journal", "two").unwrap();
        assert_eq!(folder.read("journal", 8).unwrap(), b"one\ntwo\n");
        assert!(moved.join("journal").exists() && !at.join("journal").exists());
        folder.remove_folder("run").unwrap();
        folder.remove_folder("run").unwrap();
        assert!(!moved.join("run").exists() && at.join("run").exists());
        assert!(folder.remove_folder("..").is_err() && folder.remove_folder("../at").is_err());
        std::os::unix::fs::symlink(&at, moved.join("link")).unwrap();
        folder.remove_folder("link").unwrap();
        assert!(at.join("run").exists(), "a link goes, and not what it leads to");
    }

    #[test]
    fn a_lock_is_held_by_one() {
        let place = tempfile::tempdir().unwrap();
        let folder = Folder::keeping(place.path()).unwrap();
        let held = folder.lock("lock").unwrap();
        assert!(held.is_some() && folder.lock("lock").unwrap().is_none());
        drop(held);
        assert!(folder.lock("lock").unwrap().is_some());
    }
}
