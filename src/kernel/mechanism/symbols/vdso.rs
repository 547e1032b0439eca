//! The kernel's own library, which every process has mapped and no file holds: rdiag's is that of every process.

use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::FileExt as _;

use rustix::fs::{MemfdFlags, memfd_create};

/// It has a few pages.
const MAX_BYTES: u64 = 1 << 20;

/// A copy of it, as a file.
///
/// # Errors
/// When this process has none, or may not look at itself.
#[expect(clippy::disallowed_methods, reason = "the memory of this process is no part of the host that is looked at")]
pub(super) fn copy() -> io::Result<OwnedFd> {
    let maps = std::fs::read_to_string("/proc/self/maps")?;
    let range = maps.lines().find(|line| line.ends_with("[vdso]")).and_then(range).ok_or(io::ErrorKind::NotFound)?;
    let size = range.1.saturating_sub(range.0).min(MAX_BYTES);
    let mut bytes = vec![0; usize::try_from(size).unwrap_or_default()];
    std::fs::File::open("/proc/self/mem")?.read_exact_at(&mut bytes, range.0)?;
    let file = std::fs::File::from(memfd_create("vdso", MemfdFlags::CLOEXEC)?);
    file.write_all_at(&bytes, 0)?;
    Ok(file.into())
}

fn range(line: &str) -> Option<(u64, u64)> {
    let (start, end) = line.split(' ').next()?.split_once('-')?;
    Some((u64::from_str_radix(start, 16).ok()?, u64::from_str_radix(end, 16).ok()?))
}
