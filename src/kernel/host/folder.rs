//! A folder for output, held open: whatever becomes of its path meanwhile, files go where it was found.

use std::hash::{BuildHasher as _, Hasher as _, RandomState};
use std::io::{self, Write};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, CWD, Mode, OFlags, openat, renameat, unlinkat};
use rustix::io::Errno;

/// How often another name is tried for a file that is being written.
const TRIES: usize = 16;

/// The folder.
#[derive(Debug)]
pub struct Folder {
    handle: OwnedFd,
    path: PathBuf,
}

impl Folder {
    /// Creates the folder for a run's output, with mode 0700, and proves that files can be made in it.
    /// A symbolic link in its place is refused unless it belongs to this user or to root.
    ///
    /// # Errors
    /// When it cannot be made, or nothing can be written there.
    pub fn prepare(path: &Path) -> io::Result<Self> {
        use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _};
        // With a slash behind it a link is what it leads to.
        let path = path.components().as_path();
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
        // A few kilobytes tell a full file system before the window starts rather than after it.
        let (name, mut probe) = folder.create()?;
        let written = probe.write_all(&[0; 64 * 1024]).and_then(|()| probe.sync_data());
        let _ = unlinkat(&folder.handle, &name, AtFlags::empty());
        written.map(|()| folder)
    }

    /// A folder that is there.
    ///
    /// # Errors
    /// When it is none.
    pub fn at(path: &Path) -> io::Result<Self> {
        Self::open(path, OFlags::empty())
    }

    fn open(path: &Path, how: OFlags) -> io::Result<Self> {
        let here = if path.as_os_str().is_empty() { Path::new(".") } else { path };
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC | how;
        Ok(Self { handle: openat(CWD, here, flags, Mode::empty())?, path: path.to_owned() })
    }

    /// Where it was found.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Writes a file in it under a temporary name (mode 0600) and moves it into place: readers see all of it or nothing, and a link that
    /// has its name is replaced.
    ///
    /// # Errors
    /// When the name is that of no file in this folder, or writing fails; then nothing is left of it.
    pub fn write(&self, name: &Path, fill: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> io::Result<()> {
        if name.file_name() != Some(name.as_os_str()) {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "it is no name of a file"));
        }
        let (temporary, file) = self.create()?;
        let mut buffered = io::BufWriter::new(file);
        let written = fill(&mut buffered)
            .and_then(|()| buffered.flush())
            .and_then(|()| Ok(renameat(&self.handle, &temporary, &self.handle, name)?));
        if written.is_err() {
            let _ = unlinkat(&self.handle, &temporary, AtFlags::empty());
        }
        written
    }

    /// A file under a name that nobody could foresee.
    fn create(&self) -> io::Result<(String, std::fs::File)> {
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        for _ in 0..TRIES {
            let name = format!(".rdiag-{:016x}", RandomState::new().build_hasher().finish());
            match openat(&self.handle, &name, flags, Mode::RUSR | Mode::WUSR) {
                Err(Errno::EXIST) => {}
                file => return Ok((name, file?.into())),
            }
        }
        Err(Errno::EXIST.into())
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
