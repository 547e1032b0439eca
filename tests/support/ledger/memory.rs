//! Page faults, which need memory that the kernel fills in when it is touched.

#![expect(unsafe_code, reason = "mapped memory can only be read through pointers")]

use std::fs::File;
use std::os::fd::AsFd as _;

use rustix::mm::{Advice, MapFlags, ProtFlags};

use super::meter::Meter;

pub const PAGE: usize = 4096;

/// Reads one byte of each page of a file that is not in memory.
pub fn read_mapped(meter: &mut Meter, file: &File, bytes: usize, stop: &dyn Fn() -> bool) {
    let whole = std::num::NonZeroU64::new(bytes as u64);
    rustix::fs::fadvise(file, 0, whole, rustix::fs::Advice::DontNeed).unwrap();
    // SAFETY: a new mapping at a place that the kernel chooses; it is read only within its length, and unmapped at the end.
    unsafe {
        let start = rustix::mm::mmap(std::ptr::null_mut(), bytes, ProtFlags::READ, MapFlags::PRIVATE, file.as_fd(), 0);
        let start = start.unwrap();
        rustix::mm::madvise(start, bytes, Advice::Random).unwrap();
        for page in (0..bytes / PAGE).take_while(|_| !stop()) {
            meter.wait("fault.file", || std::ptr::read_volatile(start.cast::<u8>().add(page * PAGE)));
        }
        rustix::mm::munmap(start, bytes).unwrap();
    }
}

/// Touches fresh memory page by page: faults that wait for nothing.
pub fn touch_fresh(bytes: usize) {
    // SAFETY: as above; written only within its length.
    unsafe {
        let (protection, flags) = (ProtFlags::READ | ProtFlags::WRITE, MapFlags::PRIVATE);
        let start = rustix::mm::mmap_anonymous(std::ptr::null_mut(), bytes, protection, flags).unwrap();
        // Without huge pages, which would be one fault each.
        let _ = rustix::mm::madvise(start, bytes, Advice::LinuxNoHugepage);
        for page in 0..bytes / PAGE {
            std::ptr::write_volatile(start.cast::<u8>().add(page * PAGE), 1);
        }
        rustix::mm::munmap(start, bytes).unwrap();
    }
}
