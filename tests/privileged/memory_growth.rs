//! Memory that a process takes more and more of.
#![expect(clippy::indexing_slicing, reason = "a test may panic, in its helpers too")]

use serde_json::Value;

use crate::support::{Load, Need, alone, assert_nothing_else_fired, finding, has, live_report, wait_until};

/// After so many seconds it touches so many MB per second in pieces, for so many seconds; then it keeps them.
const GROW: &str = "
import sys, time
pause, rate, seconds = float(sys.argv[1]), float(sys.argv[2]) * 1e6, float(sys.argv[3])
time.sleep(pause)
kept, begin, taken = [], time.monotonic(), 0
while time.monotonic() - begin < seconds:
    due = (time.monotonic() - begin) * rate
    while taken < due:
        piece = bytearray(1 << 20)
        kept.append(piece); taken += len(piece)
    time.sleep(0.002)
time.sleep(60)
";

/// The report of a run beside a load that takes `bytes` meanwhile, of a try in which the host has as much less then. Where free pages are
/// reported to a hypervisor, those of a process that ended count as free seconds later, and then hide a load that takes as many.
fn beside(args: &[&str], seconds: u32, bytes: f64) -> Value {
    let available = || -> f64 {
        let text = std::fs::read_to_string("/proc/meminfo").unwrap();
        let line = text.lines().find_map(|line| line.strip_prefix("MemAvailable:")).unwrap();
        line.trim_end_matches("kB").trim().parse::<f64>().unwrap() * 1024.0
    };
    let mut seen = Vec::new();
    for _ in 0..5 {
        let load = Load::start(1, "python3", &[&["-c", GROW], args].concat());
        assert!(wait_until(10, || resident_pages(&load) > 0), "it has begun");
        let before = available();
        let report = live_report(seconds);
        let less = before - available();
        if less > 0.8 * bytes {
            return report;
        }
        seen.push(less);
        drop(load);
        std::thread::sleep(std::time::Duration::from_secs(15));
    }
    panic!("the load took {bytes} bytes, and the host had less by {seen:?}");
}

fn resident_pages(load: &Load) -> u64 {
    let statm = std::fs::read_to_string(format!("/proc/{}/statm", load.pids()[0])).unwrap_or_default();
    statm.split(' ').nth(1).and_then(|pages| pages.parse().ok()).unwrap_or_default()
}

#[test]
#[ignore = "needs: a quiet machine, 8 GiB of memory, python3"]
fn a_process_that_grows_all_the_time_is_named_with_the_time_that_is_left() {
    let _alone = alone();
    if !has(&[Need::Tool("python3")]) {
        return;
    }
    let load = Load::start(1, "python3", &["-c", GROW, "0", "200", "15"]);
    let report = live_report(6);
    let growth = finding(&report, "memory.utilization.growth", None);
    assert!(["info", "warning", "critical"].iter().any(|status| growth["status"] == *status), "{growth:#}");
    let rate = growth["value"].as_f64().unwrap();
    assert!((1.2e8..2.6e8).contains(&rate), "200 MB/s: {growth:#}");
    assert_eq!(
        (&growth["culprit"]["name"], &growth["culprit"]["pids"][0]),
        (&"python3".into(), &load.pids()[0].into()),
        "{growth:#}"
    );
    assert!(growth["summary"].as_str().unwrap().contains("at this rate"), "{growth:#}");
    assert_nothing_else_fired(&report, &["memory.utilization.growth", "cpu."]);
}

#[test]
#[ignore = "needs: a quiet machine, 8 GiB of memory, python3"]
fn a_process_that_takes_its_memory_and_keeps_it_does_not_grow() {
    let _alone = alone();
    if !has(&[Need::Tool("python3")]) {
        return;
    }
    // It begins when the window has begun.
    let report = beside(&["3", "400", "2"], 7, 8e8);
    let growth = finding(&report, "memory.utilization.growth", None);
    assert_eq!(growth["status"], "ok", "{growth:#}");
    assert!(growth["value"].as_f64().unwrap() > 5e7, "it took its memory within the window: {growth:#}");
    assert_nothing_else_fired(&report, &["cpu."]);
}

#[test]
#[ignore = "needs: a quiet machine, 8 GiB of memory, python3"]
fn growth_of_seconds_as_a_compiler_has_foretells_no_shortage_in_minutes() {
    let _alone = alone();
    if !has(&[Need::Tool("python3")]) {
        return;
    }
    let report = beside(&["0", "80", "10"], 5, 4e8);
    let growth = finding(&report, "memory.utilization.growth", None);
    assert!(growth["value"].as_f64().unwrap() > 5e7, "it grew all the time: {growth:#}");
    assert!(["ok", "info"].iter().any(|status| growth["status"] == *status), "{growth:#}");
    assert_nothing_else_fired(&report, &["memory.utilization.growth", "cpu."]);
}
