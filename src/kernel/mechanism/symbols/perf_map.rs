//! /tmp/perf-PID.map: where a process that compiles at run time has put which function.

use std::collections::{BTreeMap, HashMap};
use std::io::Read as _;
use std::ops::Range;
use std::sync::Arc;

use super::bounded::one_of_many;
use super::named::MAX_NAME;
use super::open::{self, Found, Identity};
use super::process::{self, Process};
use crate::host::Host;
use crate::host::way::Tree;
use rdiag_proc::field;

/// What stands for the binary of code that no file holds.
pub const OBJECT: &str = "[compiled at run time]";
/// Larger maps are read up to here, and up to so many functions: a server of many classes has tens of thousands. Every process may have
/// one.
const MAX_BYTES: u64 = 16 << 20;
const MAX_FUNCTIONS: usize = 200_000;
/// Bytes of all maps that are remembered.
const MAX_HELD: usize = 32 << 20;
/// After a map was read, it is left alone for so many times as long as that took.
const REST: f64 = 10.0;

/// A file is looked for no more often than once in so many seconds: what a process has mounted may make that take long.
const LOOK: f64 = 1.0;
/// Seconds that looking for maps and reading them may take, and the share of the time that passes: for one user, and for all.
const OF_USER: f64 = 1.0;
const SHARE_OF_USER: f64 = 0.02;
const OF_ALL: f64 = 3.0;
const SHARE_OF_ALL: f64 = 0.05;
/// Processes that are remembered.
const MAX_KNOWN: usize = 65_536;

/// Functions in order of their addresses.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct PerfMap {
    text: String,
    /// By its first byte: the last byte, and where the name lies in the text. None overlaps another.
    functions: BTreeMap<u64, (u64, Range<usize>)>,
}

impl PerfMap {
    /// Where functions begin.
    pub(super) fn starts(&self) -> impl Iterator<Item = u64> {
        self.functions.keys().copied()
    }

    pub(super) fn parse(text: String) -> Self {
        let mut functions = BTreeMap::new();
        for (start, length, name) in text.lines().filter_map(|line| function(&text, line)).take(MAX_FUNCTIONS) {
            if let Some(last) = length.checked_sub(1) {
                put(&mut functions, start, start.saturating_add(last), name);
            }
        }
        Self { text, functions }
    }

    /// The function at an address.
    pub(super) fn name(&self, address: u64) -> Option<&str> {
        let (_, (last, name)) = self.functions.range(..=address).next_back()?;
        self.text.get(name.clone()).filter(|_| address <= *last)
    }
}

/// The maps of processes, each read again when its file has changed.
#[derive(Debug, Default)]
pub(super) struct PerfMaps {
    known: HashMap<Process, Known>,
    spent: Spent,
}

#[derive(Debug)]
struct Known {
    /// None if there is no such file.
    identity: Option<Identity>,
    /// Its functions, unless others took their room.
    map: Option<Arc<PerfMap>>,
    /// When its file may be looked for again.
    look: f64,
    /// When it may be read again: a process that writes it all the time must not keep its reader busy.
    again: f64,
}

/// The seconds that went into looking for maps and reading them, which are the measuring thread's.
#[derive(Debug, Default)]
struct Spent {
    since: Option<f64>,
    all: f64,
    by_user: HashMap<u32, f64>,
}

impl Spent {
    /// Whether more may go into those of a user: some time, and a share of what has passed since the first one was asked for.
    fn allows(&mut self, user: u32, now: f64) -> bool {
        let passed = now - *self.since.get_or_insert(now);
        let of_user = self.by_user.get(&user).copied().unwrap_or_default();
        of_user <= OF_USER + SHARE_OF_USER * passed && self.all <= OF_ALL + SHARE_OF_ALL * passed
    }

    fn add(&mut self, user: u32, seconds: f64) {
        *self.by_user.entry(user).or_default() += seconds;
        self.all += seconds;
    }
}

impl PerfMaps {
    /// The map of a process, from its own /tmp. A file of another user is not trusted, but for root's.
    pub(super) fn of(&mut self, host: &Host, process: Process) -> Option<Arc<PerfMap>> {
        let began = host.now();
        if let Some(known) = self.known.get(&process).filter(|known| began < known.look) {
            return known.map.clone();
        }
        let (owner, _) = host.owner_and_inode(&format!("proc/{}", process.pid))?;
        let user = one_of_many(owner);
        if !self.spent.allows(user, began) {
            let known = self.known.get_mut(&process)?;
            known.look = began + LOOK;
            return known.map.clone();
        }
        let map = self.look(host, process, owner);
        self.spent.add(user, host.now() - began);
        map
    }

    fn look(&mut self, host: &Host, process: Process, owner: u32) -> Option<Arc<PerfMap>> {
        let began = host.now();
        let found = find(host, process, owner);
        let identity = found.as_ref().map(|found| found.identity.clone());
        let look = host.now() + LOOK;
        if let Some(known) = self.known.get_mut(&process) {
            let is_same = known.identity == identity && (known.map.is_some() || identity.is_none());
            if is_same || began < known.again {
                known.look = look;
                return known.map.clone();
            }
        }
        let text = found.and_then(|found| read(found, process.pid));
        let map = text.map(|text| Arc::new(PerfMap::parse(text)));
        self.make_room(map.as_ref().map_or(0, |map| map.text.len()));
        let again = host.now() + (host.now() - began) * REST;
        self.known.insert(process, Known { identity, map: map.clone(), look, again });
        map
    }

    /// Drops functions for so many bytes of others, but not when they may be read again.
    fn make_room(&mut self, bytes: usize) {
        let held: usize = self.known.values().filter_map(|known| known.map.as_ref()).map(|map| map.text.len()).sum();
        if held.saturating_add(bytes) > MAX_HELD {
            self.known.values_mut().for_each(|known| known.map = None);
        }
        if self.known.len() >= MAX_KNOWN {
            self.known.clear();
        }
    }
}

fn read(found: Found, pid: u32) -> Option<String> {
    let file = std::fs::File::from(found.open(Some(pid)).ok()?);
    let mut bytes = Vec::new();
    file.take(MAX_BYTES).read_to_end(&mut bytes).ok()?;
    Some(String::from_utf8_lossy(&bytes).into_owned())
}

fn find(host: &Host, process: Process, owner: u32) -> Option<Found> {
    let pid = process.pid;
    let status = host.read(&format!("proc/{pid}/status")).ok()?;
    let inner = field(&status, "NStgid:").and_then(|ids| ids.split_whitespace().next_back()).unwrap_or_default();
    let inner = if inner.is_empty() { pid.to_string() } else { inner.to_owned() };
    // In its own tree of files, through no link. Only a regular file is opened, of its user, or of root where root alone mounts.
    let tree = Tree::of(host, pid).ok()?;
    let found = open::find_below(&tree, &format!("tmp/perf-{inner}.map")).ok()?;
    let is_trusted = found.owner == owner || (found.owner == 0 && !tree.is_of_user());
    // All of that was asked by a number, which another process may have got meanwhile.
    (process::is_same(host, process) && is_trusted).then_some(found)
}

/// Puts a function where others may have been: a runtime uses memory again (V8 does it all the time), and the later entry of the
/// file is what lies there now.
fn put(functions: &mut BTreeMap<u64, (u64, Range<usize>)>, start: u64, last: u64, name: Range<usize>) {
    let before = functions.range(..start).next_back().map(|(at, (end, old))| (*at, *end, old.clone()));
    if let Some((at, end, old)) = before.filter(|(_, end, _)| *end >= start) {
        functions.insert(at, (start.saturating_sub(1), old.clone()));
        if end > last {
            functions.insert(last.saturating_add(1), (end, old));
        }
    }
    while let Some((at, (end, old))) = functions.range(start..=last).next().map(|(at, old)| (*at, old.clone())) {
        functions.remove(&at);
        if end > last {
            functions.insert(last.saturating_add(1), (end, old));
        }
    }
    functions.insert(start, (last, name));
}

/// `START LENGTH NAME`, the numbers in hexadecimal.
fn function(text: &str, line: &str) -> Option<(u64, u64, Range<usize>)> {
    let (start, rest) = line.split_once(' ')?;
    let (length, name) = rest.trim_start().split_once(' ')?;
    let number = |text: &str| u64::from_str_radix(text.trim_start_matches("0x"), 16).ok();
    let at = (name.as_ptr() as usize).checked_sub(text.as_ptr() as usize)?;
    let longest = name.char_indices().nth(MAX_NAME).map_or(name, |(end, _)| name.get(..end).unwrap_or_default());
    Some((number(start)?, number(length)?, at..at + longest.trim_end().len()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_for_maps_is_bounded_for_one_user_and_for_all() {
        let mut spent = Spent::default();
        assert!(spent.allows(1, 100.0));
        spent.add(1, OF_USER + 0.1);
        assert!(!spent.allows(1, 100.0) && spent.allows(2, 100.0), "the other one's is not spent");
        assert!(spent.allows(1, 100.0 + 0.11 / SHARE_OF_USER), "a share of what passes");
        (2..=3).for_each(|user| spent.add(user, OF_USER));
        assert!(!spent.allows(4, 100.0), "that of all is");
        assert!(spent.allows(4, 100.0 + 0.11 / SHARE_OF_ALL));
    }

    #[test]
    fn a_map_that_others_took_the_room_of_is_read_again_no_sooner_for_that() {
        let map = Arc::new(PerfMap::parse("x".repeat(MAX_HELD / 2)));
        let known = |map| Known { identity: Some(Identity::numbered(1)), map: Some(map), look: 7.0, again: 9.0 };
        let process = |pid| Process { pid, born: 1 };
        let mut maps = PerfMaps::default();
        maps.known.insert(process(1), known(map.clone()));
        maps.make_room(MAX_HELD / 2);
        assert!(maps.known[&process(1)].map.is_some());
        maps.make_room(MAX_HELD / 2 + 1);
        let known = &maps.known[&process(1)];
        assert!(known.map.is_none() && known.identity.is_some() && (known.look, known.again) == (7.0, 9.0));
    }

    #[test]
    fn an_address_has_the_name_of_the_last_function_that_covers_it_and_bad_lines_do_no_harm() {
        let map = PerfMap::parse(
            "7f00 10 old\n7f20 20 py::f:/a b.py\nx y z\n\n7f00\n0x7f00 0x10 new\nffffffffffffffff 5 end\n".into(),
        );
        assert_eq!(map.name(0x7f00), Some("new"));
        assert_eq!(map.name(0x7f0f), Some("new"));
        assert_eq!(map.name(0x7f10), None);
        assert_eq!(map.name(0x7f3f), Some("py::f:/a b.py"));
        assert_eq!(map.name(u64::MAX), Some("end"));
        assert_eq!(map.name(0), None);
        assert_eq!(PerfMap::parse(String::new()).name(1), None);
    }

    #[test]
    fn a_name_and_a_list_without_end_are_cut() {
        let long = format!("100 10 {}\n200 10 next\n", "ä".repeat(1 << 20));
        let map = PerfMap::parse(long);
        assert_eq!(map.name(0x100).map(|name| name.chars().count()), Some(MAX_NAME));
        assert_eq!(map.name(0x200), Some("next"));
        let many: String = (0..=MAX_FUNCTIONS).map(|at| format!("{:x} 1 f\n", at * 2)).collect();
        assert_eq!(PerfMap::parse(many).functions.len(), MAX_FUNCTIONS);
    }

    #[test]
    fn where_entries_overlap_the_later_one_wins_and_what_it_leaves_of_the_others_is_theirs() {
        let map = PerfMap::parse("100 100 first\n180 100 second\n150 80 third\n160 10 within\n1a0 0 empty\n".into());
        let names = [0xff, 0x100, 0x14f, 0x150, 0x15f, 0x160, 0x16f, 0x170, 0x1a0, 0x1cf, 0x1d0, 0x27f, 0x280];
        assert_eq!(
            names.map(|address| map.name(address).unwrap_or("-")),
            [
                "-", "first", "first", "third", "third", "within", "within", "third", "third", "third", "second",
                "second", "-"
            ]
        );
        // V8: an older function began later, in memory that a newer one took over whole.
        let reused = PerfMap::parse("2040 40 internal/histogram\n2000 100 burnJs\n".into());
        assert_eq!([0x2000, 0x2050, 0x20ff].map(|address| reused.name(address)), [Some("burnJs"); 3]);
        // More than sixty-four small ones below a large one do not hide it.
        let small: String = (0..200).map(|at| format!("{:x} 1 small\n", 0x3000 + at)).collect();
        let map = PerfMap::parse(format!("{small}3000 1000 large\n"));
        assert_eq!(map.name(0x30c8), Some("large"));
        assert_eq!(PerfMap::parse("10 20 end\n0 ffffffffffffffff all\n".into()).name(0x18), Some("all"));
    }
}
