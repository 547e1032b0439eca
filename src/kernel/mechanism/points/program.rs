//! A program or library whose functions are looked at.
//!
//! It is opened once. What is read of it, and what the kernel is asked to stop in, are then the same file: its path belongs to the user who
//! runs the program, and may lead elsewhere by the time the kernel follows it, or lead elsewhere for rdiag than for the process that sees
//! it.

use std::fs::File;
use std::io;
use std::ops::Deref;
use std::os::fd::AsRawFd as _;
use std::os::unix::fs::FileExt as _;
use std::sync::Arc;

/// Bytes that are read at once.
const CHUNK: usize = 1 << 20;

/// A file that was found; as text, the path by which this process, and the kernel for it, reaches just that file.
#[derive(Debug, Clone)]
pub struct Program {
    path: String,
    place: String,
    /// None of one that nothing is read of.
    file: Option<Arc<File>>,
}

impl Program {
    /// One that was opened, found at a path.
    pub(super) fn opened(path: String, file: File) -> Self {
        Self { path, place: format!("/proc/self/fd/{}", file.as_raw_fd()), file: Some(Arc::new(file)) }
    }

    /// The path at which it was found, for people.
    #[must_use]
    pub fn path(&self) -> &str {
        &self.path
    }

    /// All of it, or somewhat more than `most` bytes.
    pub(super) fn bytes(&self, most: u64) -> io::Result<Vec<u8>> {
        let file = self.file.as_ref().ok_or(io::ErrorKind::NotFound)?;
        let mut bytes = Vec::new();
        loop {
            let at = bytes.len();
            bytes.resize(at + CHUNK, 0);
            let read = file.read_at(bytes.get_mut(at..).unwrap_or_default(), at as u64)?;
            bytes.truncate(at + read);
            if read == 0 || bytes.len() as u64 > most {
                return Ok(bytes);
            }
        }
    }
}

impl Deref for Program {
    type Target = str;

    fn deref(&self) -> &str {
        &self.place
    }
}

impl PartialEq for Program {
    fn eq(&self, other: &Self) -> bool {
        self.path == other.path
    }
}

impl Eq for Program {}

/// One that nothing is read of.
impl From<&str> for Program {
    fn from(path: &str) -> Self {
        Self { path: path.to_owned(), place: path.to_owned(), file: None }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[expect(clippy::disallowed_methods, reason = "the test's own files")]
    fn it_is_the_file_that_was_found_whatever_its_path_leads_to_by_now() {
        let folder = tempfile::tempdir().unwrap();
        let at = folder.path().join("postgres");
        std::fs::write(&at, "found").unwrap();
        let program = Program::opened(at.display().to_string(), File::open(&at).unwrap());
        std::fs::remove_file(&at).unwrap();
        std::os::unix::fs::symlink("/etc/passwd", &at).unwrap();
        assert_eq!(program.bytes(100).unwrap(), b"found");
        assert_eq!(program.bytes(100).unwrap(), b"found", "it is read from its beginning each time");
        assert_eq!(std::fs::read_to_string(&*program).unwrap(), "found", "as the kernel would follow it");
        assert_eq!(program.path(), at.display().to_string());
    }
}
