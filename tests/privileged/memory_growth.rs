//! Memory that a process takes more and more of.
#![expect(clippy::indexing_slicing, reason = "a test may panic, in its helpers too")]

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
    let _load = Load::start(1, "python3", &["-c", GROW, "3", "400", "2"]);
    let report = live_report(7);
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
    let load = Load::start(1, "python3", &["-c", GROW, "0", "80", "10"]);
    // Once it did not grow at all while it was looked at, for a reason that is not known: that it has begun is seen here.
    assert!(wait_until(10, || resident_pages(&load) > 10_000), "it has begun: {} pages", resident_pages(&load));
    let report = live_report(5);
    let growth = finding(&report, "memory.utilization.growth", None);
    assert!(growth["value"].as_f64().unwrap() > 5e7, "it grew all the time: {growth:#}");
    assert!(["ok", "info"].iter().any(|status| growth["status"] == *status), "{growth:#}");
    assert_nothing_else_fired(&report, &["memory.utilization.growth", "cpu."]);
}
