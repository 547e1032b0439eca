//! Which boot of the machine this is.

/// The running boot of the machine; empty where /proc does not tell.
#[must_use]
pub fn boot_id() -> String {
    #[expect(clippy::disallowed_methods, reason = "when rdiag itself runs, not what is looked at")]
    let text = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    text.trim().to_owned()
}
