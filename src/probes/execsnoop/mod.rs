//! Programs that are started and processes that end, those too that live between two looks at /proc.

mod short;

use super::calls;
use super::stream::{self, Events};
use crate::def::{Context, FilterKind, GivesStacks, ParamDef, ParamKind, Probe, ProbeDef, Taken};
use crate::table::TableSpec;
use rdiag_kernel::host::{Host, secrets};
use rdiag_kernel::mechanism::ebpf::{Hook, Object, include_bytes_aligned, words};
use rdiag_model::metric::Pick;
use rdiag_model::probe::Output;
use rdiag_model::{Deed, Formula, MetricDef, Unavailable, Unit};
use short::ShortLived;

pub(super) static PROBE: ProbeDef = ProbeDef {
    id: "execsnoop",
    question: "Which programs are started and which processes end, how long did they live, and who starts short-lived ones?",
    attach: "sched_process_exec, sched_process_exit, sched_process_free; with failed also sys_exit.",
    output: "A line for each program that is started, with its arguments, and for each process that ends, with its exit code \
             or signal and its lifetime; and the processes that lived shorter than the threshold, summed up by parent.",
    caveats: "CPU time of an ended process is known when its parent has asked for it, and stands in the sums alone. A process \
              whose parent ended first is attributed to the process that adopted it. Of arguments the first 512 bytes are shown.",
    overhead: "Three program runs for each process, measured at 6 µs together on a busy machine, none otherwise; with failed every system \
        call on the host takes the kernel's \
               slow path while it runs.",
    params: &[
        ParamDef {
            name: "failed",
            kind: ParamKind::Flag,
            default: "false",
            help: "also programs that could not be started, with the error; slows every system call a little",
        },
        ParamDef {
            name: "threshold",
            kind: ParamKind::Duration,
            default: "1s",
            help: "a process that lived shorter is a short-lived one",
        },
        ParamDef::top("how many kinds of short-lived processes are listed"),
    ],
    filters: &[FilterKind::Pid, FilterKind::Comm, FilterKind::Cgroup],
    streams: true,
    stacks: GivesStacks::Never,
    metrics: &[
        MetricDef {
            id: "execsnoop.short_lived.per_second",
            unit: Unit::PerSecond,
            help: "Processes that ended having lived shorter than the threshold (1 s), per second.",
            sources: &[Formula::probe(Pick::ColumnSum("short_lived", "per_second"))],
            caveat: "Subshells that start no program of their own count too.",
            manual: "execsnoop-bpfcc; perf trace -a -e execve",
            ..MetricDef::EMPTY
        },
        MetricDef {
            id: "execsnoop.short_lived_cpu.seconds",
            unit: Unit::Seconds,
            dimension: Some("process"),
            help: "CPU time of short-lived processes, by the process that started them.",
            sources: &[Formula::probe(Pick::Column("short_lived", "cpu"))],
            caveat: "The CPU time that their parent spent on starting them is the parent's own.",
            manual: "execsnoop-bpfcc; perf trace -a -e execve",
            ..MetricDef::EMPTY
        },
        MetricDef {
            id: "execsnoop.short_lived_by_parent.per_second",
            unit: Unit::PerSecond,
            dimension: Some("process"),
            help: "How many short-lived processes a process started, per second.",
            sources: &[Formula::probe(Pick::Column("short_lived", "per_second"))],
            caveat: "A process whose parent ended first is attributed to the process that adopted it.",
            manual: "execsnoop-bpfcc; perf trace -a -e execve",
            deed: Some(Deed { verb: "started", of: "the short-lived processes", ..Deed::USUAL }),
        },
    ],
    start,
};

/// Kinds of records of the program.
const EXEC: u64 = 1;
const EXIT: u64 = 2;
const USED: u64 = 3;
const FAILED: u64 = 4;
/// Where the arguments begin in a record, and as many bytes of them there are at most.
const ARGS_AT: usize = 88;
const ARGS: u64 = 512;

struct ExecSnoop {
    object: Object,
    events: Events,
    short: ShortLived,
    since: f64,
    top: usize,
}

fn start(context: &Context<'_>) -> Result<Box<dyn Probe>, Unavailable> {
    let bytes = include_bytes_aligned!(concat!(env!("CARGO_MANIFEST_DIR"), "/execsnoop/execsnoop.bpf.o"));
    let mut globals = context.filter.globals(context.host)?;
    globals.push(calls::numbers("exec_calls", &["execve", "execveat"]));
    let mut object = context.kernel()?.load(bytes, globals, &[])?;
    for event in ["sched_process_free", "sched_process_exit", "sched_process_exec"] {
        object.attach(context.kernel()?, Hook::Tracepoint(event))?;
    }
    if context.params.flag("failed") {
        object.attach(context.kernel()?, Hook::Tracepoint("sys_exit"))?;
    }
    let began = context.host.now();
    Ok(Box::new(ExecSnoop {
        object,
        events: Events::new(began),
        short: ShortLived::new(context.params.nanoseconds("threshold")),
        since: began,
        top: context.params.count("top") as usize,
    }))
}

impl Probe for ExecSnoop {
    fn object(&self) -> Option<&Object> {
        Some(&self.object)
    }

    fn poll(&mut self, _: &Host) -> Result<(), Unavailable> {
        let Self { object, events, short, .. } = self;
        events.drain(object, &spec(), |record| Change::read(record, short))
    }

    fn read(&mut self, host: &Host) -> Result<Taken, Unavailable> {
        self.poll(host)?;
        let now = host.now();
        let seconds = (now - std::mem::replace(&mut self.since, now)).max(1e-9);
        let table = self.events.table(&spec());
        let short = self.short.take(self.top, seconds);
        let lost = stream::lost(&mut self.object, &table)?;
        Ok(Taken { outputs: vec![Output::Events(table), Output::Table(short)], lost, ..Taken::default() })
    }
}

/// A program that was started or could not be, or a process that has ended.
#[derive(Default)]
struct Change {
    event: &'static str,
    name: String,
    pid: u64,
    parent: String,
    ppid: u64,
    uid: Option<u64>,
    result: Option<String>,
    /// Seconds.
    lived: Option<f64>,
    args: Option<String>,
}

impl Change {
    /// What a record tells; an end of a process is for the sums too, and what it used for nothing else.
    fn read(record: &[u8], short: &mut ShortLived) -> Option<Self> {
        let word = |at: usize| words::word(record, at * 8);
        let text = |at: usize| words::text_of_words(&[word(at), word(at + 1)]);
        let [at, kind, pid, born, ppid] = [0, 1, 2, 3, 4].map(word);
        let lived = at.saturating_sub(born);
        let of = |event| Self { event, name: text(7), pid, parent: text(9), ppid, ..Self::default() };
        match kind {
            EXEC => Some(Self { uid: Some(word(5)), args: arguments(record, word(6)), ..of("exec") }),
            FAILED => {
                let path = words::text(record.get(ARGS_AT..).unwrap_or_default());
                let args = (!path.is_empty()).then_some(path);
                Some(Self { uid: Some(word(5)), result: Some(calls::error(word(6))), args, ..of("failed") })
            }
            EXIT => {
                short.ended((pid, born), lived, (ppid, text(9)), text(7));
                let lived = Some(lived as f64 * 1e-9);
                Some(Self { result: Some(status(word(5))), lived, ..of("exit") })
            }
            USED => {
                short.used((pid, born), word(6));
                None
            }
            _ => None,
        }
    }
}

fn spec() -> TableSpec<'static, Change> {
    TableSpec::<Change>::new("processes", "Programs started and processes ended")
        .text("event", "event", |change| change.event.to_owned())
        .text("name", "process", |change| change.name.clone())
        .text("pid", "pid", |change| change.pid.to_string())
        .text("parent", "parent", |change| change.parent.clone())
        .text("ppid", "ppid", |change| change.ppid.to_string())
        .text("uid", "uid", |change| change.uid.map(|uid| uid.to_string()))
        .text("result", "result", |change| change.result.clone())
        .number("lifetime", "lived", Unit::Seconds, |change| change.lived)
        .text("args", "arguments", |change| change.args.clone())
}

/// Arguments as they lie in memory, each ended by NUL; `whole` bytes of them in all.
fn arguments(record: &[u8], whole: u64) -> Option<String> {
    let bytes = record.get(ARGS_AT..).unwrap_or_default();
    if bytes.is_empty() && whole > 0 {
        return None;
    }
    let masked = secrets::masked_bytes(bytes);
    let bytes = masked.as_deref().unwrap_or(bytes);
    let text = String::from_utf8_lossy(bytes.strip_suffix(&[0]).unwrap_or(bytes)).replace('\0', " ");
    Some(if whole > ARGS { format!("{text}…") } else { text })
}

/// The exit status of a process as wait() returns it.
fn status(status: u64) -> String {
    match status & 0x7f {
        0 => format!("exit {}", (status >> 8) & 0xff),
        signal if status & 0x80 != 0 => format!("{}, core dumped", calls::signal(signal)),
        signal => calls::signal(signal),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rdiag_model::probe::Cell;

    fn name(text: &str) -> [u8; 16] {
        let mut name = [0; 16];
        name[..text.len()].copy_from_slice(text.as_bytes());
        name
    }

    fn record(words: &[u64], names: [&str; 2], args: &[u8]) -> Vec<u8> {
        let mut record: Vec<u8> = words.iter().flat_map(|word| word.to_ne_bytes()).collect();
        names.iter().for_each(|text| record.extend(name(text)));
        record.extend(args);
        record
    }

    fn line(record: &[u8], short: &mut ShortLived) -> Option<Vec<Cell>> {
        Change::read(record, short).map(|change| spec().cells(&change))
    }

    #[test]
    fn a_program_that_is_started_shows_its_arguments() {
        let mut short = ShortLived::new(1);
        let exec = record(&[9, EXEC, 7, 5, 1, 1000, 8], ["true", "bash"], b"true\0-x\0");
        let cells = line(&exec, &mut short).unwrap();
        let texts = ["exec", "true", "7", "bash", "1", "1000"].map(Cell::from);
        assert_eq!(cells[..6], texts);
        assert_eq!(cells[6..], [Cell::Unknown(()), Cell::Unknown(()), "true -x".into()]);
        let secret = record(&[9, EXEC, 7, 5, 1, 1000, 20], ["app", "bash"], b"app\0--token=x\0");
        assert_eq!(line(&secret, &mut short).unwrap()[8], "app --token=***".into());
        let unread = record(&[9, EXEC, 7, 5, 1, 1000, 8], ["true", "bash"], b"");
        assert_eq!(line(&unread, &mut short).unwrap()[8], Cell::Unknown(()));
        let long = record(&[9, EXEC, 7, 5, 1, 1000, 4000], ["true", "bash"], &[b'a'; 512]);
        assert_eq!(line(&long, &mut short).unwrap()[8], format!("{}…", "a".repeat(512)).into());
    }

    #[test]
    fn a_program_that_could_not_be_started_shows_its_path_and_the_error() {
        let failed = record(&[9, FAILED, 7, 5, 1, 0, 2], ["bash", "sshd"], b"/none\0");
        let cells = line(&failed, &mut ShortLived::new(1)).unwrap();
        assert_eq!((&cells[0], &cells[6], &cells[8]), (&"failed".into(), &"ENOENT".into(), &"/none".into()));
    }

    #[test]
    fn the_end_of_a_process_shows_how_it_ended_and_after_what_time() {
        let exit = record(&[2_000_000_000, EXIT, 7, 500_000_000, 1, 3 << 8, 0], ["sh", "bash"], b"");
        let cells = line(&exit, &mut ShortLived::new(1)).unwrap();
        assert_eq!((&cells[6], &cells[7]), (&"exit 3".into(), &1.5.into()));
        for (word, says) in [(0, "exit 0"), (9, "SIGKILL"), (11 | 0x80, "SIGSEGV, core dumped"), (40, "signal 40")] {
            assert_eq!(status(word), says);
        }
    }

    #[test]
    fn records_of_no_kind_are_nothing() {
        assert_eq!(line(&[], &mut ShortLived::new(1)), None);
        assert_eq!(line(&record(&[1, 99], ["", ""], b""), &mut ShortLived::new(1)), None);
    }
}
