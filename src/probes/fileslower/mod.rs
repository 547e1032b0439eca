//! Single operations on files that took long.

mod processes;

use processes::Processes;

use super::file_ops::{self, AT_CALLS, TYPE};
use super::stream::Events;
use super::{calls, stream};
use crate::def::{Context, FilterKind, GivesStacks, ParamDef, ParamKind, Probe, ProbeDef, Taken};
use crate::table::TableSpec;
use rdiag_kernel::host::Host;
use rdiag_kernel::mechanism::ebpf::{Global, Object, include_bytes_aligned, words};
use rdiag_model::metric::Pick;
use rdiag_model::probe::Output;
use rdiag_model::{Deed, Formula, MetricDef, Unavailable, Unit};

pub(super) static PROBE: ProbeDef = ProbeDef {
    id: "fileslower",
    question: "Which single reads, writes, opens and fsyncs of files took too long, whose were they, and of which file?",
    attach: file_ops::ATTACH,
    output: "A line for each operation that took at least the threshold, when it ends: seconds since the start, task, operation, \
             how long it took, its bytes or error, where in the file it began, type of file system, and the file's path. For each process \
             the sum, and the file of most of it; \
             not of files that are no storage (/proc, /sys), whose readers wait for something to tell.",
    caveats: file_ops::CAVEATS,
    overhead: "Two program runs per operation, slow or not; at system calls, every call on the host takes the kernel's slow path \
               besides, whomever it is limited to.",
    params: &[
        ParamDef {
            name: "threshold",
            kind: ParamKind::Duration,
            default: "10ms",
            help: "only operations that took at least so long",
        },
        ParamDef::top("how many processes to show"),
        TYPE,
        AT_CALLS,
    ],
    filters: &[FilterKind::Pid, FilterKind::Comm, FilterKind::Cgroup],
    streams: true,
    stacks: GivesStacks::Never,
    metrics: &[
        MetricDef {
            id: "fileslower.all.ratio",
            unit: Unit::Ratio,
            help: "Time that slow operations on files of storage took, per time that passed; 2 is two at once all the \
                   time.",
            sources: &[Formula::probe(Pick::ColumnSum("processes", "share"))],
            caveat: "Slow is what took at least the threshold (10 ms). Waiting for a CPU and for locks is in it.",
            manual: "fileslower 10",
            ..MetricDef::EMPTY
        },
        MetricDef {
            id: "fileslower.process.seconds",
            unit: Unit::Seconds,
            dimension: Some("process"),
            help: "Time that a process spent in slow operations on files of storage.",
            sources: &[Formula::probe(Pick::Column("processes", "time"))],
            caveat: "Several of its threads at once count several times.",
            manual: "fileslower 10",
            deed: Some(Deed { verb: "did", of: "the waiting in slow file operations", ..Deed::USUAL }),
        },
    ],
    start,
};

/// Bytes of the ring: a record has some 900.
const RING: u32 = 4 << 20;
/// Where the path begins in a record.
const PATH_AT: usize = 80;
/// Stands in records for a place in a file that is not known.
const NOWHERE: u64 = u64::MAX;

struct FileSlower {
    object: Object,
    events: Events,
    processes: Processes,
    since: f64,
    top: usize,
    note: Option<String>,
}

/// One operation, as the program tells it.
#[derive(Debug, Default)]
struct Slow {
    pid: u64,
    tid: u64,
    name: String,
    kind: u64,
    /// Seconds.
    took: f64,
    result: u64,
    /// Where in the file it ended.
    end: Option<u64>,
    file_system: String,
    file: String,
}

fn start(context: &Context<'_>) -> Result<Box<dyn Probe>, Unavailable> {
    let bytes = include_bytes_aligned!(concat!(env!("CARGO_MANIFEST_DIR"), "/fileslower/fileslower.bpf.o"));
    let own = [Global::u64("threshold", context.params.nanoseconds("threshold"))];
    let (object, note) = file_ops::attach(context, bytes, file_ops::KINDS, &own, &[("events", RING)])?;
    let (since, top) = (context.host.now(), context.params.count("top") as usize);
    Ok(Box::new(FileSlower { object, events: Events::new(since), processes: Processes::default(), since, top, note }))
}

impl Probe for FileSlower {
    fn object(&self) -> Option<&Object> {
        Some(&self.object)
    }

    fn poll(&mut self, _: &Host) -> Result<(), Unavailable> {
        let Self { object, events, processes, .. } = self;
        events.drain(object, &spec(), |record| {
            let slow = Slow::read(record);
            processes.add(&slow);
            Some(slow)
        })
    }

    fn read(&mut self, host: &Host) -> Result<Taken, Unavailable> {
        self.poll(host)?;
        let now = host.now();
        let seconds = (now - std::mem::replace(&mut self.since, now)).max(1e-9);
        let table = self.events.table(&spec());
        let mut lost = stream::lost(&mut self.object, &table)?;
        let no_room = self.object.take_counts("lost")?.iter().sum();
        lost.push(("more operations at once than the probe can note", no_room));
        let outputs = vec![Output::Events(table), Output::Table(self.processes.take(seconds, self.top))];
        // Once is enough: a line of it after each handful of events would bury them.
        Ok(Taken { outputs, lost, notes: self.note.take().into_iter().collect() })
    }
}

impl Slow {
    fn read(record: &[u8]) -> Self {
        let word = |at: usize| words::word(record, at * 8);
        let [ids, kind, took, result, end] = [1, 2, 3, 4, 5].map(word);
        Self {
            pid: ids >> 32,
            tid: ids & 0xffff_ffff,
            name: words::text_of_words(&[word(6), word(7)]),
            kind,
            took: took as f64 * 1e-9,
            result,
            end: (end != NOWHERE).then_some(end),
            file_system: words::text_of_words(&[word(8), word(9)]),
            file: file_ops::path(record.get(PATH_AT..).unwrap_or_default()),
        }
    }

    /// Where in the file it began: the place has moved on by what was read or written.
    fn offset(&self) -> Option<f64> {
        let done = u64::try_from(self.result.cast_signed()).unwrap_or(0);
        self.end.map(|end| end.saturating_sub(done) as f64)
    }
}

fn spec() -> TableSpec<'static, Slow> {
    TableSpec::<Slow>::new("operations", "Slow operations on files")
        .text("name", "task", |slow| slow.name.clone())
        .text("pid", "pid", |slow| slow.pid.to_string())
        .text("tid", "tid", |slow| slow.tid.to_string())
        .text("operation", "operation", |slow| file_ops::operation(slow.kind).to_owned())
        .number("latency", "took", Unit::Seconds, |slow| slow.took)
        .text("result", "result", |slow| calls::result(slow.result))
        .number("offset", "from", Unit::Bytes, Slow::offset)
        .text("type", "type", |slow| slow.file_system.clone())
        .text("file", "file", |slow| slow.file.clone())
}

#[cfg(test)]
mod tests {
    use super::*;
    use rdiag_model::probe::Cell;

    fn record(kind: u64, result: i64, end: u64) -> Vec<u8> {
        let name = |text: &[u8; 8]| u64::from_ne_bytes(*text);
        let words = [
            9,
            7 << 32 | 8,
            kind,
            25_000_000,
            result.cast_unsigned(),
            end,
            name(b"postgres"),
            0,
            name(b"ext4\0\0\0\0"),
            0,
            1,
        ];
        let mut record: Vec<u8> = words.iter().flat_map(|word| word.to_ne_bytes()).collect();
        for part in ["wal", "data"] {
            let mut bytes = part.as_bytes().to_vec();
            bytes.resize(64, 0);
            record.extend(bytes);
        }
        record
    }

    fn cells_of(record: &[u8]) -> Vec<Cell> {
        spec().cells(&Slow::read(record))
    }

    #[test]
    fn a_slow_read_is_shown_with_what_it_read_from_where_and_the_path() {
        let cells = cells_of(&record(0, 8192, 40960));
        assert_eq!(cells[..4], ["postgres", "7", "8", "read"].map(Cell::from));
        let took = 25_000_000.0 * 1e-9;
        assert_eq!(cells[4..], [took.into(), "8192".into(), 32768.0.into(), "ext4".into(), "/data/wal".into()]);
    }

    #[test]
    fn an_error_moves_no_place_and_some_operations_have_none() {
        assert_eq!(cells_of(&record(1, -5, 4096))[5..7], ["EIO".into(), 4096.0.into()]);
        assert_eq!(cells_of(&record(3, 0, NOWHERE))[6], Cell::Unknown(()));
        assert_eq!(cells_of(&[])[3..6], ["read".into(), 0.0.into(), "0".into()]);
    }
}
