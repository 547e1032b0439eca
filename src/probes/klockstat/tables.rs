//! From sums of the program to tables.

use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap};

use crate::named_stacks::NamedStacks;
use crate::table::TableSpec;
use rdiag_kernel::mechanism::ebpf::words;
use rdiag_kernel::mechanism::symbols::{Part, Symbols};
use rdiag_model::Unit;
use rdiag_model::probe::ProbeTable;

/// `struct key` of the program: lock, kind, stack, process, name.
pub(super) type Key = [u64; 6];
/// `struct sum` of the program: count, nanoseconds, longest.
pub(super) type Sum = [u64; 3];

pub(super) fn add(to: &mut Sum, [count, ns, max]: Sum) {
    let [counts, sum, longest] = to;
    *counts += count;
    *sum += ns;
    *longest = max.max(*longest);
}

/// What the kernel's flags of a wait stand for, `include/trace/events/lock.h`.
pub(super) fn kind(flags: u64) -> &'static str {
    const SPIN: u64 = 1;
    const READ: u64 = 2;
    const WRITE: u64 = 4;
    const RT: u64 = 8;
    const PERCPU: u64 = 16;
    const MUTEX: u64 = 32;
    let has = |flag: u64| flags & flag != 0;
    match (has(READ), has(WRITE)) {
        _ if has(MUTEX) => "mutex",
        (true, _) if has(PERCPU) => "percpu-rwsem, read",
        (_, true) if has(PERCPU) => "percpu-rwsem, write",
        (true, _) if has(SPIN) => "rwlock, read",
        (_, true) if has(SPIN) => "rwlock, write",
        _ if has(SPIN) => "spinlock",
        (true, _) if has(RT) => "rt-lock, read",
        (_, true) if has(RT) => "rt-lock, write",
        _ if has(RT) => "rt-mutex",
        (true, _) => "rwsem, read",
        (_, true) => "rwsem, write",
        // What is neither read nor written is a semaphore that counts.
        _ => "semaphore",
    }
}

/// Beginnings of functions that are about waiting for a lock as such: who asked for it is further out.
const OF_LOCKS: &[&str] = &[
    "__mutex_",
    "mutex_",
    "ww_mutex",
    "__ww_mutex",
    "rwsem_",
    "down",
    "__down",
    "rt_mutex",
    "__rt_mutex",
    "rt_spin_",
    "rtlock_",
    "rwbase_",
    "percpu_down",
    "percpu_rwsem",
    "__percpu_",
    "queued_",
    "native_queued_",
    "pv_queued_",
    "__pv_queued_",
    "do_raw_",
    "_raw_",
    "__raw_",
    "resilient_",
    "raw_spin_rq_lock",
];

/// The function that asked for the lock: the innermost one that is not about locks as such.
fn asker(stacks: &NamedStacks, symbols: &Symbols, stack: u64) -> Option<String> {
    let Part::Taken(addresses) = stacks.kernel_part(symbols, stack) else { return None };
    let mut names = addresses.iter().map(|address| symbols.name(None, address.saturating_sub(1)));
    names.find_map(|name| {
        let name = name?;
        (!OF_LOCKS.iter().any(|prefix| name.starts_with(prefix))).then(|| name.to_owned())
    })
}

/// Waits by kind, lock and the function that asked for it, most time first.
pub(super) fn locks(sums: &[(Key, Sum)], symbols: &Symbols, stacks: &NamedStacks, top: usize) -> ProbeTable {
    let mut askers: HashMap<u64, Option<String>> = HashMap::new();
    let mut rows: BTreeMap<(&str, u64, Option<String>), Sum> = BTreeMap::new();
    for ([lock, flags, stack, ..], sum) in sums {
        let asker = askers.entry(*stack).or_insert_with(|| asker(stacks, symbols, *stack)).clone();
        add(rows.entry((kind(*flags), *lock, asker)).or_default(), *sum);
    }
    let mut rows: Vec<_> = rows.into_iter().collect();
    rows.sort_by_key(|(_, [_, ns, _])| Reverse(*ns));
    let lock = |address: u64| {
        let named = symbols.name(None, address).filter(|name| !name.starts_with("0x"));
        named.map_or_else(|| format!("{address:#x}"), str::to_owned)
    };
    let spec =
        TableSpec::<((&str, u64, Option<String>), Sum)>::new("locks", "Locks of the kernel that were waited for")
            .rows("lock", |((kind, address, asker), _)| {
                let place = asker.as_deref().map_or_else(String::new, |asker| format!(" in {asker}"));
                format!("{kind} {}{place}", lock(*address))
            })
            .text("kind", "kind", |((kind, ..), _)| (*kind).to_owned())
            .text("lock", "lock", |((_, address, _), _)| lock(*address))
            .text("function", "asked for in", |((.., asker), _)| asker.clone())
            .sum("count", "waits", Unit::Count, |(_, [count, ..])| *count as f64)
            .sum("time", "time", Unit::Seconds, |(_, [_, ns, _])| *ns as f64 * 1e-9)
            .number("max", "longest", Unit::Seconds, |(_, [.., max])| *max as f64 * 1e-9);
    spec.top_with_rest(rows, top, Default::default(), |rest, sum| add(rest, *sum))
}

/// Waits by process, most time first; `seconds` have passed.
pub(super) fn tasks(sums: &[(Key, Sum)], seconds: f64, top: usize) -> ProbeTable {
    let mut rows: BTreeMap<(u64, String), Sum> = BTreeMap::new();
    for ([_, _, _, tgid, comm @ ..], sum) in sums {
        add(rows.entry((*tgid, words::text_of_words(comm))).or_default(), *sum);
    }
    let mut rows: Vec<_> = rows.into_iter().collect();
    rows.sort_by_key(|(_, [_, ns, _])| Reverse(*ns));
    let spec = TableSpec::<((u64, String), Sum)>::new("tasks", "Tasks that waited for locks of the kernel")
        .rows("task", |((tgid, name), _)| format!("{name} (pid {tgid})"))
        .text("name", "task", |((_, name), _)| name.clone())
        .text("pid", "pid", |((tgid, _), _)| tgid.to_string())
        .sum("count", "waits", Unit::Count, |(_, [count, ..])| *count as f64)
        .sum("time", "time", Unit::Seconds, |(_, [_, ns, _])| *ns as f64 * 1e-9)
        .sum("share", "share of the time", Unit::Ratio, |(_, [_, ns, _])| *ns as f64 * 1e-9 / seconds)
        .number("max", "longest", Unit::Seconds, |(_, [.., max])| *max as f64 * 1e-9);
    spec.top_with_rest(rows, top, Default::default(), |rest, sum| add(rest, *sum))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(lock: u64, flags: u64, tgid: u64) -> Key {
        [lock, flags, 1, tgid, u64::from_ne_bytes(*b"importer"), 0]
    }

    #[test]
    fn what_waited_longest_comes_first_and_the_rest_is_summed_up() {
        let sums = [
            (key(0xff, 32, 7), [2, 3_000_000, 2_000_000]),
            (key(0xff, 32, 8), [1, 4_000_000, 4_000_000]),
            (key(0xee, 4, 8), [9, 1_000_000, 500_000]),
        ];
        let table = locks(&sums, &Symbols::default(), &NamedStacks::default(), 1);
        let [row] = &table.rows[..] else { panic!("{table:?}") };
        assert_eq!(row.instance, "mutex 0xff");
        assert_eq!(row.cells.len(), table.columns.len());
        assert_eq!(row.cells[3..], [3.0.into(), (7e6 * 1e-9).into(), (4e6 * 1e-9).into()]);
        assert_eq!((table.others, table.others_sum["count"]), (1, 9.0));
        let table = tasks(&sums, 2.0, 1);
        let [row] = &table.rows[..] else { panic!("{table:?}") };
        assert_eq!(row.instance, "importer (pid 8)");
        assert_eq!(row.cells.len(), table.columns.len());
        assert_eq!(row.cells[2..4], [10.0.into(), (5e6 * 1e-9).into()]);
        assert!((table.others_sum["share"] - 0.0015).abs() < 1e-9);
        assert!(tasks(&sums, 2.0, 5).others_sum.is_empty());
    }

    #[test]
    fn kinds_are_told_by_the_flags_of_the_kernel() {
        let all = [1, 3, 5, 2, 4, 8, 10, 18, 20, 32, 33, 0].map(kind);
        assert_eq!(
            all,
            [
                "spinlock",
                "rwlock, read",
                "rwlock, write",
                "rwsem, read",
                "rwsem, write",
                "rt-mutex",
                "rt-lock, read",
                "percpu-rwsem, read",
                "percpu-rwsem, write",
                "mutex",
                "mutex",
                "semaphore"
            ]
        );
    }
}
