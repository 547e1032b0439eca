//! Blocked time: how long tasks slept, on which stacks, and who woke them. Three probes share one program, which takes what
//! each of them shows.

mod stuck;
mod wakers;

use std::collections::{HashMap, HashSet};

use crate::def::{Context, FilterKind, GivesStacks, ParamDef, ParamKind, Probe, ProbeDef, Taken};
use crate::table::TableSpec;
use rdiag_kernel::host::Host;
use rdiag_kernel::mechanism::ebpf::{Filter, Global, Hook, Object, include_bytes_aligned, words};
use rdiag_kernel::mechanism::symbols::{Part, Piece, Process, Sample, Summary, Symbols, calls, summarize};
use rdiag_model::metric::Pick;
use rdiag_model::probe::{Activity, Output, ProbeTable};
use rdiag_model::{Formula, MetricDef, Unavailable, Unit, quantity};
use rdiag_proc::LoadAverage;

pub(super) static PROBE: ProbeDef = ProbeDef {
    id: "offcputime",
    question: "In which code, of which tasks, is time spent blocked?",
    attach: "sched_switch.",
    output: "Blocked time by process, task name, user and kernel stack; the sum of all waits; processes by blocked time.",
    caveats: "From falling asleep to running again, so the wait for a CPU after the wake-up is in it. A wait counts when it \
              ends, with the whole of its time; one that lasts through the window is not in it (but see `uninterruptible`). Tasks that \
              were preempted \
              did not sleep. Threads of the kernel count only while uninterruptible. Waits below the threshold are summed, \
              without stacks. User stacks need frame pointers.",
    overhead: "One program run per context switch: 0.5 µs with a user stack per sleep, 0.12 µs with kernel stacks only (perf \
               bench sched pipe); a kernel stack only per sleep above the threshold.",
    params: PARAMS,
    filters: FILTERS,
    streams: false,
    stacks: GivesStacks::Always,
    metrics: &[MetricDef {
        id: "offcputime.process_blocked.seconds",
        unit: Unit::Seconds,
        dimension: Some("process"),
        help: "Time that a process's tasks spent blocked.",
        sources: &[Formula::probe(Pick::Column("processes", "blocked"))],
        caveat: "Summed over its threads; most of it is idle waiting for work in most programs.",
        manual: "bpftrace -e 'tracepoint:sched:sched_switch { @[args->prev_comm, args->prev_state] = count(); }'",
        ..MetricDef::EMPTY
    }],
    start: |context| start(context, Kind::Blocked),
};

pub(super) use wakers::{OFFWAKETIME, PROBE_FRAMES, WAKEUPTIME, interrupted_at};

const FILTERS: &[FilterKind] = &[FilterKind::Pid, FilterKind::Comm, FilterKind::Cgroup];
const PARAMS: &[ParamDef] = &[
    ParamDef {
        name: "threshold",
        kind: ParamKind::Duration,
        default: "1ms",
        help: "take the stacks of waits of at least this length; shorter ones are only summed",
    },
    ParamDef {
        name: "top",
        kind: ParamKind::Count { min: 1, max: 5000 },
        default: "200",
        help: "how many stacks to keep",
    },
    ParamDef { name: "user", kind: ParamKind::Flag, default: "false", help: "user stacks only" },
    ParamDef {
        name: "kernel",
        kind: ParamKind::Flag,
        default: "false",
        help: "kernel stacks only; a sleep costs less",
    },
    ParamDef {
        name: "uninterruptible",
        kind: ParamKind::Flag,
        default: "false",
        help: "only sleeps that no signal ends (state D): mostly disks, NFS and locks of the kernel; tasks that are still in \
               one at the end are listed",
    },
];

/// Frames that the program takes at most.
const DEPTH: usize = 127;
/// What stands in place of a stack's name when it could not be taken.
const MISSING: u64 = 1;
/// Distinct sums of one reading; more are summed without their stacks.
const MAX_SUMS: usize = 20_000;
/// The kernel's table of stacks has room for twice as many; it is emptied in time.
const STACKS_KEPT: usize = 4096;
/// Tasks that the kernel's table of sleepers has room for, at least and at most; each takes a kilobyte.
const SLEEPERS: (u32, u32) = (8192, 65_536);
/// Processes in the table.
const TOP_PROCESSES: usize = 20;

/// Which of the three.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Blocked,
    Wakers,
    Both,
}

/// `struct key` of the program.
type Key = [u64; 10];

/// `struct sum` of the program.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
struct Sum {
    ns: u64,
    count: u64,
    born: u64,
    waker_born: u64,
}

/// The totals of the program, in its order: since it was loaded.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Totals {
    long_ns: u64,
    long: u64,
    short_ns: u64,
    short: u64,
    unsummed_ns: u64,
    unsummed: u64,
    unkept: u64,
}

struct OffCpu {
    object: Object,
    kind: Kind,
    threshold: u64,
    /// Tasks in D state that have not woken are listed too.
    stuck: Option<Filter>,
    top: usize,
    symbols: Symbols,
    stacks: HashMap<u64, Vec<u64>>,
    sums: HashMap<Key, Sum>,
    /// Of sums that were too many to be kept apart.
    crowded: Sum,
    /// As they were at the last reading.
    totals: Totals,
    /// Stacks that the kernel's table holds, as far as we have seen them.
    kept: HashSet<u64>,
}

fn start(context: &Context<'_>, kind: Kind) -> Result<Box<dyn Probe>, Unavailable> {
    let params = context.params;
    let threshold = params.nanoseconds("threshold");
    let (user, kernel) = (params.flag("user"), params.flag("kernel"));
    let mut globals = context.filter.globals(context.host)?;
    globals.extend([
        Global::u64("threshold_ns", threshold),
        Global::u32("only_uninterruptible", u32::from(params.flag("uninterruptible"))),
        Global::u32("want_user", u32::from(!kernel || user)),
        Global::u32("want_kernel", u32::from(!user || kernel)),
        Global::u32("want_blocked", u32::from(kind != Kind::Wakers)),
        Global::u32("want_waker", u32::from(kind != Kind::Blocked)),
    ]);
    let bytes = include_bytes_aligned!(concat!(env!("CARGO_MANIFEST_DIR"), "/offcputime/offcputime.bpf.o"));
    let sleepers = tasks(context.host).saturating_mul(2).clamp(SLEEPERS.0, SLEEPERS.1);
    let mut object = context.kernel()?.load(bytes, globals, &[("offcpu_sleepers", sleepers)])?;
    if kind != Kind::Blocked {
        object.attach(context.kernel()?, Hook::Tracepoint("sched_waking"))?;
    }
    object.attach(context.kernel()?, Hook::Tracepoint("sched_switch"))?;
    Ok(Box::new(OffCpu {
        object,
        kind,
        threshold,
        stuck: (kind == Kind::Blocked && params.flag("uninterruptible")).then(|| context.filter.clone()),
        top: params.count("top") as usize,
        symbols: Symbols::new(context.host, context.kernel().ok()),
        stacks: HashMap::new(),
        sums: HashMap::new(),
        crowded: Sum::default(),
        totals: Totals::default(),
        kept: HashSet::new(),
    }))
}

/// How many tasks there are.
pub(super) fn tasks(host: &Host) -> u32 {
    let text = host.read_line("proc/loadavg").unwrap_or_default();
    LoadAverage::parse(text.as_bytes()).map_or(0, |load| load.tasks)
}

impl OffCpu {
    /// Takes over the sums, and has new addresses looked up while their processes live.
    fn gather(&mut self, host: &Host) -> Result<(), Unavailable> {
        let taken = self.object.take_hash::<Key, [u64; 4]>("offcpu_sums")?;
        let mut addresses: HashMap<Option<Process>, Vec<u64>> = HashMap::new();
        for (key, [ns, count, born, waker_born]) in taken {
            let crowded = self.sums.len() >= MAX_SUMS && !self.sums.contains_key(&key);
            let sum = if crowded { &mut self.crowded } else { self.sums.entry(key).or_default() };
            *sum = Sum { ns: sum.ns + ns, count: sum.count + count, born, waker_born };
            if crowded {
                continue;
            }
            let [tgid, kernel, user, _, _, waker_tgid, waker_kernel, waker_user, ..] = key;
            let blocked = Process { pid: tgid as u32, born };
            let waker = Process { pid: waker_tgid as u32, born: waker_born };
            for (process, id) in
                [(None, kernel), (Some(blocked), user), (None, waker_kernel), (Some(waker), waker_user)]
            {
                if let Some(stack) = self.stack(id) {
                    addresses.entry(process).or_default().extend(calls(process, stack));
                }
            }
        }
        for (process, addresses) in addresses {
            self.symbols.learn(host, process, addresses);
        }
        if self.kept.len() > STACKS_KEPT {
            self.kept.clear();
            self.object.take_hash::<u64, [u64; DEPTH]>("offcpu_stacks")?;
        }
        Ok(())
    }

    /// The addresses of a stack, innermost first.
    fn stack(&mut self, id: u64) -> Option<&[u64]> {
        if id <= MISSING {
            return None;
        }
        self.kept.insert(id);
        if !self.stacks.contains_key(&id) {
            let mut stack = self.object.hash_value::<u64, [u64; DEPTH]>("offcpu_stacks", &id)?.to_vec();
            stack.truncate(stack.iter().position(|address| *address == 0).unwrap_or(DEPTH));
            self.stacks.insert(id, stack);
        }
        self.stacks.get(&id).map(Vec::as_slice)
    }

    fn part(&self, id: u64) -> Part<'_> {
        match (id, self.stacks.get(&id)) {
            (0, _) => Part::None,
            (_, Some(stack)) => Part::Taken(stack),
            (_, None) => Part::Missing,
        }
    }

    /// The totals since the last reading.
    fn new_totals(&mut self) -> Result<Totals, Unavailable> {
        let counts = self.object.counts("totals")?;
        let [long_ns, long, short_ns, short, unsummed_ns, unsummed, unkept] = counts.try_into().unwrap_or_default();
        let now = Totals { long_ns, long, short_ns, short, unsummed_ns, unsummed, unkept };
        let before = std::mem::replace(&mut self.totals, now);
        Ok(Totals {
            long_ns: long_ns.saturating_sub(before.long_ns),
            long: long.saturating_sub(before.long),
            short_ns: short_ns.saturating_sub(before.short_ns),
            short: short.saturating_sub(before.short),
            unsummed_ns: unsummed_ns.saturating_sub(before.unsummed_ns),
            unsummed: unsummed.saturating_sub(before.unsummed),
            unkept: unkept.saturating_sub(before.unkept),
        })
    }
}

impl Probe for OffCpu {
    fn object(&self) -> Option<&Object> {
        Some(&self.object)
    }

    fn poll(&mut self, host: &Host) -> Result<(), Unavailable> {
        self.gather(host)
    }

    fn read(&mut self, host: &Host) -> Result<Taken, Unavailable> {
        self.gather(host)?;
        let totals = self.new_totals()?;
        self.symbols.settle(host);
        let sums = std::mem::take(&mut self.sums);
        let crowded = std::mem::take(&mut self.crowded);
        let mut symbols = std::mem::take(&mut self.symbols);
        let (id, title) = match self.kind {
            Kind::Blocked => ("stacks", "Blocked time by stack"),
            Kind::Wakers => ("wakers", "Blocked time by the stack that ended it"),
            Kind::Both => ("stacks", "Blocked time by stack, and the stack that ended it"),
        };
        let of = Summary { id, title, unit: Unit::Seconds, top: self.top, depth: DEPTH };
        let samples: Vec<Sample<'_>> = sums.iter().map(|(key, sum)| self.sample(&symbols, key, sum)).collect();
        let mut stacks = summarize(host, &mut symbols, &samples, of);
        drop(samples);
        if self.kind == Kind::Blocked {
            stacks.activity = Activity::Waiting;
        }
        // Whatever has no stack of its own, sleeps that ended while the sums were read among it: the whole is exact.
        let told: u64 = sums.values().map(|sum| sum.ns).sum();
        let rest = (totals.long_ns + totals.short_ns).saturating_sub(told);
        stacks.others += rest as f64 * 1e-9;
        let mut outputs = vec![Output::Stacks(stacks)];
        if self.kind == Kind::Blocked {
            outputs.push(Output::Table(processes(&sums, rest)));
        }
        if let Some(filter) = &self.stuck {
            outputs.extend(stuck::table(host, &self.object, filter, self.threshold).map(Output::Table));
        }
        let mut notes = vec![sampling(self.threshold, &totals)];
        notes.extend(symbols.notes().map(str::to_owned));
        self.symbols = symbols;
        if self.stacks.len() > STACKS_KEPT {
            self.stacks.clear();
        }
        let lost = vec![
            ("waits without a stack, too many kinds at once", totals.unsummed + crowded.count),
            ("stacks that found no room", totals.unkept),
        ];
        Ok(Taken { outputs, lost, notes })
    }
}

/// What the reader must know about waits that have no stack.
fn sampling(threshold: u64, totals: &Totals) -> String {
    let whole = (totals.long_ns + totals.short_ns) as f64 * 1e-9;
    let short = totals.short_ns as f64 * 1e-9;
    let all = format!(
        "{} blocked in {} waits",
        quantity::seconds(whole),
        quantity::number((totals.long + totals.short) as f64)
    );
    if totals.short == 0 {
        return all;
    }
    format!(
        "{all}; {} of it in {} waits below {}, whose stacks were not taken",
        quantity::seconds(short),
        quantity::number(totals.short as f64),
        quantity::seconds(threshold as f64 * 1e-9),
    )
}

/// How long a process was blocked.
#[derive(Default)]
struct Waited {
    ns: u64,
    count: u64,
    /// What the thread was blocked that has the name.
    most: u64,
    name: String,
}

/// Blocked time by process.
fn processes(sums: &HashMap<Key, Sum>, others_ns: u64) -> ProbeTable {
    let mut by_process: HashMap<(u64, u64), Waited> = HashMap::new();
    for ([tgid, _, _, comm @ ..], sum) in sums {
        let waited = by_process.entry((*tgid, sum.born)).or_default();
        waited.ns += sum.ns;
        waited.count += sum.count;
        // Threads may have names of their own: the one that was blocked most.
        if sum.ns > waited.most {
            waited.most = sum.ns;
            waited.name = words::text_of_words(comm.get(..2).unwrap_or_default());
        }
    }
    let mut rows: Vec<_> = by_process.into_iter().collect();
    rows.sort_by_key(|(process, waited)| (std::cmp::Reverse(waited.ns), *process));
    let mut table = TableSpec::<((u64, u64), Waited)>::new("processes", "Processes by blocked time")
        .rows("process", |((tgid, born), _)| format!("{tgid}:{born}"))
        .text("name", "task", |(_, waited)| waited.name.clone())
        .text("pid", "pid", |((tgid, _), _)| tgid.to_string())
        .sum("blocked", "blocked", Unit::Seconds, |(_, waited)| waited.ns as f64 * 1e-9)
        .number("count", "times", Unit::Count, |(_, waited)| waited.count as f64)
        .top(rows, TOP_PROCESSES);
    *table.others_sum.entry("blocked".into()).or_default() += others_ns as f64 * 1e-9;
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn processes_are_named_by_what_was_blocked_most_and_the_rest_is_blocked_time_alone() {
        let sum = |ns, count| Sum { ns, count, born: 5, ..Sum::default() };
        let key = |tgid, name: &[u8; 8]| [tgid, 2, 2, u64::from_ne_bytes(*name), 0, 0, 0, 0, 0, 0];
        let mut sums: HashMap<Key, Sum> = (100..120).map(|tgid| (key(tgid, b"idle\0\0\0\0"), sum(0, 1))).collect();
        sums.insert(key(7, b"worker-a"), sum(1_000_000_000, 2));
        sums.insert(key(7, b"worker-b"), sum(2_000_000_000, 3));
        let table = processes(&sums, 500_000_000);
        assert_eq!(table.rows[0].instance, "7:5");
        assert_eq!(table.rows[0].cells, ["worker-b".into(), "7".into(), 3.0.into(), 5.0.into()]);
        assert_eq!((table.rows.len(), table.others), (TOP_PROCESSES, 1));
        assert_eq!(table.others_sum, [("blocked".to_owned(), 0.5)].into());
    }
}
