//! Whether a file system may never answer, by the mounts that a process sees.
//!
//! A FUSE daemon is a program of some user, and a thread that waits for one cannot be killed while it does. An overlay asks the file
//! systems below it; in a user namespace of their own users mount both, and nothing tells what lies below. So there overlays are not
//! asked either.

use std::io::{self, Read as _};
use std::os::fd::OwnedFd;

use rdiag_proc::MountLine;
use rustix::fs::{Mode, OFlags, open, openat, readlink, readlinkat};

/// Where files are made by the kernel at the moment that they are opened, and doing so can do something.
const OF_KERNEL: [&str; 13] = [
    "binfmt_misc",
    "bpf",
    "cgroup",
    "cgroup2",
    "configfs",
    "debugfs",
    "devpts",
    "efivarfs",
    "mqueue",
    "pstore",
    "securityfs",
    "sysfs",
    "tracefs",
];

/// The mounts that a process sees (/proc/PID/mountinfo).
#[derive(Debug)]
pub(crate) struct Mounts {
    text: String,
    /// Whether a user who is not root here may have made them.
    is_of_user: bool,
}

impl Mounts {
    /// Those of this process.
    pub(crate) fn own() -> Option<Self> {
        let process = open("/proc/self", OFlags::PATH | OFlags::CLOEXEC, Mode::empty()).ok()?;
        Some(Self { text: read(&process, LONGEST)?, is_of_user: false })
    }

    /// Those of another one.
    pub(crate) fn of(pid: u32) -> Option<Self> {
        let process = open(format!("/proc/{pid}"), OFlags::PATH | OFlags::CLOEXEC, Mode::empty()).ok()?;
        Some(Self { text: read(&process, LONGEST_OF_OTHERS)?, is_of_user: is_in_other_namespace(&process) })
    }

    /// Whether the mount with this id may stall who asks it; none if it is not there.
    pub(crate) fn by_id(&self, id: &str) -> Option<Result<(), io::Error>> {
        self.find(|mount| mount.id() == Some(id.as_bytes()))
    }

    /// Whether the mount with this id is one of /proc.
    pub(super) fn is_proc(&self, id: &str) -> bool {
        self.lines().any(|mount| mount.id() == Some(id.as_bytes()) && mount.kind() == b"proc")
    }

    /// The same as [`Mounts::by_id`] of a mount with this device number.
    pub(crate) fn by_device(&self, device: (u32, u32)) -> Option<Result<(), io::Error>> {
        let number = format!("{}:{}", device.0, device.1);
        self.find(|mount| mount.device() == Some(number.as_bytes()))
    }

    fn find(&self, is_meant: impl Fn(&MountLine<'_>) -> bool) -> Option<io::Result<()>> {
        self.lines().find(is_meant).map(|mount| self.judged(mount))
    }

    fn judged(&self, mount: MountLine<'_>) -> io::Result<()> {
        let kind = &*String::from_utf8_lossy(mount.kind());
        let is_fuse = kind.starts_with("fuse") && kind != "fusectl";
        if is_fuse {
            return Err(io::Error::other(format!("it is on {kind}, whose daemon could stall its readers")));
        }
        if OF_KERNEL.contains(&kind) {
            return Err(io::Error::other(format!("it is on {kind}, where no program or library lies")));
        }
        if self.is_of_user && kind == "overlay" {
            let why = "it is on an overlay of a user's namespace, and what lies below that could stall its readers";
            return Err(io::Error::other(why));
        }
        Ok(())
    }

    fn lines(&self) -> impl Iterator<Item = MountLine<'_>> {
        self.text.lines().filter_map(|line| MountLine::parse(line.as_bytes()))
    }
}

/// Longer lists are no list: a user who mounts makes them as long as the kernel lets, and what is not known is not asked.
const LONGEST: u64 = 16 << 20;
/// The same of other processes. A host of a thousand containers has some 300 KiB.
const LONGEST_OF_OTHERS: u64 = 1 << 20;

fn read(process: &OwnedFd, longest: u64) -> Option<String> {
    let file = openat(process, "mountinfo", OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty()).ok()?;
    let mut text = String::new();
    let read = std::fs::File::from(file).take(longest + 1).read_to_string(&mut text).ok()?;
    (read as u64 <= longest).then_some(text)
}

/// Whether a process, by its folder of /proc, has another user namespace than this one, in which its user may mount. What is not told is
/// taken for one.
pub(super) fn is_in_other_namespace(process: &OwnedFd) -> bool {
    match (readlink("/proc/self/ns/user", Vec::new()), readlinkat(process, "ns/user", Vec::new())) {
        // The kernel has none.
        (Err(_), _) => false,
        (Ok(own), Ok(other)) => own != other,
        (Ok(_), Err(_)) => true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SEEN: &str = "22 1 254:0 / / rw,relatime - ext4 /dev/vda rw\n\
        30 22 0:40 / /mnt/a\\040b rw shared:1 - fuse.sshfs x rw\n\
        31 22 0:41 / /mnt/over rw - overlay overlay rw,lowerdir=/mnt/fuse\n\
        32 22 0:42 / /sys/fs/fuse/connections rw - fusectl none rw\n\
        33 22 8:1 / /mnt/ntfs rw - fuseblk /dev/sda1 rw\n\
        35 22 0:43 / /srv/tree/sys rw - sysfs sysfs rw\n\
        36 22 0:44 / /home rw - autofs auto.home rw\n";

    #[test]
    fn what_a_daemon_or_the_kernel_makes_is_not_asked_nor_an_overlay_that_a_user_may_have_mounted() {
        let seen = |is_of_user| Mounts { text: SEEN.to_owned(), is_of_user };
        let is_asked = |is_of_user, id| seen(is_of_user).by_id(id).unwrap().is_ok();
        for (id, by_root, by_user) in [
            ("22", true, true),
            ("30", false, false),
            ("31", true, false),
            ("32", true, true),
            ("33", false, false),
            ("35", false, false),
            ("36", true, true),
        ] {
            assert_eq!((is_asked(false, id), is_asked(true, id)), (by_root, by_user), "{id}");
        }
        assert!(seen(false).by_id("34").is_none());
        assert!(seen(true).by_device((0, 40)).unwrap().is_err() && seen(true).by_device((254, 0)).unwrap().is_ok());
    }

    #[test]
    fn the_mounts_of_this_process_are_no_users() {
        let own = Mounts::own().unwrap();
        assert!(!Mounts::of(std::process::id()).unwrap().is_of_user && own.lines().count() > 0);
    }
}
