//! What the programs saw of a wait → its component.

use std::collections::{BTreeMap, HashMap};

use super::kind::{Kind, Type};
use super::record::{Cell, Record};
use super::stacks::StackNames;
use super::tops::Tops;
use super::user_locks::Locks;
use rdiag_kernel::classify::{self, Abi, Call, FileClass, Wait, Within};
use rdiag_kernel::mechanism::symbols::{Process, Symbols, calls};
use rdiag_model::Component;

/// Not in a call, in the programs.
const NONE: u64 = 510;
/// A 32-bit call whose number is not known, and the first of those whose number is.
const COMPAT: u64 = 511;
const COMPAT_CALL: u64 = 0x800;

const FUTEX: &str = "futex";

/// Frames that rules look at, from the innermost.
const FRAMES: usize = 16;

/// Bits of a task's state.
const UNINTERRUPTIBLE: u64 = 2;
const STOPPED: u64 = 4;
const TRACED: u64 = 8;
const IDLE: u64 = 0x402;
const RT_LOCK: u64 = 0x1000;
const FROZEN: u64 = 0x8000;

/// Name of the call that a wait is in; none outside of calls, or where the number is not known.
pub(super) fn call_name(kind: Kind) -> Option<&'static str> {
    match kind.call() {
        NONE | COMPAT => None,
        call if call >= COMPAT_CALL => classify::calls::name(Abi::Compat, (call - COMPAT_CALL).cast_signed()),
        call => classify::calls::name(Abi::Native, call.cast_signed()),
    }
}

/// What a descriptor is open on, from the programs' class; for anonymous files by the beginning of their name.
pub(super) fn file_class(class: u64, name: u64) -> FileClass {
    match class {
        1 | 2 | 13 => FileClass::File,
        3 => FileClass::Block,
        4 => FileClass::Pipe,
        5 => FileClass::Terminal,
        6 => FileClass::Character,
        7 => FileClass::Fuse,
        8 => FileClass::Inet,
        9 => FileClass::Unix,
        10 => FileClass::Netlink,
        11 => FileClass::Socket,
        12 => anonymous(name),
        14 => FileClass::Kernel,
        _ => FileClass::Unknown,
    }
}

/// The first eight bytes of the name of an anonymous file: `[eventfd`, `inotify`.
fn anonymous(name: u64) -> FileClass {
    let bytes = name.to_ne_bytes();
    let text = String::from_utf8_lossy(&bytes);
    let known: &[(&str, FileClass)] = &[
        ("[eventpo", FileClass::Epoll),
        ("[io_urin", FileClass::Ring),
        ("[timerfd", FileClass::Timer),
        ("[eventfd", FileClass::Event),
        ("[signalf", FileClass::Event),
        ("[fanotif", FileClass::Event),
        ("[userfau", FileClass::Event),
        ("[pidfd]", FileClass::Event),
        ("inotify", FileClass::Event),
        ("kvm-vcpu", FileClass::Character),
    ];
    known.iter().find(|(start, _)| text.starts_with(start)).map_or(FileClass::Unknown, |(_, class)| *class)
}

/// The letter of a state, as /proc shows it.
fn letter(state: u64) -> char {
    match state {
        _ if state & STOPPED != 0 => 'T',
        _ if state & TRACED != 0 => 't',
        _ if state & IDLE == IDLE => 'I',
        _ if state & (UNINTERRUPTIBLE | RT_LOCK) != 0 => 'D',
        _ => 'S',
    }
}

/// The component of a wait, with the functions of its kernel stack, innermost first, and whether it is known from elsewhere that it is
/// for a lock of the program.
pub(super) fn component(kind: Kind, object: &[u64; 3], frames: &[&str], without_swap: bool, lock: bool) -> Component {
    if kind.state() & FROZEN != 0 {
        return Component::Stopped;
    }
    if kind.state() & RT_LOCK != 0 {
        return Component::LockKernel;
    }
    let [first, _, name] = object;
    let (operation, value) = kind.futex();
    let call = call_name(kind).map(|name| Call {
        name,
        arguments: Some([*first, operation, value]),
        // What the kernel's side reports as a lock lies elsewhere.
        in_own_stack: false,
    });
    let within = match (kind.call(), call) {
        (NONE, _) => Within::User,
        (_, Some(call)) => Within::Call(call),
        (_, None) => Within::Unknown,
    };
    let wait = Wait {
        state: letter(kind.state()),
        kernel: kind.kernel_thread(),
        within,
        file: file_class(kind.class(), *name),
        frames,
        in_iowait: kind.io_wait(),
        kernel_lock: kind.kernel_lock(),
        user_lock: lock || kind.rwlock(),
        without_swap,
    };
    classify::classify(&wait).map_or(Component::OtherOff, |class| class.component)
}

/// The components of all waits of a ledger.
pub(super) struct Classes<'c> {
    symbols: &'c Symbols,
    stacks: &'c StackNames,
    without_swap: bool,
    /// Of waits below the threshold: the sampled stacks and the time behind them, by process and kind.
    samples: HashMap<(u32, Kind), Vec<(u64, u64)>>,
    known: HashMap<(Kind, u64, u64, bool), Component>,
    tops: &'c Tops,
    /// By process and futex: whether all tops of stacks that waited for it say that they want a monitor.
    monitors: HashMap<(u32, u64), bool>,
    locks: &'c Locks,
    /// By thread and futex: the class of what all waits for it were parked for that say so, if it is one.
    parked: HashMap<(u32, u64), Option<u64>>,
}

impl<'c> Classes<'c> {
    pub(super) fn new(
        symbols: &'c Symbols,
        (stacks, tops, locks): (&'c StackNames, &'c Tops, &'c Locks),
        without_swap: bool,
        records: &[Record],
    ) -> Self {
        let mut monitors = HashMap::new();
        for record in records {
            for cell in record.cells.iter().filter(|cell| cell.kind.of() == Type::Wait && cell.kind.unknown_futex()) {
                let [futex, top, _] = cell.object;
                if let Some(wants) = tops.wants_monitor(symbols, top) {
                    *monitors.entry((record.pid, futex)).or_insert(true) &= wants;
                }
            }
        }
        let mut parked = HashMap::new();
        for record in records {
            for cell in record.cells.iter().filter(|cell| cell.kind.of() == Type::Wait && cell.kind.parked()) {
                let [class, futex, _] = cell.object;
                let known = parked.entry((record.tid, futex)).or_insert(Some(class));
                *known = known.filter(|known| *known == class);
            }
        }
        let mut samples: HashMap<(u32, Kind), Vec<(u64, u64)>> = HashMap::new();
        for record in records {
            for cell in record.cells.iter().filter(|cell| cell.kind.of() == Type::Stack && cell.kind.short()) {
                samples.entry((record.pid, cell.kind.wait())).or_default().push((cell.stack, cell.ns));
            }
        }
        Self { symbols, stacks, without_swap, samples, known: HashMap::new(), tops, monitors, locks, parked }
    }

    /// The variable that the futex of a wait is part of, if that has a name.
    pub(super) fn variable(&self, process: Process, cell: &Cell) -> Option<&'c str> {
        let [address, ..] = cell.object;
        cell.kind.unknown_futex().then(|| self.symbols.variable(process, address)).flatten()
    }

    /// What a futex is called for which a thread waited.
    pub(super) fn name(&self, (process, tid): (Process, u32), cell: &Cell) -> Option<String> {
        let class = self.parked_for((process, tid), cell).map(|class| classify::user::shown_class(class).to_owned());
        class.or_else(|| self.variable(process, cell).map(|name| format!("futex {name}")))
    }

    /// The class of what a machine of Java parked a thread for: by the wait itself, or by all others of it for the same futex. The first
    /// ones come before it is known where the machine has what; that a later one is parked for nothing is known.
    fn parked_for(&self, (process, tid): (Process, u32), cell: &Cell) -> Option<&'c str> {
        let [object, ..] = cell.object;
        let of_others =
            || cell.kind.may_be_parked().then(|| self.parked.get(&(tid, object)).copied().flatten()).flatten();
        let class = if cell.kind.parked() { Some(object) } else { of_others() };
        class.filter(|class| *class != 0).and_then(|class| self.symbols.name(Some(process), class))
    }

    /// Whether a wait was one for a monitor: by the top of its own stack, or by those of all others for the same futex.
    fn wants_monitor(&self, process: Process, cell: &Cell) -> bool {
        let [futex, top, _] = cell.object;
        cell.kind.unknown_futex()
            && self
                .tops
                .wants_monitor(self.symbols, top)
                .unwrap_or_else(|| top == 0 && self.monitors.get(&(process.pid, futex)).copied().unwrap_or(false))
    }

    /// Whether a wait was one for a lock, by the stacks of all waits for the same futex.
    fn wants_lock(&self, process: Process, cell: &Cell) -> bool {
        let [futex, ..] = cell.object;
        call_name(cell.kind) == Some(FUTEX) && self.locks.has(process.pid, futex)
    }

    /// The component of a wait with this stack; and whether all that is known agrees.
    pub(super) fn of(&mut self, (process, tid): (Process, u32), cell: &Cell) -> (Component, bool) {
        let kind = cell.kind.wait();
        let lock = self.variable(process, cell).is_some_and(classify::user::is_lock)
            || self.parked_for((process, tid), cell).is_some_and(classify::user::is_lock_of_java)
            || self.wants_monitor(process, cell)
            || self.wants_lock(process, cell);
        let samples = if cell.stack == 0 { self.samples.get(&(process.pid, kind)).cloned() } else { None };
        let Some(samples) = samples else { return (self.with_stack(kind, cell, cell.stack, lock), true) };
        let mut seen: BTreeMap<Component, u64> = BTreeMap::new();
        for (stack, ns) in samples {
            *seen.entry(self.with_stack(kind, cell, stack, lock)).or_default() += ns.max(1);
        }
        let most = seen.iter().max_by_key(|(_, ns)| **ns).map(|(component, _)| *component);
        (most.unwrap_or(Component::OtherOff), seen.len() < 2)
    }

    /// What throttles the requests of a wait for a disk before they are sent, as its stack says.
    pub(super) fn throttled_by(&self, cell: &Cell) -> Option<&'static str> {
        if !cell.kind.io_wait() || cell.stack == 0 {
            return None;
        }
        classify::frames::throttled_by(&self.frames(cell.stack))
    }

    /// The functions of a stack of the kernel, innermost first.
    fn frames(&self, stack: u64) -> Vec<&'c str> {
        let addresses = self.stacks.get(stack).unwrap_or_default();
        calls(None, addresses).take(FRAMES).filter_map(|at| self.symbols.name(None, at)).collect()
    }

    fn with_stack(&mut self, kind: Kind, cell: &Cell, stack: u64, lock: bool) -> Component {
        let [_, _, name] = cell.object;
        if let Some(known) = self.known.get(&(kind, stack, name, lock)) {
            return *known;
        }
        let frames = self.frames(stack);
        let component = component(kind, &cell.object, &frames, self.without_swap, lock);
        self.known.insert((kind, stack, name, lock), component);
        component
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kind(call: &str, class: u64, state: u64, flags: u64) -> Kind {
        let number = (0..500).find(|number| classify::calls::name(Abi::Native, *number) == Some(call));
        Kind(2 | number.map_or(NONE, i64::cast_unsigned) << 8 | class << 24 | state << 32 | flags << 48)
    }

    #[test]
    fn a_read_is_told_by_what_it_reads_from() {
        let of = |class| component(kind("read", class, 1, 0), &[0; 3], &[], true, false);
        assert_eq!(
            [of(1), of(4), of(8), of(9)].map(Component::id),
            ["io.block.read", "ipc.pipe", "net.recv", "ipc.unix"]
        );
        let timer = u64::from_ne_bytes(*b"[timerfd");
        assert_eq!(component(kind("read", 12, 1, 0), &[0, 0, timer], &[], true, false), Component::WaitSleep);
    }

    #[test]
    fn a_futex_is_a_lock_only_if_its_value_says_that_others_wait() {
        let of = |flags| component(kind("futex", 0, 1, flags), &[0x1000, 0, 0], &["futex_do_wait"], true, false);
        assert_eq!((of(8), of(0), of(8 | 9 << 8)), (Component::LockUser, Component::WaitFutex, Component::WaitFutex));
        assert_eq!(of(6 << 8), Component::LockUser);
        assert_eq!(of(64 | 9 << 8), Component::LockUser, "a reader-writer lock");
        let kind = kind("futex", 0, 1, 9 << 8);
        assert_eq!(component(kind, &[0x1000, 0, 0], &[], true, true), Component::LockUser, "known by its variable");
    }

    #[test]
    fn what_is_no_call_is_a_fault_or_was_done_to_the_thread() {
        assert_eq!(component(kind("", 0, 2, 1), &[0; 3], &[], true, false), Component::FaultFile);
        assert_eq!(component(kind("", 0, 4, 0), &[0; 3], &[], true, false), Component::Stopped);
        assert_eq!(component(kind("", 0, 0x8000, 0), &[0; 3], &[], true, false), Component::Stopped);
        assert_eq!(component(kind("", 0, 0x1000, 0), &[0; 3], &[], true, false), Component::LockKernel);
        assert_eq!(component(kind("", 0, 2, 32), &[0; 3], &[], true, false), Component::LockKernel);
        assert_eq!(component(kind("", 0, 0x402, 2), &[0; 3], &["worker_thread"], true, false), Component::KernelThread);
    }
}
