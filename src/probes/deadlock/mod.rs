//! `deadlock`: mutexes of a program that are taken in contradicting orders.

mod cycles;

use std::collections::HashMap;

use super::named_stacks::{self, NamedStacks};
use crate::def::{Context, FilterKind, GivesStacks, ParamDef, ParamKind, Probe, ProbeDef, Taken};
use crate::table::TableSpec;
use cycles::{Cycle, Order, Seen};
use rdiag_kernel::host::Host;
use rdiag_kernel::mechanism::ebpf::{Moments, Object, include_bytes_aligned, words};
use rdiag_kernel::mechanism::points;
use rdiag_kernel::mechanism::symbols::{Piece, Process, Sample, Summary, Symbols, summarize};
use rdiag_model::probe::{Output, ProbeTable};
use rdiag_model::{Reason, Unavailable, Unit};

pub(super) static PROBE: ProbeDef = ProbeDef {
    id: "deadlock",
    question: "Which mutexes of a program are taken by its threads in contradicting orders, so that they may wait for each other for \
               ever, and in which code?",
    attach: "pthread_mutex_lock, pthread_mutex_trylock and pthread_mutex_unlock of the C library, or of another one that has them.",
    output: "Each circle of mutexes: a thread held the first and asked for the second, and so on, until one held the last and asked \
             for the first; with the functions that asked, and how often at least. The stacks at which these orders were first \
             seen.",
    caveats: "A circle is a danger, no deadlock: another lock around it, or threads that never meet, may keep it harmless. Circles \
              of one thread alone are left out. Memory of a mutex that is freed and used for another one may make a circle that \
              is none. Of locks that a thread held before the start nothing is known; of more than eight that it holds at once, \
              those beyond are counted as lost. Locks that programs make of futex(2) themselves are not seen, nor locks for readers \
              and writers. Stacks need frame pointers.",
    overhead: "A program stops three times for each mutex that it takes and gives back: 16 µs were measured on a virtual machine where \
               both together take 8 ns without. Much for programs that lock often.",
    params: &[
        ParamDef {
            name: "library",
            kind: ParamKind::Text,
            default: "libc",
            help: "the library or program whose pthread_mutex_lock is watched: libc, libpthread (before glibc 2.34), /path/to/program",
        },
        ParamDef::top("how many circles to show"),
    ],
    filters: &[FilterKind::Pid, FilterKind::Comm, FilterKind::Cgroup],
    streams: false,
    stacks: GivesStacks::Always,
    metrics: &[],
    start,
};

struct Deadlock {
    object: Object,
    symbols: Symbols,
    stacks: NamedStacks,
    orders: HashMap<Order, Seen>,
    top: usize,
}

fn start(context: &Context<'_>) -> Result<Box<dyn Probe>, Unavailable> {
    let bytes = include_bytes_aligned!(concat!(env!("CARGO_MANIFEST_DIR"), "/deadlock/deadlock.bpf.o"));
    let (host, kernel) = (context.host, context.kernel()?);
    let mut object = kernel.load(bytes, context.filter.globals(host)?, &[])?;
    let library = context.params.text("library").unwrap_or("libc");
    let pids = &context.filter.pids;
    // What gives back comes first: a lock whose release is not seen would stay held.
    for (programs, name, moments) in [
        ("unlock", "pthread_mutex_unlock", Moments::Entry),
        ("try", "pthread_mutex_trylock", Moments::Both),
        ("lock", "pthread_mutex_lock", Moments::Both),
    ] {
        match points::functions(host, &format!("{library}:{name}"), pids.first().copied()) {
            Ok(found) => {
                for point in found {
                    object.attach_point_to(host, programs, &point, moments, pids)?;
                }
            }
            Err(error) if programs == "try" && error.reason == Reason::Absent => {}
            Err(error) => return Err(error.gap()),
        }
    }
    Ok(Box::new(Deadlock {
        object,
        symbols: Symbols::new(host, Some(kernel)),
        stacks: NamedStacks::at_return(),
        orders: HashMap::new(),
        top: context.params.count("top") as usize,
    }))
}

impl Probe for Deadlock {
    fn object(&self) -> Option<&Object> {
        Some(&self.object)
    }

    fn poll(&mut self, host: &Host) -> Result<(), Unavailable> {
        for (order, words) in self.object.hash::<Order, [u64; 7]>("orders")? {
            let seen = Seen::of(words);
            let [tgid, ..] = order;
            let process = Process { pid: tgid as u32, born: seen.born };
            self.stacks.learn(host, &self.object, &mut self.symbols, Some(process), seen.stack);
            self.orders.insert(order, seen);
        }
        Ok(())
    }

    fn read(&mut self, host: &Host) -> Result<Taken, Unavailable> {
        self.poll(host)?;
        self.symbols.settle(host);
        let found = cycles::find(&self.orders);
        let function = |seen: &Seen, tgid: u64| {
            let process = Process { pid: tgid as u32, born: seen.born };
            self.stacks.innermost(&self.symbols, process, seen.stack).unwrap_or_else(|| "?".into())
        };
        let table = circles(&found, &self.orders, function, self.top);
        let sample = |order: &Order| {
            let seen = self.orders.get(order)?;
            let [tgid, first, then] = order;
            let process = Process { pid: *tgid as u32, born: seen.born };
            let frames = Piece::Frames { process: Some(process), part: self.stacks.part(seen.stack), reversed: false };
            Some(Sample {
                owner: words::text_of_words(&seen.comm),
                pid: Some(process.pid),
                pieces: vec![frames, Piece::Mark(format!("asks for {then:#x}, holds {first:#x}"))],
                value: seen.count as f64,
                count: seen.count,
            })
        };
        let shown: std::collections::BTreeSet<&Order> =
            found.iter().take(self.top).flat_map(|cycle| &cycle.orders).collect();
        let samples: Vec<Sample<'_>> = shown.into_iter().filter_map(sample).collect();
        let title = "Stacks at which mutexes were asked for in contradicting orders";
        let of = Summary { id: "stacks", title, unit: Unit::Count, top: samples.len(), depth: named_stacks::DEPTH };
        let stacks = summarize(host, &mut self.symbols, &samples, of);
        drop(samples);
        let mut lost = self.object.take_counts("lost")?.into_iter();
        let mut next = || lost.next().unwrap_or(0);
        Ok(Taken {
            outputs: vec![Output::Table(table), Output::Stacks(stacks)],
            lost: vec![
                ("locks of threads that hold many, and orders that found no room", next()),
                ("stacks that found no room", next()),
            ],
            notes: vec![format!("{} orders of two mutexes were seen", self.orders.len())]
                .into_iter()
                .chain(self.symbols.notes().map(str::to_owned))
                .collect(),
        })
    }
}

/// A row for each circle: those that were gone through most come first.
fn circles(
    found: &[Cycle],
    orders: &HashMap<Order, Seen>,
    function: impl Fn(&Seen, u64) -> String,
    top: usize,
) -> ProbeTable {
    let seen = |cycle: &Cycle| -> Vec<&Seen> { cycle.orders.iter().filter_map(|order| orders.get(order)).collect() };
    let name = |cycle: &Cycle| seen(cycle).first().map(|seen| words::text_of_words(&seen.comm)).unwrap_or_default();
    TableSpec::<&Cycle>::new("circles", "Mutexes that are taken in contradicting orders")
        .rows("circle", |cycle| format!("{} (pid {}) {}", name(cycle), cycle.tgid, cycle.told()))
        .text("name", "task", |cycle| name(cycle))
        .text("pid", "pid", |cycle| cycle.tgid.to_string())
        .text("order", "held, then asked for", |cycle| cycle.told())
        .text("functions", "asked for in", |cycle| {
            let functions: Vec<String> = seen(cycle).into_iter().map(|seen| function(seen, cycle.tgid)).collect();
            functions.join(", ")
        })
        .number("locks", "mutexes", Unit::Count, |cycle| cycle.orders.len() as f64)
        .number("count", "times at least", Unit::Count, |cycle| cycle.count as f64)
        .top(found, top)
}

#[cfg(test)]
mod tests {
    use super::*;
    use rdiag_model::probe::Cell;

    #[test]
    fn a_circle_is_told_with_who_goes_through_it_and_where() {
        let importer = u64::from_ne_bytes(*b"importer");
        let seen = |(order, count, tid)| (order, Seen::of([count, 0, 1, tid, 0, importer, 0]));
        let orders: HashMap<Order, Seen> = [([7, 16, 32], 5, 8), ([7, 32, 16], 3, 9)].map(seen).into();
        let found = cycles::find(&orders);
        let table = |top| circles(&found, &orders, |seen, tgid| format!("f{} of {tgid}", seen.count), top);
        let one = table(1);
        let [row] = &one.rows[..] else { panic!("{found:?}") };
        assert_eq!(row.instance, "importer (pid 7) 0x10 → 0x20 → 0x10");
        let texts = ["importer", "7", "0x10 → 0x20 → 0x10", "f5 of 7, f3 of 7"].map(Cell::from);
        assert_eq!(row.cells, [&texts[..], &[2.0, 3.0].map(Cell::from)].concat());
        assert_eq!((one.others, table(0).others, table(0).others_sum.len()), (0, 1, 0));
    }
}
