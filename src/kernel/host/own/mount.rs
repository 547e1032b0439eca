//! A small file system in memory, for a load that fills it.

use std::ffi::CString;
use std::io;
use std::path::Path;

use rustix::mount::{MountFlags, UnmountFlags};

/// Mounts an empty file system that holds so much and so many files on a folder. It needs CAP_SYS_ADMIN.
pub fn mount_small(place: &Path, mib: u32, files: u32) -> io::Result<()> {
    let options = CString::new(format!("size={mib}m,nr_inodes={files},mode=0700"))?;
    let flags = MountFlags::NOSUID | MountFlags::NODEV | MountFlags::NOEXEC;
    Ok(rustix::mount::mount("rdiag-lab", place, "tmpfs", flags, Some(options.as_c_str()))?)
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
