//! Programs in Python: where CPython keeps which functions a thread is in (`probes/response/python.h`): where the interpreter's state
//! lies, which its file says to the process that reads symbols (`elf.rs`), and the layout of that version (`layout.rs`).

pub(super) mod elf;
mod layout;

pub(super) use layout::FIRST;
pub use layout::Layout;

use serde::{Deserialize, Serialize};

use crate::mechanism::symbols::maps::Maps;

/// What a file says of the interpreter in it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(in super::super) struct Python {
    /// The address that its state has in the file.
    pub(super) state: u64,
    /// Code of the file: its offset, and its address.
    pub(super) code: (u64, u64),
    /// Where it has what; none if its version is not known.
    pub(super) layout: Option<Layout>,
}

/// The interpreter of a process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CPython {
    /// The address of its state in memory.
    pub state: u64,
    /// Where it has what.
    pub layout: Layout,
}

impl Python {
    /// Where it is in the memory of a process, or why that is not known.
    pub(super) fn in_memory(&self, maps: &Maps, object: &str) -> Result<CPython, String> {
        let (offset, address) = self.code;
        let code = maps.address_of(object, offset).and_then(|code| code.checked_sub(address));
        let state =
            code.and_then(|code| code.checked_add(self.state)).ok_or("it is mapped in another way than it says")?;
        let layout = self.layout.ok_or("the layout of this CPython is not known")?;
        // Elsewhere the kernel does not tell what such a version calls its threads.
        if layout.native_id.is_none() && !cfg!(target_arch = "x86_64") {
            return Err("on this processor the threads of CPython are known from 3.11 on".to_owned());
        }
        Ok(CPython { state, layout })
    }
}

/// The minor version of the CPython that a file of this name is of: `python3.11`, `libpython3.13.so.1.0`.
pub(super) fn version(object: &str) -> Option<u8> {
    let rest = object.strip_prefix("lib").unwrap_or(object).strip_prefix("python3.")?;
    let end = rest.find(|letter: char| !letter.is_ascii_digit()).unwrap_or(rest.len());
    let (digits, rest) = rest.split_at_checked(end)?;
    // `python3.13t` has no global lock, and another layout.
    (rest.is_empty() || rest.starts_with(".so")).then(|| digits.parse().ok()).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_version_is_that_of_the_files_name() {
        assert_eq!(version("python3.11"), Some(11));
        assert_eq!(version("libpython3.9.so.1.0"), Some(9));
        for other in [
            "python3",
            "python3.13t",
            "libpython3.so",
            "python2.7",
            "python3.x",
            "mypython3.11",
            "python3.11-config",
            "",
        ] {
            assert_eq!(version(other), None, "{other}");
        }
    }

    #[test]
    fn the_state_is_as_far_from_the_code_in_memory_as_in_the_file() {
        let maps = Maps::parse("7f0000002000-7f0000009000 r-xp 00002000 fe:00 123 /usr/lib/libpython3.12.so.1.0\n");
        let python = Python { state: 0x9100, code: (0x2000, 0x3000), layout: Layout::of(12, &[]) };
        let of = |object| python.in_memory(&maps, object).map(|found| found.state);
        assert_eq!(of("libpython3.12.so.1.0"), Ok(0x7f00_0000_8100));
        assert!(of("libpython3.11.so.1.0").is_err());
        assert!(Python { layout: None, ..python }.in_memory(&maps, "libpython3.12.so.1.0").is_err());
    }
}
