//! Entries as `journalctl -o export` prints them: a field on each line and an empty line after each entry. A value that is no text of one
//! line has its length before it, in 8 bytes, the lowest first.

use super::TIME;
use super::entries::{Fields, Journal};

/// Whether it begins with a field that journalctl prints first.
pub(super) fn is(bytes: &[u8]) -> bool {
    ["__CURSOR", TIME].iter().any(|name| bytes.strip_prefix(name.as_bytes()).is_some_and(|rest| rest.starts_with(b"=")))
}

/// Reads all entries.
pub(super) fn read(mut bytes: &[u8], journal: &mut Journal) -> Result<(), String> {
    let (mut fields, mut is_begun) = (Fields::default(), false);
    while let Some(end) = bytes.iter().position(|byte| *byte == b'\n') {
        let (line, rest) = (bytes.get(..end).unwrap_or_default(), bytes.get(end + 1..).unwrap_or_default());
        bytes = rest;
        if line.is_empty() {
            if std::mem::take(&mut is_begun) {
                journal.add(std::mem::take(&mut fields))?;
            }
            continue;
        }
        is_begun = true;
        let (name, value) = match line.iter().position(|byte| *byte == b'=') {
            Some(at) => (line.get(..at), line.get(at + 1..)),
            None => {
                let Some((value, rest)) = counted(bytes) else {
                    journal.is_cut_off = true;
                    return Ok(());
                };
                bytes = rest;
                (Some(line), Some(value))
            }
        };
        if let (Some(Ok(name)), Some(value)) = (name.map(std::str::from_utf8), value) {
            fields.put(name, value);
        }
    }
    // After the last entry is an empty line as well.
    journal.is_cut_off = is_begun || !bytes.is_empty();
    Ok(())
}

/// A value with its length before it, and what follows its line.
fn counted(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let (length, rest) = bytes.split_first_chunk::<8>()?;
    let length = usize::try_from(u64::from_le_bytes(*length)).ok()?;
    let value = rest.get(..length)?;
    Some((value, rest.get(length..)?.strip_prefix(b"\n")?))
}
