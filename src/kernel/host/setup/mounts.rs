//! Mounted file systems that hold data, with their options.

use rdiag_model::Setup;

use super::{Host, note};
use rdiag_proc::{MountLine, unescaped};

/// Mounts that are listed.
const MOST: usize = 32;
/// Kinds of file systems that hold data without a block device of their own.
const WITHOUT_DEVICE: [&str; 12] =
    ["9p", "beegfs", "btrfs", "ceph", "cifs", "fuse.glusterfs", "lustre", "nfs", "nfs4", "overlay", "virtiofs", "zfs"];
/// Below these, mounts come and go with containers and sessions.
const FLEETING: [&str; 6] =
    ["/run/", "/var/lib/docker/", "/var/lib/containers/", "/var/lib/containerd/", "/var/lib/kubelet/", "/snap/"];
/// Options that name hosts, accounts and folders, or may be secrets.
const OWN: [&str; 14] = [
    "addr",
    "clientaddr",
    "credentials",
    "domain",
    "lowerdir",
    "mountaddr",
    "mountport",
    "name",
    "pass",
    "password",
    "secret",
    "upperdir",
    "username",
    "workdir",
];

/// A mounted file system.
pub(super) struct Mount {
    pub(super) point: String,
    /// Major and minor number of its device.
    pub(super) number: String,
    pub(super) kind: String,
    options: Vec<String>,
}

pub(super) fn read(host: &Host, setup: &mut Setup) {
    for mount in mounts(host).iter().take(MOST) {
        note(&mut setup.facts, format!("mount {} type", mount.point), &mount.kind);
        note(&mut setup.facts, format!("mount {} options", mount.point), &mount.options.join(","));
    }
}

/// File systems that hold data, each mount point once: the latest is the one that is seen.
pub(super) fn mounts(host: &Host) -> Vec<Mount> {
    let table = host.read("proc/self/mountinfo").unwrap_or_default();
    let mut all: Vec<Mount> = Vec::new();
    for mount in table.lines().filter_map(mount) {
        all.retain(|other| other.point != mount.point);
        all.push(mount);
    }
    all.sort_by(|a, b| a.point.cmp(&b.point));
    all
}

/// `36 35 98:0 /mnt1 /mnt2 rw,noatime master:1 - ext3 /dev/root rw,errors=continue`, if it holds data.
fn mount(line: &str) -> Option<Mount> {
    let line = MountLine::parse(line.as_bytes())?;
    let [number, root, own, kind, source, of_all] = [
        line.device()?,
        line.root()?,
        line.options()?,
        line.kind(),
        line.source()?,
        line.super_options().unwrap_or_default(),
    ]
    .map(String::from_utf8_lossy);
    let point = unescaped(line.point()?);
    // A part of a file system that is shown somewhere else is no file system; those of subvolumes are.
    let is_whole = root == "/" || point == "/" || kind == "btrfs";
    let holds_data = source.starts_with("/dev/") || WITHOUT_DEVICE.contains(&&*kind);
    if !is_whole || !holds_data || FLEETING.iter().any(|folder| point.starts_with(folder)) {
        return None;
    }
    let mut options: Vec<String> = Vec::new();
    for option in own.split(',').chain(of_all.split(',')) {
        let name = option.split('=').next().unwrap_or(option);
        if !OWN.contains(&name) && !options.iter().any(|known| known == option) {
            options.push(option.to_owned());
        }
    }
    options.sort_unstable();
    Some(Mount { point, number: number.into_owned(), kind: kind.into_owned(), options })
}
