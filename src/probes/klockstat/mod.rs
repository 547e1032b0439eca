//! `klockstat`: waits for locks of the kernel, by kind, lock, task and stack. A stack is taken while its task waits, never when it has just
//! got a lock that others want.

mod tables;

use std::collections::HashMap;

use super::named_stacks::{self, NamedStacks};
use crate::def::{Context, FilterKind, GivesStacks, ParamDef, ParamKind, Probe, ProbeDef, Taken};
use rdiag_kernel::host::Host;
use rdiag_kernel::mechanism::ebpf::{Hook, Object, include_bytes_aligned, words};
use rdiag_kernel::mechanism::symbols::{Piece, Sample, Summary, Symbols, summarize};
use rdiag_model::metric::Pick;
use rdiag_model::probe::{Activity, Output};
use rdiag_model::{Formula, MetricDef, Unavailable, Unit};
use tables::{Key, Sum};

pub(super) static PROBE: ProbeDef = ProbeDef {
    id: "klockstat",
    question: "Which locks of the kernel are waited for, for how long, by which tasks, and where in the kernel?",
    attach: "contention_begin and contention_end (Linux 5.19); before, the functions in which a task waits for a mutex or a \
             semaphore for readers and writers.",
    output: "Waits by kind and lock, with the function that asked for it, and by task: how many, their time, the longest; time \
             waited by stack. `mutex`, `rwsem` and `percpu-rwsem` mostly sleep; `spinlock` and `rwlock` keep a CPU busy.",
    caveats: "Only locks that a task had to wait for are here, with the waiter, not the holder. Times are those of the wait, not \
              of holding. While the holder of a semaphore for readers and writers runs, others spin for it first, of which the \
              kernel does not tell. A wait counts when it ends. A spinlock taken in an interrupt counts for the task that was \
              interrupted. A lock has a name only if it is a variable of the kernel; others are shown by their address. Before \
              Linux 5.19 spinlocks are not seen. Virtual machines with paravirtual spinlocks wait by giving up their CPU.",
    overhead: "Two program runs and a kernel stack for each wait, measured at 22 µs, nearly all of it the stack (bpftrace: 18 to 37 µs); \
               nothing for locks that are free.",
    params: &[ParamDef {
        name: "top",
        kind: ParamKind::Count { min: 1, max: 5000 },
        default: "200",
        help: "how many stacks to keep; tables have a tenth, at least 20",
    }],
    filters: &[FilterKind::Pid, FilterKind::Comm, FilterKind::Cgroup],
    streams: false,
    stacks: GivesStacks::Always,
    metrics: &[
        MetricDef {
            id: "klockstat.all.ratio",
            unit: Unit::Ratio,
            help: "Time in which tasks waited for locks of the kernel, per time that passed; 2 is two tasks all the \
                   time.",
            sources: &[Formula::probe(Pick::ColumnSum("tasks", "share"))],
            caveat: "Spinning waits keep a CPU busy, sleeping ones do not.",
            manual: MANUAL,
            ..MetricDef::EMPTY
        },
        MetricDef {
            id: "klockstat.task.seconds",
            unit: Unit::Seconds,
            dimension: Some("task"),
            help: "Time in which a process waited for locks of the kernel.",
            sources: &[Formula::probe(Pick::Column("tasks", "time"))],
            caveat: "Who waits need not be who holds the lock for long.",
            manual: MANUAL,
            ..MetricDef::EMPTY
        },
        MetricDef {
            id: "klockstat.lock.seconds",
            unit: Unit::Seconds,
            dimension: Some("lock"),
            help: "Time that was waited for a lock of the kernel, with the function that asked for it.",
            sources: &[Formula::probe(Pick::Column("locks", "time"))],
            caveat: "Of all tasks together.",
            manual: MANUAL,
            ..MetricDef::EMPTY
        },
    ],
    start,
};

const MANUAL: &str = "perf lock contention -b -a sleep 10 (Linux 5.19)";
/// Distinct sums of one reading; more are counted as lost.
const MOST: usize = 50_000;
/// The functions in which a task waits, where the kernel has no tracepoints of it.
const SLOW_PATHS: [&str; 5] = [
    "__mutex_lock_slowpath",
    "__mutex_lock_killable_slowpath",
    "__mutex_lock_interruptible_slowpath",
    "rwsem_down_read_slowpath",
    "rwsem_down_write_slowpath",
];

struct KLockStat {
    object: Object,
    symbols: Symbols,
    stacks: NamedStacks,
    sums: HashMap<Key, Sum>,
    crowded: u64,
    top: usize,
    since: f64,
    note: Option<String>,
}

fn start(context: &Context<'_>) -> Result<Box<dyn Probe>, Unavailable> {
    let bytes = include_bytes_aligned!(concat!(env!("CARGO_MANIFEST_DIR"), "/klockstat/klockstat.bpf.o"));
    let kernel = context.kernel()?;
    let mut object = kernel.load(bytes, context.filter.globals(context.host)?, &[])?;
    let mut note = None;
    if kernel.has_tracepoint("contention_begin") {
        // Ends first: a begin whose end is not seen would stay noted.
        object.attach(kernel, Hook::Tracepoint("contention_end"))?;
        object.attach(kernel, Hook::Tracepoint("contention_begin"))?;
    } else {
        let refused: Vec<Unavailable> =
            SLOW_PATHS.iter().filter_map(|name| object.attach(kernel, Hook::Function(name)).err()).collect();
        let missing = refused.len();
        if let Some(why) = refused.into_iter().next().filter(|_| missing == SLOW_PATHS.len()) {
            return Err(why);
        }
        note = Some(format!(
            "this kernel has no tracepoints of waits for locks (Linux 5.19): spinlocks are not seen; {} of {} functions that wait \
             for mutexes and semaphores are watched",
            SLOW_PATHS.len() - missing,
            SLOW_PATHS.len()
        ));
    }
    Ok(Box::new(KLockStat {
        object,
        symbols: Symbols::new(context.host, Some(kernel)),
        stacks: NamedStacks::default(),
        sums: HashMap::new(),
        crowded: 0,
        top: context.params.count("top") as usize,
        since: context.host.now(),
        note,
    }))
}

impl Probe for KLockStat {
    fn object(&self) -> Option<&Object> {
        Some(&self.object)
    }

    fn poll(&mut self, host: &Host) -> Result<(), Unavailable> {
        for (key, sum) in self.object.take_hash::<Key, Sum>("waits")? {
            if self.sums.len() >= MOST && !self.sums.contains_key(&key) {
                self.crowded += sum.first().copied().unwrap_or(0);
                continue;
            }
            let [lock, _, stack, ..] = key;
            self.symbols.learn(host, None, [lock]);
            self.stacks.learn(host, &self.object, &mut self.symbols, None, stack);
            tables::add(self.sums.entry(key).or_default(), sum);
        }
        self.stacks.make_room(&mut self.object)
    }

    fn read(&mut self, host: &Host) -> Result<Taken, Unavailable> {
        self.poll(host)?;
        self.symbols.settle(host);
        let now = host.now();
        let seconds = (now - std::mem::replace(&mut self.since, now)).max(1e-9);
        let sums: Vec<(Key, Sum)> = std::mem::take(&mut self.sums).into_iter().collect();
        let rows = (self.top / 10).max(20);
        let locks = tables::locks(&sums, &self.symbols, &self.stacks, rows);
        let tasks = tables::tasks(&sums, seconds, rows);
        let (stacks, names) = (&self.stacks, &self.symbols);
        let sample = |(key, [count, ns, _]): &(Key, Sum)| {
            let [_, kind, stack, tgid, comm @ ..] = key;
            Sample {
                owner: words::text_of_words(comm),
                pid: u32::try_from(*tgid).ok(),
                pieces: vec![
                    Piece::Frames { process: None, part: stacks.kernel_part(names, *stack), reversed: false },
                    Piece::Mark(format!("waits for a lock: {}", tables::kind(*kind))),
                ],
                value: *ns as f64 * 1e-9,
                count: *count,
            }
        };
        let samples: Vec<Sample<'_>> = sums.iter().map(sample).collect();
        let title = "Time waited for locks of the kernel by stack";
        let of = Summary { id: "stacks", title, unit: Unit::Seconds, top: self.top, depth: named_stacks::DEPTH };
        let mut stacks = summarize(host, &mut self.symbols, &samples, of);
        stacks.activity = Activity::Waiting;
        drop(samples);
        let mut lost = named_stacks::lost(&mut self.object)?;
        lost.push(("waits of more kinds than a reading holds", std::mem::take(&mut self.crowded)));
        self.stacks.settle();
        Ok(Taken {
            outputs: vec![Output::Table(locks), Output::Table(tasks), Output::Stacks(stacks)],
            lost,
            notes: self.note.iter().cloned().chain(self.symbols.notes().map(str::to_owned)).collect(),
        })
    }
}
