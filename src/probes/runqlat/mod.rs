//! Run-queue latency: how long tasks that could run waited for a CPU, as a distribution and by task.

use super::{Context, FilterKind, ParamDef, ParamKind, Probe, ProbeDef, Taken};
use crate::host::Host;
use crate::mechanism::ebpf::{Hook, Object, hist, include_bytes_aligned, words};
use crate::model::metric::Pick;
use crate::model::probe::{Column, Histogram, Output, ProbeTable, Row};
use crate::model::{Formula, MetricDef, Unavailable, Unit};

pub(super) static PROBE: ProbeDef = ProbeDef {
    id: "runqlat",
    question: "How long do tasks that could run wait for a CPU, and which tasks wait most?",
    attach: "sched_switch.",
    output: "The distribution of the waits, and for each task the number of waits, their sum and the longest.",
    caveats: "A wait counts when it ends: a task that waits through the whole window is not in it. Waits of tasks that a \
              CPU quota holds back count too.",
    overhead: "One program run per context switch, without a hook at wake-ups.",
    params: &[ParamDef {
        name: "top",
        kind: ParamKind::Count { min: 1, max: 1000 },
        default: "20",
        help: "how many tasks to show",
    }],
    filters: &[FilterKind::Pid, FilterKind::Comm, FilterKind::Cgroup],
    streams: false,
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
}

/// `struct waits` of the program.
type Waits = [u64; 8];

fn start(context: &Context<'_>) -> Result<Box<dyn Probe>, Unavailable> {
    let bytes = include_bytes_aligned!(concat!(env!("CARGO_MANIFEST_DIR"), "/src/probes/runqlat/runqlat.bpf.o"));
    let mut object = context.kernel.load(bytes, context.filter.globals(context.host)?, &[])?;
    object.attach(context.kernel, Hook::Tracepoint("sched_switch"))?;
    Ok(Box::new(RunqLat { object, top: context.params.count("top") as usize }))
}

impl Probe for RunqLat {
    fn object(&self) -> &Object {
        &self.object
    }

    fn read(&mut self, _: &Host) -> Result<Taken, Unavailable> {
        let all = self.object.take_hist("all", 0)?;
        let mut tasks = self.object.take_hash::<u32, Waits>("tasks")?;
        tasks.sort_by_key(|(_, waits)| std::cmp::Reverse(waits[2]));
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
        for (at, (tid, [_, born, sum, count, max, tgid, comm @ ..])) in tasks.iter().enumerate() {
            let wait = *sum as f64 * 1e-9;
            if at >= self.top {
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
        let histogram = Histogram {
            id: "wait".into(),
            title: "Time from being able to run to running".into(),
            unit: Unit::Seconds,
            dimension: None,
            rows: vec![hist::row("", &all, 1e-9)],
        };
        Ok(Taken { outputs: vec![Output::Histogram(histogram), Output::Table(table)], ..Taken::default() })
    }
}
