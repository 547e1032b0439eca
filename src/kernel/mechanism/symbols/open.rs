//! Opening what a process has mapped, or what a profile names, without being led elsewhere.
//!
//! Paths and files belong to the user who runs the process. So a file is found without being opened (`O_PATH`), through no symbolic link;
//! what it is, is asked of the kernel alone; and only a regular file is opened then. A file that a FUSE daemon serves is not (see
//! [`crate::host::way`]), nor is one looked for there.

use std::io;
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::path::Path;

use rustix::fs::{AtFlags, FileType, Mode, OFlags, Statx, StatxFlags, open, statx};

use crate::host::way::{Links, Mounts, Tree, mount_id};

/// What tells a file in one state from every other.
#[derive(Debug, Default, Clone, PartialEq, Eq, Hash)]
pub(super) struct Identity {
    device: (u32, u32),
    inode: u64,
    size: u64,
    /// Seconds and nanoseconds of its last change.
    changed: (i64, u32),
}

/// A file that was found, and not opened yet.
#[derive(Debug)]
pub(super) struct Found {
    pub(super) identity: Identity,
    /// Who owns it.
    pub(super) owner: u32,
    handle: OwnedFd,
}

/// Finds what a process has mapped, by the kernel's link to it (`/proc/PID/map_files`).
///
/// # Errors
/// When it is not there, or no regular file.
pub(super) fn find_mapped(link: &Path) -> io::Result<Found> {
    found(open(link, OFlags::PATH | OFlags::CLOEXEC, Mode::empty())?)
}

/// Finds a file by its path, through no link; `device` is where it should lie, if that is known.
///
/// # Errors
/// When it is not there, no regular file, behind a link, or on a file system that may never answer.
pub(super) fn find_named(device: Option<(u32, u32)>, path: &Path) -> io::Result<Found> {
    device.and_then(|device| Mounts::own()?.by_device(device)).transpose()?;
    let tree = Tree::own()?;
    found_in(&tree, tree.find(path, Links::Refused)?)
}

/// Finds a file by its path in the tree of a process, that of its container, through no link.
///
/// # Errors
/// As [`find_named`].
pub(super) fn find_below(tree: &Tree, path: &str) -> io::Result<Found> {
    found_in(tree, tree.find(Path::new(path), Links::Refused)?)
}

impl Tree {
    /// Opens what a path leads to, links followed, if it is a regular file on a file system that answers.
    ///
    /// # Errors
    /// When it is something else, or may not be read.
    pub(in crate::mechanism) fn open(&self, path: &str) -> io::Result<std::fs::File> {
        Ok(found_in(self, self.find(Path::new(path), Links::Followed)?)?.reopen()?.into())
    }
}

/// None of proc, wherever a user has mounted it or one file of it: they are called regular, but to read one may take from others what it
/// says (/proc/kmsg).
fn found_in(tree: &Tree, handle: OwnedFd) -> io::Result<Found> {
    if tree.is_on_proc(&handle)? {
        return Err(io::Error::other("it is on proc, where no program or library lies"));
    }
    found(handle)
}

fn found(handle: OwnedFd) -> io::Result<Found> {
    // What the kernel has cached of it will do: no server is asked.
    let wanted = StatxFlags::BASIC_STATS;
    let stat = statx(&handle, "", AtFlags::EMPTY_PATH | AtFlags::STATX_DONT_SYNC, wanted)?;
    if FileType::from_raw_mode(stat.stx_mode.into()) != FileType::RegularFile {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "it is no regular file"));
    }
    Ok(Found { identity: identity(&stat), owner: stat.stx_uid, handle })
}

fn identity(stat: &Statx) -> Identity {
    Identity {
        device: (stat.stx_dev_major, stat.stx_dev_minor),
        inode: stat.stx_ino,
        size: stat.stx_size,
        changed: (stat.stx_ctime.tv_sec, stat.stx_ctime.tv_nsec),
    }
}

#[cfg(test)]
impl Identity {
    /// That of a file that only a test knows.
    pub(super) fn numbered(inode: u64) -> Self {
        Self { inode, ..Self::default() }
    }
}

impl Found {
    /// Opens it for reading, unless its file system may never answer. `pid` is a process that sees its mount.
    ///
    /// # Errors
    /// When it may not be read, or is served by a FUSE daemon.
    pub(super) fn open(&self, pid: Option<u32>) -> io::Result<OwnedFd> {
        self.mount(pid).ok_or_else(|| io::Error::other("its file system is mounted no more"))??;
        self.reopen()
    }

    fn reopen(&self) -> io::Result<OwnedFd> {
        let path = format!("/proc/self/fd/{}", self.handle.as_raw_fd());
        // A lease or a lock of another process is not waited for.
        Ok(open(path, OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC, Mode::empty())?)
    }

    /// Whether the mount that it was found through may stall a reader; none if neither this process nor that one sees it.
    fn mount(&self, pid: Option<u32>) -> Option<io::Result<()>> {
        let id = mount_id(&self.handle).ok()?;
        let own = Mounts::own().and_then(|mounts| mounts.by_id(&id));
        own.or_else(|| Mounts::of(pid?)?.by_id(&id))
    }
}

#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "the test's own files")]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;
    use crate::host::Host;

    #[test]
    fn no_file_of_proc_is_opened_whatever_leads_to_it() {
        let folder = tempfile::tempdir().unwrap();
        let (link, file) = (folder.path().join("link"), folder.path().join("file"));
        symlink("/proc/version", &link).unwrap();
        std::fs::write(&file, "").unwrap();
        let of_this_process = Tree::of(&Host::live(Path::new("/")), std::process::id()).unwrap();
        for tree in [Tree::own().unwrap(), of_this_process] {
            for path in ["/proc/version", link.to_str().unwrap()] {
                let told = tree.open(path).unwrap_err().to_string();
                assert_eq!(told, "it is on proc, where no program or library lies", "{path}");
            }
            assert!(tree.open(file.to_str().unwrap()).is_ok());
            assert!(tree.open("/proc/self/exe").is_ok(), "it lies elsewhere");
        }
    }
}
