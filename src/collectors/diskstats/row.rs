//! What a line of /proc/diskstats says of its device.

use rdiag_proc::DiskStat;

/// Whether the device has ever been asked for anything since it appeared.
pub(super) fn was_used(row: &DiskStat) -> bool {
    let always = [
        row.reads,
        row.merged,
        row.sectors_read,
        row.time_reading,
        row.writes,
        row.writes_merged,
        row.sectors_written,
        row.time_writing,
        row.in_progress,
        row.time_in_progress,
        row.weighted_time_in_progress,
    ];
    let newer =
        [row.discards, row.discards_merged, row.sectors_discarded, row.time_discarding, row.flushes, row.time_flushing];
    always.into_iter().chain(newer.into_iter().flatten()).any(|value| value > 0)
}

/// Which device this is, where the kernel gives no sequence number.
pub(super) fn device_number(row: &DiskStat) -> u64 {
    u64::from(row.major.cast_unsigned()) << 32 | u64::from(row.minor.cast_unsigned())
}

/// Without /sys: whether a name is that of a partition of another device in the list (`sda1` of `sda`, `nvme0n1p2` of
/// `nvme0n1`).
pub(super) fn looks_like_partition(name: &str, others: &[DiskStat]) -> bool {
    let base = name.trim_end_matches(|c: char| c.is_ascii_digit());
    let is_device = |of: &str| !of.is_empty() && others.iter().any(|row| row.name == of);
    base.len() < name.len() && (is_device(base) || base.strip_suffix('p').is_some_and(is_device))
}

#[cfg(test)]
mod tests {
    use rdiag_proc::disk_stat;

    use super::*;

    #[test]
    fn a_device_is_used_once_any_of_its_numbers_has_moved() {
        let row = |moved: usize| {
            let numbers: Vec<&str> = (0..17).map(|at| if at == moved { "1" } else { "0" }).collect();
            disk_stat(&format!("8 3 sda {}", numbers.join(" "))).unwrap()
        };
        assert!((0..17).all(|at| was_used(&row(at))) && !was_used(&row(17)));
        assert_eq!(device_number(&row(0)), 8 << 32 | 3);
    }

    #[test]
    fn partitions_are_told_from_devices_by_their_names() {
        let line = |name: &str| disk_stat(&format!("1 1 {name} 0 0 0 0 0 0 0 0 0 0 0"));
        let rows: Vec<DiskStat> =
            ["sda", "sda1", "nvme0n1", "nvme0n1p2", "loop0", "dm-0"].into_iter().filter_map(line).collect();
        let names = rows.iter().map(|row| row.name.as_str());
        let partitions: Vec<&str> = names.filter(|name| looks_like_partition(name, &rows)).collect();
        assert_eq!(partitions, ["sda1", "nvme0n1p2"]);
    }
}
