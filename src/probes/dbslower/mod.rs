//! Statements of PostgreSQL that took long, as its processes report them to the server.

use std::collections::BTreeMap;

use super::stream::{self, Events};
use super::{Context, FilterKind, GivesStacks, ParamDef, ParamKind, Probe, ProbeDef, Taken};
use crate::host::Host;
use crate::mechanism::ebpf::{Global, Moments, Object, hist, include_bytes_aligned, words};
use crate::mechanism::points::{self, Point};
use crate::model::probe::{Cell, Column, Histogram, Output};
use crate::model::{Reason, Unavailable, Unit};

pub(super) static PROBE: ProbeDef = ProbeDef {
    id: "dbslower",
    question: "Which statements of a PostgreSQL server take too long?",
    attach: "pgstat_report_activity of the program postgres, at entry: with it a process of the server tells which statement it begins, and \
             that it is done.",
    output: "A line for each statement that took at least the threshold, when it ends: seconds since the start, process, how long it took, \
             its text. How long all statements took, as a distribution.",
    caveats: "PostgreSQL only; of MySQL and MariaDB ask their slow query log. The text is cut at 255 bytes, with blanks between words made \
              one; statements of the extended protocol have $1 in place of values. The time is that of the server's process, from the text to \
              the report that it is idle: waiting for locks, disks and a client that does not take its rows is in it, the way to the client \
              is not. What is sent as one text is one statement, and so are several of the same text in a pipeline. What was running when \
              the probe began is not seen. Several parts of a statement that a client sends with pauses are timed with these.",
    overhead: "A server process stops once when a statement begins (three times in the extended protocol) and once when it ends; none of the \
               work in between is touched.",
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
            help: "the server's program (/usr/lib/postgresql/17/bin/postgres); without it that of each process named postgres",
        },
    ],
    filters: &[FilterKind::Pid, FilterKind::Cgroup],
    streams: true,
    stacks: GivesStacks::Never,
    metrics: &[],
    start,
};

/// What a process of the server calls.
const REPORTS: &str = "pgstat_report_activity";
/// The name of the server's processes.
const SERVER: &str = "postgres";
/// As many different programs of servers are watched: versions, and containers.
const PROGRAMS: usize = 16;
/// Where the text stands in a record, in bytes.
const TEXT_AT: usize = 24;

struct DbSlower {
    object: Object,
    events: Events,
}

fn start(context: &Context<'_>) -> Result<Box<dyn Probe>, Unavailable> {
    let bytes = include_bytes_aligned!(concat!(env!("CARGO_MANIFEST_DIR"), "/src/probes/dbslower/dbslower.bpf.o"));
    let host = context.host;
    let mut globals = context.filter.globals(host)?;
    globals.push(Global::u64("threshold", context.params.nanoseconds("threshold")));
    let points = match context.params.text("program") {
        Some(program) => reports(host, program, context.filter.pids.first().copied())?,
        None => of_running(host, &context.filter.pids)?,
    };
    let mut object = context.kernel()?.load(bytes, globals, &[])?;
    for point in points {
        object.attach_point_to(host, "activity", &point, Moments::Entry, &context.filter.pids)?;
    }
    Ok(Box::new(DbSlower { object, events: Events::new(host.now()) }))
}

/// The function by which a program reports.
fn reports(host: &Host, program: &str, process: Option<u32>) -> Result<Vec<Point>, Unavailable> {
    points::functions(host, &format!("{program}:{REPORTS}"), process).map_err(points::PointError::gap)
}

/// The same of all servers that run, or of those processes that are wanted. A program is known by its path and the mounts that its
/// process sees, so that it is searched once.
fn of_running(host: &Host, wanted: &[u32]) -> Result<Vec<Point>, Unavailable> {
    let mut ids = wanted.to_vec();
    if ids.is_empty() {
        host.processes()?.list("", &mut ids)?;
        ids.retain(|pid| host.read_line(&format!("proc/{pid}/comm")).is_ok_and(|name| name == SERVER));
    }
    let program = |pid: &u32| {
        let link = |name: &str| host.link(&format!("proc/{pid}/{name}")).ok();
        Some(((link("exe")?, link("ns/mnt")?), *pid))
    };
    let programs: BTreeMap<(String, String), u32> = ids.iter().filter_map(program).collect();
    if programs.is_empty() {
        let why = format!("no process named {SERVER} runs, so there is no server to look at");
        return Err(Unavailable::new(Reason::Absent, why)
            .with_remedy("start it, or name its program: --param program=/usr/lib/postgresql/17/bin/postgres"));
    }
    let mut points = Vec::new();
    for ((path, _), pid) in programs.into_iter().take(PROGRAMS) {
        points.extend(reports(host, &path, Some(pid))?);
    }
    Ok(points)
}

impl Probe for DbSlower {
    fn object(&self) -> Option<&Object> {
        Some(&self.object)
    }

    fn poll(&mut self, _: &Host) -> Result<(), Unavailable> {
        self.events.drain(&mut self.object, |record| Some(line(record)))
    }

    fn read(&mut self, host: &Host) -> Result<Taken, Unavailable> {
        self.poll(host)?;
        let table = self.events.table("statements", "Slow statements", &columns());
        let histogram = Histogram {
            id: "all".into(),
            title: "Time of all statements".into(),
            unit: Unit::Seconds,
            dimension: None,
            rows: vec![hist::row("", &self.object.take_hist("all", 0)?, 1e-9)],
        };
        let lost = stream::lost(&mut self.object, &table)?;
        Ok(Taken { outputs: vec![Output::Events(table), Output::Histogram(histogram)], lost, ..Taken::default() })
    }
}

fn columns() -> [Column; 3] {
    [Column::text("pid", "pid"), Column::number("took", "took", Unit::Seconds), Column::text("statement", "statement")]
}

fn line(record: &[u8]) -> Vec<Cell> {
    let word = |at: usize| words::word(record, at * 8);
    let text = words::text(record.get(TEXT_AT..).unwrap_or_default());
    let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
    vec![(word(1) >> 32).to_string().into(), (word(2) as f64 * 1e-9).into(), text.into()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_statement_is_one_line_of_its_words() {
        let mut record: Vec<u8> =
            [9, 7 << 32 | 7, 250_000_000_u64].iter().flat_map(|word| word.to_ne_bytes()).collect();
        record.extend(b"select *\n   from orders\0rest");
        let took = 250_000_000.0 * 1e-9;
        assert_eq!(line(&record), ["7".into(), took.into(), "select * from orders".into()]);
        assert_eq!(line(&[]).len(), columns().len());
    }
}
