//! /proc/PID/cgroup and /proc/cgroups.

/// In which group of a hierarchy a process is: a line such as `4:cpu,cpuacct:/a/b`, or `0::/a/b` for the unified one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Membership<'t> {
    /// Number of the hierarchy.
    pub hierarchy: &'t str,
    /// Its controllers, with commas between them; none of the unified one.
    pub controllers: &'t str,
    /// Path of the group. It may hold colons.
    pub path: &'t str,
}

/// What /proc/PID/cgroup says; a line with a field missing is left out.
pub fn memberships(text: &str) -> impl Iterator<Item = Membership<'_>> {
    text.lines().filter_map(|line| {
        let mut fields = line.splitn(3, ':');
        Some(Membership { hierarchy: fields.next()?, controllers: fields.next()?, path: fields.next()? })
    })
}

/// A controller that the kernel has for hierarchies of version 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Controller<'t> {
    /// `cpuacct`.
    pub name: &'t str,
    /// Groups in its hierarchy, dying ones among them.
    pub groups: Option<u64>,
    /// Whether it was not switched off at boot.
    pub is_enabled: bool,
}

/// The lines `name hierarchy groups enabled` of /proc/cgroups: the place of each is the kernel's number of the controller.
pub fn controllers(text: &str) -> impl Iterator<Item = Controller<'_>> {
    text.lines().filter(|line| !line.starts_with('#')).map(|line| {
        let mut fields = line.split_whitespace();
        let name = fields.next().unwrap_or_default();
        let groups = fields.nth(1).and_then(|count| count.parse().ok());
        Controller { name, groups, is_enabled: fields.next().is_none_or(|flag| flag != "0") }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_may_hold_colons_and_a_short_line_is_left_out() {
        let found: Vec<_> = memberships("4:cpu,cpuacct:/a:b\ngarbage\n1:name\n0::/u\n").collect();
        let of = |hierarchy, controllers, path| Membership { hierarchy, controllers, path };
        assert_eq!(found, [of("4", "cpu,cpuacct", "/a:b"), of("0", "", "/u")]);
    }

    #[test]
    fn controllers_are_counted_from_behind_the_heading() {
        let text = "#subsys_name\thierarchy\tnum_cgroups\tenabled\ncpu\t2\t14\t1\nmemory\t0\t1\t0\npids\n";
        let found: Vec<_> = controllers(text).collect();
        let of = |name, groups, is_enabled| Controller { name, groups, is_enabled };
        assert_eq!(found, [of("cpu", Some(14), true), of("memory", Some(1), false), of("pids", None, true)]);
    }

    proptest::proptest! {
        #[test]
        fn any_text_is_survived(text in "(.|\\n){0,200}") {
            let _ = (memberships(&text).count(), controllers(&text).count());
        }
    }
}
