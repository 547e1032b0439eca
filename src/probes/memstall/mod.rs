//! Tasks that stop to make room in memory.

use crate::def::{Context, FilterKind, GivesStacks, ParamDef, Probe, ProbeDef, Taken};
use crate::table::TableSpec;
use rdiag_kernel::host::Host;
use rdiag_kernel::mechanism::ebpf::{Hook, Object, hist, include_bytes_aligned, words};
use rdiag_model::metric::Pick;
use rdiag_model::probe::{Histogram, Output, ProbeTable};
use rdiag_model::{Formula, MetricDef, Unavailable, Unit};

pub(super) static PROBE: ProbeDef = ProbeDef {
    id: "memstall",
    question: "Which tasks stop to make room in memory before they get what they asked for, how often and for how long?",
    attach: "mm_vmscan_direct_reclaim, mm_vmscan_memcg_reclaim and mm_compaction, _begin and _end of each.",
    output: "For each task and kind of work the stalls, their time, the longest one, and the bytes that they freed; the \
             distribution of the stalls' length by kind. `reclaim`: the host is short of pages, and the task frees some \
             itself. `reclaim in a group`: its control group is at a limit (or asked for by memory.reclaim). `compaction`: \
             pages are moved so that a large piece becomes free.",
    caveats: "Who stalls is who asked next, not always who took the memory. The kernel's own threads for it (kswapd) are no \
              stall and are not here; kcompactd, which compacts ahead of demand, is, under its name. The pause of a task whose \
              group is above memory.high is not in it, only the work before. Pages that are read \
              back after they were evicted, and swap, are waits for a disk. What has not ended is not in it.",
    overhead: "Two program runs for each stall, which itself takes microseconds to milliseconds; nothing while none happens.",
    params: &[ParamDef::top("how many tasks to show")],
    filters: &[FilterKind::Pid, FilterKind::Comm, FilterKind::Cgroup],
    streams: false,
    stacks: GivesStacks::Never,
    metrics: &[
        MetricDef {
            id: "memstall.all.ratio",
            unit: Unit::Ratio,
            help: "Time in which tasks made room in memory, per time that passed; 2 is two tasks all the time.",
            sources: &[Formula::probe(Pick::ColumnSum("tasks", "share"))],
            caveat: "Wall time, in which the task ran, waited for a CPU, or waited for a disk to take pages.",
            manual: "drsnoop; memory.pressure of the control group",
            ..MetricDef::EMPTY
        },
        MetricDef {
            id: "memstall.task.seconds",
            unit: Unit::Seconds,
            dimension: Some("task"),
            help: "Time in which a task made room in memory.",
            sources: &[Formula::probe(Pick::Column("tasks", "time"))],
            caveat: "The tasks that lost most; the others are summed up. Who stalls need not be who took the memory.",
            manual: "drsnoop",
            ..MetricDef::EMPTY
        },
        MetricDef {
            id: "memstall.p99.seconds",
            unit: Unit::Seconds,
            dimension: Some("kind"),
            help: "99th percentile of the length of a stall in which a task makes room in memory.",
            sources: &[Formula::probe(Pick::Percentile("lengths", 0.99))],
            caveat: "At most 12.5 % too high.",
            manual: "drsnoop",
            ..MetricDef::EMPTY
        },
    ],
    start,
};

/// Kinds of work, as the program numbers them.
const KINDS: [&str; 3] = ["reclaim", "reclaim in a group", "compaction"];
/// Their events; ends first, since a begin whose end is not seen would stay noted.
const EVENTS: [&str; 6] = [
    "mm_vmscan_direct_reclaim_end",
    "mm_vmscan_memcg_reclaim_end",
    "mm_compaction_end",
    "mm_vmscan_direct_reclaim_begin",
    "mm_vmscan_memcg_reclaim_begin",
    "mm_compaction_begin",
];

struct MemStall {
    object: Object,
    top: usize,
    page_size: u64,
    since: f64,
}

/// `struct task_kind` of the program: thread, kind.
type TaskKind = [u64; 2];
/// `struct stalls` of the program: start time, process, count, time, longest, pages, name.
type Stalls = [u64; 8];

fn start(context: &Context<'_>) -> Result<Box<dyn Probe>, Unavailable> {
    let bytes = include_bytes_aligned!(concat!(env!("CARGO_MANIFEST_DIR"), "/memstall/memstall.bpf.o"));
    let kernel = context.kernel()?;
    let mut object = kernel.load(bytes, context.filter.globals(context.host)?, &[])?;
    // A kernel without control groups of memory, or without compaction, has none of these events and none of these stalls.
    for event in EVENTS.into_iter().filter(|event| kernel.has_tracepoint(event)) {
        object.attach(kernel, Hook::Tracepoint(event))?;
    }
    let page_size = context.host.facts().page_size;
    let top = context.params.count("top") as usize;
    Ok(Box::new(MemStall { object, top, page_size, since: context.host.now() }))
}

impl Probe for MemStall {
    fn object(&self) -> Option<&Object> {
        Some(&self.object)
    }

    fn read(&mut self, host: &Host) -> Result<Taken, Unavailable> {
        let now = host.now();
        let seconds = (now - std::mem::replace(&mut self.since, now)).max(1e-9);
        let tasks = self.object.take_hash::<TaskKind, Stalls>("tasks")?;
        let mut rows = Vec::new();
        for (at, kind) in (0..).zip(KINDS) {
            rows.push(hist::row(kind, &self.object.take_hist("lengths", at)?, 1e-9));
        }
        rows.retain(|row| row.count > 0);
        rows.sort_by_key(|row| std::cmp::Reverse(row.count));
        let lost = self.object.take_counts("lost")?.iter().sum();
        let lengths = Histogram {
            id: "lengths".into(),
            title: "Length of a stall".into(),
            unit: Unit::Seconds,
            dimension: Some("kind".into()),
            rows,
        };
        let table = by_task(tasks, seconds, self.page_size, self.top);
        let outputs = vec![Output::Table(table), Output::Histogram(lengths)];
        Ok(Taken { outputs, lost: vec![("no room for more tasks, in the figures by task", lost)], notes: Vec::new() })
    }
}

/// The tasks that lost most time first, and the rest summed up.
fn by_task(mut tasks: Vec<(TaskKind, Stalls)>, seconds: f64, page_size: u64, top: usize) -> ProbeTable {
    tasks.sort_by_key(|([tid, kind], [_, _, _, took, ..])| (std::cmp::Reverse(*took), *tid, *kind));
    TableSpec::<Stalled>::new("tasks", "Tasks that made room in memory")
        .rows("task", |stalled| format!("{}:{} {}", stalled.tid, stalled.born, stalled.kind))
        .text("name", "task", |stalled| stalled.name.clone())
        .text("pid", "pid", |stalled| stalled.tgid.to_string())
        .text("tid", "tid", |stalled| stalled.tid.to_string())
        .text("kind", "work", |stalled| stalled.kind.to_owned())
        .sum("time", "time", Unit::Seconds, |stalled| stalled.took as f64 * 1e-9)
        .sum("share", "share of the time", Unit::Ratio, |stalled| stalled.took as f64 * 1e-9 / seconds)
        .sum("count", "times", Unit::Count, |stalled| stalled.count as f64)
        .number("max", "longest", Unit::Seconds, |stalled| stalled.longest as f64 * 1e-9)
        .sum("freed", "freed", Unit::Bytes, |stalled| stalled.pages.saturating_mul(page_size) as f64)
        .top(tasks.into_iter().map(Stalled::new), top)
}

/// A task that stalled, in one kind of work.
struct Stalled {
    tid: u64,
    kind: &'static str,
    born: u64,
    tgid: u64,
    count: u64,
    took: u64,
    longest: u64,
    pages: u64,
    name: String,
}

impl Stalled {
    fn new(([tid, kind], [born, tgid, count, took, longest, pages, comm @ ..]): (TaskKind, Stalls)) -> Self {
        let kind = usize::try_from(kind).ok().and_then(|at| KINDS.get(at)).copied().unwrap_or_default();
        Self { tid, kind, born, tgid, count, took, longest, pages, name: words::text_of_words(&comm) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_lost_most_time_comes_first_and_the_rest_is_summed_up() {
        let stalls = |took, pages| [5, 7, 2, took, 1_000_000, pages, u64::from_ne_bytes(*b"importer"), 0];
        let tasks =
            vec![([8, 1], stalls(2_000_000, 3)), ([8, 0], stalls(6_000_000, 1)), ([9, 7], stalls(1_000_000, 1))];
        let table = by_task(tasks, 2.0, 4096, 1);
        let [row] = &table.rows[..] else { panic!("{table:?}") };
        assert_eq!(row.instance, "8:5 reclaim");
        assert_eq!(row.cells[..4], ["importer", "7", "8", "reclaim"].map(rdiag_model::probe::Cell::from));
        assert_eq!(row.cells[5..], [0.003.into(), 2.0.into(), (1e6 * 1e-9).into(), 4096.0.into()]);
        assert_eq!(row.cells.len(), table.columns.len());
        assert_eq!((table.others, table.others_sum["count"], table.others_sum["freed"]), (2, 4.0, 16384.0));
        assert!((table.others_sum["share"] - 0.0015).abs() < 1e-9);
    }
}
