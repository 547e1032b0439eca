//! What prevents several mechanisms, known before anything is tried.

use crate::host::{FIRST_PID_NAMESPACE, Host};
use rdiag_model::{Reason, Unavailable};

/// Under lockdown=confidentiality no user, not even root, may look into the kernel; the kernel's own errors for that are many.
pub(super) fn lockdown(host: &Host, what: &str) -> Result<(), Unavailable> {
    let lockdown = host.read_line("sys/kernel/security/lockdown").unwrap_or_default();
    if lockdown.contains("[confidentiality]") {
        return Err(Unavailable::new(Reason::Disabled, format!("kernel lockdown (confidentiality) forbids {what}"))
            .with_remedy("boot without lockdown=confidentiality"));
    }
    Ok(())
}

/// Who sees other process ids than the kernel does would put everything down to the wrong ones.
pub(super) fn pid_namespace(host: &Host, who: &str) -> Result<(), Unavailable> {
    if host.link("proc/self/ns/pid").is_ok_and(|namespace| namespace != FIRST_PID_NAMESPACE) {
        let why = format!("rdiag sees other process ids than {who} (a process namespace of its own)");
        return Err(Unavailable::new(Reason::NotVisible, why)
            .with_remedy("run rdiag on the host, or with the host's process namespace"));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host::HostSpec;

    #[test]
    #[expect(clippy::disallowed_methods, reason = "a made-up tree, not the host")]
    fn lockdown_is_an_obstacle_in_its_strictest_mode_only() {
        let tree = tempfile::tempdir().unwrap();
        let folder = tree.path().join("t0/sys/kernel/security");
        std::fs::create_dir_all(&folder).unwrap();
        let says = |text: &str| {
            std::fs::write(folder.join("lockdown"), text).unwrap();
            lockdown(&Host::recorded(tree.path(), HostSpec::default()), "tracing")
        };
        assert!(says("none [integrity] confidentiality\n").is_ok());
        let told = says("none integrity [confidentiality]\n").unwrap_err();
        assert_eq!(
            (told.reason, told.why.as_str()),
            (Reason::Disabled, "kernel lockdown (confidentiality) forbids tracing")
        );
    }
}
