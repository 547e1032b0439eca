//! The recorder and verdicts about the past, by the shipped binary.
#![expect(clippy::indexing_slicing, reason = "a test may panic, in its helpers too")]

mod around;
mod durability;

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use crate::support::rdiag;
use rdiag_history::Block;
use rdiag_session::HistoryFile;

/// A recorder in the background, with short blocks.
pub struct Recorder {
    child: Child,
    said: PathBuf,
}

impl Recorder {
    pub fn start(history: &Path, more: &[&str]) -> Self {
        let said = history.with_extension("said");
        let program = rdiag().get_program().to_owned();
        let child = Command::new(program)
            .args(["watch", "--budget", "100%", "--history"])
            .arg(history)
            .args(if more.contains(&"--block") { &[][..] } else { &["--interval", "200ms", "--block", "2s"] })
            // This machine may well be short of something.
            .args(if more.contains(&"--trigger") { &[][..] } else { &["--trigger", "off"] })
            .args(more)
            .env("XDG_CONFIG_HOME", "/nonexistent")
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(std::fs::File::create(&said).unwrap())
            .spawn()
            .unwrap();
        Self { child, said }
    }

    fn signal(&mut self, signal: Signal) -> Option<i32> {
        let pid = Pid::from_raw(i32::try_from(self.child.id()).unwrap()).unwrap();
        kill_process(pid, signal).unwrap();
        self.child.wait().unwrap().code()
    }

    /// What it has said so far.
    pub fn said(&self) -> String {
        std::fs::read_to_string(&self.said).unwrap()
    }

    /// Ends it as systemd does: its exit code, and what it said.
    pub fn end(mut self) -> (Option<i32>, String) {
        let code = self.signal(Signal::TERM);
        (code, std::fs::read_to_string(&self.said).unwrap())
    }
}

impl Drop for Recorder {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

pub fn files(history: &Path) -> Vec<String> {
    let Ok(entries) = std::fs::read_dir(history) else { return Vec::new() };
    let mut names: Vec<String> = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

pub fn blocks(history: &Path) -> usize {
    files(history).iter().filter(|name| name.ends_with(".rdh")).count()
}

/// Waits until it is so, a minute at most.
pub fn wait_until(what: &str, mut is_so: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !is_so() {
        assert!(begun.elapsed() < Duration::from_secs(60), "{what} did not happen");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// The time that was recorded, as a recording, and what was said of it.
fn exported(history: &Path, more: &[&str]) -> (Value, String) {
    let output = rdiag().args(["history", "export", "--history"]).arg(history).args(more).output().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.success(), "{said}");
    (serde_json::to_value(rdiag_session::read_recording(&output.stdout).unwrap()).unwrap(), said)
}

fn samples(recording: &Value, collector: &str) -> usize {
    recording["windows"][0]["collectors"][collector]["times"].as_array().map_or(0, Vec::len)
}

#[test]
fn what_was_recorded_is_listed_shown_exported_and_judged() {
    let place = tempfile::tempdir().unwrap();
    let history = place.path().join("history");
    let recorder = Recorder::start(&history, &[]);
    wait_until("a second block", || blocks(&history) >= 2);
    // While it records: blocks and the tail together.
    let (recording, said) = exported(&history, &["--last", "1h"]);
    assert!(said.contains("Source: the recorder, a sample every 200 ms"), "{said}");
    assert!(said.contains("Nothing was recorded from"), "the hour began earlier: {said}");
    let window = &recording["windows"][0];
    assert!(window["seconds"].as_f64().unwrap() > 2.0 && samples(&recording, "cpu_stat") > 3, "{window}");
    let own = window["collectors"]["processes"]["processes"].as_array().unwrap();
    let own = own.iter().find(|process| process["pid"] == recorder.child.id()).expect("the recorder itself");
    assert_eq!((own["comm"].as_str(), own["first"].as_u64()), (Some("rdiag"), Some(0)));
    assert!(own["points"].as_array().unwrap().len() > 1, "{own}");

    let (code, said) = recorder.end();
    assert_eq!(code, Some(0), "{said}");
    assert!(said.starts_with("recording into") && said.lines().count() == 1, "{said}");
    assert!(files(&history).iter().all(|name| name.ends_with(".rdh") || name == "lock"), "{:?}", files(&history));

    let listed = rdiag().args(["history", "list", "--history"]).arg(&history).output().unwrap();
    let listed = String::from_utf8(listed.stdout).unwrap();
    // On a busy machine more than half a second may pass from block to block.
    assert!((1..=files(&history).len()).contains(&listed.lines().count()), "{listed}");
    assert!(listed.contains("every 200 ms") && listed.contains("of a CPU"), "{listed}");
    let shown = rdiag().args(["history", "show", "--last", "1h", "--history"]).arg(&history).output().unwrap();
    let shown = String::from_utf8(shown.stdout).unwrap();
    assert!(shown.contains("CPU busy") && shown.lines().count() > 5, "{shown}");

    let judged = |at: &str| {
        let mut command = rdiag();
        command.args(["run", "use-method", "--last", "1h", "--format", "json", "--out", "-", "--at", at, "--history"]);
        command.arg(&history).output().unwrap()
    };
    let output = judged("now");
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.success() && said.contains("Judged: "), "{said}");
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert!(
        report["verdict"]["limits"][0].as_str().unwrap().starts_with("Source: the recorder"),
        "{}",
        report["verdict"]
    );
    let matrix = report["matrix"].as_array().unwrap();
    let cpu = matrix.iter().find(|row| row["resource"] == "cpu").unwrap();
    assert!(cpu["cells"][0]["judged"].as_u64().unwrap() > 0, "{cpu}");
    let before = judged("2001-02-03T04:05");
    let said = String::from_utf8(before.stderr).unwrap();
    assert_eq!(before.status.code(), Some(2));
    assert!(said.contains("nothing was recorded between 2001-02-03") && said.contains("rdiag history list"), "{said}");
}

/// The JSON that a command prints.
fn json_of(history: &Path, args: &[&str]) -> Value {
    let output =
        rdiag().args(args).args(["--format", "json", "--out", "-", "--history"]).arg(history).output().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.success(), "{args:?}: {said}");
    serde_json::from_slice(&output.stdout).unwrap()
}

#[test]
fn run_report_and_diff_judge_a_time_alike() {
    let place = tempfile::tempdir().unwrap();
    let history = place.path().join("history");
    let recorder = Recorder::start(&history, &[]);
    wait_until("a fourth block", || blocks(&history) >= 4);
    recorder.end();
    let begun = files(&history).iter().find_map(|name| rdiag_session::begins(name)).unwrap();
    let at = |second: i64| rdiag_kernel::host::Zone::utc().instant((begun + second) * 1_000_000);
    let (early, late) = (at(2), at(5));
    let report = json_of(&history, &["report", "--at", &late, "--last", "2s"]);
    let run = json_of(&history, &["run", "use-method", "--at", &late, "--last", "2s"]);
    assert_eq!(report, run);
    assert!(!report["findings"].as_array().unwrap().is_empty());
    // On the terminal, and nothing is left behind.
    let mut command = rdiag();
    command.current_dir(place.path()).args(["report", "--at", &late, "--last", "2s", "--history"]);
    let output = command.arg(&history).output().unwrap();
    let (shown, said) = (String::from_utf8(output.stdout).unwrap(), String::from_utf8(output.stderr).unwrap());
    assert!(shown.contains("use-method") && said.contains("Judged: "), "{shown}{said}");
    let left: Vec<String> = files(place.path());
    assert_eq!(left, ["history", "history.said"]);

    // Two times in either order: the earlier one is BEFORE.
    let both = json_of(&history, &["diff", "--at", &late, "--at", &early, "--last", "2s"]);
    assert_eq!(both, json_of(&history, &["diff", "--at", "-3s", "--at", &late, "--last", "2s"]));
    assert_eq!(both["after"]["started"], run["window"]["started"]);
    assert!(both["before"]["started"].as_str() < both["after"]["started"].as_str(), "{both}");
    assert!(both["after"]["file"].as_str().unwrap().starts_with("recorder, "), "{both}");
    assert!(both["metrics_compared"].as_u64().unwrap() > 50, "{}", both["metrics_compared"]);
    assert!(both["notes"].to_string().contains("both: Source: the recorder, a sample every 200 ms"), "{both}");
    // A file and a time: again the earlier one is BEFORE.
    let file = place.path().join("late.json");
    std::fs::write(&file, serde_json::to_vec(&run).unwrap()).unwrap();
    let mixed = json_of(&history, &["diff", file.to_str().unwrap(), "--at", &early, "--last", "2s"]);
    assert_eq!(mixed["after"]["file"], file.to_str().unwrap());
    assert_eq!(mixed["before"], both["before"]);
}

/// Blocks of the recorder, in order.
pub fn pieces_of(history: &Path) -> Vec<(String, Block)> {
    let names = files(history).into_iter().filter(|name| name.ends_with(".rdh"));
    let read = |name: String| HistoryFile { bytes: std::fs::read(history.join(&name)).unwrap(), name };
    let (pieces, notes) = rdiag_session::pieces(&names.map(read).collect::<Vec<_>>());
    assert!(notes.is_empty(), "{notes:?}");
    pieces.into_iter().map(|piece| (piece.name, piece.block)).collect()
}

#[test]
fn what_makes_no_sense_is_refused_with_what_to_do() {
    let place = tempfile::tempdir().unwrap();
    let empty = place.path().join("none").display().to_string();
    let cases: &[(&[&str], &str)] = &[
        (&["run", "use-method", "--at", "25:00"], "is no time; write one of: 03:12"),
        (&["run", "use-method", "--at", "now", "--history", &empty], "there is no history in"),
        (&["run", "use-method", "--at", "now", "--duration", "3s"], "--duration is for a measurement"),
        (&["run", "use-method", "--at", "-1h", "--last", "7h"], "--last takes 1s to 6h"),
        (&["run", "method-r", "--at", "now"], "follows single tasks"),
        (&["run", "use-method", "--last", "10m"], "--at"),
        (&["report", "--at", "now", "--history", &empty], "there is no history in"),
        (&["report", "report.json", "--at", "now"], "cannot be used with"),
        (&["report", "--playbook", "use-method"], "--at"),
        (&["report", "--at", "now", "--playbook", "method-r"], "follows single tasks"),
        (&["diff", "--at", "03:12"], "diff compares two measurements; given: 0 FILE, 1 --at"),
        (&["diff", "one.json", "other.json", "--at", "03:12"], "two times: `rdiag diff --at 03:12 --at -24h`"),
        (&["diff", "--at", "now", "--at", "-5m", "--history", &empty], "the two times overlap: "),
        (&["diff", "--at", "now", "--at", "-1h", "--history", &empty], "there is no history in"),
        (&["diff", "--at", "now", "--at", "tomorrow"], "is no time; write one of: 03:12"),
        (&["diff", "--at", "now", "--at", "-1h", "--from", "-"], "--from - can be read once"),
        (&["diff", "a.json", "--at", "now", "--from", "a", "--sysstat", "b"], "--from was given 2 times, --at 1 times"),
        (&["watch", "--keep", "much"], "is no size; write 256MB"),
        (&["watch", "--keep", "5"], "nothing that could be judged fits into that"),
        (&["watch", "--interval", "1ms"], "--interval takes 100ms to 10m"),
        (&["watch", "--interval", "20m"], "--interval takes 100ms to 10m"),
        (&["watch", "--trigger", "sometimes"], "run, pin, off"),
        (&["watch", "--history", "/proc/1/x"], "recording into /proc/1/x"),
    ];
    for (args, wanted) in cases {
        let output = rdiag().args(*args).output().unwrap();
        let said = String::from_utf8(output.stderr).unwrap();
        assert!(!output.status.success() && said.contains(wanted), "{args:?}: {said}");
    }
}
