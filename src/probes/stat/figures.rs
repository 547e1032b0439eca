//! What follows from counts: quotients of events, and what they say.

use std::collections::BTreeMap;

use rdiag_kernel::mechanism::perf::counters::{Count, Counted};
use rdiag_kernel::mechanism::perf::select::Event;
use rdiag_model::metric::Pick;
use rdiag_model::{Formula, MetricDef, Reason, Unavailable, Unit};

/// A quotient of two events.
struct Quotient {
    id: &'static str,
    name: &'static str,
    of: &'static str,
    per: &'static str,
    /// The quotient of the raw counts is multiplied by this.
    factor: f64,
    unit: Unit,
    meaning: &'static str,
}

const fn count(
    id: &'static str,
    name: &'static str,
    of: &'static str,
    per: &'static str,
    meaning: &'static str,
) -> Quotient {
    Quotient { id, name, of, per, factor: 1.0, unit: Unit::Count, meaning }
}

const fn share(
    id: &'static str,
    name: &'static str,
    of: &'static str,
    per: &'static str,
    meaning: &'static str,
) -> Quotient {
    Quotient { id, name, of, per, factor: 1.0, unit: Unit::Ratio, meaning }
}

/// Clocks count nanoseconds, so cycles per clock are GHz.
const QUOTIENTS: &[Quotient] = &[
    count(
        "ghz",
        "clock in GHz",
        "cycles",
        "task-clock",
        "cycles per nanosecond on a CPU; low: it saves power or is hot",
    ),
    count(
        "ipc",
        "instructions per cycle",
        "instructions",
        "cycles",
        "below 0.5 it mostly waits (for memory), above 1 it computes",
    ),
    count("cpi", "cycles per instruction", "cycles", "instructions", "the same the other way round"),
    Quotient {
        factor: 1000.0,
        ..count(
            "mpki",
            "misses per 1000 instr.",
            "cache-misses",
            "instructions",
            "how often it needs memory; above 10 that counts",
        )
    },
    Quotient {
        factor: 1000.0,
        ..count(
            "llc_mpki",
            "LLC misses/1000 instr.",
            "LLC-load-misses",
            "instructions",
            "how often it needs memory; above 10 that counts",
        )
    },
    share(
        "cache_miss",
        "cache misses",
        "cache-misses",
        "cache-references",
        "accesses to the last cache that went to memory",
    ),
    share(
        "llc_miss",
        "LLC load misses",
        "LLC-load-misses",
        "LLC-loads",
        "loads from the last cache that went to memory",
    ),
    share(
        "l1d_miss",
        "L1 data misses",
        "L1-dcache-load-misses",
        "L1-dcache-loads",
        "loads that the first cache did not hold",
    ),
    share(
        "dtlb_miss",
        "data TLB misses",
        "dTLB-load-misses",
        "dTLB-loads",
        "loads whose address had to be looked up: many pages",
    ),
    share(
        "itlb_miss",
        "instruction TLB misses",
        "iTLB-load-misses",
        "iTLB-loads",
        "fetches whose address had to be looked up: much code",
    ),
    share(
        "branch_miss",
        "branches mispredicted",
        "branch-misses",
        "branches",
        "each costs 10 to 20 cycles; above 5 % that counts",
    ),
    share(
        "stalled_front",
        "stalled, front end",
        "stalled-cycles-frontend",
        "cycles",
        "cycles without new instructions",
    ),
    share(
        "stalled_back",
        "stalled, back end",
        "stalled-cycles-backend",
        "cycles",
        "cycles that waited for data or units",
    ),
];

/// The counters of memory controllers with a scale in MiB.
const CONTROLLERS: &str = "uncore_imc";
const MEBIBYTE: f64 = 1_048_576.0;

/// A figure.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Figure {
    pub(super) id: &'static str,
    pub(super) name: &'static str,
    pub(super) value: f64,
    pub(super) unit: Unit,
    pub(super) meaning: &'static str,
    /// The event in whose line it is shown too.
    pub(super) event: &'static str,
    pub(super) per: &'static str,
}

/// All figures, why others are not available, and what limits their accuracy.
#[derive(Debug, Default)]
pub(super) struct Figures {
    pub(super) all: Vec<Figure>,
    pub(super) gaps: BTreeMap<String, Unavailable>,
    pub(super) notes: Vec<String>,
}

/// What follows from the counts of so many seconds.
pub(super) fn derive(counted: &[Counted], seconds: f64, of_tasks: bool) -> Figures {
    let mut figures = Figures::default();
    if of_tasks && let Ok((_, _, ran)) = find(counted, "task-clock") {
        figures.all.push(Figure {
            id: "cpus",
            name: "CPUs used",
            value: ran * 1e-9 / seconds,
            unit: Unit::Count,
            meaning: "how many CPUs it kept busy, on average",
            event: "task-clock",
            per: "",
        });
    }
    for quotient in QUOTIENTS {
        match divide(counted, quotient) {
            Ok((figure, is_estimate)) => {
                if is_estimate {
                    let note = format!(
                        "{} is an estimate: {} and {} were counted at different moments",
                        figure.name, quotient.of, quotient.per
                    );
                    figures.notes.push(note);
                }
                figures.all.push(figure);
            }
            Err(gap) => {
                figures.gaps.insert(quotient.id.to_owned(), gap);
            }
        }
    }
    bandwidth(counted, seconds, &mut figures);
    figures
}

/// The first event of the name that was counted.
fn find<'c>(counted: &'c [Counted], name: &str) -> Result<(&'c Event, &'c Count, f64), Unavailable> {
    let is_named = |shown: &str| shown == name || shown.strip_prefix(name).is_some_and(|rest| rest.starts_with(':'));
    let Some(found) = counted.iter().find(|counted| is_named(&counted.name)) else {
        return Err(Unavailable::new(Reason::Absent, format!("{name} was not among the events")));
    };
    let (event, count) = found.outcome.as_ref().map_err(Clone::clone)?;
    let value = count.value.ok_or_else(|| never(&found.name))?;
    Ok((event, count, value))
}

/// Why a counter that was opened has no value.
pub(super) fn never(name: &str) -> Unavailable {
    let why =
        format!("{name} was never counted: what is looked at did not run, or others held the counters all the time");
    Unavailable::new(Reason::ShortWindow, why)
}

/// The figure, and whether it is an estimate only.
fn divide(counted: &[Counted], quotient: &Quotient) -> Result<(Figure, bool), Unavailable> {
    let (of, of_count, dividend) = find(counted, quotient.of)?;
    let (per, per_count, divisor) = find(counted, quotient.per)?;
    // A clock runs in all states of the CPU, whatever it is asked.
    let is_clock = quotient.per == "task-clock";
    if of.modifiers != per.modifiers && !is_clock {
        let why = format!("{} and {} were counted in different states of the CPU", quotient.of, quotient.per);
        return Err(Unavailable::new(Reason::NotApplicable, why));
    }
    if divisor <= 0.0 {
        return Err(Unavailable::new(Reason::ShortWindow, format!("{} did not happen", quotient.per)));
    }
    let shared = of_count.share.min(per_count.share) < 0.99;
    let figure = Figure {
        id: quotient.id,
        name: quotient.name,
        value: dividend / divisor * quotient.factor,
        unit: quotient.unit,
        meaning: quotient.meaning,
        event: quotient.of,
        per: quotient.per,
    };
    Ok((figure, shared && of_count.together != per_count.together && !is_clock))
}

/// Bytes that passed the memory controllers.
fn bandwidth(counted: &[Counted], seconds: f64, figures: &mut Figures) {
    let (mut bytes, mut channels, mut gap) = (0.0, 0, None);
    for one in counted.iter().filter(|one| one.name.starts_with(CONTROLLERS)) {
        match &one.outcome {
            Ok((event, Count { value: Some(value), .. })) if event.unit == "MiB" => {
                bytes += value * event.scale * MEBIBYTE;
                let sockets = event.cpus.as_ref().map_or(1, Vec::len);
                channels = channels.max(event.encodings.len() * sockets);
            }
            Ok(_) => gap = Some(never(&one.name)),
            Err(missing) => gap = Some(missing.clone()),
        }
    }
    let (event, per) = ("", "");
    let mut push = |id, name, value, meaning| {
        figures.all.push(Figure { id, name, value, unit: Unit::BytesPerSecond, meaning, event, per });
    };
    match gap {
        None if channels > 0 => {
            push("memory", "memory bandwidth", bytes / seconds, "read and written by the memory controllers");
            let each = bytes / seconds / channels as f64;
            push("memory_channel", "for each channel", each, "DDR4-3200 moves 26 GB/s, DDR5-4800 38 GB/s at most");
        }
        gap => {
            let absent = || Unavailable::new(Reason::Absent, "no counters of memory controllers were among the events");
            let gap = gap.unwrap_or_else(absent);
            figures.gaps.insert("memory".into(), gap.clone());
            figures.gaps.insert("memory_channel".into(), gap);
        }
    }
}

const GENERAL: &str = "What the general names of caches mean differs from CPU to CPU.";

pub(super) static METRICS: &[MetricDef] = &[
    MetricDef {
        id: "stat.ipc.count",
        unit: Unit::Count,
        help: "Instructions completed per cycle in which the CPUs were not halted.",
        sources: &[Formula::probe(Pick::Cell("figures", "ipc", "value"))],
        caveat: "Waiting loops complete many instructions and achieve nothing; two threads of one core share its units.",
        manual: "perf stat -a -e cycles,instructions sleep 10",
        ..MetricDef::EMPTY
    },
    MetricDef {
        id: "stat.cache_mpki.count",
        unit: Unit::Count,
        help: "Misses of the last cache per 1000 instructions.",
        sources: &[Formula::probe(Pick::Cell("figures", "mpki", "value"))],
        caveat: GENERAL,
        manual: "perf stat -a -e cache-misses,instructions sleep 10",
        ..MetricDef::EMPTY
    },
    MetricDef {
        id: "stat.cache_miss.ratio",
        unit: Unit::Ratio,
        help: "Share of the accesses to the last cache that had to go to memory.",
        sources: &[Formula::probe(Pick::Cell("shares", "cache_miss", "value"))],
        caveat: "A high share of few accesses costs nothing: see the misses per 1000 instructions.",
        manual: "perf stat -a -e cache-references,cache-misses sleep 10",
        ..MetricDef::EMPTY
    },
    MetricDef {
        id: "stat.branch_miss.ratio",
        unit: Unit::Ratio,
        help: "Share of the branches that went another way than was guessed.",
        sources: &[Formula::probe(Pick::Cell("shares", "branch_miss", "value"))],
        caveat: "A high share of few branches costs nothing.",
        manual: "perf stat -a -e branches,branch-misses sleep 10",
        ..MetricDef::EMPTY
    },
    MetricDef {
        id: "stat.memory_bandwidth.bytes_per_second",
        unit: Unit::BytesPerSecond,
        help: "Bytes that the memory controllers read and wrote per second.",
        sources: &[Formula::probe(Pick::Cell("bandwidth", "memory", "value"))],
        caveat: "Includes what devices read and write, and prefetches.",
        manual: "perf stat -a -e uncore_imc/cas_count_read/,uncore_imc/cas_count_write/ sleep 10",
        ..MetricDef::EMPTY
    },
    MetricDef {
        id: "stat.memory_channel.bytes_per_second",
        unit: Unit::BytesPerSecond,
        help: "Bytes read and written per second and memory channel, on average.",
        sources: &[Formula::probe(Pick::Cell("bandwidth", "memory_channel", "value"))],
        caveat: "Channels without memory modules count too, so it may be too low.",
        manual: "perf stat -a -e uncore_imc/cas_count_read/,uncore_imc/cas_count_write/ sleep 10",
        ..MetricDef::EMPTY
    },
    MetricDef {
        id: "stat.event.per_second",
        unit: Unit::PerSecond,
        dimension: Some("event"),
        help: "How often each event happened per second.",
        sources: &[Formula::probe(Pick::Column("events", "rate"))],
        caveat: "Scaled up if the event had to share its counter.",
        manual: "perf stat -a sleep 10",
        ..MetricDef::EMPTY
    },
];
