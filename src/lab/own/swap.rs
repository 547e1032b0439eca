//! Swap space of rdiag's own, in a file, for a load that needs some.
#![expect(unsafe_code, reason = "swapon(2) and swapoff(2) have no safe wrapper")]

use std::ffi::CString;
use std::fs::OpenOptions;
use std::io::{self, Write as _};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

/// What is written at a time, in bytes.
const BLOCK_BYTES: usize = 1 << 20;
/// Where the header has its numbers (struct swap_header in linux/swap.h).
const NUMBERS_AT: usize = 1024;
/// The last ten bytes of the first page.
const SIGNATURE: &[u8] = b"SWAPSPACE2";

/// Makes a file of so many MiB and has the kernel swap to it, after all other swap space. It needs CAP_SYS_ADMIN.
pub fn add_swap(place: &Path, mib: u32) -> io::Result<()> {
    let page = rustix::param::page_size();
    let pages = (u64::from(mib) << 20) / page as u64;
    let mut first = vec![0_u8; BLOCK_BYTES];
    // Version, the last page, and that no page is bad.
    let numbers = [1_u32, u32::try_from(pages.saturating_sub(1)).unwrap_or(u32::MAX), 0];
    for (number, at) in numbers.iter().zip((NUMBERS_AT..).step_by(4)) {
        put(&mut first, at, &number.to_ne_bytes());
    }
    put(&mut first, page - SIGNATURE.len(), SIGNATURE);
    // All of it is written: the kernel takes no file with holes.
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(place)?;
    file.write_all(&first)?;
    let rest = vec![0_u8; BLOCK_BYTES];
    for _ in 1..mib {
        file.write_all(&rest)?;
    }
    file.sync_all()?;
    let name = CString::new(place.as_os_str().as_bytes())?;
    // SAFETY: the pointer is to a string that lives until the call returns.
    if unsafe { libc::swapon(name.as_ptr(), 0) } == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// File systems whose files the kernel swaps to (linux/magic.h): ext2 to ext4, XFS, F2FS.
const CAN_HOLD: [i64; 3] = [0xef53, 0x5846_5342, 0xf2f5_2010];

/// Whether swap space may be added in a folder. Nothing is: the kernel says whether it would listen when it is given no name.
pub fn may_swap(folder: &Path) -> io::Result<()> {
    // SAFETY: the pointer is to a string that lives until the call returns; there is no file without a name.
    if unsafe { libc::swapon(c"".as_ptr(), 0) } != 0 {
        let error = io::Error::last_os_error();
        if error.kind() != io::ErrorKind::NotFound {
            return Err(error);
        }
    }
    #[expect(clippy::useless_conversion, reason = "the type is another one on other machines")]
    let kind = i64::from(rustix::fs::statfs(folder)?.f_type);
    if CAN_HOLD.contains(&kind) {
        return Ok(());
    }
    let why = format!("the file system of {} is none of ext4, XFS and F2FS", folder.display());
    Err(io::Error::new(io::ErrorKind::Unsupported, why))
}

/// Has the kernel bring back what is there, and swap to it no more; that it does not swap there is no error.
pub fn remove_swap(place: &Path) -> io::Result<()> {
    let name = CString::new(place.as_os_str().as_bytes())?;
    // SAFETY: the pointer is to a string that lives until the call returns.
    if unsafe { libc::swapoff(name.as_ptr()) } == 0 {
        return Ok(());
    }
    match io::Error::last_os_error() {
        error if matches!(error.raw_os_error(), Some(libc::EINVAL | libc::ENOENT)) => Ok(()),
        error => Err(error),
    }
}

fn put(block: &mut [u8], at: usize, bytes: &[u8]) {
    if let Some(place) = block.get_mut(at..at + bytes.len()) {
        place.copy_from_slice(bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[expect(clippy::disallowed_methods, reason = "what this very kernel swaps to")]
    fn what_is_no_swap_space_is_left_alone_and_what_was_added_goes() {
        let folder = tempfile::tempdir_in("/var/tmp").unwrap();
        let place = folder.path().join("space");
        let swaps = || std::fs::read_to_string("/proc/swaps").unwrap_or_default();
        let named = |place: &Path| swaps().contains(&*place.to_string_lossy());
        let may = may_swap(folder.path());
        assert!(!swaps().contains(&*folder.path().to_string_lossy()), "asking changes nothing");
        let added = add_swap(&place, 1);
        // Where it may not be added, it cannot; an unknown file system may do it.
        assert!(may.is_err() || added.is_ok(), "{may:?} {added:?}");
        if added.is_ok() {
            let was_there = named(&place);
            remove_swap(&place).unwrap();
            remove_swap(&place).unwrap();
            remove_swap(&folder.path().join("nothing")).unwrap();
            assert!(was_there && !named(&place));
        }
        assert!(add_swap(&place, 1).is_err(), "the file is there already");
    }
}
