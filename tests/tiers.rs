//! Old blocks of the recorder with fewer samples, by the shipped binary.
#![expect(clippy::indexing_slicing, reason = "a test may panic, in its helpers too")]

use std::collections::BTreeMap;
use std::path::Path;

use serde_json::Value;

use crate::history::{Recorder, blocks, files, wait_until};
use crate::support::rdiag;
use rdiag_history::{Block, read_block};
use rdiag_model::SeriesKind;
use rdiag_model::recording::Number;

const SHORT: [&str; 6] = ["--interval", "100ms", "--block", "4s", "--tier", "2s"];

/// The blocks that are whole there, by name.
fn read_blocks(history: &Path) -> BTreeMap<String, Block> {
    let blocks = files(history).into_iter().filter(|name| name.ends_with(".rdh"));
    // One may go between listing and reading.
    let read = blocks.filter_map(|name| Some((std::fs::read(history.join(&name)).ok()?, name)));
    read.map(|(bytes, name)| {
        let (block, damage) = read_block(&bytes).unwrap();
        assert!(damage.is_empty(), "{name}: {damage:?}");
        (name, block)
    })
    .collect()
}

fn is_thin(block: &Block) -> bool {
    block.header.recorded_every.is_some()
}

fn size(history: &Path) -> u64 {
    files(history).iter().filter_map(|name| Some(history.join(name).metadata().ok()?.len())).sum()
}

/// What each counter grew by from its first sample to its last.
fn growth(block: &Block) -> BTreeMap<(String, Option<String>), u64> {
    let mut all = BTreeMap::new();
    for series in block.collectors.values().flat_map(|record| &record.series) {
        // One that is missing at a sample that stays begins, or ends, at another.
        if series.kind != SeriesKind::Counter || series.values.iter().any(Option::is_none) {
            continue;
        }
        let whole = series.values.iter().filter_map(|value| match value {
            Some(Number::Whole(value)) => Some(*value),
            _ => None,
        });
        let whole: Vec<u64> = whole.collect();
        let grown = whole.windows(2).map(|pair| pair[1].saturating_sub(pair[0])).sum();
        all.insert((series.name.clone(), series.instance.clone()), grown);
    }
    all
}

/// CPU time of a process within a block, in ticks: all of it, if it was born there.
fn ticks(block: &Block, pid: u32) -> u64 {
    let mut all = block.collectors[Block::PROCESSES].processes.iter().filter(|process| process.pid == pid);
    let process = all.next().unwrap();
    let of = |at: usize| process.points[at].utime + process.points[at].stime;
    of(process.points.len() - 1) - if process.first > 0 { 0 } else { of(0) }
}

/// Records until some blocks are thinned; all blocks as they were recorded.
fn thinned(history: &Path) -> BTreeMap<String, Block> {
    let recorder = Recorder::start(history, &SHORT);
    wait_until("two blocks", || blocks(history) >= 2);
    recorder.end();
    let mut as_recorded = read_blocks(history);
    let keep = (size(history) * 2).to_string();
    let recorder = Recorder::start(history, &[&SHORT[..], &["--keep", &keep]].concat());
    wait_until("that some are thin", || {
        let now = read_blocks(history);
        let thin = now.values().filter(|block| is_thin(block)).count();
        as_recorded.extend(now.into_iter().filter(|(_, block)| !is_thin(block)));
        thin >= 2
    });
    let (code, said) = recorder.end();
    // The tail may not fit into a folder as small as this; the block does.
    assert!(code == Some(0) && !said.contains("thinning"), "{said}");
    as_recorded.extend(read_blocks(history).into_iter().filter(|(_, block)| !is_thin(block)));
    as_recorded
}

fn judged_then(history: &Path, args: &[&str]) -> (Value, String) {
    let output =
        rdiag().args(args).args(["--format", "json", "--out", "-", "--history"]).arg(history).output().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    (serde_json::from_slice(&output.stdout).unwrap_or_default(), said)
}

#[test]
fn an_old_time_is_thinned_for_space_keeps_its_sums_and_is_judged_with_its_distance_said() {
    let place = tempfile::tempdir().unwrap();
    let history = place.path().join("history");
    let as_recorded = thinned(&history);
    let now = read_blocks(&history);
    let both: Vec<_> =
        now.iter().filter(|(_, block)| is_thin(block)).map(|(name, thin)| (&as_recorded[name], thin)).collect();
    assert!(both.len() >= 2);
    for (before, thin) in &both {
        assert_eq!((thin.header.interval_seconds, thin.header.recorded_every), (2.0, Some(0.1)));
        let samples = |block: &Block| block.collectors["cpu_stat"].times.len();
        assert!(samples(thin) < samples(before), "{} of {}", samples(thin), samples(before));
        let (before_growth, growth) = (growth(before), growth(thin));
        let common: Vec<_> = before_growth.iter().filter(|(key, _)| growth.contains_key(key)).collect();
        assert!(common.len() > 20, "{}", common.len());
        for (key, grown) in common {
            assert_eq!(growth[key], *grown, "{key:?}");
        }
    }
    // Recorders, those of other tests too.
    let own = both.iter().flat_map(|(before, _)| &before.collectors[Block::PROCESSES].processes);
    let own = own.filter(|process| process.comm == "rdiag").map(|process| process.pid).collect::<Vec<_>>();
    for pid in own {
        for (before, thin) in both.iter().filter(|(before, _)| {
            before.collectors[Block::PROCESSES].processes.iter().any(|process| process.pid == pid)
        }) {
            assert_eq!(ticks(thin, pid), ticks(before, pid));
        }
    }

    let listed = rdiag().args(["history", "list", "--history"]).arg(&history).output().unwrap();
    let listed = String::from_utf8(listed.stdout).unwrap();
    assert!(listed.contains("every 2 s, thinned from 100 ms"), "{listed}");
    assert!(listed.contains("every 100 ms  "), "{listed}");

    let oldest = both[0].1;
    let end = oldest.header.wall_micros + (oldest.header.seconds * 1e6) as i64;
    let at = rdiag_kernel::host::Zone::utc().instant(end);
    let (report, said) = judged_then(&history, &["run", "use-method", "--at", &at, "--last", "4s"]);
    let limits = report["verdict"]["limits"].to_string();
    let source = "Source: the recorder, a sample every 2 s (thinned from 100 ms): counters are exact, levels are means";
    assert!(limits.contains(source) && !limits.contains("Part of this time"), "{limits} {said}");
    // Whether there was a burst depends on the machine; that it is known, on the samples that were left out.
    assert!(limits.contains("ithin the minutes, ") && limits.contains("samples every 100 ms"), "{limits}");
    let finding = crate::support::finding(&report, "cpu.utilization", None);
    assert_ne!(finding["status"], "unknown", "{finding:#}");
    // With one that is as it was recorded: both at the distance of the old one.
    let fine = now.values().rfind(|block| !is_thin(block) && block.header.seconds > 3.0).unwrap();
    let later = fine.header.wall_micros + (fine.header.seconds * 1e6) as i64;
    let later = rdiag_kernel::host::Zone::utc().instant(later);
    let (diff, said) = judged_then(&history, &["diff", "--at", &at, "--at", &later, "--last", "4s"]);
    let notes = diff["notes"].to_string();
    let told =
        "after: The time it is compared with has a sample every 2 s only, so this one is judged at that distance too";
    assert!(notes.contains(told) && !notes.contains("compare means"), "{notes} {said}");
    // All of it: old and new together.
    let (report, said) = judged_then(&history, &["run", "use-method", "--at", "now", "--last", "1h"]);
    let limits = report["verdict"]["limits"].to_string();
    assert!(limits.contains("Part of this time has a sample every 2 s only"), "{limits} {said}");
    assert_eq!(report["window"]["interval_seconds"], 2.0);
}

#[test]
fn a_kill_while_old_blocks_are_thinned_leaves_each_as_it_was_or_thin() {
    let place = tempfile::tempdir().unwrap();
    let history = place.path().join("history");
    let more = ["--interval", "100ms", "--block", "1s", "--tier", "300ms"];
    let recorder = Recorder::start(&history, &more);
    wait_until("some blocks", || blocks(&history) >= 6);
    recorder.end();
    let keep = (size(&history) * 12 / 10).to_string();
    let mut thin = 0;
    for kill in 0..6_u64 {
        let recorder = Recorder::start(&history, &[&more[..], &["--keep", &keep]].concat());
        let before = blocks(&history);
        wait_until("that it works", || files(&history).contains(&"tail".to_owned()) || blocks(&history) != before);
        std::thread::sleep(std::time::Duration::from_millis(900 + kill * 370));
        // Dropping it is a kill.
        drop(recorder);
        // Whole, each of them: reading asserts it.
        thin += read_blocks(&history).values().filter(|block| is_thin(block)).count();
    }
    assert!(thin > 0);
    let recorder = Recorder::start(&history, &more);
    let before = blocks(&history);
    wait_until("that it goes on", || blocks(&history) > before);
    assert_eq!(recorder.end().0, Some(0));
    assert!(files(&history).iter().all(|name| !name.starts_with('.')), "{:?}", files(&history));
}
