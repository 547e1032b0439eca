//! A host of which only the text of some files is known, such as lines of the kernel log that another program kept: the collectors that
//! read these files on a live host read them here. Each is a file in memory, so that a process that can open none by its path has them as
//! well.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Seek as _, Write as _};

use rustix::fs::{MemfdFlags, memfd_create};
use rustix::io::Errno;

use crate::host::source::SourceError;

/// The texts of each file, by instant.
#[derive(Debug)]
pub(super) struct Held(BTreeMap<String, Vec<Vec<u8>>>);

impl Held {
    pub(super) fn new(files: BTreeMap<String, Vec<Vec<u8>>>) -> Self {
        Self(files)
    }

    /// How many instants there are.
    pub(super) fn instants(&self) -> usize {
        self.0.values().map(Vec::len).max().unwrap_or(0)
    }

    /// The file at an instant; the last text holds from then on.
    pub(super) fn open(&self, path: &str, instant: usize) -> Result<File, SourceError> {
        let texts = self.0.get(path.trim_start_matches('/'));
        let text = texts.and_then(|texts| texts.get(instant).or(texts.last()));
        let opened = text.map_or_else(|| Err(Errno::NOENT.into()), |text| in_memory(text));
        opened.map_err(|error| SourceError::io(path, &error))
    }
}

fn in_memory(text: &[u8]) -> io::Result<File> {
    let mut file = File::from(memfd_create("text", MemfdFlags::CLOEXEC)?);
    file.write_all(text)?;
    file.rewind()?;
    Ok(file)
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicBool;

    use super::super::Host;
    use super::*;
    use rdiag_model::Reason;

    #[test]
    fn texts_are_read_instant_by_instant_and_no_other_file_is_there() {
        let texts = vec![b"one\n".to_vec(), b"two\n".to_vec()];
        let host = Host::of_texts(BTreeMap::from([("dev/kmsg".to_owned(), texts)]));
        let never = AtomicBool::new(false);
        assert_eq!(host.recorded_instants(), Some(2));
        assert_eq!(host.read("dev/kmsg").as_deref(), Ok("one\n"));
        assert!(host.wait(0.0, 1, &never));
        assert_eq!(host.read_line("/dev/kmsg").as_deref(), Ok("two"));
        // The last one holds, and is read from its beginning each time.
        assert!(host.wait(0.0, 7, &never));
        assert_eq!(host.read_line("dev/kmsg").as_deref(), Ok("two"));
        for path in ["dev/null", "proc/stat", "etc/passwd", "../etc/passwd", ""] {
            assert_eq!(host.read(path).unwrap_err().reason, Reason::Absent, "{path}");
            assert!(!host.exists(path) && host.list(path).is_err() && host.link(path).is_err(), "{path}");
        }
    }
}
