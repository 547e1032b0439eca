//! Files that are opened: by which task, how, and with what result.

use super::calls;
use super::stream::{Events, Lines, Task};
use crate::def::{Context, FilterKind, GivesStacks, ParamDef, ParamKind, Probe, ProbeDef};
use crate::table::TableSpec;
use rdiag_kernel::mechanism::ebpf::{Global, Hook, include_bytes_aligned, words};
use rdiag_model::Unavailable;

pub(super) static PROBE: ProbeDef = ProbeDef {
    id: "opensnoop",
    question: "Which files are opened, by which processes, and which of them cannot be opened?",
    attach: "sys_exit.",
    output: "A line for each call of open, openat, openat2 and creat when it returns: seconds since the start, task, file name \
             as it was given, flags, and the file descriptor or the error.",
    caveats: "A name that does not begin with / counts from the process's directory, or from one that is open. Names are cut \
              at 255 bytes. Calls of 32-bit programs and files that io_uring opens are not seen.",
    overhead: "Every system call on the host takes the kernel's slow path while it runs, whomever it is limited to: an empty \
               call was 1.3 times slower with an empty program. A run costs 37 ns where the call \
               is another one. A tracepoint on the one call would slow down all calls as well.",
    params: &[ParamDef {
        name: "failed",
        kind: ParamKind::Flag,
        default: "false",
        help: "only files that could not be opened",
    }],
    filters: &[FilterKind::Pid, FilterKind::Comm, FilterKind::Cgroup],
    streams: true,
    stacks: GivesStacks::Never,
    metrics: &[],
    start,
};

/// The calls, in the order in which the program knows them.
const CALLS: [&str; 4] = ["openat", "open", "creat", "openat2"];
/// Where the name begins in a record.
const NAME_AT: usize = 56;

fn start(context: &Context<'_>) -> Result<Box<dyn Probe>, Unavailable> {
    let bytes = include_bytes_aligned!(concat!(env!("CARGO_MANIFEST_DIR"), "/opensnoop/opensnoop.bpf.o"));
    let mut globals = context.filter.globals(context.host)?;
    globals.push(calls::numbers("open_calls", &CALLS));
    globals.push(Global::u32("failed", u32::from(context.params.flag("failed"))));
    let mut object = context.kernel()?.load(bytes, globals, &[])?;
    object.attach(context.kernel()?, Hook::Tracepoint("sys_exit"))?;
    let events = Events::new(context.host.now());
    Ok(Box::new(Lines { object, events, spec, read: Opened::read }))
}

/// A call that has returned.
struct Opened {
    task: Task,
    call: &'static str,
    flags: u64,
    result: u64,
    file: Option<String>,
}

impl Opened {
    fn read(record: &[u8]) -> Self {
        let [call, flags, result] = [2, 3, 4].map(|at| words::word(record, at * 8));
        let call = usize::try_from(call).ok().and_then(|at| CALLS.get(at)).copied().unwrap_or("open");
        let flags = if call == "creat" { CREAT } else { flags };
        // Without its NUL the name could not be read: an address that is not in memory, or none at all.
        let name = record.get(NAME_AT..).filter(|name| !name.is_empty());
        Self { task: Task::read(record, 1, 5), call, flags, result, file: name.map(words::text) }
    }
}

fn spec() -> TableSpec<'static, Opened> {
    TableSpec::<Opened>::new("opens", "Files opened")
        .text("name", "task", |open| open.task.name())
        .text("pid", "pid", |open| open.task.pid.to_string())
        .text("tid", "tid", |open| open.task.tid.to_string())
        .text("call", "call", |open| open.call.to_owned())
        .text("flags", "flags", |open| described(open.flags))
        .text("result", "result", |open| calls::result(open.result))
        .text("file", "file", |open| open.file.clone())
}

/// What creat() stands for: O_CREAT | O_WRONLY | O_TRUNC.
const CREAT: u64 = 0o1101;
const TMPFILE: u64 = 0o20_000_000;

/// Flags of open() by their names without O_, as asm-generic/fcntl.h numbers them. DIRECTORY, NOFOLLOW, DIRECT and LARGEFILE have
/// other numbers on arm64.
fn described(flags: u64) -> String {
    let (directory, nofollow, direct) =
        if cfg!(target_arch = "aarch64") { (0o40_000, 0o100_000, 0o200_000) } else { (0o200_000, 0o400_000, 0o40_000) };
    let mut names = vec![match flags & 3 {
        0 => "RDONLY",
        1 => "WRONLY",
        2 => "RDWR",
        _ => "(no access)",
    }];
    let is_temporary = flags & TMPFILE != 0;
    for (bit, name) in [
        (0o100, "CREAT"),
        (0o200, "EXCL"),
        (0o400, "NOCTTY"),
        (0o1000, "TRUNC"),
        (0o2000, "APPEND"),
        (0o4000, "NONBLOCK"),
        (0o10_000, "DSYNC"),
        (direct, "DIRECT"),
        (directory, "DIRECTORY"),
        (nofollow, "NOFOLLOW"),
        (0o1_000_000, "NOATIME"),
        (0o2_000_000, "CLOEXEC"),
        (0o4_000_000, "SYNC"),
        (0o10_000_000, "PATH"),
        (TMPFILE, "TMPFILE"),
    ] {
        // O_SYNC contains O_DSYNC, and O_TMPFILE contains O_DIRECTORY.
        let is_part = (name == "DSYNC" && flags & 0o4_000_000 != 0) || (name == "DIRECTORY" && is_temporary);
        if flags & bit != 0 && !is_part {
            names.push(name);
        }
    }
    names.join("|")
}

#[cfg(test)]
mod tests {
    use super::*;
    use rdiag_model::probe::Cell;

    fn record(call: u64, flags: u64, result: i64, name: &[u8]) -> Vec<u8> {
        let comm = u64::from_ne_bytes(*b"cat\0\0\0\0\0");
        let words = [9, 7 << 32 | 8, call, flags, result.cast_unsigned(), comm, 0];
        let mut record: Vec<u8> = words.iter().flat_map(|word| word.to_ne_bytes()).collect();
        record.extend(name);
        record
    }

    fn line(record: &[u8]) -> Vec<Cell> {
        spec().cells(&Opened::read(record))
    }

    #[test]
    fn an_open_is_shown_with_task_flags_result_and_name() {
        let cells = line(&record(0, 0o2_000_101, 3, b"/tmp/x\0"));
        let texts = ["cat", "7", "8", "openat", "WRONLY|CREAT|CLOEXEC", "3", "/tmp/x"].map(Cell::from);
        assert_eq!(cells, texts);
        let failed = line(&record(2, 0, -2, b""));
        assert_eq!(failed[3..], ["creat".into(), "WRONLY|CREAT|TRUNC".into(), "ENOENT".into(), Cell::Unknown(())]);
    }

    #[test]
    fn flags_that_contain_others_are_named_once() {
        assert_eq!(described(0), "RDONLY");
        assert_eq!(described(0o4_010_002), "RDWR|SYNC");
        assert_eq!(described(0o10_001), "WRONLY|DSYNC");
        let directory = if cfg!(target_arch = "aarch64") { 0o40_000 } else { 0o200_000 };
        assert_eq!(described(directory), "RDONLY|DIRECTORY");
        assert_eq!(described(TMPFILE | directory | 2), "RDWR|TMPFILE");
    }

    #[test]
    fn short_records_harm_nobody() {
        assert_eq!(line(&[1, 2])[5..], ["0".into(), Cell::Unknown(())]);
    }
}
