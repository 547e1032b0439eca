//! Files that rdiag writes: private, atomic, and never through somebody else's link.

use std::io::{self, Write};
use std::path::Path;

use tempfile::NamedTempFile;

/// Creates the directory for a run's output, with mode 0700, and proves that files can be made in it.
/// A symbolic link in its place is refused unless it belongs to this user or to root.
pub fn prepare_directory(path: &Path) -> io::Result<()> {
    use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _};
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
