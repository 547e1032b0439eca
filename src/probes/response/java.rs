//! What machines of Java park threads for (`java.h`): the classes of locks, conditions and queues.

use std::collections::{HashMap, HashSet};
use std::hash::{DefaultHasher, Hash as _, Hasher as _};

use super::interpreted::{TEXT, text};
use super::kind::Type;
use super::record::{Cell, Record};
use rdiag_kernel::classify::user::is_lock_of_java;
use rdiag_kernel::mechanism::ebpf::Object;
use rdiag_kernel::mechanism::symbols::{HotSpot, INTERPRETED, Process, Symbols};
use rdiag_model::probe::Frame;

/// `struct java` of the programs, of which user space knows what stands before its state.
type JavaWords = [u64; 31];
/// The word of it that says whether the rest is known, and that it is no machine of which it can be.
const STATE: usize = 18;
const UNLIKE: u64 = 2;
const WHY_UNLIKE: &str = "what threads of Java are parked for is not known where the machine moves objects while the program runs (ZGC, \
                          Shenandoah), or has compact object headers";

/// The machines that were found.
#[derive(Debug, Default)]
pub(super) struct Machines {
    /// With whether it was asked what their threads are parked for that sleep all the time.
    known: HashMap<Process, (HotSpot, bool)>,
    /// One is none of which that can be known.
    is_unlike: bool,
    /// Classes that have their names.
    named: HashSet<(Process, u64)>,
}

impl Machines {
    /// Whether the programs know that of a process.
    pub(super) fn has_told(object: &Object, pid: u32) -> bool {
        object.hash_value::<u32, JavaWords>("javas", &pid).is_some()
    }

    /// Tells them of one; whether that could be.
    pub(super) fn tell(&mut self, object: &mut Object, process: Process, java: HotSpot) -> bool {
        self.known.insert(process, (java, false));
        object.set_hash_value("javas", &process.pid, words(&java)).is_ok()
    }

    /// Looks whether all are of the kind of which it is known what they park threads for.
    pub(super) fn look(&mut self, object: &Object) {
        let state = |process: &Process| {
            object.hash_value::<u32, JavaWords>("javas", &process.pid).and_then(|java| java.get(STATE).copied())
        };
        self.is_unlike |= self.known.keys().any(|process| state(process) == Some(UNLIKE));
    }

    /// Why that is not known.
    pub(super) fn note(&self) -> Option<String> {
        self.is_unlike.then(|| WHY_UNLIKE.to_owned())
    }

    /// Has it looked what threads of a process are parked for that sleep all the time, once; whether it is.
    pub(super) fn ask(&mut self, symbols: &mut Symbols, process: Process) -> bool {
        let asked = self.known.get_mut(&process).filter(|(_, was_asked)| !*was_asked);
        let Some((java, was_asked)) = asked else { return false };
        symbols.learn_parked(process, *java);
        *was_asked = true;
        true
    }

    /// Gives the class of what one parked a thread for its name.
    pub(super) fn name(&mut self, object: &Object, symbols: &mut Symbols, process: Process, word: u64) {
        if word == 0 || self.named.contains(&(process, word)) {
            return;
        }
        let key = [process.pid.into(), word];
        if let Some(names) = object.hash_value::<[u64; 2], [u64; 2 * TEXT]>("function_names", &key) {
            self.named.insert((process, word));
            let (name, _) = names.split_at(TEXT);
            symbols.name_interpreted(process, word, Some(class(&text(name))));
        }
    }
}

/// Gives the wait of a thread that has slept all the time what it is parked for.
pub(super) fn complete_sleeper(symbols: &mut Symbols, record: &mut Record) {
    let process = record.process();
    let futex = |cell: &Cell| (cell.kind.of() == Type::Wait && cell.kind.may_be_parked()).then_some(cell.object[0]);
    let Some(futex) = record.cells.iter().find_map(futex).filter(|_| record.slept()) else { return };
    let Some(class) = symbols.parked_on(process, futex).map(|parked| class(&parked.class)) else { return };
    let mut hasher = DefaultHasher::new();
    class.name.hash(&mut hasher);
    // Like those of the programs (`interpreted.h`).
    let word = INTERPRETED | hasher.finish() << 1 | 2;
    symbols.name_interpreted(process, word, Some(class));
    for cell in record.cells.iter_mut().filter(|cell| cell.kind.may_be_parked()) {
        match (cell.kind.of(), &mut cell.object) {
            (Type::Wait, object) => *object = [word, futex, 0],
            (Type::Stack, [_, class, _]) => *class = word,
            _ => continue,
        }
        cell.kind = cell.kind.when_parked();
    }
}

/// Of a thread that will not be kept apart from others, what it was parked for is not known any more: whether that was a lock is.
pub(super) fn keep_locks(symbols: &Symbols, record: &mut Record) {
    let process = record.process();
    for cell in record.cells.iter_mut().filter(|cell| cell.kind.of() == Type::Wait && cell.kind.parked()) {
        if symbols.name(Some(process), cell.object[0]).is_some_and(is_lock_of_java) {
            cell.kind = cell.kind.when_for_lock();
        }
    }
}

/// `java/util/concurrent/locks/ReentrantLock$NonfairSync`, as programs in Java have it: with dots.
fn class(name: &str) -> Frame {
    Frame { name: name.replace('/', "."), object: Some("Java".to_owned()), ..Frame::default() }
}

/// As the programs have it.
fn words(java: &HotSpot) -> JavaWords {
    let HotSpot { threads, length, array, object, blocker, name, name_length, letters, objects, classes, .. } = *java;
    let places = [threads, length, array, object, blocker, name, name_length, letters];
    let known = places.into_iter().chain(objects).chain(classes).chain(java.unlike).chain([java.size]);
    let mut words = [0; 31];
    words.iter_mut().zip(known).for_each(|(word, known)| *word = known);
    words
}

#[cfg(test)]
mod tests {
    use super::super::kind::Kind;
    use super::*;

    const WAIT: u64 = 2 | 9 << 56;
    const STACK: u64 = 5 | 9 << 56;

    #[test]
    fn of_a_thread_among_many_it_is_kept_that_it_waited_for_a_lock() {
        let process = Process { pid: 7, born: 0 };
        let mut symbols = Symbols::default();
        for (word, name) in [(6, "java/util/concurrent/locks/StampedLock"), (10, "java/util/concurrent/FutureTask")] {
            symbols.name_interpreted(process, word, Some(class(name)));
        }
        let cell = |kind, object| Cell { kind: Kind(kind), object: [object, 0x1000, 0], ..Cell::default() };
        let cells =
            vec![cell(WAIT | 128 << 48, 6), cell(WAIT | 128 << 48, 10), cell(WAIT, 6), cell(STACK | 128 << 48, 6)];
        let mut record = Record { pid: 7, cells, ..Record::default() };
        keep_locks(&symbols, &mut record);
        assert_eq!(record.cells.iter().map(|cell| cell.kind.rwlock()).collect::<Vec<_>>(), [true, false, false, false]);
    }
}
