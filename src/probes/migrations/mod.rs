//! Moves of tasks between CPUs.

use crate::def::{Context, FilterKind, GivesStacks, ParamDef, ParamKind, Probe, ProbeDef, Taken};
use rdiag_kernel::host::Host;
use rdiag_kernel::mechanism::ebpf::{Hook, Object, include_bytes_aligned, words};
use rdiag_model::metric::Pick;
use rdiag_model::probe::{Cell, Column, Output, ProbeTable, Row};
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
    params: &[ParamDef {
        name: "top",
        kind: ParamKind::Count { min: 1, max: 1000 },
        default: "20",
        help: "how many tasks and pairs of CPUs to show",
    }],
    filters: &[FilterKind::Pid, FilterKind::Comm, FilterKind::Cgroup],
    streams: false,
    stacks: GivesStacks::Never,
    metrics: &[
        MetricDef {
            id: "migrations.all.per_second",
            unit: Unit::PerSecond,
            dimension: None,
            help: "Moves of tasks from one CPU to another per second.",
            sources: &[Formula::probe(Pick::ColumnSum("tasks", "rate"))],
            caveat: "Wake-ups on another CPU than the last one are moves too.",
            manual: "perf stat -a -e migrations sleep 10",
        },
        MetricDef {
            id: "migrations.task.per_second",
            unit: Unit::PerSecond,
            dimension: Some("task"),
            help: "Moves of a task from one CPU to another per second.",
            sources: &[Formula::probe(Pick::Column("tasks", "rate"))],
            caveat: "The tasks that moved most; the others are summed up.",
            manual: "se.nr_migrations in /proc/PID/task/TID/sched",
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

/// Puts the first `top` rows into the table and sums up the rest.
fn fill(table: &mut ProbeTable, rows: Vec<Row>, top: usize) {
    let mut rows = rows.into_iter();
    table.rows = rows.by_ref().take(top).collect();
    for row in rows {
        table.others += 1;
        for (column, cell) in table.columns.iter().zip(row.cells) {
            if let Cell::Number(value) = cell {
                *table.others_sum.entry(column.id.clone()).or_default() += value;
            }
        }
    }
}

fn by_task(mut tasks: Vec<(u32, Mover)>, seconds: f64, top: usize) -> ProbeTable {
    tasks.sort_by_key(|(_, [_, count, ..])| std::cmp::Reverse(*count));
    let row = |(tid, [born, count, runnable, tgid, comm @ ..]): &(u32, Mover)| Row {
        instance: format!("{tid}:{born}"),
        cells: vec![
            words::text_of_words(comm).into(),
            tgid.to_string().into(),
            tid.to_string().into(),
            (*count as f64).into(),
            (*count as f64 / seconds).into(),
            (*runnable as f64).into(),
        ],
    };
    let mut table = ProbeTable {
        id: "tasks".into(),
        title: "Tasks by moves from CPU to CPU".into(),
        dimension: Some("task".into()),
        columns: vec![
            Column::text("name", "task"),
            Column::text("pid", "pid"),
            Column::text("tid", "tid"),
            Column::number("count", "moves", Unit::Count),
            Column::number("rate", "rate", Unit::PerSecond),
            Column::number("runnable", "while runnable", Unit::Count),
        ],
        ..ProbeTable::default()
    };
    fill(&mut table, tasks.iter().map(row).collect(), top);
    table
}

fn by_pair(mut pairs: Vec<([u32; 2], u64)>, seconds: f64, top: usize) -> ProbeTable {
    pairs.sort_by_key(|(pair, count)| (std::cmp::Reverse(*count), *pair));
    let row = |([from, to], count): &([u32; 2], u64)| Row {
        instance: format!("{from}->{to}"),
        cells: vec![
            from.to_string().into(),
            to.to_string().into(),
            (*count as f64).into(),
            (*count as f64 / seconds).into(),
        ],
    };
    let mut table = ProbeTable {
        id: "pairs".into(),
        title: "Moves by pair of CPUs".into(),
        dimension: Some("cpu_pair".into()),
        columns: vec![
            Column::text("from", "from"),
            Column::text("to", "to"),
            Column::number("count", "moves", Unit::Count),
            Column::number("rate", "rate", Unit::PerSecond),
        ],
        ..ProbeTable::default()
    };
    fill(&mut table, pairs.iter().map(row).collect(), top);
    table
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
}
