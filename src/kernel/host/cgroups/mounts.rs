//! Mounted hierarchies, from /proc/self/mountinfo, or by their usual names where that file does not help.

use super::Version;
use crate::host::Host;
use rdiag_proc::{MountLine, unescaped};

/// A mount of a hierarchy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Mount {
    pub(super) version: Version,
    /// The mount point, relative to the host's root.
    pub(super) directory: String,
    /// The group at the mount point: `/`, or another one where a part is mounted.
    pub(super) top: String,
    /// Controllers, among other options of the file system; empty for v2.
    pub(super) options: Vec<String>,
}

/// The mounted hierarchies; those that show more of their hierarchy come first.
pub(super) fn of(host: &Host) -> Vec<Mount> {
    let text = host.read("proc/self/mountinfo").unwrap_or_default();
    let mut mounts: Vec<Mount> = Vec::new();
    for mount in text.lines().filter_map(parse) {
        // What is mounted later at the same place hides what was there.
        mounts.retain(|other| other.directory != mount.directory);
        mounts.push(mount);
    }
    // Seen through another root than the mount table's, the mount points may not be there.
    mounts.retain(|mount| host.exists(&mount.directory));
    if mounts.is_empty() {
        mounts = by_name(host);
    }
    mounts.sort_by_key(|mount| (mount.top.trim_end_matches('/').len(), mount.directory.len()));
    mounts
}

/// A line of mountinfo, if it mounts a hierarchy: `36 25 0:32 TOP POINT rw shared:1 - cgroup NAME rw,cpu,cpuacct`.
fn parse(line: &str) -> Option<Mount> {
    let line = MountLine::parse(line.as_bytes())?;
    let version = match line.kind() {
        b"cgroup" => Version::V1,
        b"cgroup2" => Version::V2,
        _ => return None,
    };
    let directory = unescaped(line.point()?).trim_start_matches('/').to_owned();
    let options = match version {
        Version::V1 => String::from_utf8_lossy(line.super_options()?).split(',').map(str::to_owned).collect(),
        Version::V2 => Vec::new(),
    };
    Some(Mount { version, directory, top: unescaped(line.root()?), options })
}

/// Where distributions mount them.
fn by_name(host: &Host) -> Vec<Mount> {
    let unified = ["sys/fs/cgroup", "sys/fs/cgroup/unified"];
    let found = unified.into_iter().filter(|directory| host.exists(&format!("{directory}/cgroup.controllers")));
    let mut mounts: Vec<Mount> = found.map(|directory| mount(Version::V2, directory, "")).collect();
    for name in ["cpu,cpuacct", "cpuacct,cpu", "cpu", "cpuacct", "memory", "pids", "blkio", "freezer"] {
        let directory = format!("sys/fs/cgroup/{name}");
        if host.exists(&format!("{directory}/cgroup.procs")) || host.exists(&format!("{directory}/tasks")) {
            mounts.push(mount(Version::V1, &directory, name));
        }
    }
    mounts
}

fn mount(version: Version, directory: &str, options: &str) -> Mount {
    let options = options.split(',').map(str::to_owned).collect();
    Mount { version, directory: directory.to_owned(), top: "/".into(), options }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn hierarchies_are_recognised_with_their_controllers_and_other_mounts_are_not() {
        let v1 = parse("32 31 0:29 / /sys/fs/cgroup/cpu rw,relatime shared:9 - cgroup cgroup rw,cpu,cpuacct").unwrap();
        assert_eq!((v1.version, v1.directory.as_str(), v1.top.as_str()), (Version::V1, "sys/fs/cgroup/cpu", "/"));
        assert_eq!(v1.options, ["rw", "cpu", "cpuacct"]);
        let v2 = parse("41 31 0:38 /../a /sys/fs/cgroup rw - cgroup2 cgroup2 rw,nsdelegate").unwrap();
        assert_eq!((v2.version, v2.top.as_str()), (Version::V2, "/../a"));
        assert_eq!(parse("23 27 0:22 / /sys rw,relatime - sysfs sysfs rw"), None);
        assert_eq!(parse("32 31 0:29 / /sys/fs/cgroup/cpu rw - cgroup"), None);
        assert_eq!(parse(""), None);
    }

    #[test]
    fn a_mount_point_with_a_space_is_found() {
        let spaced = parse(r"41 31 0:38 / /my\040groups rw - cgroup2 cgroup2 rw").unwrap();
        assert_eq!(spaced.directory, "my groups");
    }

    proptest! {
        #[test]
        fn no_line_can_stop_the_parser(line in ".{0,120}", path in r"[\\0-9a/]{0,20}") {
            let _ = (parse(&line), parse(&format!("1 1 0:1 {path} {path} rw - cgroup x {line}")));
        }
    }
}
