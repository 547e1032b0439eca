//! Interrupt handlers: how much CPU time each takes.

use std::collections::{BTreeMap, BTreeSet};

use super::softirqs::{HIST, durations, with_runs};
use crate::def::{Context, GivesStacks, Probe, ProbeDef, Taken};
use crate::table::TableSpec;
use rdiag_kernel::host::Host;
use rdiag_kernel::mechanism::ebpf::hist::{self, Hist};
use rdiag_kernel::mechanism::ebpf::{Global, Hook, Object, include_bytes_aligned, words};
use rdiag_model::metric::Pick;
use rdiag_model::probe::Output;
use rdiag_model::{Formula, MetricDef, Unavailable, Unit};

pub(super) static PROBE: ProbeDef = ProbeDef {
    id: "hardirqs",
    question: "How much CPU time do interrupt handlers take, and whose are they?",
    attach: "irq_handler_entry, irq_handler_exit.",
    output: "For each handler, by its name in /proc/interrupts, its CPU time, how often it ran and the longest run; with hist \
             the distribution of the runs.",
    caveats: "Only handlers of devices: the local timer and interrupts between CPUs have none where they do not pass through \
              the generic code (x86). Work that a handler puts off is not in it: see softirqs and the irq/ threads. Handlers \
              of one name count as one. The table is read before the distributions: a run between the two readings is in the \
              distributions only.",
    overhead: "About 0.5 µs per interrupt and handler, in two program runs.",
    params: &[HIST],
    filters: &[],
    streams: false,
    stacks: GivesStacks::Never,
    metrics: &[
        MetricDef {
            id: "hardirqs.handler_time.seconds",
            unit: Unit::Seconds,
            dimension: Some("handler"),
            help: "CPU time of an interrupt handler, summed over all CPUs.",
            sources: &[Formula::probe(Pick::Column("handlers", "time"))],
            caveat: "Without the work that it puts off.",
            manual: "hardirqs-bpfcc 10 1",
            ..MetricDef::EMPTY
        },
        MetricDef {
            id: "hardirqs.handler_share.ratio",
            unit: Unit::Ratio,
            dimension: Some("handler"),
            help: "CPU time of an interrupt handler over the window's length: 1 is one CPU that does nothing else.",
            sources: &[Formula::probe(Pick::Column("handlers", "share"))],
            caveat: "Without the work that it puts off.",
            manual: "hardirqs-bpfcc 10 1",
            ..MetricDef::EMPTY
        },
        MetricDef {
            id: "hardirqs.runs.per_second",
            unit: Unit::PerSecond,
            dimension: Some("handler"),
            help: "Runs of an interrupt handler per second.",
            sources: &[Formula::probe(Pick::Column("handlers", "rate"))],
            caveat: "On a shared line every handler runs, whichever device it was.",
            manual: "watch -d cat /proc/interrupts",
            ..MetricDef::EMPTY
        },
    ],
    start,
};

/// Handlers with a distribution of their own, when asked for; each takes 4 KiB.
const DISTRIBUTIONS: u32 = 256;

struct HardIrqs {
    object: Object,
    hist: bool,
    since: f64,
}

/// `struct key` of the program: address of the action, and the interrupt's number.
type Key = [u64; 2];
/// `struct handler` of the program: count, sum, max, name.
type Handler = [u64; 7];
/// `struct slots` of the program.
type Slots = [u64; hist::WORDS - 3];

fn start(context: &Context<'_>) -> Result<Box<dyn Probe>, Unavailable> {
    let bytes = include_bytes_aligned!(concat!(env!("CARGO_MANIFEST_DIR"), "/hardirqs/hardirqs.bpf.o"));
    let hist = context.params.flag(HIST.name);
    let mut globals = context.filter.globals(context.host)?;
    globals.push(Global::u32("with_hist", u32::from(hist)));
    let mut object = context.kernel()?.load(bytes, globals, &[("dists", if hist { DISTRIBUTIONS } else { 1 })])?;
    for event in ["irq_handler_entry", "irq_handler_exit"] {
        object.attach(context.kernel()?, Hook::Tracepoint(event))?;
    }
    Ok(Box::new(HardIrqs { object, hist, since: context.host.now() }))
}

impl Probe for HardIrqs {
    fn object(&self) -> Option<&Object> {
        Some(&self.object)
    }

    fn read(&mut self, host: &Host) -> Result<Taken, Unavailable> {
        let now = host.now();
        let seconds = now - std::mem::replace(&mut self.since, now);
        let handlers = self.object.take_per_cpu_hash::<Key, Handler>("handlers")?;
        let slots = if self.hist { self.object.take_hash::<Key, Slots>("dists")? } else { Vec::new() };
        let lost = self.object.take_counts("lost")?;
        let lost = ["no room for more handlers", "no room for more distributions"].into_iter().zip(lost).collect();
        Ok(Taken { outputs: outputs(&handlers, &slots, seconds, self.hist), lost, notes: Vec::new() })
    }
}

/// What is known of the handlers of one name.
struct Named {
    irqs: BTreeSet<u64>,
    hist: Hist,
}

fn by_name(handlers: &[(Key, Vec<Handler>)], slots: &[(Key, Slots)]) -> Vec<(String, Named)> {
    let mut named: BTreeMap<String, Named> = BTreeMap::new();
    for (key, copies) in handlers {
        let [_, irq] = key;
        let names = copies.iter().map(|[_, _, _, name @ ..]| words::text_of_words(name));
        let name = names.into_iter().find(|name| !name.is_empty()).unwrap_or_else(|| format!("irq {irq}"));
        let entry = named.entry(name).or_insert_with(|| Named { irqs: BTreeSet::new(), hist: [0; hist::WORDS] });
        entry.irqs.insert(*irq);
        let [count, sum, max, all @ ..] = &mut entry.hist;
        for [more, time, longest, ..] in copies {
            *count += more;
            *sum += time;
            *max = (*max).max(*longest);
        }
        for (_, own) in slots.iter().filter(|(of, _)| of == key) {
            for (slot, more) in all.iter_mut().zip(own) {
                *slot += more;
            }
        }
    }
    let mut named: Vec<_> = named.into_iter().collect();
    named.sort_by_key(|(_, Named { hist: [_, sum, ..], .. })| std::cmp::Reverse(*sum));
    named
}

fn outputs(handlers: &[(Key, Vec<Handler>)], slots: &[(Key, Slots)], seconds: f64, with_hist: bool) -> Vec<Output> {
    let named = by_name(handlers, slots);
    let spec = TableSpec::<&(String, Named)>::new("handlers", "Interrupt handlers by CPU time")
        .rows("handler", |(name, _)| name.clone())
        .text("name", "handler", |(name, _)| name.clone())
        .text("irq", "irq", |(_, named)| named.irqs.iter().map(u64::to_string).collect::<Vec<_>>().join(","));
    let mut outputs = vec![Output::Table(with_runs(spec, seconds, |(_, named)| &named.hist).all(&named))];
    if with_hist {
        outputs.push(durations("handler", named.iter().map(|(name, named)| (name, &named.hist))));
    }
    outputs
}

#[cfg(test)]
mod tests {
    use super::*;

    const NAME: [u64; 4] = [u64::from_ne_bytes(*b"eth0\0\0\0\0"), 0, 0, 0];

    #[test]
    fn handlers_of_one_name_are_one_row_whichever_cpu_and_line_they_ran_on() {
        let [a, b, c, d] = NAME;
        let handlers = vec![
            ([1, 24], vec![[0; 7], [2, 3_000, 2_000, a, b, c, d]]),
            ([2, 25], vec![[1, 5_000, 5_000, a, b, c, d], [0; 7]]),
            ([3, 9], vec![[1, 9_000, 9_000, 0, 0, 0, 0]]),
        ];
        let mut slots = [0; hist::WORDS - 3];
        slots[80] = 2;
        let found = outputs(&handlers, &[([1, 24], slots)], 2.0, true);
        let Output::Table(table) = &found[0] else { panic!("{found:?}") };
        let names: Vec<&str> = table.rows.iter().map(|row| row.instance.as_str()).collect();
        assert_eq!(names, ["irq 9", "eth0"]);
        let cells = &table.rows[1].cells;
        assert_eq!((&cells[1], &cells[4], &cells[5]), (&"24,25".into(), &3.0.into(), &1.5.into()));
        let Output::Histogram(histogram) = &found[1] else { panic!("{found:?}") };
        assert_eq!((histogram.rows[1].count, histogram.rows[1].buckets.len()), (3, 1));
    }
}
