//! Hostile and odd files; the shipped binary reads real ones in `tests/elsewhere/`.

use std::collections::BTreeMap;

use super::building::Building;
use super::*;
use crate::library::resolve;
use rdiag_model::recording::{FORMAT_VERSION, Overhead, Process, Series, Tool};
use rdiag_model::{Facts, Recording, Setup, Target};

pub(super) const SECOND: i64 = 1_000_000;

pub(super) fn plan() -> Plan {
    let recording = Recording {
        format_version: FORMAT_VERSION,
        tool: Tool { name: "rdiag".into(), version: "0".into() },
        playbook: "use-method".into(),
        params: BTreeMap::new(),
        target: Target::default(),
        host: Facts::default(),
        setup: Setup::default(),
        started: String::new(),
        exercise: None,
        windows: Vec::new(),
        interrupted: false,
        overhead: Overhead::default(),
    };
    resolve("use-method").unwrap().plan_of(&recording).unwrap()
}

/// What is known of the time from second 1000 to 1000 + `seconds`.
fn of(text: &str, seconds: i64) -> Result<Past, String> {
    let span = Span { from: 1000 * SECOND, to: (1000 + seconds) * SECOND };
    elsewhere(text.as_bytes(), span, &plan(), &Zone::utc())
}

/// A process: pid, name, state, and what atop says of its beginning and end.
type Listed<'a> = (u32, &'a str, &'a str, &'a str);

fn row(pid: u32, name: &str, state: &str, st: &str) -> String {
    let began = if pid == 1 { 900 } else { 1001 };
    let who = format!(r#"{{"pid": {pid}, "name": "({name})", "state": "{state}", "st": "{st}", "btime": "{began}""#);
    who + &format!(r#", "nthr": 1, "nthrrun": 1, "cmdline": "({name} \x2d)", "isproc": 1}}"#)
}

/// A line of atop: who was there, what each used and how much memory it had, and more.
fn line(end: i64, elapsed: i64, rows: &[Listed<'_>], ticks: u64, more: &str) -> String {
    let of = |make: &dyn Fn(&Listed<'_>) -> String| rows.iter().map(make).collect::<Vec<_>>().join(", ");
    let general = of(&|(pid, name, state, st)| row(*pid, name, state, st));
    let cpu = of(&|(pid, ..)| format!(r#"{{"pid": {pid}, "utime": {ticks}, "stime": 0}}"#));
    let memory = of(&|(pid, ..)| format!(r#"{{"pid": {pid}, "rmem": 400, "rgrow": -400}}"#));
    let host = format!(r#""host": "web-03", "timestamp": {end}, "elapsed": {elapsed}"#);
    let all = format!(r#""CPU": {{"hertz": 100, "nrcpu": 2, "utime": {ticks}}}{more}"#);
    format!("{{{host}, {all}, \"PRG\": [{general}], \"PRC\": [{cpu}], \"PRM\": [{memory}]}}\n")
}

pub(super) fn processes(past: &Past) -> Vec<Process> {
    past.recording.windows[0].collectors["processes"].processes.clone()
}

pub(super) fn series(past: &Past, name: &str) -> Option<Series> {
    let (collector, _) = name.split_once('.').unwrap();
    let record = past.recording.windows[0].collectors.get(collector)?;
    record.series.iter().find(|series| series.name == name).cloned()
}

#[test]
fn processes_of_atop_are_those_of_a_recording() {
    let text = line(1000, 100, &[(1, "init", "S", "NE")], 9, "")
        + &line(1002, 2, &[(1, "init", "S", "-E"), (7, "job", "R", "NE")], 150, "")
        + &line(1004, 2, &[(1, "init", "S", "-E"), (7, "job", "E", "-E")], 50, "");
    let past = of(&text, 4).unwrap();
    let all = processes(&past);
    let points = |at: usize| all[at].points.iter().map(|point| (point.at, point.utime)).collect::<Vec<_>>();
    assert_eq!((all[0].first, all[0].last, points(0)), (0, 2, vec![(0, 0), (1, 150), (2, 200)]));
    // Before, it had 400 KiB more.
    assert_eq!((all[0].points[0].resident_pages, all[0].points[1].resident_pages), (200, 100));
    assert_eq!((all[1].first, all[1].last, points(1)), (1, 2, vec![(1, 150), (2, 200)]), "born within");
    assert_eq!((all[1].start_ticks, all[1].command.as_deref()), (10_100, Some("job \\x2d")));
    let ended = &all[1].points[1];
    assert_eq!((ended.state, ended.resident_pages, ended.threads), ('X', 0, 0), "it holds nothing any more");
    assert_eq!((ended.run_ns, ended.wait_ns), (None, None), "without rundelay, a wait of none is not known");
    let total = series(&past, "processes.total").unwrap();
    assert_eq!(total.values[1..], [Some(2.0), Some(1.0)].map(|value| value.map(rdiag_model::Number::Real)));
    assert_eq!(past.origin, Origin::of("atop", None));
}

#[test]
fn a_mean_is_cut_into_parts_that_sum_up() {
    let past = of(&line(1600, 600, &[(1, "init", "S", "-E")], 1001, ""), 600).unwrap();
    let points: Vec<u64> = processes(&past)[0].points.iter().map(|point| point.utime).collect();
    assert_eq!(points, [0, 250, 500, 750, 1001]);
    assert_eq!(past.origin.means_over, Some(600.0));
}

#[test]
fn time_since_boot_and_what_overlaps_are_no_intervals_and_tell_the_kills_before() {
    let kills = |count: i64| format!(r#", "PAG": {{"oomkills": {count}}}"#);
    let with = |end, elapsed, count| line(end, elapsed, &[(1, "init", "S", "-E")], 10, &kills(count));
    let text = with(1000, 5000, 3) + &with(1002, 2, 1) + &with(1003, 103, 4) + &with(1005, 2, 0);
    let past = of(&text, 5).unwrap();
    assert_eq!(past.recording.windows[0].seconds, 5.0);
    let counted = series(&past, "vmstat.oom_kill").unwrap();
    assert_eq!(counted.values[..2], [Some(3.0), Some(4.0)].map(|value| value.map(rdiag_model::Number::Real)));
    // Where the file does not tell what was before, "since boot" is not known.
    let past = of(&(with(1002, 2, 0) + &with(1004, 2, 0)), 4).unwrap();
    assert!(series(&past, "vmstat.oom_kill").is_none());
}

#[test]
fn where_nothing_was_recorded_counters_stand_still_and_no_level_is_zero() {
    let with = |end, more: &str| line(end, 2, &[(1, "init", "S", "-E")], 10, more);
    let memory = r#", "MEM": {"availablemem": 2048000}"#;
    let text = with(1002, memory) + &with(1004, "") + &with(1102, memory) + &with(1104, memory);
    let past = of(&text, 104).unwrap();
    let values = |name: &str| {
        let real = |value| if let Some(rdiag_model::Number::Real(value)) = value { Some(value) } else { None };
        series(&past, name).unwrap().values.into_iter().map(real).collect::<Vec<_>>()
    };
    let times = &past.recording.windows[0].collectors["meminfo"].times;
    assert_eq!(*times, [0.0, 2.0, 4.0, 100.0, 102.0, 104.0]);
    assert_eq!(values("meminfo.available"), [None, Some(2000.0), None, None, Some(2000.0), Some(2000.0)]);
    assert_eq!(values("cpu_stat.user"), [0.0, 10.0, 20.0, 20.0, 30.0, 40.0].map(Some));
}

#[test]
fn hostile_figures_are_dropped_and_never_panic() {
    let disks = |figure: &str| {
        format!(
            r#", "DSK": [{{"dskname": "sda", "io_ms": {figure}, "nread": 5}}, {{"dskname": "sda", "nread": 9}}, 7, {{}}]"#
        )
    };
    for figure in ["-1", "1e308", "\"nan\"", "\"1e999\"", "null", "[]", "18446744073709551615"] {
        let text = line(1002, 2, &[(1, "a\u{1}b", "", "")], u64::MAX, &disks(figure))
            + &line(1004, 2, &[(1, "a", "S", "-E"); 2], u64::MAX, &disks(figure));
        let past = of(&text, 4).unwrap();
        assert!(series(&past, "diskstats.busy_ms").is_none(), "{figure}");
        assert_eq!(series(&past, "diskstats.reads").unwrap().values.len(), 3, "{figure}: a second row of one name");
        let _ = crate::analyze(&past.recording, &plan());
    }
    for text in [
        "{\"host\": 1}",
        "{\"host\"",
        "{\"host\": \"a\", \"timestamp\": 9223372036854775807, \"elapsed\": 1e308}",
        "{\"sysstat\": 3}",
    ] {
        assert!(of(text, 4).is_err(), "{text}");
    }
}

#[test]
fn more_devices_than_there_is_room_for_are_left_out_and_that_is_said() {
    let mut building = Building::new(1, 4_000_000);
    building.interval(0.0, 1.0);
    for device in ["sda", "sdb", &"x".repeat(500)] {
        building.grow("diskstats.reads", device, rdiag_model::RawUnit::Count, Some(1.0));
    }
    assert_eq!(building.left_out(), ["It has more devices and interfaces than are read: some were left out"]);
    assert_eq!(building.finish()["diskstats"].series.len(), 1);
}
