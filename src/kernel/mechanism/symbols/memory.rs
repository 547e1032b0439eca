//! Memory of processes, which their users fill as they like.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt as _;

/// That of one process.
#[derive(Debug)]
pub(super) struct Memory(File);

impl Memory {
    /// # Errors
    /// When the process has none, or it may not be looked at.
    #[expect(clippy::disallowed_methods, reason = "only a live process has memory, and no copy of /proc")]
    pub(super) fn open(pid: u32) -> io::Result<Self> {
        File::open(format!("/proc/{pid}/mem")).map(Self)
    }

    /// As much as is there from an address on, up to so many bytes.
    pub(super) fn read(&self, from: u64, most: usize) -> Vec<u8> {
        let mut bytes = vec![0; most];
        let mut read = 0;
        while let Some(rest) = bytes.get_mut(read..).filter(|rest| !rest.is_empty()) {
            let Some(at) = from.checked_add(read as u64) else { break };
            match self.0.read_at(rest, at) {
                Ok(0) | Err(_) => break,
                Ok(more) => read += more,
            }
        }
        bytes.truncate(read);
        bytes
    }

    /// The word at an address.
    pub(super) fn word(&self, at: u64) -> Option<u64> {
        let mut bytes = [0; 8];
        self.0.read_exact_at(&mut bytes, at).ok()?;
        Some(u64::from_ne_bytes(bytes))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn as_much_is_read_as_is_there() {
        let own = [7_u8; 100];
        let (at, memory) = (own.as_ptr() as u64, Memory::open(std::process::id()).unwrap());
        assert_eq!(memory.read(at, 100), own);
        assert_eq!(memory.word(at), Some(0x0707_0707_0707_0707));
        for nowhere in [8, u64::MAX - 8, u64::MAX] {
            assert_eq!((memory.read(nowhere, 100).len(), memory.word(nowhere)), (0, None));
        }
        assert!(Memory::open(u32::MAX).is_err());
    }
}
