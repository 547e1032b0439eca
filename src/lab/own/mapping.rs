//! A file in the memory of a process of rdiag's own.
#![expect(unsafe_code, reason = "mmap(2), and copying between two mappings")]

use std::ffi::c_void;
use std::fs::File;
use std::io;
use std::ptr::NonNull;

use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};

/// A shared mapping of the first bytes of a file.
#[derive(Debug)]
pub struct Mapping {
    start: NonNull<u8>,
    bytes: usize,
    writable: bool,
}

impl Mapping {
    /// Maps so many bytes, of which there must be as many as long as the mapping lives: reading beyond the end of a file ends the process.
    pub fn of(file: &File, bytes: usize, writable: bool) -> io::Result<Self> {
        let access = if writable { ProtFlags::READ | ProtFlags::WRITE } else { ProtFlags::READ };
        // SAFETY: the kernel chooses the place, so no memory of this process is replaced.
        let start = unsafe { mmap(std::ptr::null_mut(), bytes, access, MapFlags::SHARED, file, 0)? };
        let start = NonNull::new(start.cast::<u8>()).ok_or(io::ErrorKind::OutOfMemory)?;
        Ok(Self { start, bytes, writable })
    }

    /// Copies up to `count` bytes from the same place of another mapping; what lies beyond the end of either, or may not be written, is
    /// left.
    pub fn copy_from(&self, from: &Self, at: usize, count: usize) {
        let count = count.min(self.bytes.saturating_sub(at)).min(from.bytes.saturating_sub(at));
        if count == 0 || !self.writable {
            return;
        }
        // SAFETY: both ranges lie within their mappings, which live as long as `self` and `from`; two mappings do not overlap; that another
        // process may write to the file meanwhile changes bytes and nothing else, since they are never looked at here.
        unsafe { std::ptr::copy_nonoverlapping(from.start.as_ptr().add(at), self.start.as_ptr().add(at), count) };
    }

    /// The byte at a place; 0 beyond the end.
    #[must_use]
    pub fn look(&self, at: usize) -> u8 {
        if at >= self.bytes {
            return 0;
        }
        // SAFETY: the place lies within the mapping, which lives as long as `self`; a writer of the file changes a byte and nothing else.
        unsafe { self.start.as_ptr().add(at).read_volatile() }
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: the range is the one that mmap(2) returned, and nothing points into it any more.
        let _ = unsafe { munmap(self.start.as_ptr().cast::<c_void>(), self.bytes) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_copied_within_both_mappings_and_nowhere_else() {
        let file = |text: &[u8]| {
            let mut file = tempfile::tempfile().unwrap();
            io::Write::write_all(&mut file, text).unwrap();
            file
        };
        let (from, to) = (file(b"abcdef"), file(b"......"));
        let (source, target) = (Mapping::of(&from, 6, false).unwrap(), Mapping::of(&to, 6, true).unwrap());
        assert_eq!([0, 5, 6].map(|at| source.look(at)), [b'a', b'f', 0]);
        target.copy_from(&source, 4, 100);
        target.copy_from(&source, 100, 1);
        source.copy_from(&target, 0, 6);
        drop((source, target));
        let mut text = [0; 6];
        std::os::unix::fs::FileExt::read_exact_at(&to, &mut text, 0).unwrap();
        assert_eq!(&text, b"....ef");
    }
}
