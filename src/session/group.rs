//! One control group judged for itself: by its own limits, by those of the groups above it, which hold for it as well, and with those below it,
//! whose use counts for it. Its neighbours are no question then. All else is shared with the host and judged as ever.

use std::collections::VecDeque;

use super::containers;
use rdiag_judge::metrics;
use rdiag_kernel::host::cgroups::Hierarchy;
use rdiag_kernel::host::{Host, SharedHost, setup};
use rdiag_model::setup::Container;
use rdiag_model::{Facts, MetricDef, Metrics, Reading, Reason, Setup, Target, Unavailable, Window};

/// Controllers whose hierarchy is asked for groups, in this order.
const CONTROLLERS: [&str; 4] = ["memory", "cpu", "pids", "io"];
/// Groups that are looked at for a pod: a node has a few for each of its 110.
const MOST_GROUPS: usize = 5000;
/// Pods that are named where another one was asked for.
const MOST_NAMED: usize = 5;

/// Folders below the mount point that are a hierarchy of version 1, or the unified one beside them.
const TREES: [&str; 8] = ["memory", "cpu,cpuacct", "cpu", "cpuacct", "pids", "blkio", "systemd", "unified"];

/// The path of a control group as /proc/PID/cgroup shows it, of what people type: with or without the mount point or a slash before it.
fn path_of(typed: &str) -> String {
    let below = match typed.strip_prefix("/sys/fs/cgroup/") {
        None => typed,
        Some(below) => match below.split_once('/') {
            Some((tree, rest)) if TREES.contains(&tree) => rest,
            _ => below,
        },
    };
    format!("/{}", below.trim_matches('/'))
}

fn hierarchies(host: &Host) -> impl Iterator<Item = Hierarchy> {
    CONTROLLERS.iter().filter_map(|controller| Hierarchy::find(host, controller).ok()).chain(Hierarchy::unified(host))
}

/// Whether there is such a control group.
#[must_use]
pub fn is_group(host: &Host, typed: &str) -> bool {
    let path = path_of(typed);
    hierarchies(host).any(|hierarchy| host.exists(&hierarchy.directory(&path)))
}

/// The control group of a pod of Kubernetes (`POD` or `NAMESPACE/POD`), or of one of its containers (`NAMESPACE/POD/CONTAINER`).
///
/// # Errors
/// When this host runs none of that name, or several; the sentence says which there are.
pub fn group_of_pod(host: &SharedHost, asked: &str) -> Result<String, String> {
    let setup = setup::read(host);
    if setup.containers.is_empty() {
        return Err("the pods of this host are not known: there is nothing of the kubelet in /var/log/pods and /var/log/containers".into());
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
        [_] => topmost(host, &setup, &is_asked).ok_or_else(|| {
            format!("the kubelet knows the pod {asked}, and no control group is its: it may have ended")
        }),
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
fn topmost(host: &Host, setup: &Setup, is_asked: &dyn Fn(&Container) -> bool) -> Option<String> {
    hierarchies(host).find_map(|hierarchy| {
        let mut queue = VecDeque::from([hierarchy.first_group().to_owned()]);
        let mut seen = 0;
        while let Some(group) = queue.pop_front() {
            if containers::container(setup, &group).is_some_and(is_asked) {
                return Some(group);
            }
            seen += 1;
            if seen >= MOST_GROUPS {
                break;
            }
            for name in host.subdirectories(&hierarchy.directory(&group)).unwrap_or_default() {
                queue.push_back(format!("{}/{name}", group.trim_end_matches('/')));
            }
        }
        None
    })
}

/// The metrics of a window: all of them, or of control groups those that concern the one that was asked for.
pub(super) fn evaluate(
    window: &Window,
    facts: &Facts,
    catalogue: &[(&'static str, &'static MetricDef)],
    target: &Target,
) -> Metrics {
    let mut metrics = metrics::evaluate(window, facts, catalogue);
    if let Some(typed) = &target.cgroup {
        keep(&mut metrics, &path_of(typed));
    }
    metrics
}

/// Leaves the groups that concern `group`.
fn keep(metrics: &mut Metrics, group: &str) {
    for reading in metrics.readings.values_mut() {
        let Reading::Measured { dimension: Some(dimension), instances, .. } = reading else { continue };
        if dimension != "cgroup" || instances.is_empty() {
            continue;
        }
        instances.retain(|instance, _| concerns(instance, group));
        if instances.is_empty() {
            let why = format!("neither the control group {group} nor one above or below it has this");
            *reading = Reading::Unavailable(Unavailable::new(Reason::NotApplicable, why));
        }
    }
}

/// Whether a group is this one, lies below it, or above it; what stands for groups that were not looked at (`(groups left out)`) may be any.
fn concerns(instance: &str, group: &str) -> bool {
    let is_below = |path: &str, top: &str| {
        path.strip_prefix(top.trim_end_matches('/')).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    };
    instance.starts_with('(') || is_below(instance, group) || is_below(group, instance)
}

#[cfg(test)]
mod tests {
    use super::*;
    use rdiag_model::{Stats, Unit};

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
        assert_eq!(path_of("/"), "/");
    }

    #[test]
    fn groups_above_and_below_concern_it_and_neighbours_do_not() {
        for (instance, expected) in [
            ("/shop", true),
            ("/shop/web", true),
            ("/shop/web/worker", true),
            ("/", true),
            ("(groups left out)", true),
            ("/shop/webdav", false),
            ("/shop/db", false),
            ("/sho", false),
        ] {
            assert_eq!(concerns(instance, "/shop/web"), expected, "{instance}");
        }
        assert!(concerns("/shop", "/"));
    }

    #[test]
    fn what_no_group_of_them_has_does_not_apply_and_other_dimensions_stay() {
        let reading = |dimension: &str, instance: &str| Reading::Measured {
            unit: Unit::Ratio,
            dimension: Some(dimension.into()),
            source: "x".into(),
            rank: 0,
            instances: [(instance.to_owned(), Ok(Stats::constant(0.5)))].into(),
        };
        let mut metrics = Metrics::default();
        metrics.readings.insert("cgroup.a".into(), reading("cgroup", "/shop/db"));
        metrics.readings.insert("cgroup.b".into(), reading("cgroup", "/shop/web"));
        metrics.readings.insert("disk.a".into(), reading("device", "vda"));
        keep(&mut metrics, "/shop/web");
        let Some(Reading::Unavailable(gap)) = metrics.readings.get("cgroup.a") else { panic!("it stayed") };
        assert_eq!(gap.reason, Reason::NotApplicable);
        assert!(metrics.measured("cgroup.b", "/shop/web").is_some() && metrics.measured("disk.a", "vda").is_some());
    }
}
