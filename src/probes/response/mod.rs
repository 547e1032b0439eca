//! Method R, exactly: where the time of some threads goes, by every change of state inside the kernel.
//!
//! `response.bpf.c` keeps a record for each observed thread, and cells for what it did. Records of threads that end are taken
//! over with each poll; the others when the observation stops. What a wait was is decided here, from the call, the file and
//! the kernel's stack (`classify`).

mod edges;
mod fill;
mod kernel;
mod limits;
mod looks;
mod objects;
mod stacks;
mod syscalls;
mod tables;
mod timelines;
mod traits;
mod waits;

use super::{Context, FilterKind, GivesStacks, ParamDef, ParamKind, Probe, ProbeDef, Taken};
use crate::host::Host;
use crate::mechanism::ebpf::{Filter, Global, Held, Hook, Kernel, Object, include_bytes_aligned};
use crate::mechanism::symbols::{Symbols, calls as call_sites};
use crate::model::ledger::Level;
use crate::model::{Ledger, Reason, Unavailable, quantity};
use fill::Source;
use kernel::{Record, Room, Type};
use looks::Looks;
use stacks::StackNames;

pub(super) static PROBE: ProbeDef = ProbeDef {
    id: "response",
    question: "Where does the time of these processes go?",
    attach: "sched_switch, sched_waking, sched_wakeup_new, sched_process_exec and block_bio_queue; with calls also sys_enter and \
             sys_exit; the list of tasks at both ends.",
    output: "The whole time of the observed threads, each second once: on a CPU, waiting for one, throttled, and each kind of \
             wait; what the waits were for, who ended them; system calls with their errors and their time on and off the CPU.",
    caveats: "Time in user mode holds page faults and interrupts that hit it, and time in calls the interrupts: where there were \
              many faults, the kernel's own account, which is sampled, divides the two. Waits that last through a window are in \
              it with their time, and not in count, mean and longest. The kernel stack is taken of waits above the threshold and \
              of one in 256 others; what is between goes by call and file. A user stack is taken where the last wait in the same \
              call was long. A wait in io_uring_enter or \
              io_getevents is one for a disk if the process sent a request to one within the second before. Throttled time holds the wait for a CPU after the quota was renewed. Who ended a short wait is the task that ran there, even if an interrupt did.",
    overhead: "Of the CPU time of perf bench sched pipe, on one of two busy CPUs: 1.24 times when it is observed and calls are not \
               watched, 1.55 times while they are, 1.26 times for a run of 3 s with the first 500 ms watched. Others pay 1.08 \
               times, and 1.2 times while calls are watched, since then every system call on the host takes the kernel's slow path. \
               An empty program on sched_switch alone costs 1.07 times there: what observes switches cannot cost less.",
    params: &[
        ParamDef {
            name: "calls",
            kind: ParamKind::Flag,
            default: "true",
            help: "watch system calls; without, others are slowed down less, and user and system time are estimated",
        },
        ParamDef {
            name: "calls_for",
            kind: ParamKind::Duration,
            default: "500ms",
            help: "for how long calls are watched, which slows down every call on the host: the profile of calls is that of \
                   this time; a command that makes few, and repeated runs, are watched all the time",
        },
        ParamDef {
            name: "children",
            kind: ParamKind::Flag,
            default: "false",
            help: "observe processes that the observed ones start, too; always with a command",
        },
        ParamDef {
            name: "threshold",
            kind: ParamKind::Duration,
            default: "100us",
            help: "take the stacks of waits of at least this length, and of one in 256 others",
        },
        ParamDef {
            name: "top",
            kind: ParamKind::Count { min: 1, max: 1000 },
            default: "20",
            help: "how many rows each table has",
        },
    ],
    filters: &[FilterKind::Pid, FilterKind::Comm, FilterKind::Cgroup],
    streams: false,
    stacks: GivesStacks::Never,
    metrics: &[],
    start,
};

/// Records of ended threads that are kept one by one; the others are summed up.
const MAX_RECORDS: usize = 4000;
/// Threads for which there is room where runs come and go, a quarter of it.
const RUNS: u32 = 1000;
/// Ended threads that one poll takes over at most.
const MAX_TAKEN: usize = 100_000;
/// User stacks of live threads are looked up this often, in seconds: a process must live for that.
const LOOK_SECONDS: f64 = 1.0;
/// Elements of `control`.
const STOPPED: u32 = 0;
const CALLS_UNTIL: u32 = 2;
/// A command that makes fewer calls per second is slowed down by less than a percent, and its calls are watched to its end:
/// what a program does first is not what it does later.
const FEW_CALLS: f64 = 20_000.0;

/// What the probe was started with.
#[derive(Debug, Clone)]
struct Settings {
    calls: bool,
    /// For how long calls are watched, in ns; none: all the time.
    calls_for: Option<u64>,
    /// Whether that holds only where many are made.
    few_to_the_end: bool,
    top: usize,
    threshold: u64,
    /// Seconds of a tick of the kernel's own account.
    tick: f64,
    /// The process that only starts what is observed.
    starter: Option<u32>,
}

struct Response {
    object: Object,
    room: Room,
    settings: Settings,
    symbols: Symbols,
    stacks: StackNames,
    /// Threads that have ended, and those beyond [`MAX_RECORDS`] in one.
    ended: Vec<Record>,
    others: Option<Record>,
    began: u64,
    /// What sees system calls, while they are watched; from when on that counts, and when it ended, in ns of CLOCK_MONOTONIC.
    calls: Vec<Held>,
    calls_from: Option<u64>,
    calls_until: Option<u64>,
    running: bool,
    look_next: f64,
    /// For the timelines.
    looks: Looks,
    ledger: Option<Ledger>,
}

fn start(context: &Context<'_>) -> Result<Box<dyn Probe>, Unavailable> {
    let (host, params, filter) = (context.host, context.params, context.filter);
    if filter.pids.is_empty() && filter.comm.is_none() && filter.cgroup.is_none() {
        return Err(Unavailable::new(Reason::NotApplicable, "nothing was named whose time is to be accounted for")
            .with_remedy("name processes with --pid, --comm or --cgroup"));
    }
    let settings = Settings {
        calls: params.flag("calls") && (params.nanoseconds("calls_for") > 0 || filter.each),
        calls_for: Some(params.nanoseconds("calls_for")).filter(|_| !filter.each),
        few_to_the_end: filter.command.is_some(),
        top: params.count("top") as usize,
        threshold: params.nanoseconds("threshold"),
        tick: fill::tick(host),
        starter: filter.starter,
    };
    let mut globals = filter.globals(host)?;
    globals.extend([
        Global::u64("threshold_ns", settings.threshold),
        Global::u32("with_calls", u32::from(settings.calls)),
        Global::u32("with_children", u32::from(params.flag("children") || filter.command.is_some())),
        Global::u32("with_command", u32::from(filter.command.is_some())),
        Global::bytes("call_traits", traits::all()),
    ]);
    let room = kernel::room(expected(host, filter));
    let sizes = [
        ("threads", room.threads),
        ("cells", room.cells),
        ("spreads", room.spreads),
        ("names", room.cells),
        ("free_threads", room.threads),
        ("free_cells", room.cells),
        ("free_spreads", room.spreads),
        ("ended_threads", room.threads),
    ];
    let bytes = include_bytes_aligned!(concat!(env!("CARGO_MANIFEST_DIR"), "/src/probes/response/response.bpf.o"));
    let kernel = context.kernel()?;
    let mut object = kernel.load(bytes, globals, &sizes)?;
    kernel::fill_free_lists(&mut object, room)?;
    attach(&mut object, kernel, settings.calls)?;
    let mut response = Response {
        object,
        room,
        settings,
        symbols: Symbols::new(host, Some(kernel)),
        stacks: StackNames::default(),
        ended: Vec::new(),
        others: None,
        began: 0,
        calls: Vec::new(),
        calls_from: None,
        calls_until: None,
        running: false,
        look_next: 0.0,
        looks: Looks::default(),
        ledger: None,
    };
    response.begin(host)?;
    let is_there = |pid: &u32| host.exists(&format!("proc/{pid}"));
    if filter.pids.iter().any(is_there) && !kernel::is_any_observed(&response.object)? {
        // Others may still see them.
        let why = "the programs inside the kernel see no thread of these processes, though /proc shows them";
        return Err(Unavailable::new(Reason::NotVisible, why));
    }
    Ok(Box::new(response))
}

fn attach(object: &mut Object, kernel: &Kernel, calls: bool) -> Result<(), Unavailable> {
    for iterator in ["begin_threads", "end_threads"] {
        object.load_iterator(kernel, iterator, "task")?;
    }
    for event in ["sched_switch", "sched_waking", "sched_wakeup_new", "sched_process_exec"] {
        object.attach(kernel, Hook::Tracepoint(event))?;
    }
    if calls {
        for event in CALL_EVENTS {
            object.prepare(kernel, event)?;
        }
    }
    // Without block devices there is no such event; then there is no device to name either.
    let _ = super::block::attach_request(object, kernel, "block_bio_queue");
    Ok(())
}

/// Where calls are watched.
const CALL_EVENTS: [&str; 2] = ["sys_enter", "sys_exit"];

/// How many threads there are to be observed, roughly.
fn expected(host: &Host, filter: &Filter) -> u32 {
    if filter.each {
        // Short runs end by the hundred between two polls.
        return RUNS;
    }
    if filter.pids.is_empty() {
        return super::offcputime::tasks(host) / 4;
    }
    let threads = |pid: &u32| host.list(&format!("proc/{pid}/task")).map_or(0, |threads| threads.len());
    u32::try_from(filter.pids.iter().map(threads).sum::<usize>()).unwrap_or(u32::MAX)
}

/// CLOCK_MONOTONIC in ns, as the programs have it.
fn now(host: &Host) -> u64 {
    (host.now() * 1e9) as u64
}

impl Response {
    /// Takes in the threads that are there; from then on events count.
    fn begin(&mut self, host: &Host) -> Result<(), Unavailable> {
        self.began = now(host);
        (self.calls_from, self.calls_until) = (None, None);
        self.object.set_element("control", CALLS_UNTIL, 0_u64)?;
        self.object.set_element("control", STOPPED, 0_u64)?;
        if self.settings.calls && self.calls.is_empty() {
            self.calls = CALL_EVENTS.into_iter().map(|event| self.object.hold(event)).collect::<Result<_, _>>()?;
        }
        self.iterate("begin_threads")?;
        self.looks = Looks::default();
        self.running = true;
        self.look_next = host.now() + LOOK_SECONDS;
        Ok(())
    }

    /// Leaves calls alone when they have been watched for long enough since the first poll: a command begins shortly before it.
    fn limit_calls(&mut self, host: &Host) -> Result<(), Unavailable> {
        let now = now(host);
        let from = *self.calls_from.get_or_insert(now);
        let passed = now.saturating_sub(from);
        let enough = self.settings.calls_for.is_some_and(|ns| passed >= ns);
        if enough && !self.calls.is_empty() && !(self.settings.few_to_the_end && self.makes_few(passed)?) {
            self.object.set_element("control", CALLS_UNTIL, now)?;
            self.calls_until = Some(now);
            self.calls.clear();
        }
        Ok(())
    }

    /// Whether the observed threads have made few calls for this time, in ns.
    fn makes_few(&mut self, passed: u64) -> Result<bool, Unavailable> {
        let made: u64 = self.object.counts("calls_made")?.iter().sum();
        Ok(made as f64 <= FEW_CALLS * passed as f64 * 1e-9)
    }

    fn iterate(&mut self, program: &str) -> Result<(), Unavailable> {
        self.object.iterate(program, &mut Vec::new()).map_err(|error| {
            Unavailable::new(Reason::Malformed, format!("the list of tasks could not be read: {error}"))
        })
    }

    /// Takes over the threads that have ended, and has their stacks looked up while their processes live.
    fn take_ended(&mut self, host: &Host) -> Result<(), Unavailable> {
        for slot in self.object.pop("ended_threads", MAX_TAKEN)? {
            self.take(host, slot, 0)?;
        }
        Ok(())
    }

    fn take(&mut self, host: &Host, slot: u32, stop: u64) -> Result<(), Unavailable> {
        let Some(record) = kernel::take(&mut self.object, slot, stop)? else { return Ok(()) };
        if self.settings.starter == Some(record.pid) {
            return Ok(());
        }
        self.learn(host, &record);
        if self.ended.len() < MAX_RECORDS {
            self.ended.push(record);
        } else if let Some(others) = &mut self.others {
            others.absorb(record);
        } else {
            self.others = Some(record.nameless());
        }
        Ok(())
    }

    /// Reads the stacks of a thread and asks for their names.
    fn learn(&mut self, host: &Host, record: &Record) {
        let (mut ours, mut theirs) = (Vec::new(), Vec::new());
        for cell in &record.cells {
            let [user, ..] = cell.object;
            ours.extend(self.stacks.learn(&self.object, cell.stack).map(<[u64]>::to_vec));
            if cell.kind.of() == Type::Stack {
                theirs.extend(self.stacks.learn(&self.object, user).map(<[u64]>::to_vec));
            }
        }
        let process = record.process();
        self.symbols.learn(host, None, ours.iter().flat_map(|stack| call_sites(None, stack)));
        self.symbols.learn(host, Some(process), theirs.iter().flat_map(|stack| call_sites(Some(process), stack)));
    }

    /// Asks for the names of user stacks that live threads have met: a process may be gone when the window ends.
    fn look(&mut self, host: &Host) -> Result<(), Unavailable> {
        for slot in 0..self.room.threads {
            let Some((process, names)) = kernel::user_stacks(&self.object, slot)? else { continue };
            for name in names {
                if self.stacks.get(name).is_some() {
                    continue;
                }
                let stack = self.stacks.learn(&self.object, name).map(<[u64]>::to_vec).unwrap_or_default();
                self.symbols.learn(host, Some(process), call_sites(Some(process), &stack));
            }
        }
        Ok(())
    }

    /// Stops the clock for all threads at once, and takes everything over.
    fn end(&mut self, host: &Host) -> Result<Ledger, Unavailable> {
        let stop = now(host);
        self.object.set_element("control", STOPPED, stop)?;
        self.iterate("end_threads")?;
        self.take_ended(host)?;
        for slot in 0..self.room.threads {
            self.take(host, slot, stop)?;
        }
        self.running = false;
        let mut records = std::mem::take(&mut self.ended);
        records.extend(self.others.take());
        let notes = self.notes(&records);
        let mut symbols = std::mem::take(&mut self.symbols);
        let (settings, stacks, looks) = (&self.settings, &self.stacks, &self.looks);
        let source = Source {
            host,
            settings,
            records,
            stacks,
            looks,
            began: self.began,
            ended: stop,
            calls_until: self.calls_until,
        };
        let mut ledger = fill::ledger(source, &mut symbols);
        ledger.notes = notes.into_iter().chain(symbols.notes().map(str::to_owned)).collect();
        self.symbols = symbols;
        Ok(ledger)
    }

    fn notes(&self, records: &[Record]) -> Vec<String> {
        let mut notes = Vec::new();
        if records.is_empty() {
            notes.push("no thread of those that were named was seen".to_owned());
        }
        notes.push(format!(
            "kernel stacks were taken of waits of at least {} and of one in 256 others",
            quantity::seconds(self.settings.threshold as f64 * 1e-9)
        ));
        if let Some(until) = self.calls_until {
            notes.push(format!(
                "system calls were watched in the first {} of the time, since that slows down everybody's: user and system \
                 time of threads that lived longer are divided as the kernel's ticks tell",
                quantity::percent(fill::watched_share(records, until))
            ));
        }
        if !self.settings.calls {
            notes.push(
                "system calls were not watched: user and system time are divided as the kernel's ticks tell".into(),
            );
        }
        if records.iter().any(|record| record.compat) {
            notes.push(
                "some calls were those of a 32-bit program, which are one row and whose files are not known".into(),
            );
        }
        notes
    }
}

impl Probe for Response {
    fn object(&self) -> Option<&Object> {
        Some(&self.object)
    }

    fn poll(&mut self, host: &Host) -> Result<(), Unavailable> {
        if !self.running {
            self.begin(host)?;
        }
        self.limit_calls(host)?;
        self.take_ended(host)?;
        self.looks.look(&self.object, self.room.threads, || now(host))?;
        if host.now() >= self.look_next {
            self.look_next = host.now() + LOOK_SECONDS;
            self.look(host)?;
        }
        Ok(())
    }

    fn read(&mut self, host: &Host) -> Result<Taken, Unavailable> {
        if !self.running {
            self.begin(host)?;
        }
        let mut ledger = self.end(host)?;
        let counts = self.object.take_counts("losses")?;
        let reasons = [
            "threads whose place in the table was taken",
            "threads that found no room",
            "sums that found no room: their time is unaccounted",
            "distributions that found no room",
            "stacks that found no room",
            "wake-ups that were missed: their waits for a CPU count as blocked",
            "context switches that were missed: the kernel's own account divides their time",
        ];
        let lost: Vec<(&'static str, u64)> = reasons.into_iter().zip(counts).collect();
        ledger.lost = lost.iter().filter(|(_, n)| *n > 0).map(|(why, n)| ((*why).to_owned(), *n)).collect();
        let outputs = tables::tables(&ledger, self.settings.top);
        let notes = ledger.notes.clone();
        self.ledger = Some(ledger);
        Ok(Taken { outputs, lost, notes })
    }

    fn level(&self) -> Option<Level> {
        Some(Level::L3)
    }

    fn ledger(&mut self) -> Option<Ledger> {
        self.ledger.take()
    }
}
