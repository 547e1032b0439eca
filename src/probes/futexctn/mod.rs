//! `futexctn`: waits in futex(2), by process, address and stack, and who ended them: the task that wakes an address leaves its name for
//! the woken one.

mod tables;

use std::collections::HashMap;

use super::named_stacks::{self, NamedStacks};
use crate::def::{Context, FilterKind, GivesStacks, ParamDef, ParamKind, Probe, ProbeDef, Taken};
use rdiag_kernel::host::Host;
use rdiag_kernel::mechanism::ebpf::{Moments, Object, hist, include_bytes_aligned, words};
use rdiag_kernel::mechanism::points;
use rdiag_kernel::mechanism::symbols::{Piece, Process, Sample, Summary, Symbols, functions, summarize};
use rdiag_model::metric::Pick;
use rdiag_model::probe::{Activity, Frame, Histogram, Output};
use rdiag_model::{Deed, Formula, MetricDef, Unavailable, Unit};
use tables::{Blamed, By, Key, Sum};

pub(super) static PROBE: ProbeDef = ProbeDef {
    id: "futexctn",
    question: "At which locks of programs do threads wait, for how long, in which code, and who lets them go on?",
    attach: "syscalls:sys_enter_futex and syscalls:sys_exit_futex.",
    output: "Waits by process and address: how many, their time, the longest, how many timed out, and the thread that most of the \
             time was waited for: who held a lock that tells its holder (priority inheritance), else who woke the address last, which \
             for a mutex is who has let go of it. Time waited by stack; the length of waits by how they ended.",
    caveats: "Threads wait in futex(2) for locks, and also for work (condition variables, pools, joins): the stack tells which. Many \
              threads at one address that are woken in turn by each other are a lock; one that times out again and again is idle. \
              A wait counts when it ends. Locks that were free cost no call and are not here. A waker in another process, and \
              threads that end, are not known as wakers. User stacks need frame pointers. futex_waitv(2) and 32-bit programs are \
              not seen.",
    overhead: "Two program runs for each wait, 0.45 µs together with a user stack, and one for each waking call, 0.1 µs; other \
               system calls pay for the kernel's own tracing of calls.",
    params: &[ParamDef {
        name: "top",
        kind: ParamKind::Count { min: 1, max: 5000 },
        default: "200",
        help: "how many stacks to keep; the table has a tenth, at least 20",
    }],
    filters: &[FilterKind::Pid, FilterKind::Comm, FilterKind::Cgroup],
    streams: false,
    stacks: GivesStacks::Always,
    metrics: &[
        MetricDef {
            id: "futexctn.lock.seconds",
            unit: Unit::Seconds,
            dimension: Some("lock"),
            help: "Time that threads of a process waited at an address in futex(2).",
            sources: &[Formula::probe(Pick::Column("locks", "time"))],
            caveat: "Waiting for work is in it, not only for locks.",
            manual: "strace -f -e trace=futex -T -p PID",
            ..MetricDef::EMPTY
        },
        MetricDef {
            id: "futexctn.contended.seconds",
            unit: Unit::Seconds,
            dimension: Some("lock"),
            help: "Time that threads of a process waited at an address for what is known to be a lock.",
            sources: &[Formula::probe(Pick::Column("locks", "lock"))],
            caveat: "Mutexes of glibc, musl and Rust and locks with priority inheritance; others look like waits for \
                     work. A wait for a mutex of Rust counts if the thread's last wait for one was for the same.",
            manual: "strace -f -e trace=futex -T -p PID (FUTEX_WAIT… with value 2 or 0x80000010 (musl), FUTEX_LOCK_PI)",
            deed: Some(Deed {
                verb: "did",
                of: "the waiting for locks",
                alone: Some(("waited", "for one lock")),
                ..Deed::USUAL
            }),
        },
    ],
    start,
};

/// Distinct sums of one reading; more are counted as lost.
const MOST: usize = 50_000;
/// Whether a function is of what programs take locks with, or not known by name: then who called it says more.
fn is_of_runtime(frame: &Frame) -> bool {
    let libraries =
        ["libc.so", "libc-", "libpthread", "ld-linux", "libstdc++", "libjemalloc", "libtcmalloc", "ld-musl"];
    let object = frame.object.as_deref().unwrap_or_default();
    let name = frame.name.as_str();
    libraries.iter().any(|library| object.rsplit('/').next().unwrap_or_default().starts_with(library))
        || [
            "pthread_",
            "__pthread_",
            "__lll_",
            "lll_",
            "__gthread",
            "std::mutex",
            "std::sys::",
            "std::sync::",
            "runtime.",
            "0x",
        ]
        .iter()
        .any(|begin| name.starts_with(begin))
        || name.is_empty()
}

/// How a wait ended, as the program numbers them.
const ENDS: [&str; 3] = ["woken", "timed out", "interrupted"];

struct FutexCtn {
    object: Object,
    symbols: Symbols,
    stacks: NamedStacks,
    sums: HashMap<Key, Sum>,
    wakers: HashMap<By, Blamed>,
    crowded: u64,
    top: usize,
}

fn start(context: &Context<'_>) -> Result<Box<dyn Probe>, Unavailable> {
    let bytes = include_bytes_aligned!(concat!(env!("CARGO_MANIFEST_DIR"), "/futexctn/futexctn.bpf.o"));
    let kernel = context.kernel()?;
    let mut object = kernel.load(bytes, context.filter.globals(context.host)?, &[])?;
    // The exit first: a wait whose end is not seen would stay noted.
    for (programs, event) in [("exit", "syscalls:sys_exit_futex"), ("enter", "syscalls:sys_enter_futex")] {
        for point in points::tracepoints(context.host, event).map_err(points::PointError::gap)? {
            object.attach_point_to(context.host, programs, &point, Moments::Entry, &[])?;
        }
    }
    Ok(Box::new(FutexCtn {
        object,
        symbols: Symbols::new(context.host, Some(kernel)),
        stacks: NamedStacks::default(),
        sums: HashMap::new(),
        wakers: HashMap::new(),
        crowded: 0,
        top: context.params.count("top") as usize,
    }))
}

impl Probe for FutexCtn {
    fn object(&self) -> Option<&Object> {
        Some(&self.object)
    }

    fn poll(&mut self, host: &Host) -> Result<(), Unavailable> {
        for (key, sum) in self.object.take_hash::<Key, Sum>("waits")? {
            let [count, _, _, _, born, _] = sum;
            if self.sums.len() >= MOST && !self.sums.contains_key(&key) {
                self.crowded += count;
                continue;
            }
            let [tgid, _, stack, ..] = key;
            let process = Process { pid: tgid as u32, born };
            self.stacks.learn(host, &self.object, &mut self.symbols, Some(process), stack);
            tables::add(self.sums.entry(key).or_default(), sum);
        }
        for (by, [count, ns]) in self.object.take_hash::<By, Blamed>("wakers")? {
            if self.wakers.len() < MOST || self.wakers.contains_key(&by) {
                let [counts, sum] = self.wakers.entry(by).or_default();
                *counts += count;
                *sum += ns;
            }
        }
        self.stacks.make_room(&mut self.object)
    }

    fn read(&mut self, host: &Host) -> Result<Taken, Unavailable> {
        self.poll(host)?;
        let sums = std::mem::take(&mut self.sums);
        let sample = |(key, [count, ns, _, _, born, _]): (&Key, &Sum)| {
            let [tgid, _, stack, comm @ ..] = key;
            let process = Process { pid: *tgid as u32, born: *born };
            Sample {
                owner: words::text_of_words(comm),
                pid: Some(process.pid),
                pieces: vec![Piece::Frames { process: Some(process), part: self.stacks.part(*stack), reversed: false }],
                value: *ns as f64 * 1e-9,
                count: *count,
            }
        };
        let samples: Vec<Sample<'_>> = sums.iter().map(sample).collect();
        let title = "Time waited in futex by stack";
        let of = Summary { id: "stacks", title, unit: Unit::Seconds, top: self.top, depth: named_stacks::DEPTH };
        let mut stacks = summarize(host, &mut self.symbols, &samples, of);
        stacks.activity = Activity::Waiting;
        drop(samples);
        // After the summary: by then the addresses have their names.
        let (named, symbols) = (&self.stacks, &mut self.symbols);
        let mut asked = |pid: u32, born: u64, stack: u64| {
            let piece =
                Piece::Frames { process: Some(Process { pid, born }), part: named.part(stack), reversed: false };
            let (frames, _) = functions(symbols, &[piece], named_stacks::DEPTH);
            frames.into_iter().find(|frame| !is_of_runtime(frame)).map(|frame| frame.name)
        };
        let locks = tables::locks(&sums, &std::mem::take(&mut self.wakers), (self.top / 10).max(20), &mut asked);
        let mut rows = Vec::new();
        for (at, end) in (0..).zip(ENDS) {
            rows.push(hist::row(end, &self.object.take_hist("lengths", at)?, 1e-9));
        }
        rows.retain(|row| row.count > 0);
        let lengths = Histogram {
            id: "lengths".into(),
            title: "Length of a wait in futex".into(),
            unit: Unit::Seconds,
            dimension: Some("end".into()),
            rows,
        };
        let mut lost = named_stacks::lost(&mut self.object)?;
        lost.push(("waits of more kinds than a reading holds", std::mem::take(&mut self.crowded)));
        self.stacks.settle();
        Ok(Taken {
            outputs: vec![Output::Table(locks), Output::Histogram(lengths), Output::Stacks(stacks)],
            lost,
            notes: self.symbols.notes().map(str::to_owned).collect(),
        })
    }
}
