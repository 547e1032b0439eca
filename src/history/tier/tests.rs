//! Blocks, in memory and file to file, before and after.

use super::*;
use crate::{read_block, write_block};
use rdiag_model::RawUnit;

fn series(name: &str, kind: SeriesKind, values: impl IntoIterator<Item = u64>) -> Series {
    let values = values.into_iter().map(|value| Some(Number::Whole(value))).collect();
    Series { name: name.into(), instance: None, kind, unit: RawUnit::Count, values }
}

/// A block of so many samples, 5 s apart, which come a little late.
fn block(samples: usize, series: Vec<Series>, processes: Vec<Process>) -> Block {
    let (mut block, _) = read_block(&crate::framed(0, b"")).unwrap_or_else(|why| panic!("{why}"));
    block.header.seconds = samples.saturating_sub(1) as f64 * 5.0;
    block.header.stretched = [("a".to_owned(), 2), ("b".to_owned(), 24)].into();
    let times: Vec<f64> = (0..samples).map(|at| at as f64 * 5.0 + 0.000_3).collect();
    let record =
        |series, processes| CollectorRecord { times: times.clone(), series, processes, ..CollectorRecord::default() };
    block.collectors.insert("figures".into(), record(series, Vec::new()));
    if !processes.is_empty() {
        block.collectors.insert(Block::PROCESSES.into(), record(Vec::new(), processes));
    }
    block
}

/// What both ways give: in memory, and file to file.
fn thinned(block: &Block) -> Block {
    let bytes = thin_block(&write_block(block), 60.0).unwrap().unwrap();
    let (read, damage) = read_block(&bytes).unwrap();
    assert_eq!(damage, Vec::<String>::new());
    let mut own = block.clone();
    own.thin(60.0);
    assert_eq!(own, read);
    assert!(thin_block(&bytes, 60.0).unwrap().is_none(), "once is enough");
    read
}

/// Sum of the changes that are growth, as the judge counts a counter.
fn sum(series: &Series) -> u64 {
    let values: Vec<u64> = series.values.iter().flatten().map(|value| value.as_f64() as u64).collect();
    values.windows(2).map(|pair| pair[1].saturating_sub(pair[0])).sum()
}

#[test]
fn of_each_minute_the_first_sample_stays_and_the_last_of_all() {
    let counter = || series("a", SeriesKind::Counter, (0..120).map(|at| 7 + at * at));
    let before = block(120, vec![counter()], Vec::new());
    let thin = thinned(&before);
    let record = &thin.collectors["figures"];
    let whole: Vec<i64> = record.times.iter().map(|time| *time as i64).collect();
    assert_eq!(whole, [0, 60, 120, 180, 240, 300, 360, 420, 480, 540, 595]);
    assert_eq!(sum(&record.series[0]), sum(&counter()));
    assert_eq!(
        (thin.header.interval_seconds, thin.header.recorded_interval(), thin.header.seconds),
        (60.0, 5.0, 595.0)
    );
    assert_eq!(thin.header.stretched, [("b".to_owned(), 2)].into(), "every 10 s is often enough now");
    for samples in [0, 1, 2] {
        let few = block(samples, vec![series("a", SeriesKind::Counter, 0..samples as u64)], Vec::new());
        assert_eq!(thinned(&few).collectors, few.collectors, "{samples}");
    }
}

#[test]
fn a_reset_a_wrap_and_another_device_are_seen_as_they_were() {
    // Within a minute it falls and grows past what it was: in the sum that is no growth of 95.
    let reset = |at: u64| if at < 27 { 100 + at } else { (at - 27) * 40 };
    let wrap = |at: u64| (at * 900_000_000) & 0xffff_ffff;
    let before = vec![
        series("a", SeriesKind::Counter, (0..120).map(reset)),
        series("b", SeriesKind::CounterStepsBack, (0..120).map(|at| 1000 + at * 10 - at % 2 * 15)),
    ];
    let thin = thinned(&block(120, before.clone(), Vec::new()));
    assert_eq!(sum(&thin.collectors["figures"].series[0]), sum(&before[0]));
    assert_eq!(thin.collectors["figures"].times.len(), 13, "one on either side");
    let wraps = series("a", SeriesKind::Counter32, (0..120).map(wrap));
    let thin = thinned(&block(120, vec![wraps.clone()], Vec::new()));
    let grown = |series: &Series| {
        let values: Vec<u64> = series.values.iter().flatten().map(|value| value.as_f64() as u64).collect();
        values.windows(2).map(|pair| pair[1].wrapping_sub(pair[0]) & 0xffff_ffff).sum::<u64>()
    };
    assert_eq!(grown(&thin.collectors["figures"].series[0]), grown(&wraps));
    let other = series("disk.identity", SeriesKind::Gauge, (0..120).map(|at| u64::from(at > 30)));
    let thin = thinned(&block(120, vec![other], Vec::new()));
    let known: Vec<f64> =
        thin.collectors["figures"].series[0].values.iter().flatten().map(|value| value.as_f64()).collect();
    assert_eq!(known.iter().filter(|value| **value == 0.0).count(), 4, "as it was, and no mean: {known:?}");
    assert_eq!(known.len(), 13);
}

#[test]
fn a_level_becomes_the_mean_of_its_minute_and_stays_where_it_did_not_move() {
    let mut levels = vec![
        series("tasks", SeriesKind::Gauge, (0..24).map(|at| u64::from(at == 3) * 9)),
        series("bytes", SeriesKind::Gauge, (0..24).map(|at| 1_000_000 + at)),
        series("limit", SeriesKind::Gauge, [u64::MAX; 24]),
        series("late", SeriesKind::Gauge, [5; 24]),
    ];
    levels[3].values[..14].fill(None);
    let thin = thinned(&block(24, levels, Vec::new()));
    let of = |at: usize| thin.collectors["figures"].series[at].values.clone();
    assert_eq!(of(0), [Some(Number::Real(0.75)), Some(Number::Whole(0)), Some(Number::Whole(0))]);
    assert_eq!(of(1), [1_000_006, 1_000_017, 1_000_023].map(|value| Some(Number::Whole(value))));
    assert_eq!(of(2), [Some(Number::Whole(u64::MAX)); 3]);
    assert_eq!(of(3), [None, Some(Number::Whole(5)), Some(Number::Whole(5))]);
}

#[test]
fn a_process_keeps_what_it_used_and_one_that_lived_in_between_does() {
    let point = |(at, utime, read_bytes): (u16, u64, Option<u64>)| ProcessPoint {
        at,
        utime,
        read_bytes,
        state: 'S',
        ..ProcessPoint::default()
    };
    let process = |pid, first, last, points: &[(u16, u64, Option<u64>)]| Process {
        pid,
        first,
        last,
        points: points.iter().copied().map(point).collect(),
        ..Process::default()
    };
    let all = vec![
        process(
            1,
            0,
            119,
            &[(0, 10, Some(5)), (3, 40, Some(6)), (12, 50, Some(7)), (13, 60, Some(7)), (119, 70, Some(9))],
        ),
        // Born, and gone, between two samples that stay; as a zombie it told less.
        process(2, 14, 17, &[(14, 30, Some(100)), (16, 90, Some(4096)), (17, 95, None)]),
        process(3, 118, 118, &[(118, 3, None)]),
    ];
    let thin = thinned(&block(120, Vec::new(), all));
    let all = &thin.collectors[Block::PROCESSES].processes;
    let told = |at: usize| {
        let one = &all[at];
        let points: Vec<_> = one.points.iter().map(|point| (point.at, point.utime, point.read_bytes)).collect();
        (one.first, one.last, points)
    };
    assert_eq!(told(0), (0, 10, vec![(0, 10, Some(5)), (1, 50, Some(7)), (2, 60, Some(7)), (10, 70, Some(9))]));
    assert_eq!(told(1), (2, 2, vec![(2, 95, Some(4096))]));
    assert_eq!(told(2), (10, 10, vec![(10, 3, None)]));
}

#[test]
fn what_begins_or_ends_within_a_minute_keeps_what_it_counted() {
    // A group that is killed from at 80 s and removed at 90 s, and one that is made at 100 s and removed at 125 s.
    let mut removed = series("cgroup_memory.oom_kill", SeriesKind::Counter, (0..120).map(|at| u64::from(at >= 16)));
    removed.values[18..].fill(None);
    let mut brief = series("cgroup_memory.limit_hits", SeriesKind::Counter, (0..120).map(|at| at * 3));
    brief.values[..20].fill(None);
    brief.values[26..].fill(None);
    // Away for a while: the growth until then is of that time.
    let mut away = series("away", SeriesKind::CounterStepsBack, (0..120).map(|at| at * 5));
    away.values[40..51].fill(None);
    let mut level = series("level", SeriesKind::Gauge, [1; 120]);
    level.values[3..9].fill(None);
    let before = vec![removed, brief, away, level];
    let thin = thinned(&block(120, before.clone(), Vec::new()));
    let record = &thin.collectors["figures"];
    for (before, after) in before.iter().zip(&record.series).take(3) {
        assert_eq!(sum(after), sum(before), "{}", before.name);
    }
    let times: Vec<i64> = record.times.iter().map(|time| *time as i64).collect();
    let edges = [85, 100, 125, 195, 255];
    assert_eq!(times.iter().filter(|time| *time % 60 != 0 && **time != 595).copied().collect::<Vec<_>>(), edges);
}

#[test]
fn of_figures_that_say_how_full_a_resource_is_the_extremes_within_a_minute_stay() {
    // 3 s of I/O stall in an interval of 5 s, and a short queue.
    let stalled = |at: u64| at * 100_000 + if at > 30 { 3_000_000 } else { 0 };
    let io = series("psi.io_full", SeriesKind::Counter, (0..120).map(stalled));
    let queue = series("loadavg.runnable", SeriesKind::Gauge, (0..120).map(|at| if at == 50 { 9 } else { 1 }));
    let other = series("a", SeriesKind::Counter, (0..120).map(|at| at * at));
    let thin = thinned(&block(120, vec![io, queue, other], Vec::new()));
    let of = |block: &Block| {
        let all = &block.collectors["figures"].series;
        let values =
            |series: &Series| series.values.iter().map(|value| value.map(|value| value.as_f64() as i64)).collect();
        all.iter().map(|series| (series.name.clone(), values(series))).collect::<Vec<(String, Vec<Option<i64>>)>>()
    };
    let told = |largest: i64, usual: i64, at: usize, last: Option<i64>| {
        let all =
            (0..11).map(|minute| if minute == 10 { last } else { Some(if minute == at { largest } else { usual }) });
        all.collect::<Vec<_>>()
    };
    let all = of(&thin);
    let names: Vec<&str> = all.iter().skip(3).map(|(name, _)| name.as_str()).collect();
    let kinds = [("psi.io_full", "largest"), ("psi.io_full", "smallest"), ("loadavg.runnable", "largest")];
    let wanted = kinds.map(|(name, kind)| format!("{name}.{kind}"));
    assert_eq!(names[..3], wanted);
    assert_eq!(names.len(), 4, "and none of the third series");
    // The last sample of all stands for nothing but itself.
    assert_eq!(all[3].1, told(620_000, 20_000, 2, None));
    assert_eq!(all[4].1, told(20_000, 20_000, 2, None));
    assert_eq!(all[5].1, told(9, 1, 4, None));
    // Once more, at two minutes: those of both.
    let mut twice = thin.clone();
    twice.thin(120.0);
    let all = of(&twice);
    assert_eq!(all.len(), 7);
    assert_eq!(
        all[3].1,
        [20_000, 620_000, 20_000, 20_000, 20_000].map(Some).into_iter().chain([None]).collect::<Vec<_>>()
    );
    assert_eq!(all[5].1[2], Some(9));
}

#[test]
fn a_level_that_only_grows_is_what_it_was_at_its_sample() {
    let kills = series("cgroup_memory.oom_kill_so_far", SeriesKind::Gauge, (0..24).map(|at| u64::from(at > 4)));
    let oldest = series("kernel_log.overwritten", SeriesKind::Gauge, (0..24).map(|at| at * at));
    let thin = thinned(&block(24, vec![kills, oldest], Vec::new()));
    let of = |at: usize| thin.collectors["figures"].series[at].values.clone();
    assert_eq!(of(0), [0, 1, 1].map(|value| Some(Number::Whole(value))), "and no 0.58 processes");
    assert_eq!(of(1), [0, 144, 529].map(|value| Some(Number::Whole(value))));
}

#[test]
fn slow_readings_are_as_many_of_those_that_stay() {
    let mut before = block(120, vec![series("a", SeriesKind::Counter, 0..120)], Vec::new());
    let record = before.collectors.get_mut("figures").unwrap();
    (record.jittered, record.missed) = (40, 7);
    let thin = thinned(&before);
    let record = &thin.collectors["figures"];
    assert_eq!((record.jittered, record.times.len(), record.missed), (4, 11, 7));
    assert_eq!(
        [(0, 11, 120), (1, 11, 120), (120, 11, 120), (3, 0, 0)].map(|(a, b, c)| of_samples(a, b, c)),
        [0, 0, 11, 0]
    );
}

#[test]
fn a_process_that_has_ended_holds_nothing_at_the_sample_that_stays() {
    let point = |at, utime, resident_pages| ProcessPoint {
        at,
        utime,
        resident_pages,
        threads: 2,
        state: 'D',
        swap_kb: Some(8),
        ..ProcessPoint::default()
    };
    let process =
        |pid, first, last, points: Vec<ProcessPoint>| Process { pid, first, last, points, ..Process::default() };
    let all = vec![
        // Gone at 580 s; its last point is of 20 s, or of the same minute.
        process(1, 0, 115, vec![point(0, 10, 500), point(4, 20, 900)]),
        process(2, 0, 115, vec![point(0, 10, 500), point(114, 20, 900)]),
        // There to the end, and one that was seen last at a sample that stays.
        process(3, 0, 119, vec![point(0, 10, 500), point(114, 20, 900)]),
        process(4, 0, 24, vec![point(0, 10, 500)]),
        process(5, 0, 13, Vec::new()),
    ];
    let thin = thinned(&block(120, Vec::new(), all));
    let told = |at: usize| {
        let one = &thin.collectors[Block::PROCESSES].processes[at];
        let held = |point: &ProcessPoint| (point.at, point.utime, point.resident_pages, point.threads, point.swap_kb);
        (one.last, one.points.iter().map(held).collect::<Vec<_>>())
    };
    let begins = (0, 10, 500, 2, Some(8));
    assert_eq!(told(0), (10, vec![begins, (1, 20, 900, 2, Some(8)), (10, 20, 0, 0, Some(0))]));
    assert_eq!(told(1), (10, vec![begins, (10, 20, 0, 0, Some(0))]));
    assert_eq!(told(2), (10, vec![begins, (10, 20, 900, 2, Some(8))]));
    assert_eq!(told(3), (2, vec![begins]));
    assert_eq!(told(4), (2, vec![]));
    assert_eq!(thin.collectors[Block::PROCESSES].processes[0].points[2].state, 'X', "nor does it wait for a disk");
}

#[test]
fn what_is_damaged_stays_so_alone_and_is_named_as_before() {
    let figures =
        (0..4).map(|at| series(&format!("s{at}"), SeriesKind::Counter, (0..120).map(|n| n * n * (at + 1)))).collect();
    let points = (0..120).map(|at| ProcessPoint { at, utime: u64::from(at) * 3, ..ProcessPoint::default() }).collect();
    let whole = block(120, figures, vec![Process { pid: 9, last: 119, points, ..Process::default() }]);
    let bytes = write_block(&whole);
    let mut thin = whole.clone();
    thin.thin(60.0);
    for bit in (0..bytes.len() * 8).step_by(37) {
        let mut bytes = bytes.clone();
        bytes[bit / 8] ^= 1 << (bit % 8);
        let (_, before) = read_block(&bytes).unwrap();
        let (read, after) = read_block(&thin_block(&bytes, 60.0).unwrap().unwrap()).unwrap();
        assert_eq!(after, before, "bit {bit}");
        let unlike = thin.collectors.iter().filter(|(id, record)| read.collectors.get(*id) != Some(record)).count();
        assert!(unlike <= 1, "bit {bit}");
    }
    for length in 0..bytes.len() {
        // Torn anywhere: refused, or its end is missing as before.
        let cut = &bytes[..length];
        let thin = thin_block(cut, 60.0);
        assert_eq!(thin.is_ok(), read_block(cut).is_ok(), "{length}");
    }
    assert!(thin_block(b"no block", 60.0).unwrap_err().contains("no header"));
}
