//! How long tasks stay on a CPU at a time, or off it.

use crate::def::{Context, FilterKind, GivesStacks, ParamDef, ParamKind, Probe, ProbeDef, Taken};
use crate::table::TableSpec;
use rdiag_kernel::host::Host;
use rdiag_kernel::mechanism::ebpf::hist;
use rdiag_kernel::mechanism::ebpf::{Global, Hook, Object, include_bytes_aligned, words};
use rdiag_model::metric::Pick;
use rdiag_model::probe::{Histogram, HistogramRow, Output};
use rdiag_model::{Formula, MetricDef, Unavailable, Unit};

pub(super) static PROBE: ProbeDef = ProbeDef {
    id: "cpudist",
    question: "How long do tasks stay on a CPU at a time before they give it up or lose it, or off it before they are back?",
    attach: "sched_switch.",
    output: "The distribution of the stays on a CPU; with off that of the times off it, apart for tasks that went by \
             themselves and tasks that were preempted; with by_task both by task too.",
    caveats: "A stay counts when it ends: a task that runs or sleeps through the whole window is not in it. Time off the CPU \
              holds the wait for a CPU after the wake-up. Interrupts count as the stay of the task they interrupt, and \
              what a hypervisor takes of a CPU as that of the task that has it. The distribution is read before the table by \
              task: a stay that ends between the two readings is in the table only.",
    overhead: "About 0.1 µs per context switch, off the CPU up to 0.2 µs.",
    params: &[
        ParamDef { name: "off", kind: ParamKind::Flag, default: "false", help: "time off the CPU instead of on it" },
        ParamDef { name: "by_task", kind: ParamKind::Flag, default: "false", help: "show each task too" },
        ParamDef::top("how many tasks to show"),
    ],
    filters: &[FilterKind::Pid, FilterKind::Comm, FilterKind::Cgroup],
    streams: false,
    stacks: GivesStacks::Never,
    metrics: &[
        MetricDef {
            id: "cpudist.stay.mean",
            unit: Unit::Seconds,
            help: "Mean time that a task stays on a CPU at a time.",
            sources: &[Formula::probe(Pick::Mean("on_cpu"))],
            caveat: "Short stays mean many context switches, not that tasks wait.",
            manual: "cpudist-bpfcc 10 1",
            ..MetricDef::EMPTY
        },
        MetricDef {
            id: "cpudist.switches.count",
            unit: Unit::Count,
            help: "Stays on a CPU that ended in the window.",
            sources: &[Formula::probe(Pick::Count("on_cpu"))],
            caveat: "Without those of the idle task.",
            manual: "vmstat 10 2 (column cs)",
            ..MetricDef::EMPTY
        },
    ],
    start,
};

/// Tasks with a distribution of their own, when asked for; each takes 4 KiB.
const TASKS: u32 = 1024;
/// Tasks whose switch-out is remembered.
const AWAY: u32 = 16_384;

struct CpuDist {
    object: Object,
    off: bool,
    by_task: bool,
    top: usize,
}

/// `struct task_dist` of the program: the distribution, start time, process, name.
type TaskDist = [u64; hist::WORDS + 4];

fn start(context: &Context<'_>) -> Result<Box<dyn Probe>, Unavailable> {
    let bytes = include_bytes_aligned!(concat!(env!("CARGO_MANIFEST_DIR"), "/cpudist/cpudist.bpf.o"));
    let (off, by_task) = (context.params.flag("off"), context.params.flag("by_task"));
    let mut globals = context.filter.globals(context.host)?;
    globals.extend([Global::u32("off_cpu", u32::from(off)), Global::u32("by_task", u32::from(by_task))]);
    let entries = [("tasks", if by_task { TASKS } else { 1 }), ("away", if off { AWAY } else { 1 })];
    let mut object = context.kernel()?.load(bytes, globals, &entries)?;
    object.attach(context.kernel()?, Hook::Tracepoint("sched_switch"))?;
    Ok(Box::new(CpuDist { object, off, by_task, top: context.params.count("top") as usize }))
}

impl Probe for CpuDist {
    fn object(&self) -> Option<&Object> {
        Some(&self.object)
    }

    fn read(&mut self, _: &Host) -> Result<Taken, Unavailable> {
        let first = self.object.take_hist("all", 0)?;
        let mut rows = if self.off {
            vec![hist::row("slept", &self.object.take_hist("all", 1)?, 1e-9), hist::row("preempted", &first, 1e-9)]
        } else {
            vec![hist::row("", &first, 1e-9)]
        };
        rows.sort_by_key(|row| std::cmp::Reverse(row.count));
        let what = if self.off { "Time off the CPU" } else { "Time on a CPU" };
        let mut outputs = vec![Output::Histogram(Histogram {
            id: if self.off { "off_cpu" } else { "on_cpu" }.into(),
            title: what.into(),
            unit: Unit::Seconds,
            dimension: self.off.then(|| "way".into()),
            rows,
        })];
        let mut lost = Vec::new();
        if self.by_task {
            outputs.extend(of_tasks(self.object.take_hash::<u32, TaskDist>("tasks")?, what, self.top));
            let counts = self.object.take_counts("lost")?;
            lost.push(("no room for more tasks, in the figures by task", counts.iter().sum()));
        }
        Ok(Taken { outputs, lost, notes: Vec::new() })
    }
}

/// The tasks with the longest sums: a table, and their distributions.
fn of_tasks(mut tasks: Vec<(u32, TaskDist)>, what: &str, top: usize) -> Vec<Output> {
    tasks.sort_by_key(|(_, [_, sum, ..])| std::cmp::Reverse(*sum));
    let tasks: Vec<Task> = tasks.iter().map(Task::new).collect();
    let table = TableSpec::<&Task>::new("tasks", format!("{what} by task"))
        .rows("task", |task| format!("{}:{}", task.tid, task.born))
        .text("name", "task", |task| task.name.clone())
        .text("pid", "pid", |task| task.tgid.to_string())
        .text("tid", "tid", |task| task.tid.to_string())
        .sum("time", "time", Unit::Seconds, |task| task.stays.sum)
        .sum("count", "times", Unit::Count, |task| task.stays.count as f64)
        .number("mean", "mean", Unit::Seconds, |task| task.stays.mean().unwrap_or(0.0))
        .number("max", "longest", Unit::Seconds, |task| task.stays.max)
        .top(&tasks, top);
    let histogram = Histogram {
        id: "by_task".into(),
        title: what.to_owned(),
        unit: Unit::Seconds,
        dimension: Some("task_name".into()),
        rows: tasks.into_iter().take(top).map(|task| task.stays).collect(),
    };
    vec![Output::Table(table), Output::Histogram(histogram)]
}

/// A task and the distribution of its stays.
struct Task {
    tid: u32,
    born: u64,
    tgid: u64,
    name: String,
    stays: HistogramRow,
}

impl Task {
    fn new((tid, [own @ .., born, tgid, name, more]): &(u32, TaskDist)) -> Self {
        let name = words::text_of_words(&[*name, *more]);
        let stays = hist::row(&format!("{name} {tid}"), own, 1e-9);
        Self { tid: *tid, born: *born, tgid: *tgid, name, stays }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tasks_with_the_longest_sums_are_shown_with_their_distributions() {
        let task = |tid: u32, count: u64, sum: u64| {
            let mut dist: TaskDist = [0; hist::WORDS + 4];
            dist[..4].copy_from_slice(&[count, sum, sum, count]);
            dist[hist::WORDS..].copy_from_slice(&[9, 1, u64::from_ne_bytes(*b"a task\0\0"), 0]);
            (tid, dist)
        };
        let found = of_tasks(vec![task(5, 4, 1_000), task(6, 2, 8_000), task(7, 1, 2_000)], "Time on a CPU", 1);
        let [Output::Table(table), Output::Histogram(histogram)] = &found[..] else { panic!("{found:?}") };
        assert_eq!((table.rows[0].instance.as_str(), &table.rows[0].cells[4]), ("6:9", &2.0.into()));
        assert_eq!((table.others, table.others_sum["count"]), (2, 5.0));
        assert_eq!((histogram.rows.len(), histogram.rows[0].instance.as_str()), (1, "a task 6"));
    }

    #[test]
    fn a_task_has_a_name_ids_and_figures() {
        let mut dist: TaskDist = [0; hist::WORDS + 4];
        dist[..4].copy_from_slice(&[2, 3_000, 2_000, 2]);
        dist[hist::WORDS..].copy_from_slice(&[9, 1, u64::from_ne_bytes(*b"a task\0\0"), 0]);
        let found = of_tasks(vec![(5, dist)], "Time on a CPU", 1);
        let [Output::Table(table), _] = &found[..] else { panic!("{found:?}") };
        let sum = 3e3 * 1e-9;
        let figures = [sum.into(), 2.0.into(), (sum / 2.0).into(), (2e3 * 1e-9).into()];
        assert_eq!(table.rows[0].cells[..3], ["a task".into(), "1".into(), "5".into()]);
        assert_eq!(table.rows[0].cells[3..], figures);
    }
}
