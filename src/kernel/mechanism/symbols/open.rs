//! Opening what a process has mapped, or what a profile names, without being led elsewhere.
//!
//! Paths and files belong to the user who runs the process. So a file is found without being opened (`O_PATH`), through no symbolic link; what
//! it is, is asked of the kernel alone; and only a regular file is opened then. A file that a FUSE daemon serves is not (see [`super::mounts`]).

use std::ffi::OsStr;
use std::io;
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::path::Path;

use rustix::fs::{AtFlags, CWD, FileType, Mode, OFlags, ResolveFlags, Statx, StatxFlags, open, openat, openat2, statx};
use rustix::io::Errno;

use super::mounts::Mounts;

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

/// How a file is reached.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum By {
    /// By its path, on which no link is followed: the kernel's own paths have none.
    Path,
    /// By the kernel's link to what a process has mapped (`/proc/PID/map_files`).
    Mapping,
}

/// Finds a file.
///
/// # Errors
/// When it is not there, no regular file, or behind a link.
pub(super) fn find(path: &Path, by: By) -> io::Result<Found> {
    let flags = OFlags::PATH | OFlags::CLOEXEC;
    let handle = match by {
        By::Mapping => open(path, flags, Mode::empty())?,
        By::Path => match openat2(CWD, path, flags, Mode::empty(), ResolveFlags::NO_SYMLINKS) {
            // Where a filter forbids the call, or does not know it, at least the last part of the path is no link.
            Err(Errno::NOSYS | Errno::PERM) => open(path, flags | OFlags::NOFOLLOW, Mode::empty())?,
            found => found.map_err(behind_a_link)?,
        },
    };
    found(handle)
}

/// In words that fit: a single link is not too many.
fn behind_a_link(error: Errno) -> io::Error {
    if error == Errno::LOOP { io::Error::other("its path leads through a symbolic link") } else { error.into() }
}

/// Finds a file by its path, if the walk to it asks no file system that may never answer; `device` is where it should lie, if that is known.
///
/// # Errors
/// As [`find`], and when a FUSE daemon serves a part of the path.
pub(super) fn find_named(device: Option<(u32, u32)>, path: &Path) -> io::Result<Found> {
    if let Some(mounts) = Mounts::own() {
        device.and_then(|device| mounts.by_device(device)).transpose()?;
        mounts.walk(path)?;
    }
    find(path, By::Path)
}

/// Whether a walk along a path, as a process sees it, asks no file system that may never answer.
pub(in crate::mechanism) fn may_walk(pid: u32, path: &str) -> bool {
    Mounts::of(pid).is_some_and(|mounts| mounts.walk(Path::new(path)).is_ok())
}

/// Finds a file by its path below the root of a process: the tree of a container. `root` is /proc/PID/root.
///
/// # Errors
/// When it is not there, no regular file, behind a link, or on a file system that may never answer.
pub(super) fn find_below(pid: u32, root: &Path, path: &str) -> io::Result<Found> {
    Mounts::of(pid).ok_or(io::ErrorKind::NotFound)?.walk(Path::new(path))?;
    below(root, path)
}

fn below(folder: &Path, path: &str) -> io::Result<Found> {
    let (folder, path) =
        (open(folder, OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?, Path::new(path));
    let flags = OFlags::PATH | OFlags::CLOEXEC;
    let resolve = ResolveFlags::NO_SYMLINKS | ResolveFlags::IN_ROOT;
    match openat2(&folder, path, flags, Mode::empty(), resolve) {
        Err(Errno::NOSYS | Errno::PERM) => {}
        handle => return found(handle?),
    }
    // One step after the other, so that no part is a link.
    let step = |folder: OwnedFd, name: &OsStr| openat(&folder, name, flags | OFlags::NOFOLLOW, Mode::empty());
    found(path.iter().try_fold(folder, step)?)
}

/// Opens what a path leads to, links followed, if it is a regular file that no FUSE daemon serves. `pid` is a process that sees its mount.
///
/// # Errors
/// When it is something else, or may not be read.
pub(in crate::mechanism) fn open_linked(path: &Path, pid: Option<u32>) -> io::Result<std::fs::File> {
    let found = found(open(path, OFlags::PATH | OFlags::CLOEXEC, Mode::empty())?)?;
    // In a changed root the mount may be in no list.
    found.mount(pid).transpose()?;
    Ok(found.reopen()?.into())
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
    #[expect(clippy::disallowed_methods, reason = "this thread has no host, and these files are the kernel's")]
    fn mount(&self, pid: Option<u32>) -> Option<io::Result<()>> {
        let info = std::fs::read_to_string(format!("/proc/self/fdinfo/{}", self.handle.as_raw_fd())).ok()?;
        let id = info.lines().find_map(|line| line.strip_prefix("mnt_id:"))?.trim().to_owned();
        let own = Mounts::own().and_then(|mounts| mounts.by_id(&id));
        own.or_else(|| Mounts::of(pid?)?.by_id(&id))
    }
}
