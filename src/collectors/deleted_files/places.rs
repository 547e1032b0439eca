//! On which file system an open file lies: its mount is found by the number that /proc/PID/fdinfo tells (`mnt_id`), for files of containers
//! too, without asking the file system, which may hang. The device number of stat(2) would not do: on btrfs it is in no mountinfo, inside a
//! container it is that of the overlay, and asking a dead server for it hangs.

use std::collections::HashMap;

use super::super::filesystems::mountinfo::{Mount, select};
use super::super::filesystems::mountinfo_path;
use super::super::processes::reader::Reader;
use rdiag_kernel::host::{Host, SourceError};

/// Lists of mounts of other namespaces that are read.
const MAX_NAMESPACES: usize = 100;
/// Mounts that are kept in mind; more are not learned.
const MAX_KNOWN: usize = 50_000;

/// The file systems that can fill up, and which mount belongs to which of them.
pub(super) struct Places {
    mounts: Vec<Mount>,
    /// By the number of a mount. The numbers are the same in all namespaces.
    known: HashMap<u64, Option<usize>>,
    /// Lists that may still be read.
    left: usize,
}

impl Places {
    pub(super) fn read(host: &Host) -> Result<Self, SourceError> {
        let text = host.read_bytes(mountinfo_path(host))?;
        let mut mounts = select(&text).0;
        mounts.retain(|mount| !mount.is_remote() && !mount.is_read_only());
        let mut places = Self { mounts, known: HashMap::new(), left: MAX_NAMESPACES };
        places.learn(&text);
        Ok(places)
    }

    /// Adds a list of mounts.
    fn learn(&mut self, mountinfo: &[u8]) {
        for mount in mountinfo.split(|byte| *byte == b'\n').filter_map(Mount::parse) {
            let place = self.place(&mount);
            self.known.insert(mount.id, place);
        }
    }

    /// The file system of a mount; of an overlay, the one that takes what is written to it.
    fn place(&self, mount: &Mount) -> Option<usize> {
        let same = self.mounts.iter().position(|known| known.device == mount.device);
        let below = |upper: &[u8]| {
            let around = self.mounts.iter().enumerate().filter(|(_, known)| holds(&known.point, upper));
            around.max_by_key(|(_, known)| known.point.len()).map(|(place, _)| place)
        };
        same.or_else(|| below(mount.upper.as_deref()?))
    }

    /// The file system of an open file; none for what lies on no file system that can fill up, or on one that may hang.
    pub(super) fn of(&mut self, pid: u32, descriptor: u32, reader: &mut Reader) -> Option<usize> {
        let id = mount_id(reader.file(pid, &format!("fdinfo/{descriptor}")).ok()?)?;
        if !self.known.contains_key(&id) {
            // A mount of another namespace, or of the kernel's own.
            if self.left > 0 && self.known.len() < MAX_KNOWN {
                self.left -= 1;
                let list = reader.file(pid, "mountinfo").map(<[u8]>::to_vec).unwrap_or_default();
                self.learn(&list);
            }
            self.known.entry(id).or_insert(None);
        }
        self.known.get(&id).copied().flatten()
    }

    /// The file systems by number.
    pub(super) fn names(&self) -> impl Iterator<Item = (usize, String)> {
        self.mounts.iter().map(Mount::name).enumerate()
    }

    pub(super) fn name(&self, place: usize) -> Option<String> {
        self.mounts.get(place).map(Mount::name)
    }
}

/// Whether a path lies at or below a mount point.
fn holds(point: &[u8], path: &[u8]) -> bool {
    let point = point.strip_suffix(b"/").unwrap_or(point);
    path.strip_prefix(point).is_some_and(|rest| rest.first().is_none_or(|byte| *byte == b'/'))
}

/// `mnt_id:` of a file's fdinfo.
fn mount_id(fdinfo: &[u8]) -> Option<u64> {
    let line = fdinfo.split(|byte| *byte == b'\n').find_map(|line| line.strip_prefix(b"mnt_id:"))?;
    std::str::from_utf8(line).ok()?.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_belongs_to_the_mounts_above_it() {
        assert!(holds(b"/", b"/srv/x") && holds(b"/srv", b"/srv/x") && holds(b"/srv", b"/srv"));
        assert!(!holds(b"/srv", b"/srv2/x") && !holds(b"/srv/x", b"/srv"));
    }

    #[test]
    fn the_mount_of_an_open_file_is_read_and_garbage_is_refused() {
        assert_eq!(mount_id(b"pos:\t0\nflags:\t0100000\nmnt_id:\t24\nino:\t3\n"), Some(24));
        for text in [&b""[..], b"pos:\t0\n", b"mnt_id:\t-1\n", b"mnt_id:\n", b"mnt_id:\t\xff\n"] {
            assert_eq!(mount_id(text), None);
        }
    }
}
