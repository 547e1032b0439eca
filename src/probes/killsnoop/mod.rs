//! Signals: sender, receiver, number and result.

use std::collections::BTreeMap;

use super::calls;
use super::stream::{self, Events, Task};
use crate::def::{Context, FilterKind, GivesStacks, ParamDef, ParamKind, Probe, ProbeDef, Taken};
use crate::table::TableSpec;
use rdiag_kernel::host::Host;
use rdiag_kernel::mechanism::ebpf::{Global, Hook, Object, include_bytes_aligned, words};
use rdiag_kernel::mechanism::symbols::{Part, Piece, Sample, Summary, Symbols, calls as calling, summarize};
use rdiag_model::probe::Output;
use rdiag_model::{Unavailable, Unit};

pub(super) static PROBE: ProbeDef = ProbeDef {
    id: "killsnoop",
    question: "Which task sends which signal to which process, and what is the result?",
    attach: "signal_generate.",
    output: "A line for each signal: seconds since the start, sender, receiver, which one, whether to the process or to one \
             thread, and whether it was delivered, ignored, or merged with one that was pending.",
    caveats: "A process is limited to as sender or as receiver. A signal that the kernel sends for its own reasons (a fault, a \
              timer, the OOM killer) has no sender; of SIGCHLD it is the child. Delivered means queued, not yet handled.",
    overhead: "One program run for each signal, measured at 0.3 µs, none otherwise; with stack it takes a kernel stack too.",
    params: &[
        ParamDef {
            name: "signal",
            kind: ParamKind::Count { min: 0, max: 64 },
            default: "0",
            help: "only the signal of this number; 0 stands for all",
        },
        ParamDef {
            name: "stack",
            kind: ParamKind::Flag,
            default: "false",
            help: "also where in the kernel signals are sent from, summed up by sender and signal",
        },
    ],
    filters: &[FilterKind::Pid, FilterKind::Comm, FilterKind::Cgroup],
    streams: true,
    stacks: GivesStacks::IfAsked("stack"),
    metrics: &[],
    start,
};

const SIGCHLD: u64 = 17;

/// Addresses of a stack that the program takes, and where they begin in a record, in words.
const DEPTH: usize = 48;
const STACK_AT: usize = 12;
/// Distinct senders with their stacks in one reading, and as many are shown.
const STACKS: usize = 2000;
const SHOWN: usize = 20;

struct KillSnoop {
    object: Object,
    events: Events,
    stacks: Option<SenderStacks>,
}

/// Where signals were sent from.
struct SenderStacks {
    symbols: Symbols,
    counts: BTreeMap<(String, Vec<u64>), u64>,
    /// Signals that found no room.
    rest: u64,
}

fn start(context: &Context<'_>) -> Result<Box<dyn Probe>, Unavailable> {
    let bytes = include_bytes_aligned!(concat!(env!("CARGO_MANIFEST_DIR"), "/killsnoop/killsnoop.bpf.o"));
    let with_stack = context.params.flag("stack");
    let mut globals = context.filter.globals(context.host)?;
    globals.push(Global::u32("only_signal", u32::try_from(context.params.count("signal")).unwrap_or(0)));
    globals.push(Global::u32("with_stack", u32::from(with_stack)));
    let mut object = context.kernel()?.load(bytes, globals, &[])?;
    object.attach(context.kernel()?, Hook::Tracepoint("signal_generate"))?;
    let stacks = with_stack.then(|| SenderStacks {
        symbols: Symbols::new(context.host, context.kernel().ok()),
        counts: BTreeMap::new(),
        rest: 0,
    });
    Ok(Box::new(KillSnoop { object, events: Events::new(context.host.now()), stacks }))
}

impl Probe for KillSnoop {
    fn object(&self) -> Option<&Object> {
        Some(&self.object)
    }

    fn poll(&mut self, host: &Host) -> Result<(), Unavailable> {
        let Self { object, events, stacks } = self;
        events.drain(object, &spec(), |record| {
            let sent = Sent::read(record);
            if let Some(stacks) = stacks {
                stacks.add(host, &sent, record);
            }
            Some(sent)
        })
    }

    fn read(&mut self, host: &Host) -> Result<Taken, Unavailable> {
        self.poll(host)?;
        let table = self.events.table(&spec());
        let mut taken = Taken { lost: stream::lost(&mut self.object, &table)?, ..Taken::default() };
        taken.outputs.push(Output::Events(table));
        if let Some(stacks) = &mut self.stacks {
            taken.outputs.push(stacks.take(host));
            taken.notes.extend(stacks.symbols.notes().map(str::to_owned));
        }
        Ok(taken)
    }
}

impl SenderStacks {
    fn add(&mut self, host: &Host, sent: &Sent, record: &[u8]) {
        let stack = stack(record);
        self.symbols.learn(host, None, calling(None, &stack));
        let key = (sent.owner(), stack);
        if self.counts.len() < STACKS || self.counts.contains_key(&key) {
            *self.counts.entry(key).or_default() += 1;
        } else {
            self.rest += 1;
        }
    }

    fn take(&mut self, host: &Host) -> Output {
        let counts = std::mem::take(&mut self.counts);
        let samples: Vec<Sample<'_>> = counts
            .iter()
            .map(|((owner, stack), count)| {
                let part = if stack.is_empty() { Part::Missing } else { Part::Taken(stack) };
                let pieces = vec![Piece::Frames { process: None, part, reversed: false }];
                Sample { owner: owner.clone(), pid: None, pieces, value: *count as f64, count: *count }
            })
            .collect();
        let title = "Signals by sender and where in the kernel they were sent";
        let of = Summary { id: "stacks", title, unit: Unit::Count, top: SHOWN, depth: DEPTH };
        let mut stacks = summarize(host, &mut self.symbols, &samples, of);
        stacks.others += std::mem::take(&mut self.rest) as f64;
        Output::Stacks(stacks)
    }
}

/// The addresses of a record's stack.
fn stack(record: &[u8]) -> Vec<u64> {
    let depth = usize::try_from(words::word(record, (STACK_AT - 1) * 8)).unwrap_or(0).min(DEPTH);
    (0..depth).map(|at| words::word(record, (STACK_AT + at) * 8)).collect()
}

/// A signal that was sent.
struct Sent {
    /// None where the kernel sent it for its own reasons.
    sender: Option<Task>,
    target: Task,
    signal: u64,
    to_thread: bool,
    result: u64,
}

impl Sent {
    fn read(record: &[u8]) -> Self {
        let [signal, code, group, result] = [3, 4, 5, 6].map(|at| words::word(record, at * 8));
        // What runs on the CPU when a timer fires or memory is short has nothing to do with it.
        let by_kernel = code.cast_signed() > 0 && signal != SIGCHLD;
        let sender = (!by_kernel).then(|| Task::read(record, 1, 7));
        Self { sender, target: Task::read(record, 2, 9), signal, to_thread: group == 0, result }
    }

    fn sender(&self) -> String {
        self.sender.as_ref().map_or_else(|| "(kernel)".to_owned(), Task::name)
    }

    /// Whose stack it is: `bash SIGTERM`.
    fn owner(&self) -> String {
        format!("{} {}", self.sender(), calls::signal(self.signal))
    }

    fn target_id(&self) -> u64 {
        if self.to_thread { self.target.tid } else { self.target.pid }
    }

    fn result(&self) -> String {
        match self.result {
            0 => "delivered".to_owned(),
            1 => "ignored".to_owned(),
            2 => "already pending".to_owned(),
            3 => "lost: too many are queued".to_owned(),
            4 => "delivered without its details: too many are queued".to_owned(),
            other => format!("result {other}"),
        }
    }
}

fn spec() -> TableSpec<'static, Sent> {
    TableSpec::<Sent>::new("signals", "Signals sent")
        .text("name", "sender", Sent::sender)
        .text("pid", "pid", |sent| sent.sender.as_ref().map(|sender| sender.pid.to_string()))
        .text("signal", "signal", |sent| calls::signal(sent.signal))
        .text("target", "to", |sent| sent.target.name())
        .text("target_pid", "to pid", |sent| sent.target_id().to_string())
        .text("scope", "scope", |sent| if sent.to_thread { "thread" } else { "process" }.to_owned())
        .text("result", "result", Sent::result)
}

#[cfg(test)]
mod tests {
    use super::*;
    use rdiag_model::probe::Cell;

    fn record(signal: u64, code: i64, group: u64, result: u64) -> Vec<u8> {
        let comm = |text: [u8; 8]| u64::from_ne_bytes(text);
        let (from, to) = (comm(*b"bash\0\0\0\0"), comm(*b"sleep\0\0\0"));
        let words = [9, 7 << 32 | 7, 11 << 32 | 12, signal, code.cast_unsigned(), group, result, from, 0, to, 0];
        words.iter().flat_map(|word| word.to_ne_bytes()).collect()
    }

    fn line(record: &[u8]) -> Vec<Cell> {
        spec().cells(&Sent::read(record))
    }

    #[test]
    fn a_signal_is_shown_with_sender_target_and_what_became_of_it() {
        let cells = line(&record(15, 0, 1, 0));
        assert_eq!(cells, ["bash", "7", "SIGTERM", "sleep", "11", "process", "delivered"].map(Cell::from));
        let cells = line(&record(10, -6, 0, 2));
        assert_eq!(cells[3..], ["sleep", "12", "thread", "already pending"].map(Cell::from));
    }

    #[test]
    fn a_stack_has_as_many_addresses_as_the_record_says_and_no_more_than_there_is_room_for() {
        let mut with = record(15, 0, 1, 0);
        with.extend([2_u64, 77, 78, 79].iter().flat_map(|word| word.to_ne_bytes()));
        assert_eq!(stack(&with), [77, 78]);
        assert_eq!(Sent::read(&with).owner(), "bash SIGTERM");
        let mut wrong = record(15, 0, 1, 0);
        wrong.extend(u64::MAX.to_ne_bytes());
        assert_eq!(stack(&wrong).len(), DEPTH);
        assert!(stack(&[]).is_empty());
    }

    #[test]
    fn the_kernel_is_no_process_but_a_child_that_ended_is_the_sender_of_its_sigchld() {
        assert_eq!(line(&record(11, 1, 0, 0))[..2], ["(kernel)".into(), Cell::Unknown(())]);
        assert_eq!(line(&record(17, 1, 1, 1))[..2], ["bash".into(), "7".into()]);
        assert_eq!(line(&[])[5..], ["thread", "delivered"].map(Cell::from));
    }
}
