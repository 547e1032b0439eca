//! Lookups of names: what the cache of directory entries knows, and what file systems are asked for.

use super::file_ops;
use super::stream::{self, Events, Task};
use crate::def::{Context, FilterKind, GivesStacks, ParamDef, ParamKind, Probe, ProbeDef, Taken};
use crate::table::TableSpec;
use rdiag_kernel::host::Host;
use rdiag_kernel::mechanism::ebpf::{Global, Hook, Kernel, Object, include_bytes_aligned, words};
use rdiag_model::probe::{Output, ProbeTable};
use rdiag_model::{Unavailable, Unit};

pub(super) static PROBE: ProbeDef = ProbeDef {
    id: "dcsnoop",
    question: "Which names of files are not in the cache of directory entries, so that a file system must be asked, and which do not \
        exist?",
    attach: "lookup_fast and d_alloc_parallel, at return; lookup_one_qstr_excl (__lookup_hash before Linux 5.18), at entry and return; \
             d_splice_alias (d_splice_alias_ops), d_add and __d_lookup_unhash_wake (__d_lookup_done before Linux 6.0).",
    output: "A line for each name that a file system is asked for: seconds since the start, task, whether the file exists, how long \
             the file system took, its type, and the path from its root. For each process its lookups of names, those that the cache \
             answered with a file or with the knowledge that there is none, those that went to a file system, by its answer, and its time.",
    caveats: "One lookup is one part of a path: /usr/bin/ls has three. Paths begin at the root of their file system, not of its mount, and \
        a \
              part is cut at 63 bytes. A path that the kernel begins anew because something changed meanwhile is counted again. Names that \
              are to be \
              made, removed or renamed, and on some kernels those opened with O_CREAT, count only when the cache does not have them. \
              Listing a \
              directory of /proc or NFS asks for its names too. A file system on another one (overlay) asks that one; both are listed. \
              tmpfs \
              keeps no knowledge of files that do not exist. Entries that memory reclaim dropped from the cache are looked up again.",
    overhead: "One program run for each part of each path that is looked up, on the whole host, even where the cache has it; for a name \
        that it \
               does not have three or four, and the path is read. Measured on emulated \
               CPUs, half of what a one-liner of bpftrace takes for the same.",
    params: &[
        ParamDef {
            name: "known",
            kind: ParamKind::Flag,
            default: "false",
            help: "also a line for each name of which the cache knows that there is no such file",
        },
        ParamDef::top("how many processes to show"),
    ],
    filters: &[FilterKind::Pid, FilterKind::Comm, FilterKind::Cgroup],
    streams: true,
    stacks: GivesStacks::Never,
    metrics: &[],
    start,
};

/// Bytes of the ring: a record has some 900.
const RING: u32 = 4 << 20;
/// Where the path begins in a record.
const PATH_AT: usize = 64;

/// Moments of a lookup: functions by all names that they have, each with the programs for it by its possible arguments, most
/// arguments first. Ends come before what they end.
const MOMENTS: [&[(&str, &[&str])]; 6] = [
    &[("__d_lookup_unhash_wake", &["__d_lookup_unhash_wake"]), ("__d_lookup_done", &["__d_lookup_done"])],
    &[("d_splice_alias_ops", &["d_splice_alias_ops"]), ("d_splice_alias", &["d_splice_alias"])],
    &[("d_add", &["d_add"])],
    &[("lookup_one_qstr_excl", &["lookup_one_qstr_excl"]), ("__lookup_hash", &["__lookup_hash"])],
    &[("d_alloc_parallel", &["d_alloc_parallel_three", "d_alloc_parallel_two"])],
    &[("lookup_fast", &["lookup_fast_three", "lookup_fast_one"])],
];

/// `struct sums` of the program: lookups, known to be absent, found, absent, nanoseconds, name.
type Sums = [u64; 7];

struct DcSnoop {
    object: Object,
    events: Events,
    top: usize,
}

fn start(context: &Context<'_>) -> Result<Box<dyn Probe>, Unavailable> {
    let bytes = include_bytes_aligned!(concat!(env!("CARGO_MANIFEST_DIR"), "/dcsnoop/dcsnoop.bpf.o"));
    let kernel = context.kernel()?;
    let mut globals = context.filter.globals(context.host)?;
    globals.push(Global::u32("with_known", u32::from(context.params.flag("known"))));
    let mut object = kernel.load(bytes, globals, &[("events", RING)])?;
    for names in MOMENTS {
        attach(&mut object, kernel, names).map_err(|gap| {
            gap.with_remedy(
                "rdiag probe opensnoop --param failed=true tells which files are not there, by the system calls that ask for them",
            )
        })?;
    }
    let (events, top) = (Events::new(context.host.now()), context.params.count("top") as usize);
    Ok(Box::new(DcSnoop { object, events, top }))
}

/// Attaches to the first name that the kernel knows, by the first program that it takes.
fn attach(object: &mut Object, kernel: &Kernel, names: &[(&str, &[&str])]) -> Result<(), Unavailable> {
    let known = names.iter().find(|(function, _)| kernel.has_function(function)).or(names.first());
    let Some((function, programs)) = known else { return Ok(()) };
    let mut result = Ok(());
    for program in *programs {
        result = object.attach(kernel, Hook::FunctionBy { function, program });
        if result.is_ok() {
            break;
        }
    }
    result
}

impl Probe for DcSnoop {
    fn object(&self) -> Option<&Object> {
        Some(&self.object)
    }

    fn poll(&mut self, _: &Host) -> Result<(), Unavailable> {
        self.events.drain(&mut self.object, &spec(), |record| Some(Lookup::read(record)))
    }

    fn read(&mut self, host: &Host) -> Result<Taken, Unavailable> {
        self.poll(host)?;
        let processes = self.object.take_hash::<u32, Sums>("processes")?;
        let table = self.events.table(&spec());
        let mut lost = stream::lost(&mut self.object, &table)?;
        let no_room = self.object.take_counts("lost")?.iter().sum();
        lost.push(("more lookups at once, or of more processes, than the probe can note", no_room));
        let outputs = vec![Output::Events(table), Output::Table(by_process(processes, self.top))];
        Ok(Taken { outputs, lost, ..Taken::default() })
    }
}

/// A name that was looked up.
struct Lookup {
    task: Task,
    answer: u64,
    /// Nanoseconds.
    took: u64,
    file_system: [u64; 2],
    file: String,
}

impl Lookup {
    fn read(record: &[u8]) -> Self {
        let [answer, took, first, second] = [2, 3, 6, 7].map(|at| words::word(record, at * 8));
        let file = file_ops::path(record.get(PATH_AT..).unwrap_or_default());
        Self { task: Task::read(record, 1, 4), answer, took, file_system: [first, second], file }
    }

    fn result(&self) -> String {
        let told = match self.answer {
            0 => "known to be absent",
            1 => "no such file",
            2 => "found",
            _ => "other",
        };
        told.to_owned()
    }
}

fn spec() -> TableSpec<'static, Lookup> {
    TableSpec::<Lookup>::new("lookups", "Names that file systems were asked for")
        .text("name", "task", |lookup| lookup.task.name())
        .text("pid", "pid", |lookup| lookup.task.pid.to_string())
        .text("tid", "tid", |lookup| lookup.task.tid.to_string())
        .text("result", "result", Lookup::result)
        .number("took", "took", Unit::Seconds, |lookup| (lookup.answer != 0).then_some(lookup.took as f64 * 1e-9))
        .text("type", "type", |lookup| words::text_of_words(&lookup.file_system))
        .text("file", "file", |lookup| lookup.file.clone())
}

/// Most questions to file systems first, then most lookups; the rest summed up.
fn by_process(mut processes: Vec<(u32, Sums)>, top: usize) -> ProbeTable {
    processes
        .sort_by_key(|(tgid, [lookups, _, found, absent, ..])| (std::cmp::Reverse((found + absent, *lookups)), *tgid));
    TableSpec::<Process>::new("processes", "Processes by names that file systems were asked for")
        .rows("process", |process| process.tgid.to_string())
        .text("name", "process", |process| process.name.clone())
        .text("pid", "pid", |process| process.tgid.to_string())
        .sum("lookups", "lookups", Unit::Count, |process| process.lookups as f64)
        .sum("known", "known to be absent", Unit::Count, |process| process.known as f64)
        .sum("found", "found by asking", Unit::Count, |process| process.found as f64)
        .sum("absent", "not found by asking", Unit::Count, |process| process.absent as f64)
        .sum("took", "time of asking", Unit::Seconds, |process| process.took as f64 * 1e-9)
        .top(processes.into_iter().map(Process::new), top)
}

/// A process as the program noted it.
struct Process {
    tgid: u32,
    name: String,
    lookups: u64,
    known: u64,
    found: u64,
    absent: u64,
    took: u64,
}

impl Process {
    fn new((tgid, [lookups, known, found, absent, took, name @ ..]): (u32, Sums)) -> Self {
        Self { tgid, name: words::text_of_words(&name), lookups, known, found, absent, took }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rdiag_model::probe::Cell;

    fn text(bytes: &[u8; 8]) -> u64 {
        u64::from_ne_bytes(*bytes)
    }

    fn record(answer: u64) -> Vec<u8> {
        let words = [9, 7 << 32 | 8, answer, 2_000_000, text(b"python3\0"), 0, text(b"ext4\0\0\0\0"), 0, 1];
        let mut record: Vec<u8> = words.iter().flat_map(|word| word.to_ne_bytes()).collect();
        for part in ["foo.so", "lib"] {
            let mut bytes = part.as_bytes().to_vec();
            bytes.resize(64, 0);
            record.extend(bytes);
        }
        record
    }

    fn line(record: &[u8]) -> Vec<Cell> {
        spec().cells(&Lookup::read(record))
    }

    #[test]
    fn a_lookup_is_shown_with_its_path_and_answer_and_asking_nobody_takes_no_time() {
        let cells = line(&record(1));
        assert_eq!(cells[..4], ["python3", "7", "8", "no such file"].map(Cell::from));
        assert_eq!(cells[4..], [(2_000_000.0 * 1e-9).into(), "ext4".into(), "/lib/foo.so".into()]);
        assert_eq!(line(&record(0))[3..5], ["known to be absent".into(), Cell::Unknown(())]);
        assert_eq!(line(&[])[3], "known to be absent".into());
    }

    #[test]
    fn who_asks_most_comes_first_and_the_rest_is_summed_up() {
        let name = text(b"ld.so\0\0\0");
        let processes = vec![
            (7, [900, 5, 1, 0, 0, name, 0]),
            (8, [30, 0, 2, 9, 3_000_000_000, name, 0]),
            (9, [5, 1, 0, 1, 1_000_000_000, name, 0]),
        ];
        let table = by_process(processes, 1);
        let [row] = &table.rows[..] else { panic!("{table:?}") };
        let numbers = [30.0, 0.0, 2.0, 9.0, 3.0].map(Cell::from);
        assert_eq!((row.instance.as_str(), &row.cells[2..]), ("8", &numbers[..]));
        let sum = |column: &str| table.others_sum[column];
        assert_eq!((table.others, sum("lookups"), sum("known"), sum("absent")), (2, 905.0, 6.0, 1.0));
    }
}
