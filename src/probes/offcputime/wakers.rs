//! Who ended a wait: the stack of the waker.

use super::*;

pub(crate) static WAKEUPTIME: ProbeDef = ProbeDef {
    id: "wakeuptime",
    question: "Who ends the waits of blocked tasks, and from which code?",
    attach: "sched_waking, sched_switch.",
    output: "Blocked time by the process and stack that woke the task, with the task that was woken.",
    caveats: "The time is that of the task that was blocked, the stack that of its waker. What a timer or a device woke is put \
              down to the interrupt, not to the task that it hit. The threshold is compared with the time until the wake-up; shorter waits \
              are summed, without stacks. A wait counts when it ends.",
    overhead: "One program run per context switch and per wake-up, 0.1 µs each (perf bench sched pipe); stacks only of wake-ups \
               above the threshold.",
    params: PARAMS,
    filters: FILTERS,
    streams: false,
    stacks: GivesStacks::Always,
    metrics: &[],
    start: |context| start(context, Kind::Wakers),
};

pub(crate) static OFFWAKETIME: ProbeDef = ProbeDef {
    id: "offwaketime",
    question: "In which code are tasks blocked, and who ends it from which code?",
    attach: "sched_waking, sched_switch.",
    output: "Blocked time by the stack that was blocked and, on top of it, the stack of its waker from its end.",
    caveats: "As offcputime and wakeuptime. The stack above the line that names the waker reads from the wake-up outwards.",
    overhead: "One program run per context switch and per wake-up, 0.34 µs on average (perf bench sched pipe); a user stack \
               per sleep, all others only above the threshold.",
    params: PARAMS,
    filters: FILTERS,
    streams: false,
    stacks: GivesStacks::Always,
    metrics: &[],
    start: |context| start(context, Kind::Both),
};

/// Beginnings of the functions at which the kernel enters an interrupt, on x86 and arm64.
const INTERRUPTS: &[&str] = &[
    "asm_sysvec_",
    "asm_common_interrupt",
    "asm_call_irq_on_stack",
    "asm_call_sysvec_on_stack",
    "common_interrupt",
    "ret_from_intr",
    "el1_irq",
    "el0_irq",
    "el1h_64_irq",
    "el0t_64_irq",
    "el1t_64_irq",
    "el0t_32_irq",
];

/// Beginnings of the functions between a tracepoint and the program that takes the stack.
pub(crate) const PROBE_FRAMES: &[&str] =
    &["bpf_prog_", "bpf_trace_run", "bpf_trampoline_", "__bpf_trace_", "__traceiter_", "bpf_get_stack"];

/// Who woke a task.
struct Waker<'a> {
    name: String,
    pid: Option<u32>,
    process: Process,
    kernel: Part<'a>,
    user: Part<'a>,
}

impl OffCpu {
    pub(super) fn sample<'s>(&'s self, symbols: &Symbols, key: &Key, sum: &Sum) -> Sample<'s> {
        let [tgid, kernel, user, comm @ ..] = key;
        let name = words::text_of_words(comm.get(..2).unwrap_or_default());
        let blocked = Process { pid: *tgid as u32, born: sum.born };
        let frames = |process, part, reversed| Piece::Frames { process, part, reversed };
        let waker = || self.waker(symbols, key, sum);
        let (owner, pid, pieces) = match self.kind {
            Kind::Blocked => {
                let pieces =
                    vec![frames(Some(blocked), self.part(*user), false), frames(None, self.part(*kernel), false)];
                (name, Some(blocked.pid), pieces)
            }
            Kind::Wakers => {
                let waker = { waker }();
                let pieces = vec![
                    frames(Some(waker.process), waker.user, false),
                    frames(None, waker.kernel, false),
                    Piece::Mark(format!("wakes {name}")),
                ];
                (waker.name, waker.pid, pieces)
            }
            Kind::Both => {
                let waker = { waker }();
                let pieces = vec![
                    frames(Some(blocked), self.part(*user), false),
                    frames(None, self.part(*kernel), false),
                    Piece::Mark(format!("woken by {}", waker.name)),
                    frames(None, waker.kernel, true),
                    frames(Some(waker.process), waker.user, true),
                ];
                (name, Some(blocked.pid), pieces)
            }
        };
        Sample { owner, pid, pieces, value: sum.ns as f64 * 1e-9, count: sum.count }
    }

    fn waker<'s>(&'s self, symbols: &Symbols, key: &Key, sum: &Sum) -> Waker<'s> {
        let [_, _, _, _, _, tgid, kernel, user, comm @ ..] = key;
        let process = Process { pid: *tgid as u32, born: sum.waker_born };
        let mut waker = Waker {
            name: words::text_of_words(comm),
            pid: Some(process.pid),
            process,
            kernel: self.part(*kernel),
            user: self.part(*user),
        };
        if let Part::Taken(stack) = waker.kernel {
            waker.kernel = Part::Taken(without_probe(symbols, stack));
        }
        let entry = match waker.kernel {
            Part::Taken(stack) | Part::Whole(stack) => {
                interrupted_at(symbols, stack).map(|at| stack.get(..=at).unwrap_or_default())
            }
            Part::None | Part::Missing => None,
        };
        if entry.is_some() || *tgid == 0 {
            // The task that runs on the CPU at that time has nothing to do with it.
            waker = Waker { name: "interrupt".into(), pid: None, user: Part::None, ..waker };
            waker.kernel = entry.map_or(waker.kernel, Part::Taken);
        }
        waker
    }
}

/// Where in a stack the kernel entered an interrupt, if it did: what lies further out was running when it came.
pub(crate) fn interrupted_at(symbols: &Symbols, stack: &[u64]) -> Option<usize> {
    calls(None, stack).position(|address| is_one_of(symbols, address, INTERRUPTS))
}

/// The stack without the frames of the probe itself.
fn without_probe<'s>(symbols: &Symbols, stack: &'s [u64]) -> &'s [u64] {
    let inner = calls(None, stack).take(8).collect::<Vec<_>>();
    let last = inner.into_iter().rposition(|address| is_one_of(symbols, address, PROBE_FRAMES));
    stack.get(last.map_or(0, |at| at + 1)..).unwrap_or_default()
}

fn is_one_of(symbols: &Symbols, address: u64, beginnings: &[&str]) -> bool {
    let name = symbols.name(None, address);
    name.is_some_and(|name| beginnings.iter().any(|beginning| name.starts_with(beginning)))
}
