//! Where control groups are mounted and which groups there are, on v1, v2 and hybrid hosts alike.
//!
//! A controller lives in exactly one hierarchy, so the question is always "where is the cpu controller?", never
//! "which version is this host?".

mod mounts;
mod pressure;
mod watch;

pub use pressure::Pressures;
pub use watch::{Tally, Watch, container};

use super::Host;
use rdiag_model::{Reason, Unavailable};
use rdiag_proc::{Membership, memberships};

/// The interface that a hierarchy speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Version {
    /// One hierarchy for each controller, or for a few together.
    V1,
    /// The one unified hierarchy.
    V2,
}

impl Version {
    /// As labels show it.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::V1 => "v1",
            Self::V2 => "v2",
        }
    }
}

/// The mounted hierarchy of a controller.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hierarchy {
    /// Its interface.
    pub version: Version,
    /// The mount point, relative to the host's root (`sys/fs/cgroup/cpu`).
    pub mount: String,
    /// Path of the mount point's group within the hierarchy: "" for its root, `/docker/1` where only a part is mounted.
    pub top: String,
    /// Whether the real root is visible: with a cgroup namespace, or a part mounted, the groups above are hidden.
    pub whole: bool,
}

impl Hierarchy {
    /// The hierarchy that has this controller (`cpu`, `cpuacct`, `memory`, `pids` …).
    pub fn find(host: &Host, controller: &str) -> Result<Self, Unavailable> {
        let mounted = mounts::of(host);
        let unified = |mount: &&mounts::Mount| {
            mount.version == Version::V2 && controllers(host, &mount.directory).iter().any(|name| name == controller)
        };
        let own =
            |mount: &&mounts::Mount| mount.version == Version::V1 && mount.options.iter().any(|o| o == controller);
        let mount = mounted.iter().find(own).or_else(|| mounted.iter().find(unified));
        let mount = mount.ok_or_else(|| missing(host, controller, !mounted.is_empty()))?;
        Ok(Self::at(host, mount))
    }

    /// The unified hierarchy, whatever controllers it has.
    #[must_use]
    pub fn unified(host: &Host) -> Option<Self> {
        mounts::of(host).iter().find(|mount| mount.version == Version::V2).map(|mount| Self::at(host, mount))
    }

    fn at(host: &Host, mount: &mounts::Mount) -> Self {
        // Files that only a real root has (v1), or that only a real root lacks (v2).
        let is_root = match mount.version {
            Version::V1 => host.exists(&format!("{}/release_agent", mount.directory)),
            Version::V2 => !host.exists(&format!("{}/cgroup.type", mount.directory)),
        };
        let top = mount.top.trim_end_matches('/').to_owned();
        let whole = top.is_empty() && is_root;
        Self { version: mount.version, mount: mount.directory.clone(), top, whole }
    }

    /// Where a file of a group is, for [`Host::read`]. `group` is its path within the hierarchy.
    #[must_use]
    pub fn file(&self, group: &str, name: &str) -> String {
        format!("{}/{name}", self.directory(group))
    }

    /// Where a group is, for [`Host::list`].
    #[must_use]
    pub fn directory(&self, group: &str) -> String {
        let below = group.strip_prefix(self.top.as_str()).unwrap_or(group);
        format!("{}{}", self.mount, below.trim_end_matches('/'))
    }

    /// The inode of a group's directory: another one means another group of the same name. A recorded tree has none,
    /// since its copies have inodes of their own.
    #[must_use]
    pub fn inode(&self, host: &Host, group: &str) -> Option<u64> {
        if host.is_recorded() {
            return None;
        }
        host.owner_and_inode(&self.directory(group)).map(|(_, inode)| inode)
    }

    /// Path of the topmost group that is mounted here.
    #[must_use]
    pub fn first_group(&self) -> &str {
        if self.top.is_empty() { "/" } else { &self.top }
    }
}

/// The group of a process in a controller's hierarchy, from its /proc/PID/cgroup. Of two hierarchies that a hybrid host
/// has, the one that lists the controller wins; the unified one stands for what no other lists.
#[must_use]
pub fn group_of<'t>(text: &'t str, controller: &str) -> Option<&'t str> {
    let mut unified = None;
    for Membership { controllers: names, path, .. } in memberships(text).filter(|own| own.path.starts_with('/')) {
        if names.split(',').any(|name| name == controller) {
            return Some(path);
        }
        if names.is_empty() {
            unified = Some(path);
        }
    }
    unified
}

/// The value after `key` in a file of lines `key value`.
#[must_use]
pub fn keyed(text: &str, key: &str) -> Option<u64> {
    text.lines().find_map(|line| {
        let (found, value) = line.split_once(' ')?;
        if found == key { value.trim().parse().ok() } else { None }
    })
}

/// Controllers that a unified hierarchy has.
fn controllers(host: &Host, directory: &str) -> Vec<String> {
    let text = host.read_line(&format!("{directory}/cgroup.controllers")).unwrap_or_default();
    text.split_whitespace().map(str::to_owned).collect()
}

/// Why a controller has no hierarchy here.
fn missing(host: &Host, controller: &str, any_mounted: bool) -> Unavailable {
    let Ok(table) = host.read("proc/cgroups") else {
        return Unavailable::new(Reason::NotApplicable, "this kernel has no control groups");
    };
    // Newer kernels list only what v1 could use, so a missing line alone proves nothing where groups are mounted.
    if rdiag_proc::controllers(&table).find(|own| own.name == controller).is_some_and(|own| !own.is_enabled) {
        let why = format!("the {controller} controller is switched off in this kernel");
        return Unavailable::new(Reason::NotApplicable, why);
    }
    if host.facts().container.is_some() {
        let why = format!("no control groups of the {controller} controller are mounted in this container");
        return Unavailable::new(Reason::NotVisible, why).with_remedy("run rdiag on the host");
    }
    let why = if any_mounted {
        format!("no mounted hierarchy of control groups has the {controller} controller, so nothing limits it")
    } else {
        "no control groups are mounted, so nothing limits by them".to_owned()
    };
    Unavailable::new(Reason::NotApplicable, why)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn the_hierarchy_with_the_controller_tells_the_group_and_the_unified_one_stands_in() {
        let hybrid = "4:memory:/m/a:b\n1:cpu,cpuacct:/c\n0::/u\n";
        assert_eq!(group_of(hybrid, "cpu"), Some("/c"));
        assert_eq!(group_of(hybrid, "memory"), Some("/m/a:b"));
        assert_eq!(group_of(hybrid, "pids"), Some("/u"));
        assert_eq!(group_of("0::/a.slice\n", "cpu"), Some("/a.slice"));
        assert_eq!(group_of("9:name=systemd:/x\n", "cpu"), None);
        assert_eq!(group_of("garbage\n0::\n", "cpu"), None);
    }

    #[test]
    fn keys_are_whole_words_and_broken_values_are_no_values() {
        let text = "nr_periods 10\nnr_throttled\nthrottled_usec x\noom 1\noom_kill 2\n";
        assert_eq!(keyed(text, "nr_periods"), Some(10));
        assert_eq!(keyed(text, "nr_throttled"), None);
        assert_eq!(keyed(text, "throttled_usec"), None);
        assert_eq!(keyed(text, "oom"), Some(1));
        assert_eq!(keyed(text, "oom_kill"), Some(2));
        assert_eq!(keyed("a 99999999999999999999999", "a"), None);
    }

    proptest! {
        #[test]
        fn no_text_can_stop_the_parsers(text in ".{0,200}", key in "[a-z_]{0,8}") {
            let _ = (group_of(&text, &key), keyed(&text, &key));
        }
    }
}
