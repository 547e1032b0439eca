//! The kernel's own library, which every process has mapped and no file holds: rdiag's is that of every process.

use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::FileExt as _;

use rdiag_proc::Mapping;
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
    let own =
        maps.lines().filter_map(Mapping::parse).find(|own| own.path == "[vdso]").ok_or(io::ErrorKind::NotFound)?;
    let size = own.end.saturating_sub(own.start).min(MAX_BYTES);
    let mut bytes = vec![0; usize::try_from(size).unwrap_or_default()];
    std::fs::File::open("/proc/self/mem")?.read_exact_at(&mut bytes, own.start)?;
    let file = std::fs::File::from(memfd_create("vdso", MemfdFlags::CLOEXEC)?);
    file.write_all_at(&bytes, 0)?;
    Ok(file.into())
}
