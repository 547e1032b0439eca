//! Probes of the scheduler and of interrupts, against what the kernel counts itself. Each check runs on the host and on
//! every kernel of the matrix.
#![expect(clippy::indexing_slicing, reason = "a test may panic, in its helpers too")]

use std::collections::BTreeMap;
use std::fs::read_to_string;
use std::io::{BufRead as _, BufReader, Read as _};
use std::path::PathBuf;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::Instant;

use serde_json::Value;

use crate::support::{Load, Need, alone, has, kind, rdiag, wait_until};

/// One check as two tests: on this host, and on the kernels of the matrix.
macro_rules! holds {
    ($here:ident, $vm:ident, $check:expr) => {
        #[test]
        #[ignore = "needs: root, eBPF"]
        fn $here() {
            let _alone = alone();
            if ready() {
                $check();
            }
        }

        #[test]
        #[ignore = "needs: root, eBPF, a kernel of the matrix"]
        fn $vm() {
            let _alone = alone();
            if ready() {
                $check();
            }
        }
    };
}

mod interrupts;
mod tasks;
mod waits;

fn ready() -> bool {
    has(&[Need::Root, Need::Path("/sys/kernel/btf/vmlinux"), Need::Tool("python3"), Need::Tool("chrt")])
}

/// A probe that is attached.
struct Running {
    child: Child,
    stdout: BufReader<ChildStdout>,
}

impl Running {
    fn start(args: &[&str]) -> Self {
        let binary = std::env::var_os("RDIAG_BINARY")
            .map_or_else(|| assert_cmd::cargo::cargo_bin!("rdiag").to_path_buf(), PathBuf::from);
        let mut command = Command::new(binary);
        command.args(["probe", "--format", "json"]).args(args).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let mut said = String::new();
        let mut stderr = BufReader::new(child.stderr.take().unwrap());
        while !said.contains("measuring") {
            assert!(stderr.read_line(&mut said).unwrap() > 0, "the probe did not start: {said}");
        }
        std::thread::spawn(move || stderr.read_to_string(&mut said));
        let stdout = BufReader::new(child.stdout.take().unwrap());
        Self { child, stdout }
    }

    /// Waits for its next reading, and for nothing else: the process may still be detaching.
    fn reading(&mut self) -> Value {
        let mut line = String::new();
        self.stdout.read_line(&mut line).unwrap();
        let reading: Value = serde_json::from_str(&line).unwrap();
        assert!(reading["lost"].is_null(), "{:#}", reading["lost"]);
        reading
    }

    /// Waits for its end; the readings.
    fn readings(mut self) -> Vec<Value> {
        let mut text = String::new();
        self.stdout.read_to_string(&mut text).unwrap();
        assert!(self.child.wait().unwrap().success());
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.wait();
    }
}

/// An output by its id.
fn output<'r>(reading: &'r Value, id: &str) -> &'r Value {
    let outputs = reading["outputs"].as_array().unwrap();
    let inner = |output: &'r Value| output.as_object().unwrap().values().next().unwrap();
    outputs.iter().map(inner).find(|output| output["id"] == id).unwrap_or_else(|| panic!("no {id} in {reading:#}"))
}

/// The cells of a table or of events, row by row, by column id.
fn rows(table: &Value) -> Vec<BTreeMap<String, Value>> {
    let columns: Vec<&str> = table["columns"].as_array().unwrap().iter().map(|c| c["id"].as_str().unwrap()).collect();
    let cells = |row: &Value| {
        let cells = row["cells"].as_array().unwrap();
        columns.iter().map(|id| (*id).to_owned()).zip(cells.iter().cloned()).collect()
    };
    table["rows"].as_array().unwrap().iter().map(cells).collect()
}

fn number(row: &BTreeMap<String, Value>, column: &str) -> f64 {
    row[column].as_f64().unwrap_or_else(|| panic!("{column} is no number: {row:?}"))
}

/// A python program that ends with the test; it runs on one CPU, if told.
fn python(cpu: Option<usize>, priority: Option<u32>, script: &str) -> Load {
    let mut args = vec!["python3".to_owned(), "-c".to_owned(), script.to_owned()];
    if let Some(priority) = priority {
        args.splice(0..0, ["chrt".into(), "--fifo".into(), priority.to_string()]);
    }
    if let Some(cpu) = cpu {
        args.splice(0..0, ["taskset".into(), "--cpu-list".into(), cpu.to_string()]);
    }
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    let load = Load::start(1, args[0], &args[1..]);
    let ready = |pid: &u32| read_to_string(format!("/proc/{pid}/comm")).is_ok_and(|comm| comm.starts_with("python3"));
    assert!(wait_until(20, || load.pids().iter().all(ready)), "{args:?} did not start");
    load
}

/// The CPUs of a guest are emulated.
fn is_guest() -> bool {
    kind().starts_with("guest-")
}

/// What sleeps or spins for a time never takes less, and takes more where the CPU is held up: by as much as another thread that slept
/// meanwhile was late, and never twice as long.
fn assert_lasts(what: &str, found: f64, least: f64, late: f64) {
    let most = (least * 1.05 + late).min(least * 2.0);
    assert!((least * 0.95..most).contains(&found), "{what}: {found} is not {least}, and others were {late} s late");
    println!("{what}: {found:.4} against {least:.4}, others {late:.4} late");
}

/// Seconds between the end of the time that a probe was asked for and the end of its reading: as far apart the readings of two of its maps
/// may be, and not farther. What happens between them is in only one.
fn reading_took(reading: &Value, asked: f64) -> f64 {
    (reading["seconds"].as_f64().unwrap() - asked).max(0.0)
}

/// What two readings of the kernel's counters say about a steady load: seconds per second.
struct Truth {
    began: Instant,
    counts: Vec<f64>,
}

/// Seconds between the readings of the kernel's counters, seconds that the probe measured, and how late others were woken at most.
struct Windows {
    elapsed: f64,
    seconds: f64,
    late: f64,
}

impl Truth {
    fn begin(pids: &[String], count: impl Fn(&str) -> f64) -> Self {
        Self { began: Instant::now(), counts: pids.iter().map(|pid| count(pid)).collect() }
    }

    /// Compares sums of durations, each with the longest of them: at either end one may be settled between the readings.
    fn compare(&self, what: &str, at: usize, now: f64, found: (f64, f64), windows: &Windows) {
        let Windows { elapsed, seconds, late } = *windows;
        let (truth, (sum, longest)) = ((now - self.counts[at]) / elapsed, found);
        // The two windows are not quite the same, as either end is late by as much as others are woken late, and a rate may be anything in
        // what only one of them has.
        let beside = ((elapsed - seconds).abs() + 2.0 * late) / seconds;
        let slack = (truth * 0.05).max(longest / seconds).max(0.003) + beside;
        let found = sum / seconds;
        assert!((found - truth).abs() <= slack, "{what}: {found} s/s, the kernel says {truth}, longest {longest} s");
        println!("{what}: {found:.4} s/s, the kernel says {truth:.4}");
    }
}

fn pid(load: &Load) -> String {
    load.pids()[0].to_string()
}

const SPIN: &str = "while True: pass";

/// Seconds on a CPU and seconds of waiting for one.
fn schedstat(pid: &str) -> (f64, f64) {
    let text = read_to_string(format!("/proc/{pid}/schedstat")).unwrap();
    let fields: Vec<f64> = text.split_whitespace().map(|field| field.parse::<f64>().unwrap() * 1e-9).collect();
    (fields[0], fields[1])
}

fn assert_near(what: &str, found: f64, truth: f64, share: f64) {
    let off = (found - truth).abs() / truth.abs().max(1e-9);
    assert!(off <= share, "{what}: {found} is not {truth} (off by {:.1} %)", off * 100.0);
    println!("{what}: {found:.4} against {truth:.4}");
}

/// Runs 60 ms at a time, three times a second.
const BURSTS: &str = "import time\nwhile True:\n    end = time.monotonic() + 0.06\n    while time.monotonic() < end: pass\n    time.sleep(0.27)";

/// Runs nearly always, but leaves the CPU's other tasks enough for the kernel not to hold real-time tasks back.
const STEADY: &str = "import time\nwhile True:\n    end = time.monotonic() + 0.1\n    while time.monotonic() < end: pass\n    time.sleep(0.01)";

fn last_cpu() -> usize {
    std::thread::available_parallelism().unwrap().get() - 1
}

#[test]
#[ignore = "needs: root, eBPF"]
fn wrong_parameters_filters_and_ended_processes_are_usage_errors_that_say_what_is_right() {
    let _alone = alone();
    if !ready() {
        return;
    }
    for (args, says) in [
        (["softirqs", "--param", "hist=maybe"], "neither true nor false"),
        (["hardirqs", "--param", "his=true"], "it has hist"),
        (["hardirqs", "--pid", "1"], "cannot be limited by --pid"),
        (["runqlat", "--pid", "4194304"], "there is no process 4194304"),
    ] {
        let output = rdiag().arg("probe").args(args).output().unwrap();
        let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(2), "{args:?}: {stderr}");
        assert!(stderr.contains(says), "{args:?}: {stderr}");
    }
}
