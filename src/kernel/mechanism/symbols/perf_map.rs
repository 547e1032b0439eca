//! /tmp/perf-PID.map: where a process that compiles at run time has put which function.

use std::io::Read as _;

use super::open;
use crate::host::Host;

/// What stands for the binary of code that no file holds.
pub const OBJECT: &str = "[compiled at run time]";
/// Larger maps are read up to here.
const MAX_BYTES: u64 = 32 << 20;

/// Functions in order of their addresses.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct PerfMap {
    text: String,
    /// Start, length, and where the name lies in the text.
    functions: Vec<(u64, u64, std::ops::Range<usize>)>,
}

impl PerfMap {
    /// The map of a process, from its own /tmp. A file that somebody else put there is not believed.
    pub(super) fn read(host: &Host, pid: u32) -> Option<Self> {
        let status = host.read(&format!("proc/{pid}/status")).ok()?;
        let inner = status.lines().find_map(|line| line.strip_prefix("NStgid:"));
        let inner = inner.and_then(|ids| ids.split_whitespace().next_back()).unwrap_or_default();
        let inner = if inner.is_empty() { pid.to_string() } else { inner.to_owned() };
        // In its own tree of files, through no link. Only a regular file is opened, of its user or root.
        let found =
            open::find_below(&host.locate(&format!("proc/{pid}/root")), &format!("tmp/perf-{inner}.map")).ok()?;
        let (process_owner, _) = host.owner_and_inode(&format!("proc/{pid}"))?;
        if found.owner != 0 && found.owner != process_owner {
            return None;
        }
        let file = std::fs::File::from(found.open(Some(pid)).ok()?);
        let mut bytes = Vec::new();
        file.take(MAX_BYTES).read_to_end(&mut bytes).ok()?;
        Some(Self::parse(String::from_utf8_lossy(&bytes).into_owned()))
    }

    /// Where functions begin.
    pub(super) fn starts(&self) -> impl Iterator<Item = u64> {
        self.functions.iter().map(|(start, ..)| *start)
    }

    pub(super) fn parse(text: String) -> Self {
        let mut functions: Vec<_> = text.lines().filter_map(|line| function(&text, line)).collect();
        functions.sort_by_key(|(start, ..)| *start);
        Self { text, functions }
    }

    /// The function at an address. A function that was compiled again stands later in the file and wins.
    pub(super) fn name(&self, address: u64) -> Option<&str> {
        let after = self.functions.partition_point(|(start, ..)| *start <= address);
        let before = self.functions.get(..after)?;
        let (_, _, name) = before.iter().rev().take(64).find(|(start, length, _)| address - start < *length)?;
        self.text.get(name.clone())
    }
}

/// `START LENGTH NAME`, the numbers in hexadecimal.
fn function(text: &str, line: &str) -> Option<(u64, u64, std::ops::Range<usize>)> {
    let (start, rest) = line.split_once(' ')?;
    let (length, name) = rest.trim_start().split_once(' ')?;
    let number = |text: &str| u64::from_str_radix(text.trim_start_matches("0x"), 16).ok();
    let at = (name.as_ptr() as usize).checked_sub(text.as_ptr() as usize)?;
    Some((number(start)?, number(length)?, at..at + name.trim_end().len()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_has_the_name_of_the_last_function_that_covers_it_and_bad_lines_do_no_harm() {
        let map = PerfMap::parse(
            "7f00 10 old\n7f20 20 py::f:/a b.py\nx y z\n\n7f00\n0x7f00 0x10 new\nffffffffffffffff 5 end\n".into(),
        );
        assert_eq!(map.name(0x7f00), Some("new"));
        assert_eq!(map.name(0x7f0f), Some("new"));
        assert_eq!(map.name(0x7f10), None);
        assert_eq!(map.name(0x7f3f), Some("py::f:/a b.py"));
        assert_eq!(map.name(u64::MAX), Some("end"));
        assert_eq!(map.name(0), None);
        assert_eq!(PerfMap::parse(String::new()).name(1), None);
    }
}
