//! From sums of the program to tables.

use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap};

use crate::table::TableSpec;
use rdiag_kernel::mechanism::ebpf::words;
use rdiag_model::Unit;
use rdiag_model::probe::ProbeTable;

/// `struct key` of the program: process, stack, number of the process's program (of the kernel's memory: where it was asked for).
pub(super) type Key = [u64; 3];

/// What one stack has allocated and not freed: `struct sum` of the program, scaled to all blocks.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Outstanding {
    pub(super) bytes: i64,
    pub(super) blocks: i64,
    pub(super) allocated: u64,
    pub(super) born: u64,
    pub(super) comm: [u64; 2],
}

impl Outstanding {
    pub(super) fn of([bytes, blocks, allocated, born, first, second]: [u64; 6], one_in: u64) -> Self {
        let scaled = |value: u64| value.cast_signed().saturating_mul(one_in.cast_signed());
        Self {
            bytes: scaled(bytes),
            blocks: scaled(blocks),
            allocated: allocated.saturating_mul(one_in),
            born,
            comm: [first, second],
        }
    }
}

/// Figures of a row.
#[derive(Debug, Clone, Copy, Default)]
struct Sum {
    bytes: i64,
    blocks: i64,
    allocated: u64,
    grown: i64,
}

impl Sum {
    fn add(&mut self, other: Self) {
        self.bytes += other.bytes;
        self.blocks += other.blocks;
        self.allocated = self.allocated.saturating_add(other.allocated);
        self.grown += other.grown;
    }
}

/// Process, its name, and the function that called the allocator; empty where it is not known.
type Holder = (u64, String, String);

/// One stack's figures; growth since the base.
fn figures(key: &Key, sum: &Outstanding, base: &HashMap<Key, i64>) -> Sum {
    let before = base.get(key).copied().unwrap_or(0);
    Sum { bytes: sum.bytes, blocks: sum.blocks, allocated: sum.allocated, grown: sum.bytes - before }
}

/// By process: what has most outstanding comes first.
pub(super) fn processes(
    sums: &HashMap<Key, Outstanding>,
    base: &HashMap<Key, i64>,
    seconds: f64,
    top: usize,
) -> ProbeTable {
    let mut rows: BTreeMap<Holder, Sum> = BTreeMap::new();
    let mut names: BTreeMap<u64, (i64, String)> = BTreeMap::new();
    for ([tgid, ..], sum) in sums {
        let name = names.entry(*tgid).or_default();
        if sum.bytes >= name.0 {
            *name = (sum.bytes, words::text_of_words(&sum.comm));
        }
    }
    for (key, sum) in sums {
        let [tgid, ..] = *key;
        let name = names.get(&tgid).map(|(_, name)| name.clone()).unwrap_or_default();
        rows.entry((tgid, name, String::new())).or_default().add(figures(key, sum, base));
    }
    table(("processes", "Memory that was allocated and not freed by process", "process"), rows, false, seconds, top)
}

/// By process and the function that called the allocator, as far as its name is known.
pub(super) fn code(
    sums: &HashMap<Key, Outstanding>,
    base: &HashMap<Key, i64>,
    seconds: f64,
    top: usize,
    function: impl Fn(&Key, &Outstanding) -> Option<String>,
) -> ProbeTable {
    let mut rows: BTreeMap<Holder, Sum> = BTreeMap::new();
    for (key, sum) in sums {
        let [tgid, ..] = *key;
        let function = function(key, sum).unwrap_or_default();
        rows.entry((tgid, words::text_of_words(&sum.comm), function)).or_default().add(figures(key, sum, base));
    }
    table(("code", "Memory that was allocated and not freed by calling function", "function"), rows, true, seconds, top)
}

fn table(
    (id, title, dimension): (&'static str, &str, &'static str),
    rows: BTreeMap<Holder, Sum>,
    by_function: bool,
    seconds: f64,
    top: usize,
) -> ProbeTable {
    let mut spec = TableSpec::<(Holder, Sum)>::new(id, title)
        .rows(dimension, |((tgid, name, function), _)| {
            let place = if function.is_empty() { String::new() } else { format!(" in {function}") };
            format!("{name} (pid {tgid}){place}")
        })
        .text("name", "task", |((_, name, _), _)| name.clone())
        .text("pid", "pid", |((tgid, ..), _)| tgid.to_string());
    if by_function {
        spec = spec
            .text("function", "allocated in", |((.., function), _)| (!function.is_empty()).then(|| function.clone()));
    }
    let spec = spec
        .sum("outstanding", "not freed", Unit::Bytes, |(_, sum)| sum.bytes as f64)
        .sum("blocks", "blocks", Unit::Count, |(_, sum)| sum.blocks as f64)
        .sum("allocated", "allocated in all", Unit::Bytes, |(_, sum)| sum.allocated as f64)
        .sum("growth", "grows by", Unit::BytesPerSecond, |(_, sum)| sum.grown as f64 / seconds);
    let mut rows: Vec<_> = rows.into_iter().collect();
    rows.sort_by_key(|(_, sum)| Reverse(sum.bytes));
    spec.top_with_rest(rows, top, Default::default(), |rest, sum| rest.add(*sum))
}

#[cfg(test)]
mod tests {
    use super::*;
    use rdiag_model::probe::Cell;

    fn sum(bytes: i64, allocated: u64) -> Outstanding {
        let comm = [u64::from_ne_bytes(*b"importer"), 0];
        Outstanding { bytes, blocks: bytes / 10, allocated, born: 5, comm }
    }

    #[test]
    fn what_is_not_freed_is_summed_up_by_process_and_function_with_its_growth() {
        let sums = HashMap::from([([7, 2, 0], sum(500, 900)), ([7, 4, 0], sum(100, 100)), ([8, 2, 0], sum(50, 4000))]);
        let base = HashMap::from([([7, 2, 0], 100), ([8, 2, 0], 60)]);
        let table = processes(&sums, &base, 2.0, 1);
        let [row] = &table.rows[..] else { panic!("{table:?}") };
        assert_eq!(row.instance, "importer (pid 7)");
        assert_eq!(row.cells.len(), table.columns.len());
        assert_eq!(row.cells[2..], [600.0, 60.0, 1000.0, 250.0].map(Cell::from));
        assert_eq!((table.others, table.others_sum["growth"]), (1, -5.0));
        let table = code(&sums, &base, 2.0, 5, |[_, stack, _], _| (*stack == 4).then(|| "load".to_owned()));
        let instances: Vec<&str> = table.rows.iter().map(|row| row.instance.as_str()).collect();
        assert_eq!(instances, ["importer (pid 7)", "importer (pid 7) in load", "importer (pid 8)"]);
        assert!(table.rows.iter().all(|row| row.cells.len() == table.columns.len()));
        assert_eq!(table.rows[0].cells[2], Cell::Unknown(()));
    }

    #[test]
    fn figures_of_a_draw_are_scaled_to_all_blocks_and_more_may_be_freed_than_was_allocated() {
        let of = Outstanding::of([(-8_i64).cast_unsigned(), 2, 100, 5, 0, 0], 10);
        assert_eq!((of.bytes, of.blocks, of.allocated), (-80, 20, 1000));
        assert_eq!(Outstanding::of([u64::MAX >> 1, 0, u64::MAX, 0, 0, 0], 9).allocated, u64::MAX);
    }
}
