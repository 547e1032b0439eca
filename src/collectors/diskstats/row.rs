//! One line of /proc/diskstats.

use procfs::DiskStat;

/// A line: which device, and its 11, 15 or 17 numbers (fields may be added, never moved).
#[derive(Debug, Clone)]
pub(super) struct Row(DiskStat);

impl Row {
    /// None for what is no complete line: a line with a broken number is left out whole, and so are the short lines
    /// that partitions had in Linux 2.6.
    pub(super) fn parse(line: &str) -> Option<Self> {
        DiskStat::from_line(line).ok().map(Self)
    }

    /// Kernel name of the device; `!` stands for the slash of names such as `cciss/c0d0`.
    pub(super) fn name(&self) -> &str {
        &self.0.name
    }

    /// A field by its number in the kernel's documentation, which counts from 1 after the name.
    pub(super) fn field(&self, number: usize) -> Option<u64> {
        let stat = &self.0;
        match number {
            1 => Some(stat.reads),
            2 => Some(stat.merged),
            3 => Some(stat.sectors_read),
            4 => Some(stat.time_reading),
            5 => Some(stat.writes),
            6 => Some(stat.writes_merged),
            7 => Some(stat.sectors_written),
            8 => Some(stat.time_writing),
            9 => Some(stat.in_progress),
            10 => Some(stat.time_in_progress),
            11 => Some(stat.weighted_time_in_progress),
            12 => stat.discards,
            13 => stat.discards_merged,
            14 => stat.sectors_discarded,
            15 => stat.time_discarding,
            16 => stat.flushes,
            17 => stat.time_flushing,
            _ => None,
        }
    }

    /// Whether the device has ever been asked for anything since it appeared.
    pub(super) fn was_used(&self) -> bool {
        (1..=17).filter_map(|number| self.field(number)).any(|value| value > 0)
    }

    /// Which device this is, where the kernel gives no sequence number.
    pub(super) fn device_number(&self) -> u64 {
        u64::from(self.0.major.cast_unsigned()) << 32 | u64::from(self.0.minor.cast_unsigned())
    }
}

/// Without /sys: whether a name is that of a partition of another device in the list (`sda1` of `sda`, `nvme0n1p2` of
/// `nvme0n1`).
pub(super) fn looks_like_partition(name: &str, others: &[Row]) -> bool {
    let base = name.trim_end_matches(|c: char| c.is_ascii_digit());
    let is_device = |of: &str| !of.is_empty() && others.iter().any(|row| row.name() == of);
    base.len() < name.len() && (is_device(base) || base.strip_suffix('p').is_some_and(is_device))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn kernels_of_three_ages_are_read() {
        let old = Row::parse("   8       0 sda 1 2 3 4 5 6 7 8 9 10 11").unwrap();
        assert_eq!((old.device_number(), old.name()), (8 << 32, "sda"));
        assert_eq!((old.field(1), old.field(11), old.field(12)), (Some(1), Some(11), None));
        let middle = Row::parse("8 0 sda 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15").unwrap();
        assert_eq!((middle.field(15), middle.field(16)), (Some(15), None));
        let new = Row::parse("8 0 sda 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19").unwrap();
        assert_eq!((new.field(17), new.field(18)), (Some(17), None), "columns that are not known yet are ignored");
    }

    #[test]
    fn what_is_cut_or_broken_is_left_out_whole() {
        assert!(Row::parse("8 1 sda1 10 20 30 40").is_none(), "the short line of a partition in Linux 2.6");
        assert!(Row::parse("8 0 sda 1 2 3 4 5 6 7 8 9 x 11").is_none());
        assert!(Row::parse("8 0 sda 1 2 3 4 5 6 7 8 9 10 99999999999999999999999").is_none());
        assert!(Row::parse("").is_none());
        assert!(Row::parse("8 0 sda 1 2 3 4 5 6 7 8 -9 10 11").is_none());
    }

    #[test]
    fn field_numbers_begin_with_one() {
        let row = Row::parse("8 0 sda 1 2 3 4 5 6 7 8 9 10 11").unwrap();
        assert_eq!(row.field(0), None);
    }

    #[test]
    fn partitions_are_told_from_devices_by_their_names() {
        let line = |name: &str| format!("1 1 {name} 0 0 0 0 0 0 0 0 0 0 0");
        let lines: Vec<String> = ["sda", "sda1", "nvme0n1", "nvme0n1p2", "loop0", "dm-0"].map(line).into();
        let rows: Vec<Row> = lines.iter().filter_map(|line| Row::parse(line)).collect();
        let partitions: Vec<&str> =
            rows.iter().map(Row::name).filter(|name| looks_like_partition(name, &rows)).collect();
        assert_eq!(partitions, ["sda1", "nvme0n1p2"]);
    }

    proptest! {
        #[test]
        fn any_text_is_survived(text in "\\PC*") {
            let _ = Row::parse(&text);
        }

        #[test]
        fn any_numbers_are_survived(words in proptest::collection::vec(any::<u64>(), 0..30)) {
            let numbers: Vec<String> = words.iter().map(u64::to_string).collect();
            let line = format!("1 2 x!y {}", numbers.join(" "));
            let row = Row::parse(&line);
            prop_assert_eq!(row.is_some(), words.len() >= 11);
        }
    }
}
