//! The same I/O by process and file.

use std::collections::BTreeMap;

use super::{File, NamedSums, ON_DEVICE, Sums};
use crate::block::{self, Devices};
use rdiag_kernel::mechanism::ebpf::words;
use rdiag_model::Unit;
use rdiag_model::probe::{Column, ProbeTable, Row};

/// The file that a process mostly used on a device: more than half of the time of all its requests there was for it.
pub(super) fn mostly(sums: &[(u64, Sums)], files: &[(File, NamedSums)]) -> BTreeMap<u64, String> {
    let times: BTreeMap<u64, u64> = sums.iter().map(|(user, [_, _, _, _, time, ..])| (*user, *time)).collect();
    let most = files.iter().filter(|([user, _, system], [_, _, _, _, time, ..])| {
        *system != ON_DEVICE && times.get(user).is_some_and(|whole| time.saturating_mul(2) > *whole)
    });
    most.map(|(file @ [user, ..], sums)| (*user, name(file, sums))).collect()
}

/// The name of a file as far as it is known.
fn name([_, number, system]: &File, [_, _, _, _, _, _, _, _, name @ ..]: &NamedSums) -> String {
    match words::text_of_words(name) {
        _ if *system == ON_DEVICE => "(the file system itself, or the device)".to_owned(),
        name if name.is_empty() => format!("(inode {number})"),
        name => name,
    }
}

/// A row for each process, device and file that had I/O, largest time first.
pub(super) fn table(mut files: Vec<(File, NamedSums)>, top: usize, devices: &Devices) -> ProbeTable {
    files.retain(|(_, [ios, ..])| *ios > 0);
    files.sort_by_key(|(file, [_, bytes, _, _, time, ..])| (std::cmp::Reverse((*time, *bytes)), *file));
    let mut table = ProbeTable {
        id: "files".into(),
        title: "Files by the time their I/O spent in devices".into(),
        columns: vec![
            Column::text("file", "file"),
            Column::text("name", "process"),
            Column::text("pid", "pid"),
            Column::text("device", "device"),
            Column::number("ios", "I/Os", Unit::Count),
            Column::number("bytes", "bytes", Unit::Bytes),
            Column::number("written", "of them written", Unit::Bytes),
            Column::number("time", "time", Unit::Seconds),
        ],
        ..ProbeTable::default()
    };
    for (at, (file @ [user, number, system], sums)) in files.iter().enumerate() {
        let [ios, bytes, written, _, time, _, comm_0, comm_1, ..] = sums;
        let (ios, bytes, written, time) = (*ios as f64, *bytes as f64, *written as f64, *time as f64 * 1e-9);
        if at >= top {
            table.others += 1;
            for (column, value) in [("ios", ios), ("bytes", bytes), ("written", written), ("time", time)] {
                *table.others_sum.entry(column.into()).or_default() += value;
            }
            continue;
        }
        let device = devices.name(*user as u32);
        let [process, pid, _] = block::owner(user >> 32 << 32, &[*comm_0, *comm_1]);
        table.rows.push(Row {
            instance: format!("{} {device} {system}:{number}", user >> 32),
            cells: vec![
                name(file, sums).into(),
                process,
                pid,
                device.into(),
                ios.into(),
                bytes.into(),
                written.into(),
                time.into(),
            ],
        });
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;
    use rdiag_model::probe::Cell;

    #[test]
    fn a_process_mostly_used_a_file_if_more_than_half_of_its_time_was_for_it() {
        let sums = |time: u64| [1, 512, 0, 1, time, 0, 0, 0];
        let file = |time: u64, name: &[u8; 8]| [1, 512, 0, 1, time, 0, 0, 0, u64::from_ne_bytes(*name), 0, 0, 0];
        let (one, two, three) = (7 << 32 | 254 << 20, 8 << 32 | 254 << 20, 9 << 32 | 254 << 20);
        let found = mostly(
            &[(one, sums(100)), (two, sums(100)), (three, sums(0))],
            &[
                ([one, 12, 65], file(51, b"orders\0\0")),
                ([one, 13, 65], file(49, b"log\0\0\0\0\0")),
                ([two, 12, 65], file(50, b"orders\0\0")),
                ([two, 0, ON_DEVICE], file(60, b"\0\0\0\0\0\0\0\0")),
                ([three, 12, 65], file(0, b"orders\0\0")),
            ],
        );
        assert_eq!(found, [(one, "orders".to_owned())].into());
    }

    #[test]
    fn files_have_their_name_or_number_and_what_is_no_files_is_told() {
        let word = |text: &[u8; 8]| u64::from_ne_bytes(*text);
        let sums = |ios: u64, time: u64, name: u64| {
            [ios, ios * 512, 0, ios, time, 0, word(b"dd\0\0\0\0\0\0"), 0, name, 0, 0, 0]
        };
        let user = 7 << 32 | 254 << 20;
        let table = table(
            vec![
                ([user, 12, 65], sums(1, 10, word(b"orders\0\0"))),
                ([user, 13, 65], sums(1, 30, 0)),
                ([user, 0, ON_DEVICE], sums(2, 20, 0)),
                ([user, 14, 65], sums(0, 0, 0)),
                ([user, 15, 65], sums(3, 5, 0)),
            ],
            3,
            &Devices::default(),
        );
        let names: Vec<_> = table.rows.iter().map(|row| row.cells[0].clone()).collect();
        let told = ["(inode 13)", "(the file system itself, or the device)", "orders"];
        assert_eq!(names, told.map(Cell::from));
        assert_eq!((table.others, table.others_sum["ios"]), (1, 3.0));
    }
}
