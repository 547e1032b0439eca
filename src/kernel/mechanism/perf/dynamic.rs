//! Events at places that the user has chosen: a tracepoint, a function of the kernel, a place in a program. Opening one tells whether the
//! kernel can stop there; once it is closed the kernel's code is what it was. Where a marked place (USDT) has a counter by which the
//! program knows whether it is traced, the event itself increments it.
#![expect(unsafe_code, reason = "perf_event_open(2) and its ioctls have no safe form")]

use std::ffi::CString;
use std::io;
use std::os::fd::{AsRawFd as _, BorrowedFd, FromRawFd as _, OwnedFd};

use perf_event_open_sys as perf;
use perf_event_open_sys::bindings as sys;

use crate::host::Host;

/// Where an event happens.
#[derive(Debug, Clone, Copy)]
pub enum Spot<'s> {
    /// At the tracepoint with this number.
    Tracepoint(u64),
    /// Where a function of the kernel begins.
    Kernel(&'s str),
    /// At an offset in a file.
    User {
        /// The file, as rdiag opens it.
        path: &'s str,
        /// The offset of the instruction.
        offset: u64,
        /// The offset of a counter of 16 bits that the kernel keeps above 0 for as long as the event is open (Linux 4.20).
        semaphore: Option<u64>,
    },
}

/// An event that was opened; it ends when this is dropped.
#[derive(Debug)]
pub struct Watched(OwnedFd);

/// Opens an event that happens in this process, in any if none is given. The kernel stops there already, and does nothing.
pub fn open(host: &Host, spot: Spot<'_>, pid: Option<u32>) -> io::Result<Watched> {
    let kind = |device: &str| {
        let text = host.read_line(&format!("sys/bus/event_source/devices/{device}/type"));
        let absent = || io::Error::new(io::ErrorKind::NotFound, format!("this kernel was built without {device}s"));
        text.ok().and_then(|text| text.trim().parse::<u32>().ok()).ok_or_else(absent)
    };
    let mut attr = sys::perf_event_attr { size: size_of::<sys::perf_event_attr>() as u32, ..Default::default() };
    attr.set_disabled(1);
    // The kernel copies it while the event is opened.
    let name = match spot {
        Spot::Tracepoint(id) => {
            (attr.type_, attr.config) = (sys::PERF_TYPE_TRACEPOINT, id);
            CString::default()
        }
        Spot::Kernel(name) => {
            attr.type_ = kind("kprobe")?;
            CString::new(name)?
        }
        Spot::User { path, offset, semaphore } => {
            attr.type_ = kind("uprobe")?;
            // The upper half of `config` is the counter's place, as format/ref_ctr_offset of the device says.
            attr.config = semaphore.unwrap_or(0) << 32;
            attr.__bindgen_anon_4.config2 = offset;
            CString::new(path)?
        }
    };
    if !matches!(spot, Spot::Tracepoint(_)) {
        attr.__bindgen_anon_3.config1 = name.as_ptr() as u64;
    }
    // Either a process on all CPUs, or all processes; a place in a program is the same on every CPU.
    let (pid, cpu) = pid.map_or((-1, 0), |pid| (pid.cast_signed(), -1));
    // SAFETY: `attr` is a live structure that gives its own size, and the text that it points to outlives the call.
    let fd = unsafe { perf::perf_event_open(&raw mut attr, pid, cpu, -1, sys::PERF_FLAG_FD_CLOEXEC.into()) };
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the kernel has just given us this descriptor, which has no other owner.
    Ok(Watched(unsafe { OwnedFd::from_raw_fd(fd) }))
}

impl Watched {
    /// Has a program of the kind that belongs to the event run whenever it happens, from now on.
    pub fn run(&self, program: BorrowedFd<'_>) -> io::Result<()> {
        let event = self.0.as_raw_fd();
        let number = |fd: i32| u32::try_from(fd).unwrap_or(u32::MAX);
        // SAFETY: both descriptors are open; the first one is that of an event.
        let set = unsafe { perf::ioctls::SET_BPF(event, number(program.as_raw_fd())) };
        if set < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the descriptor is that of an event, and this call has no argument.
        if unsafe { perf::ioctls::ENABLE(event, 0) } < 0 {
            return Err(io::Error::last_os_error());
        }
        Ok(())
    }
}
