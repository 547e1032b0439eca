//! /proc/swaps.

use crate::unescaped;

/// A swap device or file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Swap {
    /// Its path.
    pub name: String,
    /// `partition` or `file`.
    pub kind: String,
    /// Kibibytes.
    pub size: u64,
    /// Kibibytes.
    pub used: u64,
    /// Those of higher priority are filled first.
    pub priority: i64,
}

/// Those that the file lists below its heading; a line that is broken is left out.
pub fn swaps(text: &str) -> impl Iterator<Item = Swap> {
    text.lines().skip(1).filter_map(swap)
}

/// `name type size used priority`, from the right: of blanks in a name the kernel escapes only some.
fn swap(line: &str) -> Option<Swap> {
    let mut fields = line.split_whitespace().rev();
    let priority = fields.next()?.parse().ok()?;
    let used = fields.next()?.parse().ok()?;
    let size = fields.next()?.parse().ok()?;
    let kind = fields.next()?.to_owned();
    let mut name: Vec<&str> = fields.collect();
    name.reverse();
    let name = unescaped(name.join(" ").as_bytes());
    (!name.is_empty()).then_some(Swap { name, kind, size, used, priority })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(name: &str, kind: &str) -> Option<Swap> {
        Some(Swap { name: name.into(), kind: kind.into(), size: 100, used: 7, priority: -2 })
    }

    #[test]
    fn devices_files_and_removed_files_are_read() {
        assert_eq!(swap("/dev/zram0     partition\t100\t\t7\t\t-2"), of("/dev/zram0", "partition"));
        assert_eq!(swap("/swap\\040file file 100 7 -2"), of("/swap file", "file"));
        assert_eq!(swap("/swap\\040(deleted) file 100 7 -2"), of("/swap (deleted)", "file"));
    }

    #[test]
    fn what_is_no_swap_line_is_left_out() {
        for line in ["", "/dev/sda2 partition 100 7", "/dev/sda2 partition x 7 -2", "partition 100 7 -2"] {
            assert_eq!(swap(line), None, "{line:?}");
        }
        let text = "Filename\t\t\t\tType\t\tSize\t\tUsed\t\tPriority\nbroken\n/dev/zram0 partition 100 7 -2\n";
        assert_eq!(swaps(text).collect::<Vec<_>>(), Vec::from_iter(of("/dev/zram0", "partition")));
    }

    proptest::proptest! {
        #[test]
        fn no_line_whatever_makes_it_panic(line in ".{0,200}") {
            let _ = swap(&line);
        }
    }
}
