//! Method R, exactly: where the time of some threads goes, by every change of state inside the kernel.
//!
//! `response.bpf.c` keeps a record for each observed thread, and cells for what it did. Records of threads that end are taken over with
//! each poll; the others when the observation stops. What a wait was is decided here, from the call, the file and the kernel's stack
//! (`classify`).
//!
//! A wait is known without watching system calls: the registers that a task saved when it entered the kernel tell its call (after a page
//! fault or an interrupt from user mode the number there is -1). Where the kernel leaves switches out of `sched_switch`
//! (`docs/kernels.md`), the events contradict each other; the time is then divided by the kernel's own account of run time and run delay.

mod code;
mod definition;
mod descriptors;
mod fill;
mod first_calls;
mod frame_asked;
mod gaps;
mod interpreted;
mod java;
mod kernel;
mod kind;
mod kinds;
mod learning;
mod limits;
mod mark;
mod marks;
mod moves;
mod notes;
mod objects;
mod on_cpu;
mod open;
mod polls;
mod record;
mod request_key;
mod rings;
mod running;
mod semaphores;
mod sleepers;
mod stacks;
mod start;
mod step_words;
mod steps;
mod syscalls;
mod tables;
mod timeline_samples;
mod timelines;
mod tops;
mod traits;
mod user_locks;
mod waits;
mod wakers;
mod watching;

use crate::def::{Probe, Taken};
use fill::Source;
use interpreted::Interpreters;
use kernel::Room;
use moves::Moves;
use open::Open;
use polls::Polls;
use rdiag_kernel::host::{CpuTicks, Host, Stolen};
use rdiag_kernel::mechanism::ebpf::Object;
use rdiag_kernel::mechanism::symbols::Symbols;
use rdiag_kernel::mechanism::tracefs::event_cost::Spent;
use rdiag_model::ledger::{Level, MAX_THREADS};
use rdiag_model::{Ledger, Reason, Unavailable};
use record::Record;
use request_key::RequestKey;
use running::Running;
use stacks::StackNames;
use steps::Steps;
use timeline_samples::TimelineSamples;
use tops::Tops;
use watching::{CallWatching, Watching};

pub(super) use definition::PROBE;
pub use start::check_marks;

/// Records of ended threads that are kept one by one; the others are summed up.
const MAX_RECORDS: usize = 4000;
/// Threads for which there is room where runs come and go, a quarter of it.
const RUNS: u32 = 1000;
/// The same for a command, of which it is not known how many it will start.
const COMMAND: u32 = 512;
/// The same where requests do, which may be many more than can be taken over: what finds no room is counted.
const REQUESTS: u32 = 250;
/// Records of requests that are kept one by one: as many as the ledger has rows, without the one for the others.
const MAX_REQUESTS: u64 = MAX_THREADS as u64 - 1;
/// Ended threads that one poll takes over at most.
const MAX_TAKEN: usize = 100_000;
/// User stacks of live threads are looked up this often, in seconds: a process must live for that.
const LOOK_SECONDS: f64 = 1.0;
/// In the beginning more often: a command may end soon.
const FIRST_LOOK_SECONDS: f64 = 0.0625;
/// Element of `control`.
const STOPPED: u32 = 0;

/// What the probe was started with.
#[derive(Debug, Clone)]
struct Settings {
    calls: CallWatching,
    top: usize,
    threshold: u64,
    /// Seconds of a tick of the kernel's own account.
    tick: f64,
    /// The process that only starts what is observed.
    starter: Option<u32>,
    /// A record is the time of a thread from one mark to another.
    marks: bool,
    /// What it is called by.
    key: Option<RequestKey>,
    /// How it is followed from one thread to another.
    moves: Option<Moves>,
    /// The kernel reports waits for its locks.
    locks: bool,
}

impl Settings {
    fn most_records(&self) -> usize {
        if self.marks { MAX_REQUESTS as usize } else { MAX_RECORDS }
    }
}

struct Response {
    object: Object,
    room: Room,
    settings: Settings,
    symbols: Symbols,
    stacks: StackNames,
    tops: Tops,
    interpreters: Interpreters,
    steps: Steps,
    /// Threads that have ended, and those beyond what is kept in one.
    ended: Vec<Record>,
    /// Requests so far, and the parts of those that are not over.
    requests: u64,
    open: Open,
    others: Option<Record>,
    began: u64,
    /// When it began.
    ticks: Option<CpuTicks>,
    calls: Watching,
    running: bool,
    look_next: f64,
    /// How long after the last one, in seconds.
    look_in: f64,
    /// For the timelines.
    timeline_samples: TimelineSamples,
    polls: Polls,
    running_code: Running,
    /// What it takes the program to pass a mark, in seconds, and whether that was tried; none where no place of a program is one.
    pass: Option<(f64, bool)>,
    ledger: Option<Ledger>,
}

/// CLOCK_MONOTONIC in ns, as the programs have it.
fn now(host: &Host) -> u64 {
    (host.now() * 1e9) as u64
}

impl Response {
    /// Takes in the threads that are there; from then on events count.
    fn begin(&mut self, host: &Host) -> Result<(), Unavailable> {
        self.began = now(host);
        self.ticks = CpuTicks::read(host);
        self.object.set_element("control", STOPPED, 0_u64)?;
        self.calls.begin(&mut self.object, self.began)?;
        self.running_code.clear(&mut self.object)?;
        self.steps.begin(&mut self.object)?;
        self.iterate("begin_threads")?;
        (self.timeline_samples, self.polls) = (TimelineSamples::default(), Polls::default());
        self.running = true;
        self.look_in = FIRST_LOOK_SECONDS;
        self.look_next = host.now() + self.look_in;
        Ok(())
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
        let Some(mut record) = kernel::take(&mut self.object, slot, stop)? else { return Ok(()) };
        if self.settings.starter == Some(record.pid) {
            return Ok(());
        }
        if record.given_up && record.request == 0 {
            return Ok(());
        }
        self.learn(host, &record)?;
        if record.request != 0 {
            let Some(whole) = self.open.join(record) else { return Ok(()) };
            record = whole;
        }
        if self.settings.marks {
            // Every request has the same chance to be kept, however long it took.
            self.requests += 1;
            let place = self.calls.random() % self.requests;
            if self.requests > MAX_REQUESTS
                && let Some(kept) = self.ended.get_mut(place as usize)
            {
                std::mem::swap(kept, &mut record);
            }
        }
        let has_room = self.ended.len() < self.settings.most_records();
        if !has_room {
            java::keep_locks(&self.symbols, &mut record);
        }
        if has_room {
            self.ended.push(record);
        } else if let Some(others) = &mut self.others {
            others.absorb(record);
        } else {
            self.others = Some(record.nameless());
        }
        Ok(())
    }

    /// Stops the clock for all threads at once, and takes everything over.
    fn end(&mut self, host: &Host) -> Result<Ledger, Unavailable> {
        let stop = now(host);
        self.object.set_element("control", STOPPED, stop)?;
        self.calls.end(stop);
        self.iterate("end_threads")?;
        self.take_ended(host)?;
        for slot in 0..self.room.threads {
            self.take(host, slot, stop)?;
        }
        // What was begun last is known once it has been answered.
        self.complete_stacks(host)?;
        self.learn_running(host)?;
        self.symbols.settle(host);
        self.complete_stacks(host)?;
        self.running = false;
        let mut records = std::mem::take(&mut self.ended);
        records.extend(self.others.take());
        if self.settings.moves.is_some() {
            let alive = self.object.take_hash::<[u64; 2], [u64; 3]>("requests")?;
            let alive = alive.into_iter().map(|(_, [number, ..])| number).collect();
            records.extend(self.open.take_all(&alive, MAX_REQUESTS as usize));
        }
        for record in &mut records {
            self.steps.complete_sleeper(record);
            java::complete_sleeper(&mut self.symbols, record);
        }
        let mut notes = self.notes(&records, stop);
        notes.extend(self.interpreters.notes().into_iter().chain(self.running_code.note()));
        let mut symbols = std::mem::take(&mut self.symbols);
        let (settings, stacks, tops, timeline_samples) =
            (&self.settings, &self.stacks, &self.tops, &self.timeline_samples);
        let stolen = self.ticks.map(|before| before.stolen_since(host)).unwrap_or_default();
        let stolen = on_cpu::by_evidence(stolen, &records);
        let source = Source {
            host,
            settings,
            records,
            stacks,
            tops,
            samples: timeline_samples,
            polls: &self.polls,
            running: &self.running_code,
            code: (&self.interpreters, &self.steps),
            began: self.began,
            ended: stop,
            watched: self.calls.watched(),
            stolen,
        };
        let mut ledger = fill::ledger(source, &mut symbols);
        ledger.threads.extend(fill::not_followed(kernel::passed_by(&mut self.object, stop)?, ledger.elapsed()));
        let divided = stolen.note().filter(|_| matches!(stolen, Stolen::Within(_)));
        ledger.notes = notes.into_iter().chain(divided).chain(symbols.notes().map(str::to_owned)).collect();
        self.symbols = symbols;
        Ok(ledger)
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
        let made = |object: &mut Object| Ok(object.counts("calls_made")?.iter().sum());
        self.calls.poll(&mut self.object, now(host), made)?;
        self.take_ended(host)?;
        if !self.settings.marks {
            let asleep = self.timeline_samples.look(&self.object, self.room.threads, || now(host))?;
            self.polls.look(host, &self.object, &asleep);
        }
        self.interpreters.take(&mut self.object, host, &mut self.symbols);
        self.complete_stacks(host)?;
        self.learn_running(host)?;
        if host.now() >= self.look_next {
            self.look_in = (2.0 * self.look_in).min(LOOK_SECONDS);
            self.look_next = host.now() + self.look_in;
            self.look(host)?;
            self.interpreters.take(&mut self.object, host, &mut self.symbols);
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
            "requests that began again before they ended",
            "requests that left their thread unseen, or were ended by another one",
            "functions of Python and JavaScript, or classes of Java, whose names found no room",
            "samples on a CPU that found no room",
        ];
        let dropped = ("requests that were begun and never seen again", self.open.take_dropped());
        let lost: Vec<(&'static str, u64)> = reasons.into_iter().zip(counts).chain([dropped]).collect();
        ledger.lost = lost.iter().filter(|(_, n)| *n > 0).map(|(why, n)| ((*why).to_owned(), *n)).collect();
        let outputs = tables::tables(&ledger, self.settings.top);
        let notes = ledger.notes.clone();
        self.ledger = Some(ledger);
        Ok(Taken { outputs, lost, notes })
    }

    fn relieve(&mut self, host: &Host) -> Option<String> {
        // An error leaves it as it is, and then it has to stop.
        self.calls.relieve(&mut self.object, now(host)).ok().flatten().map(str::to_owned)
    }

    fn spent(&self, _: &Host) -> Option<Spent> {
        let (each, is_measured) = self.pass?;
        let events: u64 = self.object.element("passes", 0).ok()?;
        Some(Spent { events, cpu_seconds: events as f64 * each, each, is_measured })
    }

    fn level(&self) -> Option<Level> {
        Some(Level::L3)
    }

    fn ledger(&mut self) -> Option<Ledger> {
        self.ledger.take()
    }
}
