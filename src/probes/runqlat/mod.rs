//! Run-queue latency: how long tasks that could run waited for a CPU, as a distribution and by task.

pub(super) mod wait;

use crate::def::{Context, FilterKind, GivesStacks, ParamDef, ParamKind, Probe, ProbeDef, Taken};
use rdiag_kernel::host::Host;
use rdiag_kernel::mechanism::ebpf::{Object, hist, include_bytes_aligned, words};
use rdiag_model::metric::Pick;
use rdiag_model::probe::{Column, Histogram, Output, ProbeTable, Row};
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
    params: &[
        ParamDef {
            name: "top",
            kind: ParamKind::Count { min: 1, max: 1000 },
            default: "20",
            help: "how many tasks to show",
        },
        wait::STAMPED,
    ],
    filters: &[FilterKind::Pid, FilterKind::Comm, FilterKind::Cgroup],
    streams: false,
    stacks: GivesStacks::Never,
    metrics: &[
        MetricDef {
            id: "runqlat.p99.seconds",
            unit: Unit::Seconds,
            dimension: None,
            help: "99th percentile of the time from being able to run to running.",
            sources: &[Formula::probe(Pick::Percentile("wait", 0.99))],
            caveat: "Over all tasks of the host; one that waits seldom and long may hide behind many short waits.",
            manual: "perf sched record sleep 10; perf sched latency",
        },
        MetricDef {
            id: "runqlat.task_wait.seconds",
            unit: Unit::Seconds,
            dimension: Some("task"),
            help: "Time a task spent waiting for a CPU.",
            sources: &[Formula::probe(Pick::Column("tasks", "wait"))],
            caveat: "The tasks that waited longest; the others are summed up.",
            manual: "the second field of /proc/PID/task/TID/schedstat",
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
    let mut table = ProbeTable {
        id: "tasks".into(),
        title: "Tasks by time spent waiting for a CPU".into(),
        dimension: Some("task".into()),
        columns: vec![
            Column::text("name", "task"),
            Column::text("pid", "pid"),
            Column::text("tid", "tid"),
            Column::number("wait", "waited", Unit::Seconds),
            Column::number("count", "times", Unit::Count),
            Column::number("max", "longest", Unit::Seconds),
        ],
        ..ProbeTable::default()
    };
    for (at, (tid, [born, sum, count, max, tgid, comm @ ..])) in tasks.iter().enumerate() {
        let wait = *sum as f64 * 1e-9;
        if at >= top {
            table.others += 1;
            *table.others_sum.entry("wait".into()).or_default() += wait;
            continue;
        }
        table.rows.push(Row {
            instance: format!("{tid}:{born}"),
            cells: vec![
                words::text_of_words(comm).into(),
                tgid.to_string().into(),
                tid.to_string().into(),
                wait.into(),
                (*count as f64).into(),
                (*max as f64 * 1e-9).into(),
            ],
        });
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tasks_that_waited_most_come_first_and_the_rest_is_summed_up() {
        let task = |tid, sum| (tid, [7, sum, 2, sum, 1, u64::from_ne_bytes(*b"ab\0\0\0\0\0\0"), 0]);
        let table = table(vec![task(10, 1_000_000), task(11, 3_000_000), task(12, 2_000_000)], 1);
        assert_eq!(table.rows.len(), 1);
        let row = &table.rows[0];
        assert_eq!((row.instance.as_str(), &row.cells[0]), ("11:7", &"ab".into()));
        assert_eq!((table.others, table.others_sum["wait"]), (2, 0.003));
    }
}
