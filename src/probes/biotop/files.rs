//! The same I/O by process and file.

use std::collections::BTreeMap;

use super::{File, Io, NamedSums, ON_DEVICE, Sums};
use crate::block::Devices;
use crate::table::TableSpec;
use rdiag_kernel::mechanism::ebpf::words;
use rdiag_model::probe::ProbeTable;

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
    let io = |(file @ [user, number, system], named @ [sums @ .., _, _, _, _]): &(File, NamedSums)| {
        let io = Io::new(*user, sums, devices);
        Io { instance: format!("{} {system}:{number}", io.instance), file: Some(name(file, named)), ..io }
    };
    let spec = TableSpec::<Io>::new("files", "Files by the time their I/O spent in devices")
        .named(|io| io.instance.clone())
        .text("file", "file", |io| io.file.clone());
    super::columns(spec).top(files.iter().map(io), top)
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

    #[test]
    fn a_file_has_a_process_a_device_and_figures() {
        let word = |text: &[u8; 8]| u64::from_ne_bytes(*text);
        let sums = [4, 4096, 512, 4, 9_000, 0, word(b"dd\0\0\0\0\0\0"), 0, word(b"orders\0\0"), 0, 0, 0];
        let table = table(vec![([7 << 32 | 254 << 20, 12, 65], sums)], 1, &Devices::default());
        let [row] = &table.rows[..] else { panic!("{table:?}") };
        assert_eq!(row.instance, "7 254:0 65:12");
        assert_eq!(row.cells[..4], ["orders", "dd", "7", "254:0"].map(Cell::from));
        assert_eq!(row.cells[4..], [4.0, 4096.0, 512.0, 9e3 * 1e-9].map(Cell::from));
    }
}
