//! Drill-downs begin within the window: what was promised to take so long takes so long.
#![expect(clippy::indexing_slicing, reason = "a test may panic, in its helpers too")]

use serde_json::Value;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use crate::support::{Disturbance, Figures, rdiag};

/// One step for each condition; they look at threads, which any user may.
const PLAYBOOK: &str = r#"
format_version: 1
name: drills
title: Conditions that hold at different times
params:
  duration: {type: duration, default: 3s, help: Length.}
  interval: {type: duration, default: 1s, help: Distance.}
steps:
  - id: cpu
    question: How busy are the CPUs?
    collect: [cpu_stat, psi, processes]
    rules: [cpu.utilization]
"#;

/// The report and the recording of a run with these conditions, by step.
fn run(conditions: &[(&str, &str)], args: &[&str]) -> (Value, Value) {
    let folder = tempfile::tempdir().unwrap();
    let (file, out) = (folder.path().join("drills.yaml"), folder.path().join("out"));
    let step = |(id, when): &(&str, &str)| {
        // A step cannot ask for its own rule.
        if when.contains("single_thread") {
            return format!(
                "  - id: {id}\n    question: And then?\n    when: {when}\n    collect: [threads, cpu_stat]\n    rules: []\n"
            );
        }
        format!(
            "  - id: {id}\n    question: And then?\n    when: {when}\n    collect: [threads, cpu_stat]\n    rules: [cpu.utilization.single_thread]\n"
        )
    };
    let steps: String = conditions.iter().map(step).collect();
    std::fs::write(&file, format!("{PLAYBOOK}{steps}")).unwrap();
    let output = rdiag().arg("run").arg(&file).arg("--out").arg(&out).args(args).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let report = serde_json::from_slice(&std::fs::read(out.join("report.json")).unwrap()).unwrap();
    let mut packed = flate2::read::GzDecoder::new(std::fs::File::open(out.join("recording.json.gz")).unwrap());
    (report, serde_json::from_reader(&mut packed).unwrap())
}

/// A thread that is on a CPU for a tenth of the time, as long as it lives: where no thread is, nothing can be judged of threads, and a step
/// that asks for that does not begin.
struct Busy {
    over: Arc<AtomicBool>,
    thread: Option<std::thread::JoinHandle<()>>,
}

impl Busy {
    fn begin() -> Self {
        let over = Arc::new(AtomicBool::new(false));
        let ends = Arc::clone(&over);
        let thread = std::thread::spawn(move || {
            while !ends.load(Ordering::Relaxed) {
                let began = Instant::now();
                while began.elapsed() < Duration::from_millis(10) {
                    std::hint::spin_loop();
                }
                std::thread::sleep(Duration::from_millis(90));
            }
        });
        Self { over, thread: Some(thread) }
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        self.over.store(true, Ordering::Relaxed);
        self.thread.take().map(std::thread::JoinHandle::join);
    }
}

/// The same, once more where the window was late, or the CPUs were taken: parts of a window are judged one after the other, and
/// where that waits for a CPU the next one is longer, so what holds for a moment may be over.
fn run_in_time(conditions: &[(&str, &str)], args: &[&str], seconds: f64) -> (Value, Value, bool) {
    let mut last = None;
    for _ in 0..3 {
        let disturbance = Disturbance::begin();
        let (report, recording) = run(conditions, args);
        let Figures { window, cpus, busy, stolen, .. } = disturbance.so_far();
        let (from, to) = span(&report, 0);
        let is_in_time = to - from < seconds * 1.1 && busy + stolen < 0.75 * window * cpus;
        last = Some((report, recording, is_in_time));
        if is_in_time {
            break;
        }
    }
    last.unwrap()
}

/// Whether the machine had time for it, or else the test is skipped.
fn was_ready(is_in_time: bool) -> bool {
    if !is_in_time {
        crate::support::skip("a machine whose CPUs are not taken by others");
    }
    is_in_time
}

fn step<'r>(report: &'r Value, id: &str) -> &'r Value {
    report["steps"].as_array().unwrap().iter().find(|step| step["id"] == id).unwrap()
}

/// From where to where a window goes, in seconds of the run.
fn span(report: &Value, at: usize) -> (f64, f64) {
    let span = &report["window"]["spans"][at];
    let ends = span["from"].as_f64().zip(span["until"].as_f64());
    ends.unwrap_or_else(|| panic!("there is no window {at}: {:#}\n{:#}", report["window"], report["steps"]))
}

#[test]
fn a_drill_down_begins_as_soon_as_its_condition_holds_and_ends_with_the_window() {
    let conditions = [
        ("at-once", "cpu.busy.ratio.mean >= 0"),
        // The first look takes a second, those that follow half of one.
        ("soon", "window.seconds < 0.7"),
        ("late", "window.seconds > 2.5"),
        ("passing", "window.seconds < 1.5"),
        ("never", "window.seconds > 100"),
    ];
    // Parts end where an interval does.
    let (report, recording, is_in_time) = run_in_time(&conditions, &["-i", "500ms"], 3.0);
    if !was_ready(is_in_time) {
        return;
    }
    // The first window, what began after its first second, and what began after a second look.
    assert_eq!(report["window"]["windows"], 3, "{:#}", report["window"]);
    let [first, early, later] = [0, 1, 2].map(|at| span(&report, at));
    for (inner, begins) in [(early, 1.0), (later, 1.5)] {
        assert!(inner.0 - first.0 >= begins, "{inner:?} in {first:?}");
        // Where attaching or a slow machine delays it, it still has a quarter of the window.
        assert!((inner.1 - first.1).abs() < 0.2 || inner.1 - inner.0 < 0.8, "{inner:?} and {first:?} end together");
    }
    let all = report["window"]["seconds"].as_f64().unwrap();
    assert!((2.9..3.9).contains(&all), "windows that overlap are not added up: {all}");
    assert!((first.1 - first.0 - 3.0).abs() < 0.3, "{first:?}");
    let ran = |at: usize| recording["windows"][at]["steps"].clone();
    assert_eq!((ran(1), ran(2)), (serde_json::json!(["at-once", "passing"]), serde_json::json!(["soon"])));
    for (id, window) in [("at-once", 1), ("passing", 1), ("soon", 2)] {
        assert_eq!(step(&report, id)["window"], window, "{id}");
    }
    let answer = |id: &str| step(&report, id)["answer"].as_str().unwrap().to_owned();
    assert!(!answer("at-once").contains("does not hold"), "{}", answer("at-once"));
    assert!(answer("passing").contains("and does not hold over the whole first window"), "{}", answer("passing"));
    assert!(answer("late").contains("did not hold early enough"), "{}", answer("late"));
    assert_eq!((&step(&report, "late")["status"], &step(&report, "late")["window"]), (&"unknown".into(), &Value::Null));
    assert!(answer("never").starts_with("Not needed"), "{}", answer("never"));
    assert_eq!(step(&report, "never")["status"], "skipped");
    // What was found in a short window is trusted less.
    let findings = report["findings"].as_array().unwrap();
    let mut of_threads = findings.iter().filter(|finding| finding["id"] == "cpu.utilization.single_thread");
    assert!(of_threads.all(|finding| finding["window_seconds"].as_f64().unwrap() < 2.2), "{findings:#?}");
}

#[test]
fn what_processes_did_so_far_decides_within_the_window() {
    let conditions = [("processes", "highest(process.cpu.ratio) >= 0")];
    let _busy = Busy::begin();
    let (report, _, is_in_time) = run_in_time(&conditions, &[], 3.0);
    if !was_ready(is_in_time) {
        return;
    }
    assert_eq!(report["window"]["windows"], 2, "{:#}", report["steps"]);
    let [first, inner] = [0, 1].map(|at| span(&report, at));
    assert!(inner.0 < first.1, "{inner:?} in {first:?}");
}

#[test]
fn a_window_of_one_interval_has_no_room_for_a_drill_down_and_says_so() {
    let (report, _) = run(&[("at-once", "cpu.busy.ratio.mean >= 0")], &["-d", "300ms"]);
    assert_eq!(report["window"]["windows"], 1);
    let answer = step(&report, "at-once")["answer"].as_str().unwrap();
    assert!(answer.contains("leaves time for one"), "{answer}");
}

#[test]
fn what_asks_for_the_findings_of_a_drill_down_follows_it() {
    let conditions =
        [("at-once", "cpu.busy.ratio.mean >= 0"), ("after", r#"status("cpu.utilization.single_thread") >= ok"#)];
    let _busy = Busy::begin();
    // In a window of 900 ms a look that comes 80 ms late leaves no time for a drill-down: on a busy machine it then rightly has none.
    let (report, _, is_in_time) = run_in_time(&conditions, &[], 3.0);
    if !was_ready(is_in_time) {
        return;
    }
    let [first, inner, after] = [0, 1, 2].map(|at| span(&report, at));
    assert!(inner.0 > first.0 && inner.0 < first.1, "{inner:?} in {first:?}");
    assert!(after.0 >= first.1 && (after.1 - after.0) > 2.85, "{after:?} after {first:?}");
}

#[test]
fn the_drill_downs_of_a_command_end_with_it() {
    let conditions = [("at-once", "cpu.busy.ratio.mean >= 0")];
    let (report, _, is_in_time) = run_in_time(&conditions, &["-i", "200ms", "--", "sleep", "2.5"], 2.5);
    if !was_ready(is_in_time) {
        return;
    }
    assert_eq!(report["window"]["interrupted"], false, "{:#}", report["window"]);
    let [first, inner] = [0, 1].map(|at| span(&report, at));
    assert!(inner.0 - first.0 > 0.9 && (inner.1 - first.1).abs() < 0.3, "{inner:?} in {first:?}");
}
