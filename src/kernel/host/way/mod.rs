//! The way to a file of another user's, one step after the other.
//!
//! Each part of a path is found (`O_PATH`) in the folder before it, and the mount that it lies on is judged before anything is looked for
//! in it. So a file system that may never answer is not asked, whatever a user mounts or links meanwhile.

mod mounts;

use std::collections::VecDeque;
use std::ffi::{OsStr, OsString};
use std::io;
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::os::unix::ffi::OsStringExt as _;
use std::path::{Component, Path};

use rustix::fs::{AtFlags, FileType, Mode, OFlags, StatxFlags, open, openat, readlinkat, statx};

use super::Host;
use mounts::is_in_other_namespace;

pub(crate) use mounts::Mounts;

/// Links that one way may lead through, as in the kernel.
const MOST_LINKS: usize = 40;
/// Names of a folder that are read: no folder of libraries or programs has more.
const MOST_NAMES: usize = 65_536;
const FOUND: OFlags = OFlags::PATH.union(OFlags::CLOEXEC);

/// Whether links on the way are followed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Links {
    /// Within the tree, as its process would.
    Followed,
    Refused,
}

/// A tree of files: this process's own, or that of another one.
#[derive(Debug)]
pub(crate) struct Tree {
    root: OwnedFd,
    pid: Option<u32>,
    /// Whether its root may lie on a mount that is in no list, as a changed one (chroot) does: no user has made that.
    may_be_unlisted: bool,
}

impl Tree {
    /// That of this process.
    ///
    /// # Errors
    /// When it cannot be opened.
    pub(crate) fn own() -> io::Result<Self> {
        Ok(Self { root: open("/", FOUND | OFlags::DIRECTORY, Mode::empty())?, pid: None, may_be_unlisted: true })
    }

    /// That of another process, as it sees it (`/proc/PID/root`).
    ///
    /// # Errors
    /// When it has ended or may not be looked into, and when its root is on a file system that may never answer.
    pub(crate) fn of(host: &Host, pid: u32) -> io::Result<Self> {
        // All of it is asked of one process, though another one may get its number meanwhile.
        let process = open(host.locate(&format!("proc/{pid}")), FOUND | OFlags::DIRECTORY, Mode::empty())?;
        let root = openat(&process, "root", FOUND | OFlags::DIRECTORY, Mode::empty())?;
        let tree = Self { root, pid: Some(pid), may_be_unlisted: !is_in_other_namespace(&process) };
        tree.judge(&mount_id(&tree.root)?)?;
        Ok(tree)
    }

    /// Finds what a path leads to, without opening it.
    ///
    /// # Errors
    /// When it is not there, behind a link that is not followed, or on a file system that may never answer.
    pub(crate) fn find(&self, path: &Path, links: Links) -> io::Result<OwnedFd> {
        let mut way = vec![self.root.try_clone()?];
        let mut mount = mount_id(&self.root)?;
        let mut rest: VecDeque<OsString> = parts(path).collect();
        let mut followed = 0;
        while let Some(part) = rest.pop_front() {
            if part == ".." {
                // The root is its own parent.
                way.truncate((way.len() - 1).max(1));
                continue;
            }
            let Some(folder) = way.last() else { break };
            let next = openat(folder, &part, FOUND | OFlags::NOFOLLOW, Mode::empty())?;
            let on = mount_id(&next)?;
            if on != mount {
                self.judge(&on)?;
                mount.clone_from(&on);
            }
            let how = AtFlags::EMPTY_PATH | AtFlags::STATX_DONT_SYNC;
            let mode = statx(&next, "", how, StatxFlags::TYPE)?.stx_mode;
            if FileType::from_raw_mode(mode.into()) != FileType::Symlink {
                way.push(next);
                continue;
            }
            followed += 1;
            if links == Links::Refused {
                return Err(io::Error::other("its path leads through a symbolic link"));
            }
            if followed > MOST_LINKS {
                return Err(io::Error::other("its path leads through too many links"));
            }
            // The kernel's own links (/proc/PID/exe) lead to the file itself, whatever its path says by now.
            if Mounts::own().is_some_and(|mounts| mounts.is_proc(&on)) {
                let next = openat(folder, &part, FOUND, Mode::empty())?;
                mount = mount_id(&next)?;
                self.judge(&mount)?;
                way.push(next);
                continue;
            }
            let target = OsString::from_vec(readlinkat(&next, "", Vec::new())?.into_bytes());
            if Path::new(&target).is_absolute() {
                way.truncate(1);
            }
            for part in parts(Path::new(&target)).collect::<Vec<_>>().into_iter().rev() {
                rest.push_front(part);
            }
        }
        way.pop().ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    /// Names in a folder, sorted; none where there is no such folder, or none that may be read.
    pub(crate) fn list(&self, folder: &str) -> Vec<String> {
        let Ok(found) = self.find(Path::new(folder), Links::Followed) else { return Vec::new() };
        #[expect(clippy::disallowed_methods, reason = "a folder that was found and judged")]
        let entries = std::fs::read_dir(format!("/proc/self/fd/{}", found.as_raw_fd()));
        let entries = entries.into_iter().flatten().flatten().take(MOST_NAMES);
        let names = entries.filter_map(|entry| entry.file_name().into_string().ok());
        let mut names: Vec<String> = names.collect();
        names.sort_unstable();
        names
    }

    /// Whether a path leads to a regular file.
    pub(crate) fn is_file(&self, path: &str) -> bool {
        let how = AtFlags::EMPTY_PATH | AtFlags::STATX_DONT_SYNC;
        let found = self.find(Path::new(path), Links::Followed).ok();
        let stat = found.and_then(|found| statx(&found, "", how, StatxFlags::TYPE).ok());
        stat.is_some_and(|stat| FileType::from_raw_mode(stat.stx_mode.into()) == FileType::RegularFile)
    }

    /// Whether what was found lies on proc, as this process or the tree's own sees its mounts.
    pub(crate) fn is_on_proc(&self, found: &OwnedFd) -> io::Result<bool> {
        let id = mount_id(found)?;
        let is_proc = |mounts: Option<Mounts>| mounts.is_some_and(|mounts| mounts.is_proc(&id));
        Ok(is_proc(Mounts::own()) || is_proc(self.pid.and_then(Mounts::of)))
    }

    /// Whether a user may have mounted something in it: any file that there is a path to, also one that they may not read.
    pub(crate) fn is_of_user(&self) -> bool {
        !self.may_be_unlisted
    }

    /// Whether a mount may be asked. The list is read anew: what is held open cannot have another number meanwhile.
    fn judge(&self, mount: &str) -> io::Result<()> {
        if let Some(judged) = Mounts::own().and_then(|mounts| mounts.by_id(mount)) {
            return judged;
        }
        if let Some(judged) = self.pid.and_then(Mounts::of).and_then(|mounts| mounts.by_id(mount)) {
            return judged;
        }
        // The kernel's own links lead into namespaces of users, whose mounts are in neither list.
        if self.may_be_unlisted && mount_id(&self.root)? == mount {
            return Ok(());
        }
        Err(io::Error::other(
            "it is on a mount that neither this process nor the program's sees, and which could stall its readers",
        ))
    }
}

/// Whether something is there, and no file system on the way to it is served by a daemon that may never answer.
#[must_use]
pub fn may_be_asked(path: &Path) -> bool {
    Tree::own().and_then(|tree| tree.find(path, Links::Followed)).is_ok()
}

/// The names on a path; what is above it leads nowhere.
fn parts(path: &Path) -> impl Iterator<Item = OsString> + '_ {
    path.components().filter_map(|part| match part {
        Component::Normal(name) => Some(name.to_owned()),
        Component::ParentDir => Some(OsStr::new("..").to_owned()),
        _ => None,
    })
}

/// The number of the mount that something was found through.
#[expect(clippy::disallowed_methods, reason = "the file is the kernel's, about this process")]
pub(crate) fn mount_id(found: &OwnedFd) -> io::Result<String> {
    let info = std::fs::read_to_string(format!("/proc/self/fdinfo/{}", found.as_raw_fd()))?;
    Ok(rdiag_proc::field(&info, "mnt_id:").ok_or(io::ErrorKind::InvalidData)?.to_owned())
}

#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "the test's own files")]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    /// A tree below a folder of the test's.
    fn tree(folder: &Path) -> Tree {
        Tree { root: open(folder, FOUND | OFlags::DIRECTORY, Mode::empty()).unwrap(), pid: None, may_be_unlisted: true }
    }

    fn same(found: &OwnedFd, file: &Path) -> bool {
        use std::os::unix::fs::MetadataExt as _;
        let how = AtFlags::EMPTY_PATH;
        statx(found, "", how, StatxFlags::BASIC_STATS).unwrap().stx_ino == file.metadata().unwrap().ino()
    }

    #[test]
    fn links_are_followed_within_the_tree_and_none_where_they_are_refused() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        std::fs::create_dir_all(at("usr/lib")).unwrap();
        std::fs::write(at("usr/lib/libc.so.6"), "c").unwrap();
        for (target, link) in [
            ("usr/lib", "lib"),
            ("/usr/lib/libc.so.6", "usr/lib/absolute"),
            ("../../../../usr/lib/libc.so.6", "usr/lib/upwards"),
            ("/etc/passwd", "usr/lib/outside"),
            ("round", "round"),
        ] {
            symlink(target, at(link)).unwrap();
        }
        let tree = tree(folder.path());
        for path in ["usr/lib/libc.so.6", "/lib/libc.so.6", "lib/absolute", "lib/upwards", "../lib/../lib/./libc.so.6"]
        {
            assert!(same(&tree.find(Path::new(path), Links::Followed).unwrap(), &at("usr/lib/libc.so.6")), "{path}");
            assert!(tree.is_file(path), "{path}");
        }
        for path in ["lib/outside", "round", "lib/nothing", "usr/lib/libc.so.6/more"] {
            assert!(tree.find(Path::new(path), Links::Followed).is_err() && !tree.is_file(path), "{path}");
        }
        let refused = |path: &str| tree.find(Path::new(path), Links::Refused);
        assert!(refused("usr/lib/libc.so.6").is_ok());
        for path in ["lib/libc.so.6", "usr/lib/absolute"] {
            assert_eq!(refused(path).unwrap_err().to_string(), "its path leads through a symbolic link", "{path}");
        }
        assert_eq!(tree.list("lib"), ["absolute", "libc.so.6", "outside", "upwards"]);
        assert!(tree.list("nothing").is_empty() && !tree.is_file("usr"));
    }

    #[test]
    fn the_tree_of_this_process_is_found_by_its_number_too() {
        let tree = Tree::of(&Host::live(Path::new("/")), std::process::id()).unwrap();
        assert!(tree.is_file("etc/passwd") && Tree::own().unwrap().is_file("/etc/passwd"));
        assert!(tree.is_file("/proc/self/exe"), "a link of the kernel's");
    }

    #[test]
    fn a_mount_that_is_in_no_list_may_be_asked_as_the_root_of_no_user_alone() {
        use rustix::fs::{MemfdFlags, memfd_create};
        // The kernel keeps such files on a mount that no process sees.
        let unlisted = memfd_create("unlisted", MemfdFlags::CLOEXEC).unwrap();
        let id = mount_id(&unlisted).unwrap();
        let path = format!("/proc/self/fd/{}", unlisted.as_raw_fd());
        for pid in [None, Some(std::process::id())] {
            let tree = |root, may_be_unlisted| Tree { root, pid, may_be_unlisted };
            let own = || open("/", FOUND | OFlags::DIRECTORY, Mode::empty()).unwrap();
            let why = tree(own(), true).find(Path::new(&path), Links::Followed).unwrap_err().to_string();
            assert!(why.contains("neither this process nor the program's sees"), "{why}");
            let root = || unlisted.try_clone().unwrap();
            assert!(tree(root(), true).judge(&id).is_ok(), "a changed root");
            assert!(tree(root(), false).judge(&id).is_err(), "a user's");
            assert!(tree(own(), true).judge(&id).is_err(), "another mount");
        }
    }
}
