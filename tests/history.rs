//! The recorder and verdicts about the past, by the shipped binary.
#![expect(clippy::indexing_slicing, reason = "a test may panic, in its helpers too")]

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use crate::support::rdiag;
use rdiag::history::Block;
use rdiag::session::HistoryFile;

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
    (serde_json::to_value(rdiag::session::read_recording(&output.stdout).unwrap()).unwrap(), said)
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
    let begun = files(&history).iter().find_map(|name| rdiag::session::begins(name)).unwrap();
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
    assert!(both["notes"].to_string().contains("before: Source: the recorder, a sample every 200 ms"), "{both}");
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
    let (pieces, notes) = rdiag::session::pieces(&names.map(read).collect::<Vec<_>>());
    assert!(notes.is_empty(), "{notes:?}");
    pieces.into_iter().map(|piece| (piece.name, piece.block)).collect()
}

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
        std::fs::write(history.join(name), rdiag::history::write_block(block)).unwrap();
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
        class: "oom".into(),
        seconds_since_boot: block.header.monotonic + 1.0,
        in_window: true,
        subject: Some("<b>leaky</b>".into()),
        text: "Out of memory: Killed process 7 (<b>leaky</b>) total-vm:1kB [the whole host was out of memory]".into(),
    });
    std::fs::write(history.join(name), rdiag::history::write_block(&block)).unwrap();
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
        std::fs::write(history.join(name), rdiag::history::write_block(block)).unwrap();
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
        std::fs::write(history.join(name), rdiag::history::write_block(&block)).unwrap();
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
        recorder.signal(Signal::KILL);
        let said = std::fs::read_to_string(&recorder.said).unwrap();
        assert_eq!(said.lines().count(), 1, "kill {kill}: {said}");
        for name in files(&history).into_iter().filter(|name| name != "lock") {
            let bytes = std::fs::read(history.join(&name)).unwrap();
            let file = rdiag::session::HistoryFile { name: name.clone(), bytes };
            let (pieces, notes) = rdiag::session::pieces(&[file]);
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
        assert!(here <= 1, "byte {at}: {said}");
        lost += here;
    }
    assert!(lost > 5, "{lost}");
    // Half of it: what stands in front is whole.
    std::fs::write(&path, &whole[..whole.len() / 2]).unwrap();
    let (_, said) = exported(&history, &["--last", "1h"]);
    assert!(said.contains("cut off") || said.contains("incomplete"), "{said}");
    std::fs::write(&path, "no block").unwrap();
    let (_, said) = exported(&history, &["--last", "1h"]);
    assert!(said.contains("is left out: it has no header"), "{said}");
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
        (&["watch", "--interval", "1ms"], "--interval takes 100ms to 10m"),
        (&["watch", "--trigger", "sometimes"], "run, pin, off"),
        (&["watch", "--history", "/proc/1/x"], "recording into /proc/1/x"),
    ];
    for (args, wanted) in cases {
        let output = rdiag().args(*args).output().unwrap();
        let said = String::from_utf8(output.stderr).unwrap();
        assert!(!output.status.success() && said.contains(wanted), "{args:?}: {said}");
    }
}
