//! One control group: found by what people type, or by a pod of Kubernetes, and judged for itself (`judged.rs`).

mod judged;

use std::collections::VecDeque;

pub(super) use self::judged::{GroupJudge, judges_groups};
use super::containers;
use rdiag_kernel::host::cgroups::Hierarchy;
use rdiag_kernel::host::{Host, SharedHost, setup};
use rdiag_model::Setup;
use rdiag_model::setup::Container;
use rdiag_proc::memberships;

/// Controllers whose hierarchy is asked for groups, in this order.
const CONTROLLERS: [&str; 4] = ["memory", "cpu", "pids", "io"];
/// Groups that are looked at for a pod: a node has a few for each of its 110.
const MOST_GROUPS: usize = 5000;
/// Pods that are named where another one was asked for.
const MOST_NAMED: usize = 5;

/// The mount point of control groups, as people type it.
const MOUNTED: &str = "/sys/fs/cgroup";
/// Folders below it that are a hierarchy of version 1, or the unified one beside them.
const TREES: [&str; 8] = ["memory", "cpu,cpuacct", "cpu", "cpuacct", "pids", "blkio", "systemd", "unified"];

/// The path of a control group as /proc/PID/cgroup shows it, of what people type: with or without the mount point or a slash before it.
pub(super) fn path_of(typed: &str) -> String {
    let below = match typed.strip_prefix(MOUNTED) {
        Some(below) if below.is_empty() || below.starts_with('/') => {
            let below = below.trim_start_matches('/');
            let (tree, rest) = below.split_once('/').unwrap_or((below, ""));
            if TREES.contains(&tree) { rest } else { below }
        }
        _ => typed,
    };
    format!("/{}", below.trim_matches('/'))
}

/// Each mounted hierarchy once.
fn hierarchies(host: &Host) -> Vec<Hierarchy> {
    let mut all: Vec<Hierarchy> = Vec::new();
    let found = CONTROLLERS.iter().filter_map(|controller| Hierarchy::find(host, controller).ok());
    for hierarchy in found.chain(Hierarchy::unified(host)) {
        if all.iter().all(|known| known.mount != hierarchy.mount) {
            all.push(hierarchy);
        }
    }
    all
}

/// The control group that was typed, if there is one; where the mount point was typed too, its path without it.
///
/// Of hierarchies of other controllers, a group is known by the processes in it.
#[must_use]
pub fn named_group(host: &Host, typed: &str) -> Option<String> {
    let path = path_of(typed);
    let is_plain = path == "/" || path.split('/').skip(1).all(|part| !matches!(part, "" | "." | ".."));
    let is_there =
        || hierarchies(host).iter().any(|hierarchy| host.subdirectories(&hierarchy.directory(&path)).is_ok());
    (is_plain && (is_there() || has_a_process(host, &path)))
        .then(|| if typed.starts_with(MOUNTED) { path } else { typed.to_owned() })
}

/// Whether a process is in this group, or below it, of any hierarchy.
fn has_a_process(host: &Host, path: &str) -> bool {
    let is_pid = |name: &&String| name.bytes().all(|byte| byte.is_ascii_digit());
    let is_in = |pid: &String| {
        let text = host.read(&format!("proc/{pid}/cgroup")).unwrap_or_default();
        memberships(&text).any(|own| is_below(own.path, path))
    };
    host.list("proc").unwrap_or_default().iter().filter(is_pid).any(is_in)
}

/// The control group of a pod of Kubernetes (`POD` or `NAMESPACE/POD`), or of one of its containers (`NAMESPACE/POD/CONTAINER`).
///
/// # Errors
/// When this host runs none of that name, or several; the sentence says which there are.
pub fn group_of_pod(host: &SharedHost, asked: &str) -> Result<String, String> {
    let setup = setup::read(host);
    if setup.containers.is_empty() {
        return Err("the pods of this host are not known: /var/log/pods and /var/log/containers, which the kubelet keeps, show none".into());
    }
    let parts: Vec<&str> = asked.split('/').collect();
    let is_asked = |own: &Container| match parts.as_slice() {
        [pod] => own.pod == *pod,
        [namespace, pod] => own.namespace == *namespace && own.pod == *pod,
        [namespace, pod, container] => own.namespace == *namespace && own.pod == *pod && own.container == *container,
        _ => false,
    };
    let mut known: Vec<&Container> = setup.containers.values().filter(|own| is_asked(own)).collect();
    known.sort_by_key(|own| (&own.namespace, &own.pod));
    known.dedup_by_key(|own| (&own.namespace, &own.pod));
    match known.as_slice() {
        [] => Err(format!("no pod {asked} runs here; {}", others(&setup))),
        [_] => topmost(host, &setup, &is_asked).map_err(|why| format!("its control group was not found: {why}")),
        several => {
            let named: Vec<String> = several.iter().map(|own| format!("{}/{}", own.namespace, own.pod)).collect();
            Err(format!("several pods are named {asked}: {}", named.join(", ")))
        }
    }
}

/// Some of the pods that there are.
fn others(setup: &Setup) -> String {
    let mut pods: Vec<String> = setup.containers.values().map(|own| format!("{}/{}", own.namespace, own.pod)).collect();
    pods.sort();
    pods.dedup();
    let more = if pods.len() > MOST_NAMED { format!(" and {} more", pods.len() - MOST_NAMED) } else { String::new() };
    pods.truncate(MOST_NAMED);
    format!("there are {}{more}", pods.join(", "))
}

/// The group nearest to the root that belongs to what was asked for: a pod's own stands above those of its containers.
fn topmost(host: &Host, setup: &Setup, is_asked: &dyn Fn(&Container) -> bool) -> Result<String, String> {
    let (mut is_cut, mut is_hidden) = (false, false);
    for hierarchy in hierarchies(host) {
        is_hidden |= !hierarchy.whole;
        let mut queue = VecDeque::from([hierarchy.first_group().to_owned()]);
        let mut seen = 0;
        while let Some(group) = queue.pop_front() {
            if containers::container(setup, &group).is_some_and(is_asked) {
                return Ok(group);
            }
            seen += 1;
            for name in host.subdirectories(&hierarchy.directory(&group)).unwrap_or_default() {
                if seen + queue.len() >= MOST_GROUPS {
                    is_cut = true;
                    break;
                }
                queue.push_back(format!("{}/{name}", group.trim_end_matches('/')));
            }
        }
    }
    Err(match (is_hidden, is_cut) {
        (true, _) => "a namespace hides the groups of other pods here; run rdiag on the node itself".into(),
        (_, true) => format!("this host has more than {MOST_GROUPS} control groups; give its path by --cgroup"),
        _ => "none on this host belongs to the pod, which may have ended".into(),
    })
}

/// Whether a path is that of a group, or of one below it.
fn is_below(path: &str, top: &str) -> bool {
    path.strip_prefix(top.trim_end_matches('/')).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_group_is_known_by_what_people_type() {
        for typed in [
            "/a/b.service",
            "a/b.service",
            "/sys/fs/cgroup/a/b.service",
            "a/b.service/",
            "/sys/fs/cgroup/memory/a/b.service",
        ] {
            assert_eq!(path_of(typed), "/a/b.service", "{typed}");
        }
        for typed in ["/", "/sys/fs/cgroup", "/sys/fs/cgroup/", "/sys/fs/cgroup/memory"] {
            assert_eq!(path_of(typed), "/", "{typed}");
        }
        assert_eq!(path_of("/sys/fs/cgroups/a"), "/sys/fs/cgroups/a");
    }
}
