//! Which pod and container a control group is: the kubelet links the log of each container by names that say so.

use rdiag_model::Setup;
use rdiag_model::setup::Container;

use super::Host;

/// Containers of one host: Kubernetes is made for 110 pods a node.
const MOST: usize = 2000;
/// Hexadecimal digits of an id.
const DIGITS: usize = 64;

/// `/var/log/containers/POD_NAMESPACE_CONTAINER-ID.log` and `/var/log/pods/NAMESPACE_POD_UID`, of the runtimes containerd, CRI-O and Docker
/// alike.
pub(super) fn read(host: &Host, setup: &mut Setup) {
    for name in host.list("var/log/containers").unwrap_or_default().iter().take(MOST) {
        if let Some((id, container)) = container(name) {
            setup.containers.insert(id, container);
        }
    }
    for name in host.list("var/log/pods").unwrap_or_default().iter().take(MOST) {
        let mut parts = name.splitn(3, '_');
        if let (Some(namespace), Some(pod), Some(uid)) = (parts.next(), parts.next(), parts.next())
            && uid.len() >= DIGITS / 2
            && uid.chars().all(|sign| sign.is_ascii_hexdigit() || sign == '-')
        {
            let container = Container { namespace: namespace.into(), pod: pod.into(), container: String::new() };
            setup.containers.insert(format!("pod{uid}"), container);
        }
    }
}

fn container(name: &str) -> Option<(String, Container)> {
    let (rest, id) = name.strip_suffix(".log")?.rsplit_once('-')?;
    let mut parts = rest.splitn(3, '_');
    let (pod, namespace, container) = (parts.next()?, parts.next()?, parts.next()?);
    let is_id = id.len() == DIGITS && id.chars().all(|digit| digit.is_ascii_hexdigit());
    is_id.then(|| {
        (id.to_owned(), Container { namespace: namespace.into(), pod: pod.into(), container: container.into() })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_container_is_known_by_the_link_to_its_log_and_nothing_else_is_one() {
        let id = "0123456789abcdef".repeat(4);
        let (found, names) = container(&format!("web-7d9f_shop_app-server-{id}.log")).unwrap();
        assert_eq!(
            (found, &*names.pod, &*names.namespace, &*names.container),
            (id.clone(), "web-7d9f", "shop", "app-server")
        );
        for name in [
            "",
            "x.log",
            "a_b_c-12.log",
            &format!("a_b-{id}.log"),
            &format!("a_b_c-{id}"),
            &format!("a_b_c-{}.log", "g".repeat(64)),
        ] {
            assert_eq!(container(name), None, "{name}");
        }
    }
}
