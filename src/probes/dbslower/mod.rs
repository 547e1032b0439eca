//! Statements of PostgreSQL and MariaDB that took long, as the servers' own functions are called for them.

mod servers;

use self::servers::Watched;
use super::stream::{self, Events};
use crate::def::{Context, FilterKind, GivesStacks, ParamDef, ParamKind, Probe, ProbeDef, Taken};
use crate::table::TableSpec;
use rdiag_kernel::host::Host;
use rdiag_kernel::mechanism::ebpf::{Global, Object, hist, include_bytes_aligned, words};
use rdiag_model::probe::{Histogram, Output};
use rdiag_model::{Reason, Unavailable, Unit};

pub(super) static PROBE: ProbeDef = ProbeDef {
    id: "dbslower",
    question: "Which statements of a PostgreSQL or MariaDB server take too long?",
    attach: "pgstat_report_activity of the program postgres, at entry: with it a process of the server tells which statement it begins, \
        and \
             that it is done. dispatch_command of the programs mariadbd and mysqld, at entry and return: a command of a client of MariaDB; \
             and the methods prepare and execute_loop of its Prepared_statement, at entry, for the texts.",
    output: "A line for each statement that took at least the threshold, when it ends: seconds since the start, process, how long it took, \
             its text. How long all statements took, as a distribution.",
    caveats: "PostgreSQL, and MariaDB whose functions are those of 10.11; of MySQL, whose functions differ, ask the slow query log. The \
        text is \
             cut at 255 bytes, with blanks between words made one; prepared statements have $1 (MariaDB: ?) in place of values. The time \
             is \
             that of the server's process or thread, from the text to its end: waiting for locks, disks and a client that does not take \
             its \
             rows is in it, the way to the client is not. What is sent as one text is one statement. What was running when the probe began \
             is \
             not seen. PostgreSQL: several of the same text in a pipeline are one; several parts of a statement that a client sends with \
             pauses \
             are timed with these. MariaDB: preparing a statement, and fetching the rows of a cursor, is not counted; one that was \
             prepared \
             before the probe began has a number instead of a text; with thread_handling=pool-of-threads, one that waits for its commit to \
             be \
             written may be told in two parts.",
    overhead: "A process of PostgreSQL stops once when a statement begins (three times in the extended protocol) and once when it ends; a \
               thread of MariaDB when a command begins and ends, and once more when a statement is prepared or such a one is executed. \
               None \
               of the work in between is touched.",
    params: &[
        ParamDef {
            name: "threshold",
            kind: ParamKind::Duration,
            default: "10ms",
            help: "only statements that took at least so long",
        },
        ParamDef {
            name: "program",
            kind: ParamKind::Text,
            default: "",
            help: "the server's program (/usr/lib/postgresql/17/bin/postgres); without it those of all processes named postgres, mariadbd, \
                mysqld",
        },
    ],
    filters: &[FilterKind::Pid, FilterKind::Cgroup],
    streams: true,
    stacks: GivesStacks::Never,
    metrics: &[],
    start,
};

/// So many texts of prepared statements are kept (2.3 MB).
const TEXTS: u32 = 8192;
/// The number by which clients of MariaDB name the statement that they prepared last.
const LAST: u64 = u32::MAX as u64;
/// Where the text stands in a record, in bytes.
const TEXT_AT: usize = 32;

struct DbSlower {
    object: Object,
    events: Events,
    notes: Vec<String>,
}

fn start(context: &Context<'_>) -> Result<Box<dyn Probe>, Unavailable> {
    let bytes = include_bytes_aligned!(concat!(env!("CARGO_MANIFEST_DIR"), "/dbslower/dbslower.bpf.o"));
    let host = context.host;
    if context.filter.command.is_some() {
        let why =
            "a server answers from processes that it starts, and of a command only its own process is looked into";
        return Err(Unavailable::new(Reason::NotApplicable, why)
            .with_remedy("start the server, then look at all servers, or at one with --pid"));
    }
    let mut globals = context.filter.globals(host)?;
    globals.push(Global::u64("threshold", context.params.nanoseconds("threshold")));
    let servers = match context.params.text("program") {
        Some(program) => servers::of_program(host, program, context.filter.pids.first().copied())?,
        None => servers::of_running(host, &context.filter.pids)?,
    };
    let texts = if servers.prepare() { TEXTS } else { 1 };
    let mut object = context.kernel()?.load(bytes, globals, &[("texts", texts)])?;
    for Watched { programs, moments, point } in &servers.watched {
        object.attach_point_to(host, programs, point, *moments, &context.filter.pids)?;
    }
    Ok(Box::new(DbSlower { object, events: Events::new(host.now()), notes: servers.notes }))
}

impl Probe for DbSlower {
    fn object(&self) -> Option<&Object> {
        Some(&self.object)
    }

    fn poll(&mut self, _: &Host) -> Result<(), Unavailable> {
        self.events.drain(&mut self.object, &spec(), |record| Some(Statement::read(record)))
    }

    fn read(&mut self, host: &Host) -> Result<Taken, Unavailable> {
        self.poll(host)?;
        let table = self.events.table(&spec());
        let histogram = Histogram {
            id: "all".into(),
            title: "Time of all statements".into(),
            unit: Unit::Seconds,
            dimension: None,
            rows: vec![hist::row("", &self.object.take_hist("all", 0)?, 1e-9)],
        };
        let lost = stream::lost(&mut self.object, &table)?;
        Ok(Taken {
            outputs: vec![Output::Events(table), Output::Histogram(histogram)],
            lost,
            notes: self.notes.clone(),
        })
    }
}

/// A statement that has ended.
struct Statement {
    pid: u64,
    /// Nanoseconds.
    took: u64,
    text: String,
}

impl Statement {
    fn read(record: &[u8]) -> Self {
        let [ids, took, prepared] = [1, 2, 3].map(|at| words::word(record, at * 8));
        let text = words::text(record.get(TEXT_AT..).unwrap_or_default());
        let mut text = text.split_whitespace().collect::<Vec<_>>().join(" ");
        if text.is_empty() && prepared != 0 {
            text = match prepared {
                LAST => "(the statement prepared last)".into(),
                number => format!("(prepared statement {number})"),
            };
        }
        Self { pid: ids >> 32, took, text }
    }
}

fn spec() -> TableSpec<'static, Statement> {
    TableSpec::<Statement>::new("statements", "Slow statements")
        .text("pid", "pid", |statement| statement.pid.to_string())
        .number("took", "took", Unit::Seconds, |statement| statement.took as f64 * 1e-9)
        .text("statement", "statement", |statement| statement.text.clone())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(prepared: u64, text: &[u8]) -> Vec<u8> {
        let words = [9, 7 << 32 | 8, 250_000_000_u64, prepared];
        words.iter().flat_map(|word| word.to_ne_bytes()).chain(text.iter().copied()).collect()
    }

    #[test]
    fn a_statement_is_one_line_of_its_words_or_its_number() {
        let took = 250_000_000.0 * 1e-9;
        let row = |prepared, text| spec().cells(&Statement::read(&record(prepared, text)));
        assert_eq!(row(0, b"select *\n   from orders\0rest"), ["7".into(), took.into(), "select * from orders".into()]);
        let text = |prepared, text| row(prepared, text).pop();
        assert_eq!(text(3, b"select ?\0"), Some("select ?".into()));
        assert_eq!(text(3, b"\0"), Some("(prepared statement 3)".into()));
        assert_eq!(text(0xffff_ffff, b""), Some("(the statement prepared last)".into()));
        assert_eq!(text(0, b""), Some("".into()));
        assert_eq!(spec().cells(&Statement::read(&[])), ["0".into(), 0.0.into(), "".into()]);
    }
}
