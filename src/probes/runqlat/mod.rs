//! Run-queue latency: how long tasks that could run waited for a CPU, as a distribution and by task.

pub(super) mod wait;

use crate::def::{Context, FilterKind, GivesStacks, ParamDef, Probe, ProbeDef, Taken};
use crate::table::TableSpec;
use rdiag_kernel::host::Host;
use rdiag_kernel::mechanism::ebpf::{Object, hist, include_bytes_aligned, words};
use rdiag_model::metric::Pick;
use rdiag_model::probe::{Histogram, Output, ProbeTable};
use rdiag_model::{Formula, MetricDef, Unavailable, Unit};

pub(super) static PROBE: ProbeDef = ProbeDef {
    id: "runqlat",
    question: "How long do tasks that could run wait for a CPU, and which tasks wait most?",
    attach: "sched_switch; sched_wakeup and sched_wakeup_new too where the kernel keeps no account of waits.",
    output: "The distribution of the waits, and for each task the number of waits, their sum and the longest.",
    caveats: "A wait counts when it ends: a task that waits through the whole window is not in it. Waits of tasks that a \
              CPU quota holds back count too. A wait of 0 means that the kernel settled it without reading its clock again: \
              a wake-up that takes the CPU at once. The distribution is read before the table: a wait that ends between the \
              two readings is in the table only.",
    overhead: "0.05 to 0.1 µs per context switch and nothing per wake-up; by time stamps 0.15 to 0.2 µs, wake-ups included.",
    params: &[ParamDef::top("how many tasks to show"), wait::STAMPED],
    filters: &[FilterKind::Pid, FilterKind::Comm, FilterKind::Cgroup],
    streams: false,
    stacks: GivesStacks::Never,
    metrics: &[
        MetricDef {
            id: "runqlat.p99.seconds",
            unit: Unit::Seconds,
            help: "99th percentile of the time from being able to run to running.",
            sources: &[Formula::probe(Pick::Percentile("wait", 0.99))],
            caveat: "Over all tasks of the host; one that waits seldom and long may hide behind many short waits.",
            manual: "perf sched record sleep 10; perf sched latency",
            ..MetricDef::EMPTY
        },
        MetricDef {
            id: "runqlat.task_wait.seconds",
            unit: Unit::Seconds,
            dimension: Some("task"),
            help: "Time a task spent waiting for a CPU.",
            sources: &[Formula::probe(Pick::Column("tasks", "wait"))],
            caveat: "The tasks that waited longest; the others are summed up.",
            manual: "the second field of /proc/PID/task/TID/schedstat",
            ..MetricDef::EMPTY
        },
    ],
    start,
};

struct RunqLat {
    object: Object,
    top: usize,
    note: Option<String>,
}

/// `struct waits` of the program.
type Waits = [u64; 7];

fn start(context: &Context<'_>) -> Result<Box<dyn Probe>, Unavailable> {
    let bytes = include_bytes_aligned!(concat!(env!("CARGO_MANIFEST_DIR"), "/runqlat/runqlat.bpf.o"));
    let (object, note) = wait::attach(context, bytes, &[])?;
    Ok(Box::new(RunqLat { object, top: context.params.count("top") as usize, note }))
}

impl Probe for RunqLat {
    fn object(&self) -> Option<&Object> {
        Some(&self.object)
    }

    fn read(&mut self, _: &Host) -> Result<Taken, Unavailable> {
        let all = self.object.take_hist("all", 0)?;
        let tasks = self.object.take_hash::<u32, Waits>("tasks")?;
        let histogram = Histogram {
            id: "wait".into(),
            title: "Time from being able to run to running".into(),
            unit: Unit::Seconds,
            dimension: None,
            rows: vec![hist::row("", &all, 1e-9)],
        };
        let outputs = vec![Output::Histogram(histogram), Output::Table(table(tasks, self.top))];
        Ok(Taken { outputs, lost: Vec::new(), notes: self.note.iter().cloned().collect() })
    }
}

/// Those that waited most, by the sum of their waits.
fn table(mut tasks: Vec<(u32, Waits)>, top: usize) -> ProbeTable {
    tasks.sort_by_key(|(_, [_, sum, ..])| std::cmp::Reverse(*sum));
    TableSpec::<Waited>::new("tasks", "Tasks by time spent waiting for a CPU")
        .rows("task", |waited| format!("{}:{}", waited.tid, waited.born))
        .text("name", "task", |waited| waited.name.clone())
        .text("pid", "pid", |waited| waited.tgid.to_string())
        .text("tid", "tid", |waited| waited.tid.to_string())
        .sum("wait", "waited", Unit::Seconds, |waited| waited.sum as f64 * 1e-9)
        .number("count", "times", Unit::Count, |waited| waited.count as f64)
        .number("max", "longest", Unit::Seconds, |waited| waited.longest as f64 * 1e-9)
        .top(tasks.into_iter().map(Waited::new), top)
}

/// A task that waited.
struct Waited {
    tid: u32,
    born: u64,
    sum: u64,
    count: u64,
    longest: u64,
    tgid: u64,
    name: String,
}

impl Waited {
    fn new((tid, [born, sum, count, longest, tgid, comm @ ..]): (u32, Waits)) -> Self {
        Self { tid, born, sum, count, longest, tgid, name: words::text_of_words(&comm) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rdiag_model::probe::Cell;

    #[test]
    fn the_tasks_that_waited_most_come_first_and_the_rest_is_summed_up() {
        let task = |tid, sum| (tid, [7, sum, 2, sum, 1, u64::from_ne_bytes(*b"ab\0\0\0\0\0\0"), 0]);
        let table = table(vec![task(10, 1_000_000), task(11, 3_000_000), task(12, 2_000_000)], 1);
        assert_eq!(table.rows.len(), 1);
        let row = &table.rows[0];
        assert_eq!((row.instance.as_str(), &row.cells[0]), ("11:7", &"ab".into()));
        assert_eq!((table.others, table.others_sum["wait"]), (2, 0.003));
    }

    #[test]
    fn a_task_has_the_number_of_its_waits_their_sum_and_the_longest() {
        let task = |tid| (tid, [7, 3_000_000, 2, 2_000_000, 1, u64::from_ne_bytes(*b"ab\0\0\0\0\0\0"), 0]);
        let table = table(vec![task(10), task(11)], 1);
        let numbers = [3e6 * 1e-9, 2.0, 2e6 * 1e-9].map(Cell::from);
        assert_eq!(table.rows[0].cells, [&["ab", "1", "10"].map(Cell::from)[..], &numbers].concat());
        assert_eq!(table.others_sum, [("wait".to_owned(), 3e6 * 1e-9)].into());
    }
}
