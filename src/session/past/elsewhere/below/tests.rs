//! Odd and hostile dumps; the shipped binary reads a real one in `tests/elsewhere/`.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::super::tests::{SECOND, plan, processes, series};
use super::columns::{COLUMNS, Kind, Table};
use super::tables::Tables;
use crate::past::{Past, Span, elsewhere};
use rdiag_collectors as collectors;
use rdiag_kernel::host::Zone;
use rdiag_model::SeriesKind;
use rdiag_model::recording::Number;

const BEGINS: i64 = 1_773_111_600;

fn row(at: i64, values: &[(&str, &str)]) -> Value {
    let mut row = json!({"Datetime": "2026-03-10 03:00:00", "Timestamp": (BEGINS + at).to_string()});
    for (title, value) in values {
        row[*title] = (*value).into();
    }
    row
}

/// The host at a time: percent of user time of two CPUs, context switches, and more.
fn host(at: i64, user: &str, switches: &str, more: &[(&str, &str)]) -> Value {
    let all = [("User", user), ("CPU 0 User", user), ("CPU 1 User", user), ("Context Switches", switches)];
    row(at, &[&all[..], more].concat())
}

fn hosts() -> Value {
    json!([host(0, "?", "100", &[]), host(5, "50.5", "600", &[]), host(10, "10", "700", &[])])
}

fn task(at: i64, pid: &str, state: &str, uptime: &str, user: &str) -> Value {
    let who = [("Pid", pid), ("Ppid", "1"), ("Comm", "job"), ("Cmdline", "job --password=hunter2"), ("State", state)];
    let did = [("Uptime(sec)", uptime), ("User CPU", user), ("Sys CPU", user), ("RSS", "409600"), ("Reads", "1000.2")];
    row(at, &[&who[..], &did[..]].concat())
}

/// What is known of ten seconds.
fn of(tables: &[Value]) -> Result<Past, String> {
    let printed: String = tables.iter().map(Value::to_string).collect();
    dumped(&printed)
}

fn dumped(printed: &str) -> Result<Past, String> {
    let span = Span { from: BEGINS * SECOND, to: (BEGINS + 10) * SECOND };
    elsewhere(printed.as_bytes(), span, &plan(), &Zone::utc())
}

fn values(past: &Past, name: &str) -> Vec<Option<f64>> {
    let real = |value: Option<Number>| match value {
        Some(Number::Real(value)) => Some((value * 1000.0).round() / 1000.0),
        _ => None,
    };
    series(past, name).map(|series| series.values.into_iter().map(real).collect()).unwrap_or_default()
}

fn all(numbers: [f64; 3]) -> Vec<Option<f64>> {
    numbers.map(Some).to_vec()
}

#[test]
fn each_column_becomes_a_series_that_is_recorded_in_that_unit() {
    let mut titles = BTreeSet::new();
    for (_, title, kind) in COLUMNS {
        assert!(titles.insert(title), "{title} is there once");
        let named: Vec<(&str, rdiag_model::RawUnit, bool)> = match kind {
            Kind::Share(every, core) => [every, core].map(|name| (*name, rdiag_model::RawUnit::Ticks, false)).to_vec(),
            Kind::Rate(name, unit) | Kind::Total(name, unit) => vec![(*name, *unit, false)],
            Kind::Level(name, unit, _) => vec![(*name, *unit, true)],
            Kind::Text | Kind::Number => continue,
        };
        for (name, unit, is_level) in named {
            let (collector, _) = name.split_once('.').unwrap();
            let known = collectors::find(collector).unwrap_or_else(|| panic!("{title}: {collector}")).series;
            let found = known.iter().find(|def| def.name == name).unwrap_or_else(|| panic!("{title}: {name}"));
            assert_eq!((found.unit, found.kind == SeriesKind::Gauge), (unit, is_level), "{title}");
        }
    }
}

#[test]
fn shares_rates_and_counters_of_the_host_become_what_the_kernel_counts() {
    let more = |swapped: &str, kills: &str| {
        [("Swap In", swapped), ("OOM Kills", kills), ("Total", "2048000"), ("Running Procs", "4"), ("Stolen", "NaN")]
            .map(|(title, value)| (title.to_owned(), value.to_owned()))
    };
    let at = |at, user, switches, swapped: &str, kills: &str| {
        let more = more(swapped, kills);
        let more: Vec<(&str, &str)> = more.iter().map(|(title, value)| (title.as_str(), value.as_str())).collect();
        host(at, user, switches, &more)
    };
    let past =
        of(&[json!([at(0, "?", "100", "?", "3"), at(5, "50.5", "600", "2.5", "3"), at(10, "10", "650", "0", "4")])])
            .unwrap();
    assert_eq!(values(&past, "cpu_stat.user"), all([0.0, 505.0, 605.0]), "of two CPUs");
    assert_eq!(values(&past, "cpu_stat.core_user"), all([0.0, 252.5, 302.5]));
    assert_eq!(values(&past, "cpu_stat.switches"), all([0.0, 500.0, 550.0]));
    assert_eq!(values(&past, "vmstat.pswpin"), all([0.0, 12.5, 12.5]));
    assert_eq!(values(&past, "vmstat.oom_kill"), all([3.0, 3.0, 4.0]));
    assert_eq!(values(&past, "meminfo.total"), [None, Some(2000.0), Some(2000.0)]);
    assert_eq!(values(&past, "loadavg.runnable"), [None, Some(3.0), Some(3.0)], "less below itself");
    assert!(series(&past, "cpu_stat.steal").is_none(), "no number");
    assert_eq!((past.recording.host.cpus, past.recording.host.memory_bytes), (2, 2_048_000));
    assert_eq!((past.origin.name, past.origin.means_over), ("below", None));
    assert_eq!(past.notes[0], "Source: below, a sample every 5 s");
    assert!(past.notes.iter().any(|note| note.contains("who is behind it is not known")), "{:?}", past.notes);
}

#[test]
fn a_title_that_is_there_many_times_in_a_row_is_one_figure() {
    let titles = r#", "RX Bytes": "8", "CPU 0 User": "1""#.repeat(1000);
    let text = format!(r#"[{{"Timestamp": "{BEGINS}", "RX Bytes": "7"{titles}}}]"#);
    let tables = Tables::read(text.as_bytes()).unwrap();
    let [row] = tables.rows(Table::Interface, BEGINS) else { panic!("one row") };
    // Each figure is looked for in the row before: among as many as there are, that took the square of their number.
    assert_eq!(row.figures(Table::Interface).map(|(.., figure)| figure).collect::<Vec<_>>(), [7.0]);
    assert_eq!((row.number("RX Bytes"), row.cpus()), (Some(7.0), 1));
}

#[test]
fn disks_without_their_partitions_interfaces_and_pressure_come_from_tables_of_their_own() {
    let disk =
        |at, name: &str, reads: &str| row(at, &[("Name", name), ("Read Completed", reads), ("Time Spend Read", reads)]);
    let line = |at, name: &str, bytes: &str| {
        row(at, &[("Interface", name), ("RX Bytes", bytes), ("RX Dropped", bytes), ("RX Missed Errors", "7")])
    };
    let group = |at, some: &str| {
        let mut row = row(at, &[("Name", ""), ("CPU Some Pressure", some), ("I/O Pressure", "?")]);
        row["children"] = json!([{"Name": "system.slice", "CPU Some Pressure": "99", "children": []}]);
        row
    };
    let tables = [
        hosts(),
        json!([
            [disk(0, "vda", "10"), disk(0, "vda1", "10"), disk(0, "?", "?")],
            [disk(5, "vda", "40"), disk(5, "vda1", "40"), disk(5, "vdb", "5")],
            [disk(10, "vda", "41"), disk(10, "vdb", "3")],
        ]),
        json!([[line(0, "lo", "1"), line(0, "eth0", "100")], [line(5, "lo", "9"), line(5, "eth0", "300")], []]),
        json!([group(0, "40"), group(5, "40"), group(10, "24.26")]),
    ];
    let past = of(&tables).unwrap();
    assert!(!past.notes.iter().any(|note| note.contains("tables that are not read")), "{:?}", past.notes);
    assert_eq!(values(&past, "diskstats.reads"), all([0.0, 30.0, 31.0]));
    assert_eq!(past.recording.windows[0].collectors["diskstats"].series.len(), 2, "vda alone: vdb counted backwards");
    assert!(series(&past, "diskstats.busy_ms").is_none());
    assert_eq!(values(&past, "interfaces.receive_bytes"), [Some(0.0), Some(200.0), None]);
    assert_eq!(values(&past, "interfaces.device_receive_drops"), [Some(0.0), Some(200.0), None]);
    let stalled = values(&past, "psi.cpu_some");
    assert!((stalled[1].unwrap() - 2e6).abs() < 1.0 && stalled[2].unwrap() - stalled[1].unwrap() < 1e3, "{stalled:?}");
    assert!(series(&past, "psi.io_full").is_none());
    let other = json!([[row(0, &[("Interface", "eth0"), ("Kind", "fq_codel")])]]);
    let past = of(&[hosts(), other]).unwrap();
    assert!(past.notes.iter().any(|note| note.contains("tables that are not read")), "{:?}", past.notes);
}

#[test]
fn processes_did_what_their_rates_say_and_one_that_began_within_is_known_from_its_second_sample_on() {
    let past = of(&[
        hosts(),
        json!([
            [task(0, "1", "SLEEPING", "5000", "0"), task(0, "9", "RUNNING", "100", "10")],
            [
                task(5, "1", "SLEEPING", "5005", "0"),
                task(5, "9", "RUNNING", "106", "80"),
                task(5, "12", "RUNNING", "3", "?")
            ],
            [
                task(10, "1", "SLEEPING", "5010", "0"),
                task(10, "9", "DEAD", "110", "10"),
                task(10, "12", "RUNNING", "8", "40")
            ],
        ]),
    ])
    .unwrap();
    let told: Vec<_> = processes(&past)
        .iter()
        .map(|process| {
            let points: Vec<(u16, u64)> = process.points.iter().map(|point| (point.at, point.utime)).collect();
            (process.pid, process.first, process.last, points)
        })
        .collect();
    let expected = [(1, 0, 2, vec![(0, 0)]), (9, 0, 2, vec![(0, 0), (1, 400), (2, 450)]), (12, 2, 2, vec![(2, 200)])];
    assert_eq!(told[1..], expected[1..], "one more second of uptime is no other process");
    assert_eq!((told[0].0, told[0].3.last().unwrap().1), (1, 0));
    let ended = processes(&past)[1].points[2].clone();
    assert_eq!((ended.state, ended.resident_pages, ended.read_bytes), ('X', 0, Some(10_002)));
    assert_eq!((ended.run_ns, ended.wait_ns), (None, None), "that it did not wait for a CPU is not known");
    assert_eq!(processes(&past)[1].command.as_deref(), Some("job --password=***"));
    assert_eq!(values(&past, "processes.total"), [None, Some(3.0), Some(2.0)]);
    // A part of them says nothing of all.
    let past =
        of(&[hosts(), json!([[task(0, "9", "RUNNING", "100", "1")], [task(5, "9", "RUNNING", "105", "1")]])]).unwrap();
    assert!(series(&past, "processes.total").is_none());
}

#[test]
fn a_reboot_and_a_time_without_a_recorder_are_no_intervals() {
    let at = |at, booted: &str| host(at, "50", "100", &[("Boot Time Epoch", booted)]);
    let past =
        of(&[json!([at(0, "10"), at(2, "10"), at(4, "11"), at(6, "900"), at(8, "900"), at(60, "900")])]).unwrap();
    assert_eq!(values(&past, "cpu_stat.user"), [0.0, 200.0, 400.0, 400.0, 600.0].map(Some));
}

#[test]
fn what_cannot_be_understood_is_refused_with_what_to_type() {
    let with = |at: usize, title: &str, value: &str| {
        let mut all = hosts();
        all[at][title] = value.into();
        all.to_string()
    };
    let without = |title: &str| {
        let mut all = hosts();
        all.as_array_mut().unwrap().iter_mut().for_each(|row| drop(row.as_object_mut().unwrap().remove(title)));
        all.to_string()
    };
    let plain = json!([row(0, &[("Context Switches", "1")]), row(5, &[("Context Switches", "2")])]).to_string();
    for (printed, wanted) in [
        (with(1, "User", "50.50%"), "have units (User: \"50.50%\")"),
        (with(2, "Total", "23.5 GB"), "have units (Total: \"23.5 GB\")"),
        (without("Timestamp"), "have no Timestamp"),
        (with(0, "Timestamp", "0"), "have no Timestamp"),
        (plain, "does not have each CPU"),
        (without("Context Switches"), "does not have two samples"),
        (json!([[task(0, "1", "SLEEPING", "9", "0")]]).to_string(), "does not have two samples"),
    ] {
        let why = dumped(&printed).unwrap_err();
        assert!(why.contains(wanted) && why.contains("--everything --raw -O json"), "{why}");
    }
    let cut = hosts().to_string() + &json!([[task(0, "1", "SLEEPING", "9", "0")]]).to_string();
    let why = dumped(cut.get(..cut.len() - 9).unwrap()).unwrap_err();
    assert!(why.contains("table 2 of it is nothing that `below dump -O json` prints: EOF"), "{why}");
    let why = dumped(&(hosts().to_string() + "Error: no samples")).unwrap_err();
    assert!(why.contains("table 2 of it"), "{why}");
    let far = Span { from: 0, to: 10 * SECOND };
    let why = elsewhere(hosts().to_string().as_bytes(), far, &plan(), &Zone::utc()).unwrap_err();
    assert!(why.contains("below has nothing between"), "{why}");
}

#[test]
fn hostile_figures_are_dropped_and_never_panic() {
    let odd = ["-1", "1e308", "NaN", "inf", "", " 9", "18446744073709551615", "9223372036854775807000"];
    for value in odd {
        for title in ["User", "Context Switches", "Boot Time Epoch", "Timestamp", "Pid", "Uptime(sec)", "RSS", "Reads"]
        {
            let mut tables = [hosts(), json!([[task(0, "1", "SLEEPING", "9", "5")], [task(5, "1", "?", "9", "5")]])];
            tables[0][1][title] = value.into();
            tables[1][1][0][title] = value.into();
            if let Ok(past) = of(&tables) {
                let _ = crate::analyze(&past.recording, &plan());
            }
        }
    }
    for odd in [json!(null), json!(true), json!(-3), json!(7), json!(2.5), json!({"a": [1]}), json!([["b"]])] {
        let mut rows = hosts();
        rows[1]["User"] = odd;
        assert!(of(&[rows]).is_ok());
    }
    for printed in ["[\"Datetime\"]", "[[[{\"Datetime\": 1}]]]", "[{\"Timestamp\": \"1\"}", "[]\"Timestamp\""] {
        assert!(dumped(printed).is_err(), "{printed}");
    }
    assert!(dumped("[] \"Datetime\"").unwrap_err().contains("table 2"));
}
