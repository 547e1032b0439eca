//! Pages that are read ahead: who used them, how soon, and how many were wasted.

use crate::def::{Context, FilterKind, GivesStacks, ParamDef, Probe, ProbeDef, Taken};
use crate::table::TableSpec;
use rdiag_kernel::host::Host;
use rdiag_kernel::mechanism::ebpf::{Hook, Kernel, Object, hist, include_bytes_aligned, words};
use rdiag_model::probe::{Histogram, Output, ProbeTable};
use rdiag_model::{Unavailable, Unit};

pub(super) static PROBE: ProbeDef = ProbeDef {
    id: "readahead",
    question: "How much of the kernel's readahead is used, how soon, and for which processes is it wasted?",
    attach: "page_cache_ra_unbounded and page_cache_ra_order, as events (Linux 6.18) or functions; mm_filemap_add_to_page_cache and \
             mm_filemap_delete_from_page_cache; mm_filemap_get_pages, mm_filemap_map_pages and mm_filemap_fault (Linux 6.12), before \
             folio_mark_accessed or mark_page_accessed.",
    output: "For each process for which pages were read ahead: how many, how many of them were used, how many left the page cache unused, \
             how many are in it unused at the end, and the share wasted of those whose end is known; how long after they \
             were read ahead pages were used.",
    caveats: "Pages that a read itself asks for are read ahead too where the kernel reads them together with the next ones; they are used \
        at once. \
              Pages that were in the cache before the probe began are not known to it. Used is what read() or a page fault gets, by \
              whatever process; \
              a fault maps the pages around it too. Before Linux 6.12 use is known by folio: one page that is used stands for all that \
              are kept together, and memory maps count when they are taken away. The time counts from the latest readahead within \
              the same 64 pages. What is unused at the end may be used later: look long enough.",
    overhead: "One program run for each call that reads ahead, for each page (or folio) that enters or leaves the page cache, and for each \
               reading of pages on the whole host; measured at 0.5 µs each.",
    params: &[ParamDef::top("how many processes to show")],
    filters: &[FilterKind::Pid, FilterKind::Comm, FilterKind::Cgroup],
    streams: false,
    stacks: GivesStacks::Never,
    metrics: &[],
    start,
};

/// Of kernels that have them as events, and whose event of the use of pages comes page by page.
const BEGINNINGS: [&str; 2] = ["page_cache_ra_unbounded", "page_cache_ra_order"];
const USES: [&str; 3] = ["mm_filemap_get_pages", "mm_filemap_map_pages", "mm_filemap_fault"];
/// What notes that a page is in use, by both names.
const MARKS: [&str; 2] = ["folio_mark_accessed", "mark_page_accessed"];

/// `struct sums` of the program: read ahead, used, dropped, name.
type Sums = [u64; 5];
/// `struct block` and `struct ahead`: mapping and place; bits, time, process.
type Block = [u64; 2];
type Ahead = [u64; 3];

struct ReadAhead {
    object: Object,
    top: usize,
    note: Option<String>,
}

fn start(context: &Context<'_>) -> Result<Box<dyn Probe>, Unavailable> {
    let bytes = include_bytes_aligned!(concat!(env!("CARGO_MANIFEST_DIR"), "/readahead/readahead.bpf.o"));
    let kernel = context.kernel()?;
    let mut object = kernel.load(bytes, context.filter.globals(context.host)?, &[])?;
    object.attach(kernel, Hook::Tracepoint("mm_filemap_delete_from_page_cache"))?;
    let note = uses(&mut object, kernel)?;
    object.attach(kernel, Hook::Tracepoint("mm_filemap_add_to_page_cache"))?;
    beginnings(&mut object, kernel)?;
    Ok(Box::new(ReadAhead { object, top: context.params.count("top") as usize, note }))
}

/// Where pages are used.
fn uses(object: &mut Object, kernel: &Kernel) -> Result<Option<String>, Unavailable> {
    if USES.iter().all(|event| kernel.has_tracepoint(event)) {
        for event in USES {
            object.attach(kernel, Hook::Tracepoint(event))?;
        }
        return Ok(None);
    }
    let name = MARKS.into_iter().find(|name| kernel.has_function(name)).unwrap_or("folio_mark_accessed");
    object.attach(kernel, Hook::Function(name))?;
    Ok(Some("this kernel reports use by folio (by page since Linux 6.12)".to_owned()))
}

/// Where reading ahead begins: the events, or else the functions. The second one came with folios of many pages.
fn beginnings(object: &mut Object, kernel: &Kernel) -> Result<(), Unavailable> {
    let as_event = BEGINNINGS.iter().all(|name| kernel.has_tracepoint(name));
    for (at, name) in BEGINNINGS.into_iter().enumerate() {
        if as_event {
            object.attach(kernel, Hook::Tracepoint(name))?;
        } else if at == 0 || kernel.has_function(name) {
            object.attach(kernel, Hook::Function(name)).map_err(|gap| {
                gap.with_remedy("cachestat tells how many pages were added to the page cache without being asked for")
            })?;
        }
    }
    Ok(())
}

impl Probe for ReadAhead {
    fn object(&self) -> Option<&Object> {
        Some(&self.object)
    }

    fn read(&mut self, _: &Host) -> Result<Taken, Unavailable> {
        let processes = self.object.take_hash::<u32, Sums>("processes")?;
        let blocks = self.object.hash::<Block, Ahead>("blocks")?;
        let histogram = Histogram {
            id: "age".into(),
            title: "Time from reading ahead to use, by pages".into(),
            unit: Unit::Seconds,
            dimension: None,
            rows: vec![hist::row("", &self.object.take_hist("ages", 0)?, 1e-9)],
        };
        let no_room = self.object.take_counts("lost")?.iter().sum();
        Ok(Taken {
            outputs: vec![Output::Table(by_process(processes, &blocks, self.top)), Output::Histogram(histogram)],
            lost: vec![("pages of more places than the probe can note", no_room)],
            notes: self.note.iter().cloned().collect(),
        })
    }
}

/// Most wasted pages, or likely to be, first; the rest summed up. A process that read ahead before the last reading has its PID alone.
fn by_process(mut processes: Vec<(u32, Sums)>, blocks: &[(Block, Ahead)], top: usize) -> ProbeTable {
    for tgid in blocks.iter().map(|(_, [.., tgid])| u32::try_from(*tgid).unwrap_or(0)) {
        if processes.iter().all(|(known, _)| *known != tgid) {
            processes.push((tgid, Sums::default()));
        }
    }
    let unused = |tgid: u32| -> u64 {
        let of = blocks.iter().filter(|(_, [.., owner])| *owner == u64::from(tgid));
        of.map(|(_, [bits, ..])| u64::from(bits.count_ones())).sum()
    };
    let pages = |(tgid, [ahead, used, dropped, name @ ..]): (u32, Sums)| Pages {
        tgid,
        name: words::text_of_words(&name),
        ahead,
        used,
        dropped,
        unused: unused(tgid),
    };
    let mut all: Vec<Pages> = processes.into_iter().map(pages).collect();
    all.sort_by_key(|of| (std::cmp::Reverse((of.dropped + of.unused, of.ahead)), of.tgid));
    TableSpec::<Pages>::new("processes", "Processes by pages that were read ahead and not used")
        .rows("process", |of| of.tgid.to_string())
        .text("name", "process", |of| of.name.clone())
        .text("pid", "pid", |of| of.tgid.to_string())
        .sum("ahead", "read ahead", Unit::Count, |of| of.ahead as f64)
        .sum("used", "used", Unit::Count, |of| of.used as f64)
        .sum("dropped", "dropped unused", Unit::Count, |of| of.dropped as f64)
        .sum("unused", "unused yet", Unit::Count, |of| of.unused as f64)
        .number("vain", "wasted", Unit::Ratio, |of| {
            let ended = of.used + of.dropped;
            (ended > 0).then(|| of.dropped as f64 / ended as f64)
        })
        .top(all, top)
}

/// Pages that were read ahead for a process.
struct Pages {
    tgid: u32,
    name: String,
    ahead: u64,
    used: u64,
    dropped: u64,
    unused: u64,
}

#[cfg(test)]
mod tests {
    use super::*;
    use rdiag_model::probe::Cell;

    const NAME: u64 = u64::from_ne_bytes(*b"grep\0\0\0\0");

    #[test]
    fn who_reads_ahead_in_vain_comes_first_and_what_has_not_ended_is_in_no_share() {
        let blocks = [([1, 0], [0b111, 5, 7]), ([1, 1], [0b1, 5, 7]), ([2, 0], [0b11, 5, 9])];
        let processes = vec![(7, [100, 60, 20, NAME, 0]), (8, [500, 500, 0, NAME, 0])];
        let table = by_process(processes, &blocks, 2);
        let told: Vec<_> = table.rows.iter().map(|row| (row.instance.as_str(), row.cells[2..].to_vec())).collect();
        assert_eq!(told[0], ("7", [100.0, 60.0, 20.0, 4.0, 0.25].map(Cell::from).to_vec()));
        // It read ahead before this reading, and nothing of it has ended.
        let cells = [0.0, 0.0, 0.0, 2.0].map(Cell::from).into_iter().chain([Cell::Unknown(())]);
        assert_eq!(told[1], ("9", cells.collect()));
        assert_eq!((table.others, table.others_sum["used"]), (1, 500.0));
        assert_eq!(table.rows[0].cells.len(), table.columns.len());
    }
}
