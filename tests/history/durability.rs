//! What was recorded outlives kills, another recorder, a full folder and damaged bytes.

use std::path::Path;
use std::time::{Duration, Instant};

use rustix::process::Signal;

use super::{Recorder, blocks, exported, files, samples, wait_until};
use crate::support::rdiag;

#[test]
fn a_second_recorder_is_refused_and_the_first_goes_on() {
    let place = tempfile::tempdir().unwrap();
    let history = place.path().join("history");
    let first = Recorder::start(&history, &[]);
    wait_until("the tail", || files(&history).contains(&"tail".to_owned()));
    let second = rdiag().args(["watch", "--history"]).arg(&history).output().unwrap();
    let said = String::from_utf8(second.stderr).unwrap();
    assert_eq!(second.status.code(), Some(4));
    assert!(said.contains("another recorder does so already"), "{said}");
    wait_until("a block of the first", || blocks(&history) >= 1);
    assert_eq!(first.end().0, Some(0));
}

/// Whole samples in the tail.
fn tail_samples(history: &Path) -> usize {
    let Ok(bytes) = std::fs::read(history.join("tail")) else { return 0 };
    let (pieces, _) = rdiag_session::pieces(&[rdiag_session::HistoryFile { name: "tail".into(), bytes }]);
    pieces.first().and_then(|piece| Some(piece.block.collectors.get("psi")?.times.len())).unwrap_or(0)
}

/// More in a long run: `RDIAG_KILLS=200`.
fn kills() -> u32 {
    std::env::var("RDIAG_KILLS").ok().and_then(|text| text.parse().ok()).unwrap_or(6)
}

#[test]
fn a_kill_at_any_moment_costs_no_sample_that_was_written() {
    let place = tempfile::tempdir().unwrap();
    let history = place.path().join("history");
    let mut state = 0x9e37_79b9_u64;
    for kill in 0..kills() {
        let mut recorder = Recorder::start(&history, &[]);
        // A tail may be there already: that of the one that was killed before.
        wait_until("that it begins", || std::fs::read_to_string(&recorder.said).is_ok_and(|said| !said.is_empty()));
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        std::thread::sleep(Duration::from_millis(300 + (state >> 33) % 2500));
        let written = tail_samples(&history);
        let before = blocks(&history);
        recorder.signal(Signal::KILL);
        // What was in the tail then is in it still, unless a block was made of it meanwhile.
        assert!(tail_samples(&history) >= written || blocks(&history) > before, "kill {kill}: {written}");
        let said = std::fs::read_to_string(&recorder.said).unwrap();
        assert_eq!(said.lines().count(), 1, "kill {kill}: {said}");
        for name in files(&history).into_iter().filter(|name| name != "lock") {
            let bytes = std::fs::read(history.join(&name)).unwrap();
            let file = rdiag_session::HistoryFile { name: name.clone(), bytes };
            let (pieces, notes) = rdiag_session::pieces(&[file]);
            assert!(notes.is_empty() && pieces.len() == 1, "kill {kill}: {name}: {notes:?}");
            let damage = &pieces[0].damage;
            // The sample that was being written when it was killed.
            assert!(damage.is_empty() || name == "tail" && damage.len() == 1, "kill {kill}: {name}: {damage:?}");
        }
    }
    let recorder = Recorder::start(&history, &[]);
    let before = blocks(&history);
    wait_until("a block of the last", || blocks(&history) > before + 1);
    assert_eq!(recorder.end().0, Some(0));
    assert!(!files(&history).contains(&"tail".to_owned()));
}

#[test]
fn the_folder_keeps_within_what_it_may_take() {
    let place = tempfile::tempdir().unwrap();
    let history = place.path().join("history");
    let recorder = Recorder::start(&history, &["--keep", "100kB"]);
    let begun = Instant::now();
    let mut newest = 0;
    while begun.elapsed() < Duration::from_secs(12) {
        let sizes = files(&history).into_iter().filter_map(|name| Some(history.join(name).metadata().ok()?.len()));
        let total: u64 = sizes.sum();
        // The tail may have a tenth more, and a block stands beside its tail for a moment.
        assert!(total <= 160_000, "{total}: {:?}", files(&history));
        newest = newest.max(blocks(&history));
        std::thread::sleep(Duration::from_millis(50));
    }
    assert!(newest >= 1);
    let (code, _) = recorder.end();
    assert_eq!(code, Some(0));
}

#[test]
fn damage_is_named_and_costs_no_more_than_it_must() {
    let place = tempfile::tempdir().unwrap();
    let history = place.path().join("history");
    let recorder = Recorder::start(&history, &[]);
    wait_until("two blocks", || blocks(&history) >= 2);
    recorder.end();
    let block = files(&history).into_iter().find(|name| name.ends_with(".rdh")).unwrap();
    let path = history.join(block);
    let whole = std::fs::read(&path).unwrap();
    let (recording, _) = exported(&history, &["--last", "1h"]);
    let all = recording["windows"][0]["collectors"].as_object().unwrap();
    let mut lost = 0;
    for at in (0..whole.len()).step_by(whole.len() / 25) {
        let mut bytes = whole.clone();
        bytes[at] ^= 0x10;
        std::fs::write(&path, bytes).unwrap();
        let (damaged, said) = exported(&history, &["--last", "1h"]);
        assert_eq!(said.matches(".rdh: ").count(), 1, "byte {at}: {said}");
        // What is read seldom may be in this block alone.
        let short = |id: &&String| samples(&damaged, id) < samples(&recording, id);
        let here = all.keys().filter(short).count();
        // A name, the table of processes or the header costs no sample; how many bytes of a block they take is the host's.
        let figures = said.contains("figures of ");
        assert!(here == 1 || here == 0 && !figures, "byte {at}: {here} short: {said}");
        lost += usize::from(figures);
    }
    assert!(lost > 0, "no byte of figures among those changed");
    // Half of it: what stands in front is whole.
    std::fs::write(&path, &whole[..whole.len() / 2]).unwrap();
    let (_, said) = exported(&history, &["--last", "1h"]);
    assert!(said.contains("cut off") || said.contains("incomplete"), "{said}");
    std::fs::write(&path, "no block").unwrap();
    let (_, said) = exported(&history, &["--last", "1h"]);
    assert!(said.contains("is left out: it has no header"), "{said}");
}
