//! A small file system in memory, for a load that fills it.
#![expect(unsafe_code, reason = "unshare(2)")]

use std::ffi::CString;
use std::io;
use std::path::Path;

use rustix::mount::{MountFlags, MountPropagationFlags, UnmountFlags, mount_change};
use rustix::thread::{UnshareFlags, unshare_unsafe};

/// Mounts an empty file system that holds so much and so many files on a folder. It needs CAP_SYS_ADMIN.
pub fn mount_small(place: &Path, mib: u32, files: u32) -> io::Result<()> {
    let options = CString::new(format!("size={mib}m,nr_inodes={files},mode=0700"))?;
    let flags = MountFlags::NOSUID | MountFlags::NODEV | MountFlags::NOEXEC;
    Ok(rustix::mount::mount("rdiag-lab", place, "tmpfs", flags, Some(options.as_c_str()))?)
}

/// Whether one may be mounted on a folder, found by mounting one that only a thread sees which ends then: for all other processes nothing
/// is mounted at any time, and a kill leaves nothing.
pub fn may_mount(place: &Path) -> io::Result<()> {
    let tried = std::thread::scope(|scope| scope.spawn(|| mount_unseen(place)).join());
    tried.unwrap_or_else(|_| Err(io::Error::other("the trial ended")))
}

/// To be called in a thread that ends afterwards.
fn mount_unseen(place: &Path) -> io::Result<()> {
    // SAFETY: no descriptor is shared differently afterwards: CLONE_FILES is not asked for.
    unsafe { unshare_unsafe(UnshareFlags::NEWNS)? };
    mount_change("/", MountPropagationFlags::REC | MountPropagationFlags::PRIVATE)?;
    mount_small(place, 1, 10)
}

/// Takes it away again, in use or not; that nothing is mounted there is no error.
pub fn unmount(place: &Path) -> io::Result<()> {
    match rustix::mount::unmount(place, UnmountFlags::DETACH | UnmountFlags::NOFOLLOW) {
        Err(rustix::io::Errno::INVAL | rustix::io::Errno::NOENT) | Ok(()) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_trial_is_seen_by_nobody() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir(folder.path().join("inside")).unwrap();
        let may = may_mount(folder.path());
        assert!(folder.path().join("inside").exists());
        // Where the trial fails, so does the real thing.
        let done = mount_small(folder.path(), 1, 10);
        // An ordinary user may not ask for it either.
        if done.is_ok() {
            unmount(folder.path()).unwrap();
        }
        assert_eq!(may.is_ok(), done.is_ok(), "{may:?} {done:?}");
    }

    #[test]
    fn that_nothing_is_mounted_is_no_error_and_what_is_mounted_goes() {
        let folder = tempfile::tempdir().unwrap();
        let place = folder.path().join("room");
        std::fs::create_dir(&place).unwrap();
        if mount_small(&place, 1, 10).is_ok() {
            std::fs::create_dir(place.join("inside")).unwrap();
            unmount(&place).unwrap();
            assert!(!place.join("inside").exists());
            unmount(&place).unwrap();
            unmount(&folder.path().join("nothing")).unwrap();
        }
    }
}
