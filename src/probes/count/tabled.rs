//! One of the kernel's own tables, and what came into it since it was read.

use std::collections::HashMap;

use super::Key;
use super::order::Order;
use super::query::Query;
use super::tables::Sum;
use crate::value_read::Source;
use rdiag_kernel::host::Host;
use rdiag_kernel::mechanism::tracefs::instance::Instance;
use rdiag_kernel::mechanism::tracefs::sums::{self, Wanted};
use rdiag_model::Unavailable;

/// The key of one row: the key as the programs have it, the power of two of a value, the stack.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Row {
    pub(super) key: Key,
    pub(super) power: u32,
    pub(super) stack: Vec<String>,
}

/// The table of one point.
pub(super) struct Tabled {
    pub(super) query: Query,
    pub(super) wanted: Wanted,
    /// As it was at the last reading: the kernel's table only grows.
    before: HashMap<Row, Sum>,
    dropped: u64,
}

/// What came since the last reading.
pub(super) struct Fresh {
    pub(super) sums: Vec<(Row, Sum)>,
    /// Events that found no room in the table.
    pub(super) dropped: u64,
    /// Rows of the table that could not be understood.
    pub(super) unread: u64,
}

/// Processes of threads. A thread that ended before it was looked up has none.
#[derive(Debug, Default)]
pub(super) struct Processes {
    known: HashMap<u64, Option<u64>>,
}

impl Processes {
    /// The process of a thread; while it is not known, the thread's own number, which is the process's if it was its first.
    fn of(&mut self, host: &Host, thread: u64) -> u64 {
        let look = || {
            let status = host.read(&format!("proc/{thread}/status")).ok()?;
            status.lines().find_map(|line| line.strip_prefix("Tgid:")?.trim().parse().ok())
        };
        // Thread 0 is each CPU's idle task.
        if thread == 0 { 0 } else { self.known.entry(thread).or_insert_with(look).unwrap_or(thread) }
    }

    /// Threads that had ended.
    pub(super) fn unknown(&self) -> usize {
        self.known.values().filter(|process| process.is_none()).count()
    }
}

impl Tabled {
    pub(super) fn new(query: Query, order: Order) -> Self {
        Self { query, wanted: order.wanted, before: HashMap::new(), dropped: 0 }
    }

    /// Whether threads count for their processes.
    pub(super) fn has_processes(&self) -> bool {
        self.query.keys.iter().any(|(_, read)| read.source == Source::Tgid)
    }

    /// Looks up the processes of threads that are new, while they live.
    pub(super) fn learn(&self, instance: &Instance, host: &Host, processes: &mut Processes) -> Result<(), Unavailable> {
        for sum in self.wanted.read(instance, host)?.each {
            self.key(&sum, host, processes);
        }
        Ok(())
    }

    /// The sums since the last reading.
    pub(super) fn advance(
        &mut self,
        instance: &Instance,
        host: &Host,
        processes: &mut Processes,
    ) -> Result<Fresh, Unavailable> {
        let sums = self.wanted.read(instance, host)?;
        // Several threads may have the same name, and one process.
        let mut now: HashMap<Row, Sum> = HashMap::new();
        for mut sum in sums.each {
            let key = self.key(&sum, host, processes);
            let row = Row { key, power: sum.power, stack: std::mem::take(&mut sum.stack) };
            let known = now.entry(row).or_default();
            *known = known.plus(Sum { count: sum.count, sum: sum.sum });
        }
        let grown = |(row, sum): (&Row, &Sum)| {
            let before = self.before.get(row).copied().unwrap_or_default();
            let count = sum.count.saturating_sub(before.count);
            (count > 0).then(|| (row.clone(), Sum { count, sum: sum.sum.wrapping_sub(before.sum) }))
        };
        let changed = now.iter().filter_map(grown).collect();
        self.before = now;
        let dropped = sums.dropped.saturating_sub(std::mem::replace(&mut self.dropped, sums.dropped));
        Ok(Fresh { sums: changed, dropped, unread: sums.unread })
    }

    /// As the programs have it: three numbers, and the name.
    fn key(&self, sum: &sums::Sum, host: &Host, processes: &mut Processes) -> Key {
        let mut key: Key = [0; 9];
        if self.query.keys.is_empty() && !self.query.by_comm {
            return key;
        }
        let [first, second, third, comm @ ..] = &mut key;
        for ((word, value), (_, read)) in [first, second, third].into_iter().zip(&sum.keys).zip(&self.query.keys) {
            *word = if read.source == Source::Tgid { processes.of(host, *value) } else { read.widened(*value) };
        }
        let mut bytes = sum.name.bytes().take(15).chain(std::iter::repeat(0));
        for word in comm.iter_mut().take(2) {
            *word = u64::from_ne_bytes(std::array::from_fn(|_| bytes.next().unwrap_or(0)));
        }
        key
    }
}
