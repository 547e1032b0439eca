//! From sums of the program to the table of addresses.

use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap};

use crate::table::TableSpec;
use rdiag_kernel::mechanism::ebpf::words;
use rdiag_model::Unit;
use rdiag_model::probe::ProbeTable;

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

/// A place as it is shown.
struct Lock {
    tgid: u64,
    address: u64,
    name: String,
    count: u64,
    ns: u64,
    max: u64,
    timed_out: u64,
    ended_by: Option<String>,
    ended: Option<f64>,
    lock: u64,
    asked: Option<String>,
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
    let lock = |(at, ((tgid, address), place)): (usize, ((u64, u64), Place))| {
        let Place { sum, name: (_, name), stacks } = place;
        let [count, ns, max, timed_out, born, lock] = sum;
        // Looking up a function takes time: only for what is shown.
        let most_of = stacks.into_iter().filter(|_| at < top).max_by_key(|(_, ns)| *ns);
        let asked = most_of.and_then(|(stack, _)| asked(tgid as u32, born, stack));
        let waker = most.get(&(tgid, address));
        let ended_by = waker.map(|(_, tid, name)| format!("{name} (tid {tid})").trim().to_owned());
        let ended = waker.map(|(ns, ..)| *ns as f64 * 1e-9);
        Lock { tgid, address, name, count, ns, max, timed_out, ended_by, ended, lock, asked }
    };
    TableSpec::<Lock>::new("locks", "Addresses at which threads waited in futex")
        .rows("lock", |lock| format!("{} (pid {}) at {:#x}", lock.name, lock.tgid, lock.address))
        .text("name", "task", |lock| lock.name.clone())
        .text("pid", "pid", |lock| lock.tgid.to_string())
        .text("address", "address", |lock| format!("{:#x}", lock.address))
        .sum("count", "waits", Unit::Count, |lock| lock.count as f64)
        .sum("time", "time", Unit::Seconds, |lock| lock.ns as f64 * 1e-9)
        .number("max", "longest", Unit::Seconds, |lock| lock.max as f64 * 1e-9)
        .number("timed_out", "timed out", Unit::Count, |lock| lock.timed_out as f64)
        .text("ended_by", "mostly for", |lock| lock.ended_by.clone())
        .number("ended", "that time", Unit::Seconds, |lock| lock.ended)
        .number("lock", "surely a lock", Unit::Seconds, |lock| lock.lock as f64 * 1e-9)
        .text("asked", "asked in or below", |lock| lock.asked.clone())
        .top(rows.into_iter().enumerate().map(lock), top)
}

#[cfg(test)]
mod tests {
    use super::*;
    use rdiag_model::probe::Cell;

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
