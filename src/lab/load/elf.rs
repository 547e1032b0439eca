//! Programs of a few bytes, written by ourselves: one that runs, and such as tools accept and the kernel refuses. And the other way
//! round: which entry of the table of segments is the odd one.
//!
//! elf(5): the place of a loadable segment in the file and its address must be the same modulo the size of a page, since the kernel can
//! only map whole pages. `readelf` prints both numbers and does not compare them.

use super::kinds::Flaw;

const PAGE: u64 = 0x1000;
/// Where the program lies in memory.
const BASE: u64 = 0x40_0000;
const HEADER_BYTES: u64 = 64;
const ENTRY_BYTES: u64 = 56;
const PT_LOAD: u32 = 1;
const PT_INTERP: u32 = 3;
/// What does not lie at the beginning of a page although its address does.
const OFF: u64 = 0x10;
/// No distribution has a loader of this name.
const INTERPRETER: &[u8] = b"/lib/ld-lab.so.9\0";

/// `exit(42)` in machine code.
#[cfg(target_arch = "x86_64")]
const CODE: &[u8] = &[0xb8, 0x3c, 0, 0, 0, 0xbf, 0x2a, 0, 0, 0, 0x0f, 0x05];
#[cfg(target_arch = "x86_64")]
const MACHINE: u16 = 62;
#[cfg(target_arch = "aarch64")]
const CODE: &[u8] = &[0x40, 0x05, 0x80, 0xd2, 0xa8, 0x0b, 0x80, 0xd2, 0x01, 0, 0, 0xd4];
#[cfg(target_arch = "aarch64")]
const MACHINE: u16 = 183;

/// One line of the table of segments.
#[derive(Debug, Clone, Copy)]
struct Segment {
    kind: u32,
    flags: u32,
    offset: u64,
    address: u64,
    bytes: u64,
}

/// A program with `segments` ordinary loadable segments and, last of all, the flaw; without one it ends with exit code 42.
#[must_use]
pub(super) fn program(segments: u32, flaw: Option<Flaw>) -> Vec<u8> {
    let page = |number: u64| (number * PAGE, BASE + number * PAGE);
    let mut table = vec![
        Segment { kind: PT_LOAD, flags: 4, offset: 0, address: BASE, bytes: PAGE },
        Segment { kind: PT_LOAD, flags: 5, offset: PAGE, address: BASE + PAGE, bytes: CODE.len() as u64 },
    ];
    for number in 2..u64::from(segments.max(2)) {
        let (offset, address) = page(number);
        table.push(Segment { kind: PT_LOAD, flags: 4, offset, address, bytes: OFF });
    }
    let (offset, address) = page(table.len() as u64);
    match flaw {
        Some(Flaw::Misaligned) => {
            table.push(Segment { kind: PT_LOAD, flags: 6, offset: offset + OFF, address, bytes: OFF });
        }
        Some(Flaw::Interpreter) => {
            table.push(Segment { kind: PT_INTERP, flags: 4, offset, address, bytes: INTERPRETER.len() as u64 });
        }
        None => {}
    }
    let mut file = header(table.len() as u16);
    for segment in &table {
        for word in [segment.kind, segment.flags] {
            file.extend(word.to_le_bytes());
        }
        for word in [segment.offset, segment.address, segment.address, segment.bytes, segment.bytes] {
            file.extend(word.to_le_bytes());
        }
        let align = if segment.kind == PT_LOAD { PAGE } else { 1 };
        file.extend(align.to_le_bytes());
    }
    file.resize(PAGE as usize, 0);
    file.extend(CODE);
    file.resize(offset as usize, 0);
    file.extend(INTERPRETER);
    file.resize((offset + PAGE) as usize, 0);
    file
}

/// ELF64, little-endian, executable at fixed addresses, entered at the second page.
fn header(entries: u16) -> Vec<u8> {
    let mut file = vec![0x7f, b'E', b'L', b'F', 2, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0];
    file.extend(2_u16.to_le_bytes());
    file.extend(MACHINE.to_le_bytes());
    file.extend(1_u32.to_le_bytes());
    for word in [BASE + PAGE, HEADER_BYTES, 0] {
        file.extend(word.to_le_bytes());
    }
    file.extend(0_u32.to_le_bytes());
    for half in [HEADER_BYTES as u16, ENTRY_BYTES as u16, entries, 64, 0, 0] {
        file.extend(half.to_le_bytes());
    }
    file
}

/// The number of the entry, counted from 0, that the kernel will not take: a loadable segment whose offset and address differ modulo a
/// page, or an interpreter. None in what is no such file, or has none.
#[must_use]
pub(crate) fn odd_entry(file: &[u8]) -> Option<u64> {
    let bytes = |at: u64, count: u64| file.get(usize::try_from(at).ok()?..usize::try_from(at + count).ok()?);
    let long = |at: u64| Some(u64::from_le_bytes(bytes(at, 8)?.try_into().ok()?));
    let word = |at: u64| Some(u32::from_le_bytes(bytes(at, 4)?.try_into().ok()?));
    let entries = u64::from(u16::from_le_bytes(bytes(56, 2)?.try_into().ok()?));
    if bytes(0, 4)? != b"\x7fELF" || long(32)? != HEADER_BYTES {
        return None;
    }
    (0..entries).find(|entry| {
        let at = HEADER_BYTES + entry * ENTRY_BYTES;
        let apart = || Some(long(at + 8)? % PAGE != long(at + 16)? % PAGE);
        match word(at) {
            Some(PT_LOAD) => apart().unwrap_or(false),
            kind => kind == Some(PT_INTERP),
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Starts it; its exit code, the signal that ended it, or the error of execve(2).
    #[expect(clippy::disallowed_methods, reason = "the program under test, a few bytes of our own")]
    fn outcome(bytes: &[u8]) -> Result<(Option<i32>, Option<i32>), Option<i32>> {
        use std::os::unix::fs::PermissionsExt as _;
        use std::os::unix::process::ExitStatusExt as _;
        let folder = tempfile::tempdir().unwrap();
        let place = folder.path().join("program");
        std::fs::write(&place, bytes).unwrap();
        std::fs::set_permissions(&place, std::fs::Permissions::from_mode(0o700)).unwrap();
        loop {
            match std::process::Command::new(&place).status() {
                Ok(status) => return Ok((status.code(), status.signal())),
                // Another test's child may hold the file open for writing until it starts its own program.
                Err(error) if error.raw_os_error() == Some(libc::ETXTBSY) => {}
                Err(error) => return Err(error.raw_os_error()),
            }
        }
    }

    #[test]
    fn without_a_flaw_it_runs_and_with_one_the_kernel_refuses_it() {
        for segments in 2..=5 {
            assert_eq!(outcome(&program(segments, None)), Ok((Some(42), None)), "{segments}");
            // The old program is gone when the segments are mapped, so no caller is left to get the error.
            assert_eq!(outcome(&program(segments, Some(Flaw::Misaligned))), Ok((None, Some(libc::SIGSEGV))));
            assert_eq!(outcome(&program(segments, Some(Flaw::Interpreter))), Err(Some(libc::ENOENT)));
        }
    }

    #[test]
    fn the_odd_entry_is_found_in_the_bytes_and_nothing_in_other_bytes() {
        for segments in 2..=5 {
            assert_eq!(odd_entry(&program(segments, None)), None);
            for flaw in [Flaw::Misaligned, Flaw::Interpreter] {
                let file = program(segments, Some(flaw));
                assert_eq!(odd_entry(&file), Some(u64::from(segments)));
                assert!((0..file.len()).step_by(7).all(|end| odd_entry(&file[..end]).is_none_or(|entry| entry < 7)));
            }
        }
        assert_eq!(odd_entry(b""), None);
        assert_eq!(odd_entry(&[0xff; 64]), None);
    }

    #[test]
    #[expect(clippy::disallowed_methods, reason = "readelf, where it is installed")]
    fn readelf_finds_nothing_wrong_with_any_of_them() {
        for flaw in [None, Some(Flaw::Misaligned), Some(Flaw::Interpreter)] {
            let file = tempfile::NamedTempFile::new().unwrap();
            std::fs::write(file.path(), program(3, flaw)).unwrap();
            let output = std::process::Command::new("readelf").args(["-a", "-W"]).arg(file.path()).output();
            let Ok(output) = output else {
                return crate::skip::skip("there is no readelf");
            };
            let said = String::from_utf8_lossy(&output.stderr).into_owned();
            assert!(output.status.success() && said.is_empty(), "{flaw:?}: {said}");
        }
    }
}
