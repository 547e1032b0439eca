//! An output folder with those above it that were made for it: they are removed again if nothing came of them.

use std::ffi::OsString;
use std::io;
use std::os::fd::OwnedFd;
use std::path::{Component, Path};

use rustix::fs::{AtFlags, Mode, OFlags, mkdirat, openat, unlinkat};
use rustix::io::Errno;

use super::folder::Folder;

/// The folders that were made, each by its name in one that is held open, the innermost last. When it is dropped they go, as far as they
/// are empty; whatever their path leads to by then, nothing else goes.
#[derive(Debug, Default)]
pub struct Made(Vec<(OwnedFd, OsString)>);

impl Made {
    /// They stay, whatever is in them.
    pub fn keep(&mut self) {
        self.0.clear();
    }
}

impl Drop for Made {
    fn drop(&mut self) {
        // What has something in it stays, and so does what is above it.
        let remove = |(above, name): &(OwnedFd, OsString)| unlinkat(above, name, AtFlags::REMOVEDIR);
        let _ = self.0.iter().rev().try_for_each(remove);
    }
}

impl Folder {
    /// The same as [`Folder::prepare`], and what was made for it. What is made is made step by step in what is open, so that no user can
    /// lead it elsewhere by a link.
    ///
    /// # Errors
    /// As [`Folder::prepare`]; then nothing is left.
    pub fn prepare_anew(path: &Path) -> io::Result<(Self, Made)> {
        let path = path.components().as_path();
        Self::refuse_links_of_others(path)?;
        let is_there = |path: &&Path| path.as_os_str().is_empty() || path.symlink_metadata().is_ok();
        let above = path.ancestors().find(is_there).unwrap_or(Path::new(""));
        let mut made = Made::default();
        if above == path {
            return Ok((Self::prepare(path)?, made));
        }
        let mut folder = Self::open(above, OFlags::empty())?;
        let open = |above: &OwnedFd, name: &OsString, how: OFlags| {
            openat(above, name, OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC | how, Mode::empty())
        };
        for step in path.strip_prefix(above).unwrap_or(path).components() {
            let name = match step {
                Component::ParentDir => OsString::from(".."),
                step => step.as_os_str().to_owned(),
            };
            let within = match mkdirat(&folder.handle, &name, Mode::RWXU) {
                Ok(()) => {
                    made.0.push((
                        openat(&folder.handle, ".", OFlags::PATH | OFlags::CLOEXEC, Mode::empty())?,
                        name.clone(),
                    ));
                    open(&folder.handle, &name, OFlags::NOFOLLOW)?
                }
                Err(Errno::EXIST) => open(&folder.handle, &name, OFlags::NOFOLLOW)?,
                Err(error) => return Err(error.into()),
            };
            folder.handle = within;
        }
        folder.path = path.to_owned();
        folder.prove()?;
        Ok((folder, made))
    }
}

#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "the test's own files")]
mod tests {
    use super::*;

    #[test]
    fn what_takes_the_place_of_a_folder_that_was_made_does_not_go_with_it() {
        let place = tempfile::tempdir().unwrap();
        let (at, moved, other) = (place.path().join("a"), place.path().join("moved"), place.path().join("other"));
        std::fs::create_dir_all(other.join("b/c")).unwrap();
        let (folder, made) = Folder::prepare_anew(&at.join("b/c")).unwrap();
        assert_eq!(folder.path(), at.join("b/c"));
        std::fs::rename(&at, &moved).unwrap();
        std::os::unix::fs::symlink(&other, &at).unwrap();
        drop(made);
        assert!(other.join("b/c").exists(), "an empty folder of others behind a link");
        assert!(moved.exists() && !moved.join("b").exists(), "what was made went, up to what has another name now");
        assert!(at.is_symlink());
    }

    #[test]
    fn only_what_was_not_there_is_made_and_a_failure_leaves_nothing() {
        use std::os::unix::fs::PermissionsExt as _;
        let place = tempfile::tempdir().unwrap();
        std::fs::create_dir(place.path().join("old")).unwrap();
        let (folder, made) = Folder::prepare_anew(&place.path().join("old/new/../next/")).unwrap();
        let next = place.path().join("old/next");
        assert_eq!(next.metadata().unwrap().permissions().mode() & 0o777, 0o700);
        folder.write(Path::new("x"), |file| file.write_all(b"x")).unwrap();
        drop(made);
        assert!(next.join("x").exists());
        std::fs::write(place.path().join("file"), "").unwrap();
        assert!(Folder::prepare_anew(&place.path().join("file/new")).is_err());
        assert!(Folder::prepare_anew(&place.path().join(format!("one/{}", "x".repeat(300)))).is_err());
        assert!(!place.path().join("one").exists());
        let (_, mut made) = Folder::prepare_anew(&place.path().join("two/three")).unwrap();
        made.keep();
        drop(made);
        assert!(place.path().join("two/three").exists());
    }
}
