//! Moves of tasks between CPUs.

use crate::def::{Context, FilterKind, GivesStacks, ParamDef, Probe, ProbeDef, Taken};
use crate::table::TableSpec;
use rdiag_kernel::host::Host;
use rdiag_kernel::mechanism::ebpf::{Hook, Object, include_bytes_aligned, words};
use rdiag_model::metric::Pick;
use rdiag_model::probe::{Output, ProbeTable};
use rdiag_model::{Formula, MetricDef, Unavailable, Unit};

pub(super) static PROBE: ProbeDef = ProbeDef {
    id: "migrations",
    question: "Which tasks does the scheduler move from CPU to CPU, how often, and between which CPUs?",
    attach: "sched_migrate_task.",
    output: "The number of moves by task, and by pair of CPUs; for each task also the moves while it ran or waited: those of \
             load balancing and of changed affinity, not of a wake-up on another CPU.",
    caveats: "A move costs what the caches of the old CPU held, which is not measured. The first placement of a new task is \
              no move.",
    overhead: "0.6 µs per move, more for the first of a task.",
    params: &[ParamDef::top("how many tasks and pairs of CPUs to show")],
    filters: &[FilterKind::Pid, FilterKind::Comm, FilterKind::Cgroup],
    streams: false,
    stacks: GivesStacks::Never,
    metrics: &[
        MetricDef {
            id: "migrations.all.per_second",
            unit: Unit::PerSecond,
            help: "Moves of tasks from one CPU to another per second.",
            sources: &[Formula::probe(Pick::ColumnSum("tasks", "rate"))],
            caveat: "Wake-ups on another CPU than the last one are moves too.",
            manual: "perf stat -a -e migrations sleep 10",
            ..MetricDef::EMPTY
        },
        MetricDef {
            id: "migrations.task.per_second",
            unit: Unit::PerSecond,
            dimension: Some("task"),
            help: "Moves of a task from one CPU to another per second.",
            sources: &[Formula::probe(Pick::Column("tasks", "rate"))],
            caveat: "The tasks that moved most; the others are summed up.",
            manual: "se.nr_migrations in /proc/PID/task/TID/sched",
            ..MetricDef::EMPTY
        },
    ],
    start,
};

struct Migrations {
    object: Object,
    top: usize,
    since: f64,
}

/// `struct mover` of the program: start time, moves, moves while runnable, process, name.
type Mover = [u64; 6];

fn start(context: &Context<'_>) -> Result<Box<dyn Probe>, Unavailable> {
    let bytes = include_bytes_aligned!(concat!(env!("CARGO_MANIFEST_DIR"), "/migrations/migrations.bpf.o"));
    let mut object = context.kernel()?.load(bytes, context.filter.globals(context.host)?, &[])?;
    object.attach(context.kernel()?, Hook::Tracepoint("sched_migrate_task"))?;
    Ok(Box::new(Migrations { object, top: context.params.count("top") as usize, since: context.host.now() }))
}

impl Probe for Migrations {
    fn object(&self) -> Option<&Object> {
        Some(&self.object)
    }

    fn read(&mut self, host: &Host) -> Result<Taken, Unavailable> {
        let now = host.now();
        let seconds = (now - std::mem::replace(&mut self.since, now)).max(1e-9);
        let tasks = self.object.take_hash::<u32, Mover>("tasks")?;
        let pairs = self.object.take_hash::<[u32; 2], u64>("pairs")?;
        let lost = self.object.take_counts("lost")?;
        let lost = ["no room for more tasks", "no room for more pairs of CPUs"].into_iter().zip(lost).collect();
        let outputs =
            vec![Output::Table(by_task(tasks, seconds, self.top)), Output::Table(by_pair(pairs, seconds, self.top))];
        Ok(Taken { outputs, lost, notes: Vec::new() })
    }
}

fn by_task(mut tasks: Vec<(u32, Mover)>, seconds: f64, top: usize) -> ProbeTable {
    tasks.sort_by_key(|(_, [_, count, ..])| std::cmp::Reverse(*count));
    TableSpec::<Task>::new("tasks", "Tasks by moves from CPU to CPU")
        .rows("task", |task| format!("{}:{}", task.tid, task.born))
        .text("name", "task", |task| task.name.clone())
        .text("pid", "pid", |task| task.tgid.to_string())
        .text("tid", "tid", |task| task.tid.to_string())
        .sum("count", "moves", Unit::Count, |task| task.count as f64)
        .sum("rate", "rate", Unit::PerSecond, |task| task.count as f64 / seconds)
        .sum("runnable", "while runnable", Unit::Count, |task| task.runnable as f64)
        .top(tasks.into_iter().map(Task::new), top)
}

/// A task as the program noted it.
struct Task {
    tid: u32,
    born: u64,
    count: u64,
    runnable: u64,
    tgid: u64,
    name: String,
}

impl Task {
    fn new((tid, [born, count, runnable, tgid, comm @ ..]): (u32, Mover)) -> Self {
        Self { tid, born, count, runnable, tgid, name: words::text_of_words(&comm) }
    }
}

fn by_pair(mut pairs: Vec<([u32; 2], u64)>, seconds: f64, top: usize) -> ProbeTable {
    pairs.sort_by_key(|(pair, count)| (std::cmp::Reverse(*count), *pair));
    TableSpec::<([u32; 2], u64)>::new("pairs", "Moves by pair of CPUs")
        .rows("cpu_pair", |([from, to], _)| format!("{from}->{to}"))
        .text("from", "from", |([from, _], _)| from.to_string())
        .text("to", "to", |([_, to], _)| to.to_string())
        .sum("count", "moves", Unit::Count, |(_, count)| *count as f64)
        .sum("rate", "rate", Unit::PerSecond, |(_, count)| *count as f64 / seconds)
        .top(pairs, top)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tasks_that_moved_most_come_first_and_the_rest_is_summed_up() {
        let task = |tid, count| (tid, [5, count, 1, 7, u64::from_ne_bytes(*b"mover\0\0\0"), 0]);
        let table = by_task(vec![task(1, 2), task(2, 10), task(3, 4)], 2.0, 1);
        assert_eq!(table.rows.len(), 1);
        let row = &table.rows[0];
        assert_eq!((row.instance.as_str(), &row.cells[3], &row.cells[4]), ("2:5", &10.0.into(), &5.0.into()));
        assert_eq!((table.others, table.others_sum["count"], table.others_sum["rate"]), (2, 6.0, 3.0));
    }

    #[test]
    fn each_direction_between_two_cpus_is_a_row() {
        let table = by_pair(vec![([0, 1], 3), ([1, 0], 4)], 1.0, 9);
        let names: Vec<&str> = table.rows.iter().map(|row| row.instance.as_str()).collect();
        assert_eq!((names, table.others), (vec!["1->0", "0->1"], 0));
    }

    #[test]
    fn a_pair_has_its_cpus_and_moves_and_pairs_that_are_left_out_are_summed_up() {
        let table = by_pair(vec![([0, 1], 3), ([1, 0], 4)], 2.0, 1);
        assert_eq!(table.rows[0].cells, ["1".into(), "0".into(), 4.0.into(), 2.0.into()]);
        assert_eq!((table.others, table.others_sum), (1, [("count".into(), 3.0), ("rate".into(), 1.5)].into()));
    }
}
