//! Memory that a process of rdiag's own takes from the kernel by a call of its own, and gives back.
#![expect(unsafe_code, reason = "mmap(2), madvise(2), and writing to what was mapped")]

use std::ffi::c_void;
use std::io;
use std::ptr::NonNull;

use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap_anonymous, munmap};

/// The smallest pages of all processors that rdiag runs on.
const PAGE_BYTES: usize = 4096;

/// An anonymous private mapping.
#[derive(Debug)]
pub struct Pages {
    start: NonNull<u8>,
    bytes: usize,
}

impl Pages {
    /// Takes so many bytes, and asks for huge pages or for none. That the kernel knows no huge pages is no error.
    pub fn take(bytes: usize, huge: bool) -> io::Result<Self> {
        // SAFETY: the kernel chooses the place, so no memory of this process is replaced.
        let start = unsafe {
            mmap_anonymous(std::ptr::null_mut(), bytes, ProtFlags::READ | ProtFlags::WRITE, MapFlags::PRIVATE)?
        };
        let start = NonNull::new(start.cast::<u8>()).ok_or(io::ErrorKind::OutOfMemory)?;
        let advice = if huge { Advice::LinuxHugepage } else { Advice::LinuxNoHugepage };
        // SAFETY: the range is the one that was mapped above, and the advice does not change what it holds.
        let _ = unsafe { madvise(start.as_ptr().cast::<c_void>(), bytes, advice) };
        Ok(Self { start, bytes })
    }

    /// Writes a byte to each page of the first so many bytes.
    pub fn touch(&mut self, bytes: usize) {
        for at in (0..bytes.min(self.bytes)).step_by(PAGE_BYTES) {
            // SAFETY: the place lies within the mapping, which lives as long as `self`, and has no other user.
            unsafe { self.start.as_ptr().add(at).write_volatile(1) };
        }
    }

    /// The byte at a place; 0 beyond the end.
    #[must_use]
    pub fn look(&self, at: usize) -> u8 {
        if at >= self.bytes {
            return 0;
        }
        // SAFETY: the place lies within the mapping, which lives as long as `self`.
        unsafe { self.start.as_ptr().add(at).read_volatile() }
    }
}

impl Drop for Pages {
    fn drop(&mut self) {
        // SAFETY: the range is the one that mmap(2) returned, and nothing points into it any more.
        let _ = unsafe { munmap(self.start.as_ptr().cast::<c_void>(), self.bytes) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_taken_can_be_written_to_and_more_than_that_is_left_alone() {
        for huge in [false, true] {
            let mut pages = Pages::take(8 * PAGE_BYTES, huge).unwrap();
            pages.touch(1 << 30);
            assert_eq!([0, 1, 7 * PAGE_BYTES, 1 << 30].map(|at| pages.look(at)), [1, 0, 1, 0]);
        }
    }
}
