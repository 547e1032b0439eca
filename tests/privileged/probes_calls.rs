//! Probes of system calls and processes: a workload with a known answer gives exactly that answer.
#![expect(clippy::indexing_slicing, reason = "a test may panic, in its helpers too")]

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::path::PathBuf;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::Duration;

use serde_json::Value;

use crate::support::{Load, Need, alone, has, rdiag};

/// One check as two tests: on this host, and on the kernels of the matrix.
macro_rules! holds {
    ($here:ident, $vm:ident, $check:expr) => {
        #[test]
        #[ignore = "needs: root, eBPF, python3"]
        fn $here() {
            let _alone = alone();
            if ready() {
                $check();
            }
        }

        #[test]
        #[ignore = "needs: root, eBPF, python3, a kernel of the matrix"]
        fn $vm() {
            let _alone = alone();
            if ready() {
                $check();
            }
        }
    };
}

fn ready() -> bool {
    has(&[Need::Root, Need::Path("/sys/kernel/btf/vmlinux"), Need::Tool("python3")])
}

/// A Python program that waits for a line before each part of its work, which ends with `done()`.
struct Script {
    child: Child,
    stdin: ChildStdin,
    stdout: BufReader<ChildStdout>,
}

impl Script {
    fn start(work: &str) -> Self {
        let whole = format!(
            "import os, sys, time, signal\ndef go():\n    sys.stdin.readline()\ndef done(says=''):\n    print('done', says, flush=True)\n\
             done()\ngo()\nsays = ''\n{work}\ndone(says)\ngo()\n"
        );
        let mut command = Command::new("python3");
        command.args(["-c", &whole]).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let stdin = child.stdin.take().unwrap();
        let stdout = BufReader::new(child.stdout.take().unwrap());
        let mut script = Self { child, stdin, stdout };
        script.wait();
        script
    }

    fn pid(&self) -> u32 {
        self.child.id()
    }

    /// What it says when it is done.
    fn wait(&mut self) -> String {
        let mut line = String::new();
        self.stdout.read_line(&mut line).unwrap();
        line.trim().strip_prefix("done").unwrap_or_else(|| panic!("{line}")).trim().to_owned()
    }

    fn work(&mut self) -> String {
        self.stdin.write_all(b"\n").unwrap();
        self.wait()
    }
}

impl Drop for Script {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Every reading of a probe that was attached while the work was done.
fn probed(args: &[&str], work: impl FnOnce()) -> Vec<Value> {
    let binary = std::env::var_os("RDIAG_BINARY")
        .map_or_else(|| assert_cmd::cargo::cargo_bin!("rdiag").to_path_buf(), PathBuf::from);
    let mut command = Command::new(binary);
    command.args(["probe", "--format", "json", "--budget", "100%"]).args(args);
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut stderr = BufReader::new(child.stderr.take().unwrap());
    let mut said = String::new();
    while !said.contains("measuring") {
        assert!(stderr.read_line(&mut said).unwrap() > 0, "the probe did not start: {said}");
    }
    let mut stdout = child.stdout.take().unwrap();
    let reader = std::thread::spawn(move || {
        let mut text = String::new();
        stdout.read_to_string(&mut text).map(|_| text)
    });
    work();
    // A process is taken apart a moment after it ended.
    std::thread::sleep(Duration::from_millis(500));
    assert!(Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap().success());
    stderr.read_to_string(&mut said).unwrap();
    assert!(child.wait().unwrap().success(), "{said}");
    let text = reader.join().unwrap().unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// The rows of an output as maps from column to cell.
fn rows(readings: &[Value], kind: &str, id: &str) -> Vec<serde_json::Map<String, Value>> {
    let outputs = readings.iter().flat_map(|reading| reading["outputs"].as_array().unwrap());
    let tables = outputs.filter_map(|output| output.get(kind)).filter(|table| table["id"] == id);
    let mut found = Vec::new();
    for table in tables {
        let columns: Vec<&str> =
            table["columns"].as_array().unwrap().iter().map(|column| column["id"].as_str().unwrap()).collect();
        for row in table["rows"].as_array().unwrap() {
            let cells = row["cells"].as_array().unwrap();
            assert_eq!(cells.len(), columns.len(), "{row:#}");
            found.push(columns.iter().map(|column| (*column).to_owned()).zip(cells.iter().cloned()).collect());
        }
    }
    found
}

fn assert_nothing_lost(readings: &[Value]) {
    assert!(readings.iter().all(|reading| reading.get("lost").is_none()), "{readings:#?}");
}

const CALLS: &str = "
for i in range(12345): os.getppid()
for i in range(321):
    try: os.stat('/nonexistent/x')
    except OSError: pass
before = time.perf_counter()
for i in range(10): time.sleep(0.02)
says = time.perf_counter() - before
";

fn calls_are_counted_exactly() {
    let mut script = Script::start(CALLS);
    let mut other = Script::start(CALLS);
    let (pid, mut slept) = (script.pid().to_string(), String::new());
    let readings = probed(&["syscount", "--pid", &pid, "--top", "100", "--param", "latency=true"], || {
        slept = script.work();
        other.work();
    });
    assert_nothing_lost(&readings);
    let calls = rows(&readings, "table", "calls");
    let call =
        |name: &str| calls.iter().find(|row| row["call"] == name).unwrap_or_else(|| panic!("{name}: {calls:#?}"));
    assert_eq!(call("getppid")["count"], 12345.0);
    assert_eq!(call("getppid")["errors"], 0.0);
    let stats = calls.iter().find(|row| row["errors"] == 321.0).unwrap();
    assert!(stats["which"].as_str().unwrap().starts_with("321 ENOENT"), "{stats:#?}");
    let sleeps = calls.iter().find(|row| row["call"].as_str().unwrap().contains("nanosleep")).unwrap();
    assert_eq!(sleeps["count"], 10.0);
    // A sleep lasts longer than it was asked to, the more so on a busy machine, so its caller's own clock is the judge.
    let (time, truth) = (sleeps["time"].as_f64().unwrap(), slept.parse::<f64>().unwrap());
    assert!(time >= 0.2 && time <= truth && time > 0.95 * truth, "{time} s, and the caller saw {truth} s");
    let processes = rows(&readings, "table", "processes");
    assert_eq!(processes.len(), 1, "only the one that was asked for: {processes:#?}");
    assert_eq!((&processes[0]["pid"], &processes[0]["name"]), (&pid.as_str().into(), &"python3".into()));
    let sum: f64 = calls.iter().map(|row| row["count"].as_f64().unwrap()).sum();
    assert_eq!(processes[0]["count"], sum);
}

holds!(
    as_many_calls_as_a_process_made_are_counted_by_name_with_their_errors,
    vm_as_many_calls_as_a_process_made_are_counted_by_name_with_their_errors,
    calls_are_counted_exactly
);

fn readings_add_up() {
    let mut script = Script::start("for i in range(50): os.getppid(), time.sleep(0.02)");
    let pid = script.pid().to_string();
    let readings = probed(&["syscount", "--pid", &pid, "--interval", "200ms"], || drop(script.work()));
    assert!(readings.len() >= 4);
    let calls = rows(&readings, "table", "calls");
    let asked = calls.iter().filter(|row| row["call"] == "getppid");
    let counts: Vec<f64> = asked.map(|row| row["count"].as_f64().unwrap()).collect();
    assert_eq!(counts.iter().sum::<f64>(), 50.0);
    assert!(counts.len() > 2, "they are spread over the readings: {counts:?}");
}

holds!(
    the_readings_of_an_interval_add_up_to_the_calls_that_were_made,
    vm_the_readings_of_an_interval_add_up_to_the_calls_that_were_made,
    readings_add_up
);

#[test]
#[ignore = "needs: root, eBPF, python3"]
fn a_flood_of_calls_stops_the_count_at_its_budget_and_it_says_so() {
    let _alone = alone();
    if !ready() {
        return;
    }
    let _load = Load::start(1, "python3", &["-c", "import os\nwhile True: os.getppid()"]);
    let args = ["probe", "syscount", "--duration", "20s", "--budget", "0.1%", "--format", "json"];
    let output = rdiag().args(args).output().unwrap();
    let result: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert!(result["notes"].to_string().contains("stopped itself"), "{result:#}");
    assert!(result["seconds"].as_f64().unwrap() < 10.0);
    assert!(rows(&[result], "table", "calls").iter().any(|row| row["call"] == "getppid"));
}

#[test]
#[ignore = "needs: root, eBPF"]
fn a_process_that_has_ended_and_a_parameter_that_does_not_exist_are_refused() {
    if !has(&[Need::Root]) {
        return;
    }
    let mut gone = Command::new("true").spawn().unwrap();
    gone.wait().unwrap();
    for (args, says) in [
        (vec!["syscount".to_owned(), "--pid".to_owned(), gone.id().to_string()], "there is no process"),
        (vec!["syscount".into(), "--param".into(), "latancy=true".into()], "it has latency, top"),
        (vec!["syscount".into(), "--param".into(), "latency=1".into()], "neither true nor false"),
    ] {
        let output = rdiag().arg("probe").args(&args).output().unwrap();
        let told = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(2), "{told}");
        assert!(told.contains(says), "{args:?}: {told}");
    }
}
