//! Odd and hostile files; the shipped binary reads a real one in `tests/elsewhere/`.

use std::collections::BTreeSet;

use serde_json::{Value as Json, json};

use super::super::tests::{SECOND, plan, processes, series};
use super::metrics::{Kind, METRICS, factor};
use crate::past::{Past, Span, elsewhere};
use rdiag_collectors as collectors;
use rdiag_kernel::host::Zone;
use rdiag_model::RawUnit;
use rdiag_model::SeriesKind;
use rdiag_model::recording::Number;

/// When the archives of these tests begin, in seconds since 1970.
const ARCHIVE_BEGINS: i64 = 1_773_111_600;

/// A record of an archive, so many milliseconds after its beginning: values by metric, instance (none where it is empty) and unit.
fn logged(milliseconds: i64, values: &[(&str, &str, &str, &str)]) -> Json {
    let mut record = json!({"@timestamp": format!("{:.6}", ARCHIVE_BEGINS as f64 + milliseconds as f64 / 1e3)});
    for (metric, instance, unit, value) in values {
        let node = metric.split('.').fold(&mut record, |node, part| &mut node[part]);
        let mut leaf = json!({"@unit": unit, "value": value});
        if instance.is_empty() {
            *node = leaf;
            continue;
        }
        leaf["name"] = (*instance).into();
        if !node["@instances"].is_array() {
            node["@instances"] = json!([]);
        }
        node["@instances"].as_array_mut().unwrap().push(leaf);
    }
    record
}

/// A record with the CPU time so far.
fn cpu_so_far(seconds: i64, milliseconds: i64) -> Json {
    logged(seconds * 1000, &[("kernel.all.cpu.user", "", "millisec", &milliseconds.to_string())])
}

fn archived(records: &[Json]) -> String {
    json!({"@pcp": {"@hosts": [{"@host": "web-03", "@metrics": records, "@timezone": "UTC+0"}]}}).to_string()
}

/// What is known of the first so many seconds.
fn of_archive(printed: &str, seconds: i64) -> Result<Past, String> {
    let span = Span { from: ARCHIVE_BEGINS * SECOND, to: (ARCHIVE_BEGINS + seconds) * SECOND };
    elsewhere(printed.as_bytes(), span, &plan(), &Zone::utc())
}

fn archived_values(past: &Past, name: &str) -> Vec<f64> {
    let values = series(past, name).map(|series| series.values).unwrap_or_default();
    let number = |value: Option<Number>| match value {
        Some(Number::Real(value)) => value,
        other => panic!("{other:?}"),
    };
    values.into_iter().map(number).collect()
}

#[test]
fn each_metric_becomes_a_series_that_is_recorded_in_that_unit() {
    let mut names = BTreeSet::new();
    for (name, kind) in METRICS {
        assert!(names.insert(name), "{name} is there once");
        let (series, unit, is_level) = match kind {
            Kind::Counter(series, unit) => (series, unit, false),
            Kind::Level(series, unit) if *series != "loadavg." => (series, unit, true),
            _ => continue,
        };
        let (collector, _) = series.split_once('.').unwrap();
        let all = collectors::find(collector).unwrap_or_else(|| panic!("{name}: {collector}")).series;
        let found = all.iter().find(|def| def.name == *series).unwrap_or_else(|| panic!("{name}: {series}"));
        assert_eq!((found.unit, found.kind == SeriesKind::Gauge), (*unit, is_level), "{name}");
    }
}

#[test]
fn units_are_those_that_were_printed() {
    for (unit, printed, worth) in [
        (RawUnit::Ticks, "millisec", 0.1),
        (RawUnit::Ticks, "sec", 100.0),
        (RawUnit::Microseconds, "nanosec", 0.001),
        (RawUnit::Sectors, "Kbyte", 2.0),
        (RawUnit::Kibibytes, "byte", 1.0 / 1024.0),
        (RawUnit::Kibibytes, "Mbyte", 1024.0),
        (RawUnit::Count, "", 1.0),
        (RawUnit::Pages, "count", 1.0),
    ] {
        assert!((factor(unit, printed).unwrap() - worth).abs() < 1e-9, "{unit:?} {printed}");
    }
    for (unit, printed) in
        [(RawUnit::Ticks, ""), (RawUnit::Ticks, "count"), (RawUnit::Count, "byte"), (RawUnit::Bytes, "count x 10^3")]
    {
        assert_eq!(factor(unit, printed), None, "{unit:?} {printed}");
    }
}

#[test]
fn records_of_one_moment_are_one_sample_and_what_is_logged_less_often_is_left_out() {
    let mut records = Vec::new();
    for round in 0..3_i64 {
        records.push(cpu_so_far(round * 10, round * 10_000));
        let reads = (round * 50).to_string();
        records.push(logged(
            round * 10_000 + 40,
            &[
                ("disk.dev.read", "vda", "count", &reads),
                ("kernel.all.load", "1 minute", "", "2.500"),
                ("mem.util.used", "", "Kbyte", "3000"),
                ("mem.freemem", "", "Mbyte", "1"),
            ],
        ));
        if round != 1 {
            records.push(logged(round * 10_000 + 60, &[("network.tcp.insegs", "", "count", "7")]));
        }
    }
    let past = of_archive(&archived(&records), 20).unwrap();
    assert_eq!(archived_values(&past, "cpu_stat.user"), [0.0, 1000.0, 2000.0]);
    assert_eq!(archived_values(&past, "diskstats.reads"), [0.0, 50.0, 100.0]);
    assert!(series(&past, "tcp_udp.segments_received").is_none());
    assert_eq!(series(&past, "loadavg.one").unwrap().values[1..], [Some(Number::Real(2.5)); 2]);
    assert_eq!(past.notes[0], "Source: PCP, a sample every 10 s");
    assert!(
        past.notes.contains(&"Not logged every 10 s, and so left out: network.tcp.insegs".into()),
        "{:?}",
        past.notes
    );
    assert!(past.notes.iter().any(|note| note.contains("It does not have proc.psinfo every 10 s")), "{:?}", past.notes);
    // One CPU, since so much time passed on it; and what was used and free together.
    assert_eq!(past.recording.host.memory_bytes, 4024 * 1024);
    assert_eq!((past.recording.host.cpus, past.recording.host.hostname.as_str()), (1, "web-03"));
}

#[test]
fn a_sample_a_minute_is_a_mean_and_a_late_one_is_of_the_same_length() {
    let records: Vec<Json> = [0, 60_003, 119_998, 180_001]
        .into_iter()
        .map(|at| logged(at, &[("kernel.all.cpu.user", "", "millisec", &at.to_string())]))
        .collect();
    let past = of_archive(&archived(&records), 180).unwrap();
    assert_eq!((past.origin.name, past.origin.means_over), ("PCP", Some(60.0)));
    assert_eq!(past.notes[0], "Source: PCP, means over 1 min: a shorter burst may hide in them");
}

#[test]
fn a_reboot_and_a_time_without_a_logger_are_no_intervals() {
    let records = [cpu_so_far(0, 50_000), cpu_so_far(10, 60_000), cpu_so_far(20, 100), cpu_so_far(30, 10_100)];
    let past = of_archive(&archived(&records), 30).unwrap();
    assert_eq!(archived_values(&past, "cpu_stat.user"), [0.0, 1000.0, 1000.0, 2000.0]);
    let records =
        [cpu_so_far(0, 0), cpu_so_far(10, 5000), cpu_so_far(20, 9000), cpu_so_far(90, 90_000), cpu_so_far(100, 91_000)];
    let past = of_archive(&archived(&records), 100).unwrap();
    assert_eq!(archived_values(&past, "cpu_stat.user"), [0.0, 500.0, 900.0, 900.0, 1000.0]);
}

#[test]
fn processes_did_what_came_on_top_and_a_pid_may_be_given_again() {
    let task = |pid: &'static str, started: &'static str, milliseconds: &'static str| {
        [
            ("proc.psinfo.utime", pid, "millisec", milliseconds),
            ("proc.psinfo.start_time", pid, "sec", started),
            ("proc.psinfo.psargs", pid, "", "/usr/bin/job --password=hunter2"),
            ("proc.psinfo.rss", pid, "Kbyte", "400"),
            ("proc.psinfo.sname", pid, "", "R"),
        ]
    };
    let uptime =
        |seconds: i64| logged(seconds * 1000 + 10, &[("kernel.all.uptime", "", "sec", &(5000 + seconds).to_string())]);
    let all = |seconds: i64, tasks: &[[(&str, &str, &str, &str); 5]]| logged(seconds * 1000 + 20, &tasks.concat());
    let records = [
        cpu_so_far(0, 0),
        uptime(0),
        all(0, &[task("000001 init", "1", "500"), task("000009 a b", "3000", "1000")]),
        cpu_so_far(10, 9000),
        uptime(10),
        all(10, &[task("000001 init", "1", "530"), task("000009 c", "5004", "50")]),
        cpu_so_far(20, 18_000),
        uptime(20),
        all(20, &[task("000001 init", "1", "540"), task("000007 x", "5013", "700"), task("000005 old", "4", "90000")]),
    ];
    let past = of_archive(&archived(&records), 20).unwrap();
    let told: Vec<_> = processes(&past)
        .iter()
        .map(|process| {
            let points: Vec<(u16, u64)> = process.points.iter().map(|point| (point.at, point.utime)).collect();
            (process.pid, process.start_ticks, process.first, process.last, points)
        })
        .collect();
    assert_eq!(told[0], (1, 100, 0, 2, vec![(0, 0), (1, 3), (2, 4)]));
    assert_eq!(told[1], (9, 500_400, 1, 1, vec![(1, 5)]), "of the first with this pid nothing is known");
    assert_eq!((told[2].0, told[2].4.last()), (5, Some(&(1, 0))), "it was there before");
    assert_eq!(told[3], (7, 501_300, 2, 2, vec![(2, 70)]), "born within");
    let known = &processes(&past)[0];
    assert_eq!((known.comm.as_str(), known.command.as_deref()), ("job", Some("/usr/bin/job --password=***")));
    assert_eq!((known.points[0].resident_pages, known.points[0].state), (100, 'R'));
}

#[test]
fn what_cannot_be_understood_is_refused_with_what_to_type() {
    let with = |key: &str, value: Json| {
        let mut records = [cpu_so_far(0, 0), cpu_so_far(10, 5000)];
        records[1][key] = value;
        archived(&records)
    };
    let two = |metric: &str, unit: &str| archived(&[0, 10_000].map(|at| logged(at, &[(metric, "", unit, "9")])));
    for (printed, wanted) in [
        (with("@timestamp", "2026-03-10 03:00:10".into()), "does not tell the time zone"),
        (with("@timestamp", "20260310030010".into()), "does not tell the time zone"),
        (two("kernel.all.cpu.user", "ms/s"), "kernel.all.cpu.user is a rate in it; `-r`"),
        (two("mem.util.free", "Kbyte"), "it has no counters: as rates (without -r)"),
        (archived(&[cpu_so_far(0, 0)]), "it does not have two samples"),
        (archived(&[]), "it does not have two samples"),
        (archived(&[cpu_so_far(0, 0), cpu_so_far(0, 9)]), "all of its samples are of one time"),
        (with("kernel", 7.into()), "nothing that pcp2json prints of an archive: invalid type"),
        ("{\"@pcp\": {\"@hosts\": []}}".to_owned(), "it names no host"),
        ("{\"@pcp\": {\"@hosts\": [{\"@host\": \"a\", ".to_owned(), "nothing that pcp2json prints of an archive: EOF"),
    ] {
        let why = of_archive(&printed, 20).unwrap_err();
        assert!(why.contains(wanted), "{why}");
    }
}

#[test]
fn odd_figures_are_left_out_and_lines_before_the_json_too() {
    for odd in ["-1", "1e308", "nan", "", "18446744073709551616000"] {
        let records = [0, 10_000].map(|at| {
            logged(at, &[("kernel.all.cpu.user", "", "millisec", "9"), ("kernel.all.intr", "", "count", odd)])
        });
        let past = of_archive(&archived(&records), 10).unwrap();
        assert!(series(&past, "cpu_stat.interrupts").is_none(), "{odd}");
    }
    let records = [0, 10_000]
        .map(|at| logged(at, &[("kernel.all.cpu.user", "", "millisec", "9"), ("kernel.all.intr", "", "parsec", "9")]));
    let headed = "{ \"//\": \"Writing 2 archived metrics to stdout...\" }\n{ \"//\": \"(Ctrl-C to stop)\" }\n"
        .to_owned()
        + &archived(&records);
    let past = of_archive(&headed, 10).unwrap();
    assert!(
        past.notes.iter().any(|note| note.contains("kernel.all.intr has a unit that is none of its own")),
        "{:?}",
        past.notes
    );
}
