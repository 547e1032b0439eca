//! A recording, cut into blocks and put together again, gives the findings that it gave.

use std::collections::BTreeMap;

use super::*;
use crate::analyze;
use crate::library::resolve;
use crate::testing::{WALL, captured, header_of};
use rdiag_history::{Block, Header, write_block};
use rdiag_model::recording::{Process, ProcessPoint, Series};
use rdiag_model::{Finding, Number, RawUnit, SeriesKind, Status};

/// A host, and what its recorder has of some collectors.
pub(super) struct Host {
    recording: Recording,
    plan: Plan,
}

/// A collector with its times and its series.
type Told = (&'static str, Vec<f64>, Vec<Series>);

impl Host {
    pub(super) fn new() -> Self {
        let (_, recording) = captured().swap_remove(0);
        let plan = plan(&recording);
        Self { recording, plan }
    }

    /// A block that begins at some second, with a sample of PSI every 5 s.
    pub(super) fn block<const N: usize>(&self, at: f64, seconds: f64, told: [Told; N]) -> Block {
        let header = Header { interval_seconds: 5.0, ..header_of(&self.recording, at, seconds) };
        let every: Vec<f64> = (0..=(seconds / 5.0) as usize).map(|at| at as f64 * 5.0).collect();
        let all = told.into_iter().chain([("psi", every, Vec::new())]);
        let record = |(id, times, series): Told| {
            (id.to_owned(), CollectorRecord { times, series, ..CollectorRecord::default() })
        };
        Block { header, collectors: all.map(record).collect(), idle: Vec::new() }
    }

    /// The window between two seconds, and what is said of it.
    pub(super) fn past(&self, blocks: Vec<Block>, from: f64, to: f64) -> (Window, Vec<String>) {
        let piece = |block| Piece { name: "0000000000-1.rdh".into(), block, damage: Vec::new() };
        let pieces = blocks.into_iter().map(piece).collect();
        let mut past = past_of(pieces, span(from, to), &self.plan, &Zone::utc()).unwrap();
        (past.recording.windows.remove(0), past.notes)
    }
}

pub(super) fn level(name: &str, instance: Option<&str>, values: Vec<Option<Number>>) -> Series {
    let (kind, unit) = (SeriesKind::Gauge, RawUnit::Count);
    Series { name: name.into(), instance: instance.map(str::to_owned), kind, unit, values }
}

/// A counter.
pub(super) fn whole(name: &str, instance: Option<&str>, values: &[Option<u64>]) -> Series {
    let values = values.iter().map(|value| value.map(Number::Whole)).collect();
    Series { kind: SeriesKind::Counter, ..level(name, instance, values) }
}

/// The part of a record that lies within, as a block has it.
pub(super) fn cut(record: &CollectorRecord, from: f64, to: f64) -> CollectorRecord {
    let within = |time: &f64| (from..to).contains(time);
    let low = record.times.iter().position(within).unwrap_or(record.times.len());
    let high = record.times.iter().rposition(within).map_or(low, |at| at + 1);
    let series = |series: &Series| Series { values: series.values[low..high].to_vec(), ..series.clone() };
    let process = |process: &Process| {
        let (first, last) = (usize::from(process.first), usize::from(process.last));
        if first >= high || last < low {
            return None;
        }
        let before = process.points.iter().rev().find(|point| usize::from(point.at) < low);
        let mut points: Vec<ProcessPoint> =
            before.map(|point| ProcessPoint { at: 0, ..point.clone() }).into_iter().collect();
        for point in process.points.iter().filter(|point| (low..high).contains(&usize::from(point.at))) {
            let at = point.at - low as u16;
            points.retain(|known| known.at != at);
            points.push(ProcessPoint { at, ..point.clone() });
        }
        let (first, last) = (first.max(low) - low, last.min(high - 1) - low);
        Some(Process { first: first as u16, last: last as u16, points, ..process.clone() })
    };
    CollectorRecord {
        times: record.times[low..high].iter().map(|time| time - from).collect(),
        series: record.series.iter().map(series).collect(),
        processes: record.processes.iter().filter_map(process).collect(),
        ..record.clone()
    }
}

/// A recording's first window as files of the recorder: a block each `length` seconds.
fn files(recording: &Recording, length: f64) -> Vec<HistoryFile> {
    let window = &recording.windows[0];
    let blocks = (window.seconds / length).ceil() as usize;
    (0..blocks)
        .map(|at| {
            let (from, to) =
                (at as f64 * length, if at + 1 == blocks { window.seconds + 1.0 } else { (at + 1) as f64 * length });
            let collectors: BTreeMap<_, _> =
                window.collectors.iter().map(|(id, record)| (id.clone(), cut(record, from, to))).collect();
            let last = collectors.values().filter_map(|record| record.times.last().copied()).fold(0.0, f64::max);
            let block = Block { header: header_of(recording, from, last), collectors, idle: Vec::new() };
            HistoryFile {
                name: format!("{at:010}-{}.rdh", (WALL / 1_000_000) + from as i64),
                bytes: write_block(&block),
            }
        })
        .collect()
}

pub(super) fn span(from: f64, to: f64) -> Span {
    Span { from: WALL + (from * 1e6) as i64, to: WALL + (to * 1e6) as i64 }
}

/// What must be the same: which rule, of what, how bad, and who is behind it.
pub(super) fn essence(findings: &[Finding]) -> Vec<String> {
    let mut all: Vec<String> = findings
        .iter()
        .map(|finding| {
            let culprit = finding.culprit.as_ref().map(|culprit| culprit.name.clone());
            format!("{} {:?} {:?} {culprit:?}", finding.id, finding.instance, finding.status)
        })
        .collect();
    all.sort();
    all
}

/// The plan of use-method without its drill-downs, whose probes no block holds, and without steps that are newer than the recording.
pub(super) fn plan(recording: &Recording) -> Plan {
    let mut plan = resolve("use-method").unwrap().plan_of(recording).unwrap();
    plan.windows.truncate(1);
    let ran = |id: &String| recording.windows.iter().any(|window| window.steps.contains(id));
    plan.windows.iter_mut().for_each(|steps| steps.retain(|step| ran(&step.step.id)));
    plan
}

#[test]
fn a_recording_through_blocks_gives_the_same_findings() {
    let all = captured();
    assert!(!all.is_empty());
    for (name, mut recording) in all.into_iter().filter(|(_, recording)| recording.playbook == "use-method") {
        recording.windows.truncate(1);
        let plan = plan(&recording);
        let wanted = essence(&analyze(&recording, &plan).findings);
        for length in [1000.0, 3.0] {
            let files = files(&recording, length);
            let past = past(&files, span(-1.0, recording.windows[0].seconds + 1.0), &plan, &Zone::utc()).unwrap();
            let findings = analyze(&past.recording, &plan).findings;
            assert_eq!(essence(&findings), wanted, "{name} in blocks of {length} s: {:?}", past.notes);
        }
    }
}

#[test]
fn a_time_of_which_a_part_was_thinned_is_judged_at_the_distance_of_that_part_and_says_so() {
    let mut all = captured().into_iter().map(|(_, recording)| recording);
    let recording = all.find(|one| one.playbook == "use-method" && one.windows[0].seconds >= 6.0).unwrap();
    let plan = plan(&recording);
    let whole = files(&recording, 4.0);
    let mut mixed = files(&recording, 4.0);
    mixed[0].bytes = rdiag_history::thin_block(&mixed[0].bytes, 2.0).unwrap().unwrap();
    let of = |files: &[HistoryFile]| past(files, span(-1.0, 1000.0), &plan, &Zone::utc()).unwrap();
    let (fine, coarse) = (of(&whole), of(&mixed));
    let busy = |past: &Past| {
        let analysis = analyze(&past.recording, &plan);
        let finding = analysis.findings.into_iter().find(|finding| finding.id == "cpu.utilization").unwrap();
        format!("{:?}", finding.value)
    };
    assert_eq!(busy(&coarse), busy(&fine), "the mean of a counter loses nothing");
    assert_eq!((fine.recording.windows[0].interval_seconds, coarse.recording.windows[0].interval_seconds), (1.0, 2.0));
    let samples = |past: &Past| past.recording.windows[0].collectors["cpu_stat"].times.len();
    assert!(samples(&coarse) < samples(&fine) && samples(&coarse) > 4, "{} of {}", samples(&coarse), samples(&fine));
    assert!(
        coarse.notes[0].starts_with("Source: the recorder, a sample every 2 s (thinned from 1 s)"),
        "{:?}",
        coarse.notes
    );
    assert!(coarse.notes[1].starts_with("Part of this time has a sample every 2 s only"), "{:?}", coarse.notes);
    assert!(!fine.notes.iter().any(|note| note.contains("thinned")), "{:?}", fine.notes);
    // Between two samples that stayed.
    let why = past(&mixed, span(1.4, 1.5), &plan, &Zone::utc()).unwrap_err();
    assert!(why.contains("thinned to a sample every 2 s: ask for a longer one with --last"), "{why}");
}

#[test]
fn a_time_that_is_compared_with_a_thinned_one_gets_its_distance_and_says_so() {
    let mut all = captured().into_iter().map(|(_, recording)| recording);
    let recording = all.find(|one| one.playbook == "use-method" && one.windows[0].seconds >= 6.0).unwrap();
    let plan = plan(&recording);
    let files = files(&recording, 4.0);
    let of = |at_least| past_every(&files, span(-1.0, 1000.0), &plan, &Zone::utc(), at_least).unwrap();
    for (at_least, every) in [(0.0, 1.0), (1.0, 1.0), (1.4, 1.0), (2.0, 2.0)] {
        let past = of(at_least);
        assert_eq!(past.recording.windows[0].interval_seconds, every, "{at_least}");
        let said = past.notes.iter().filter(|note| {
            *note == "The time it is compared with has a sample every 2 s only, so this one is judged at that distance too"
        });
        assert_eq!(said.count(), usize::from(every > 1.0), "{:?}", past.notes);
    }
}

#[test]
fn a_level_of_a_thinned_time_tells_nothing_of_what_came_after_it() {
    // Idle until 300 s, and then a queue of 12.
    let level = |name: &str, of: fn(usize) -> f64| Series {
        name: name.into(),
        instance: None,
        kind: SeriesKind::Gauge,
        unit: RawUnit::Count,
        values: (0..120).map(|at| Some(Number::Real(of(at)))).collect(),
    };
    let mut block = one_block(0.0, 595.0, |_| {});
    let times: Vec<f64> = (0..120).map(|at| f64::from(at) * 5.0).collect();
    let series = vec![
        level("loadavg.runnable", |at| if at > 60 { 12.0 } else { 0.0 }),
        level("a.limit", |_| 4.0),
        level("a.oom_kill_so_far", |at| if at > 60 { 12.0 } else { 0.0 }),
        level("a.identity", |at| if at > 80 { 7.0 } else { 5.0 }),
    ];
    let record = CollectorRecord { times, series, jittered: 40, ..CollectorRecord::default() };
    block.collectors = ["loadavg", "filesystems"].map(|id| (id.to_owned(), record.clone())).into();
    let thin = rdiag_history::thin_block(&write_block(&block), 60.0).unwrap().unwrap();
    let files = [HistoryFile { name: "0000000000-1.rdh".into(), bytes: thin }];
    let (_, recording) = captured().swap_remove(0);
    let of = |to: f64| past(&files, span(0.0, to), &plan(&recording), &Zone::utc()).unwrap().recording;
    let last = |recording: &Recording, id: &str| {
        let record = &recording.windows[0].collectors[id];
        let of = |series: &Series| (series.name.clone(), series.values.last().copied().flatten().map(Number::as_f64));
        (record.times.len(), record.series.iter().map(of).collect::<BTreeMap<_, _>>())
    };
    let (samples, cut) = last(&of(301.0), "loadavg");
    assert_eq!((samples, cut["loadavg.runnable"], cut["a.limit"]), (6, None, Some(4.0)), "of the minute up to 360 s");
    assert_eq!((cut["a.oom_kill_so_far"], cut["a.identity"]), (Some(0.0), Some(5.0)));
    assert_eq!(last(&of(301.0), "filesystems").1["loadavg.runnable"], Some(11.0), "read once a minute, it is no mean");
    assert_eq!(last(&of(600.0), "loadavg").1["loadavg.runnable"], Some(12.0));
    assert_eq!(of(600.0).windows[0].collectors["loadavg"].jittered, 4);
    assert_eq!(of(301.0).windows[0].collectors["loadavg"].jittered, 2, "of 6 samples");
}

#[test]
fn what_nobody_looked_at_is_unknown_with_the_remedy() {
    let fired = |recording: &Recording| {
        let plan = resolve("use-method").unwrap().plan_of(recording).unwrap();
        past(&files(recording, 1000.0), span(-1.0, 1000.0), &plan, &Zone::utc()).map(|past| (past, plan)).unwrap()
    };
    let all = captured().into_iter().filter(|(_, recording)| recording.playbook == "use-method");
    let with_drill_down =
        all.map(|(_, recording)| fired(&recording)).find(|(past, _)| !past.recording.windows[0].probes.is_empty());
    let (past, plan) = with_drill_down.expect("a capture in which a rule fires");
    let findings = analyze(&past.recording, &plan).findings;
    let unknown = findings.iter().filter(|finding| finding.status == Status::Unknown);
    let gap =
        unknown.filter_map(|finding| finding.unavailable.as_ref()).find(|gap| gap.why.starts_with("not recorded then"));
    assert_eq!(gap.and_then(|gap| gap.remedy.as_deref()), Some("run rdiag while it is slow"));
}

fn one_block(at: f64, seconds: f64, change: impl FnOnce(&mut Header)) -> Block {
    let (_, recording) = captured().swap_remove(0);
    let mut header = Header { interval_seconds: 5.0, ..header_of(&recording, at, seconds) };
    change(&mut header);
    let times: Vec<f64> = (0..=(seconds / 5.0) as usize).map(|at| at as f64 * 5.0).collect();
    let record = CollectorRecord { times, ..CollectorRecord::default() };
    Block { header, collectors: BTreeMap::from([("psi".to_owned(), record)]), idle: Vec::new() }
}

fn notes_of(blocks: &[Block], span: Span) -> Result<(f64, Vec<String>), String> {
    let file =
        |(at, block): (usize, &Block)| HistoryFile { name: format!("{at:010}-1.rdh"), bytes: write_block(block) };
    let files: Vec<HistoryFile> = blocks.iter().enumerate().map(file).collect();
    let (_, recording) = captured().swap_remove(0);
    past(&files, span, &plan(&recording), &Zone::utc()).map(|past| (past.recording.windows[0].seconds, past.notes))
}

#[test]
fn a_gap_a_reboot_and_a_clock_that_was_set_are_said() {
    let whole = one_block(0.0, 595.0, |_| {});
    let later = one_block(700.0, 300.0, |_| {});
    let (seconds, notes) = notes_of(&[whole.clone(), later.clone()], span(0.0, 1000.0)).unwrap();
    assert_eq!(seconds, 1000.0);
    assert_eq!(notes[1..], ["Nothing was recorded from 2025-10-09 09:03:15 UTC to 09:05:00"]);
    let booted = Block { header: Header { boot: "b".into(), monotonic: 3.0, ..later.header.clone() }, ..later.clone() };
    let (seconds, notes) = notes_of(&[whole.clone(), booted], span(0.0, 1000.0)).unwrap();
    assert_eq!(seconds, 595.0, "the longer part");
    assert!(
        notes[1].starts_with("The host was booted meanwhile: what was recorded from 2025-10-09 09:05:00"),
        "{notes:?}"
    );
}

#[test]
fn a_clock_that_was_set_by_an_hour_either_way_leaves_the_shorter_part_out() {
    let whole = one_block(0.0, 595.0, |_| {});
    // Recorded 600 s later, when the wall clock had been set.
    let later = |by: f64, seconds: f64| one_block(600.0, seconds, |header| header.wall_micros += (by * 1e6) as i64);
    let (seconds, notes) = notes_of(&[whole.clone(), later(3600.0, 300.0)], span(0.0, 5000.0)).unwrap();
    assert_eq!(seconds, 595.0);
    let wanted = "The clock was set meanwhile: what was recorded from 2025-10-09 10:03:20 UTC to 10:08:20 is left out";
    assert_eq!(notes[1], wanted);
    let (seconds, notes) = notes_of(&[whole.clone(), later(-3600.0, 900.0)], span(-4000.0, 5000.0)).unwrap();
    assert_eq!(seconds, 900.0);
    let wanted = "The clock was set meanwhile: what was recorded from 2025-10-09 08:53:20 UTC to 09:03:15 is left out";
    assert_eq!(notes[1], wanted);
    // Back by as long as the block: the same time is there twice, and the later one is as long.
    let (_, notes) = notes_of(&[whole, later(-600.0, 595.0)], span(0.0, 595.0)).unwrap();
    assert!(notes[1].starts_with("The clock was set meanwhile"), "{notes:?}");
}

#[test]
fn a_time_in_which_the_host_slept_is_judged_as_a_whole_and_says_so() {
    let whole = one_block(0.0, 595.0, |_| {});
    let after = |slept: f64| {
        one_block(600.0, 300.0, |header| {
            header.boottime += slept;
            header.wall_micros += (slept * 1e6) as i64;
        })
    };
    let (seconds, notes) = notes_of(&[whole.clone(), after(3600.0)], span(0.0, 4500.0)).unwrap();
    assert_eq!(seconds, 900.0, "what was recorded before and after");
    assert_eq!(notes[1..], ["The host slept for 60.0 min before 10:03:20"]);
    // Beside that, nothing was recorded for a while.
    let mut late = after(3600.0);
    for clock in [&mut late.header.monotonic, &mut late.header.boottime] {
        *clock += 60.0;
    }
    late.header.wall_micros += 60_000_000;
    let (seconds, notes) = notes_of(&[whole.clone(), late], span(0.0, 4560.0)).unwrap();
    assert_eq!(seconds, 960.0);
    let gap = "Nothing was recorded from 2025-10-09 10:03:15 UTC to 10:04:20";
    assert_eq!(notes[1..], ["The host slept for 60.0 min before 10:04:20", gap]);
    // A host that slept, and whose clock was set then.
    let mut both = after(3600.0);
    both.header.wall_micros -= 3_600_000_000;
    let (seconds, notes) = notes_of(&[whole.clone(), both], span(0.0, 4500.0)).unwrap();
    assert!(seconds == 595.0 && notes[1].starts_with("The clock was set meanwhile"), "{notes:?}");
    let files: Vec<HistoryFile> = [whole, after(3600.0)]
        .iter()
        .enumerate()
        .map(|(at, block)| HistoryFile { name: format!("{at:010}-1.rdh"), bytes: write_block(block) })
        .collect();
    let (_, recording) = captured().swap_remove(0);
    let past = past(&files, span(0.0, 4500.0), &plan(&recording), &Zone::utc()).unwrap();
    assert!((past.recording.suspended_seconds() - 3600.0).abs() < 1e-6);
}

#[test]
fn nothing_recorded_is_an_error_that_names_the_time() {
    let block = one_block(0.0, 595.0, |_| {});
    let why = notes_of(&[block], span(5000.0, 5600.0)).unwrap_err();
    assert_eq!(why, "nothing was recorded between 2025-10-09 10:16:40 UTC and 2025-10-09 10:26:40 UTC");
}

#[test]
fn a_process_that_did_nothing_at_first_is_not_born_when_it_did() {
    let point = |at, utime| ProcessPoint { at, utime, state: 'S', ..ProcessPoint::default() };
    let process = |start_ticks, points: Vec<ProcessPoint>| Process {
        pid: 7,
        start_ticks,
        last: 119,
        points,
        ..Process::default()
    };
    let mut first = one_block(0.0, 595.0, |header| header.boottime = 1000.0);
    let mut next = one_block(600.0, 595.0, |header| header.boottime = 1600.0);
    let with = |block: &mut Block, processes: Vec<Process>, idle: Vec<(u32, u64)>| {
        let times = (0..120).map(|at| f64::from(at) * 5.0).collect();
        let record = CollectorRecord { times, processes, ..CollectorRecord::default() };
        block.collectors.insert("processes".into(), record);
        block.idle = idle;
    };
    for (start_ticks, begins) in [(500, 0), (150_000, 120)] {
        with(&mut first, vec![], vec![(7, 500)]);
        with(&mut next, vec![process(start_ticks, vec![point(0, 1000), point(20, 1600)])], vec![]);
        let file =
            |at: usize, block: &Block| HistoryFile { name: format!("{at:010}-1.rdh"), bytes: write_block(block) };
        let (_, recording) = captured().swap_remove(0);
        let files = [file(1, &first), file(2, &next)];
        let past = past(&files, span(0.0, 1200.0), &plan(&recording), &Zone::utc()).unwrap();
        let table = &past.recording.windows[0].collectors["processes"].processes;
        assert_eq!((table[0].first, table[0].last, table[0].points[0].at), (begins, 239, begins), "{table:?}");
    }
}
