//! From sums of the program to the table of addresses.

use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap};

use rdiag_kernel::mechanism::ebpf::words;
use rdiag_model::Unit;
use rdiag_model::probe::{Cell, Column, ProbeTable, Row};

/// `struct key` of the program: process, address, stack, name.
pub(super) type Key = [u64; 5];
/// `struct sum` of the program: count, nanoseconds, longest, timed out, start of the process, nanoseconds for what is known to be a lock.
pub(super) type Sum = [u64; 6];
/// `struct by` of the program: process, address, thread, its name ("" where only its id is known).
pub(super) type By = [u64; 5];
/// `struct blamed` of the program: count, nanoseconds.
pub(super) type Blamed = [u64; 2];

pub(super) fn add(to: &mut Sum, [count, ns, max, timed_out, born, lock]: Sum) {
    let [counts, sum, longest, times_out, begun, locks] = to;
    *counts += count;
    *sum += ns;
    *longest = max.max(*longest);
    *times_out += timed_out;
    *locks += lock;
    *begun = born;
}

/// All that was waited at one address.
#[derive(Default)]
struct Place {
    sum: Sum,
    /// The thread that waited most, of those that have names of their own.
    name: (u64, String),
    /// Time by stack.
    stacks: BTreeMap<u64, u64>,
}

/// Where most of a place's time was waited: process, its start, stack → function.
pub(super) type Asked<'a> = &'a mut dyn FnMut(u32, u64, u64) -> Option<String>;

/// Waits by process and address, most time first, with the thread that most of the time was waited for.
pub(super) fn locks(
    sums: &HashMap<Key, Sum>,
    wakers: &HashMap<By, Blamed>,
    top: usize,
    asked: Asked<'_>,
) -> ProbeTable {
    let mut places: BTreeMap<(u64, u64), Place> = BTreeMap::new();
    for ([tgid, address, stack, comm @ ..], sum) in sums {
        let place = places.entry((*tgid, *address)).or_default();
        add(&mut place.sum, *sum);
        let [_, ns, ..] = sum;
        *place.stacks.entry(*stack).or_default() += ns;
        if *ns >= place.name.0 {
            place.name = (*ns, words::text_of_words(comm));
        }
    }
    // By process and address: the time that it was waited for, the thread, its name.
    let mut most: HashMap<(u64, u64), (u64, u64, String)> = HashMap::new();
    for ([tgid, address, tid, comm @ ..], [_, ns]) in wakers {
        let known = most.entry((*tgid, *address)).or_default();
        if (*ns, *tid) >= (known.0, known.1) {
            *known = (*ns, *tid, words::text_of_words(comm));
        }
    }
    let mut rows: Vec<_> = places.into_iter().collect();
    rows.sort_by_key(|(_, Place { sum: [_, ns, ..], .. })| Reverse(*ns));
    let left_out = rows.split_off(top.min(rows.len()));
    let row = |((tgid, address), Place { sum, name: (_, name), stacks }): ((u64, u64), Place)| {
        let [count, ns, max, timed_out, born, lock] = sum;
        let most_of = stacks.into_iter().max_by_key(|(_, ns)| *ns);
        let asked = most_of.and_then(|(stack, _)| asked(tgid as u32, born, stack));
        let (ended_by, ended) = match most.get(&(tgid, address)) {
            Some((ns, tid, name)) => (format!("{name} (tid {tid})").trim().into(), (*ns as f64 * 1e-9).into()),
            None => (Cell::Unknown(()), Cell::Unknown(())),
        };
        Row {
            instance: format!("{name} (pid {tgid}) at {address:#x}"),
            cells: vec![
                name.into(),
                tgid.to_string().into(),
                format!("{address:#x}").into(),
                (count as f64).into(),
                (ns as f64 * 1e-9).into(),
                (max as f64 * 1e-9).into(),
                (timed_out as f64).into(),
                ended_by,
                ended,
                (lock as f64 * 1e-9).into(),
                asked.map_or(Cell::Unknown(()), Cell::from),
            ],
        }
    };
    let others = |of: fn(&Sum) -> f64| left_out.iter().map(|(_, place)| of(&place.sum)).sum::<f64>();
    ProbeTable {
        id: "locks".into(),
        title: "Addresses at which threads waited in futex".into(),
        dimension: Some("lock".into()),
        columns: vec![
            Column::text("name", "task"),
            Column::text("pid", "pid"),
            Column::text("address", "address"),
            Column::number("count", "waits", Unit::Count),
            Column::number("time", "time", Unit::Seconds),
            Column::number("max", "longest", Unit::Seconds),
            Column::number("timed_out", "timed out", Unit::Count),
            Column::text("ended_by", "mostly for"),
            Column::number("ended", "that time", Unit::Seconds),
            Column::number("lock", "surely a lock", Unit::Seconds),
            Column::text("asked", "asked in or below"),
        ],
        others: left_out.len() as u64,
        others_sum: if left_out.is_empty() {
            BTreeMap::new()
        } else {
            let time = |[_, ns, ..]: &Sum| *ns as f64 * 1e-9;
            [("count".into(), others(|[count, ..]| *count as f64)), ("time".into(), others(time))].into()
        },
        rows: rows.into_iter().map(row).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_at_one_address_are_one_row_with_whom_they_waited_for_most() {
        let name = |text: &[u8; 8]| u64::from_ne_bytes(*text);
        let key = |address, stack, comm| [7, address, stack, name(comm), 0];
        let sums = HashMap::from([
            (key(0x10, 5, b"worker-a"), [2, 3_000_000, 2_000_000, 0, 1, 3_000_000]),
            (key(0x10, 6, b"worker-b"), [1, 4_000_000, 4_000_000, 1, 1, 0]),
            (key(0x20, 6, b"worker-b"), [8, 1_000_000, 400_000, 8, 1, 0]),
        ]);
        let by = |tid, comm| [7, 0x10, tid, name(comm), 0];
        let wakers = HashMap::from([(by(8, b"worker-a"), [1, 4_000_000]), (by(9, b"worker-b"), [2, 3_000_000])]);
        let asked = |pid: u32, born: u64, stack: u64| (pid == 7 && born == 1 && stack == 6).then(|| "pays".to_owned());
        let table = locks(&sums, &wakers, 1, &mut { asked });
        let [row] = &table.rows[..] else { panic!("{table:?}") };
        assert_eq!(row.instance, "worker-b (pid 7) at 0x10");
        assert_eq!(row.cells.len(), table.columns.len());
        assert_eq!(row.cells[3..7], [3.0.into(), (7e6 * 1e-9).into(), (4e6 * 1e-9).into(), 1.0.into()]);
        assert_eq!(
            row.cells[7..],
            ["worker-a (tid 8)".into(), (4e6 * 1e-9).into(), (3e6 * 1e-9).into(), "pays".into()]
        );
        assert_eq!((table.others, table.others_sum["count"]), (1, 8.0));
        assert_eq!(locks(&sums, &HashMap::new(), 5, &mut |_, _, _| None).rows[0].cells[7], Cell::Unknown(()));
    }
}
