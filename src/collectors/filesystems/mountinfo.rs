//! /proc/self/mountinfo: which mounted file systems can fill up or hang, each once.

use std::collections::BTreeMap;

use rdiag_proc::{MountLine, unescape_octal, unescaped};

/// Beyond this many file systems, the rest is left out.
pub(crate) const MAX_MOUNTS: usize = 300;

/// A line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Mount {
    /// The kernel's number for this mount, which open files name as well.
    pub(crate) id: u64,
    /// Major and minor number of the superblock: the same for all mounts of one file system.
    pub(crate) device: String,
    /// The directory within the file system that is mounted; `/` unless it is a bind mount or a subvolume.
    pub(crate) root: Vec<u8>,
    /// Mount point. It may hold any byte.
    pub(crate) point: Vec<u8>,
    /// Whether this mount is read-only.
    pub(crate) mount_read_only: bool,
    /// Whether the file system itself is, for all its mounts.
    pub(crate) super_read_only: bool,
    /// File system type.
    pub(crate) kind: String,
    /// What is mounted: a device, a server and its export.
    pub(crate) source: String,
    /// Of an overlay, the directory that takes what is written.
    pub(crate) upper: Option<Vec<u8>>,
}

/// File systems that hold no user data, or whose data are the kernel's.
const PSEUDO: [&str; 37] = [
    "autofs",
    "bdev",
    "binder",
    "binfmt_misc",
    "bpf",
    "cgroup",
    "cgroup2",
    "configfs",
    "cpuset",
    "debugfs",
    "devpts",
    "devtmpfs",
    "efivarfs",
    "fuse.gvfsd-fuse",
    "fuse.lxcfs",
    "fuse.portal",
    "fuse.snapfuse",
    "fusectl",
    "hugetlbfs",
    "mqueue",
    "nfsd",
    "nsfs",
    "openpromfs",
    "pipefs",
    "proc",
    "pstore",
    "ramfs",
    "resctrl",
    "rootfs",
    "rpc_pipefs",
    "securityfs",
    "selinuxfs",
    "smackfs",
    "sockfs",
    "sysfs",
    "tracefs",
    "usbfs",
];

/// Types that are always full, because nothing can be written to them.
const IMAGES: [&str; 6] = ["squashfs", "iso9660", "erofs", "cramfs", "romfs", "udf"];

/// Types that stay writable unless an administrator, or an error, makes them read-only.
const WRITABLE: [&str; 15] = [
    "ext2", "ext3", "ext4", "xfs", "btrfs", "f2fs", "bcachefs", "jfs", "nilfs2", "reiserfs", "gfs2", "ocfs2", "ubifs",
    "vfat", "exfat",
];

impl Mount {
    /// None for a line that is cut or broken.
    pub(crate) fn parse(line: &[u8]) -> Option<Self> {
        let line = MountLine::parse(line)?;
        let options = line.options()?;
        let super_options = line.super_options().unwrap_or_default();
        let upper = super_options.split(|byte| *byte == b',').find_map(|option| option.strip_prefix(b"upperdir="));
        Some(Self {
            id: std::str::from_utf8(line.id()?).ok()?.parse().ok()?,
            device: text(line.device()?),
            root: unescape_octal(line.root()?),
            point: unescape_octal(line.point()?),
            mount_read_only: has_option(options, b"ro"),
            // ext4 says `emergency_ro` since Linux 6.15 where it said `ro` before.
            super_read_only: has_option(super_options, b"ro") || has_option(super_options, b"emergency_ro"),
            kind: text(line.kind()),
            source: unescaped(line.source()?),
            upper: upper.map(unescape_octal),
        })
    }

    /// The mount point for people.
    pub(crate) fn name(&self) -> String {
        text(&self.point)
    }

    pub(crate) fn is_image(&self) -> bool {
        IMAGES.contains(&self.kind.as_str()) && self.is_read_only()
    }

    pub(crate) fn is_read_only(&self) -> bool {
        self.mount_read_only || self.super_read_only
    }

    /// Mounted for writing, and yet the file system as a whole is read-only: what errors=remount-ro leaves behind.
    /// An administrator who mounts or remounts read-only changes both.
    pub(crate) fn was_forced_read_only(&self) -> bool {
        !self.mount_read_only && self.super_read_only && WRITABLE.contains(&self.kind.as_str())
    }

    fn is_pseudo(&self) -> bool {
        // Those in memory that only hold other mounts, or hide something from a container.
        let scaffold = self.kind == "tmpfs"
            && (self.is_read_only() || self.point.starts_with(b"/sys/") || self.point.starts_with(b"/proc/"));
        scaffold || PSEUDO.contains(&self.kind.as_str())
    }

    /// Another host or process has to answer, and may be gone.
    pub(crate) fn is_remote(&self) -> bool {
        const REMOTE: [&str; 14] = [
            "nfs",
            "nfs4",
            "cifs",
            "smb3",
            "smbfs",
            "9p",
            "afs",
            "ceph",
            "glusterfs",
            "lustre",
            "beegfs",
            "gpfs",
            "virtiofs",
            "fuseblk",
        ];
        REMOTE.contains(&self.kind.as_str()) || self.kind == "fuse" || self.kind.starts_with("fuse.")
    }
}

/// The mounts worth asking about, each file system once, those that cannot hang first; and how many were left out.
pub(crate) fn select(mountinfo: &[u8]) -> (Vec<Mount>, usize) {
    let all: Vec<Mount> = mountinfo.split(|byte| *byte == b'\n').filter_map(Mount::parse).collect();
    // Of several mounts on one point only the last can be reached.
    let mut reachable: BTreeMap<&[u8], usize> = BTreeMap::new();
    for (at, mount) in all.iter().enumerate() {
        reachable.insert(&mount.point, at);
    }
    let mut best: BTreeMap<&str, (usize, &Mount)> = BTreeMap::new();
    for (at, mount) in all.iter().enumerate() {
        // An overlay reports the capacity of the file system that its upper directory lies on; only where it is all
        // there is to be seen (inside a container) does that say anything new.
        let overlay = mount.kind == "overlay" && mount.point != b"/";
        if mount.is_pseudo() || overlay || reachable.get(mount.point.as_slice()) != Some(&at) {
            continue;
        }
        let better = |known: &Mount| rank(mount) < rank(known);
        match best.get(mount.device.as_str()) {
            Some((_, known)) if !better(known) => {}
            _ => {
                best.insert(&mount.device, (at, mount));
            }
        }
    }
    let mut chosen: Vec<(usize, &Mount)> = best.into_values().collect();
    chosen.sort_by_key(|(at, mount)| (mount.is_remote(), *at));
    let left_out = chosen.len().saturating_sub(MAX_MOUNTS);
    (chosen.into_iter().take(MAX_MOUNTS).map(|(_, mount)| mount.clone()).collect(), left_out)
}

/// Which of several mounts of a file system stands for it: its whole tree before a part, the shortest path.
fn rank(mount: &Mount) -> (bool, bool, usize) {
    (mount.root != b"/", mount.is_read_only(), mount.point.len())
}

fn has_option(list: &[u8], wanted: &[u8]) -> bool {
    list.split(|byte| *byte == b',').any(|option| option == wanted)
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn points(text: &str) -> Vec<String> {
        select(text.as_bytes()).0.iter().map(Mount::name).collect()
    }

    #[test]
    fn a_line_is_read_with_any_number_of_optional_fields() {
        let plain = Mount::parse(b"27 1 254:0 / / rw,relatime - ext4 /dev/vda rw,discard").unwrap();
        assert_eq!((plain.device.as_str(), plain.kind.as_str(), plain.source.as_str()), ("254:0", "ext4", "/dev/vda"));
        assert!(!plain.is_read_only());
        let shared = Mount::parse(b"36 35 98:0 /mnt1 /mnt2 rw shared:1 master:2 - ext3 /dev/root rw").unwrap();
        assert_eq!((shared.root.as_slice(), shared.name().as_str()), (&b"/mnt1"[..], "/mnt2"));
        assert_eq!(Mount::parse(b"36 35 98:0 /mnt1 /mnt2 rw shared:1"), None);
        assert_eq!(Mount::parse(b""), None);
    }

    #[test]
    fn escaped_names_come_back_as_they_are() {
        let mount = Mount::parse(b"1 1 8:1 / /a\xff\\040b rw - ext4 /dev/sda1 rw").unwrap();
        assert_eq!(mount.point, b"/a\xff b");
    }

    #[test]
    fn each_file_system_is_asked_once_at_its_plainest_mount() {
        let text = "1 0 8:1 / / rw - ext4 /dev/sda1 rw\n\
                    2 1 8:2 /sub /var/lib/x/bind rw - ext4 /dev/sda2 rw\n\
                    3 1 8:2 / /home rw - ext4 /dev/sda2 rw\n\
                    4 1 8:1 /etc /e rw - ext4 /dev/sda1 rw\n";
        assert_eq!(points(text), ["/", "/home"]);
    }

    #[test]
    fn what_is_mounted_over_is_not_asked() {
        let text = "1 0 0:5 / /dev/shm rw - tmpfs a rw\n2 0 0:6 / /dev/shm rw - tmpfs b rw\n";
        let (chosen, _) = select(text.as_bytes());
        assert_eq!(chosen.len(), 1);
        assert_eq!(chosen[0].device, "0:6");
    }

    #[test]
    fn pseudo_file_systems_and_overlays_are_left_out_but_not_the_root_of_a_container() {
        let text = "1 0 0:5 / /proc rw - proc proc rw\n2 0 0:6 / /x/merged rw - overlay overlay rw\n\
                    3 0 0:7 / / rw - overlay overlay rw\n\
                    5 0 0:9 / /sys/fs/cgroup rw - tmpfs cgroup rw\n6 0 0:10 / /proc/acpi ro - tmpfs tmpfs ro\n4 0 0:8 / /sys/fs/cgroup rw \
                    - cgroup2 c rw\n";
        assert_eq!(points(text), ["/"]);
    }

    #[test]
    fn what_can_hang_is_asked_last() {
        let text = "1 0 0:40 / /a rw - nfs4 srv:/a rw\n2 0 0:41 / /b rw - fuse.sshfs h: rw\n3 0 8:1 / /z rw - xfs /dev/sda1 rw\n";
        assert_eq!(points(text), ["/z", "/a", "/b"]);
    }

    #[test]
    fn a_file_system_that_went_read_only_by_itself_is_told_from_one_that_was_mounted_so() {
        let forced = |line: &str| Mount::parse(line.as_bytes()).unwrap().was_forced_read_only();
        assert!(forced("1 0 8:1 / / rw - ext4 /dev/sda1 ro,errors=remount-ro"));
        assert!(forced("1 0 8:1 / / rw - ext4 /dev/sda1 rw,emergency_ro"));
        assert!(!forced("1 0 8:1 / / ro - ext4 /dev/sda1 ro"));
        assert!(!forced("1 0 8:1 / / rw - ext4 /dev/sda1 rw,errors=remount-ro"));
        assert!(!forced("1 0 7:1 / /snap rw - squashfs /dev/loop1 ro"), "it is so by nature");
        assert!(!forced("1 0 0:9 / /x rw - overlay o ro,lowerdir=/a"));
    }

    #[test]
    fn an_overlay_names_the_directory_that_takes_its_writes() {
        let upper = |line: &str| Mount::parse(line.as_bytes()).unwrap().upper;
        let line = "9 1 0:7 / /m rw - overlay overlay rw,lowerdir=/a:/b,upperdir=/srv/my\\040disk/diff,workdir=/w";
        assert_eq!(upper(line).as_deref(), Some(&b"/srv/my disk/diff"[..]));
        assert_eq!(upper("9 1 0:7 / /m ro - overlay overlay ro,lowerdir=/a:/b"), None);
    }

    #[test]
    fn images_are_known_by_type_and_by_being_read_only() {
        let image = |line: &str| Mount::parse(line.as_bytes()).unwrap().is_image();
        assert!(image("1 0 7:1 / /snap rw - squashfs /dev/loop1 ro"));
        assert!(!image("1 0 7:1 / /dvd rw - udf /dev/sr0 rw"));
    }

    proptest! {
        #[test]
        fn any_bytes_are_survived(bytes in proptest::collection::vec(any::<u8>(), 0..400)) {
            let _ = select(&bytes);
        }

        #[test]
        fn any_words_are_survived(words in proptest::collection::vec("[-/a-z0-9:\\\\]{0,6}", 0..40)) {
            let _ = select(words.join(" ").as_bytes());
        }
    }
}
