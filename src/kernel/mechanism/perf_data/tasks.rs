//! What tasks were called, and which files their memory came from, at each moment of a recording.

use std::collections::{BTreeMap, HashMap};
use std::rc::Rc;

/// Mappings that are remembered, of all processes together.
const MAX_MAPPINGS: usize = 1 << 20;
/// Mappings that are copied, since processes begin with their parents' memory: an hour of a busy build has a tenth.
const MAX_COPIED: usize = 16 << 20;
/// Tasks whose names are remembered.
const MAX_TASKS: usize = 1 << 20;

/// A part of a process's memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Mapping {
    pub(super) end: u64,
    /// Where in the file it begins.
    pub(super) offset: u64,
    /// The file, by number.
    pub(super) object: u32,
}

type Memory = BTreeMap<u64, Mapping>;

/// Tasks as they are at one moment.
#[derive(Debug, Default)]
pub(super) struct Tasks {
    /// By thread id: the number of its name.
    names: HashMap<u32, u32>,
    memory: HashMap<u32, Rc<Memory>>,
    mappings: usize,
    /// Mappings that were copied so far, whether they are still there or not: that takes time.
    copied: usize,
    /// Mappings and names that found no room.
    pub(super) forgotten: u64,
}

impl Tasks {
    pub(super) fn name(&self, tid: u32) -> Option<u32> {
        self.names.get(&tid).copied()
    }

    /// A task takes a name; with a new program, its memory is new too.
    pub(super) fn rename(&mut self, pid: u32, tid: u32, name: u32, is_exec: bool) {
        if self.names.len() >= MAX_TASKS && !self.names.contains_key(&tid) {
            self.forgotten += 1;
            return;
        }
        self.names.insert(tid, name);
        if is_exec {
            let memory = self.memory.remove(&pid);
            self.forget(memory);
        }
    }

    /// A memory is gone; what others share with it stays.
    fn forget(&mut self, memory: Option<Rc<Memory>>) {
        if let Some(Ok(memory)) = memory.map(Rc::try_unwrap) {
            self.mappings = self.mappings.saturating_sub(memory.len());
        }
    }

    /// A task begins: it is called as its parent, and a process has a copy of its parent's memory.
    pub(super) fn fork(&mut self, (pid, tid): (u32, u32), (parent, parent_tid): (u32, u32)) {
        if let Some(name) = self.name(parent_tid) {
            self.rename(pid, tid, name, false);
        }
        if pid != parent
            && self.memory.len() < MAX_TASKS
            && let Some(memory) = self.memory.get(&parent)
        {
            let before = self.memory.insert(pid, Rc::clone(memory));
            self.forget(before);
        }
    }

    pub(super) fn map(&mut self, pid: u32, start: u64, mapping: Mapping) {
        if start >= mapping.end {
            return;
        }
        // A memory that others share is copied when it changes.
        let copied =
            self.memory.get(&pid).filter(|memory| Rc::strong_count(memory) > 1).map_or(0, |memory| memory.len());
        if self.mappings.saturating_add(copied) >= MAX_MAPPINGS
            || self.copied.saturating_add(copied) > MAX_COPIED
            || self.memory.len() >= MAX_TASKS
        {
            self.forgotten += 1;
            return;
        }
        self.mappings += copied;
        self.copied += copied;
        let memory = Rc::make_mut(self.memory.entry(pid).or_default());
        let before = memory.len();
        // What it replaces: wholly, or at its edges.
        let first = memory.range(..start).next_back().filter(|(_, old)| old.end > start).map(|(at, _)| *at);
        let within: Vec<u64> = first.into_iter().chain(memory.range(start..mapping.end).map(|(at, _)| *at)).collect();
        for at in within {
            let Some(old) = memory.remove(&at) else { continue };
            if at < start {
                memory.insert(at, Mapping { end: start, ..old });
            }
            if old.end > mapping.end {
                memory.insert(mapping.end, Mapping { offset: old.offset.wrapping_add(mapping.end - at), ..old });
            }
        }
        memory.insert(start, mapping);
        self.mappings = (self.mappings + memory.len()).saturating_sub(before);
    }

    /// The file behind an address, and the place in it.
    pub(super) fn place(&self, pid: u32, address: u64) -> Option<(u32, u64)> {
        let (start, mapping) = self.memory.get(&pid)?.range(..=address).next_back()?;
        (address < mapping.end).then(|| (mapping.object, (address - start).wrapping_add(mapping.offset)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mapping(end: u64, offset: u64, object: u32) -> Mapping {
        Mapping { end, offset, object }
    }

    #[test]
    fn a_later_mapping_replaces_what_it_covers_and_leaves_the_rest() {
        let mut tasks = Tasks::default();
        tasks.map(7, 100, mapping(200, 1000, 1));
        tasks.map(7, 140, mapping(160, 0, 2));
        let at = |address| tasks.place(7, address);
        assert_eq!(
            [at(99), at(100), at(139), at(140), at(159), at(160), at(199), at(200)],
            [
                None,
                Some((1, 1000)),
                Some((1, 1039)),
                Some((2, 0)),
                Some((2, 19)),
                Some((1, 1060)),
                Some((1, 1099)),
                None
            ]
        );
    }

    #[test]
    fn a_child_has_its_parents_name_and_memory_until_it_starts_a_program() {
        let mut tasks = Tasks::default();
        tasks.rename(1, 1, 5, true);
        tasks.map(1, 0, mapping(10, 0, 3));
        tasks.fork((2, 2), (1, 1));
        tasks.fork((2, 4), (2, 2));
        assert_eq!((tasks.name(2), tasks.name(4), tasks.place(2, 5)), (Some(5), Some(5), Some((3, 5))));
        tasks.map(2, 0, mapping(10, 0, 9));
        assert_eq!(tasks.place(1, 5), Some((3, 5)), "the parent keeps its own");
        tasks.rename(2, 2, 6, true);
        assert_eq!((tasks.place(2, 5), tasks.name(2)), (None, Some(6)));
    }

    #[test]
    fn a_memory_that_is_shared_is_not_taken_off_the_count_when_one_of_its_processes_ends() {
        let mut tasks = Tasks::default();
        for at in 0..100 {
            tasks.map(1, at * 10, mapping(at * 10 + 5, 0, 3));
        }
        for child in 2..50 {
            tasks.fork((child, child), (1, 1));
            tasks.rename(child, child, 6, true);
        }
        assert_eq!(tasks.mappings, 100);
        tasks.fork((2, 2), (1, 1));
        tasks.map(2, 5, mapping(6, 0, 9));
        assert_eq!((tasks.mappings, tasks.copied), (201, 100));
        tasks.rename(2, 2, 6, true);
        assert_eq!(tasks.mappings, 100);
    }

    #[test]
    fn copies_of_a_large_memory_come_to_an_end() {
        let mut tasks = Tasks::default();
        for at in 0..100_000 {
            tasks.map(1, at * 10, mapping(at * 10 + 5, 0, 3));
        }
        for child in 2..100_000 {
            tasks.fork((child, child), (1, 1));
            tasks.map(child, 5, mapping(6, 0, 9));
            tasks.rename(child, child, 6, true);
        }
        assert!(tasks.copied <= MAX_COPIED && tasks.forgotten > 90_000, "{} {}", tasks.copied, tasks.forgotten);
    }

    #[test]
    fn absurd_mappings_are_harmless() {
        let mut tasks = Tasks::default();
        tasks.map(1, u64::MAX, mapping(0, 0, 1));
        tasks.map(1, 5, mapping(5, 0, 1));
        tasks.map(1, 0, mapping(u64::MAX, u64::MAX, 1));
        tasks.map(1, 3, mapping(4, 0, 2));
        assert_eq!(tasks.place(1, u64::MAX), None);
        assert_eq!(tasks.place(1, u64::MAX - 1).map(|(object, _)| object), Some(1));
    }
}
