//! In which functions the time of each component went.

use std::collections::BTreeMap;

use super::fill::seconds;
use super::gaps::Reasons;
use super::interpreted::Interpreters;
use super::kind::{Kind, Type};
use super::kinds::{Kinds, Split};
use super::moves::Moves;
use super::record::{Cell, Record};
use super::stacks::{self, DEPTH, StackNames};
use super::steps::Steps;
use super::user_locks::Locks;
use rdiag_kernel::host::Host;
use rdiag_kernel::mechanism::symbols::{Piece, Sample, Summary, Symbols, summarize};
use rdiag_model::ledger::{ComponentStacks, FunctionTime};
use rdiag_model::probe::{Frame, Stacks};
use rdiag_model::{Component, Unit};

/// Stacks of one component at most, and functions.
const TOP_STACKS: usize = 200;
const TOP_FUNCTIONS: usize = 20;
/// Fewer samples say nothing of where CPU time went.
const LEAST_SAMPLES: u64 = 20;
/// Files of the C library and of what loads programs: a thread waits in them for what called them.
const OF_THE_SYSTEM: &[&str] = &["libc.so", "libc-", "libc.musl", "libpthread", "ld-", "[vdso]"];

/// The stacks at which threads ran and waited, by component. Samples of short waits stand for all of their kind.
pub(super) fn stacks_by_component(
    host: &Host,
    records: &[Record],
    (kinds, locks, moves): (&[Kinds], &Locks, Option<&Moves>),
    symbols: &mut Symbols,
    (stacks, (interpreters, steps)): (&StackNames, (&Interpreters, &Steps)),
    running: BTreeMap<Component, Vec<Sample<'_>>>,
) -> Vec<ComponentStacks> {
    let mut samples = running;
    let stack_part = |name: u64| stacks::part(stacks, name);
    for (record, kinds) in records.iter().zip(kinds) {
        for (why, gap) in record.gaps.iter().filter(|(why, _)| why.stack != 0) {
            let Some(moves) = moves else { continue };
            let component = Reasons { moves, symbols, stacks }.component(why);
            samples.entry(component).or_default().push(Sample {
                owner: record.comm.clone(),
                pid: Some(record.pid),
                pieces: vec![Piece::Frames {
                    process: Some(why.process),
                    part: stack_part(why.stack),
                    reversed: false,
                }],
                value: gap.durations.seconds,
                count: gap.durations.count,
            });
        }
        let short = |kind: Kind, of: Type| {
            let like = |cell: &&Cell| cell.kind.of() == of && cell.kind.wait() == kind;
            let cells = record.cells.iter().filter(like);
            let short = cells.filter(|cell| if of == Type::Wait { cell.stack == 0 } else { cell.kind.short() });
            short.fold(0_u64, |sum, cell| sum.saturating_add(cell.ns))
        };
        for cell in record.cells.iter().filter(|cell| cell.kind.of() == Type::Stack) {
            let of_kind = kinds.get(&cell.kind.wait());
            let component = match locks.of_stack(record.pid, cell) {
                Some(true) => Some(Component::LockUser),
                Some(false) => of_kind.and_then(|split| split.mostly_other(Component::LockUser)),
                None => of_kind.and_then(Split::mostly),
            };
            let Some(component) = component else { continue };
            let scale = if cell.kind.short() {
                let sampled = short(cell.kind.wait(), Type::Stack).max(1);
                short(cell.kind.wait(), Type::Wait) as f64 / sampled as f64
            } else {
                1.0
            };
            let [user, ..] = cell.object;
            let process = record.process();
            let user_part = steps.of_wait(stacks, process, user);
            samples.entry(component).or_default().push(Sample {
                owner: record.comm.clone(),
                pid: Some(record.pid),
                pieces: vec![
                    Piece::Frames { process: Some(process), part: user_part, reversed: false },
                    Piece::Frames { process: None, part: stack_part(cell.stack), reversed: false },
                ],
                value: seconds(cell.ns) * scale,
                count: cell.count,
            });
        }
    }
    let named = |(component, samples): (Component, Vec<Sample<'_>>)| {
        let (id, title) = (component.id(), component.def().title);
        let of = Summary { id, title, unit: Unit::Seconds, top: usize::MAX, depth: DEPTH };
        let mut stacks = summarize(host, symbols, &samples, of);
        let functions = functions(component, &stacks, |frame| interpreters.has(frame));
        cut(&mut stacks);
        ComponentStacks { component, stacks, functions }
    };
    samples.into_iter().map(named).collect()
}

/// Leaves the largest; what the others hold is kept.
fn cut(stacks: &mut Stacks) {
    let others = stacks.stacks.split_off(TOP_STACKS.min(stacks.stacks.len()));
    stacks.others += others.iter().map(|stack| stack.value).sum::<f64>();
    let mut places: BTreeMap<u32, u32> = BTreeMap::new();
    let mut frames = Vec::new();
    for at in stacks.stacks.iter_mut().flat_map(|stack| &mut stack.frames) {
        *at = *places.entry(*at).or_insert_with(|| {
            frames.push(stacks.frames.get(*at as usize).cloned().unwrap_or_default());
            u32::try_from(frames.len() - 1).unwrap_or(u32::MAX)
        });
    }
    stacks.frames = frames;
}

/// What all stacks of a component stand for; nothing of CPU time of which there are few samples.
fn functions(component: Component, stacks: &Stacks, is_interpreted: impl Fn(&Frame) -> bool) -> Vec<FunctionTime> {
    let samples = stacks.stacks.iter().map(|stack| stack.count).sum::<u64>();
    if component.on_cpu() && samples < LEAST_SAMPLES {
        return Vec::new();
    }
    let mut sums: BTreeMap<&Frame, (f64, u64)> = BTreeMap::new();
    for stack in &stacks.stacks {
        let frames: Vec<&Frame> = stack.frames.iter().filter_map(|at| stacks.frames.get(*at as usize)).collect();
        if let Some(frame) = named_for(component, &frames, &is_interpreted) {
            let sum = sums.entry(frame).or_default();
            *sum = (sum.0 + stack.value, sum.1.saturating_add(stack.count));
        }
    }
    let named = |(function, (seconds, count)): (&Frame, (f64, u64))| {
        let function = Frame { line: None, ..function.clone() };
        FunctionTime { function, seconds, count }
    };
    let mut functions: Vec<FunctionTime> = sums.into_iter().map(named).collect();
    functions.sort_by(|a, b| b.function.cmp(&a.function));
    functions.dedup_by(|other, kept| {
        let is_same = other.function == kept.function;
        if is_same {
            (kept.seconds, kept.count) = (kept.seconds + other.seconds, kept.count.saturating_add(other.count));
        }
        is_same
    });
    functions.sort_by(|a, b| b.seconds.total_cmp(&a.seconds));
    functions.truncate(TOP_FUNCTIONS);
    functions
}

/// The function that a stack stands for. Time on a CPU is that of the innermost one, but where an interpreter works on a function of its
/// program; a wait is that of the one which called the C library, and of none where the stack in user mode was not taken.
fn named_for<'f>(
    component: Component,
    frames: &[&'f Frame],
    is_interpreted: impl Fn(&Frame) -> bool,
) -> Option<&'f Frame> {
    let innermost = frames.last().copied();
    if component == Component::CpuSys {
        return innermost;
    }
    let of_program = || frames.iter().copied().filter(|frame| !frame.kernel).rev();
    let interpreted = of_program().find(|frame| is_interpreted(frame));
    if component.on_cpu() {
        return interpreted.or(innermost);
    }
    let of_its_own = || of_program().find(|frame| !is_of_the_system(frame));
    interpreted.or_else(of_its_own).or_else(|| of_program().next())
}

fn is_of_the_system(frame: &Frame) -> bool {
    let object = frame.object.as_deref().unwrap_or_default();
    OF_THE_SYSTEM.iter().any(|name| object.starts_with(name))
}

#[cfg(test)]
mod tests {
    use super::*;
    use rdiag_model::probe::Stack;

    fn frame(name: &str, object: &str) -> Frame {
        let (object, kernel) = (Some(object.to_owned()), object == "[kernel]");
        Frame { name: name.to_owned(), object, kernel, ..Frame::default() }
    }

    fn of(component: Component, frames: &[Frame]) -> String {
        let frames: Vec<&Frame> = frames.iter().collect();
        let is_interpreted = |frame: &Frame| frame.object.as_deref() == Some("app.py");
        named_for(component, &frames, is_interpreted).map(|frame| frame.name.clone()).unwrap_or_default()
    }

    #[test]
    fn time_on_a_cpu_is_that_of_the_innermost_function_or_of_the_one_that_is_interpreted() {
        let native = [frame("main", "app"), frame("memcpy", "libc.so.6")];
        assert_eq!(of(Component::CpuUser, &native), "memcpy");
        let python = [frame("<module>", "app.py"), frame("handle", "app.py"), frame("_PyEval_EvalFrame", "python3.11")];
        assert_eq!(of(Component::CpuUser, &python), "handle");
        let system = [frame("main", "app"), frame("read", "libc.so.6"), frame("read_zero", "[kernel]")];
        assert_eq!(of(Component::CpuSys, &system), "read_zero");
    }

    #[test]
    fn a_wait_is_that_of_the_function_that_called_the_c_library() {
        let wait = [frame("main", "app"), frame("fetch", "app"), frame("recv", "libc.so.6"), frame("tcp", "[kernel]")];
        assert_eq!(of(Component::NetRecv, &wait), "fetch");
        assert_eq!(of(Component::NetRecv, &wait[2..]), "recv");
        assert_eq!(of(Component::NetRecv, &wait[3..]), "", "its stack in user mode is not known");
    }

    #[test]
    fn functions_have_their_time_from_stacks_that_are_left_out_too() {
        let frames: Vec<Frame> =
            (0..300).map(|at| frame(&format!("f{at}"), "app")).chain([frame("work", "app")]).collect();
        let stack = |at| Stack { frames: vec![at, 300], value: 0.5, count: 1, ..Stack::default() };
        let mut all = Stacks { frames, stacks: (0..300).map(stack).collect(), ..Stacks::default() };
        let found = functions(Component::CpuUser, &all, |_| false);
        assert_eq!(
            found.iter().map(|one| (&*one.function.name, one.seconds, one.count)).collect::<Vec<_>>(),
            [("work", 150.0, 300)]
        );
        cut(&mut all);
        assert_eq!((all.stacks.len(), all.others, all.frames.len()), (200, 50.0, 201));
        assert_eq!(all.frames[all.stacks[7].frames[0] as usize].name, "f7");
        all.stacks.truncate(19);
        assert!(functions(Component::CpuUser, &all, |_| false).is_empty(), "too few to say");
    }
}
