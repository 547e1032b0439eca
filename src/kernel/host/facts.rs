//! Gathering the facts, from the tree where it shows them and from sysinfo where the machine is the real one.

use super::Host;
use rdiag_model::Facts;
use rdiag_proc::{MountLine, cpuinfo, field, meminfo};

/// Reads the facts; `given` ones (of a recorded tree) win over what the files would say.
pub(super) fn gather(host: &Host, given: Option<Facts>) -> Facts {
    let mut facts = given.unwrap_or_default();
    let unset = Facts::default();
    let line = |path: &str| host.read_line(path).ok().filter(|text| !text.is_empty());
    if facts.hostname == unset.hostname {
        facts.hostname = line("proc/sys/kernel/hostname").unwrap_or(unset.hostname);
    }
    if facts.kernel == unset.kernel {
        facts.kernel = line("proc/sys/kernel/osrelease").unwrap_or(unset.kernel);
    }
    if facts.os == unset.os {
        facts.os = os_name(host).unwrap_or(unset.os);
    }
    if facts.cpus <= 1 {
        facts.cpus = line("sys/devices/system/cpu/online").and_then(|list| count_list(&list)).unwrap_or(facts.cpus);
    }
    facts.cpus_present =
        line("sys/devices/system/cpu/present").and_then(|list| count_list(&list)).unwrap_or(facts.cpus);
    if facts.memory_bytes == 0 {
        let text = host.read("proc/meminfo").unwrap_or_default();
        let total = meminfo(&text).find(|(name, _)| *name == "MemTotal");
        facts.memory_bytes = total.map_or(0, |(_, kibibytes)| kibibytes * 1024);
    }
    facts.uptime_seconds = line("proc/uptime")
        .and_then(|text| text.split_whitespace().next().and_then(|first| first.parse().ok()))
        .unwrap_or(facts.uptime_seconds);
    facts.virtual_machine |= is_virtual(host);
    facts.cgroup = cgroup_mode(host);
    if facts.container.is_none() {
        facts.container = container(host);
    }
    if !host.is_recorded() {
        own(&mut facts);
    }
    facts
}

/// What only the running process knows.
fn own(facts: &mut Facts) {
    facts.page_size = rustix::param::page_size() as u64;
    facts.ticks_per_second = rustix::param::clock_ticks_per_second();
    facts.uid = rustix::process::geteuid().as_raw();
    facts.pid = rustix::process::getpid().as_raw_nonzero().get().cast_unsigned();
    facts.arch = sysinfo::System::cpu_arch();
    #[expect(clippy::disallowed_methods, reason = "rdiag's own rights, whatever tree it looks at")]
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    facts.capabilities = field(&status, "CapEff:").and_then(|hex| u64::from_str_radix(hex, 16).ok()).unwrap_or(0);
    if facts.os == "unknown" {
        facts.os = sysinfo::System::long_os_version().unwrap_or_else(|_| "unknown".into());
    }
}

fn os_name(host: &Host) -> Option<String> {
    let text = host.read("etc/os-release").or_else(|_| host.read("usr/lib/os-release")).ok()?;
    let value = text.lines().find_map(|line| line.strip_prefix("PRETTY_NAME="))?;
    Some(value.trim().trim_matches('"').to_owned())
}

/// CPUs in a list such as `0-3,8`.
#[must_use]
pub(crate) fn count_list(list: &str) -> Option<u32> {
    let mut count = 0_u32;
    for part in list.trim().split(',') {
        let (low, high) = part.split_once('-').unwrap_or((part, part));
        let (low, high): (u32, u32) = (low.trim().parse().ok()?, high.trim().parse().ok()?);
        count = count.checked_add(high.checked_sub(low)?.checked_add(1)?)?;
    }
    Some(count)
}

fn is_virtual(host: &Host) -> bool {
    let flags = host.read("proc/cpuinfo").unwrap_or_default();
    cpuinfo(&flags, "flags").is_some_and(|flags| flags.split(' ').any(|flag| flag == "hypervisor"))
        || host.exists("sys/hypervisor/type")
}

fn cgroup_mode(host: &Host) -> String {
    if host.exists("sys/fs/cgroup/cgroup.controllers") {
        return "v2".into();
    }
    let v1 = ["cpu", "cpu,cpuacct", "memory"].iter().any(|name| host.exists(&format!("sys/fs/cgroup/{name}/tasks")));
    let unified = host.exists("sys/fs/cgroup/unified/cgroup.controllers");
    match (v1, unified) {
        (true, true) => "hybrid",
        (true, false) => "v1",
        (false, true) => "v2",
        (false, false) => "none",
    }
    .into()
}

/// Hints, each of which alone is enough to say so.
fn container(host: &Host) -> Option<String> {
    if host.exists(".dockerenv") {
        return Some("/.dockerenv exists".into());
    }
    if host.exists("run/.containerenv") {
        return Some("/run/.containerenv exists".into());
    }
    if let Ok(kind) = host.read_line("run/systemd/container") {
        return Some(format!("/run/systemd/container says {}", kind.chars().take(40).collect::<String>()));
    }
    // The root of the unified tree has no type; what stands in its place here is a group below it.
    if host.exists("sys/fs/cgroup/cgroup.type") {
        return Some("a namespace hides the control groups above this one".into());
    }
    // With lxcfs, files such as /proc/meminfo and /proc/stat show the container's share and not the host's.
    let mounts = host.read("proc/self/mountinfo").unwrap_or_default();
    if mounts.lines().any(is_of_lxcfs) {
        return Some("lxcfs stands in for files of /proc, which show the container".into());
    }
    let status = host.read("proc/self/status").unwrap_or_default();
    let ids = field(&status, "NSpid:").unwrap_or_default();
    (ids.split_whitespace().count() > 1).then(|| "rdiag runs in a nested PID namespace".into())
}

/// Whether a line of mountinfo has lxcfs stand in for a file of /proc.
fn is_of_lxcfs(line: &str) -> bool {
    MountLine::parse(line.as_bytes()).filter(|line| line.kind() == b"fuse.lxcfs").is_some_and(|line| {
        [line.root(), line.point(), line.source()].into_iter().flatten().any(|path| path.starts_with(b"/proc/"))
    })
}

#[cfg(test)]
mod tests {
    use super::{container, count_list};
    use crate::host::{Host, HostSpec};

    #[test]
    #[expect(clippy::disallowed_methods, reason = "the test's own tree")]
    fn a_container_is_known_by_any_of_its_signs() {
        let lxcfs = "90 23 0:50 /proc/meminfo /proc/meminfo rw - fuse.lxcfs lxcfs rw\n";
        let signs = [
            ("run/systemd/container", "lxc\n", Some("says lxc")),
            ("sys/fs/cgroup/cgroup.type", "domain\n", Some("a namespace hides")),
            ("proc/self/mountinfo", lxcfs, Some("lxcfs stands in")),
            ("proc/self/mountinfo", "90 23 0:50 / /var/lib/lxcfs rw - fuse.lxcfs lxcfs rw\n", None),
        ];
        for (path, text, expected) in signs {
            let root = tempfile::tempdir().unwrap();
            let place = root.path().join("t0").join(path);
            std::fs::create_dir_all(place.parent().unwrap()).unwrap();
            std::fs::write(place, text).unwrap();
            let found = container(&Host::recorded(root.path(), HostSpec { times: vec![0.0], ..HostSpec::default() }));
            match expected {
                Some(words) => assert!(found.as_ref().is_some_and(|how| how.contains(words)), "{found:?}"),
                None => assert_eq!(found, None, "a host that offers it to its containers"),
            }
        }
    }

    #[test]
    fn cpu_lists_are_counted_and_garbage_is_refused() {
        assert_eq!(count_list("0-3,8"), Some(5));
        assert_eq!(count_list("0"), Some(1));
        assert_eq!(count_list("3-1"), None);
        assert_eq!(count_list("a"), None);
        assert_eq!(count_list("0-4294967295"), None);
    }
}
