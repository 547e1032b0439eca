//! The ledger as tables, for `rdiag probe response`.

use std::collections::BTreeMap;

use rdiag_model::ledger::{Call, Durations, Thread, WakerKind};
use rdiag_model::probe::{Cell, Column, Output, ProbeTable, Row};
use rdiag_model::{Component, Ledger, Unit, quantity};

/// What several parts add up to.
#[derive(Debug, Clone)]
struct Sum {
    seconds: f64,
    open: u64,
    durations: Option<Durations>,
}

impl Default for Sum {
    fn default() -> Self {
        Self { seconds: 0.0, open: 0, durations: Some(Durations::default()) }
    }
}

impl Sum {
    fn add(&mut self, seconds: f64, open: u64, durations: Option<&Durations>) {
        self.seconds += seconds;
        self.open = self.open.saturating_add(open);
        match (&mut self.durations, durations) {
            (Some(sum), Some(durations)) => sum.add(durations),
            (sum, _) => *sum = None,
        }
    }

    /// Time, share of the whole, number, mean, longest.
    fn cells(&self, whole: f64) -> Vec<Cell> {
        let durations = self.durations.as_ref();
        vec![
            self.seconds.into(),
            (self.seconds / whole.max(1e-9)).into(),
            known(durations.map(|durations| durations.count.saturating_add(self.open) as f64)),
            known(durations.and_then(Durations::mean)),
            known(durations.filter(|durations| durations.count > 0).map(|durations| durations.max)),
        ]
    }
}

fn known(value: Option<f64>) -> Cell {
    value.map_or(Cell::Unknown(()), Cell::Number)
}

fn sum_columns(mut first: Vec<Column>) -> Vec<Column> {
    first.extend([
        Column::number("time", "time", Unit::Seconds),
        Column::number("share", "share", Unit::Ratio),
        Column::number("count", "times", Unit::Count),
        Column::number("mean", "mean", Unit::Seconds),
        Column::number("longest", "longest", Unit::Seconds),
    ]);
    first
}

/// All tables of a ledger, at most `top` rows each.
pub(super) fn tables(ledger: &Ledger, top: usize) -> Vec<Output> {
    let whole: f64 = ledger.threads.iter().map(|thread| thread.seconds).sum();
    let tables = [
        components(ledger, whole),
        limited(details(ledger, whole), top),
        limited(calls(ledger), top),
        limited(threads(ledger), top),
        limited(wakers(ledger), top),
    ];
    tables.into_iter().filter(|table| !table.rows.is_empty()).map(Output::Table).collect()
}

/// The whole time of the observed threads, each second once.
fn components(ledger: &Ledger, whole: f64) -> ProbeTable {
    let mut sums: BTreeMap<Component, Sum> = BTreeMap::new();
    for part in ledger.threads.iter().flat_map(|thread| &thread.parts) {
        sums.entry(part.component).or_default().add(part.seconds, part.open, part.durations.as_ref());
    }
    let mut sums: Vec<_> = sums.into_iter().collect();
    sums.sort_by(|(_, a), (_, b)| b.seconds.total_cmp(&a.seconds));
    let mut table = ProbeTable {
        id: "components".into(),
        title: "Where the time of the observed threads went".into(),
        dimension: Some("component".into()),
        columns: sum_columns(vec![Column::text("component", "component"), Column::text("what", "the thread was")]),
        ..ProbeTable::default()
    };
    for (component, sum) in sums {
        let mut cells = vec![component.id().into(), component.def().title.into()];
        cells.extend(sum.cells(whole));
        table.rows.push(Row { instance: component.id().into(), cells });
    }
    let (beyond, followed): (Vec<&Thread>, Vec<&Thread>) =
        ledger.threads.iter().partition(|thread| thread.is_not_followed());
    let (missing, double) = residuals(&followed);
    let unseen: f64 = beyond.iter().map(|thread| thread.seconds).sum();
    let number: u64 = beyond.iter().map(|thread| u64::from(thread.stands_for)).sum();
    for (name, what, seconds) in [
        ("unaccounted", "of which nothing is known".to_owned(), missing),
        ("over-accounted", "counted twice".to_owned(), double),
        ("not followed", format!("of {number} threads beyond the limit"), unseen),
    ] {
        if seconds > whole * 1e-6 {
            let mut cells = vec![name.into(), what.into(), seconds.into(), (seconds / whole.max(1e-9)).into()];
            cells.extend([Cell::Unknown(()), Cell::Unknown(()), Cell::Unknown(())]);
            table.rows.push(Row { instance: name.into(), cells });
        }
    }
    table
}

/// Seconds that are missing from threads, and that threads have too many of; these do not make up for each other.
fn residuals(threads: &[&Thread]) -> (f64, f64) {
    let residual = |thread: &&Thread| thread.seconds - thread.parts.iter().map(|part| part.seconds).sum::<f64>();
    threads
        .iter()
        .map(residual)
        .fold((0.0, 0.0), |(missing, double), rest| (missing + rest.max(0.0), double + (-rest).max(0.0)))
}

/// What the components are made of: calls and what they were about.
fn details(ledger: &Ledger, whole: f64) -> ProbeTable {
    let mut sums: BTreeMap<(Component, &str, &str), Sum> = BTreeMap::new();
    for part in ledger.threads.iter().flat_map(|thread| &thread.parts) {
        if part.call.is_empty() && part.key.is_empty() {
            continue;
        }
        let sum = sums.entry((part.component, &part.call, &part.key)).or_default();
        sum.add(part.seconds, part.open, part.durations.as_ref());
    }
    let mut sums: Vec<_> = sums.into_iter().collect();
    sums.sort_by(|(_, a), (_, b)| b.seconds.total_cmp(&a.seconds));
    let mut table = ProbeTable {
        id: "waits".into(),
        title: "Waits by call and object".into(),
        dimension: Some("wait".into()),
        columns: sum_columns(vec![
            Column::text("component", "component"),
            Column::text("call", "in"),
            Column::text("key", "for"),
        ]),
        ..ProbeTable::default()
    };
    for ((component, call, key), sum) in sums {
        let mut cells = vec![component.id().into(), call.into(), key.into()];
        cells.extend(sum.cells(whole));
        table.rows.push(Row { instance: format!("{} {call} {key}", component.id()), cells });
    }
    table
}

fn calls(ledger: &Ledger) -> ProbeTable {
    let title = ledger.calls_share.map_or_else(
        || "System calls, with what they waited for in them".to_owned(),
        |share| {
            format!("System calls as {} of the time tell, with what they waited for in them", quantity::percent(share))
        },
    );
    let mut table = ProbeTable {
        id: "calls".into(),
        title,
        dimension: Some("call".into()),
        columns: vec![
            Column::text("call", "call"),
            Column::number("count", "calls", Unit::Count),
            Column::number("errors", "errors", Unit::Count),
            Column::number("time", "time", Unit::Seconds),
            Column::number("on_cpu", "on CPU", Unit::Seconds),
            Column::number("mean", "mean", Unit::Seconds),
            Column::number("longest", "longest", Unit::Seconds),
            Column::number("open", "under way at an edge", Unit::Count),
            Column::text("errnos", "errors by name"),
        ],
        ..ProbeTable::default()
    };
    for (name, call) in by_name(&ledger.calls) {
        let errors = call.errors.values().fold(0_u64, |sum, count| sum.saturating_add(*count));
        let names: Vec<String> = call.errors.iter().map(|(name, count)| format!("{name} {count}")).collect();
        let durations = call.durations.as_ref();
        let cells = vec![
            name.clone().into(),
            (call.count as f64).into(),
            (errors as f64).into(),
            call.seconds.into(),
            known(call.on_cpu_seconds),
            known(durations.and_then(Durations::mean)),
            known(durations.filter(|durations| durations.count > 0).map(|durations| durations.max)),
            (call.open as f64).into(),
            names.join(", ").into(),
        ];
        table.rows.push(Row { instance: name, cells });
    }
    table
}

/// The calls of the whole time, longest first.
fn by_name(calls: &[Call]) -> Vec<(String, Call)> {
    let mut named: Vec<(String, Call)> = Vec::new();
    for call in calls.iter().map(Call::in_whole) {
        let name = if call.on.is_empty() { call.name.clone() } else { format!("{}({})", call.name, call.on) };
        match named.iter_mut().find(|(known, _)| *known == name) {
            Some((_, known)) => known.add(&call),
            None => named.push((name, call)),
        }
    }
    named.sort_by(|(_, a), (_, b)| b.seconds.total_cmp(&a.seconds));
    named
}

fn threads(ledger: &Ledger) -> ProbeTable {
    let mut table = ProbeTable {
        id: "threads".into(),
        title: "Threads by time on a CPU".into(),
        dimension: Some("thread".into()),
        columns: vec![
            Column::text("name", "thread"),
            Column::text("pid", "pid"),
            Column::text("tid", "tid"),
            Column::number("observed", "observed", Unit::Seconds),
            Column::number("cpu", "on CPU", Unit::Seconds),
            Column::number("runnable", "waiting for CPU", Unit::Seconds),
            Column::number("blocked", "blocked", Unit::Seconds),
            Column::text("mostly", "mostly"),
        ],
        ..ProbeTable::default()
    };
    let mut rows: Vec<(f64, Row)> = ledger.threads.iter().map(thread).collect();
    rows.sort_by(|(a, _), (b, _)| b.total_cmp(a));
    table.rows = rows.into_iter().map(|(_, row)| row).collect();
    table
}

/// A row with the seconds by which it is sorted.
fn thread(thread: &Thread) -> (f64, Row) {
    let sum = |of: fn(Component) -> bool| -> f64 {
        thread.parts.iter().filter(|part| of(part.component)).fold(0.0, |sum, part| sum + part.seconds)
    };
    let cpu = sum(Component::on_cpu);
    let most = thread.parts.iter().max_by(|a, b| a.seconds.total_cmp(&b.seconds));
    let cells = vec![
        thread.comm.clone().into(),
        thread.pid.to_string().into(),
        thread.tid.to_string().into(),
        thread.seconds.into(),
        cpu.into(),
        sum(Component::runnable).into(),
        sum(|component| !component.on_cpu() && !component.runnable()).into(),
        most.map_or("", |part| part.component.id()).into(),
    ];
    (cpu, Row { instance: format!("{}:{}:{:.9}", thread.pid, thread.tid, thread.began), cells })
}

fn wakers(ledger: &Ledger) -> ProbeTable {
    let mut table = ProbeTable {
        id: "wakers".into(),
        title: "Who ended the waits".into(),
        dimension: Some("waker".into()),
        columns: vec![
            Column::text("component", "component"),
            Column::text("name", "ended by"),
            Column::text("tid", "tid"),
            Column::number("time", "time", Unit::Seconds),
            Column::number("count", "times", Unit::Count),
        ],
        ..ProbeTable::default()
    };
    for edge in &ledger.wakers {
        let waker = &edge.waker;
        let (name, tid) = match waker.kind {
            WakerKind::Thread => (waker.comm.clone(), waker.tid.to_string()),
            WakerKind::Interrupt if waker.comm.is_empty() => ("interrupt".to_owned(), String::new()),
            WakerKind::Interrupt => (format!("interrupt ({})", waker.comm), String::new()),
            WakerKind::Unknown => ("not known".to_owned(), String::new()),
        };
        let instance = format!("{} {name} {tid}", edge.component.id());
        let cells =
            vec![edge.component.id().into(), name.into(), tid.into(), edge.seconds.into(), (edge.count as f64).into()];
        table.rows.push(Row { instance, cells });
    }
    table
}

/// At most so many rows; times and numbers of the others are summed up.
fn limited(mut table: ProbeTable, top: usize) -> ProbeTable {
    if table.rows.len() <= top {
        return table;
    }
    let rest = table.rows.split_off(top);
    table.others = rest.len() as u64;
    for row in rest {
        for (column, cell) in table.columns.iter().zip(row.cells) {
            let additive = ["time", "count", "errors", "share", "on_cpu", "observed", "cpu", "runnable", "blocked"];
            if let Some(number) = cell.number().filter(|_| additive.contains(&column.id.as_str())) {
                *table.others_sum.entry(column.id.clone()).or_default() += number;
            }
        }
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;
    use rdiag_model::ledger::{Accuracy, Part};

    fn part(component: Component, call: &str, seconds: f64, count: u64) -> Part {
        let durations = Durations { count, seconds, min: 0.0, max: seconds, buckets: Vec::new() };
        Part {
            component,
            call: call.into(),
            key: String::new(),
            seconds,
            accuracy: Accuracy::Exact,
            edge_seconds: 0.0,
            open: 1,
            durations: Some(durations),
        }
    }

    fn ledger() -> Ledger {
        let thread = |tid, seconds, parts| Thread { tid, pid: 7, seconds, parts, stands_for: 1, ..Thread::default() };
        Ledger {
            threads: vec![
                thread(7, 10.0, vec![part(Component::CpuUser, "", 4.0, 0), part(Component::IpcPipe, "read", 5.0, 4)]),
                thread(8, 10.0, vec![part(Component::IpcPipe, "read", 11.0, 1)]),
            ],
            calls: vec![Call {
                name: "read".into(),
                on: "pipe".into(),
                count: 5,
                errors: [("EAGAIN".to_owned(), 2)].into(),
                seconds: 16.5,
                ..Call::default()
            }],
            ..Ledger::default()
        }
    }

    fn table(tables: &[Output], id: &str) -> ProbeTable {
        let tables = tables.iter().filter_map(|output| match output {
            Output::Table(table) => Some(table),
            _ => None,
        });
        tables.into_iter().find(|table| table.id == id).cloned().unwrap()
    }

    #[test]
    fn components_and_what_is_missing_stand_apart_from_what_is_counted_twice() {
        let tables = tables(&ledger(), 10);
        let components = table(&tables, "components");
        let row = |at: usize| (components.rows[at].instance.clone(), components.rows[at].cells[2].number().unwrap());
        assert_eq!([row(0), row(1)], [("ipc.pipe".to_owned(), 16.0), ("cpu.user".to_owned(), 4.0)]);
        assert_eq!([row(2), row(3)], [("unaccounted".to_owned(), 1.0), ("over-accounted".to_owned(), 1.0)]);
        assert_eq!(components.rows[0].cells[4].number(), Some(7.0), "those at an edge count as well");
        let calls = table(&tables, "calls");
        assert_eq!(calls.rows[0].instance, "read(pipe)");
        assert_eq!(calls.rows[0].cells[2].number(), Some(2.0));
    }

    #[test]
    fn threads_that_found_no_room_are_a_line_of_their_own() {
        let mut ledger = ledger();
        let beyond = super::super::fill::not_followed((276, 349_000_000_000), 2.0).unwrap();
        assert_eq!(super::super::fill::not_followed((0, 0), 2.0), None);
        ledger.threads.push(beyond);
        let components = table(&tables(&ledger, 10), "components");
        let row = components.rows.iter().find(|row| row.instance == "not followed").unwrap();
        assert_eq!(row.cells[1], "of 276 threads beyond the limit".into());
        assert_eq!(row.cells[2].number(), Some(349.0));
        let unaccounted = components.rows.iter().find(|row| row.instance == "unaccounted").unwrap();
        assert_eq!(unaccounted.cells[2].number(), Some(1.0), "which is not part of it");
    }

    #[test]
    fn rows_beyond_the_limit_are_summed_up() {
        let threads = table(&tables(&ledger(), 1), "threads");
        assert_eq!((threads.rows.len(), threads.others), (1, 1));
        assert_eq!(threads.others_sum["observed"], 10.0);
    }
}
