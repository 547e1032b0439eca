//! Walks many stacks of one process at once: what one of them asks of a file, others need as well.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::time::Duration;

use super::step::{DEPTH, End, Walk};
use super::{ByTables, Dump, Walked, believed};
use crate::host::message::now;
use crate::mechanism::symbols::lookup::{Located, Lookup};
use crate::mechanism::symbols::maps::Maps;
use crate::mechanism::symbols::memory::Memory;
use crate::mechanism::symbols::worker::Of;

/// The kernel's own code, where it has no table, and what is beside it.
const PLACE: u64 = 16;
/// Rounds of questions: each brings every stack one frame further at least.
const ROUNDS: usize = DEPTH + 1;
/// Bytes of the stack of a thread that is asleep which are read.
const OF_SLEEPER: usize = 1 << 16;
/// How long they may take together: other processes wait behind this one.
const PATIENCE: Duration = Duration::from_millis(500);

/// The files of a process by the mappings that its stacks lead through; none for those that cannot be found.
type Files = HashMap<usize, Option<Located>>;

/// A place of which the row is not known yet: its mapping, an address there, and where in the file that is.
struct Unknown {
    mapping: usize,
    address: u64,
    offset: u64,
}

impl Lookup {
    /// Walks stacks of a process, and says why a file cannot be asked.
    pub(in super::super) fn walk(&mut self, of: &Of, dumps: Vec<Dump>, maps: &Maps) -> (Vec<Walked>, Vec<String>) {
        let Of::Process { pid, by_link, by_path } = of else { return (Vec::new(), Vec::new()) };
        let mut notes = Vec::new();
        let fill =
            |dump: Dump| if dump.is_asleep && dump.bytes.is_empty() { self.read_stack(*pid, dump) } else { dump };
        let mut walks: Vec<Walk> = dumps.into_iter().map(fill).map(Walk::new).collect();
        let mut files = Files::new();
        let until = now() + PATIENCE;
        // Places that were asked for in the last round.
        let mut asked: BTreeSet<(usize, u64)> = BTreeSet::new();
        'rounds: for _ in 0..ROUNDS {
            let mut wanted: BTreeMap<usize, (u64, BTreeSet<u64>)> = BTreeMap::new();
            for walk in &mut walks {
                let Some(Unknown { mapping, address, offset }) = self.go_on(walk, maps, &files) else { continue };
                if asked.contains(&(mapping, offset)) {
                    walk.end = Some(End::NoTable);
                    continue;
                }
                let (_, offsets) = wanted.entry(mapping).or_insert((address, BTreeSet::new()));
                offsets.insert(offset);
            }
            if wanted.is_empty() {
                break;
            }
            let places = |(mapping, (_, offsets)): (&usize, &(u64, BTreeSet<u64>))| {
                let mapping = *mapping;
                offsets.iter().map(move |offset| (mapping, *offset)).collect::<Vec<_>>()
            };
            asked = wanted.iter().flat_map(places).collect();
            for (mapping, (address, offsets)) in wanted {
                if now() >= until {
                    break 'rounds;
                }
                let found = files.entry(mapping).or_insert_with(|| {
                    let (file, _) = maps.in_file(address, *pid)?;
                    let found = self.locate(&file, *pid, (*by_link, *by_path));
                    found.map_err(|why| notes.push(unread(&file.object, &why))).ok()
                });
                let Some(located) = found else { continue };
                // Another process may have had the same file mapped.
                let is_new = |offset: &u64| self.rows.find(located.identity(), *offset).is_none();
                let offsets: Vec<u64> = offsets.into_iter().filter(is_new).collect();
                if !offsets.is_empty()
                    && let Err(why) = self.learn_rows(located, *pid, &offsets)
                {
                    notes.extend(maps.in_file(address, *pid).map(|(file, _)| unread(&file.object, &why)));
                    // For this walk: another may find it readable.
                    *found = None;
                }
            }
        }
        let notes = notes.into_iter().filter_map(|note| self.note(note)).collect();
        (walks.into_iter().map(|walk| walked(walk, maps)).collect(), notes)
    }

    /// The same with what the memory of its process has there; nothing if that cannot be read.
    fn read_stack(&self, pid: u32, dump: Dump) -> Dump {
        let from = dump.base;
        // What is mapped there may be a file's on a server that does not answer.
        let read = self.bounded.ask(pid, move || Memory::open(pid).map(|memory| memory.read(from, OF_SLEEPER)));
        Dump { bytes: read.ok().and_then(Result::ok).unwrap_or_default(), ..dump }
    }

    /// Walks as far as rows are known: to a place of which none is, or to the end.
    fn go_on(&self, walk: &mut Walk, maps: &Maps, files: &Files) -> Option<Unknown> {
        while walk.end.is_none() {
            let address = walk.place();
            let Some((mapping, offset)) = maps.code_in_file(address) else {
                match maps.kind(address) {
                    Some(_) => {
                        let (before, after) = maps.around_in_memory(address).unwrap_or((PLACE, PLACE));
                        walk.has_no_table(before, after);
                    }
                    None => walk.disbelieve(),
                }
                continue;
            };
            match files.get(&mapping).map(|found| found.as_ref().map(|found| self.rows.find(found.identity(), offset)))
            {
                Some(Some(Some(Some(row)))) => walk.step(row),
                Some(Some(Some(None))) => walk.has_no_table(0, 1),
                Some(None) => walk.has_unread_table(),
                Some(Some(None)) | None => return Some(Unknown { mapping, address, offset }),
            }
        }
        None
    }
}

fn unread(object: &str, why: &str) -> String {
    format!("the unwind tables of {object} could not be read: {why}")
}

/// What is to be believed: tables, unless frame pointers lead further where these end.
fn walked(walk: Walk, maps: &Maps) -> Walked {
    let is_whole = walk.end == Some(End::Start);
    let is_best = is_whole || walk.addresses.len() >= believed(maps, &walk.dump.pointers);
    let stack = is_best.then_some(ByTables { addresses: walk.addresses, is_whole });
    let ticket = walk.dump.ticket;
    let unfinished = walk.end.is_none().then_some(walk.dump);
    Walked { ticket, stack, steps: walk.steps, is_guessed: walk.is_guessed, unfinished }
}

#[cfg(test)]
#[cfg(all(target_arch = "x86_64", target_env = "gnu"))]
mod tests;
