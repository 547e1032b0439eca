//! What a process was started with beside its standard input, output and error.
#![expect(unsafe_code, reason = "close(2) of descriptors that nothing in this process stands for")]

use std::fs;

/// The first descriptor that is not one of the three.
const FIRST: libc::c_uint = 3;

/// Closes all of it. To be called before the process has opened anything.
pub(super) fn close_inherited() {
    // SAFETY: the caller has opened nothing, so no value of this program stands for any of them.
    if unsafe { libc::syscall(libc::SYS_close_range, FIRST, libc::c_uint::MAX, 0) } == 0 {
        return;
    }
    // Before Linux 5.9, one by one. The list is whole before the first is closed, as it is read through one of them.
    #[expect(clippy::disallowed_methods, reason = "this process's own descriptors, not what is looked at")]
    let listed = fs::read_dir("/proc/self/fd").into_iter().flatten().flatten();
    let open: Vec<i32> = listed.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect();
    for descriptor in open.into_iter().filter(|descriptor| *descriptor >= FIRST.cast_signed()) {
        // SAFETY: as above; that of the list itself is closed by now, and closing it once more is an error and nothing else.
        let _ = unsafe { libc::close(descriptor) };
    }
}
