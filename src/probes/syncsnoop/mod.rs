//! Calls that wait until data are on the disk.

use super::calls;
use super::stream::{Events, Lines, Task};
use crate::def::{Context, FilterKind, GivesStacks, ParamDef, ParamKind, Probe, ProbeDef};
use crate::table::TableSpec;
use rdiag_kernel::mechanism::ebpf::{Global, Hook, include_bytes_aligned, words};
use rdiag_model::{Unavailable, Unit};

pub(super) static PROBE: ProbeDef = ProbeDef {
    id: "syncsnoop",
    question: "Who waits until data are on the disk (sync, fsync and the like), for which file, and how long?",
    attach: "sys_enter, sys_exit.",
    output: "A line for each fsync, fdatasync, syncfs, sync_file_range, sync and msync when it returns: seconds since the start, \
             task, file name, time it took, and the error if it failed.",
    caveats: "Of a file's path the last part is shown; sync and msync have no file. Calls of 32-bit programs, and what io_uring \
              or O_SYNC write, are not seen.",
    overhead: "Every system call on the host takes the kernel's slow path twice while it runs, whomever it is \
               limited to, with two program runs of 0.07 µs each.",
    params: &[ParamDef {
        name: "threshold",
        kind: ParamKind::Duration,
        default: "0s",
        help: "only calls that took at least so long",
    }],
    filters: &[FilterKind::Pid, FilterKind::Comm, FilterKind::Cgroup],
    streams: true,
    stacks: GivesStacks::Never,
    metrics: &[],
    start,
};

/// The calls, in the order in which the program knows them: those with a file descriptor first.
const CALLS: [&str; 6] = ["fsync", "fdatasync", "syncfs", "sync_file_range", "sync", "msync"];

fn start(context: &Context<'_>) -> Result<Box<dyn Probe>, Unavailable> {
    let bytes = include_bytes_aligned!(concat!(env!("CARGO_MANIFEST_DIR"), "/syncsnoop/syncsnoop.bpf.o"));
    let mut globals = context.filter.globals(context.host)?;
    globals.push(calls::numbers("sync_calls", &CALLS));
    globals.push(Global::u64("threshold", context.params.nanoseconds("threshold")));
    let mut object = context.kernel()?.load(bytes, globals, &[])?;
    object.attach(context.kernel()?, Hook::Tracepoint("sys_enter"))?;
    object.attach(context.kernel()?, Hook::Tracepoint("sys_exit"))?;
    let events = Events::new(context.host.now());
    Ok(Box::new(Lines { object, events, spec, read: Synced::read }))
}

/// A call that has returned.
struct Synced {
    task: Task,
    call: &'static str,
    /// Nanoseconds; not known where it began before the probe.
    took: Option<u64>,
    result: u64,
    file: Option<String>,
}

impl Synced {
    fn read(record: &[u8]) -> Self {
        let [kind, took, result] = [2, 3, 4].map(|at| words::word(record, at * 8));
        let call = usize::try_from(kind).ok().and_then(|at| CALLS.get(at)).copied().unwrap_or("sync");
        let name = words::text(record.get(56..).unwrap_or_default());
        Self {
            task: Task::read(record, 1, 5),
            call,
            took: (took != u64::MAX).then_some(took),
            result,
            file: (!name.is_empty()).then_some(name),
        }
    }
}

fn spec() -> TableSpec<'static, Synced> {
    TableSpec::<Synced>::new("syncs", "Calls that wait for the disk")
        .text("name", "task", |sync| sync.task.name())
        .text("pid", "pid", |sync| sync.task.pid.to_string())
        .text("tid", "tid", |sync| sync.task.tid.to_string())
        .text("call", "call", |sync| sync.call.to_owned())
        .number("latency", "took", Unit::Seconds, |sync| sync.took.map(|took| took as f64 * 1e-9))
        .text("result", "result", |sync| calls::result(sync.result))
        .text("file", "file", |sync| sync.file.clone())
}

#[cfg(test)]
mod tests {
    use super::*;
    use rdiag_model::probe::Cell;

    fn record(kind: u64, took: u64, result: i64, name: &[u8]) -> Vec<u8> {
        let comm = u64::from_ne_bytes(*b"postgres");
        let words = [9, 7 << 32 | 8, kind, took, result.cast_unsigned(), comm, 0];
        let mut record: Vec<u8> = words.iter().flat_map(|word| word.to_ne_bytes()).collect();
        record.extend(name);
        record
    }

    fn line(record: &[u8]) -> Vec<Cell> {
        spec().cells(&Synced::read(record))
    }

    #[test]
    fn a_sync_is_shown_with_its_file_and_the_time_it_took() {
        let cells = line(&record(1, 2_000_000, 0, b"wal\0junk"));
        assert_eq!(cells[..4], ["postgres", "7", "8", "fdatasync"].map(Cell::from));
        assert_eq!(cells[4..], [(2e6 * 1e-9).into(), "0".into(), "wal".into()]);
    }

    #[test]
    fn a_sync_that_began_before_the_probe_has_no_time_and_one_without_a_file_no_name() {
        let cells = line(&record(4, u64::MAX, -5, b"\0"));
        assert_eq!(cells[3..], ["sync".into(), Cell::Unknown(()), "EIO".into(), Cell::Unknown(())]);
        assert_eq!(line(&[])[3..5], ["fsync".into(), 0.0.into()]);
    }
}
