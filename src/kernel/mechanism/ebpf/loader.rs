//! What loads objects, without reading the kernel's types on its own.
#![expect(unsafe_code, reason = "unshare(2) and mallopt(3) have no safe wrappers")]

use aya::EbpfLoader;

/// A loader. It has to be given the types that it relocates against.
///
/// `EbpfLoader::new` reads and parses all types of the kernel, needed or not, which is more expensive than all the rest of a short probe.
/// It does without them where they are missing, so it is called by a thread that sees another root directory. That takes
/// CAP_SYS_CHROOT; who has only CAP_BPF and CAP_PERFMON pays for the types.
pub(super) fn without_types<'l>() -> EbpfLoader<'l> {
    let blindfolded = || {
        hide_types();
        EbpfLoader::new()
    };
    let found = std::thread::scope(|scope| {
        let thread = std::thread::Builder::new().name("rdiag-load".into()).spawn_scoped(scope, blindfolded);
        thread.ok().and_then(|thread| thread.join().ok())
    });
    found.unwrap_or_default()
}

/// Gives the calling thread a root directory without /sys/kernel/btf. Where that is not allowed nothing changes.
fn hide_types() {
    // SAFETY: of what threads share only the root directory, the working directory and the umask are parted, no descriptors.
    if unsafe { rustix::thread::unshare_unsafe(rustix::thread::UnshareFlags::FS) }.is_ok() {
        let _ = rustix::process::chroot("/sys/kernel/btf");
    }
}

/// Has the allocator give large blocks back to the system when they are freed. By itself it would keep as much as the largest that
/// was ever freed, for the thread that freed it: here the megabytes of the kernel's types, which are no longer needed.
pub(super) fn keep_no_large_blocks() {
    // SAFETY: no memory is touched, only a limit is set, to what it is when a program starts.
    #[cfg(target_env = "gnu")]
    unsafe {
        libc::mallopt(libc::M_MMAP_THRESHOLD, 128 << 10);
    }
}
