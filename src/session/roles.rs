//! Instances by names that other hosts use as well.

use rdiag_model::{Finding, Metrics, Recording};

/// Things that come and go: on another host the same name is not the same thing.
const FLEETING: [&str; 6] = ["process", "task", "thread", "udp_socket", "destination", "clock"];

/// Whether instances of a dimension are something that only this host has.
#[must_use]
pub fn is_fleeting(dimension: Option<&str>) -> bool {
    dimension.is_some_and(|dimension| FLEETING.contains(&dimension))
}

/// What an instance is for: `disk:root`, `net:default`, `cgroup:nginx.service`; where nothing tells that, its name.
#[must_use]
pub fn role(recording: &Recording, dimension: Option<&str>, instance: &str) -> String {
    let Some(dimension) = dimension.filter(|_| !instance.is_empty()) else { return instance.to_owned() };
    if let Some(role) = recording.setup.role(dimension, instance) {
        return role.to_owned();
    }
    if let Some(container) = super::containers::container(&recording.setup, instance) {
        // The pods of a deployment have names of their own on each host, their containers have not.
        return format!("container:{}/{}", container.namespace, container.container);
    }
    match dimension {
        "device" => format!("disk:{instance}"),
        "interface" => format!("net:{instance}"),
        "cgroup" | "cgroup_io" => format!("cgroup:{}", unit(instance)),
        _ => instance.to_owned(),
    }
}

/// `nginx.service` of `/system.slice/nginx.service`; the whole path of anything else, whose last part alone says too little.
fn unit(path: &str) -> &str {
    let last = path.rsplit('/').next().unwrap_or(path);
    let is_unit = [".service", ".slice", ".socket", ".mount"].iter().any(|ending| last.ends_with(ending));
    if is_unit { last } else { path }
}

/// The dimension of the thing that a finding is about.
#[must_use]
pub fn dimension_of(finding: &Finding) -> Option<&'static str> {
    let own = finding.evidence.iter().filter(|evidence| evidence.instance == finding.instance);
    own.filter_map(|evidence| super::catalogue::metric(&evidence.metric)?.dimension).next()
}

/// The name of a process, by its instance.
pub(super) fn process_name<'m>(metrics: &'m Metrics, dimension: &str, instance: &str) -> Option<&'m str> {
    metrics.labels.get(dimension)?.get(instance)?.get("name").map(String::as_str)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_unit_is_known_by_its_own_name_and_a_container_by_its_path() {
        assert_eq!(unit("/system.slice/nginx.service"), "nginx.service");
        assert_eq!(unit("/user.slice/user-1000.slice"), "user-1000.slice");
        assert_eq!(unit("/docker/0123"), "/docker/0123");
        assert_eq!(unit("/user.slice/session-3.scope"), "/user.slice/session-3.scope");
    }
}
