//! Blocks with known figures, and the slices made of them.

use std::collections::BTreeMap;

use super::*;
use crate::testing::{WALL, header};
use rdiag_history::{Block, Header, write_block};
use rdiag_model::recording::{CollectorRecord, Number, Process, ProcessPoint, Series};
use rdiag_model::report::{ChangeKind, Course};
use rdiag_model::{Facts, RawUnit, SeriesKind};

/// How long the host was up when the first block began.
const UP: f64 = 1_000_000.0;
const CPUS: u32 = 2;

fn counter(name: &str, values: impl Iterator<Item = u64>) -> Series {
    Series {
        name: name.into(),
        instance: None,
        kind: SeriesKind::Counter,
        unit: RawUnit::Count,
        values: values.map(|value| Some(Number::Whole(value))).collect(),
    }
}

/// A block of ten minutes, a sample every 5 s, that begins so many seconds after the first: CPUs are busy for so many percent, and tasks
/// stall for I/O for so many.
fn block(at: f64, busy: u64, stalled: u64, processes: Vec<Process>) -> Block {
    let header = Header {
        host: Facts { cpus: CPUS, memory_bytes: 4096 * 100_000, ..Facts::default() },
        wall_micros: WALL + (at * 1e6) as i64,
        monotonic: UP + at,
        boottime: UP + at,
        ..header()
    };
    let times: Vec<f64> = (0..=120).map(|at| f64::from(at) * 5.0).collect();
    // Of two CPUs ten ticks for each percent of 5 s.
    let grows = |name: &str, ticks: u64| counter(name, (0..=120).map(|at| at * ticks));
    let mut cpu: Vec<Series> =
        ["nice", "irq", "softirq", "iowait", "steal"].map(|of| grows(&format!("cpu_stat.{of}"), 0)).to_vec();
    cpu.extend([grows("cpu_stat.user", busy * 5), grows("cpu_stat.system", busy * 5)]);
    cpu.push(grows("cpu_stat.idle", (100 - busy) * 10));
    let psi = vec![grows("psi.io_some", stalled * 50_000), grows("psi.io_full", stalled * 25_000)];
    let record = |series| CollectorRecord { times: times.clone(), series, ..CollectorRecord::default() };
    let collectors = BTreeMap::from([
        ("cpu_stat".to_owned(), record(cpu)),
        ("psi".to_owned(), record(psi)),
        (Block::PROCESSES.to_owned(), CollectorRecord { processes, ..record(Vec::new()) }),
    ]);
    Block { header, collectors, idle: Vec::new() }
}

/// A process that was there before, with ticks and bytes at some samples.
fn process(pid: u32, comm: &str, points: &[(u16, u64, u64)]) -> Process {
    let point = |(at, utime, read): &(u16, u64, u64)| ProcessPoint {
        at: *at,
        state: 'R',
        utime: *utime,
        read_bytes: Some(*read),
        write_bytes: Some(0),
        ..ProcessPoint::default()
    };
    let points = points.iter().map(point).collect();
    Process { pid, start_ticks: 100, comm: comm.into(), last: 120, points, ..Process::default() }
}

/// The course around the ten minutes from 09:03:20 to 09:13:20.
fn around_of(blocks: &[Block]) -> (Option<Changes>, Option<Around>) {
    let name = |at: usize| format!("{at:010}-{}.rdh", WALL / 1_000_000);
    let file = |(at, block): (usize, &Block)| HistoryFile { name: name(at), bytes: write_block(block) };
    let files: Vec<HistoryFile> = blocks.iter().enumerate().map(file).collect();
    let at = |seconds: i64| WALL + seconds * 1_000_000;
    let (span, window) = (Span { from: at(-1200), to: at(3000) }, Span { from: at(600), to: at(1200) });
    around(files.iter(), (span, window), &Zone::utc())
}

fn at(around: &Around, seconds: f64) -> &Course {
    around.slices.iter().find(|slice| (slice.seconds - seconds).abs() < 1e-6).unwrap()
}

fn is_near(known: Option<f64>, wanted: f64) -> bool {
    known.is_some_and(|known| (known - wanted).abs() < 1e-3)
}

#[test]
fn slices_of_half_a_minute_have_the_means_of_what_was_recorded_in_them() {
    let blocks = [
        block(0.0, 10, 1, Vec::new()),
        block(600.0, 90, 40, vec![process(7, "report-job", &[(0, 100, 0), (60, 100, 0), (61, 1100, 0)])]),
    ];
    let around = around_of(&blocks).1.unwrap();
    assert_eq!(around.span, "2025-10-09 08:53:20 UTC to 09:13:20");
    assert_eq!((around.source.as_str(), around.ends.as_str()), ("recorder, a sample every 5 s", "09:13:20"));
    assert_eq!((around.slice_seconds, around.slices.len(), around.judged.until), (30.0, 40, 600.0));
    assert_eq!((around.slices[0].seconds, around.slices[0].shown.as_str()), (-600.0, "08:53:20"));
    for (seconds, busy, some, full) in [(-600.0, 0.1, 0.01, 0.005), (-30.0, 0.1, 0.01, 0.005), (0.0, 0.9, 0.4, 0.2)] {
        let slice = at(&around, seconds);
        assert!(is_near(slice.cpu, busy) && is_near(slice.pressure.io_some, some), "{slice:?}");
        assert!(is_near(slice.pressure.io_full, full) && slice.pressure.cpu_some.is_none(), "{slice:?}");
    }
    // Ten seconds of CPU time from 300 to 305 s: of 60 that both CPUs had in that slice.
    let top = at(&around, 300.0).top_cpu.as_ref().unwrap();
    assert!(top.name == "report-job" && is_near(Some(top.share), 10.0 / 60.0), "{top:?}");
    let others = around.slices.iter().filter(|slice| slice.seconds != 300.0);
    assert!(others.into_iter().all(|slice| slice.top_cpu.is_none()));
    assert!(around.unrecorded.is_empty());
    // Rows of five minutes, one of which begins with the window.
    let rows: Vec<(f64, Option<f64>)> = around.rows.iter().map(|row| (row.seconds, row.cpu)).collect();
    assert_eq!(rows.iter().map(|row| row.0).collect::<Vec<_>>(), [-600.0, -300.0, 0.0, 300.0]);
    assert!(is_near(rows[1].1, 0.1) && is_near(rows[2].1, 0.9), "{rows:?}");
    assert!(is_near(around.rows[3].top_cpu.as_ref().map(|top| top.share), 10.0 / 600.0));
}

#[test]
fn what_was_not_recorded_is_a_gap_and_no_zero() {
    let around = around_of(&[block(0.0, 10, 1, Vec::new()), block(1200.0, 10, 1, Vec::new())]).1.unwrap();
    let missing: Vec<&str> = around.unrecorded.iter().map(|gap| gap.shown.as_str()).collect();
    assert_eq!(missing, ["09:03:20 to 09:13:20"]);
    let unknown = around.slices.iter().filter(|slice| slice.is_unknown()).count();
    assert_eq!((unknown, around.slices.len()), (20, 60));
    assert!(at(&around, 30.0).is_unknown() && at(&around, 600.0).cpu.is_some());
    let row = around.rows.iter().find(|row| row.seconds == 0.0).unwrap();
    assert!(row.is_unknown(), "{row:?}");
    // A slice of which nothing but a moment was recorded tells as little.
    let late =
        around_of(&[block(0.0, 10, 1, Vec::new()), block(598.0, 10, 1, Vec::new()), block(1226.0, 9, 1, Vec::new())]);
    let late = late.1.unwrap();
    assert!(at(&late, 570.0).cpu.is_some() && at(&late, 600.0).is_unknown() && at(&late, 630.0).cpu.is_some());
}

#[test]
fn nothing_is_told_where_nothing_beside_the_window_was_recorded() {
    let (changes, around) = around_of(&[block(600.0, 90, 0, Vec::new())]);
    assert!(changes.is_some() && around.is_none());
    assert_eq!(around_of(&[]), (None, None));
}

#[test]
fn the_largest_of_each_slice_is_named_by_program_and_a_little_work_is_spread_over_the_block() {
    // Two figures each and 0.4 % of a CPU: nothing says when in the block. Together they are the largest but in one slice.
    let mut processes: Vec<Process> =
        (0..10).map(|pid| process(100 + pid, "apache2", &[(0, 50, 0), (120, 290, 0)])).collect();
    processes.push(process(7, "backup", &[(0, 0, 0), (50, 0, 0), (51, 500, 1 << 20)]));
    processes.push(process(8, "postgres", &[(0, 0, 0), (50, 1, 0), (51, 2, 3 << 20)]));
    let born = Process { first: 60, ..process(9, "cron", &[(60, 990, 0)]) };
    processes.push(born);
    // More than the CPUs have had: figures of a block that is no recorder's.
    processes.push(process(10, "liar", &[(0, 0, 0), (1, u64::MAX, u64::MAX)]));
    let around = around_of(&[block(0.0, 10, 1, Vec::new()), block(600.0, 10, 1, processes)]).1.unwrap();
    let top = |seconds: f64| at(&around, seconds).top_cpu.as_ref().map(|top| (top.name.as_str(), top.share)).unwrap();
    let (name, share) = top(0.0);
    assert!(name == "apache2" && is_near(Some(share), 0.02), "24 s of 1200 s: {name} {share}");
    let (name, share) = top(240.0);
    assert!(name == "backup" && is_near(Some(share), 5.0 / 60.0), "{name} {share}");
    assert_eq!(
        (top(270.0).0, top(300.0).0),
        ("cron", "apache2"),
        "what it has used since its birth, just before 300 s"
    );
    let io = at(&around, 240.0).top_io.as_ref().unwrap();
    assert!(io.name == "postgres" && is_near(Some(io.share), 0.75), "{io:?}");
    assert!(at(&around, 0.0).top_io.is_none());
}

#[test]
fn changes_are_marked_on_the_axis() {
    let mut late = block(1200.0, 10, 1, Vec::new());
    late.header.boot = "b".into();
    (late.header.boottime, late.header.monotonic) = (40.0, 40.0);
    let (changes, around) = around_of(&[block(0.0, 10, 1, Vec::new()), block(600.0, 10, 1, Vec::new()), late]);
    let (changes, around) = (changes.unwrap(), around.unwrap());
    let [mark] = &around.marks[..] else { panic!("{:?}", around.marks) };
    assert_eq!((mark.kind, mark.seconds), (ChangeKind::Reboot, 560.0));
    assert_eq!(changes.changes[mark.change].kind, ChangeKind::Reboot);
}

#[test]
fn a_longer_time_has_fewer_slices_and_hostile_figures_give_some_picture() {
    let at = |seconds: i64| WALL + seconds * 1_000_000;
    let grid = |from, to| grid::Grid::new(Span { from: at(from), to: at(to) }, Span { from: at(0), to: at(60) });
    assert_eq!(grid(-1800, 2400).shape(), (30.0, 140, 10));
    assert_eq!(grid(-1800, 6 * 3600 + 1800).shape(), (120.0, 210, 15));
    assert_eq!(grid(i64::MIN / 4_000_000, i64::MAX / 4_000_000).shape().0, 300.0);
    let mut odd = block(0.0, 10, 1, Vec::new());
    odd.header.interval_seconds = 0.0;
    for record in odd.collectors.values_mut() {
        record.times = record.times.iter().map(|time| time * 1e6).collect();
        for series in &mut record.series {
            series.values = vec![Some(Number::Real(f64::INFINITY)); 121];
        }
    }
    let (_, around) = around_of(&[odd, block(0.0, 10, 1, Vec::new())]);
    let shares = around.iter().flat_map(|around| &around.slices).filter_map(|slice| slice.cpu);
    assert!(shares.into_iter().all(|share| (0.0..=1.0).contains(&share)));
}
