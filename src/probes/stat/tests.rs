use super::figures::{Figures, METRICS, derive};
use super::*;
use rdiag_kernel::mechanism::perf::counters::Count;
use rdiag_kernel::mechanism::perf::select::{Event, Modifiers};
use rdiag_model::metric::Pick;
use rdiag_model::probe::{Cell, Output, ProbeTable};
use rdiag_model::{Formula, Source, Unit};

/// An event of the list as it would have been counted.
fn counted(name: &str, value: f64, share: f64, together: usize) -> Counted {
    let host = Host::live(std::path::Path::new("/nonexistent"));
    let event = select::parse(&host, name).unwrap()[0][0].event.clone().unwrap();
    let count = Count { value: Some(value), share, cpus: vec![(1, Some(value)), (0, None)], together };
    Counted { name: name.to_owned(), outcome: Ok((event, count)) }
}

fn refused(name: &str) -> Counted {
    let gap = Unavailable::new(Reason::Absent, format!("{name}: this CPU does not count it")).with_remedy("buy one");
    Counted { name: name.to_owned(), outcome: Err(gap) }
}

fn value(figures: &Figures, id: &str) -> Option<f64> {
    figures.all.iter().find(|figure| figure.id == id).map(|figure| figure.value)
}

fn table(output: Output) -> ProbeTable {
    let Output::Table(table) = output else { panic!("a table") };
    table
}

#[test]
fn quotients_are_those_of_the_counts() {
    let all = [
        counted("task-clock", 2e9, 1.0, 0),
        counted("cycles", 6e9, 1.0, 1),
        counted("instructions", 3e9, 1.0, 1),
        counted("cache-references", 4e6, 1.0, 2),
        counted("cache-misses", 1e6, 1.0, 2),
    ];
    let figures = derive(&all, 4.0, true);
    for (id, expected) in [("cpus", 0.5), ("ghz", 3.0), ("ipc", 0.5), ("cpi", 2.0), ("cache_miss", 0.25)] {
        assert_eq!(value(&figures, id), Some(expected), "{id}");
    }
    assert!((value(&figures, "mpki").unwrap() - 1.0 / 3.0).abs() < 1e-9);
    assert!(figures.notes.is_empty(), "{:?}", figures.notes);
    assert!(figures.gaps["branch_miss"].why.contains("was not among the events"));
    assert_eq!(value(&derive(&all, 4.0, false), "cpus"), None, "the clock of whole CPUs says nothing of use");
}

#[test]
fn what_was_counted_at_other_moments_or_in_other_states_is_no_plain_quotient() {
    let apart = [counted("cycles", 6e9, 0.5, 1), counted("instructions", 3e9, 0.5, 2)];
    assert!(derive(&apart, 1.0, true).notes[0].contains("is an estimate"));
    let together = [counted("cycles", 6e9, 0.5, 1), counted("instructions", 3e9, 0.5, 1)];
    assert!(derive(&together, 1.0, true).notes.is_empty());
    let states = [counted("cycles:u", 6e9, 1.0, 1), counted("instructions:k", 3e9, 1.0, 2)];
    let figures = derive(&states, 1.0, true);
    assert_eq!(value(&figures, "ipc"), None);
    assert!(figures.gaps["ipc"].why.contains("different states"));
}

#[test]
fn a_figure_without_its_events_is_missing_with_their_reason_and_never_zero() {
    let mut never = counted("instructions", 0.0, 0.0, 1);
    never.outcome.as_mut().unwrap().1.value = None;
    let figures = derive(&[refused("cycles"), never], 1.0, true);
    assert!(figures.all.is_empty());
    assert!(figures.gaps["ghz"].why.contains("does not count it"));
    assert_eq!(figures.gaps["mpki"].reason, Reason::Absent);
    assert!(derive(&[counted("cycles", 0.0, 1.0, 1), counted("instructions", 0.0, 1.0, 1)], 1.0, true).all.is_empty());
}

#[test]
fn memory_controllers_give_bytes_per_second_and_channel() {
    let event = |name: &str, value| {
        let event = Event {
            name: name.into(),
            family: select::Family::Device,
            encodings: vec![select::Encoding::default(); 4],
            cpus: Some(vec![0, 8]),
            shared: true,
            scale: 6.103_515_625e-5,
            unit: "MiB".into(),
            modifiers: Modifiers::default(),
            help: String::new(),
        };
        let count = Count { value: Some(value), share: 1.0, ..Count::default() };
        Counted { name: name.into(), outcome: Ok((event, count)) }
    };
    // One count is a line of 64 bytes.
    let both = [event("uncore_imc/cas_count_read/", 3e8), event("uncore_imc/cas_count_write/", 1e8)];
    let figures = derive(&both, 2.0, false);
    assert!((value(&figures, "memory").unwrap() - 4e8 * 64.0 / 2.0).abs() < 1.0);
    assert!((value(&figures, "memory_channel").unwrap() - 4e8 * 64.0 / 16.0).abs() < 1.0);
    let half = [event("uncore_imc/cas_count_read/", 3e8), refused("uncore_imc/cas_count_write/")];
    assert_eq!(value(&derive(&half, 2.0, false), "memory"), None, "half of it would be taken for the whole");
}

#[test]
fn events_have_a_line_each_and_those_that_were_not_counted_share_one_reason() {
    let all =
        [counted("task-clock", 5e8, 1.0, 0), refused("cycles"), refused("instructions"), counted("cs", 30.0, 1.0, 3)];
    let figures = derive(&all, 0.5, true);
    let events = table(table::events(&all, &figures, 0.5));
    let row = |name: &str| events.rows.iter().find(|row| row.instance == name).unwrap().cells.clone();
    assert_eq!(row("task-clock")[..3], [Cell::Number(500.0), "ms".into(), "task-clock".into()]);
    assert_eq!(row("task-clock")[4], "1 CPUs used".into());
    assert_eq!((&row("cs")[0], &row("cs")[3]), (&Cell::Number(30.0), &Cell::Number(60.0)));
    assert_eq!((&row("cycles")[0], &row("cycles")[5]), (&Cell::Unknown(()), &Cell::Unknown(())));
    assert_eq!(table::why_not(&all), ["cycles, instructions: this CPU does not count it; buy one"]);
    let twice = [counted("cs", 1.0, 1.0, 0), counted("cs", 1.0, 1.0, 1)];
    let names: Vec<String> =
        table(table::events(&twice, &figures, 1.0)).rows.into_iter().map(|row| row.instance).collect();
    assert_eq!(names, ["cs", "cs #2"]);
}

#[test]
fn a_figure_is_a_line_in_the_table_of_its_unit() {
    let figures = derive(&[counted("cycles", 6e9, 1.0, 1), counted("instructions", 3e9, 1.0, 1)], 4.0, true);
    let tables: Vec<ProbeTable> = table::figures(&figures).into_iter().map(table).collect();
    let [counts] = &tables[..] else { panic!("{tables:?}") };
    let row = &counts.rows[0];
    assert_eq!((counts.id.as_str(), row.instance.as_str()), ("figures", "ipc"));
    let meaning = "below 0.5 it mostly waits (for memory), above 1 it computes";
    assert_eq!(row.cells, ["instructions per cycle".into(), 0.5.into(), meaning.into()]);
}

#[test]
fn each_cpu_is_shown_in_order() {
    let cpus = table(table::cpus(&[counted("cs", 7.0, 1.0, 0)]).unwrap());
    let rows: Vec<(&str, &Cell)> = cpus.rows.iter().map(|row| (row.instance.as_str(), &row.cells[1])).collect();
    assert_eq!(rows, [("0/cs", &Cell::Unknown(())), ("1/cs", &Cell::Number(7.0))]);
}

#[test]
fn every_metric_is_a_cell_that_can_be_there() {
    let events = ["cycles", "instructions", "cache-references", "cache-misses", "branches", "branch-misses"];
    let all: Vec<Counted> = events.iter().map(|name| counted(name, 10.0, 1.0, 0)).collect();
    let figures = derive(&all, 1.0, true);
    let tables: Vec<ProbeTable> = table::figures(&figures).into_iter().map(table).collect();
    for metric in METRICS {
        let Formula::Taken(Source::Probe(Pick::Cell(id, row, _))) = metric.sources[0] else { continue };
        let is_bandwidth = metric.unit == Unit::BytesPerSecond;
        let found = tables.iter().any(|table| table.id == id && table.rows.iter().any(|known| known.instance == row));
        assert!(found || is_bandwidth && figures.gaps.contains_key(row), "{}", metric.id);
    }
}
