//! `swapin`: pages that processes need back from swap.

use crate::def::{Context, FilterKind, GivesStacks, ParamDef, Probe, ProbeDef, Taken};
use crate::table::TableSpec;
use rdiag_kernel::host::Host;
use rdiag_kernel::mechanism::ebpf::{Hook, Object, include_bytes_aligned, words};
use rdiag_model::metric::Pick;
use rdiag_model::probe::{Output, ProbeTable};
use rdiag_model::{Deed, Formula, MetricDef, Unavailable, Unit};

pub(super) static PROBE: ProbeDef = ProbeDef {
    id: "swapin",
    question: "Which processes need memory back that was swapped out, how much, and how long do they wait for it?",
    attach: "do_swap_page (entry and return); swap_read_folio, before Linux 6.9 swap_readpage.",
    output: "For each process the bytes that were read back while it ran, the faults that had to read, the time that its tasks spent in \
             them, and the longest one.",
    caveats: "Pages around the one that is missing are read ahead, so more may be read than faults tell; what is found in memory for \
              that reason is no fault here. Pages that zswap held count too, though no disk is asked. What is read back for a file of \
              tmpfs, or by swapoff(8), counts as bytes and not as faults. A process that waits had its memory taken: who took it is \
              another question.",
    overhead: "Two program runs for each fault on a page that is not where it was, and one for each page read, which by itself takes \
               microseconds to milliseconds; nothing while nothing comes back.",
    params: &[ParamDef::top("how many processes to show")],
    filters: &[FilterKind::Pid, FilterKind::Comm, FilterKind::Cgroup],
    streams: false,
    stacks: GivesStacks::Never,
    metrics: &[
        MetricDef {
            id: "swapin.all.ratio",
            unit: Unit::Ratio,
            help: "Time in which tasks waited for pages from swap, per time that passed; 2 is two tasks all the time.",
            sources: &[Formula::probe(Pick::ColumnSum("processes", "share"))],
            caveat: "The time of the whole fault, in which the task ran, waited for a CPU, or waited for the disk.",
            manual: MANUAL,
            ..MetricDef::EMPTY
        },
        MetricDef {
            id: "swapin.process.seconds",
            unit: Unit::Seconds,
            dimension: Some("process"),
            help: "Time that the tasks of a process waited for pages from swap.",
            sources: &[Formula::probe(Pick::Column("processes", "time"))],
            caveat: "The processes that lost most; the others are summed up. Who waits need not be who took the memory.",
            manual: MANUAL,
            deed: Some(Deed { verb: "did", of: "the waiting for swap-in", ..Deed::USUAL }),
        },
    ],
    start,
};

const MANUAL: &str = "swapin (of bcc)";
/// The function that reads pages from swap, by its names.
const READS: [&str; 2] = ["swap_read_folio", "swap_readpage"];

struct SwapIn {
    object: Object,
    top: usize,
    page_size: u64,
    since: f64,
}

/// `struct process` of the program: process, start time.
type Process = [u64; 2];
/// `struct sums` of the program: pages, faults, time, longest, name.
type Sums = [u64; 6];

fn start(context: &Context<'_>) -> Result<Box<dyn Probe>, Unavailable> {
    let bytes = include_bytes_aligned!(concat!(env!("CARGO_MANIFEST_DIR"), "/swapin/swapin.bpf.o"));
    let kernel = context.kernel()?;
    let mut object = kernel.load(bytes, context.filter.globals(context.host)?, &[])?;
    let [now, before] = READS;
    if let Err(refused) = object.attach(kernel, Hook::Function(now)) {
        object.attach(kernel, Hook::Function(before)).map_err(|_| refused)?;
    }
    // Last: the share is that of the time from here on, and attaching may take long.
    object.attach(kernel, Hook::Function("do_swap_page"))?;
    let page_size = context.host.facts().page_size;
    let top = context.params.count("top") as usize;
    Ok(Box::new(SwapIn { object, top, page_size, since: context.host.now() }))
}

impl Probe for SwapIn {
    fn object(&self) -> Option<&Object> {
        Some(&self.object)
    }

    fn read(&mut self, host: &Host) -> Result<Taken, Unavailable> {
        let now = host.now();
        let seconds = (now - std::mem::replace(&mut self.since, now)).max(1e-9);
        let processes = self.object.take_hash::<Process, Sums>("processes")?;
        let lost = self.object.take_counts("lost")?.iter().sum();
        let table = by_process(processes, seconds, self.page_size, self.top);
        Ok(Taken {
            outputs: vec![Output::Table(table)],
            lost: vec![("reads and faults of more processes than the probe can note", lost)],
            notes: Vec::new(),
        })
    }
}

/// The processes that lost most time first, then those that read most; the rest summed up.
fn by_process(mut processes: Vec<(Process, Sums)>, seconds: f64, page_size: u64, top: usize) -> ProbeTable {
    processes.sort_by_key(|(key, [pages, _, took, ..])| (std::cmp::Reverse((*took, *pages)), *key));
    TableSpec::<(Process, Sums)>::new("processes", "Processes that needed memory back from swap")
        .rows("process", |([tgid, born], _)| format!("{tgid}:{born}"))
        .text("name", "process", |(_, [.., name, more])| words::text_of_words(&[*name, *more]))
        .text("pid", "pid", |([tgid, _], _)| tgid.to_string())
        .sum("time", "time", Unit::Seconds, |(_, [_, _, took, ..])| *took as f64 * 1e-9)
        .sum("share", "share of the time", Unit::Ratio, |(_, [_, _, took, ..])| *took as f64 * 1e-9 / seconds)
        .sum("faults", "faults", Unit::Count, |(_, [_, faults, ..])| *faults as f64)
        .number("max", "longest", Unit::Seconds, |(_, [_, _, _, longest, ..])| *longest as f64 * 1e-9)
        .sum("bytes", "read", Unit::Bytes, |(_, [pages, ..])| pages.saturating_mul(page_size) as f64)
        .top(processes, top)
}

#[cfg(test)]
mod tests {
    use super::*;
    use rdiag_model::probe::Cell;

    #[test]
    fn who_waited_longest_comes_first_and_the_rest_is_summed_up() {
        let sums = |pages, faults, took| [pages, faults, took, 1_000_000, u64::from_ne_bytes(*b"importer"), 0];
        let processes =
            vec![([8, 1], sums(8, 2, 2_000_000)), ([9, 1], sums(3, 3, 6_000_000)), ([10, 1], sums(2, 0, 0))];
        let table = by_process(processes, 2.0, 4096, 1);
        let [row] = &table.rows[..] else { panic!("{table:?}") };
        assert_eq!(row.instance, "9:1");
        assert_eq!(row.cells[..2], ["importer", "9"].map(Cell::from));
        assert_eq!(row.cells[3..], [0.003, 3.0, 1e6 * 1e-9, 12288.0].map(Cell::from));
        assert_eq!(row.cells.len(), table.columns.len());
        assert_eq!((table.others, table.others_sum["faults"], table.others_sum["bytes"]), (2, 2.0, 40960.0));
        assert!((table.others_sum["time"] - 0.002).abs() < 1e-12);
    }
}
