//! Files that rdiag writes: private, atomic, and never through somebody else's link.

use std::io::{self, Write};
use std::path::Path;

use tempfile::NamedTempFile;

/// Creates the directory for a run's output, with mode 0700, and proves that files can be made in it.
/// A symbolic link in its place is refused unless it belongs to this user or to root.
pub fn prepare_directory(path: &Path) -> io::Result<()> {
    use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _};
    // With a slash behind it a link is what it leads to.
    let path = path.components().as_path();
    if let Ok(meta) = path.symlink_metadata() {
        let own = rustix::process::geteuid().as_raw();
        if meta.file_type().is_symlink() && meta.uid() != own && meta.uid() != 0 {
            return Err(io::Error::new(io::ErrorKind::PermissionDenied, "it is a link that belongs to another user"));
        }
    }
    std::fs::DirBuilder::new().recursive(true).mode(0o700).create(path)?;
    // A few kilobytes tell a full file system before the window starts rather than after it.
    let mut probe = NamedTempFile::new_in(path)?;
    probe.write_all(&[0; 64 * 1024])?;
    probe.as_file().sync_data()
}

/// Writes a file under a temporary name (mode 0600) and moves it into place: readers see all of it or nothing.
pub fn write_atomically(path: &Path, fill: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> io::Result<()> {
    let parent = path.parent().filter(|dir| !dir.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let mut file = NamedTempFile::new_in(parent)?;
    {
        let mut buffered = io::BufWriter::new(file.as_file_mut());
        fill(&mut buffered)?;
        buffered.flush()?;
    }
    file.persist(path).map_err(|error| error.error)?;
    Ok(())
}

/// Reads a file that the user named (a playbook, a recording), at most `limit` bytes.
#[expect(clippy::disallowed_methods, reason = "the user's own files are not part of the host's tree")]
pub fn read_named(path: &Path, limit: u64) -> io::Result<Vec<u8>> {
    use std::io::Read as _;
    let mut bytes = Vec::new();
    std::fs::File::open(path)?.take(limit + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > limit {
        return Err(io::Error::new(io::ErrorKind::InvalidData, format!("it is larger than {limit} bytes")));
    }
    Ok(bytes)
}

/// Reads a file that another user keeps, at most `limit` bytes. It must be a regular file of that user's that nobody else may write to; a link
/// in its place is not followed, and what would block (a FIFO) is not waited for. Folders on the way may be links: whatever they lead to
/// must be that user's own as well.
pub fn read_of_user(path: &Path, user: u32, limit: u64) -> io::Result<Vec<u8>> {
    use rustix::fs::OFlags;
    use std::io::Read as _;
    use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
    let flags = (OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY).bits().cast_signed();
    let file = std::fs::OpenOptions::new().read(true).custom_flags(flags).open(path)?;
    let found = file.metadata()?;
    if !found.is_file() || found.uid() != user || found.mode() & 0o022 != 0 {
        let why = format!("it is no file that only user {user} may write to");
        return Err(io::Error::new(io::ErrorKind::PermissionDenied, why));
    }
    let mut bytes = Vec::new();
    file.take(limit + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > limit {
        return Err(io::Error::new(io::ErrorKind::InvalidData, format!("it is larger than {limit} bytes")));
    }
    Ok(bytes)
}

/// Why a file or folder that decides what this program does is not to be believed: it is not this user's or root's, or others may write to
/// it. None if it is, or if it is not there. Of a link, what it leads to counts.
pub fn distrust(path: &Path) -> Option<String> {
    use std::os::unix::fs::MetadataExt as _;
    let found = path.metadata().ok()?;
    let (own, user) = (rustix::process::geteuid().as_raw(), found.uid());
    // A user's own group is often nobody else's; root's files have no such excuse.
    let others = if own == 0 { 0o022 } else { 0o002 };
    if user != own && user != 0 {
        Some(format!("it belongs to user {user}"))
    } else if found.mode() & others != 0 {
        Some("others may write to it".to_owned())
    } else {
        None
    }
}

/// Whose a file or folder is.
pub fn owner_of(path: &Path) -> io::Result<u32> {
    use std::os::unix::fs::MetadataExt as _;
    Ok(path.metadata()?.uid())
}

/// Opens a file that the user named, to be read piece by piece. What is no regular file is refused: it may have no end.
#[expect(clippy::disallowed_methods, reason = "the user's own files are not part of the host's tree")]
pub fn open_named(path: &Path) -> io::Result<std::fs::File> {
    if !path.metadata()?.is_file() {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "it is no regular file"));
    }
    std::fs::File::open(path)
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

/// Adds a line to a file that only this user may read, and has it on the disk before it returns.
pub fn append_line(path: &Path, line: &str) -> io::Result<()> {
    use std::os::unix::fs::OpenOptionsExt as _;
    let flags = rustix::fs::OFlags::NOFOLLOW.bits().cast_signed();
    let mut file = std::fs::OpenOptions::new().append(true).create(true).mode(0o600).custom_flags(flags).open(path)?;
    file.write_all(format!("{line}\n").as_bytes())?;
    file.sync_data()
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

/// A lock that the whole of rdiag shares on a file, until it is dropped; none if somebody else has it.
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
    use std::os::unix::fs::OpenOptionsExt as _;
    let Ok(file) = NamedTempFile::new_in(directory) else { return false };
    let direct = rustix::fs::OFlags::DIRECT.bits().cast_signed();
    std::fs::OpenOptions::new().read(true).custom_flags(direct).open(file.path()).is_ok()
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
            for path in [link, slashed] {
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
        }
    }
}
