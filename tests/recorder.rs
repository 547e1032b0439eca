//! What the recorder takes of the host: memory that does not grow, and no more CPU time than its budget, by the shipped binary over a tree in
//! the place of the machine.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use crate::history::{files, wait_until};
use crate::incidents::copy;
use crate::support::{path, rdiag};
use rdiag_history::read_block;

/// A tree in which a process ends and another one begins all the time.
struct Churning {
    root: PathBuf,
    ends: Arc<AtomicBool>,
    thread: Option<std::thread::JoinHandle<()>>,
}

impl Churning {
    fn begin(root: PathBuf) -> Self {
        copy(&path("tests/fixtures/hosts/whole-host-short-of-cpu/t0"), &root);
        let ends = Arc::new(AtomicBool::new(false));
        let (over, processes) = (Arc::clone(&ends), root.join("proc"));
        let thread = std::thread::spawn(move || {
            for pid in 20_000.. {
                let before = if pid == 20_000 { 15_583 } else { pid - 1 };
                std::fs::rename(processes.join(before.to_string()), processes.join(pid.to_string())).unwrap();
                if over.load(Ordering::Relaxed) {
                    break;
                }
                std::thread::sleep(Duration::from_millis(10));
            }
        });
        Self { root, ends, thread: Some(thread) }
    }
}

impl Drop for Churning {
    fn drop(&mut self) {
        self.ends.store(true, Ordering::Relaxed);
        let _ = self.thread.take().unwrap().join();
    }
}

/// A recorder of a tree.
struct Recorder(Child);

impl Recorder {
    fn start(root: &Path, history: &Path, more: &[&str]) -> Self {
        let mut command = Command::new(rdiag().get_program());
        command
            .args(["watch", "--budget", "100%", "--trigger", "pin", "--root"])
            .arg(root)
            .arg("--history")
            .arg(history);
        command.args(more).env("XDG_CONFIG_HOME", "/nonexistent");
        Self(command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap())
    }

    /// Resident memory, in kB.
    fn resident(&self) -> u64 {
        self.status("VmRSS:")
    }

    fn status(&self, key: &str) -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.0.id())).unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix(key)).expect("it runs");
        line.trim().trim_end_matches(" kB").parse().unwrap()
    }
}

impl Drop for Recorder {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// More in a long run: `RDIAG_TICKS=10000`.
fn ticks() -> usize {
    std::env::var("RDIAG_TICKS").ok().and_then(|text| text.parse().ok()).unwrap_or(1000)
}

#[test]
fn memory_does_not_grow_from_tick_to_tick() {
    let place = tempfile::tempdir().unwrap();
    let tree = Churning::begin(place.path().join("root"));
    let history = place.path().join("history");
    // 120 ticks for each block, as of ten minutes at 5 s; old ones are thinned and removed, and rules judge.
    let times = ["--interval", "5ms", "--block", "600ms", "--tier", "60ms", "--look", "600ms", "--keep", "60kB"];
    let recorder = Recorder::start(&tree.root, &history, &times);
    let (mut known, mut seen, mut largest): (BTreeSet<String>, usize, Vec<(usize, u64)>) = Default::default();
    let (begun, all) = (Instant::now(), ticks());
    while seen < all {
        assert!(
            begun.elapsed() < Duration::from_millis(60_000 + 50 * all as u64),
            "{seen} ticks in {:?}",
            begun.elapsed()
        );
        std::thread::sleep(Duration::from_millis(10));
        largest.push((seen, recorder.resident()));
        for name in files(&history).into_iter().filter(|name| name.ends_with(".rdh")) {
            // It may go between listing and reading.
            let Ok(bytes) = std::fs::read(history.join(&name)) else { continue };
            if known.insert(name) {
                let (block, _) = read_block(&bytes).unwrap();
                seen += block.collectors.get("cpu_stat").map_or(0, |record| record.times.len());
            }
        }
    }
    // The first blocks take what the allocator keeps from then on.
    let of = |ticks: std::ops::Range<usize>| {
        largest.iter().filter(|(tick, _)| ticks.contains(tick)).map(|(_, kilobytes)| *kilobytes).max().unwrap()
    };
    let (early, late) = (of(200..all / 2), of(all - 300..all));
    eprintln!("resident: {early} kB until tick {}, {late} kB at tick {seen}, {} blocks", all / 2, known.len());
    assert!(late as f64 <= early as f64 * 1.1, "{early} kB, and {late} kB after {seen} ticks");
}

#[test]
fn code_that_only_the_start_and_the_end_of_a_block_need_is_given_back() {
    let place = tempfile::tempdir().unwrap();
    let (root, history) = (place.path().join("root"), place.path().join("history"));
    copy(&path("tests/fixtures/hosts/whole-host-short-of-cpu/t0"), &root);
    let recorder = Recorder::start(&root, &history, &["--interval", "500ms", "--block", "2s"]);
    // By itself, a page of its file that was looked at once stays. A block's end gives all back, and the next sample is half a second away.
    let mut largest = 0;
    wait_until("that half of it is given back", || {
        let resident = recorder.status("RssFile:");
        largest = largest.max(resident);
        resident * 2 <= largest
    });
}

#[test]
fn beyond_its_budget_it_reads_less_and_judges_nothing_and_blocks_and_reports_say_so() {
    let place = tempfile::tempdir().unwrap();
    let (root, history) = (place.path().join("root"), place.path().join("history"));
    copy(&path("tests/fixtures/hosts/whole-host-short-of-cpu/t0"), &root);
    let times = ["--interval", "100ms", "--block", "1s", "--look", "1s", "--duration", "6s"];
    let mut command = rdiag();
    command.args(["watch", "--budget", "0.001%", "--trigger", "pin"]).args(times).arg("--root").arg(&root);
    let output = command.arg("--history").arg(&history).output().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.success(), "{said}");
    assert!(
        said.contains(" of a CPU in the last minute, of 0.00 % allowed: ") && said.contains(" is read every "),
        "{said}"
    );
    assert_eq!(said.matches("rules do not judge what was recorded just now").count(), 1, "{said}");
    // In the newest block, in the list, and in a report.
    let newest = files(&history).into_iter().rfind(|name| name.ends_with(".rdh")).unwrap();
    let (block, _) = read_block(&std::fs::read(history.join(newest)).unwrap()).unwrap();
    let stretched = block.header.stretched.keys().next().expect("something is read less often");
    let listed = rdiag().args(["history", "list", "--history"]).arg(&history).output().unwrap();
    let listed = String::from_utf8(listed.stdout).unwrap();
    assert!(listed.contains(&format!("; {stretched} ")) && listed.contains(" times less often"), "{listed}");
    let mut report = rdiag();
    report.args(["report", "--at", "now", "--last", "1m", "--format", "json", "--out", "-", "--history"]).arg(&history);
    let output = report.output().unwrap();
    let report: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let source = report["verdict"]["limits"][0].as_str().unwrap();
    assert!(source.starts_with("Source: the recorder, a sample every 100 ms; "), "{source}");
    assert!(source.contains(&format!("{stretched} every ")), "{source}");
}
