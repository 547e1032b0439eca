//! What a report about the past says of the time around it: what changed, the hour, and the same time of the day before.

use std::path::Path;

use serde_json::Value;

use super::{Recorder, blocks, files, json_of, pieces_of, wait_until};
use crate::support::rdiag;
use rdiag_history::Block;

/// A history of some blocks, made of what was recorded just now.
fn recorded(history: &Path, count: usize) -> Vec<(String, Block)> {
    let recorder = Recorder::start(history, &[]);
    wait_until("the last block", || blocks(history) >= count);
    assert_eq!(recorder.end().0, Some(0));
    pieces_of(history)
}

#[test]
fn a_report_about_the_past_says_in_every_format_what_changed_around_it() {
    let place = tempfile::tempdir().unwrap();
    let history = place.path().join("history");
    let mut blocks = recorded(&history, 2);
    // What the host's own log has of kills is left out.
    for (name, block) in &mut blocks {
        block.collectors.entry("kernel_log".into()).or_default().log.retain(|line| line.class != "oom");
        std::fs::write(history.join(name), rdiag_history::write_block(block)).unwrap();
    }
    assert!(!blocks[0].1.header.settings.is_empty() || !blocks[1].1.header.settings.is_empty(), "settings of the host");
    let args = ["report", "--at", "now", "--last", "1h"];
    let quiet = json_of(&history, &args);
    assert!(quiet["changes"]["span"].as_str().is_some(), "{}", quiet["changes"]);
    // The same blocks, as if the host had been booted between them, after an OOM kill.
    let (name, mut block) = blocks[0].clone();
    block.header.boot = "another".into();
    block.header.host.kernel = "5.10.0-old".into();
    let log = block.collectors.entry("kernel_log".into()).or_default();
    log.log.push(rdiag_model::LogLine {
        gone: false,
        class: "oom".into(),
        seconds_since_boot: block.header.monotonic + 1.0,
        in_window: true,
        subject: Some("<b>leaky</b>".into()),
        text: "Out of memory: Killed process 7 (<b>leaky</b>) total-vm:1kB [the whole host was out of memory]".into(),
    });
    std::fs::write(history.join(name), rdiag_history::write_block(&block)).unwrap();
    let report = json_of(&history, &args);
    crate::schema::validate("report", &report);
    let changes = report["changes"]["changes"].as_array().unwrap();
    let of = |kind: &str| {
        changes.iter().find(|change| change["kind"] == kind).unwrap_or_else(|| panic!("{kind}: {changes:#?}"))
    };
    let kernel = of("host")["text"].as_str().unwrap();
    assert!(kernel.starts_with("Kernel 5.10.0-old → "), "{kernel}");
    assert_eq!(of("oom_kill")["text"], "OOM kill of <b>leaky</b>: the host ran out of memory");
    let shown = |more: &[&str]| {
        let output = rdiag().args(args).args(more).arg("--history").arg(&history).output().unwrap();
        String::from_utf8(output.stdout).unwrap()
    };
    for more in [&["--format", "html"][..], &["--format", "md"], &["--format", "md", "-v"], &["-v"], &[]] {
        let shown = shown(more);
        let has = |text: &str| shown.contains(text);
        assert!(has("What changed") && has("Kernel 5.10.0-old") && has("ran out of memory"), "{more:?}: {shown}");
        // With -v the line of the log stands in a code block, where markup is none.
        assert!(!has("<b>leaky</b>") || more.is_empty() || more.contains(&"-v"), "{more:?}: {shown}");
    }
    assert!(!shown(&["-q"]).contains("What changed") && !shown(&["--summary"]).contains("What changed"));
}

#[test]
fn the_hour_around_a_time_is_drawn_with_its_gaps_in_every_long_format() {
    let place = tempfile::tempdir().unwrap();
    let history = place.path().join("history");
    let mut blocks = recorded(&history, 3);
    blocks.truncate(3);
    files(&history).iter().for_each(|name| std::fs::remove_file(history.join(name)).unwrap());
    // One is judged; before it and after it a quarter of an hour of which nothing was recorded, and blocks again.
    let judged = blocks[1].1.header.clone();
    for (number, (_, block)) in blocks.iter_mut().enumerate() {
        let header = &mut block.header;
        let away = (number as f64 - 1.0) * 900.0;
        header.wall_micros = judged.wall_micros + (away * 1e6) as i64;
        (header.monotonic, header.boottime) = (judged.monotonic + away, judged.boottime + away);
        let name = format!("{number:010}-{}.rdh", header.wall_micros.div_euclid(1_000_000));
        std::fs::write(history.join(name), rdiag_history::write_block(block)).unwrap();
    }
    let at = rdiag_kernel::host::Zone::utc().instant(judged.wall_micros + 3_000_000);
    let args = ["report", "--at", &at, "--last", "5s"];
    let report = json_of(&history, &args);
    crate::schema::validate("report", &report);
    let around = &report["around"];
    assert_eq!((&around["slice_seconds"], &around["row_seconds"]), (&30.0.into(), &300.0.into()), "{around:#}");
    assert!(around["source"].as_str().unwrap().starts_with("recorder, a sample every 200 ms"), "{around:#}");
    let slices = around["slices"].as_array().unwrap();
    let known: Vec<&Value> = slices.iter().filter(|slice| slice["cpu"].as_f64().is_some()).collect();
    // A block may end in the slice after the one in which it begins.
    assert!((3..=6).contains(&known.len()) && (58..=64).contains(&slices.len()), "{} of {}", known.len(), slices.len());
    assert!(known.iter().all(|slice| (0.0..=1.0).contains(&slice["cpu"].as_f64().unwrap())));
    assert!(slices.iter().all(|slice| slice["cpu"] != Value::Null || slice["top_cpu"] == Value::Null), "{around:#}");
    assert_eq!(around["unrecorded"].as_array().unwrap().len(), 2, "{around:#}");
    let shown = |more: &[&str]| {
        let output = rdiag().args(args).args(more).arg("--history").arg(&history).output().unwrap();
        String::from_utf8(output.stdout).unwrap()
    };
    for more in [&["--format", "html"][..], &["--format", "md", "-v"], &["-v"]] {
        let shown = shown(more);
        assert!(shown.contains("Around the window") && shown.contains("Not recorded"), "{more:?}: {shown}");
        assert!(shown.contains("not recorded") && shown.contains("PSI cpu"), "{more:?}: {shown}");
    }
    for more in [&["--format", "md"][..], &[], &["-q"]] {
        assert!(!shown(more).contains("Around the window"), "{more:?}");
    }
}

#[test]
fn the_same_time_of_the_day_before_is_compared_and_changes_no_finding() {
    const DAY: i64 = 86_400;
    let place = tempfile::tempdir().unwrap();
    let history = place.path().join("history");
    let blocks = recorded(&history, 6);
    // A second that is over: one that goes on still would end now, and a moment later at another now.
    let second = blocks[blocks.len() - 2].1.header.wall_micros / 1_000_000;
    let at = rdiag_kernel::host::Zone::utc().instant(second * 1_000_000);
    let args = ["report", "--at", &at, "--last", "9s"];
    let alone = json_of(&history, &args);
    assert_eq!(alone["usual"], Value::Null);
    for (number, (_, block)) in blocks.into_iter().enumerate() {
        let mut block = block;
        block.header.wall_micros -= DAY * 1_000_000;
        let name = format!("{number:010}-{}.rdh", block.header.wall_micros.div_euclid(1_000_000));
        std::fs::write(history.join(name), rdiag_history::write_block(&block)).unwrap();
    }
    let report = json_of(&history, &args);
    crate::schema::validate("report", &report);
    assert_eq!(report["usual"][0]["name"], "the day before", "{}", report["usual"]);
    assert!(report["usual"][0]["compared"].as_u64().unwrap() > 3, "{}", report["usual"]);
    // It is the same time.
    assert_eq!(report["usual"][0]["unlike"], Value::Array(Vec::new()));
    assert_eq!((&report["findings"], &report["verdict"]), (&alone["findings"], &alone["verdict"]));
    let output = rdiag().args(args).arg("--history").arg(&history).output().unwrap();
    let shown = String::from_utf8(output.stdout).unwrap();
    assert!(shown.contains("Like the day before: "), "{shown}");
}
