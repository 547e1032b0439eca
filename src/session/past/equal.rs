//! A short time is judged rule by rule as a run over the same seconds was, though the recorder read capacities before it and after it only.
//!
//! Runs on induced faults are written as the recorder would have written these seconds: counters and levels of each interval as they are,
//! and what is read at the ends of a window so often, and at such samples, as the recorder reads it.

use std::collections::{BTreeMap, BTreeSet};

use super::tests::{cut, essence, plan, span};
use super::*;
use crate::analyze;
use crate::testing::{WALL, captured, header_of};
use rdiag_collectors::Cadence;
use rdiag_history::{Block, write_block};
use rdiag_model::recording::{Number, Series};
use rdiag_model::{Finding, SeriesKind};

/// The window begins so many seconds after its block: a block reads capacities each minute, the last time 42 s before it.
const BEGINS: f64 = 102.0;
/// When capacities are read, and when file systems have answered.
const READ: [f64; 3] = [0.0, 60.0, 120.0];
const ANSWERED: [f64; 3] = [5.0, 65.0, 125.0];

/// Rules that the recorder may judge otherwise, with the reason. Each of them does so of one of the runs at least.
const OTHERWISE: &[(&str, &str)] = &[];

/// What the recorder has of a collector that is read at the ends of a window: `None` for each sample that reads nothing.
fn seldom(id: &str, live: &CollectorRecord) -> CollectorRecord {
    let (read_at, times): (Vec<usize>, Vec<f64>) = match id {
        "filesystems" => {
            (vec![1, 3, 5], READ.iter().zip(ANSWERED).flat_map(|(asked, answered)| [*asked, answered]).collect())
        }
        "memory_maps" => (vec![1], READ.to_vec()),
        "deleted_files" | "held_descriptors" | "kernel_tables" | "user_tasks" => (vec![0], READ.to_vec()),
        _ => (vec![0, 1, 2], READ.to_vec()),
    };
    let series = |series: &Series| {
        let is_once =
            id == "file_handles" && ["file_handles.open", "file_handles.limit"].contains(&series.name.as_str());
        let value = |at: usize| {
            let first = series.values.first().copied().flatten();
            let last = series.values.last().copied().flatten();
            let is_read = read_at.contains(&at) && !(is_once && at > 0);
            // The window lies between the last two readings.
            let is_last = times.get(at).is_some_and(|time| *time > BEGINS);
            let (best, other) = if is_last { (last, first) } else { (first, last) };
            let value = if series.kind == SeriesKind::Gauge { best.or(other) } else { best };
            value.filter(|_| is_read)
        };
        Series { values: (0..times.len()).map(value).collect::<Vec<Option<Number>>>(), ..series.clone() }
    };
    CollectorRecord { times: times.clone(), series: live.series.iter().map(series).collect(), ..live.clone() }
}

/// A run's first window as a block of the recorder, and the time of the window in it.
fn block(recording: &Recording) -> (HistoryFile, Span) {
    let window = &recording.windows[0];
    let is_seldom = |id: &str| rdiag_collectors::find(id).is_some_and(|def| def.cadence == Cadence::Ends);
    let record = |(id, live): (&String, &CollectorRecord)| {
        if is_seldom(id) {
            return (id.clone(), seldom(id, live));
        }
        let mut own = cut(live, 0.0, f64::MAX);
        own.times.iter_mut().for_each(|time| *time += BEGINS);
        (id.clone(), own)
    };
    let mut header = header_of(recording, -BEGINS, 130.0);
    header.wall_micros = WALL;
    let block = Block { header, collectors: window.collectors.iter().map(record).collect(), idle: Vec::new() };
    let file = HistoryFile { name: "0000000000-1760000000.rdh".into(), bytes: write_block(&block) };
    (file, span(BEGINS, BEGINS + window.seconds))
}

fn by_rule(findings: &[Finding]) -> BTreeMap<String, Vec<String>> {
    let mut rules: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for line in essence(findings) {
        let rule = line.split(' ').next().unwrap_or_default().to_owned();
        rules.entry(rule).or_default().push(line);
    }
    rules
}

#[test]
fn a_short_time_between_two_readings_of_capacities_is_judged_like_a_run_over_the_same_seconds() {
    let mut otherwise = BTreeSet::new();
    let (mut rules, mut wrong) = (0, Vec::new());
    for (name, mut recording) in captured().into_iter().filter(|(_, recording)| recording.playbook == "use-method") {
        recording.windows.truncate(1);
        let plan = plan(&recording);
        let live = by_rule(&analyze(&recording, &plan).findings);
        let (file, span) = block(&recording);
        let past = past(&[file], span, &plan, &Zone::utc()).unwrap();
        let judged = by_rule(&analyze(&past.recording, &plan).findings);
        let said = past
            .notes
            .iter()
            .any(|note| note.contains("the last reading before this time is judged, 102 s old at most"));
        assert!(said, "{name}: {:?}", past.notes);
        rules += live.len();
        for rule in live.keys().chain(judged.keys()).collect::<BTreeSet<_>>() {
            let (live, judged) = (live.get(rule), judged.get(rule));
            if live == judged {
                continue;
            }
            otherwise.insert(rule.clone());
            if !OTHERWISE.iter().any(|(known, _)| known == rule) {
                wrong.push(format!("{name}\n  live {live:?}\n  past {judged:?}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{} of {rules}:\n{}", wrong.len(), wrong.join("\n"));
    let unneeded: Vec<_> = OTHERWISE.iter().filter(|(rule, _)| !otherwise.contains(*rule)).collect();
    assert!(unneeded.is_empty(), "these are judged alike: {unneeded:?}");
    assert!(rules > 1000, "{rules}");
}
