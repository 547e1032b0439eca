//! Files of a tree that stands in for the machine (`--root DIR`). The tree and its links are not trusted: a link is
//! resolved within the tree, so that `/etc/shadow` means that of the tree.

use std::ffi::OsString;
use std::io;
use std::os::fd::{AsFd, AsRawFd as _, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStringExt as _;
use std::path::{Component, Path};

use rustix::fs::{CWD, FileType, Mode, OFlags, ResolveFlags, fstat, openat, openat2, readlinkat};
use rustix::io::Errno;

/// Links that are followed on the way to one file, as many as the kernel follows.
const MAX_LINKS: usize = 40;
/// How often a walk is tried again in which something was moved.
const TRIES: usize = 8;

/// Opens a file by its path below a folder, `/` being that folder.
pub(super) fn open(folder: &Path, path: &str, flags: OFlags) -> io::Result<OwnedFd> {
    Ok(open_in(root(folder)?.as_fd(), path, flags)?)
}

/// The folder itself, for many files.
pub(super) fn root(folder: &Path) -> Result<OwnedFd, Errno> {
    openat(CWD, folder, OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())
}

/// The same below a folder that is open.
pub(super) fn open_in(folder: BorrowedFd<'_>, path: &str, flags: OFlags) -> Result<OwnedFd, Errno> {
    let (path, flags) = (if path.is_empty() { "." } else { path }, flags | OFlags::CLOEXEC);
    for _ in 0..TRIES {
        match openat2(folder, path, flags, Mode::empty(), ResolveFlags::IN_ROOT) {
            Err(Errno::AGAIN) => {}
            // A filter forbids the call, or does not know it.
            Err(Errno::NOSYS | Errno::PERM) => return walk(folder, Path::new(path), flags),
            opened => return opened,
        }
    }
    Err(Errno::AGAIN)
}

/// As the kernel would do it: one step after the other, links by what is written in them.
fn walk(folder: BorrowedFd<'_>, path: &Path, flags: OFlags) -> Result<OwnedFd, Errno> {
    let step = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let mut way = vec![openat(folder, ".", step | OFlags::DIRECTORY, Mode::empty())?];
    let mut todo = Vec::new();
    let mut links = 0;
    add(&mut todo, path);
    while let Some(name) = todo.pop() {
        if name == ".." {
            way.truncate(way.len().saturating_sub(1).max(1));
            continue;
        }
        let next = openat(way.last().ok_or(Errno::NOENT)?, &name, step, Mode::empty())?;
        let is_link = FileType::from_raw_mode(fstat(&next)?.st_mode) == FileType::Symlink;
        if !is_link || (todo.is_empty() && flags.contains(OFlags::NOFOLLOW)) {
            way.push(next);
            continue;
        }
        links += 1;
        if links > MAX_LINKS {
            return Err(Errno::LOOP);
        }
        let target = OsString::from_vec(readlinkat(&next, "", Vec::new())?.into_bytes());
        let target = Path::new(&target);
        way.truncate(if target.is_absolute() { 1 } else { way.len() });
        add(&mut todo, target);
    }
    let found = way.pop().ok_or(Errno::NOENT)?;
    if flags.contains(OFlags::PATH) {
        return Ok(found);
    }
    openat(CWD, format!("/proc/self/fd/{}", found.as_raw_fd()), flags - OFlags::NOFOLLOW, Mode::empty())
}

/// Puts the parts of a path before what is still to be walked, the first one last.
fn add(todo: &mut Vec<OsString>, path: &Path) {
    todo.extend(path.components().rev().filter_map(|part| match part {
        Component::Normal(name) => Some(name.to_owned()),
        Component::ParentDir => Some("..".into()),
        _ => None,
    }));
}

/// Whether a folder is the kernel's own list of processes, whose links are the kernel's.
pub(super) fn is_procfs(folder: BorrowedFd<'_>) -> bool {
    const PROC_SUPER_MAGIC: u64 = 0x9fa0;
    rustix::fs::fstatfs(folder).is_ok_and(|told| u64::try_from(told.f_type) == Ok(PROC_SUPER_MAGIC))
}

/// The entries of an open folder, and which of them are folders.
pub(super) fn entries(folder: OwnedFd) -> io::Result<Vec<(String, bool)>> {
    let mut names = Vec::new();
    for entry in rustix::fs::Dir::new(folder)? {
        let entry = entry?;
        let name = entry.file_name().to_string_lossy();
        if name != "." && name != ".." {
            names.push((name.into_owned(), entry.file_type() == FileType::Directory));
        }
    }
    Ok(names)
}

#[cfg(test)]
mod tests {
    use std::io::Read as _;
    use std::os::unix::fs::symlink;

    use super::*;

    fn text(file: Result<OwnedFd, Errno>) -> Result<String, Errno> {
        let mut text = String::new();
        std::fs::File::from(file?).read_to_string(&mut text).map(|_| text).map_err(|_| Errno::IO)
    }

    #[test]
    #[expect(clippy::disallowed_methods, reason = "the test makes the tree")]
    fn links_are_followed_within_the_tree_with_openat2_and_without() {
        let outside = tempfile::tempdir().unwrap();
        let root = outside.path().join("tree");
        std::fs::create_dir_all(root.join("a/b")).unwrap();
        std::fs::write(outside.path().join("secret"), "secret").unwrap();
        std::fs::write(root.join("a/file"), "own").unwrap();
        let absolute = outside.path().join("secret");
        let links = [
            ("out", absolute.to_str().unwrap()),
            ("up", "../secret"),
            ("a/b/up", "../../../../secret"),
            ("a/b/in", "/a/file"),
            ("a/b/near", "../file"),
            ("folder", "/a"),
            ("round", "round"),
        ];
        for (link, target) in links {
            symlink(target, root.join(link)).unwrap();
        }
        let folder = openat(CWD, &root, OFlags::PATH | OFlags::CLOEXEC, Mode::empty()).unwrap();
        let (folder, read) = (folder.as_fd(), OFlags::RDONLY);
        for path in ["out", "up", "a/b/up", "../secret", "a/../../secret"] {
            assert_eq!(text(open_in(folder, path, read)), Err(Errno::NOENT), "{path}");
            assert_eq!(text(walk(folder, Path::new(path), read)), Err(Errno::NOENT), "{path}");
        }
        for path in ["a/file", "a/b/in", "a/b/near", "folder/file", "a/./b/../file", "folder/b/in"] {
            assert_eq!(text(open_in(folder, path, read)).as_deref(), Ok("own"), "{path}");
            assert_eq!(text(walk(folder, Path::new(path), read)).as_deref(), Ok("own"), "{path}");
        }
        assert_eq!(walk(folder, Path::new("round"), read).unwrap_err(), Errno::LOOP);
        let link = OFlags::PATH | OFlags::NOFOLLOW;
        for found in [open_in(folder, "out", link), walk(folder, Path::new("out"), link)] {
            assert_eq!(
                readlinkat(found.unwrap(), "", Vec::new()).unwrap().to_str(),
                absolute.to_str().map(Ok).unwrap()
            );
        }
    }
}
