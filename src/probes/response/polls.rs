//! What threads waited for in poll, select and epoll: looked at while they sleep, with the looks of the timelines.
//!
//! The programs know the call, its time and the descriptors that poll and select name, and not what these are open on. A wait that a
//! look finds is one of those that the thread's sum holds, so it is taken out of that with its time and stands under the name of what it
//! waited for. What no look found is left without a name, unless all that were found had the same one and stand for most of the time.

use std::collections::{BTreeMap, HashMap};

use super::descriptors::{self, Member, Sockets};
use super::record::{Cell, Record, ThreadWords};
use super::rings;
use rdiag_kernel::classify::Abi;
use rdiag_kernel::classify::calls::{self, Kind as CallKind};
use rdiag_kernel::host::Host;
use rdiag_kernel::mechanism::ebpf::Object;
use rdiag_model::ledger::{Bucket, Durations};

/// A wait must have lasted this long, in ns, to be looked at: of shorter ones there may be thousands.
pub(super) const YOUNGEST: u64 = 20_000_000;
/// Waits that one look reads the descriptors of.
const MAX_FRESH: usize = 64;
/// Waits that are kept, of one thread and of all.
const MAX_OF_THREAD: usize = 1000;
const MAX_KEPT: usize = 50_000;
/// Looking up sockets takes at most one part in so many of the time.
const REST: f64 = 50.0;
/// The same of reading descriptors: an epoll instance may have a million of them.
const REST_OF_READING: f64 = 10.0;
/// One look reads descriptors for no longer, in seconds, but for the last one.
const MOST_SECONDS: f64 = 0.05;
/// A rest of fewer seconds is none: the next look comes later anyway.
const SHORT: f64 = 0.1;
/// Instants of the programs that differ by less than this, in ns, are of the same wait.
const SAME: u64 = YOUNGEST / 2;
/// So many waits stand for all of a thread's.
const ENOUGH: usize = 10;

/// A thread that is asleep, and has been for a while.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Asleep {
    pub(super) slot: u32,
    pub(super) tid: u32,
    pub(super) pid: u32,
    pub(super) process_born: u64,
    pub(super) call: u64,
    /// The first of the call.
    pub(super) argument: u64,
    /// In ns of CLOCK_MONOTONIC.
    pub(super) since: u64,
    /// When it was looked at.
    pub(super) at: u64,
}

/// A wait that was looked at.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Seen {
    call: u64,
    since: u64,
    last: u64,
    /// "" if that is not known.
    name: String,
}

/// The waits that were looked at so far, by thread id and birth of its process.
#[derive(Debug, Default)]
pub(super) struct Polls {
    seen: HashMap<(u32, u64), Vec<Seen>>,
    kept: usize,
    /// Before this instant, in seconds, no sockets are looked up.
    rest_until: f64,
    /// Before this one, no descriptors are read.
    read_from: f64,
}

/// Some of a cell's waits, with the name of what they were for.
pub(super) type Named = (String, Cell);

/// Whether a call waits for any of many descriptors, or of the requests of an io_uring.
fn is_poll(call: u64) -> bool {
    calls::name(Abi::Native, call.cast_signed()).and_then(calls::kind) == Some(CallKind::Poll) || is_ring(call)
}

fn is_ring(call: u64) -> bool {
    calls::name(Abi::Native, call.cast_signed()) == Some("io_uring_enter")
}

impl Polls {
    /// Looks at what threads sleep for. Whatever cannot be read has no name.
    pub(super) fn look(&mut self, host: &Host, object: &Object, asleep: &[Asleep]) {
        let mut fresh: Vec<(Asleep, Vec<Member>)> = Vec::new();
        let began = host.now();
        let mut left = if began < self.read_from { 0 } else { MAX_FRESH };
        for own in asleep.iter().filter(|own| own.at.saturating_sub(own.since) >= YOUNGEST && is_poll(own.call)) {
            let seen = self.seen.entry((own.tid, own.process_born)).or_default();
            if let Some(known) = seen.last_mut().filter(|known| known.since == own.since) {
                known.last = own.at;
            } else if left > 0 && seen.len() < MAX_OF_THREAD && self.kept < MAX_KEPT {
                let members = members(host, object, own);
                left = if host.now() - began < MOST_SECONDS { left - 1 } else { 0 };
                // It may have gone on to the next wait meanwhile.
                if still(object, own) {
                    fresh.push((*own, members));
                }
            }
        }
        let read = host.now();
        let rest = (read - began) * REST_OF_READING;
        self.read_from = if rest < SHORT { 0.0 } else { read + rest };
        let sockets = self.sockets(host, &fresh);
        for (own, members) in fresh {
            let none = Sockets::default();
            let name = descriptors::name(&members, sockets.get(&own.pid).unwrap_or(&none));
            self.kept += 1;
            let seen = Seen { call: own.call, since: own.since, last: own.at, name };
            self.seen.entry((own.tid, own.process_born)).or_default().push(seen);
        }
    }

    /// The sockets that are waited for, by process.
    fn sockets(&mut self, host: &Host, fresh: &[(Asleep, Vec<Member>)]) -> BTreeMap<u32, Sockets> {
        let mut wanted: BTreeMap<u32, Vec<u64>> = BTreeMap::new();
        for (own, members) in fresh {
            let inodes = members
                .iter()
                .filter_map(|member| if let Member::Socket(inode) = member { Some(*inode) } else { None });
            wanted.entry(own.pid).or_default().extend(inodes);
        }
        let mut found = BTreeMap::new();
        for (pid, inodes) in wanted.into_iter().filter(|(_, inodes)| !inodes.is_empty()) {
            let before = host.now();
            if before < self.rest_until {
                break;
            }
            found.insert(pid, Sockets::find(host, pid, inodes));
            let after = host.now();
            let rest = (after - before) * REST;
            self.rest_until = if rest < SHORT { 0.0 } else { after + rest };
        }
        found
    }

    /// The waits of a cell by what they were for, which together are all of it; none where nothing is known beyond the cell itself.
    pub(super) fn divide(&self, record: &Record, cell: &Cell) -> Vec<Named> {
        let call = cell.kind.call();
        let is_disk = cell.kind.io_wait();
        if cell.max.max(cell.open_ns) < YOUNGEST || !is_poll(call) || is_disk || cell.kind.kernel_lock() {
            return Vec::new();
        }
        let all = self.seen.get(&(record.tid, record.process_born)).map_or(&[][..], Vec::as_slice);
        let within = |seen: &&Seen| seen.call == call && record.began <= seen.since + SAME && seen.since < record.ended;
        let seen: Vec<&Seen> = all.iter().filter(within).collect();
        let Some(first) = seen.first().filter(|_| seen.iter().any(|one| !one.name.is_empty())) else {
            return Vec::new();
        };
        let (mut rest, mut named) = (cell.clone(), BTreeMap::<&str, Cell>::new());
        for one in &seen {
            if let Some(own) = take(&mut rest, cell, one, record) {
                match named.get_mut(one.name.as_str()) {
                    Some(sum) => absorb(sum, &own),
                    None => drop(named.insert(&one.name, own)),
                }
            }
        }
        let found: u64 = named.values().map(|own| own.ns.saturating_add(own.open_ns)).sum();
        let is_most = found >= rest.ns.saturating_add(rest.open_ns) || seen.len() >= ENOUGH;
        let is_one = seen.iter().all(|one| one.name == first.name);
        let name = if is_one && is_most { first.name.as_str() } else { "" };
        match named.get_mut(name) {
            Some(sum) => absorb(sum, &rest),
            None if rest.count > 0 || rest.open > 0 || rest.ns > 0 || rest.open_ns > 0 => {
                drop(named.insert(name, rest))
            }
            None => {}
        }
        named.into_iter().map(|(name, own)| (name.to_owned(), own)).collect()
    }
}

/// What a thread waits for; nothing where that cannot be seen.
fn members(host: &Host, object: &Object, own: &Asleep) -> Vec<Member> {
    if is_ring(own.call) {
        return rings::waits_for(host, own.pid, own.argument).map(Member::Ring).into_iter().collect();
    }
    descriptors::members(host, object, own).unwrap_or_default()
}

/// Whether a thread is still in the same wait.
fn still(object: &Object, own: &Asleep) -> bool {
    object.element::<ThreadWords>("threads", own.slot).is_ok_and(|[_, since, ..]| since == own.since)
}

/// Takes the wait that was seen out of the sum of `rest`, of which `cell` is the whole. None if nothing is left that it can be.
fn take(rest: &mut Cell, cell: &Cell, seen: &Seen, record: &Record) -> Option<Cell> {
    let like =
        Cell { kind: cell.kind, stack: cell.stack, object: cell.object, name: cell.name.clone(), ..Cell::default() };
    let lasted = seen.last.saturating_sub(seen.since);
    let is_last = rest.open > 0 && near(cell.open_at, seen.since);
    if is_last || rest.open > 0 && near(record.began, seen.since) {
        // Of one that goes on beyond the end, the end is known; of two, no more than what was seen.
        let ns = match cell.open {
            1 => rest.open_ns,
            _ if is_last => record.ended.saturating_sub(seen.since).min(rest.open_ns),
            _ => lasted.min(rest.open_ns),
        };
        rest.open -= 1;
        rest.open_ns -= ns;
        let open_at = if is_last { cell.open_at } else { record.began };
        return Some(Cell { open: 1, open_ns: ns, open_at, durations: Some(Durations::default()), ..like });
    }
    let longest = rest.max > 0 && near(cell.max_at.saturating_sub(cell.max), seen.since);
    let at_least = if longest { cell.max } else { lasted };
    rest.count = rest.count.checked_sub(1)?;
    let durations = rest.durations.as_mut().map(|durations| take_one(durations, at_least));
    let ns = match &durations {
        Some(Some(one)) => (one.seconds * 1e9) as u64,
        _ => at_least,
    };
    let ns = if longest { cell.max } else { ns }.min(rest.ns);
    rest.ns -= ns;
    if longest {
        // The next ones are shorter, and which is the longest of them is not known.
        (rest.max, rest.max_at) = (0, 0);
    }
    let max_at = if longest { cell.max_at } else { seen.since.saturating_add(ns) };
    Some(Cell { count: 1, ns, max: ns, max_at, durations: durations.flatten(), ..like })
}

/// Takes a duration of at least so many ns out of a distribution.
fn take_one(from: &mut Durations, at_least: u64) -> Option<Durations> {
    let at_least = at_least as f64 * 1e-9;
    let last = from.buckets.len().checked_sub(1)?;
    let at = from.buckets.iter().position(|bucket| bucket.below > at_least).unwrap_or(last);
    let bucket = from.buckets.get_mut(at)?;
    let mean = bucket.seconds / bucket.count.max(1) as f64;
    let below = bucket.below;
    bucket.count = bucket.count.saturating_sub(1);
    bucket.seconds = (bucket.seconds - mean).max(0.0);
    from.buckets.retain(|bucket| bucket.count > 0);
    from.count = from.count.saturating_sub(1);
    from.seconds = (from.seconds - mean).max(0.0);
    if let Some(last) = from.buckets.last() {
        from.max = from.max.min(last.below);
    }
    let buckets = vec![Bucket { below, count: 1, seconds: mean }];
    Some(Durations { count: 1, seconds: mean, min: mean, max: mean, buckets })
}

fn absorb(sum: &mut Cell, other: &Cell) {
    if other.open > 0 {
        sum.open_at = other.open_at;
    }
    sum.absorb(other);
}

fn near(a: u64, b: u64) -> bool {
    a.abs_diff(b) < SAME
}

#[cfg(test)]
mod tests {
    use super::super::kind::Kind;
    use super::*;

    const MS: u64 = 1_000_000;

    fn poll() -> u64 {
        (0..500).find(|number| calls::name(Abi::Native, *number) == Some("poll")).map_or(510, i64::cast_unsigned)
    }

    /// The sum of waits of these lengths in ms, of which the longest ended at this instant.
    fn cell(waits: &[u64], max_at: u64) -> Cell {
        let mut durations = Durations::default();
        for ms in waits {
            let seconds = *ms as f64 * 1e-3;
            let buckets = vec![Bucket { below: seconds * 1.1, count: 1, seconds }];
            durations.add(&Durations { count: 1, seconds, min: seconds, max: seconds, buckets });
        }
        Cell {
            kind: Kind(2 | poll() << 8),
            count: waits.len() as u64,
            ns: waits.iter().sum::<u64>() * MS,
            max: waits.iter().max().copied().unwrap_or(0) * MS,
            max_at: max_at * MS,
            durations: Some(durations),
            ..Cell::default()
        }
    }

    /// What is found where these waits were seen: since and until when, in ms, and for what.
    fn divided(cell: &Cell, seen: &[(u64, u64, &str)]) -> Vec<(String, u64, u64)> {
        let seen = seen.iter().map(|(since, last, name)| Seen {
            call: poll(),
            since: since * MS,
            last: last * MS,
            name: (*name).to_owned(),
        });
        let polls = Polls { seen: [((10, 77), seen.collect())].into(), ..Polls::default() };
        let record = Record { tid: 10, process_born: 77, began: 0, ended: 20_000 * MS, ..Record::default() };
        let named = polls.divide(&record, cell);
        let sum: u64 = named.iter().map(|(_, own)| own.ns + own.open_ns).sum();
        assert!(named.is_empty() || sum == cell.ns + cell.open_ns, "{sum}");
        let count: u64 = named.iter().filter_map(|(_, own)| own.durations.as_ref()).map(|own| own.count).sum();
        assert!(named.is_empty() || count == cell.count, "{count}");
        named.into_iter().map(|(name, own)| (name, own.count + own.open, (own.ns + own.open_ns).div_ceil(MS))).collect()
    }

    #[test]
    fn waits_that_were_seen_have_their_names_and_their_whole_time() {
        let cell = cell(&[5000, 5100, 700, 1, 2], 6200);
        let seen = [
            (100, 5000, "10.0.0.53:53 (DNS)"),
            (6300, 11_200, "10.0.0.53:53 (DNS)"),
            (12_000, 12_600, "10.0.0.9:5432"),
        ];
        let named = divided(&cell, &seen);
        let of = |name: &str, count, ms| (name.to_owned(), count, ms);
        assert_eq!(named, [of("", 2, 3), of("10.0.0.53:53 (DNS)", 2, 10_100), of("10.0.0.9:5432", 1, 700)]);
    }

    #[test]
    fn the_others_have_that_name_too_if_all_that_were_seen_do_and_they_are_most_or_many() {
        let name = "10.0.0.9:5432";
        let one = |named: Vec<(String, u64, u64)>| named.iter().all(|(own, ..)| own == name);
        assert!(one(divided(&cell(&[900, 300], 1000), &[(100, 800, name)])), "most of the time");
        assert!(!one(divided(&cell(&[900, 950], 5000), &[(100, 800, name)])));
        let many: Vec<_> = (0..10).map(|at| (at * 1000, at * 1000 + 25, name)).collect();
        let waits = [40; 200];
        assert!(one(divided(&cell(&waits, 19_000), &many)), "ten of them");
        assert!(!one(divided(&cell(&waits, 19_000), &many[1..])));
        let mut other = many;
        other.push((15_000, 15_025, "10.0.0.8:5432"));
        assert!(!one(divided(&cell(&waits, 19_000), &other)), "one was for something else");
    }

    #[test]
    fn one_that_goes_on_at_the_end_is_known_to_its_end() {
        let mut cell = cell(&[3], 10);
        (cell.open, cell.open_ns, cell.open_at) = (1, 8000 * MS, 12_000 * MS);
        let named = divided(&cell, &[(12_000, 19_800, "10.0.0.53:53 (DNS)")]);
        assert_eq!(named, [("10.0.0.53:53 (DNS)".to_owned(), 2, 8003)]);
        // It began before the observation, and another one goes on.
        (cell.open, cell.open_ns, cell.open_at) = (2, 9000 * MS, 12_000 * MS);
        let named = divided(&cell, &[(0, 900, "a"), (12_000, 19_800, "b")]);
        assert_eq!(named, [(String::new(), 1, 103), ("a".to_owned(), 1, 900), ("b".to_owned(), 1, 8000)]);
    }

    #[test]
    fn short_waits_and_those_of_other_calls_are_not_divided() {
        assert_eq!(divided(&cell(&[19], 100), &[(80, 99, "a")]), []);
        assert_eq!(divided(&cell(&[30], 100), &[]), []);
        assert_eq!(divided(&cell(&[30], 100), &[(70, 99, "")]), [], "what was seen has no name");
        let read = Cell { kind: Kind(2), ..cell(&[30], 100) };
        assert_eq!(divided(&read, &[(70, 99, "a")]), []);
        let disk = Cell { kind: Kind(2 | poll() << 8 | 1 << 48), ..cell(&[30], 100) };
        assert_eq!(divided(&disk, &[(70, 99, "a")]), []);
    }

    #[test]
    fn waits_without_a_distribution_are_divided_by_what_was_seen() {
        let cell = Cell { durations: None, ..cell(&[900, 950, 10], 5000) };
        let record = Record { tid: 10, process_born: 77, ended: 20_000 * MS, ..Record::default() };
        let seen = Seen { call: poll(), since: 100 * MS, last: 800 * MS, name: "a".into() };
        let polls = Polls { seen: [((10, 77), vec![seen])].into(), ..Polls::default() };
        let named = polls.divide(&record, &cell);
        let figures: Vec<_> = named.iter().map(|(name, own)| (name.as_str(), own.count, own.ns / MS)).collect();
        assert_eq!(figures, [("", 2, 1160), ("a", 1, 700)]);
        assert!(named.iter().all(|(_, own)| own.durations.is_none()));
    }
}
