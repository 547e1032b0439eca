//! How probes are tested: a script with a known answer, watched by the shipped program.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::path::PathBuf;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::Duration;

use serde_json::Value;

use crate::support::{Need, has};

/// One check as two tests: on this host, and on the kernels of the matrix.
macro_rules! holds {
    ($here:ident, $vm:ident, $check:expr) => {
        #[test]
        #[ignore = "needs: root, eBPF, python3"]
        fn $here() {
            let _beside = crate::support::beside_others();
            if crate::privileged::probing::ready() {
                $check();
            }
        }

        #[test]
        #[ignore = "needs: root, eBPF, python3, a kernel of the matrix"]
        fn $vm() {
            let _beside = crate::support::beside_others();
            if crate::privileged::probing::ready() {
                $check();
            }
        }
    };
}

pub(super) fn ready() -> bool {
    has(&[Need::Root, Need::Path("/sys/kernel/btf/vmlinux"), Need::Tool("python3")])
}

/// The kernel of this host may have no kprobes, those of the matrix do.
pub(super) fn has_kprobes() -> bool {
    ready() && has(&[Need::Path("/sys/bus/event_source/devices/kprobe/type")])
}

/// A Python program that waits for a line before each part of its work, which ends with `done()`.
pub(super) struct Script {
    child: Child,
    stdin: ChildStdin,
    stdout: BufReader<ChildStdout>,
}

impl Script {
    pub(super) fn start(work: &str) -> Self {
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

    pub(super) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// What it says when it is done.
    fn wait(&mut self) -> String {
        let mut line = String::new();
        self.stdout.read_line(&mut line).unwrap();
        line.trim().strip_prefix("done").unwrap_or_else(|| panic!("{line}")).trim().to_owned()
    }

    pub(super) fn work(&mut self) -> String {
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
pub(super) fn probed(args: &[&str], work: impl FnOnce()) -> Vec<Value> {
    probed_by(&mut program(), args, work)
}

/// The shipped program.
pub(super) fn program() -> Command {
    let binary = std::env::var_os("RDIAG_BINARY")
        .map_or_else(|| assert_cmd::cargo::cargo_bin!("rdiag").to_path_buf(), PathBuf::from);
    Command::new(binary)
}

/// The same by a program that was made ready.
pub(super) fn probed_by(command: &mut Command, args: &[&str], work: impl FnOnce()) -> Vec<Value> {
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
pub(super) fn rows(readings: &[Value], kind: &str, id: &str) -> Vec<serde_json::Map<String, Value>> {
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

pub(super) fn assert_nothing_lost(readings: &[Value]) {
    assert!(readings.iter().all(|reading| reading.get("lost").is_none()), "{readings:#?}");
}

/// What is measured while a script works, of it alone, and what the script says.
pub(super) fn watched(script: &mut Script, args: &[&str]) -> (Vec<Value>, String) {
    let (pid, mut says) = (script.pid().to_string(), String::new());
    let readings = probed(&[args, &["--pid", &pid]].concat(), || says = script.work());
    assert_nothing_lost(&readings);
    (readings, says)
}
