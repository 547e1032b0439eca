//! What is read and written, by process and file, or by directory.

use super::file_ops::{self, AT_CALLS, TYPE};
use crate::def::{Context, FilterKind, GivesStacks, ParamDef, Probe, ProbeDef, Taken};
use crate::table::TableSpec;
use rdiag_kernel::host::Host;
use rdiag_kernel::mechanism::ebpf::{Global, Object, include_bytes_aligned, words};
use rdiag_model::probe::{Output, ProbeTable};
use rdiag_model::{Unavailable, Unit};

const ATTACH: &str = "vfs_read, vfs_readv, vfs_write and vfs_writev, at entry and return; sys_enter and sys_exit where these cannot be \
    hooked.";
const OVERHEAD: &str = "Two program runs per read or write of a file; at system calls, every call on the host takes the kernel's \
    slow path besides, whomever it is limited to.";
const FILTERS: &[FilterKind] = &[FilterKind::Pid, FilterKind::Comm, FilterKind::Cgroup];
const PARAMS: &[ParamDef] = &[ParamDef::top("how many rows to show"), TYPE, AT_CALLS];

pub(super) static PROBE: ProbeDef = ProbeDef {
    id: "filetop",
    question: "Which files are read and written most, by which processes, and how long does that take?",
    attach: ATTACH,
    output: "For each process and file the reads and writes, their bytes, and the time in them; most bytes first.",
    caveats: file_ops::CAVEATS,
    overhead: OVERHEAD,
    params: PARAMS,
    filters: FILTERS,
    streams: false,
    stacks: GivesStacks::Never,
    metrics: &[],
    start: |context| start(context, Sums { by_directory: false }),
};

pub(super) static DIRTOP: ProbeDef = ProbeDef {
    id: "dirtop",
    question: "In which directories are files read and written most, and how long does that take?",
    attach: ATTACH,
    output: "For each directory the reads and writes of files in it (not of those in directories below it), their bytes, and the \
             time in them; most bytes first.",
    caveats: file_ops::CAVEATS,
    overhead: OVERHEAD,
    params: PARAMS,
    filters: FILTERS,
    streams: false,
    stacks: GivesStacks::Never,
    metrics: &[],
    start: |context| start(context, Sums { by_directory: true }),
};

/// By what is summed up.
#[derive(Debug, Clone, Copy)]
struct Sums {
    by_directory: bool,
}

struct FileTop {
    object: Object,
    sums: Sums,
    top: usize,
    note: Option<String>,
}

/// `struct file` of the program: process, number, file system.
type File = [u64; 3];
/// `struct use`: reads, bytes read, writes, bytes written, time, names, path.
type Use = [u64; 9 + file_ops::PATH_WORDS];
/// How many operations there are to look at: reads and writes come first.
const READS_AND_WRITES: usize = 2;

fn start(context: &Context<'_>, sums: Sums) -> Result<Box<dyn Probe>, Unavailable> {
    let bytes = include_bytes_aligned!(concat!(env!("CARGO_MANIFEST_DIR"), "/filetop/filetop.bpf.o"));
    let own = [Global::u32("by_directory", sums.by_directory.into())];
    let (object, note) = file_ops::attach(context, bytes, READS_AND_WRITES, &own, &[])?;
    Ok(Box::new(FileTop { object, sums, top: context.params.count("top") as usize, note }))
}

impl Probe for FileTop {
    fn object(&self) -> Option<&Object> {
        Some(&self.object)
    }

    fn read(&mut self, _: &Host) -> Result<Taken, Unavailable> {
        let uses = self.object.take_hash::<File, Use>("uses")?;
        let lost = self.object.take_counts("lost")?.iter().sum();
        Ok(Taken {
            outputs: vec![Output::Table(self.sums.table(uses, self.top))],
            lost: vec![("more files, or operations at once, than the probe can note", lost)],
            notes: self.note.iter().cloned().collect(),
        })
    }
}

impl Sums {
    /// A row for each file or directory that was used, most bytes first.
    fn table(self, mut uses: Vec<(File, Use)>, top: usize) -> ProbeTable {
        uses.sort_by_key(|(file, [reads, bytes_read, writes, bytes_written, ..])| {
            (std::cmp::Reverse((bytes_read.saturating_add(*bytes_written), reads.saturating_add(*writes))), *file)
        });
        let (id, title, what) = if self.by_directory {
            ("directories", "Directories by bytes read and written in them", "directory")
        } else {
            ("files", "Files by bytes read and written", "file")
        };
        let mut spec =
            TableSpec::<Used>::new(id, title).named(|used| format!("{} {}:{}", used.tgid, used.device, used.number));
        if !self.by_directory {
            spec = spec.text("name", "process", |used| words::text_of_words(&used.comm));
            spec = spec.text("pid", "pid", |used| used.tgid.to_string());
        }
        spec.sum("reads", "reads", Unit::Count, |used| used.reads as f64)
            .sum("read", "read", Unit::Bytes, |used| used.read as f64)
            .sum("writes", "writes", Unit::Count, |used| used.writes as f64)
            .sum("written", "written", Unit::Bytes, |used| used.written as f64)
            .sum("time", "time", Unit::Seconds, |used| used.took as f64 * 1e-9)
            .text("type", "type", |used| words::text_of_words(&used.kind))
            .text(what, what, |used| file_ops::path(&used.path.map(u64::to_ne_bytes).concat()))
            .top(uses.into_iter().map(Used::new), top)
    }
}

/// A file or directory as the program noted it.
struct Used {
    tgid: u64,
    number: u64,
    device: u64,
    comm: [u64; 2],
    reads: u64,
    read: u64,
    writes: u64,
    written: u64,
    took: u64,
    kind: [u64; 2],
    path: [u64; file_ops::PATH_WORDS],
}

impl Used {
    fn new(([tgid, number, device], noted): (File, Use)) -> Self {
        let [reads, read, writes, written, took, name, more, kind, more_kind, path @ ..] = noted;
        let (comm, kind) = ([name, more], [kind, more_kind]);
        Self { tgid, number, device, comm, reads, read, writes, written, took, kind, path }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rdiag_model::probe::Cell;

    fn uses(reads: u64, bytes_read: u64, writes: u64, bytes_written: u64, name: &[u8; 8]) -> Use {
        let mut uses = [0; 9 + file_ops::PATH_WORDS];
        uses[..5].copy_from_slice(&[reads, bytes_read, writes, bytes_written, 2_000_000]);
        uses[5] = u64::from_ne_bytes(*b"tar\0\0\0\0\0");
        uses[7] = u64::from_ne_bytes(*b"ext4\0\0\0\0");
        uses[9] = 1;
        uses[10] = u64::from_ne_bytes(*name);
        uses
    }

    #[test]
    fn most_bytes_come_first_and_the_rest_is_summed_up() {
        let all = vec![
            ([7, 12, 65], uses(2, 100, 0, 0, b"small\0\0\0")),
            ([7, 13, 65], uses(1, 50, 1, 4000, b"large\0\0\0")),
            ([8, 12, 65], uses(3, 10, 0, 0, b"small\0\0\0")),
        ];
        let table = Sums { by_directory: false }.table(all.clone(), 1);
        let [row] = &table.rows[..] else { panic!("{table:?}") };
        assert_eq!(row.cells[..2], ["tar", "7"].map(Cell::from));
        assert_eq!(row.cells[2..7], [1.0, 50.0, 1.0, 4000.0, 2e6 * 1e-9].map(Cell::from));
        assert_eq!(row.cells[7..], ["ext4", "/large"].map(Cell::from));
        assert_eq!(row.cells.len(), table.columns.len());
        assert_eq!((table.others, table.others_sum["reads"], table.others_sum["read"]), (2, 5.0, 110.0));

        let table = Sums { by_directory: true }.table(all, 9);
        assert!(table.rows.iter().all(|row| row.cells.len() == table.columns.len()), "{table:?}");
        assert_eq!(table.rows[0].cells[0], 1.0.into());
    }
}
