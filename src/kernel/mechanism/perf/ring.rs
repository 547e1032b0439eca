//! The ring buffer that the kernel shares with the sampler: mapped, emptied, unmapped.
#![expect(unsafe_code, reason = "the ring is memory that the kernel writes while we read")]

use std::os::fd::BorrowedFd;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering};

use perf_event_open_sys::bindings::perf_event_mmap_page;
use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};

/// A mapped ring.
#[derive(Debug)]
pub(super) struct Ring {
    base: NonNull<u8>,
    page: usize,
    /// Bytes of the ring itself; a power of two.
    size: usize,
}

// SAFETY: the mapping belongs to this value alone, and nothing in it depends on the thread.
unsafe impl Send for Ring {}

impl Ring {
    /// Maps the ring of an event, with so many pages of data (a power of two).
    pub(super) fn map(event: BorrowedFd<'_>, pages: usize) -> rustix::io::Result<Self> {
        let page = rustix::param::page_size();
        let size = page * pages.next_power_of_two();
        let protection = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: a new mapping at an address that the kernel chooses; nothing else is there.
        let base = unsafe { mmap(std::ptr::null_mut(), page + size, protection, MapFlags::SHARED, event, 0)? };
        let base = NonNull::new(base.cast::<u8>()).ok_or(rustix::io::Errno::INVAL)?;
        Ok(Self { base, page, size })
    }

    /// Takes over all that the kernel has written, whole records.
    pub(super) fn take(&mut self, into: &mut Vec<u8>) {
        into.clear();
        let control = self.base.cast::<perf_event_mmap_page>().as_ptr();
        // SAFETY: the first page of the mapping is such a struct for as long as this value lives; both fields are aligned
        // words that the kernel and we share.
        let (head, tail) = unsafe {
            (AtomicU64::from_ptr(&raw mut (*control).data_head), AtomicU64::from_ptr(&raw mut (*control).data_tail))
        };
        let end = head.load(Ordering::Acquire);
        let begin = tail.load(Ordering::Relaxed);
        // More than the ring holds would be a defect of the kernel; then only the latest is there.
        let length = usize::try_from(end.wrapping_sub(begin)).unwrap_or(self.size).min(self.size);
        let at = begin as usize & (self.size - 1);
        let first = length.min(self.size - at);
        // SAFETY: both pieces lie within the data pages, which follow the first page, and the kernel writes nothing between
        // tail and head before the tail is moved.
        unsafe {
            let data = self.base.as_ptr().add(self.page);
            into.extend_from_slice(std::slice::from_raw_parts(data.add(at), first));
            into.extend_from_slice(std::slice::from_raw_parts(data, length - first));
        }
        tail.store(end, Ordering::Release);
    }
}

impl Drop for Ring {
    fn drop(&mut self) {
        // SAFETY: the whole mapping that `map` made, which is no longer used.
        let _ = unsafe { munmap(self.base.as_ptr().cast(), self.page + self.size) };
    }
}
