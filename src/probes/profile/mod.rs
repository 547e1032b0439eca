//! Where CPU time goes: samples of what runs, by function, line and stack.
//!
//! Samples are summed up by a program in the kernel, so what is read grows with the number of distinct stacks, not with time. Where no
//! program can be there, they come through the rings of perf_event_open(2), which an ordinary user may have for processes of their own.
//! Both feed one tally. Callers in code without frame pointers are found by unwind tables where that is asked for (`dumps.rs`). Inlined
//! functions are separate from those that hold them, and what a profile cannot see is reported with its share (`limits.rs`).

mod cpus;
mod dumps;
mod functions;
mod kernel;
mod limits;
mod rings;
mod stacks;
mod tally;

use super::grammar::WHICH_STACKS;
use crate::def::{Context, FilterKind, GivesStacks, ParamDef, ParamKind, Probe, ProbeDef, Taken};
use functions::{Executed, Hottest};
use rdiag_kernel::host::Host;
use rdiag_kernel::mechanism::descriptors;
use rdiag_kernel::mechanism::ebpf::Object;
use rdiag_kernel::mechanism::perf::event::{Event, Every};
use rdiag_kernel::mechanism::symbols::{Sample, Summary, Symbols, summarize};
use rdiag_model::metric::Pick;
use rdiag_model::probe::{Activity, Attachment, Output, ProbeTable};
use rdiag_model::{Deed, Formula, MetricDef, Unavailable, Unit, quantity};
use tally::{DEPTH, Tally};

pub(super) static PROBE: ProbeDef = ProbeDef {
    id: "profile",
    question: "Which processes, which functions and which lines use the CPUs?",
    attach: "A clock on each CPU, or another event that can be sampled.",
    output: "Functions by the CPU time of their own code, processes with the hottest function of each, the hottest lines where \
             debug information exists, and CPU time by stack.",
    caveats: "Samples: of n samples, a share is known within about 1/√n. The CPU clock is an interrupt: code that keeps \
              interrupts out is seen at the place that lets them in again. User stacks are walked by frame pointers: in code without them \
              callers are missing, which is said with its share. With unwind=tables they are walked by unwind tables (.eh_frame), which \
              nearly every program has, in at most 16 KiB of the stack; code without tables (compiled at run time, Go) needs frame \
              pointers all the same, and so does all code where no program may be in the kernel. Waiting tasks are not seen at all \
              (offcputime sees them). \
              What interrupts do while a CPU idles stands under the idle task, swapper. rdiag's own samples are left out.",
    overhead: "One run of a program for each sample: about 7 µs with both stacks on a busy machine at 99 Hz, 0.07 % of each CPU; 3 µs at \
               5000 Hz, when caches are warm. With unwind=tables it also copies the top of the user stack, at most 16 KiB, some 3 µs; \
               at most 64 MiB a second on the whole host. The clock wakes idle CPUs. Through rings: about a kilobyte for each sample. \
               Names cost more than samples do: some 0.1 s of CPU time, and more where hot functions have debug information.",
    params: &[
        ParamDef {
            name: "hz",
            kind: ParamKind::Count { min: 1, max: 10_000 },
            default: "99",
            help: "samples per second and CPU",
        },
        ParamDef {
            name: "event",
            kind: ParamKind::Events,
            default: "cpu-clock",
            help: "what is sampled (`rdiag list events`): cpu-clock, cycles, cache-misses, page-faults, group:tracepoint …",
        },
        ParamDef {
            name: "period",
            kind: ParamKind::Count { min: 0, max: 1_000_000_000_000 },
            default: "0",
            help: "one sample for so many events, in place of hz; nanoseconds for clocks; 0: by hz",
        },
        ParamDef {
            name: "stacks",
            kind: ParamKind::OneOf(&WHICH_STACKS),
            default: "both",
            help: "user, kernel or both",
        },
        ParamDef {
            name: "unwind",
            kind: ParamKind::OneOf(&UNWIND),
            default: FRAME_POINTERS,
            help: "how user stacks are walked: by frame pointers alone, or by unwind tables (.eh_frame) where these lead further",
        },
        ParamDef {
            name: "top",
            kind: ParamKind::Count { min: 1, max: 1000 },
            default: "25",
            help: "how many functions, and how many processes, the tables show",
        },
        ParamDef {
            name: "max_stacks",
            kind: ParamKind::Count { min: 1, max: 50_000 },
            default: "2000",
            help: "how many stacks to keep, the largest; the others are summed",
        },
    ],
    filters: &[FilterKind::Pid, FilterKind::Comm, FilterKind::Cgroup],
    streams: false,
    stacks: GivesStacks::Always,
    metrics: &[
        MetricDef {
            id: "profile.function.ratio",
            unit: Unit::Ratio,
            dimension: Some("function"),
            help: "Share of the sampled CPU time that was spent in a function's own code.",
            sources: &[Formula::probe(Pick::Column("functions", "share"))],
            caveat: "Of busy CPU time, not of the capacity of the CPUs. Functions that were inlined count as part of \
                     the one that holds them.",
            manual: "perf record -a -F 99 -- sleep 10; perf report --no-children",
            deed: Some(Deed { verb: "took", of: "the sampled CPU time", ..Deed::USUAL }),
        },
        MetricDef {
            id: "profile.process_cpu.seconds",
            unit: Unit::Seconds,
            dimension: Some("process"),
            help: "CPU time of a process, by samples.",
            sources: &[Formula::probe(Pick::Column("processes", "value"))],
            caveat: "An estimate: a sample stands for 1/hz seconds. With another event than a clock it is a number of \
                     events.",
            manual: "perf record -a -F 99 -- sleep 10; perf report --sort pid,comm",
            deed: Some(Deed { verb: "used", of: "the sampled CPU time", ..Deed::USUAL }),
        },
        MetricDef {
            id: "profile.process_kernel.ratio",
            unit: Unit::Ratio,
            dimension: Some("process"),
            help: "Share of a process's sampled CPU time that was spent in the kernel.",
            sources: &[Formula::probe(Pick::Column("processes", "kernel"))],
            caveat: "Interrupts that hit the process are among it.",
            manual: "pidstat -u 1 10",
            ..MetricDef::EMPTY
        },
        MetricDef {
            id: "profile.kernel.ratio",
            unit: Unit::Ratio,
            help: "Share of the sampled CPU time that was spent in the kernel.",
            sources: &[Formula::probe(Pick::Column("host", "kernel"))],
            caveat: "Not known where this user may not sample the kernel.",
            manual: "perf record -a -F 99 -- sleep 10; perf report --sort sym",
            ..MetricDef::EMPTY
        },
        MetricDef {
            id: "profile.samples.count",
            unit: Unit::Count,
            help: "Samples that the profile consists of.",
            sources: &[Formula::probe(Pick::Column("host", "samples"))],
            caveat: "A share of 10 % of 1000 samples is known within a percentage point, of 100 samples within three.",
            manual: "perf report --header-only",
            ..MetricDef::EMPTY
        },
    ],
    start,
};

/// How user stacks are walked.
const TABLES: &str = "tables";
const FRAME_POINTERS: &str = "frame-pointers";
const UNWIND: [&str; 2] = [FRAME_POINTERS, TABLES];

/// Files that may be open besides those of the CPUs: maps, programs, and whatever is looked up in.
const OTHER_FILES: u64 = 512;

/// What is to be sampled.
#[derive(Debug, Clone)]
struct Wanted {
    event: Event,
    every: Every,
    user: bool,
    kernel: bool,
    /// User stacks by unwind tables, not by frame pointers alone.
    tables: bool,
}

impl Wanted {
    /// Samples per second and CPU to expect; a guess where the event itself sets the pace.
    fn per_second(&self) -> u64 {
        match self.every {
            Every::Hertz(hz) => hz,
            Every::Events(period) if self.event.is_clock() => 1_000_000_000 / period.max(1),
            Every::Events(_) => 1000,
        }
    }
}

/// Where samples come from.
trait Source: Send {
    /// The program in the kernel, if there is one.
    fn object(&self) -> Option<&Object> {
        None
    }

    fn attachments(&self) -> Vec<Attachment>;

    /// Takes over the samples so far.
    fn gather(&mut self, host: &Host, tally: &mut Tally) -> Result<(), Unavailable>;
}

struct Profile {
    source: Box<dyn Source>,
    wanted: Wanted,
    /// Whether everything that runs is sampled, so that the idle share has a meaning.
    whole_host: bool,
    top: usize,
    max_stacks: usize,
    tally: Tally,
    symbols: Symbols,
}

fn start(context: &Context<'_>) -> Result<Box<dyn Probe>, Unavailable> {
    let (host, params, filter) = (context.host, context.params, context.filter);
    let (user, kernel) = match params.text("stacks") {
        Some("user") => (true, false),
        Some("kernel") => (false, true),
        _ => (true, true),
    };
    let event = Event::find(host, params.text("event").unwrap_or("cpu-clock"))?;
    let every = match params.count("period") {
        0 => Every::Hertz(params.count("hz")),
        events => Every::Events(events),
    };
    let tables = params.text("unwind") == Some(TABLES);
    let mut wanted = Wanted { event, every, user, kernel, tables };
    let mut whole_host = filter.pids.is_empty() && filter.comm.is_none() && filter.cgroup.is_none();
    // A program on the event of each CPU takes two.
    descriptors::make_room(u64::from(host.facts().cpus).saturating_mul(2) + OTHER_FILES);
    let source: Box<dyn Source> = match kernel::InKernel::start(context, &wanted) {
        Ok(source) => Box::new(source),
        Err(gap) => {
            let rings = rings::InRings::start(context, &wanted, &gap)?;
            wanted.kernel = rings.sees_kernel();
            whole_host &= rings.sees_host();
            Box::new(rings)
        }
    };
    Ok(Box::new(Profile {
        source,
        wanted,
        whole_host,
        top: params.count("top") as usize,
        max_stacks: params.count("max_stacks") as usize,
        tally: Tally::default(),
        symbols: Symbols::new(host, context.kernel().ok()),
    }))
}

impl Profile {
    fn unit(&self) -> Unit {
        if self.wanted.event.is_clock() { Unit::Seconds } else { Unit::Count }
    }

    /// Values are weights times this: clocks count nanoseconds.
    fn scale(&self) -> f64 {
        if self.wanted.event.is_clock() { 1e-9 } else { 1.0 }
    }

    /// The places that were executed.
    fn hottest(&mut self) -> Hottest {
        let mut hottest = Hottest::default();
        let scale = self.scale();
        for (key, sum) in &self.tally.sums {
            let mut executed = Executed {
                process: key.process(),
                task: key.name(),
                in_kernel: key.in_kernel,
                function: None,
                named: false,
                inlined: None,
                line: None,
                value: sum.weight as f64 * scale,
            };
            let leaf = self.tally.leaf(key);
            if let Some(place) = leaf.and_then(|(process, address)| self.symbols.place(process, address)) {
                executed.function = Some(place.function.clone());
                executed.named = place.named;
                executed.inlined = (place.inner.name != place.function.name).then(|| place.inner.name.clone());
                executed.line.clone_from(&place.inner.line);
            }
            hottest.add(executed);
        }
        hottest
    }

    /// How much there was, as a sentence and as a table of one row.
    fn host_table(&self, hottest: &Hottest) -> (String, ProbeTable) {
        let samples: u64 = self.tally.sums.values().map(|sum| sum.count).sum::<u64>() + self.tally.crowded.count;
        let all = samples + self.tally.idle;
        let idle =
            (self.whole_host && self.wanted.event.is_clock() && all > 0).then(|| self.tally.idle as f64 / all as f64);
        let kernel = (self.wanted.kernel && samples > 0).then(|| hottest.in_kernel());
        let mut text = format!("{} samples", quantity::number(samples as f64));
        if self.unit() == Unit::Seconds {
            text = format!("{text}, {} of CPU time", quantity::seconds(hottest.whole()));
        } else {
            text = format!("{text} of {}", self.wanted.event.name);
        }
        text.push_str(&match kernel {
            Some(share) => format!(", {} of it in the kernel", quantity::percent(share)),
            None if self.wanted.kernel => String::new(),
            None => "; what the kernel did was not sampled".to_owned(),
        });
        text.extend(idle.map(|share| format!("; the CPUs were idle for {} of the time", quantity::percent(share))));
        (text, hottest.all_samples(samples, kernel, idle, self.unit(), self.value_title()))
    }

    fn value_title(&self) -> &'static str {
        if self.unit() == Unit::Seconds { "CPU time" } else { "events" }
    }
}

impl Probe for Profile {
    fn object(&self) -> Option<&Object> {
        self.source.object()
    }

    fn attachments(&self) -> Vec<Attachment> {
        self.source.attachments()
    }

    fn poll(&mut self, host: &Host) -> Result<(), Unavailable> {
        self.source.gather(host, &mut self.tally)?;
        self.tally.unwind(host, &mut self.symbols);
        self.tally.learn(host, &mut self.symbols);
        self.tally.learn_lines(host, &mut self.symbols);
        Ok(())
    }

    fn read(&mut self, host: &Host) -> Result<Taken, Unavailable> {
        self.poll(host)?;
        self.symbols.settle(host);
        self.tally.take_walked(host, &mut self.symbols);
        self.tally.stop_waiting();
        self.tally.learn(host, &mut self.symbols);
        // Lines are asked for where functions are known, and those of the last samples are known only now.
        self.symbols.settle(host);
        self.tally.learn_lines(host, &mut self.symbols);
        self.symbols.settle(host);
        self.tally.set_idle_apart(&self.symbols);
        let scale = self.scale();
        let title = match self.unit() {
            Unit::Seconds => "CPU time by stack".to_owned(),
            _ => format!("{} by stack", self.wanted.event.name),
        };
        let of = Summary { id: "stacks", title: &title, unit: self.unit(), top: usize::MAX, depth: DEPTH };
        let samples: Vec<Sample<'_>> =
            self.tally.sums.iter().map(|(key, sum)| self.tally.sample(key, sum, scale)).collect();
        let mut whole = stacks::by_name(summarize(host, &mut self.symbols, &samples, of), self.max_stacks);
        drop(samples);
        if self.unit() == Unit::Seconds {
            whole.activity = Activity::Running;
        }
        whole.others += self.tally.crowded.weight as f64 * scale;
        let hottest = self.hottest();
        let (said, table) = self.host_table(&hottest);
        let mut outputs = hottest.tables(self.unit(), self.value_title(), self.top);
        outputs.extend([Output::Stacks(whole.clone()), Output::Table(table)]);
        let mut notes = vec![said];
        notes.extend(limits::notes(
            &hottest,
            limits::Of {
                cpu_clock: self.wanted.event.name == "cpu-clock",
                kernel: self.wanted.kernel,
                tables: self.tally.means.is_asked,
                truncated: if self.wanted.user {
                    whole.truncated / hottest.whole().max(f64::MIN_POSITIVE)
                } else {
                    0.0
                },
            },
        ));
        notes.extend(self.tally.means.told());
        if self.wanted.tables && self.wanted.user && !self.tally.means.is_asked {
            notes.push(
                "unwind tables were not asked: that takes a program in the kernel, on x86-64 or arm64".to_owned(),
            );
        }
        notes.append(&mut self.tally.notes);
        notes.extend(self.symbols.notes().map(str::to_owned));
        self.tally.lose("samples without a stack, too many kinds at once", self.tally.crowded.count);
        let mut lost: Vec<(&'static str, u64)> = self.tally.lost.drain().collect();
        lost.sort_unstable();
        self.tally.clear();
        Ok(Taken { outputs, lost, notes })
    }
}
