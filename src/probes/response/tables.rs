//! The ledger as tables, for `rdiag probe response`.

use std::collections::BTreeMap;

use crate::table::TableSpec;
use rdiag_model::ledger::{Call, Durations, Thread, WakerEdge, WakerKind};
use rdiag_model::probe::{Output, ProbeTable};
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

    fn count(&self) -> Option<f64> {
        self.durations.as_ref().map(|durations| durations.count.saturating_add(self.open) as f64)
    }
}

/// Appends time, share of the whole, number, mean, longest.
fn with_sums<'c, R: 'c>(spec: TableSpec<'c, R>, whole: f64, sum: fn(&R) -> &Sum) -> TableSpec<'c, R> {
    spec.sum("time", "time", Unit::Seconds, move |row| sum(row).seconds)
        .sum("share", "share", Unit::Ratio, move |row| sum(row).seconds / whole.max(1e-9))
        .sum("count", "times", Unit::Count, move |row| sum(row).count())
        .number("mean", "mean", Unit::Seconds, move |row| sum(row).durations.as_ref().and_then(Durations::mean))
        .number("longest", "longest", Unit::Seconds, move |row| longest(sum(row).durations.as_ref()))
}

fn longest(durations: Option<&Durations>) -> Option<f64> {
    durations.filter(|durations| durations.count > 0).map(|durations| durations.max)
}

/// All tables of a ledger, at most `top` rows each.
pub(super) fn tables(ledger: &Ledger, top: usize) -> Vec<Output> {
    let whole: f64 = ledger.threads.iter().map(|thread| thread.seconds).sum();
    let tables = [
        components(ledger, whole),
        details(ledger, whole, top),
        calls(ledger, top),
        threads(ledger, top),
        wakers(ledger, top),
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
    let row = |(component, sum): (Component, Sum)| (component.id(), component.def().title.to_owned(), sum);
    let mut rows: Vec<(&str, String, Sum)> = sums.into_iter().map(row).collect();
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
            rows.push((name, what, Sum { seconds, open: 0, durations: None }));
        }
    }
    let spec = TableSpec::<(&str, String, Sum)>::new("components", "Where the time of the observed threads went")
        .rows("component", |(name, ..)| (*name).to_owned())
        .text("component", "component", |(name, ..)| (*name).to_owned())
        .text("what", "the thread was", |(_, what, _)| what.clone());
    with_sums(spec, whole, |(.., sum)| sum).all(rows)
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
fn details(ledger: &Ledger, whole: f64, top: usize) -> ProbeTable {
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
    let spec = TableSpec::<((Component, &str, &str), Sum)>::new("waits", "Waits by call and object")
        .rows("wait", |((component, call, key), _)| format!("{} {call} {key}", component.id()))
        .text("component", "component", |((component, ..), _)| component.id().to_owned())
        .text("call", "in", |((_, call, _), _)| (*call).to_owned())
        .text("key", "for", |((.., key), _)| (*key).to_owned());
    with_sums(spec, whole, |(_, sum)| sum).top(sums, top)
}

fn calls(ledger: &Ledger, top: usize) -> ProbeTable {
    let title = ledger.calls_share.map_or_else(
        || "System calls, with what they waited for in them".to_owned(),
        |share| {
            format!("System calls as {} of the time tell, with what they waited for in them", quantity::percent(share))
        },
    );
    let errors = |call: &Call| call.errors.values().fold(0_u64, |sum, count| sum.saturating_add(*count));
    let errnos =
        |call: &Call| -> Vec<String> { call.errors.iter().map(|(name, count)| format!("{name} {count}")).collect() };
    TableSpec::<(String, Call)>::new("calls", title)
        .rows("call", |(name, _)| name.clone())
        .text("call", "call", |(name, _)| name.clone())
        .sum("count", "calls", Unit::Count, |(_, call)| call.count as f64)
        .sum("errors", "errors", Unit::Count, move |(_, call)| errors(call) as f64)
        .sum("time", "time", Unit::Seconds, |(_, call)| call.seconds)
        .sum("on_cpu", "on CPU", Unit::Seconds, |(_, call)| call.on_cpu_seconds)
        .number("mean", "mean", Unit::Seconds, |(_, call)| call.durations.as_ref().and_then(Durations::mean))
        .number("longest", "longest", Unit::Seconds, |(_, call)| longest(call.durations.as_ref()))
        .number("open", "under way at an edge", Unit::Count, |(_, call)| call.open as f64)
        .text("errnos", "errors by name", move |(_, call)| errnos(call).join(", "))
        .top(by_name(&ledger.calls), top)
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

fn threads(ledger: &Ledger, top: usize) -> ProbeTable {
    let seconds = |thread: &Thread, of: fn(Component) -> bool| -> f64 {
        thread.parts.iter().filter(|part| of(part.component)).fold(0.0, |sum, part| sum + part.seconds)
    };
    let mostly = |thread: &Thread| {
        let most = thread.parts.iter().max_by(|a, b| a.seconds.total_cmp(&b.seconds));
        most.map_or("", |part| part.component.id()).to_owned()
    };
    let blocked: fn(Component) -> bool = |component| !component.on_cpu() && !component.runnable();
    let mut rows: Vec<(f64, &Thread)> =
        ledger.threads.iter().map(|thread| (seconds(thread, Component::on_cpu), thread)).collect();
    rows.sort_by(|(a, _), (b, _)| b.total_cmp(a));
    TableSpec::<(f64, &Thread)>::new("threads", "Threads by time on a CPU")
        .rows("thread", |(_, thread)| format!("{}:{}:{:.9}", thread.pid, thread.tid, thread.began))
        .text("name", "thread", |(_, thread)| thread.comm.clone())
        .text("pid", "pid", |(_, thread)| thread.pid.to_string())
        .text("tid", "tid", |(_, thread)| thread.tid.to_string())
        .sum("observed", "observed", Unit::Seconds, |(_, thread)| thread.seconds)
        .sum("cpu", "on CPU", Unit::Seconds, |(cpu, _)| *cpu)
        .sum("runnable", "waiting for CPU", Unit::Seconds, move |(_, thread)| seconds(thread, Component::runnable))
        .sum("blocked", "blocked", Unit::Seconds, move |(_, thread)| seconds(thread, blocked))
        .text("mostly", "mostly", move |(_, thread)| mostly(thread))
        .top(rows, top)
}

fn wakers(ledger: &Ledger, top: usize) -> ProbeTable {
    TableSpec::<(&WakerEdge, String, String)>::new("wakers", "Who ended the waits")
        .rows("waker", |(edge, name, tid)| format!("{} {name} {tid}", edge.component.id()))
        .text("component", "component", |(edge, ..)| edge.component.id().to_owned())
        .text("name", "ended by", |(_, name, _)| name.clone())
        .text("tid", "tid", |(.., tid)| tid.clone())
        .sum("time", "time", Unit::Seconds, |(edge, ..)| edge.seconds)
        .sum("count", "times", Unit::Count, |(edge, ..)| edge.count as f64)
        .top(ledger.wakers.iter().map(named), top)
}

/// With the waker's name and thread.
fn named(edge: &WakerEdge) -> (&WakerEdge, String, String) {
    let waker = &edge.waker;
    let (name, tid) = match waker.kind {
        WakerKind::Thread => (waker.comm.clone(), waker.tid.to_string()),
        WakerKind::Interrupt if waker.comm.is_empty() => ("interrupt".to_owned(), String::new()),
        WakerKind::Interrupt => (format!("interrupt ({})", waker.comm), String::new()),
        WakerKind::Unknown => ("not known".to_owned(), String::new()),
    };
    (edge, name, tid)
}

#[cfg(test)]
mod tests {
    use super::*;
    use rdiag_model::ledger::{Accuracy, Part, Waker};
    use rdiag_model::probe::Cell;

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

    /// With two rows in each table.
    fn of_two() -> Ledger {
        let mut ledger = ledger();
        ledger.threads[1].parts.push(part(Component::IpcPipe, "write", 1.0, 1));
        ledger.calls.push(Call { name: "poll".into(), on_cpu_seconds: Some(0.25), open: 1, ..Call::default() });
        let waker = Waker { kind: WakerKind::Interrupt, comm: "timer".into(), ..Waker::default() };
        let edge = WakerEdge { component: Component::IpcPipe, waker, seconds: 2.0, count: 3 };
        ledger.wakers = vec![edge.clone(), edge];
        ledger
    }

    #[test]
    fn cells_stand_in_the_order_of_their_columns() {
        let told = tables(&of_two(), 1);
        let is = |id: &str, instance: &str, cells: &[Cell]| {
            let row = table(&told, id).rows.remove(0);
            assert_eq!((row.instance.as_str(), &row.cells[..]), (instance, cells));
        };
        let (pipe, text, number) = (|| Cell::from("ipc.pipe"), |text: &str| Cell::from(text), Cell::Number);
        let figures = [16.0, 0.8, 7.0, 3.2, 11.0].map(number);
        is("waits", "ipc.pipe read ", &[&[pipe(), text("read"), text("")][..], &figures].concat());
        let figures = [5.0, 2.0, 16.5].map(number);
        let rest = [Cell::Unknown(()), Cell::Unknown(()), Cell::Unknown(()), number(0.0), text("EAGAIN 2")];
        is("calls", "read(pipe)", &[&[text("read(pipe)")][..], &figures, &rest].concat());
        let figures = [10.0, 4.0, 0.0, 5.0].map(number);
        is("threads", "7:7:0.000000000", &[&["", "7", "7"].map(text)[..], &figures, &[pipe()]].concat());
        let cells = [pipe(), text("interrupt (timer)"), text(""), number(2.0), number(3.0)];
        is("wakers", "ipc.pipe interrupt (timer) ", &cells);
    }

    #[test]
    fn only_what_can_be_added_is_summed_up() {
        let told = tables(&of_two(), 1);
        let is = |id: &str, sums: &[(&str, f64)]| {
            let table = table(&told, id);
            let found: Vec<_> = table.others_sum.iter().map(|(column, sum)| (column.as_str(), *sum)).collect();
            assert_eq!((table.others, &found[..]), (1, sums));
        };
        is("waits", &[("count", 2.0), ("share", 0.05), ("time", 1.0)]);
        is("calls", &[("count", 0.0), ("errors", 0.0), ("on_cpu", 0.25), ("time", 0.0)]);
        is("threads", &[("blocked", 12.0), ("cpu", 0.0), ("observed", 10.0), ("runnable", 0.0)]);
        is("wakers", &[("count", 3.0), ("time", 2.0)]);
    }
}
