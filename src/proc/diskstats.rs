//! /proc/diskstats.

pub use procfs::DiskStat;

/// A line with all its numbers. None for what is no complete line: one with a broken number is left out whole, and so are the short lines
/// that partitions had in Linux 2.6.
#[must_use]
pub fn disk_stat(line: &str) -> Option<DiskStat> {
    DiskStat::from_line(line).ok()
}

/// Which device a line is of, for who needs little else: its counters may be missing or broken.
#[derive(Debug, Clone)]
pub struct DiskLine<'t> {
    /// Major number.
    pub major: &'t str,
    /// Minor number.
    pub minor: &'t str,
    /// Name.
    pub name: &'t str,
    counters: std::str::SplitWhitespace<'t>,
}

impl<'t> DiskLine<'t> {
    /// None for a line that has no name.
    #[must_use]
    pub fn parse(line: &'t str) -> Option<Self> {
        let mut fields = line.split_whitespace();
        let (major, minor, name) = (fields.next()?, fields.next()?, fields.next()?);
        Some(Self { major, minor, name, counters: fields })
    }

    /// A field by its number in the kernel's documentation, which counts from 1 after the name.
    #[must_use]
    pub fn counter(&self, number: usize) -> Option<&'t str> {
        self.counters.clone().nth(number.checked_sub(1)?)
    }

    /// I/Os that have ended: reads, writes, discards and flushes.
    #[must_use]
    pub fn ended(&self) -> u64 {
        let counts = [1, 5, 12, 16].into_iter().filter_map(|number| self.counter(number)?.parse().ok());
        counts.fold(0, u64::saturating_add)
    }

    /// Whether an I/O is under way.
    #[must_use]
    pub fn is_busy(&self) -> bool {
        self.counter(9).is_some_and(|count| count != "0")
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn kernels_of_three_ages_are_read() {
        let old = disk_stat("   8       0 sda 1 2 3 4 5 6 7 8 9 10 11").unwrap();
        assert_eq!((old.major, old.minor, old.name.as_str()), (8, 0, "sda"));
        assert_eq!((old.reads, old.weighted_time_in_progress, old.discards), (1, 11, None));
        let middle = disk_stat("8 0 sda 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15").unwrap();
        assert_eq!((middle.time_discarding, middle.flushes), (Some(15), None));
        let new = disk_stat("8 0 sda 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19").unwrap();
        assert_eq!(new.time_flushing, Some(17), "columns that are not known yet are ignored");
    }

    #[test]
    fn what_is_cut_or_broken_is_left_out_whole() {
        assert!(disk_stat("8 1 sda1 10 20 30 40").is_none(), "the short line of a partition in Linux 2.6");
        assert!(disk_stat("8 0 sda 1 2 3 4 5 6 7 8 9 x 11").is_none());
        assert!(disk_stat("8 0 sda 1 2 3 4 5 6 7 8 9 10 99999999999999999999999").is_none());
        assert!(disk_stat("").is_none());
        assert!(disk_stat("8 0 sda 1 2 3 4 5 6 7 8 -9 10 11").is_none());
    }

    #[test]
    fn the_device_of_a_short_line_is_told_with_the_counters_that_are_there() {
        let of =
            |line| DiskLine::parse(line).map(|line| (line.major, line.minor, line.name, line.ended(), line.is_busy()));
        assert_eq!(of("254 2 vda2 10"), Some(("254", "2", "vda2", 10, false)));
        assert_eq!(of(" 8 0 sda 1 2 3 4 x 6 7 8 9 10 11 12 13 14 15 16 17"), Some(("8", "0", "sda", 29, true)));
        assert_eq!(of("8 0 sda 1 2 3 4 5 6 7 8 0 10 11"), Some(("8", "0", "sda", 6, false)));
        assert_eq!(of("7 0"), None);
        assert_eq!(DiskLine::parse("8 0 sda 1").unwrap().counter(0), None);
    }

    proptest! {
        #[test]
        fn any_text_is_survived(text in "\\PC*") {
            let _ = (disk_stat(&text), DiskLine::parse(&text).map(|line| (line.ended(), line.is_busy())));
        }

        #[test]
        fn any_numbers_are_survived(words in proptest::collection::vec(any::<u64>(), 0..30)) {
            let numbers: Vec<String> = words.iter().map(u64::to_string).collect();
            let line = format!("1 2 x!y {}", numbers.join(" "));
            prop_assert_eq!(disk_stat(&line).is_some(), words.len() >= 11);
            prop_assert_eq!(DiskLine::parse(&line).unwrap().name, "x!y");
        }
    }
}
