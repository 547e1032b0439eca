//! Files that rdiag writes: private, atomic, and never through another user's link.

use std::io::{self, Write};
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::path::Path;

use rustix::fs::{CWD, FileType, Mode, OFlags, fstat, openat};

pub use super::folder::Folder;
pub use super::made::Made;

/// Creates the directory for a run's output, with mode 0700, and proves that files can be made in it ([`Folder::prepare`]).
pub fn prepare_directory(path: &Path) -> io::Result<()> {
    Folder::prepare(path).map(drop)
}

/// Writes a file under a temporary name (mode 0600) and moves it into place: readers see all of it or nothing.
pub fn write_atomically(path: &Path, fill: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> io::Result<()> {
    let name =
        path.file_name().ok_or_else(|| io::Error::new(io::ErrorKind::InvalidInput, "it is no name of a file"))?;
    Folder::at(path.parent().unwrap_or(Path::new("")))?.write(Path::new(name), fill)
}

/// Reads a file that the user named (a playbook, a recording), at most `limit` bytes.
pub fn read_named(path: &Path, limit: u64) -> io::Result<Vec<u8>> {
    read_open(&open_named(path)?, limit)
}

/// Reads what is open to its end, at most `limit` bytes.
pub fn read_open(file: &std::fs::File, limit: u64) -> io::Result<Vec<u8>> {
    use std::io::Read as _;
    let mut bytes = Vec::new();
    file.take(limit + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > limit {
        return Err(io::Error::new(io::ErrorKind::InvalidData, format!("it is larger than {limit} bytes")));
    }
    Ok(bytes)
}

/// Reads a file that decides what this program does, at most `limit` bytes; or says why it is not to be believed ([`distrust`]). What is
/// asked is what is read.
pub fn read_trusted(path: &Path, limit: u64) -> io::Result<Result<Vec<u8>, String>> {
    let found = openat(CWD, path, OFlags::PATH | OFlags::CLOEXEC, Mode::empty())?;
    match distrust_opened(&found)? {
        Some(why) => Ok(Err(why)),
        None => read_open(&open_found(&found)?, limit).map(Ok),
    }
}

/// Opens a file that the user named. What it is, is asked before it is opened, since that alone can do something to a device, and a FIFO
/// may never answer; the end of a pipe that the shell made (`/dev/stdin`, `<(…)`) will do.
pub fn open_named(path: &Path) -> io::Result<std::fs::File> {
    let found = openat(CWD, path, OFlags::PATH | OFlags::CLOEXEC, Mode::empty())?;
    open_found(&found)
}

/// Reads a file of a tree that stands in for the machine, at most `limit` bytes; no link leads out of the tree.
pub fn read_below(folder: &Path, name: &str, limit: u64) -> io::Result<Vec<u8>> {
    read_open(&open_found(&super::tree::open(folder, name, OFlags::PATH)?)?, limit)
}

fn open_found(found: &OwnedFd) -> io::Result<std::fs::File> {
    let wrong = |why: &str| Err(io::Error::new(io::ErrorKind::InvalidInput, why.to_owned()));
    let is_pipe = match FileType::from_raw_mode(fstat(found)?.st_mode) {
        FileType::RegularFile => false,
        FileType::Fifo if is_of_shell(found) => true,
        FileType::Fifo => {
            return wrong("it is a FIFO, which may never end; if it does, use `cat FIFO | rdiag … /dev/stdin`");
        }
        FileType::Directory => return wrong("it is a folder"),
        _ => return wrong("it is no regular file"),
    };
    let path = format!("/proc/self/fd/{}", found.as_raw_fd());
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    let file = openat(CWD, path, flags, Mode::empty())?;
    if is_pipe {
        // The writer may take a while.
        rustix::fs::fcntl_setfl(&file, OFlags::empty())?;
    }
    Ok(file.into())
}

/// Whether a FIFO has no name, so that it was made for this process or one before it.
fn is_of_shell(fifo: &OwnedFd) -> bool {
    const PIPEFS_MAGIC: u64 = 0x5049_5045;
    rustix::fs::fstatfs(fifo).is_ok_and(|told| u64::try_from(told.f_type) == Ok(PIPEFS_MAGIC))
}

/// Why a file or folder that decides what this program does is not to be believed: it is not this user's or root's, or others may write to
/// it. None if it is, or if it is not there. Of a link, what it leads to counts.
pub fn distrust(path: &Path) -> Option<String> {
    use std::os::unix::fs::MetadataExt as _;
    let found = path.metadata().ok()?;
    why_distrusted(found.uid(), found.mode())
}

/// The same of a name: of a link, it counts whose the link is. In a folder that is sticky (/tmp) users exchange only what is theirs.
#[must_use]
pub fn distrust_named(path: &Path) -> Option<String> {
    use std::os::unix::fs::MetadataExt as _;
    let found = path.symlink_metadata().ok()?;
    let mode = if found.is_symlink() || found.mode() & 0o1000 != 0 { 0 } else { found.mode() };
    why_distrusted(found.uid(), mode)
}

/// The same of what is open, which the owner of a folder on the way can exchange for nothing else.
pub(super) fn distrust_opened(opened: &OwnedFd) -> io::Result<Option<String>> {
    let found = fstat(opened)?;
    Ok(why_distrusted(found.st_uid, found.st_mode))
}

fn why_distrusted(user: u32, mode: u32) -> Option<String> {
    let own = rustix::process::geteuid().as_raw();
    // A user's own group often has no other members; root's files have no such excuse.
    let others = if own == 0 { 0o022 } else { 0o002 };
    if user != own && user != 0 {
        Some(format!("it belongs to user {user}"))
    } else if mode & others != 0 {
        Some("others may write to it".to_owned())
    } else {
        None
    }
}

/// Files with the given extension in a directory that the user keeps, sorted; none when there is no such directory.
#[expect(clippy::disallowed_methods, reason = "the user's own files are not part of the host's tree")]
pub fn list_named(directory: &Path, extension: &str) -> io::Result<Vec<std::path::PathBuf>> {
    let entries = match std::fs::read_dir(directory) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(error),
    };
    let mut paths: Vec<_> = entries.flatten().map(|entry| entry.path()).collect();
    paths.retain(|path| path.extension().is_some_and(|found| found == extension));
    paths.sort();
    Ok(paths)
}

/// The folders in a folder, sorted; links are none.
#[expect(clippy::disallowed_methods, reason = "the user's own files are not part of the host's tree")]
pub fn list_folders(directory: &Path) -> io::Result<Vec<std::path::PathBuf>> {
    let is_folder = |entry: &std::fs::DirEntry| entry.file_type().is_ok_and(|kind| kind.is_dir());
    let mut paths: Vec<_> =
        std::fs::read_dir(directory)?.flatten().filter(is_folder).map(|entry| entry.path()).collect();
    paths.sort();
    Ok(paths)
}

/// Creates a directory with mode 0700 that was not there before.
pub fn create_private_directory(path: &Path) -> io::Result<()> {
    use std::os::unix::fs::DirBuilderExt as _;
    std::fs::DirBuilder::new().mode(0o700).create(path)
}

/// Makes a symbolic link that was not there before.
pub fn link_to(target: &Path, link: &Path) -> io::Result<()> {
    std::os::unix::fs::symlink(target, link)
}

/// Removes a file of rdiag's own; that it is not there is as good.
pub fn remove_file(path: &Path) -> io::Result<()> {
    match std::fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

/// Removes a directory of rdiag's own with all that is in it, without following links; that it is not there is as good.
pub fn remove_directory(path: &Path) -> io::Result<()> {
    match std::fs::remove_dir_all(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

/// A lock that the whole of rdiag shares on a file, until it is dropped; none if another process holds it.
pub fn try_lock(path: &Path) -> io::Result<Option<std::fs::File>> {
    use std::os::unix::fs::OpenOptionsExt as _;
    let flags = rustix::fs::OFlags::NOFOLLOW.bits().cast_signed();
    let file = std::fs::OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(false)
        .mode(0o600)
        .custom_flags(flags)
        .open(path)?;
    match rustix::fs::flock(&file, rustix::fs::FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => Ok(Some(file)),
        Err(rustix::io::Errno::WOULDBLOCK) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// Bytes that this user may still write where `path` lies.
pub fn free_bytes(path: &Path) -> io::Result<u64> {
    let found = rustix::fs::statvfs(path)?;
    Ok(found.f_bavail.saturating_mul(found.f_frsize))
}

/// Part of the space of the file system that holds a folder that is used, 0 to 1.
pub fn used_share(path: &Path) -> io::Result<f64> {
    let told = rustix::fs::statvfs(path)?;
    Ok(1.0 - told.f_bfree as f64 / told.f_blocks.max(1) as f64)
}

/// The device that holds a file, as the kernel numbers it: major and minor.
pub fn device_of(path: &Path) -> io::Result<(u32, u32)> {
    use std::os::unix::fs::MetadataExt as _;
    let device = path.metadata()?.dev();
    Ok((rustix::fs::major(device), rustix::fs::minor(device)))
}

/// Whether files in a directory can be read past the page cache (O_DIRECT), found by trying.
#[must_use]
pub fn can_read_directly(directory: &Path) -> bool {
    use std::os::fd::AsRawFd as _;
    use std::os::unix::fs::OpenOptionsExt as _;
    // It has no name, so a kill leaves nothing.
    let Ok(file) = tempfile::tempfile_in(directory) else { return false };
    let direct = rustix::fs::OFlags::DIRECT.bits().cast_signed();
    let again = format!("/proc/self/fd/{}", file.as_raw_fd());
    std::fs::OpenOptions::new().read(true).custom_flags(direct).open(again).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_link_of_another_user_is_no_output_folder_with_a_slash_behind_it_either() {
        let folder = tempfile::tempdir().unwrap();
        let (target, link) = (folder.path().join("target"), folder.path().join("link"));
        std::fs::create_dir(&target).unwrap();
        std::os::unix::fs::symlink(&target, &link).unwrap();
        assert!(prepare_directory(&link).is_ok(), "an own link");
        if rustix::process::geteuid().is_root() {
            std::os::unix::fs::lchown(&link, Some(65534), None).unwrap();
            let slashed = std::path::PathBuf::from(format!("{}/", link.display()));
            for path in [link.join("new"), link, slashed] {
                assert_eq!(
                    prepare_directory(&path).unwrap_err().kind(),
                    io::ErrorKind::PermissionDenied,
                    "{}",
                    path.display()
                );
            }
        }
    }

    #[test]
    fn a_fifo_is_refused_and_a_pipe_is_read() {
        let folder = tempfile::tempdir().unwrap();
        let fifo = folder.path().join("fifo");
        rustix::fs::mknodat(CWD, &fifo, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
        for path in [&fifo, folder.path(), Path::new("/dev/null")] {
            assert_eq!(open_named(path).unwrap_err().kind(), io::ErrorKind::InvalidInput, "{}", path.display());
        }
        let (reader, mut writer) = io::pipe().unwrap();
        let path = format!("/proc/self/fd/{}", reader.as_raw_fd());
        let later = std::thread::spawn(move || read_named(Path::new(&path), 10).map_err(|error| error.to_string()));
        writer.write_all(b"text").unwrap();
        drop(writer);
        assert_eq!(later.join().unwrap(), Ok(b"text".to_vec()));
    }

    #[test]
    #[expect(clippy::disallowed_methods, reason = "the test makes the files")]
    fn what_others_own_or_may_write_to_is_distrusted() {
        use std::os::unix::fs::PermissionsExt as _;
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("x");
        assert_eq!(distrust(&file), None, "what is not there decides nothing");
        std::fs::write(&file, "").unwrap();
        let with = |mode| {
            std::fs::set_permissions(&file, std::fs::Permissions::from_mode(mode)).unwrap();
            distrust(&file)
        };
        assert_eq!(with(0o644), None);
        assert_eq!(with(0o646).as_deref(), Some("others may write to it"));
        if rustix::process::geteuid().is_root() {
            assert_eq!(with(0o664).as_deref(), Some("others may write to it"));
            std::os::unix::fs::chown(&file, Some(65534), None).unwrap();
            assert_eq!(with(0o600).as_deref(), Some("it belongs to user 65534"));
            assert_eq!(read_trusted(&file, 9).unwrap().unwrap_err(), "it belongs to user 65534");
            std::os::unix::fs::chown(&file, Some(0), None).unwrap();
        }
        assert_eq!((with(0o600), read_trusted(&file, 9).unwrap().unwrap()), (None, Vec::new()));
        with(0o666);
        assert_eq!(read_trusted(&file, 9).unwrap().unwrap_err(), "others may write to it");
    }
}
