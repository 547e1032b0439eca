//! Whether the kernel shows where its functions are.

use std::io::Read as _;

use crate::host::Host;

/// What stands for the binary of kernel functions.
pub(super) const OBJECT: &str = "[kernel]";
/// As much of the list as must hold an address other than 0; variables of a CPU begin at 0.
const LOOK: u64 = 64 << 10;

/// Why the kernel's functions have no names here; none if they have.
pub(super) fn hidden(host: &Host) -> Option<String> {
    let mut text = Vec::new();
    match host.open("proc/kallsyms") {
        Ok(file) => drop(file.take(LOOK).read_to_end(&mut text)),
        Err(error) => return Some(format!("kernel functions have no names: {error}")),
    }
    all_zero(&text).then(|| {
        "kernel functions have no names: the kernel hides its addresses (it takes CAP_SYSLOG and \
         kernel.kptr_restrict below 2)"
            .to_owned()
    })
}

/// Whether no line begins with an address other than 0.
fn all_zero(text: &[u8]) -> bool {
    text.split(|byte| *byte == b'\n')
        .all(|line| line.iter().take_while(|byte| **byte != b' ').all(|byte| *byte == b'0'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_that_are_all_zero_are_hidden() {
        assert!(all_zero(b""));
        assert!(all_zero(b"0000000000000000 A fixed\n0000000000000000 T _text\n"));
        assert!(!all_zero(b"0000000000000000 A fixed\nffffffff81000000 T _text\n"));
    }
}
