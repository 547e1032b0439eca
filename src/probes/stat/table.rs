//! Counts and figures as tables.

use std::collections::{BTreeMap, BTreeSet};

use super::figures::{Figure, Figures, never};
use crate::table::TableSpec;
use rdiag_kernel::mechanism::perf::counters::{Count, Counted};
use rdiag_kernel::mechanism::perf::select::Event;
use rdiag_model::probe::Output;
use rdiag_model::{Unavailable, Unit, quantity};

/// The events in the order in which they were asked for.
pub(super) fn events(counted: &[Counted], figures: &Figures, seconds: f64) -> Output {
    let mut names = BTreeSet::new();
    let rows = counted.iter().map(|of| {
        // The same event may be asked for twice.
        let mut instances = (1..).map(|n| if n == 1 { of.name.clone() } else { format!("{} #{n}", of.name) });
        (instances.find(|name| names.insert(name.clone())).unwrap_or_default(), of)
    });
    let table = TableSpec::<(String, &Counted)>::new("events", format!("Events in {}", quantity::seconds(seconds)))
        .rows("event", |(instance, _)| instance.clone())
        .number("value", "count", Unit::Count, |(_, of)| value(of))
        .text("unit", "", |(_, of)| text(of, |event| &event.unit))
        .text("name", "event", |(_, of)| of.name.clone())
        .number("rate", "rate", Unit::PerSecond, |(_, of)| rate(of, seconds))
        .text("derived", "that is", |(_, of)| derived(of, figures))
        .number("counted", "counted", Unit::Ratio, |(_, of)| of.outcome.as_ref().ok().map(|(_, count)| count.share))
        .text("meaning", "what it counts", |(_, of)| text(of, |event| &event.help))
        .all(rows);
    Output::Table(table)
}

/// The count, none where there is none.
fn value(of: &Counted) -> Option<f64> {
    let (event, count) = of.outcome.as_ref().ok()?;
    Some(count.value? * event.scale)
}

/// What an event says of itself; nothing where it was not counted.
fn text(of: &Counted, what: fn(&Event) -> &str) -> String {
    of.outcome.as_ref().map_or("", |(event, _)| what(event)).to_owned()
}

fn rate(of: &Counted, seconds: f64) -> Option<f64> {
    let (event, _) = of.outcome.as_ref().ok()?;
    // The time that passes per second says nothing.
    value(of).filter(|_| !event.name.ends_with("-clock")).map(|value| value / seconds)
}

fn derived(of: &Counted, figures: &Figures) -> String {
    let Ok((event, count)) = &of.outcome else { return "not counted".to_owned() };
    match figures.all.iter().find(|figure| figure.event == event.name) {
        Some(figure) => beside(figure),
        None if count.value.is_none() => "never counted".to_owned(),
        None => String::new(),
    }
}

/// A figure beside the event that it is made of.
fn beside(figure: &Figure) -> String {
    match (figure.unit, figure.id) {
        (Unit::Ratio, _) => format!("{} of {}", quantity::percent(figure.value), figure.per),
        (_, "ghz") => format!("{} GHz", quantity::number(figure.value)),
        (_, "cpus") => format!("{} CPUs used", quantity::number(figure.value)),
        (_, "ipc") => format!("{} per cycle", quantity::number(figure.value)),
        _ => format!("{}: {}", figure.name, quantity::with_unit(figure.value, figure.unit)),
    }
}

/// The figures by unit, each with what it says.
pub(super) fn figures(figures: &Figures) -> Vec<Output> {
    let tables = [
        ("figures", "What that means", Unit::Count),
        ("shares", "Shares", Unit::Ratio),
        ("bandwidth", "Memory bandwidth", Unit::BytesPerSecond),
    ];
    let table = |(id, title, unit): (&'static str, &str, Unit)| {
        let table = TableSpec::<&Figure>::new(id, title)
            .rows("figure", |figure| figure.id.to_owned())
            .text("name", "figure", |figure| figure.name.to_owned())
            .number("value", "value", unit, |figure| figure.value)
            .text("meaning", "meaning", |figure| figure.meaning.to_owned())
            .all(figures.all.iter().filter(|figure| figure.unit == unit));
        (!table.rows.is_empty()).then_some(Output::Table(table))
    };
    tables.into_iter().filter_map(table).collect()
}

/// Each CPU's counts; none where tasks are counted.
pub(super) fn cpus(counted: &[Counted]) -> Option<Output> {
    let mut rows = Vec::new();
    for of in counted {
        let Ok((event, count)) = &of.outcome else { continue };
        rows.extend(count.cpus.iter().map(|(cpu, value)| (*cpu, value.map(|value| value * event.scale), of)));
    }
    // All events of a CPU stand together, in the order of the list.
    rows.sort_by_key(|(cpu, ..)| *cpu);
    let table = TableSpec::<(u32, Option<f64>, &Counted)>::new("cpus", "Each CPU")
        .named(|(cpu, _, of)| format!("{cpu}/{}", of.name))
        .text("cpu", "CPU", |(cpu, ..)| cpu.to_string())
        .number("value", "count", Unit::Count, |(_, value, _)| *value)
        .text("unit", "", |(.., of)| text(of, |event| &event.unit))
        .text("name", "event", |(.., of)| of.name.clone())
        .all(rows);
    (!table.rows.is_empty()).then_some(Output::Table(table))
}

/// Why events were not counted: one sentence for all that share a reason.
pub(super) fn why_not(counted: &[Counted]) -> Vec<String> {
    let mut reasons: BTreeMap<String, Vec<&str>> = BTreeMap::new();
    for Counted { name, outcome } in counted {
        let gap: Unavailable = match outcome {
            Err(gap) => gap.clone(),
            Ok((_, Count { value: None, .. })) => never(name),
            Ok(_) => continue,
        };
        let why = gap
            .why
            .strip_prefix(&format!("{name}: "))
            .or(gap.why.strip_prefix(&format!("{name} ")))
            .unwrap_or(&gap.why);
        let remedy = gap.remedy.as_ref().map(|remedy| format!("; {remedy}")).unwrap_or_default();
        reasons.entry(format!("{why}{remedy}")).or_default().push(name);
    }
    reasons.into_iter().map(|(reason, names)| format!("{}: {reason}", names.join(", "))).collect()
}
