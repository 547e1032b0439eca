//! Memory of processes, which their users fill as they like.

use std::io;
use std::os::unix::fs::FileExt as _;

/// As much of a process's memory as is there from an address on, up to so many bytes.
///
/// # Errors
/// When the process has none, or it may not be looked at.
#[expect(clippy::disallowed_methods, reason = "only a live process has memory, and no copy of /proc")]
pub(super) fn read(pid: u32, from: u64, most: usize) -> io::Result<Vec<u8>> {
    let memory = std::fs::File::open(format!("/proc/{pid}/mem"))?;
    let mut bytes = vec![0; most];
    let mut read = 0;
    while let Some(rest) = bytes.get_mut(read..).filter(|rest| !rest.is_empty()) {
        let at = from.checked_add(read as u64).ok_or(io::ErrorKind::InvalidInput)?;
        match memory.read_at(rest, at) {
            Ok(0) | Err(_) => break,
            Ok(more) => read += more,
        }
    }
    bytes.truncate(read);
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn as_much_is_read_as_is_there() {
        let own = [7_u8; 100];
        let at = own.as_ptr() as u64;
        assert_eq!(read(std::process::id(), at, 100).unwrap(), own);
        assert_eq!(read(std::process::id(), 8, 100).unwrap().len(), 0);
        assert_eq!(read(std::process::id(), u64::MAX - 8, 100).unwrap().len(), 0);
        assert!(read(u32::MAX, at, 100).is_err());
    }
}
