//! tracefs where it is not mounted: in a mount namespace of rdiag's own, so that the host stays as it is.
//!
//! The namespace is that of the thread that asks, and of all threads and processes that it starts from then on. What is mounted on the host
//! goes on appearing in it, and what is unmounted there goes away, so that rdiag keeps no file system busy; nothing of it appears on the
//! host.
#![expect(unsafe_code, reason = "unshare(2)")]

use std::io;
use std::sync::OnceLock;

use rustix::mount::{MountFlags, MountPropagationFlags, mount, mount_change};
use rustix::thread::{UnshareFlags, unshare_unsafe};

use super::place;
use crate::host::Host;

/// Where the kernel has a folder for it.
const PLACE: &str = "sys/kernel/tracing";

/// The mount namespace that this process came from, if it left one.
static LEFT: OnceLock<String> = OnceLock::new();

/// The mount namespace that this process was started in, where it has its own now (`mnt:[4026531841]`): paths lead to the same files in
/// both.
#[must_use]
pub fn left() -> Option<&'static str> {
    LEFT.get().map(String::as_str)
}

/// Mounts it for this thread and those that it starts, if it is mounted nowhere and may be. To be called before worker threads are started,
/// and after the command that is to be measured, which is not to live in the namespace.
pub fn mount_for_itself(host: &Host) {
    let is_own = !host.is_recorded() && !host.is_seen_from_outside();
    if is_own && host.facts().uid == 0 && host.exists(PLACE) && place::find(host).is_err() {
        let before = host.link("proc/self/ns/mnt");
        // Where it may not be, probes say that tracefs is not mounted, and how to mount it.
        let _ = mount_unseen();
        // The namespace may be another one all the same.
        if let Ok(before) = before {
            let _ = LEFT.set(before);
        }
    }
}

fn mount_unseen() -> io::Result<()> {
    // SAFETY: no descriptor is shared differently afterwards: CLONE_FILES is not asked for.
    unsafe { unshare_unsafe(UnshareFlags::NEWNS)? };
    // If this fails, the host would see what is mounted.
    mount_change("/", MountPropagationFlags::REC | MountPropagationFlags::DOWNSTREAM)?;
    let flags = MountFlags::NOSUID | MountFlags::NODEV | MountFlags::NOEXEC;
    Ok(mount("rdiag", format!("/{PLACE}"), "tracefs", flags, None)?)
}
