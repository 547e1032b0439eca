//! Whether the kernel shows where its functions are.

use std::io::{BufRead as _, Read as _};

use crate::host::Host;

/// What stands for the binary of kernel functions.
pub(super) const OBJECT: &str = "[kernel]";
/// As much of the list as must hold an address other than 0; variables of a CPU begin at 0.
const LOOK: u64 = 64 << 10;
/// The whole list is no longer.
const MAX_LIST: u64 = 256 << 20;

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

/// Where a function of the running kernel is.
pub(super) fn address_of(host: &Host, name: &str) -> Option<u64> {
    let lines = std::io::BufReader::new(host.open("proc/kallsyms").ok()?.take(MAX_LIST)).lines();
    lines.map_while(Result::ok).find_map(|line| {
        let mut fields = line.split_whitespace();
        let address = u64::from_str_radix(fields.next()?, 16).ok()?;
        (fields.nth(1)? == name && fields.next().is_none()).then_some(address)
    })
}

/// The build id of the running kernel: a note of type 3 of `GNU`.
pub(super) fn build_id(host: &Host) -> Option<Vec<u8>> {
    build_id_in(&host.read_bytes("sys/kernel/notes").ok()?)
}

fn build_id_in(mut notes: &[u8]) -> Option<Vec<u8>> {
    let number = |notes: &[u8], at: usize| Some(u32::from_ne_bytes(notes.get(at..at + 4)?.try_into().ok()?) as usize);
    loop {
        let (name, content, kind) = (number(notes, 0)?, number(notes, 4)?, number(notes, 8)?);
        let (from, padded) = (12 + name.checked_next_multiple_of(4)?, content.checked_next_multiple_of(4)?);
        if kind == 3 && notes.get(12..12 + name)? == b"GNU\0" {
            return notes.get(from..from.checked_add(content)?).map(<[u8]>::to_vec);
        }
        notes = notes.get(from.checked_add(padded)?..)?;
    }
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
    fn the_build_id_is_found_among_other_notes() {
        let note = |kind: u32, name: &[u8], content: &[u8]| {
            let mut note = Vec::new();
            for number in [name.len() as u32, content.len() as u32, kind] {
                note.extend(number.to_ne_bytes());
            }
            for part in [name, content] {
                note.extend(part);
                note.resize(note.len().next_multiple_of(4), 0);
            }
            note
        };
        let notes = [note(6, b"Linux\0", b"abcde"), note(3, b"GNU\0", &[7; 20])].concat();
        assert_eq!(build_id_in(&notes), Some(vec![7; 20]));
        assert_eq!(build_id_in(&notes[..40]), None);
        assert_eq!(build_id_in(&[0xff; 64]), None);
    }

    #[test]
    fn addresses_that_are_all_zero_are_hidden() {
        assert!(all_zero(b""));
        assert!(all_zero(b"0000000000000000 A fixed\n0000000000000000 T _text\n"));
        assert!(!all_zero(b"0000000000000000 A fixed\nffffffff81000000 T _text\n"));
    }
}
