//! A folder for output, held open: whatever becomes of its path meanwhile, files go where it was found.

use std::hash::{BuildHasher as _, Hasher as _, RandomState};
use std::io::{self, Write};
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, CWD, Mode, OFlags, linkat, openat, renameat, unlinkat};
use rustix::io::Errno;

/// How often another name is tried for a file that is being written.
const TRIES: usize = 16;

/// The folder.
#[derive(Debug)]
pub struct Folder {
    pub(super) handle: OwnedFd,
    pub(super) path: PathBuf,
}

impl Folder {
    /// Creates the folder for a run's output, with mode 0700, and proves that files can be made in it.
    /// A symbolic link in its place is refused unless it belongs to this user or to root; of root, so is one anywhere on the way.
    ///
    /// # Errors
    /// When it cannot be made, or nothing can be written there.
    pub fn prepare(path: &Path) -> io::Result<Self> {
        use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _};
        // With a slash behind it a link is what it leads to.
        let path = path.components().as_path();
        Self::refuse_links_of_others(path)?;
        std::fs::DirBuilder::new().recursive(true).mode(0o700).create(path)?;
        let folder = match Self::open(path, OFlags::NOFOLLOW) {
            Err(error) if matches!(Errno::from_io_error(&error), Some(Errno::LOOP | Errno::NOTDIR)) => {
                let (own, found) = (rustix::process::geteuid().as_raw(), path.symlink_metadata()?);
                if found.file_type().is_symlink() && found.uid() != own && found.uid() != 0 {
                    let why = "it is a link that belongs to another user";
                    return Err(io::Error::new(io::ErrorKind::PermissionDenied, why));
                }
                Self::open(path, OFlags::empty())?
            }
            folder => folder?,
        };
        folder.prove()?;
        Ok(folder)
    }

    /// Refuses a path that is a link of another user's. Root's may not lead through one either; others may lean on an administrator's.
    pub(super) fn refuse_links_of_others(path: &Path) -> io::Result<()> {
        use std::os::unix::fs::MetadataExt as _;
        let own = rustix::process::geteuid().as_raw();
        let is_of_other = |part: &&Path| {
            let found = part.symlink_metadata();
            found.is_ok_and(|found| found.file_type().is_symlink() && found.uid() != own && found.uid() != 0)
        };
        match path.ancestors().take(if own == 0 { usize::MAX } else { 1 }).find(is_of_other) {
            Some(link) => {
                let why = format!("{} is a link that belongs to another user", link.display());
                Err(io::Error::new(io::ErrorKind::PermissionDenied, why))
            }
            None => Ok(()),
        }
    }

    /// A few kilobytes tell a full file system before the window starts rather than after it.
    pub(super) fn prove(&self) -> io::Result<()> {
        let (name, mut probe) = self.create()?;
        let written = probe.write_all(&[0; 64 * 1024]).and_then(|()| probe.sync_data());
        self.forget(name.as_deref());
        written
    }

    /// A folder that is there.
    ///
    /// # Errors
    /// When it is none.
    pub fn at(path: &Path) -> io::Result<Self> {
        Self::open(path, OFlags::empty())
    }

    pub(super) fn open(path: &Path, how: OFlags) -> io::Result<Self> {
        let here = if path.as_os_str().is_empty() { Path::new(".") } else { path };
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC | how;
        Ok(Self { handle: openat(CWD, here, flags, Mode::empty())?, path: path.to_owned() })
    }

    /// Where it was found.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Writes a file in it (mode 0600) that gets its name when it is whole: readers see all of it or nothing, and a link that has its name
    /// is replaced. As long as it has none it goes with this process, however that ends.
    ///
    /// # Errors
    /// When the name is that of no file in this folder, or writing fails; then nothing is left of it.
    pub fn write(&self, name: &Path, fill: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> io::Result<()> {
        self.put(name, fill, |_| Ok(()))
    }

    /// The same for a file that takes the place of one whose content must not be lost: it gets the name when it is on the disk. Some file
    /// systems write a name before the data, so after a power loss there would be neither. It waits for the disk.
    ///
    /// # Errors
    /// As [`Folder::write`], and when the data cannot be synced; then the old file is there as it was.
    pub fn replace(&self, name: &Path, fill: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> io::Result<()> {
        self.put(name, fill, std::fs::File::sync_data)
    }

    fn put(
        &self,
        name: &Path,
        fill: impl FnOnce(&mut dyn Write) -> io::Result<()>,
        settle: impl FnOnce(&std::fs::File) -> io::Result<()>,
    ) -> io::Result<()> {
        if name.file_name() != Some(name.as_os_str()) {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "it is no name of a file"));
        }
        let (mut temporary, mut file) = self.create()?;
        let mut buffered = io::BufWriter::new(&mut file);
        let written = fill(&mut buffered).and_then(|()| buffered.flush());
        drop(buffered);
        let named = written.and_then(|()| settle(&file)).and_then(|()| {
            if temporary.is_none() {
                match self.link(&file, name) {
                    // link(2) replaces no file; rename(2) does.
                    Err(Errno::EXIST) => {
                        temporary = Some(self.under_new_name(|new| self.link(&file, Path::new(new)))?.0)
                    }
                    linked => return Ok(linked?),
                }
            }
            let Some(temporary) = &temporary else { return Ok(()) };
            Ok(renameat(&self.handle, temporary, &self.handle, name)?)
        });
        if named.is_err() {
            self.forget(temporary.as_deref());
        }
        named
    }

    /// A file without a name; on file systems that have none, under an unpredictable one.
    fn create(&self) -> io::Result<(Option<String>, std::fs::File)> {
        let (mode, flags) = (Mode::RUSR | Mode::WUSR, OFlags::WRONLY | OFlags::CLOEXEC);
        if let Ok(file) = openat(&self.handle, ".", flags | OFlags::TMPFILE, mode) {
            return Ok((None, file.into()));
        }
        let flags = flags | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW;
        let (name, file) = self.under_new_name(|name| openat(&self.handle, name, flags, mode))?;
        Ok((Some(name), file.into()))
    }

    fn under_new_name<T>(&self, make: impl Fn(&str) -> rustix::io::Result<T>) -> io::Result<(String, T)> {
        for _ in 0..TRIES {
            let name = format!(".rdiag-{:016x}", RandomState::new().build_hasher().finish());
            match make(&name) {
                Err(Errno::EXIST) => {}
                made => return Ok((name, made?)),
            }
        }
        Err(Errno::EXIST.into())
    }

    /// Gives a file that has no name this one.
    fn link(&self, file: &std::fs::File, name: &Path) -> rustix::io::Result<()> {
        let own = format!("/proc/self/fd/{}", file.as_raw_fd());
        linkat(CWD, own.as_str(), &self.handle, name, AtFlags::SYMLINK_FOLLOW)
    }

    fn forget(&self, name: Option<&str>) {
        let _ = name.map(|name| unlinkat(&self.handle, name, AtFlags::empty()));
    }
}

#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "the test's own files")]
mod tests {
    use super::*;

    #[test]
    fn files_go_where_the_folder_was_found_whatever_its_path_leads_to_now() {
        let place = tempfile::tempdir().unwrap();
        let (out, moved, other) = (place.path().join("out"), place.path().join("moved"), place.path().join("other"));
        let folder = Folder::prepare(&out).unwrap();
        std::fs::rename(&out, &moved).unwrap();
        std::fs::create_dir(&other).unwrap();
        std::os::unix::fs::symlink(&other, &out).unwrap();
        folder.write(Path::new("report"), |file| file.write_all(b"x")).unwrap();
        assert_eq!(std::fs::read(moved.join("report")).unwrap(), b"x");
        assert_eq!(std::fs::read_dir(&other).unwrap().count(), 0);
    }

    #[test]
    fn a_file_has_no_name_before_it_is_whole_and_takes_the_place_of_another() {
        use std::os::unix::fs::PermissionsExt as _;
        let place = tempfile::tempdir().unwrap();
        let folder = Folder::prepare(place.path()).unwrap();
        let names = || std::fs::read_dir(place.path()).unwrap().count();
        for (there, text) in [(0, "one"), (1, "two")] {
            let written = folder.write(Path::new("file"), |file| {
                file.write_all(text.as_bytes())?;
                assert_eq!(names(), there, "nothing would be left of it");
                Ok(())
            });
            written.unwrap();
            let path = place.path().join("file");
            assert_eq!((names(), std::fs::read_to_string(&path).unwrap().as_str()), (1, text));
            assert_eq!(path.metadata().unwrap().permissions().mode() & 0o777, 0o600);
        }
        let target = place.path().join("target");
        std::os::unix::fs::symlink(&target, place.path().join("link")).unwrap();
        folder.write(Path::new("link"), |file| file.write_all(b"three")).unwrap();
        assert!(!target.exists() && names() == 2, "through a link nothing is written");
    }

    #[test]
    fn a_file_that_must_not_be_lost_is_replaced_when_the_new_one_is_on_the_disk() {
        let place = tempfile::tempdir().unwrap();
        let folder = Folder::prepare(place.path()).unwrap();
        let (name, path) = (Path::new("file"), place.path().join("file"));
        let text = || std::fs::read_to_string(&path).unwrap();
        folder.write(name, |file| file.write_all(b"old")).unwrap();
        let settled = folder.put(
            name,
            |file| file.write_all(b"new"),
            |file| {
                assert_eq!((text().as_str(), file.metadata()?.len()), ("old", 3), "all of it, before it has the name");
                file.sync_data()
            },
        );
        settled.unwrap();
        assert_eq!(text(), "new");
        let failed = folder.put(name, |file| file.write_all(b"newer"), |_| Err(Errno::IO.into()));
        assert_eq!(Errno::from_io_error(&failed.unwrap_err()), Some(Errno::IO));
        assert_eq!((text().as_str(), std::fs::read_dir(place.path()).unwrap().count()), ("new", 1));
        folder.replace(name, |file| file.write_all(b"newest")).unwrap();
        assert_eq!(text(), "newest");
    }

    #[test]
    fn what_fails_leaves_nothing_and_names_stay_in_the_folder() {
        let place = tempfile::tempdir().unwrap();
        let folder = Folder::prepare(&place.path().join("out")).unwrap();
        let failing = folder.write(Path::new("x"), |_| Err(io::ErrorKind::StorageFull.into()));
        assert_eq!(failing.unwrap_err().kind(), io::ErrorKind::StorageFull);
        for name in ["../x", "a/b", "/x", "", ".", "..", "a/"] {
            assert!(folder.write(Path::new(name), |_| Ok(())).is_err(), "{name:?}");
        }
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
    }
}
