//! The records of all CPUs in the order of their times.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::ops::Range;

use super::instance::{Instance, Pipe};
use super::page::{Cursor, PageLayout};
use super::raw::not_understood;
use crate::host::Host;
use rdiag_model::Unavailable;

/// Pages that are read in one turn, so that a flood does not keep rdiag from anything else.
const TURN: usize = 4096;

/// The open buffers of all CPUs. Close them before the instance is dropped: the kernel keeps an instance that is being read.
#[derive(Debug)]
pub struct Merged {
    layout: PageLayout,
    cpus: Vec<Cpu>,
}

/// The buffer of a CPU, and a page of it.
#[derive(Debug)]
struct Cpu {
    number: u32,
    source: Source,
    page: Vec<u8>,
    cursor: Cursor,
    /// The next record that was not handed on.
    next: Option<(u64, Range<usize>)>,
}

/// Where pages come from.
#[derive(Debug)]
enum Source {
    Kernel(Pipe),
    #[cfg(test)]
    Test(Vec<Vec<u8>>),
}

impl Source {
    fn read(&mut self, page: &mut [u8]) -> Result<usize, Unavailable> {
        match self {
            Self::Kernel(pipe) => pipe.read(page),
            #[cfg(test)]
            Self::Test(pages) => Ok(pages.pop().map_or(0, |bytes| {
                page[..bytes.len()].copy_from_slice(&bytes);
                bytes.len()
            })),
        }
    }
}

impl Merged {
    /// Opens them.
    pub fn open(instance: &Instance, host: &Host) -> Result<Self, Unavailable> {
        const FILE: &str = "events/header_page";
        let layout = PageLayout::parse(&instance.get_at_once(host, FILE)?);
        let size = layout.size().ok_or_else(|| not_understood(FILE))?;
        let pipes = instance.raw_pipes(host)?.into_iter();
        let cpus = pipes.map(|(number, pipe)| Cpu::new(number, Source::Kernel(pipe), size)).collect();
        Ok(Self { layout, cpus })
    }

    /// Hands on what is there up to a time, as much as fits into a turn, the oldest first: time in the clock's nanoseconds, CPU, and
    /// bytes of each record. Later records stay for the next turn, since another CPU may still have earlier ones.
    pub fn poll(&mut self, until: u64, mut each: impl FnMut(u64, u32, &[u8])) -> Result<(), Unavailable> {
        let Self { layout, cpus } = self;
        let mut room = TURN;
        let mut heap = BinaryHeap::new();
        for (index, cpu) in cpus.iter_mut().enumerate() {
            cpu.fill(layout, &mut room)?;
            heap.extend(cpu.next.as_ref().map(|(time, _)| Reverse((*time, index))));
        }
        while let Some(Reverse((time, index))) = heap.pop().filter(|Reverse((time, _))| *time <= until) {
            let Some(cpu) = cpus.get_mut(index) else { continue };
            if let Some((_, place)) = cpu.next.take() {
                each(time, cpu.number, cpu.page.get(place).unwrap_or_default());
            }
            cpu.next = cpu.cursor.next(&cpu.page);
            if cpu.next.is_none() && room == 0 {
                // What follows on this CPU is not known, so nothing that is later may go before it.
                return Ok(());
            }
            cpu.fill(layout, &mut room)?;
            heap.extend(cpu.next.as_ref().map(|(time, _)| Reverse((*time, index))));
        }
        Ok(())
    }

    /// How many records were read and not handed on.
    #[must_use]
    pub fn waiting(&self) -> u64 {
        let of = |cpu: &Cpu| {
            let mut cursor = cpu.cursor;
            let rest = std::iter::from_fn(|| cursor.next(&cpu.page)).count();
            u64::from(cpu.next.is_some()) + rest as u64
        };
        self.cpus.iter().map(of).sum()
    }
}

impl Cpu {
    fn new(number: u32, source: Source, size: usize) -> Self {
        Self { number, source, page: vec![0; size], cursor: Cursor::default(), next: None }
    }

    /// Reads pages until there is a record, or nothing more.
    fn fill(&mut self, layout: &PageLayout, room: &mut usize) -> Result<(), Unavailable> {
        while self.next.is_none() && *room > 0 {
            let read = self.source.read(&mut self.page)?;
            if read == 0 {
                return Ok(());
            }
            *room -= 1;
            self.cursor = layout.begin(self.page.get(..read).unwrap_or_default());
            self.next = self.cursor.next(&self.page);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEADER: &str = "\tfield: u64 timestamp;\toffset:0;\tsize:8;\tsigned:0;\n\
                          \tfield: local_t commit;\toffset:8;\tsize:8;\tsigned:1;\n\
                          \tfield: char data;\toffset:16;\tsize:4080;\tsigned:0;\n";

    /// A page of records of a word each, with their distances.
    fn page(time: u64, records: &[(u32, u32)]) -> Vec<u8> {
        let mut page = time.to_ne_bytes().to_vec();
        page.extend((records.len() as u64 * 8).to_ne_bytes());
        page.extend(records.iter().flat_map(|(delta, word)| [1 | delta << 5, *word]).flat_map(u32::to_ne_bytes));
        page
    }

    fn merged(cpus: Vec<Vec<Vec<u8>>>) -> Merged {
        let cpu = |(number, mut pages): (usize, Vec<Vec<u8>>)| {
            pages.reverse();
            Cpu::new(number as u32, Source::Test(pages), 4096)
        };
        Merged { layout: PageLayout::parse(HEADER), cpus: cpus.into_iter().enumerate().map(cpu).collect() }
    }

    fn words(merged: &mut Merged, until: u64) -> Vec<(u64, u32, u32)> {
        let mut all = Vec::new();
        let each = |time, cpu, bytes: &[u8]| all.push((time, cpu, u32::from_ne_bytes(bytes.try_into().unwrap())));
        merged.poll(until, each).unwrap();
        all
    }

    #[test]
    fn records_of_all_cpus_come_in_the_order_of_their_times_whatever_pages_they_are_in() {
        let first = vec![page(10, &[(0, 1), (5, 2)]), page(30, &[(0, 3)])];
        let second = vec![page(12, &[(0, 4), (8, 5)]), page(0, &[]), page(40, &[(0, 6)])];
        let all = words(&mut merged(vec![first, second, vec![]]), u64::MAX);
        assert_eq!(all, [(10, 0, 1), (12, 1, 4), (15, 0, 2), (20, 1, 5), (30, 0, 3), (40, 1, 6)]);
    }

    #[test]
    fn what_is_later_than_asked_for_waits() {
        let mut merged = merged(vec![vec![page(10, &[(0, 1), (5, 2), (1, 3)])], vec![page(12, &[(0, 4)])]]);
        assert_eq!(words(&mut merged, 12), [(10, 0, 1), (12, 1, 4)]);
        assert_eq!(merged.waiting(), 2);
        assert_eq!(words(&mut merged, u64::MAX), [(15, 0, 2), (16, 0, 3)]);
        assert_eq!(merged.waiting(), 0);
    }

    #[test]
    fn a_flood_on_one_cpu_ends_the_turn_and_puts_nothing_out_of_order() {
        let flood: Vec<Vec<u8>> = (0..TURN as u64 + 3).map(|at| page(at, &[(0, 1)])).collect();
        let mut merged = merged(vec![flood, vec![page(TURN as u64 + 1, &[(0, 2)])]]);
        let first = words(&mut merged, u64::MAX);
        assert!(first.len() < TURN && first.iter().all(|(.., word)| *word == 1), "{}", first.len());
        let all = [first, words(&mut merged, u64::MAX)].concat();
        assert_eq!(all.len(), TURN + 4);
        assert!(all.is_sorted_by_key(|(time, ..)| *time));
    }
}
