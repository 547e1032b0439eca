//! How many of the pages that reads ask for are in the page cache, of the host and by process.

use super::calls;
use super::file_ops::AT_CALLS;
use crate::def::{Context, FilterKind, GivesStacks, ParamDef, Probe, ProbeDef, Taken};
use crate::table::TableSpec;
use rdiag_kernel::host::Host;
use rdiag_kernel::mechanism::ebpf::{Global, Hook, Object, include_bytes_aligned, words};
use rdiag_model::metric::Pick;
use rdiag_model::probe::{Output, ProbeTable};
use rdiag_model::{Formula, MetricDef, Unavailable, Unit};

const ATTACH: &str = "vfs_read, at its return (sys_exit where it cannot be hooked); mm_filemap_add_to_page_cache; \
    writeback_dirty_folio (writeback_dirty_page before Linux 5.18).";
const CAVEATS: &str = "Counted are pages that read() and pread() ask for; missing are those that their own thread must put into the cache \
    before they are read. What was read ahead in time is found; a page that is still being read from the disk is found too, \
    though its reader waits. Memory maps (page faults), readv, sendfile, splice and io_uring ask without being counted; what they put into \
    the cache stands under `added`, like what is read ahead and new pages of writes. Files without a page cache of their own \
    (/proc, tmpfs) and direct I/O do not count.";
const OVERHEAD: &str = "One program run per read, one per page (or folio) that is put into the cache or becomes dirty; at system calls, \
    every call on the host takes the kernel's slow path besides, whomever it is limited to.";
const FILTERS: &[FilterKind] = &[FilterKind::Pid, FilterKind::Comm, FilterKind::Cgroup];

pub(super) static PROBE: ProbeDef = ProbeDef {
    id: "cachestat",
    question: "How many of the pages that reads ask for are in the page cache?",
    attach: ATTACH,
    output: "Of buffered reads: how many, their bytes, the pages that they asked for, those that were missing, and the share of those that \
             were found; pages put into the cache for whatever reason, and pages that became dirty.",
    caveats: CAVEATS,
    overhead: OVERHEAD,
    params: &[AT_CALLS],
    filters: FILTERS,
    streams: false,
    stacks: GivesStacks::Never,
    metrics: &[MetricDef {
        id: "cachestat.hit.ratio",
        unit: Unit::Ratio,
        help: "Of the pages that reads asked for, the share that was in the page cache.",
        sources: &[Formula::probe(Pick::Cell("cache", "host", "hit"))],
        caveat: "Reads by read() and pread() only; what was read ahead in time counts as found.",
        manual: "cachestat 10 1",
        ..MetricDef::EMPTY
    }],
    start: |context| start(context, None),
};

pub(super) static CACHETOP: ProbeDef = ProbeDef {
    id: "cachetop",
    question: "Which processes find the pages that they read in the page cache, and which do not?",
    attach: ATTACH,
    output: "For each process its buffered reads, their bytes, the pages that they asked for, those that were missing, and the share of \
             those that were found; pages that it put into the cache for whatever reason, and pages that it made dirty; most \
             missing first.",
    caveats: CAVEATS,
    overhead: OVERHEAD,
    params: &[ParamDef::top("how many processes to show"), AT_CALLS],
    filters: FILTERS,
    streams: false,
    stacks: GivesStacks::Never,
    metrics: &[],
    start: |context| start(context, Some(context.params.count("top") as usize)),
};

/// Calls that read on at the file's place, and those that say where, as the program numbers them.
const READS: [(&str, u8); 2] = [("read", 1), ("pread64", 2)];
/// O_DIRECT.
const DIRECT: u32 = if cfg!(target_arch = "aarch64") { 0o200_000 } else { 0o40_000 };

/// `struct sums` of the program: reads, bytes, pages asked for, missing, added, dirtied, name.
type Sums = [u64; 8];

struct CacheStat {
    object: Object,
    /// By process, so many of them.
    top: Option<usize>,
    notes: Vec<String>,
}

fn start(context: &Context<'_>, top: Option<usize>) -> Result<Box<dyn Probe>, Unavailable> {
    let (mut object, note) = attach(context)?;
    let kernel = context.kernel()?;
    let dirtied =
        ["writeback_dirty_folio", "writeback_dirty_page"].into_iter().find(|event| kernel.has_tracepoint(event));
    let dirtied = dirtied.map(|event| object.attach(kernel, Hook::Tracepoint(event)));
    let without = match dirtied {
        Some(Ok(())) => None,
        Some(Err(gap)) => Some(gap.why),
        None => Some("this kernel has no event for it".to_owned()),
    };
    let without = without.map(|why| format!("pages that become dirty are not counted: {why}"));
    Ok(Box::new(CacheStat { object, top, notes: note.into_iter().chain(without).collect() }))
}

/// At the function that reads, or, if it cannot be hooked, at system calls; then the note says why.
fn attach(context: &Context<'_>) -> Result<(Object, Option<String>), Unavailable> {
    let bytes = include_bytes_aligned!(concat!(env!("CARGO_MANIFEST_DIR"), "/cachestat/cachestat.bpf.o"));
    let kernel = context.kernel()?;
    let mut kinds = vec![0; calls::CALLS];
    for (call, kind) in READS {
        if let Some(place) = calls::number(call).and_then(|number| kinds.get_mut(number as usize)) {
            *place = kind;
        }
    }
    let mut globals = context.filter.globals(context.host)?;
    globals.push(Global::u32("page_shift", context.host.facts().page_size.trailing_zeros()));
    globals.push(Global::u32("direct_flag", DIRECT));
    globals.push(Global::bytes("call_kinds", kinds));
    let load = |by_calls: bool| -> Result<Object, Unavailable> {
        let mut globals = globals.clone();
        globals.push(Global::u32("by_calls", u32::from(by_calls)));
        let mut object = kernel.load(bytes, globals, &[])?;
        object.attach(kernel, Hook::Tracepoint("mm_filemap_add_to_page_cache"))?;
        Ok(object)
    };
    let mut object = load(false)?;
    let refused = if context.params.flag(AT_CALLS.name) {
        "asked for".to_owned()
    } else {
        match object.attach(kernel, Hook::FunctionBy { function: "vfs_read", program: "vfs_read" }) {
            Ok(()) => return Ok((object, None)),
            Err(gap) => gap.why,
        }
    };
    // A program that is attached stays so: the return of the function may have been.
    let mut object = load(true)?;
    object.attach(kernel, Hook::Tracepoint("sys_exit"))?;
    Ok((object, Some(format!("measured at system calls: {refused}"))))
}

impl Probe for CacheStat {
    fn object(&self) -> Option<&Object> {
        Some(&self.object)
    }

    fn read(&mut self, _: &Host) -> Result<Taken, Unavailable> {
        let processes = self.object.take_hash::<u32, Sums>("processes")?;
        let lost = self.object.take_counts("lost")?.iter().sum();
        let table = match self.top {
            Some(top) => by_process(processes, top),
            None => of_host(&processes),
        };
        Ok(Taken {
            outputs: vec![Output::Table(table)],
            lost: vec![("reads and pages of more processes than the probe can note", lost)],
            notes: self.notes.clone(),
        })
    }
}

/// The figures of a process, or of all together.
struct Pages {
    tgid: u32,
    name: String,
    reads: u64,
    bytes: u64,
    asked: u64,
    missed: u64,
    added: u64,
    dirtied: u64,
}

impl Pages {
    fn new((tgid, [reads, bytes, asked, missed, added, dirtied, name @ ..]): (u32, Sums)) -> Self {
        Self { tgid, name: words::text_of_words(&name), reads, bytes, asked, missed, added, dirtied }
    }

    /// The share that was found; none where nothing was asked for.
    fn hit(&self) -> Option<f64> {
        (self.asked > 0).then(|| 1.0 - self.missed as f64 / self.asked as f64)
    }
}

fn numbers(spec: TableSpec<'_, Pages>) -> TableSpec<'_, Pages> {
    spec.sum("reads", "reads", Unit::Count, |pages| pages.reads as f64)
        .sum("bytes", "bytes", Unit::Bytes, |pages| pages.bytes as f64)
        .sum("asked", "pages asked for", Unit::Count, |pages| pages.asked as f64)
        .sum("missed", "missing", Unit::Count, |pages| pages.missed as f64)
        .number("hit", "found", Unit::Ratio, Pages::hit)
        .sum("added", "pages added", Unit::Count, |pages| pages.added as f64)
        .sum("dirtied", "made dirty", Unit::Count, |pages| pages.dirtied as f64)
}

/// One row, of all processes.
fn of_host(processes: &[(u32, Sums)]) -> ProbeTable {
    let mut all: Sums = [0; 8];
    for (_, sums) in processes {
        all.iter_mut().zip(sums).take(6).for_each(|(sum, value)| *sum += value);
    }
    let spec = TableSpec::<Pages>::new("cache", "Pages that reads asked for").named(|_| "host".to_owned());
    numbers(spec).all([Pages::new((0, all))])
}

/// Most missing pages first, and the rest summed up.
fn by_process(mut processes: Vec<(u32, Sums)>, top: usize) -> ProbeTable {
    processes
        .sort_by_key(|(tgid, [_, _, asked, missed, added, ..])| (std::cmp::Reverse((*missed, *asked, *added)), *tgid));
    let spec = TableSpec::<Pages>::new("processes", "Processes by pages that were missing when they read them")
        .rows("process", |pages| pages.tgid.to_string())
        .text("name", "process", |pages| pages.name.clone())
        .text("pid", "pid", |pages| pages.tgid.to_string());
    numbers(spec).top(processes.into_iter().map(Pages::new), top)
}

#[cfg(test)]
mod tests {
    use super::*;
    use rdiag_model::probe::Cell;

    const NAME: u64 = u64::from_ne_bytes(*b"grep\0\0\0\0");

    #[test]
    fn the_share_that_was_found_is_of_what_all_asked_for() {
        let table = of_host(&[(7, [3, 300, 6, 3, 10, 1, NAME, 0]), (8, [1, 100, 2, 1, 0, 0, NAME, 0])]);
        let told = [4.0, 400.0, 8.0, 4.0, 0.5, 10.0, 1.0].map(Cell::from);
        assert_eq!(table.rows[0].cells, told);
        assert_eq!(of_host(&[]).rows[0].cells[4], Cell::Unknown(()));
    }

    #[test]
    fn who_missed_most_comes_first_and_the_rest_is_summed_up() {
        let table = by_process(vec![(7, [3, 300, 6, 0, 10, 1, NAME, 0]), (8, [1, 100, 2, 2, 0, 0, NAME, 0])], 1);
        let [row] = &table.rows[..] else { panic!("{table:?}") };
        assert_eq!(row.cells[..3], ["grep".into(), "8".into(), 1.0.into()]);
        assert_eq!((row.cells.len(), &row.cells[6]), (table.columns.len(), &0.0.into()));
        assert_eq!((table.others, table.others_sum["asked"], table.others_sum["added"]), (1, 6.0, 10.0));
    }
}
