//! Counts and figures as tables.

use std::collections::{BTreeMap, BTreeSet};

use super::figures::{Figure, Figures, never};
use rdiag_kernel::mechanism::perf::counters::{Count, Counted};
use rdiag_kernel::mechanism::perf::select::Event;
use rdiag_model::probe::{Cell, Column, Output, ProbeTable, Row};
use rdiag_model::{Unavailable, Unit, quantity};

/// The events in the order in which they were asked for.
pub(super) fn events(counted: &[Counted], figures: &Figures, seconds: f64) -> Output {
    let mut table = ProbeTable {
        id: "events".into(),
        title: format!("Events in {}", quantity::seconds(seconds)),
        dimension: Some("event".into()),
        columns: vec![
            Column::number("value", "count", Unit::Count),
            Column::text("unit", ""),
            Column::text("name", "event"),
            Column::number("rate", "rate", Unit::PerSecond),
            Column::text("derived", "that is"),
            Column::number("counted", "counted", Unit::Ratio),
            Column::text("meaning", "what it counts"),
        ],
        ..ProbeTable::default()
    };
    let mut names = BTreeSet::new();
    for Counted { name, outcome } in counted {
        // The same event may be asked for twice.
        let instance = (1..).map(|n| if n == 1 { name.clone() } else { format!("{name} #{n}") });
        let instance = instance.into_iter().find(|name| names.insert(name.clone())).unwrap_or_default();
        let cells = match outcome {
            Ok((event, count)) => counted_cells(name, event, count, figures, seconds),
            Err(_) => {
                let unknown = || Cell::Unknown(());
                vec![unknown(), "".into(), name.clone().into(), unknown(), "not counted".into(), unknown(), "".into()]
            }
        };
        table.rows.push(Row { instance, cells });
    }
    Output::Table(table)
}

fn counted_cells(name: &str, event: &Event, count: &Count, figures: &Figures, seconds: f64) -> Vec<Cell> {
    let scaled = count.value.map(|value| value * event.scale);
    let number = |value: Option<f64>| value.map_or(Cell::Unknown(()), Cell::Number);
    // The time that passes per second says nothing.
    let rate = scaled.filter(|_| !event.name.ends_with("-clock")).map(|value| value / seconds);
    let derived = match figures.all.iter().find(|figure| figure.event == event.name) {
        Some(figure) => derived(figure),
        None if count.value.is_none() => "never counted".to_owned(),
        None => String::new(),
    };
    vec![
        number(scaled),
        event.unit.clone().into(),
        name.into(),
        number(rate),
        derived.into(),
        Cell::Number(count.share),
        event.help.clone().into(),
    ]
}

/// A figure beside the event that it is made of.
fn derived(figure: &Figure) -> String {
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
    let table = |(id, title, unit): (&str, &str, Unit)| {
        let of_unit = figures.all.iter().filter(|figure| figure.unit == unit);
        let row = |figure: &Figure| Row {
            instance: figure.id.to_owned(),
            cells: vec![figure.name.into(), figure.value.into(), figure.meaning.into()],
        };
        let columns = vec![
            Column::text("name", "figure"),
            Column::number("value", "value", unit),
            Column::text("meaning", "meaning"),
        ];
        let rows: Vec<Row> = of_unit.map(row).collect();
        let dimension = Some("figure".into());
        (!rows.is_empty()).then(|| {
            Output::Table(ProbeTable {
                id: id.into(),
                title: title.into(),
                dimension,
                columns,
                rows,
                ..ProbeTable::default()
            })
        })
    };
    tables.into_iter().filter_map(table).collect()
}

/// Each CPU's counts; none where tasks are counted.
pub(super) fn cpus(counted: &[Counted]) -> Option<Output> {
    let columns = vec![
        Column::text("cpu", "CPU"),
        Column::number("value", "count", Unit::Count),
        Column::text("unit", ""),
        Column::text("name", "event"),
    ];
    let mut rows = Vec::new();
    for one in counted {
        let Ok((event, count)) = &one.outcome else { continue };
        for (cpu, value) in &count.cpus {
            let value = value.map_or(Cell::Unknown(()), |value| Cell::Number(value * event.scale));
            let cells = vec![cpu.to_string().into(), value, event.unit.clone().into(), one.name.clone().into()];
            rows.push((*cpu, Row { instance: format!("{cpu}/{}", one.name), cells }));
        }
    }
    // All events of a CPU stand together, in the order of the list.
    rows.sort_by_key(|(cpu, _)| *cpu);
    let rows: Vec<Row> = rows.into_iter().map(|(_, row)| row).collect();
    let (id, title) = ("cpus".to_owned(), "Each CPU".to_owned());
    (!rows.is_empty()).then(|| Output::Table(ProbeTable { id, title, columns, rows, ..ProbeTable::default() }))
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
