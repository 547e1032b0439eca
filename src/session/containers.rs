//! Findings about control groups of Kubernetes name pod, container and namespace.

use rdiag_model::setup::Container;
use rdiag_model::{Finding, Setup};

/// The pod and container of a control group: the last part of its path that is one.
///
/// containerd, CRI-O and Docker, with the drivers systemd and cgroupfs, in both versions of control groups:
/// `/kubepods/burstable/podUID/ID`, `/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-podUID.slice/cri-containerd-ID.scope`,
/// `crio-ID.scope`, `docker-ID.scope`, `/system.slice/containerd.service/kubepods-podUID.slice:cri-containerd:ID`. In a name of systemd the
/// UID has `_` for `-`.
pub(super) fn container<'s>(setup: &'s Setup, path: &str) -> Option<&'s Container> {
    if setup.containers.is_empty() {
        return None;
    }
    path.rsplit(['/', ':']).find_map(|part| {
        // The process of CRI-O that watches a container is not in it.
        if part.starts_with("crio-conmon-") {
            return None;
        }
        let part = part.trim_end_matches(".scope").trim_end_matches(".slice");
        let last = part.rsplit('-').next().unwrap_or(part);
        let pod = part.rfind("pod").and_then(|at| part.get(at..)).map(|pod| pod.replace('_', "-"));
        setup.containers.get(last).or_else(|| setup.containers.get(&pod?))
    })
}

/// `pod shop/web-7d9f, container app`.
fn words(container: &Container) -> String {
    let Container { namespace, pod, container } = container;
    if container.is_empty() {
        format!("pod {namespace}/{pod}")
    } else {
        format!("pod {namespace}/{pod}, container {container}")
    }
}

/// Puts the names where the path of a control group stands.
pub(super) fn name(findings: &mut [Finding], setup: &Setup) {
    if setup.containers.is_empty() {
        return;
    }
    for finding in findings {
        if let Some(path) = finding.instance.clone()
            && let Some(found) = container(setup, &path)
        {
            finding.summary = if finding.summary.contains(&path) {
                finding.summary.replace(&path, &words(found))
            } else {
                format!("{}: {}", words(found), finding.summary)
            };
        }
        if let Some(culprit) = &mut finding.culprit {
            let path = if culprit.kind == "cgroup" { Some(&culprit.name) } else { culprit.labels.get("cgroup") };
            if let Some(found) = path.and_then(|path| container(setup, path)) {
                let text = words(found);
                if culprit.kind == "cgroup" {
                    culprit.labels.insert("cgroup".into(), std::mem::replace(&mut culprit.name, text.clone()));
                }
                culprit.labels.insert("pod".into(), text);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ID: &str = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";
    const UID: &str = "8e2a6bcb-5b49-4b71-9a9c-0d9a0f1f5d3e";

    fn setup() -> Setup {
        let own =
            |container: &str| Container { namespace: "shop".into(), pod: "web-1".into(), container: container.into() };
        Setup { containers: [(ID.to_owned(), own("app")), (format!("pod{UID}"), own(""))].into(), ..Setup::default() }
    }

    #[test]
    fn the_paths_of_all_runtimes_and_drivers_lead_to_the_container() {
        let under = UID.replace('-', "_");
        let slice = format!("/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod{under}.slice");
        for path in [
            format!("{slice}/cri-containerd-{ID}.scope"),
            format!("{slice}/crio-{ID}.scope"),
            format!("{slice}/docker-{ID}.scope"),
            format!("{slice}/cri-containerd-{ID}.scope/init.scope"),
            format!("/kubepods/burstable/pod{UID}/{ID}"),
            format!("/kubepods/pod{UID}/crio-{ID}"),
            format!("/system.slice/containerd.service/kubepods-burstable-pod{under}.slice:cri-containerd:{ID}"),
            format!("/docker/{ID}"),
        ] {
            assert_eq!(
                container(&setup(), &path).map(words).as_deref(),
                Some("pod shop/web-1, container app"),
                "{path}"
            );
        }
        for path in [slice.clone(), format!("/kubepods/besteffort/pod{UID}"), format!("{slice}/crio-conmon-{ID}.scope")]
        {
            assert_eq!(container(&setup(), &path).map(words).as_deref(), Some("pod shop/web-1"), "{path}");
        }
        for path in
            ["", "/", "/system.slice/nginx.service", "/kubepods.slice/kubepods-podx.slice", "/podman", "/docker/0123"]
        {
            assert_eq!(container(&setup(), path), None, "{path}");
        }
    }
}
