//! `oomkill`: processes that the kernel kills because memory ran out.

use super::stream::{self, Events, Task};
use crate::def::{Context, GivesStacks, Probe, ProbeDef, Taken};
use crate::table::TableSpec;
use rdiag_kernel::host::Host;
use rdiag_kernel::mechanism::ebpf::{Hook, Object, include_bytes_aligned, words};
use rdiag_kernel::mechanism::symbols::{Symbols, calls};
use rdiag_model::probe::Output;
use rdiag_model::{Unavailable, Unit};

pub(super) static PROBE: ProbeDef = ProbeDef {
    id: "oomkill",
    question: "Which processes does the kernel kill because memory ran out, for whose sake, and at whose limit?",
    attach: "mark_victim, and signal_generate for what old kernels do not hand over there.",
    output: "A line for each process: seconds since the start, the victim with its control group and its pages of each kind, what had \
             run out, and the task whose request could not be met.",
    caveats: "Who asked at the wrong moment need not be who took the memory. What had run out is read from the functions that run: \
              `limit of a control group`, `host` (or the nodes that the task may use), `asked for` (SysRq). Pages of a \
              process are sums that its CPUs bring up to date in turn, a little too low. Since Linux 6.9 the task itself is \
              known; before, it is the one that was sent SIGKILL right before. Kills by systemd-oomd and the like are ordinary signals: \
              see killsnoop.",
    overhead: "One program run for each signal that is sent on the host, which ends at once unless it is SIGKILL from the kernel.",
    params: &[],
    filters: &[],
    streams: true,
    stacks: GivesStacks::Never,
    metrics: &[],
    start,
};

/// What the record holds, in words.
const LEVELS: usize = 8;
const LEVEL_BYTES: usize = 64;
const GROUP_AT: usize = 11 * 8;
const STACK_AT: usize = GROUP_AT + LEVELS * LEVEL_BYTES;
const DEPTH: usize = 48;

struct OomKill {
    object: Object,
    events: Events,
    symbols: Symbols,
    page_size: u64,
    records: Vec<Vec<u8>>,
}

/// Kills that are kept for a reading.
const MOST: usize = 1000;

fn start(context: &Context<'_>) -> Result<Box<dyn Probe>, Unavailable> {
    let bytes = include_bytes_aligned!(concat!(env!("CARGO_MANIFEST_DIR"), "/oomkill/oomkill.bpf.o"));
    let kernel = context.kernel()?;
    let mut object = kernel.load(bytes, context.filter.globals(context.host)?, &[])?;
    object.attach(kernel, Hook::Tracepoint("signal_generate"))?;
    object.attach(kernel, Hook::Tracepoint("mark_victim"))?;
    Ok(Box::new(OomKill {
        object,
        events: Events::new(context.host.now()),
        symbols: Symbols::new(context.host, Some(kernel)),
        page_size: context.host.facts().page_size,
        records: Vec::new(),
    }))
}

impl Probe for OomKill {
    fn object(&self) -> Option<&Object> {
        Some(&self.object)
    }

    fn poll(&mut self, host: &Host) -> Result<(), Unavailable> {
        let Self { object, symbols, records, .. } = self;
        object.drain("events", MOST, |record| {
            symbols.learn(host, None, calls(None, &stack(record)));
            records.push(record.to_vec());
        })?;
        Ok(())
    }

    fn read(&mut self, host: &Host) -> Result<Taken, Unavailable> {
        self.poll(host)?;
        self.symbols.settle(host);
        let Self { events, symbols, records, page_size, .. } = self;
        let spec = spec();
        for record in records.drain(..) {
            let stack = stack(&record);
            let names: Vec<&str> = calls(None, &stack).filter_map(|address| symbols.name(None, address)).collect();
            events.add(&record, &Killed::read(&record, cause(&names), *page_size), &spec);
        }
        let table = events.table(&spec);
        let lost = stream::lost(&mut self.object, &table)?;
        let notes = self.symbols.notes().map(str::to_owned).collect();
        Ok(Taken { outputs: vec![Output::Events(table)], lost, notes })
    }
}

/// The addresses of a record's stack, innermost first.
fn stack(record: &[u8]) -> Vec<u64> {
    let addresses = (0..DEPTH).map(|at| words::word(record, STACK_AT + at * 8));
    addresses.take_while(|address| *address != 0).collect()
}

/// What had run out, by the functions that ask for a victim.
fn cause(names: &[&str]) -> Option<&'static str> {
    let passes = |part: &str| names.iter().any(|name| name.starts_with(part));
    if passes("mem_cgroup_out_of_memory") {
        Some("limit of a control group")
    } else if passes("moom_callback") {
        Some("asked for")
    } else if passes("out_of_memory") {
        Some("host")
    } else {
        None
    }
}

/// The path of the control group; the kernel names the innermost one first, and the root `/` or nothing.
fn group(record: &[u8]) -> Option<String> {
    let level = |at: usize| {
        let from = GROUP_AT + at * LEVEL_BYTES;
        let bytes = record.get(from..from + LEVEL_BYTES).unwrap_or_default();
        let end = bytes.iter().position(|byte| *byte == 0).unwrap_or(bytes.len());
        String::from_utf8_lossy(bytes.get(..end).unwrap_or_default()).into_owned()
    };
    let names: Vec<String> = (0..LEVELS).map(level).take_while(|name| !name.is_empty() && name != "/").collect();
    let cut = if names.len() == LEVELS { "…" } else { "" };
    if names.is_empty() && level(0).is_empty() {
        return None;
    }
    Some(format!("{cut}/{}", names.iter().rev().map(String::as_str).collect::<Vec<_>>().join("/")))
}

/// A process that was killed.
struct Killed {
    pid: u64,
    /// Not known where nothing was read of it but its id.
    victim: Option<Victim>,
    cause: Option<&'static str>,
    group: Option<String>,
    /// Whose request could not be met.
    asked: Task,
}

/// What was read of the process; its memory in bytes.
struct Victim {
    name: String,
    anon: f64,
    file: f64,
    shmem: f64,
    adjusted: f64,
}

impl Killed {
    fn read(record: &[u8], cause: Option<&'static str>, page_size: u64) -> Self {
        let word = |at: usize| words::word(record, at * 8);
        let [anon, file, shmem] = [4, 5, 6].map(|at| word(at).cast_signed().max(0) as f64 * page_size as f64);
        let (task, adjusted) = (Task::read(record, 1, 7), word(3).cast_signed() as f64);
        let name = task.name();
        // Without its name nothing else of it was read.
        let victim = (!name.is_empty()).then_some(Victim { name, anon, file, shmem, adjusted });
        Self { pid: task.pid, victim, cause, group: group(record), asked: Task::read(record, 2, 9) }
    }

    fn of_victim(&self, figure: fn(&Victim) -> f64) -> Option<f64> {
        self.victim.as_ref().map(figure)
    }
}

fn spec() -> TableSpec<'static, Killed> {
    TableSpec::<Killed>::new("kills", "Processes killed for memory")
        .text("victim", "killed", |killed| killed.victim.as_ref().map(|victim| victim.name.clone()))
        .text("victim_pid", "pid", |killed| killed.pid.to_string())
        .text("cause", "what ran out", |killed| killed.cause.map(str::to_owned))
        .text("group", "its control group", |killed| killed.group.clone())
        .number("anon", "anonymous", Unit::Bytes, |killed| killed.of_victim(|victim| victim.anon))
        .number("file", "of files", Unit::Bytes, |killed| killed.of_victim(|victim| victim.file))
        .number("shmem", "shared", Unit::Bytes, |killed| killed.of_victim(|victim| victim.shmem))
        .number("adjusted", "oom_score_adj", Unit::Count, |killed| killed.of_victim(|victim| victim.adjusted))
        .text("name", "for the sake of", |killed| killed.asked.name())
        .text("pid", "its pid", |killed| killed.asked.pid.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use rdiag_model::probe::Cell;

    fn record(victim: [u8; 8], levels: &[&str]) -> Vec<u8> {
        let name = u64::from_ne_bytes(*b"importer");
        let words = [9, 7 << 32 | 7, 11 << 32 | 12, (-500_i64).cast_unsigned(), 100, 3, u64::MAX];
        let names = [u64::from_ne_bytes(victim), 0, name, 0];
        let mut record: Vec<u8> = words.iter().chain(&names).flat_map(|word: &u64| word.to_ne_bytes()).collect();
        for level in levels {
            record.extend(level.as_bytes());
            record.resize(record.len().next_multiple_of(8).max(record.len()), 0);
            record.resize(GROUP_AT + (record.len() - GROUP_AT).next_multiple_of(LEVEL_BYTES), 0);
        }
        record.resize(STACK_AT, 0);
        record.extend([77_u64, 78].iter().flat_map(|word| word.to_ne_bytes()));
        record.resize(STACK_AT + DEPTH * 8, 0);
        record
    }

    fn line(record: &[u8], cause: Option<&'static str>) -> Vec<Cell> {
        spec().cells(&Killed::read(record, cause, 4096))
    }

    #[test]
    fn a_victim_is_shown_with_its_memory_its_group_and_who_asked() {
        let record = record(*b"database", &["db.service", "system.slice", "/"]);
        let cells = line(&record, cause(&["x", "mem_cgroup_out_of_memory"]));
        let texts = ["database", "7", "limit of a control group", "/system.slice/db.service"];
        assert_eq!(cells[..4], texts.map(Cell::from));
        assert_eq!(cells[4..8], [409_600.0, 12_288.0, 0.0, -500.0].map(Cell::from));
        assert_eq!(cells[8..], ["importer", "11"].map(Cell::from));
        assert_eq!(stack(&record), [77, 78]);
    }

    #[test]
    fn what_is_not_known_of_a_victim_is_not_made_up() {
        let cells = line(&record([0; 8], &[]), cause(&[]));
        assert_eq!((&cells[0], &cells[1]), (&Cell::Unknown(()), &"7".into()));
        assert!(cells[2..8].iter().all(|cell| *cell == Cell::Unknown(())));
        assert_eq!(line(&[], cause(&["out_of_memory"]))[1..3], ["0", "host"].map(Cell::from));
        assert!(stack(&[1]).is_empty());
    }
}
