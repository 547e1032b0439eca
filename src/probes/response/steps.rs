//! Callers of code without frame pointers (`walk.h`): what unwind tables say is put down for the programs in the kernel, place by place.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use super::frame_asked::Asked;
use super::stacks::{StackNames, is_by_tables};
use super::step_words::{StepWords, pages_of, words_of};
use rdiag_kernel::host::Host;
use rdiag_kernel::mechanism::ebpf::Object;
use rdiag_kernel::mechanism::symbols::unwind::{Dump, Plain, Step, Walked, Way};
use rdiag_kernel::mechanism::symbols::{INTERPRETED, Part, Process, Symbols};
use rdiag_model::Unavailable;

/// Places of one process at most, and pages: others need room, too.
const MOST_STEPS: usize = 4096;
const MOST_PAGES: usize = 1024;
/// So many processes are remembered, and places and ranges of code without frame pointers together; then all are forgotten.
const MOST_PROCESSES: usize = 4096;
const MOST_REMEMBERED: usize = 200_000;
/// As often a stack is walked on for which there was no time.
const MOST_TRIES: u32 = 8;
/// How long what is asked of new processes is waited for, in seconds.
const SOON: f64 = 0.02;
/// Records that the ring has room for.
const MOST: usize = 256;

/// Of what stands in the place of a number: it has become another program.
const NEW_CODE: u64 = 1 << 63;

/// What a process executes.
#[derive(Debug)]
struct Executed {
    /// Its number.
    program: u64,
    /// What stood in its place when it was given.
    before: u64,
    /// What the programs were told, by place.
    told: HashMap<u64, StepWords>,
    /// Of these the pages.
    pages: BTreeSet<u64>,
}

/// One that is being walked on.
#[derive(Debug, Clone, Copy)]
pub(super) struct Waiting {
    pub(super) process: Process,
    pub(super) program: u64,
    pub(super) stack: u64,
    pub(super) is_running: bool,
    pub(super) whose: Whose,
    /// Where it goes on.
    pub(super) place: u64,
    /// How often there was no time for all of it.
    pub(super) tries: u32,
}

/// A stack that is whole now.
#[derive(Debug)]
pub(super) struct Completed {
    pub(super) process: Process,
    pub(super) name: u64,
    /// Its thread was on a CPU.
    pub(super) is_running: bool,
}

/// What code in a process that no table is about may be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Whose {
    /// The program's own.
    Own,
    /// That of an interpreter of Python, which is being looked for: its functions will be known otherwise.
    Python,
    /// Some is of functions of JavaScript, which the programs in the kernel alone know.
    JavaScript,
}

/// What the programs know of each process.
#[derive(Debug, Default)]
pub(super) struct Steps {
    executed: HashMap<Process, Executed>,
    last_program: u64,
    pub(super) waiting: HashMap<u64, Waiting>,
    /// The names of stacks of threads that were asleep from the beginning.
    pub(super) asleep: HashMap<(Process, u32), u64>,
    pub(super) last_ticket: u64,
    /// Stacks that end where the programs knew no more.
    pub(super) incomplete: BTreeSet<u64>,
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
        self.asleep.clear();
        (0..2).try_for_each(|which| object.set_element("names_to_come", which, 0_u64))
    }

    /// Takes over what the programs ask for, tells them what was found meanwhile, and gives the stacks that this completed.
    pub(super) fn take(
        &mut self,
        object: &mut Object,
        host: &Host,
        symbols: &mut Symbols,
        stacks: &mut StackNames,
        mut whose: impl FnMut(&Object, &mut Symbols, Process) -> Whose,
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
            let whose = whose(object, symbols, process);
            if whose == Whose::Python {
                continue;
            }
            // What a process executed before is not to be found in what it has mapped now.
            if ![known, program].contains(&stands(object, process)) {
                continue;
            }
            self.last_ticket += 1;
            let place = dump.registers.pc();
            let waiting = Waiting { process, program, stack, is_running, whose, place, tries: 0 };
            self.waiting.insert(self.last_ticket, waiting);
            dumps.entry(process).or_default().push(Dump { ticket: self.last_ticket, ..dump });
        }
        for (process, dumps) in dumps {
            symbols.unwind(host, process, dumps);
        }
        let (mut complete, mut again) = (Vec::new(), HashMap::<Process, Vec<Dump>>::new());
        for walked in symbols.walked_within(host, if is_new { SOON } else { 0.0 }) {
            let Walked { ticket, stack: rest, steps, is_guessed, unfinished } = walked;
            let Some(waiting) = self.waiting.remove(&ticket) else { continue };
            let Waiting { process, program, stack, is_running, whose, place, tries } = waiting;
            self.tell(object, (process, program), &steps, whose);
            if let Some(dump) = unfinished.filter(|_| tries < MOST_TRIES) {
                self.waiting.insert(ticket, Waiting { tries: tries + 1, ..waiting });
                again.entry(process).or_default().push(dump);
                continue;
            }
            let by_pointers = || steps.iter().any(|step| step.way == Way::Unknown);
            let has_functions =
                || rest.as_ref().is_some_and(|rest| rest.addresses.iter().any(|word| word & INTERPRETED != 0));
            // Code of V8 in which the programs knew no function, or in which one may have been left out.
            if whose == Whose::JavaScript && by_pointers() && (is_guessed || !has_functions()) {
                continue;
            }
            let rest =
                rest.map(|rest| (rest.addresses, rest.is_whole)).filter(|(rest, whole)| rest.len() > 1 || *whole);
            if let Some((rest, _)) = rest
                && stacks.go_on(stack, place, &rest)
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
    fn tell(&mut self, object: &mut Object, (process, program): (Process, u64), steps: &[Step], whose: Whose) {
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
            // Only V8 has something beside its frame pointers; others are walked on here as well.
            let pages = pages_of(step).filter(|_| whose == Whose::JavaScript && executed.pages.len() < MOST_PAGES);
            let pages: Vec<u64> = pages.collect();
            executed.pages.extend(&pages);
            for place in pages.into_iter().chain([place]) {
                let known = executed.told.get(&place);
                let has_room = known.is_some() || executed.told.len().saturating_sub(executed.pages.len()) < MOST_STEPS;
                // The first one was asked for, and may have had to make room for others.
                if has_room && (at == 0 || known != Some(&words)) {
                    executed.told.insert(place, words);
                    // Where there is no room the stack is that of frame pointers.
                    let _ = object.set_hash_value("steps", &[program, place], words);
                }
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
                let executed = Executed {
                    program: self.last_program,
                    before: known,
                    told: HashMap::new(),
                    pages: BTreeSet::new(),
                };
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
        let by_tables = is_by_tables(name) && !self.guessed.contains(&name);
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

    /// Whether a user stack was walked by tables, to its end.
    pub(super) fn is_certain(&self, name: u64) -> bool {
        is_by_tables(name) && !self.incomplete.contains(&name) && !self.guessed.contains(&name)
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

#[cfg(test)]
mod tests {
    use super::*;

    fn step(place: u64, before: u64, after: u64, way: Way) -> Step {
        Step { place, is_called: false, before, after, way }
    }

    const PLAIN: Plain = Plain { by_pointer: false, frame: 24, loaded: None, returns: Some(-8), pointer: None };

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
}
