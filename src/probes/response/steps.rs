//! Callers of code without frame pointers (`walk.h`): what unwind tables say is put down for the programs in the kernel, place by place.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use super::stacks::StackNames;
use rdiag_kernel::host::Host;
use rdiag_kernel::mechanism::ebpf::{Object, words};
use rdiag_kernel::mechanism::symbols::unwind::{Dump, FOLLOWS_POINTERS, Plain, Registers, Step, Walked, Way};
use rdiag_kernel::mechanism::symbols::{INTERPRETED, Part, Process, Symbols};
use rdiag_model::Unavailable;

/// Bytes of code that share a place in the table: as many as functions are aligned to.
const HELD: u64 = 16;
/// Bytes that the copy of a stack begins at a multiple of.
const CHUNK: u64 = 1024;
/// Words of `struct frame_asked`: before the stack so far, and of that, 0 at its end included; one is between that and the copy.
const HEAD: usize = 8;
const SO_FAR: usize = 81;
/// Places of one process at most: others need room, too.
const MOST_STEPS: usize = 4096;
/// So many processes are remembered, and places and ranges of code without frame pointers together; then all are forgotten.
const MOST_PROCESSES: usize = 4096;
const MOST_REMEMBERED: usize = 200_000;
/// As often a stack is walked on for which there was no time.
const MOST_TRIES: u32 = 8;
/// How long what is asked of new processes is waited for, in seconds.
const SOON: f64 = 0.02;
/// Records that the ring has room for.
const MOST: usize = 256;
/// Set in the names of stacks that were walked by tables.
const BY_TABLES: u64 = 1;
/// `struct step`.
type StepWords = [u64; 9];

/// Of what stands in the place of a number: it has become another program.
const NEW_CODE: u64 = 1 << 63;
const LOADS: u64 = 1;
const IN_LINK: u64 = 2;
const OUTERMOST: u64 = 4;
const NO_WAY: u64 = 8;

/// A frame whose caller the programs do not know.
#[derive(Debug, PartialEq, Eq)]
struct Asked {
    process: Process,
    /// By which number the programs know what it executes, or what stands there while they know none.
    known: u64,
    /// The name of the stack up to there, if it has one, and its addresses.
    stack: u64,
    so_far: Vec<u64>,
    /// The thread is on a CPU.
    is_running: bool,
    dump: Dump,
}

/// What a process executes.
#[derive(Debug)]
struct Executed {
    /// Its number.
    program: u64,
    /// What stood in its place when it was given.
    before: u64,
    /// What the programs were told, by place.
    told: HashMap<u64, StepWords>,
}

/// One that is being walked on.
#[derive(Debug, Clone, Copy)]
struct Waiting {
    process: Process,
    program: u64,
    stack: u64,
    is_running: bool,
    /// How often there was no time for all of it.
    tries: u32,
}

/// A stack that is whole now.
#[derive(Debug)]
pub(super) struct Completed {
    pub(super) process: Process,
    pub(super) name: u64,
    /// Its thread was on a CPU.
    pub(super) is_running: bool,
}

/// What the programs know of each process.
#[derive(Debug, Default)]
pub(super) struct Steps {
    executed: HashMap<Process, Executed>,
    last_program: u64,
    waiting: HashMap<u64, Waiting>,
    last_ticket: u64,
    /// Stacks that end where the programs knew no more.
    incomplete: BTreeSet<u64>,
    /// Those that go on by frame pointers where tables could not be read.
    guessed: BTreeSet<u64>,
    /// Places and ranges of all.
    remembered: usize,
    /// Places whose frame is not found by the frame pointer, so that who follows that leaves out their callers.
    without_pointer: HashMap<Process, BTreeMap<u64, u64>>,
}

impl Steps {
    /// Another observation begins: there is room for stacks that are to be completed.
    pub(super) fn begin(&mut self, object: &mut Object) -> Result<(), Unavailable> {
        self.incomplete.clear();
        self.guessed.clear();
        (0..2).try_for_each(|which| object.set_element("names_to_come", which, 0_u64))
    }

    /// Takes over what the programs ask for, tells them what was found meanwhile, and gives the stacks that this completed.
    pub(super) fn take(
        &mut self,
        object: &mut Object,
        host: &Host,
        symbols: &mut Symbols,
        stacks: &mut StackNames,
        mut is_of_python: impl FnMut(&Object, &mut Symbols, Process) -> bool,
    ) -> Result<Vec<Completed>, Unavailable> {
        let mut asked = Vec::new();
        object.drain("frames_asked", MOST, |record| asked.extend(Asked::of(record)))?;
        if self.executed.len() > MOST_PROCESSES || self.remembered > MOST_REMEMBERED {
            self.executed.clear();
            self.without_pointer.clear();
            self.remembered = 0;
        }
        let mut dumps: HashMap<Process, Vec<Dump>> = HashMap::new();
        // Of a process that is new each wait until the next look would have no stack.
        let is_new = asked.iter().any(|asked| asked.known == 0 || asked.known & NEW_CODE != 0);
        for Asked { process, known, stack, so_far, is_running, dump } in asked {
            if stack != 0 {
                stacks.begin(stack, so_far);
                self.incomplete.insert(stack);
            }
            let program = self.program_of(process, known);
            if is_of_python(object, symbols, process) {
                continue;
            }
            // What a process executed before is not to be found in what it has mapped now.
            if ![known, program].contains(&stands(object, process)) {
                continue;
            }
            self.last_ticket += 1;
            self.waiting.insert(self.last_ticket, Waiting { process, program, stack, is_running, tries: 0 });
            dumps.entry(process).or_default().push(Dump { ticket: self.last_ticket, ..dump });
        }
        for (process, dumps) in dumps {
            symbols.unwind(host, process, dumps);
        }
        let (mut complete, mut again) = (Vec::new(), HashMap::<Process, Vec<Dump>>::new());
        for walked in symbols.walked_within(host, if is_new { SOON } else { 0.0 }) {
            let Walked { ticket, stack: rest, steps, is_guessed, unfinished } = walked;
            let Some(waiting) = self.waiting.remove(&ticket) else { continue };
            let Waiting { process, program, stack, is_running, tries } = waiting;
            self.tell(object, process, program, &steps);
            if let Some(dump) = unfinished.filter(|_| tries < MOST_TRIES) {
                self.waiting.insert(ticket, Waiting { tries: tries + 1, ..waiting });
                again.entry(process).or_default().push(dump);
                continue;
            }
            let rest =
                rest.map(|rest| (rest.addresses, rest.is_whole)).filter(|(rest, whole)| rest.len() > 1 || *whole);
            if let Some((rest, _)) = rest
                && stacks.go_on(stack, &rest)
            {
                self.incomplete.remove(&stack);
                if is_guessed {
                    self.guessed.insert(stack);
                }
                complete.push(Completed { process, name: stack, is_running });
            }
        }
        for (process, dumps) in again {
            symbols.unwind(host, process, dumps);
        }
        Ok(complete)
    }

    /// Tells the programs steps of a process, unless it has become another program since these were asked for.
    fn tell(&mut self, object: &mut Object, process: Process, program: u64, steps: &[Step]) {
        steps.iter().for_each(|step| self.note(process, step));
        let Some(executed) = self.executed.get_mut(&process).filter(|executed| executed.program == program) else {
            return;
        };
        if ![program, executed.before].contains(&stands(object, process)) {
            return;
        }
        let before = executed.told.len();
        for (at, step) in steps.iter().enumerate() {
            let (place, words) = words_of(step);
            let known = executed.told.get(&place);
            let has_room = known.is_some() || executed.told.len() < MOST_STEPS;
            // The first one was asked for, and may have had to make room for others.
            if has_room && (at == 0 || known != Some(&words)) {
                executed.told.insert(place, words);
                // Where there is no room the stack is that of frame pointers.
                let _ = object.set_hash_value("steps", &[program, place], words);
            }
        }
        self.remembered += executed.told.len() - before;
        if stands(object, process) == executed.before && !executed.told.is_empty() {
            let _ = object.set_hash_value("executed", &process.pid, program);
        }
    }

    /// The number of what a process executes, of which the programs know this.
    fn program_of(&mut self, process: Process, known: u64) -> u64 {
        match self.executed.get(&process) {
            Some(executed) if known == executed.program || known == executed.before => executed.program,
            _ => {
                self.last_program += 1;
                let executed = Executed { program: self.last_program, before: known, told: HashMap::new() };
                self.executed.insert(process, executed);
                self.last_program
            }
        }
    }

    fn note(&mut self, process: Process, step: &Step) {
        let has_pointer = match step.way {
            Way::Plain(Plain { by_pointer, .. }) => by_pointer,
            Way::Outermost | Way::Unknown => true,
            Way::Hard => false,
        };
        if !has_pointer {
            let (from, until) = (step.place.saturating_sub(step.before), step.place.saturating_add(step.after));
            let is_new = self.without_pointer.entry(process).or_default().insert(from, until).is_none();
            self.remembered += usize::from(is_new);
        }
    }

    /// The first address of a user stack behind which nothing can be believed: frame pointers leave out who called a function without, and
    /// may lead anywhere then.
    fn first_without(&self, stack: &[u64], process: Process, name: u64) -> Option<usize> {
        let by_tables = name & BY_TABLES != 0 && !self.guessed.contains(&name);
        if by_tables || stack.iter().any(|word| word & INTERPRETED != 0) {
            return None;
        }
        let known = self.without_pointer.get(&process)?;
        let has_none = |(at, address): (usize, &u64)| {
            let place = address.saturating_sub(u64::from(at > 0));
            known.range(..=place).next_back().is_some_and(|(_, until)| place < *until)
        };
        stack.iter().enumerate().position(has_none)
    }

    /// What can be believed of the user stack of a thread on a CPU: at least where it was.
    pub(super) fn of_running<'s>(&self, stacks: &'s StackNames, process: Process, name: u64) -> Part<'s> {
        let part = super::stacks::part(stacks, name);
        let Part::Taken(stack) = part else { return part };
        let without = self.first_without(stack, process, name);
        without.and_then(|at| stack.get(..=at)).map_or(part, Part::Taken)
    }

    /// The same of a thread that waited: nothing if it is not known who called the innermost function, which is mostly the C library's.
    pub(super) fn of_wait<'s>(&self, stacks: &'s StackNames, process: Process, name: u64) -> Part<'s> {
        let stack = stacks.get(name).unwrap_or_default();
        let is_alone = stack.len() == 1 && self.incomplete.contains(&name);
        if is_alone || self.first_without(stack, process, name) == Some(0) {
            return Part::Missing;
        }
        self.of_running(stacks, process, name)
    }
}

/// What the programs know of what a process executes.
fn stands(object: &Object, process: Process) -> u64 {
    object.hash_value::<u32, u64>("executed", &process.pid).unwrap_or_default()
}

impl Asked {
    /// `struct frame_asked`; none of what is too short.
    fn of(record: &[u8]) -> Option<Self> {
        let word = |at: usize| words::word(record, at * 8);
        let [ids, born, known, place, sp, pointer, link, stack] = std::array::from_fn(word);
        let so_far: Vec<u64> = (HEAD..HEAD + SO_FAR).map(word).take_while(|address| *address != 0).collect();
        let size = usize::try_from(word(HEAD + SO_FAR)).ok()?;
        let bytes = record.get((HEAD + SO_FAR + 1) * 8..)?.get(..size)?.to_vec();
        let registers = Registers::of_frame(place, sp, pointer, link);
        let dump = Dump {
            ticket: 0,
            registers,
            is_called: ids & 1 == 0,
            follows_pointers: true,
            base: sp & !(CHUNK - 1),
            bytes,
            pointers: Vec::new(),
        };
        let process = Process { pid: (ids >> 32) as u32, born };
        Some(Self { process, known, stack, so_far, is_running: ids & 2 != 0, dump })
    }
}

/// The place that it is kept at, and `struct step`.
fn words_of(step: &Step) -> (u64, StepWords) {
    let (plain, mut flags) = match step.way {
        Way::Plain(plain) => (plain, 0),
        Way::Unknown => (Way::POINTERS, if FOLLOWS_POINTERS { 0 } else { NO_WAY }),
        Way::Outermost => (Way::POINTERS, OUTERMOST),
        Way::Hard => (Way::POINTERS, NO_WAY),
    };
    let Plain { by_pointer, frame, loaded, returns, pointer } = plain;
    flags |= if loaded.is_some() { LOADS } else { 0 } | if returns.is_none() { IN_LINK } else { 0 };
    let all = |is: bool| if is { u64::MAX } else { 0 };
    let or_none = |offset: Option<i64>| offset.unwrap_or_default().cast_unsigned();
    let within = step.place % HELD;
    let from = within.saturating_sub(step.before);
    let until = within.saturating_add(step.after.max(1)).min(HELD);
    let words = [
        all(!by_pointer),
        all(by_pointer),
        frame.cast_unsigned(),
        or_none(loaded),
        or_none(returns),
        or_none(pointer),
        all(pointer.is_some()),
        all(pointer.is_none()),
        flags | (from | (until - from) << 8) << 32,
    ];
    ((step.place - within) | u64::from(step.is_called), words)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn step(place: u64, before: u64, after: u64, way: Way) -> Step {
        Step { place, is_called: false, before, after, way }
    }

    const PLAIN: Plain = Plain { by_pointer: false, frame: 24, loaded: None, returns: Some(-8), pointer: None };

    #[test]
    fn a_step_is_kept_for_the_bytes_that_share_its_place_as_far_as_it_holds() {
        let holds = |step: &Step| words_of(step).1[8] >> 32;
        let all = step(0x1047, 100, 100, Way::Plain(PLAIN));
        let (place, [of_sp, of_pointer, frame, .., saved, kept, flags]) = words_of(&all);
        assert_eq!((place, of_sp, of_pointer, frame, saved, kept), (0x1040, u64::MAX, 0, 24, 0, u64::MAX));
        assert_eq!(flags, (16 << 8) << 32);
        assert_eq!(words_of(&Step { is_called: true, ..all }).0, 0x1041, "apart from those in execution");
        assert_eq!(holds(&step(0x1047, 2, 3, Way::Unknown)), 5 | 5 << 8);
        assert_eq!(holds(&step(0x104f, 0, 0, Way::Unknown)), 15 | 1 << 8);
        assert_eq!(words_of(&step(0, 0, 1, Way::Outermost)).1[8] & 0xff, OUTERMOST);
        assert_eq!(words_of(&step(0, 0, 1, Way::Hard)).1[8] & 0xff, NO_WAY);
        let loads = Plain { loaded: Some(-8), returns: None, pointer: Some(-16), ..PLAIN };
        let (_, [.., loaded, returns, pointer, saved, kept, flags]) = words_of(&step(0, 0, 1, Way::Plain(loads)));
        assert_eq!((loaded as i64, returns, pointer as i64, saved, kept), (-8, 0, -16, u64::MAX, 0));
        assert_eq!(flags & 0xff, LOADS | IN_LINK);
    }

    #[test]
    fn a_process_that_became_another_program_has_another_number() {
        let mut steps = Steps::default();
        let process = Process { pid: 7, born: 1 };
        assert_eq!((steps.program_of(process, 0), steps.program_of(process, 0)), (1, 1));
        assert_eq!(steps.program_of(process, 1), 1, "the programs were told");
        assert_eq!((steps.program_of(process, NEW_CODE | 7), steps.program_of(process, NEW_CODE | 7)), (2, 2));
        assert_eq!((steps.program_of(process, 2), steps.program_of(process, NEW_CODE | 8)), (2, 3));
        assert_eq!(steps.program_of(Process { pid: 8, ..process }, 0), 4);
    }

    #[test]
    fn callers_by_frame_pointers_are_not_believed_behind_a_function_without() {
        let process = Process { pid: 7, born: 1 };
        let mut stacks = StackNames::default();
        let whole = [0x1044, 0x2000, 0x3000];
        for name in [2, 3, 7] {
            stacks.begin(name, whole.to_vec());
        }
        let mut steps = Steps::default();
        let seen =
            |steps: &Steps, name| (steps.of_running(&stacks, process, name), steps.of_wait(&stacks, process, name));
        let all = Part::Taken(&whole);
        assert_eq!(seen(&steps, 2), (all, all), "nothing is known of any place");
        steps.note(process, &step(0x1fff, 4, 4, Way::Plain(PLAIN)));
        steps.note(process, &step(0x1044, 4, 4, Way::Plain(Plain { by_pointer: true, ..PLAIN })));
        let two = Part::Taken(&whole[..2]);
        assert_eq!(seen(&steps, 2), (two, two), "who called the second is left out");
        steps.note(process, &step(0x1044, 4, 4, Way::Plain(PLAIN)));
        assert_eq!(seen(&steps, 2), (Part::Taken(&whole[..1]), Part::Missing));
        assert_eq!(seen(&steps, 3), (all, all), "it was walked by tables");
        steps.guessed.insert(7);
        assert_eq!(seen(&steps, 7), (Part::Taken(&whole[..1]), Part::Missing), "as far as these could be read");
        assert_eq!(steps.of_wait(&stacks, Process { pid: 8, ..process }, 2), all);
    }

    #[test]
    fn of_a_stack_that_was_not_completed_what_tables_gave_is_known() {
        let process = Process { pid: 7, born: 1 };
        let mut stacks = StackNames::default();
        stacks.begin(3, vec![0x1044]);
        stacks.begin(7, vec![0x1044, 0x2000]);
        let steps = Steps { incomplete: [3, 7].into(), ..Steps::default() };
        let seen = |name| (steps.of_running(&stacks, process, name), steps.of_wait(&stacks, process, name));
        assert_eq!(seen(3), (Part::Taken(&[0x1044]), Part::Missing));
        assert_eq!(seen(7), (Part::Taken(&[0x1044, 0x2000]), Part::Taken(&[0x1044, 0x2000])));
    }

    #[test]
    fn a_record_is_a_frame_with_the_stack_from_the_chunk_on_that_it_begins_in() {
        let record = |size: u64| {
            let mut words = vec![7 << 32 | 3, 9, 3, 0x4040, 0x7fff_0468, 0x7fff_0500, 0, 11, 0x2000, 0x4040];
            words.resize(HEAD + SO_FAR, 0);
            words.push(size);
            let mut record: Vec<u8> = words.iter().flat_map(|word: &u64| word.to_ne_bytes()).collect();
            record.resize(record.len() + 2048, 5);
            record
        };
        let asked = Asked::of(&record(2048)).unwrap();
        assert_eq!((asked.process, asked.known, asked.stack), (Process { pid: 7, born: 9 }, 3, 11));
        assert_eq!((asked.so_far, asked.is_running), (vec![0x2000, 0x4040], true));
        assert_eq!((asked.dump.is_called, asked.dump.base, asked.dump.bytes.len()), (false, 0x7fff_0400, 2048));
        assert_eq!(asked.dump.registers.pc(), 0x4040);
        assert_eq!(Asked::of(&record(2049)), None);
    }
}
