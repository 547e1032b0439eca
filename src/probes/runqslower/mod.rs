//! Long waits for a CPU, one by one, and which task ran meanwhile.

use super::runqlat::wait;
use crate::def::{Context, FilterKind, GivesStacks, ParamDef, ParamKind, Probe, ProbeDef, Taken};
use crate::table::{EventRows, TableSpec};
use rdiag_kernel::host::Host;
use rdiag_kernel::mechanism::ebpf::{Global, Object, include_bytes_aligned, words};
use rdiag_model::metric::Pick;
use rdiag_model::probe::Output;
use rdiag_model::{Formula, MetricDef, Unavailable, Unit};

pub(super) static PROBE: ProbeDef = ProbeDef {
    id: "runqslower",
    question: "Which task waited too long for a CPU, and who had the CPU before it?",
    attach: "sched_switch; sched_wakeup and sched_wakeup_new too where the kernel keeps no account of waits.",
    output: "Each wait of at least the threshold: when it ended, who waited, how long, on which CPU, and the task that gave \
             the CPU up to it.",
    caveats: "A wait is printed when it ends. The task named last is the one that ran just before; others may have run there in \
              the time. Waits of tasks that a CPU quota throttles count too. rdiag's own waits are left out.",
    overhead: "About 0.05 µs per context switch while no wait is long, and nothing per wake-up.",
    params: &[
        ParamDef {
            name: "threshold",
            kind: ParamKind::Duration,
            default: "10ms",
            help: "print waits of at least this length",
        },
        wait::STAMPED,
    ],
    filters: &[FilterKind::Pid, FilterKind::Comm, FilterKind::Cgroup],
    streams: true,
    stacks: GivesStacks::Never,
    metrics: &[
        MetricDef {
            id: "runqslower.waits.count",
            unit: Unit::Count,
            help: "Waits for a CPU of at least the threshold (10 ms unless set otherwise).",
            sources: &[Formula::probe(Pick::Rows("waits"))],
            caveat: "Waits that did not end in the window are not in it.",
            manual: "perf sched record sleep 10; perf sched timehist",
            ..MetricDef::EMPTY
        },
        MetricDef {
            id: "runqslower.wait.seconds",
            unit: Unit::Seconds,
            help: "Sum of the waits for a CPU of at least the threshold (10 ms unless set otherwise).",
            sources: &[Formula::probe(Pick::ColumnSum("waits", "wait"))],
            caveat: "Waits that did not end in the window are not in it.",
            manual: "perf sched record sleep 10; perf sched timehist",
            ..MetricDef::EMPTY
        },
    ],
    start,
};

/// Rows that are kept for a reading; later ones are counted and summed up.
const ROWS: usize = 10_000;

struct RunqSlower {
    object: Object,
    note: Option<String>,
    began: f64,
    waits: EventRows,
}

fn start(context: &Context<'_>) -> Result<Box<dyn Probe>, Unavailable> {
    let bytes = include_bytes_aligned!(concat!(env!("CARGO_MANIFEST_DIR"), "/runqslower/runqslower.bpf.o"));
    let threshold = Global::u64("threshold", context.params.nanoseconds("threshold"));
    let (object, note) = wait::attach(context, bytes, &[threshold])?;
    Ok(Box::new(RunqSlower { object, note, began: context.host.now(), waits: EventRows::default() }))
}

impl Probe for RunqSlower {
    fn object(&self) -> Option<&Object> {
        Some(&self.object)
    }

    fn poll(&mut self, _: &Host) -> Result<(), Unavailable> {
        let Self { object, waits, began, .. } = self;
        let spec = spec(*began);
        // At most what the buffer holds: what comes meanwhile waits for the next call.
        object.drain("events", ROWS, |record| waits.add(&Slow::read(record), &spec, ROWS)).map(drop)
    }

    fn read(&mut self, host: &Host) -> Result<Taken, Unavailable> {
        self.poll(host)?;
        let lost = self.object.take_counts("lost")?;
        let table = self.waits.take(&spec(self.began));
        Ok(Taken {
            outputs: vec![Output::Events(table)],
            lost: vec![("the buffer was full", lost.iter().sum())],
            notes: self.note.iter().cloned().collect(),
        })
    }
}

/// `struct slow` of the program.
struct Slow {
    at: u64,
    wait: u64,
    cpu: u64,
    tgid: u32,
    tid: u32,
    comm: [u64; 2],
    prev_tid: u32,
    prev_comm: [u64; 2],
}

impl Slow {
    fn read(record: &[u8]) -> Self {
        let words = std::array::from_fn(|at| words::word(record, at * 8));
        let [at, wait, cpu, task, prev, name, more, prev_name, prev_more] = words;
        // Two 32-bit numbers in a word: thread, process.
        let ids = |pair: u64| {
            let [a, b, c, d, e, f, g, h] = pair.to_ne_bytes();
            [u32::from_ne_bytes([a, b, c, d]), u32::from_ne_bytes([e, f, g, h])]
        };
        let ([tid, tgid], [prev_tid, _]) = (ids(task), ids(prev));
        Self { at, wait, cpu, tgid, tid, comm: [name, more], prev_tid, prev_comm: [prev_name, prev_more] }
    }
}

fn spec(began: f64) -> TableSpec<'static, Slow> {
    TableSpec::<Slow>::new("waits", "Long waits for a CPU")
        .number("time", "time", Unit::Seconds, move |slow| (slow.at as f64 / 1e9 - began).max(0.0))
        .sum("wait", "waited", Unit::Seconds, |slow| slow.wait as f64 / 1e9)
        .text("name", "task", |slow| words::text_of_words(&slow.comm))
        .text("pid", "pid", |slow| slow.tgid.to_string())
        .text("tid", "tid", |slow| slow.tid.to_string())
        .text("cpu", "CPU", |slow| slow.cpu.to_string())
        .text("prev", "it ran after", |slow| words::text_of_words(&slow.prev_comm))
        .text("prev_tid", "tid", |slow| slow.prev_tid.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(at: u64, wait: u64) -> Vec<u8> {
        let mut record = Vec::new();
        for word in [at, wait, 3] {
            record.extend_from_slice(&word.to_ne_bytes());
        }
        for id in [21_u32, 20, 31, 30] {
            record.extend_from_slice(&id.to_ne_bytes());
        }
        record.extend_from_slice(b"waiter\0\0\0\0\0\0\0\0\0\0");
        record.extend_from_slice(b"hog\0\0\0\0\0\0\0\0\0\0\0\0\0");
        record
    }

    #[test]
    fn a_record_tells_who_waited_how_long_where_and_who_had_the_cpu() {
        let (spec, mut waits) = (spec(10.0), EventRows::default());
        waits.add(&Slow::read(&record(12_500_000_000, 20_000_000)), &spec, ROWS);
        waits.add(&Slow::read(&record(12_250_000_000, 30_000_000)), &spec, ROWS);
        let table = waits.take(&spec);
        assert_eq!(table.rows[0].cells[0..2], [2.25.into(), 0.03.into()], "in order of time");
        let texts = ["waiter", "20", "21", "3", "hog", "31"].map(Into::into);
        assert_eq!(table.rows[1].cells[2..], texts);
    }

    #[test]
    fn beyond_the_most_rows_waits_are_counted_and_summed_up_and_a_short_record_is_no_panic() {
        let (spec, mut waits) = (spec(0.0), EventRows::default());
        for _ in 0..ROWS + 2 {
            waits.add(&Slow::read(&record(1, 2_000_000_000)), &spec, ROWS);
        }
        let table = waits.take(&spec);
        assert_eq!((table.rows.len(), table.others, table.others_sum["wait"]), (ROWS, 2, 4.0));
        EventRows::default().add(&Slow::read(&[1, 2, 3]), &spec, ROWS);
    }
}
