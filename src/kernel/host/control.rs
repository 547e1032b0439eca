//! Files by which the kernel takes orders, such as those of tracefs: written in one piece, never created.

use std::fs::{File, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::path::PathBuf;

use super::Host;

/// As much of such a file is read, in bytes.
const MAX_READ: u64 = 1 << 20;

/// A way to such files that outlives the host it came from, so that what was switched on can be switched off at any end.
#[derive(Debug, Clone)]
pub struct Control {
    root: PathBuf,
}

impl Host {
    /// The way to files that take orders; none on a recorded tree, which has no kernel.
    #[must_use]
    pub fn control(&self) -> Option<Control> {
        self.replay.is_none().then(|| Control { root: self.root.clone() })
    }
}

impl Control {
    /// Writes to a file, given as `sys/kernel/tracing/…`. It is one call of write(2), since the kernel takes each as an order
    /// of its own; what the file holds is not cut off before, since for some files that is an order too.
    pub fn write(&self, path: &str, text: &str) -> io::Result<()> {
        let mut file = OpenOptions::new().write(true).open(self.root.join(path))?;
        let written = file.write(text.as_bytes())?;
        if written < text.len() { Err(io::Error::from(io::ErrorKind::WriteZero)) } else { Ok(()) }
    }

    /// What such a file holds, where the host it came from is out of reach.
    pub fn read(&self, path: &str) -> io::Result<String> {
        let mut bytes = Vec::new();
        OpenOptions::new().read(true).open(self.root.join(path))?.take(MAX_READ).read_to_end(&mut bytes)?;
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    }

    /// Cuts off what a file holds, which for some is the only order to forget it.
    pub fn clear(&self, path: &str) -> io::Result<()> {
        OpenOptions::new().write(true).truncate(true).open(self.root.join(path)).map(drop)
    }

    /// Keeps other processes of rdiag from what a directory stands for, until this is dropped; waits for them.
    pub fn lock(&self, path: &str) -> io::Result<File> {
        let directory = OpenOptions::new().read(true).open(self.root.join(path))?;
        directory.lock()?;
        Ok(directory)
    }

    /// Creates a directory, which for the kernel may be an order too.
    pub fn make_directory(&self, path: &str) -> io::Result<()> {
        std::fs::create_dir(self.root.join(path))
    }

    /// Whether directories may be created in one, as far as its owner, mode and mount tell.
    pub fn may_make_in(&self, path: &str) -> io::Result<()> {
        let access = rustix::fs::Access::WRITE_OK | rustix::fs::Access::EXEC_OK;
        Ok(rustix::fs::access(self.root.join(path), access)?)
    }

    /// Removes a directory by rmdir(2), which fails if others made something in it.
    pub fn remove_directory(&self, path: &str) -> io::Result<()> {
        std::fs::remove_dir(self.root.join(path))
    }
}
