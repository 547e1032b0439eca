//! How the host is set up, without what is to stay on it.
//!
//! It is read on a thread that a hanging file cannot hold up. What disks and interfaces are for, by which hosts compare, follows from it
//! (`roles.rs`).

use sha2::Digest as _;

use rdiag_kernel::host::{self, SharedHost};
use rdiag_model::Setup;

/// Hexadecimal digits of a hash: enough to distinguish a million hosts.
const DIGITS: usize = 16;

/// What is recorded of a host beside its facts.
pub(super) fn of(host: &SharedHost) -> Setup {
    let (machine, boot) = host::setup::ids(host);
    let hashed = |purpose: &str, id: Option<String>| id.map(|id| hash(&format!("rdiag {purpose} {id}")));
    Setup { machine: hashed("machine", machine), boot: hashed("boot", boot), ..host::setup::read(host) }
}

/// The beginning of the SHA-256 of a text, in hexadecimal digits.
pub(super) fn hash(text: &str) -> String {
    let digits = sha2::Sha256::digest(text.as_bytes()).iter().map(|byte| format!("{byte:02x}")).collect::<String>();
    digits.chars().take(DIGITS).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_is_told_apart_and_not_told() {
        let (one, other) = (hash("rdiag machine 1"), hash("rdiag boot 1"));
        assert!(one.len() == DIGITS && one != other && one.chars().all(|digit| digit.is_ascii_hexdigit()));
    }
}
