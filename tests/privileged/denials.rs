//! Whatever is denied to rdiag is a gap with its reason, and no failure of the run.
#![expect(clippy::indexing_slicing, reason = "a test may panic, in its helpers too")]

use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use serde_json::Value;

use crate::support::{Load, Need, beside_others, has, path, skip};

/// What is run: its words, the exit codes that are no failure, and whether it writes a report. `PID` stands for a process of whoever runs
/// it, `OUT` for a folder.
const RUNS: [(&[&str], &[i32], bool); 7] = [
    (&["run", "use-method", "--duration", "1s", "--out", "OUT"], &[0], true),
    (&["run", "cpu-hot", "--duration", "1s", "--out", "OUT"], &[0], true),
    (&["run", "method-r", "--duration", "1s", "--pid", "PID", "--out", "OUT"], &[0, 3], true),
    (&["doctor"], &[0], false),
    (&["probe", "runqlat", "--duration", "300ms"], &[0, 3], false),
    (&["probe", "events", "--duration", "300ms"], &[0, 3], false),
    (&["probe", "profile", "--duration", "300ms"], &[0, 3], false),
];

/// Where everybody may start the program and write reports.
struct Place(tempfile::TempDir);

impl Place {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let built = std::env::var_os("RDIAG_BINARY")
            .map_or_else(|| assert_cmd::cargo::cargo_bin!("rdiag").to_path_buf(), PathBuf::from);
        std::fs::copy(built, folder.path().join("rdiag")).unwrap();
        std::fs::set_permissions(folder.path(), std::fs::Permissions::from_mode(0o777)).unwrap();
        Self(folder)
    }

    fn command(&self, kind: &str, words: &[String]) -> Command {
        let mut command = Command::new("timeout");
        command.args(["60", "python3"]).arg(path("tests/privileged/denied/deny.py")).args([kind, "--"]);
        command.arg(self.0.path().join("rdiag")).args(words).current_dir(self.0.path());
        command.env("NO_COLOR", "1").env("HOME", self.0.path()).env_remove("RUST_BACKTRACE");
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }
}

/// What is wrong with how a run ended, in words.
fn wrong(output: &Output, codes: &[i32], report: Option<&Path>) -> Option<String> {
    let said = [&output.stderr, &output.stdout].map(|bytes| String::from_utf8_lossy(bytes).into_owned()).join("\n");
    let fault = |what: String| Some(format!("{what}\n{}", said.chars().take(1500).collect::<String>()));
    if said.contains("panicked at") {
        return fault("it panicked".into());
    }
    if !output.status.code().is_some_and(|code| codes.contains(&code)) {
        return fault(format!("it ended with {}", output.status));
    }
    let (Some(folder), Some(0)) = (report, output.status.code()) else { return None };
    for file in ["recording.json.gz", "report.html", "report.json"] {
        if !std::fs::metadata(folder.join(file)).is_ok_and(|found| found.len() > 100) {
            return fault(format!("there is no {file}"));
        }
    }
    let report: Value = serde_json::from_slice(&std::fs::read(folder.join("report.json")).unwrap()).unwrap();
    let findings = report["findings"].as_array().into_iter().flatten();
    let has_reason = |finding: &Value| {
        let word = |name: &str| finding["unavailable"][name].as_str().is_some_and(|text| !text.is_empty());
        finding["status"] != "unknown" || word("reason") && word("why")
    };
    let bare: Vec<&Value> = findings.filter(|finding| !has_reason(finding)).collect();
    if bare.is_empty() { None } else { fault(format!("a gap without a reason: {bare:?}")) }
}

/// Runs all of it at once under each denial.
fn under(kinds: &[&str]) {
    let _beside = beside_others();
    if !has(&[Need::Root, Need::Tool("python3"), Need::Tool("setpriv")]) {
        return;
    }
    if !cfg!(target_arch = "x86_64") {
        return skip("the numbers of calls are those of another machine");
    }
    let place = Place::new();
    let asleep = Load::start(1, "setpriv", &["--reuid", "65534", "--regid", "65534", "--clear-groups", "sleep", "300"]);
    let pid = asleep.pids()[0].to_string();
    let mut faults = Vec::new();
    for kind in kinds {
        let started = RUNS.iter().enumerate().map(|(number, (words, codes, writes))| {
            let out = place.0.path().join(format!("{}-{number}", kind.replace(':', "-")));
            let word = |word: &&str| match *word {
                "OUT" => out.to_string_lossy().into_owned(),
                "PID" => pid.clone(),
                word => word.to_owned(),
            };
            let words: Vec<String> = words.iter().map(word).collect();
            let child = place.command(kind, &words).spawn().unwrap();
            (words, *codes, writes.then_some(out), child)
        });
        for (words, codes, out, child) in started.collect::<Vec<_>>() {
            let fault = wrong(&child.wait_with_output().unwrap(), codes, out.as_deref());
            faults.extend(fault.map(|fault| format!("{kind}, {}: {fault}", words.join(" "))));
        }
    }
    assert!(faults.is_empty(), "{}", faults.join("\n\n"));
}

#[test]
#[ignore = "needs: root, python3"]
fn what_a_container_denies_is_a_gap() {
    under(&["container"]);
}

#[test]
#[ignore = "needs: root, python3"]
fn what_an_ordinary_user_may_not_do_or_see_is_a_gap() {
    under(&["user", "hidepid"]);
}

#[test]
#[ignore = "needs: root, python3"]
fn files_that_may_not_be_read_are_gaps() {
    under(&["files:1", "files:2", "labels:3", "labels:4"]);
}

#[test]
#[ignore = "needs: root, python3"]
fn calls_that_a_sandbox_refuses_are_gaps() {
    under(&["EPERM", "ENOSYS"]);
}
