//! Profiles by those who may not do everything: ordinary users, too few descriptors, no programs in the kernel.
#![expect(clippy::indexing_slicing, reason = "a test may panic, in its helpers too")]

use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use serde_json::Value;

use super::splitter::*;
use crate::support::{Load, Need, alone, has, rdiag};

/// The same program, copied to where anybody may start it.
fn as_nobody() -> Option<(tempfile::TempDir, Vec<String>)> {
    let folder = tempfile::tempdir().unwrap();
    std::fs::set_permissions(folder.path(), std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    let built = std::env::var_os("RDIAG_BINARY")
        .map_or_else(|| assert_cmd::cargo::cargo_bin!("rdiag").to_path_buf(), PathBuf::from);
    std::fs::copy(built, folder.path().join("rdiag")).ok()?;
    let words = ["setpriv", "--reuid", "65534", "--regid", "65534", "--clear-groups"].map(str::to_owned);
    Some((folder, words.into()))
}

/// kernel.perf_event_paranoid at another value, for as long as it lives.
struct Paranoid(String);

const PARANOID: &str = "/proc/sys/kernel/perf_event_paranoid";

impl Paranoid {
    fn set(value: &str) -> Self {
        let before = std::fs::read_to_string(PARANOID).unwrap();
        std::fs::write(PARANOID, value).unwrap();
        Self(before)
    }
}

impl Drop for Paranoid {
    fn drop(&mut self) {
        let _ = std::fs::write(PARANOID, self.0.trim());
    }
}

/// Paranoia beyond what the kernel knows is a patch of distributions, and everywhere else the same as 2.
fn nobody_measures_its_own(paranoid: &str) {
    let (_program, binary) = c_program();
    let (folder, user) = as_nobody().unwrap();
    let _set = Paranoid::set(paranoid);
    let words: Vec<&str> = user.iter().map(String::as_str).collect();
    let load = Load::start(1, words[0], &[&words[1..], &[&text_of(&binary)]].concat());
    std::thread::sleep(Duration::from_millis(500));
    let pid = load.pids()[0].to_string();
    let measured = |args: &[&str]| {
        let mut command = Command::new(words[0]);
        command.args(&words[1..]).arg(folder.path().join("rdiag")).arg("probe").args(args);
        let output = command.args(["--format", "json", "--pid", &pid]).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        if output.status.success() {
            return Ok(serde_json::from_slice::<Value>(&output.stdout).unwrap());
        }
        assert_eq!(output.status.code(), Some(3), "{said}");
        assert!(paranoid != "2", "{said}");
        Err(said)
    };
    match measured(&["profile", "--param", "hz=997", "--duration", "3s"]) {
        Ok(result) => {
            assert_split(&result, &PARTS);
            assert_eq!(result["attached"][0]["back_end"], "sampling ring");
            assert!(notes(&result).contains("what the kernel did was not sampled"), "{}", notes(&result));
            assert!(cell(&result, "host", &rows(&result, "host")[0], "kernel").is_null());
        }
        Err(said) => {
            assert!(said.contains(&format!("kernel.perf_event_paranoid = {paranoid}")), "{said}");
            assert!(said.contains("sysctl kernel.perf_event_paranoid=2"), "{said}");
        }
    }
    match measured(&["stat", "--param", "events=task-clock", "--duration", "2s"]) {
        Ok(result) => {
            let clock = cell(&result, "events", &rows(&result, "events")[0], "value").as_f64().unwrap();
            assert!(clock > 0.0, "{result:#}");
        }
        Err(said) => {
            assert!(said.contains(&format!("kernel.perf_event_paranoid is {paranoid}")), "{said}");
            assert!(said.contains("CAP_PERFMON") && said.contains("kernel.perf_event_paranoid to "), "{said}");
        }
    }
}

#[test]
#[ignore = "needs: root, eBPF, cc, setpriv"]
fn vm_a_user_without_rights_measures_own_processes_or_is_told_what_forbids_it() {
    let _alone = alone();
    if !has(&[Need::Root, Need::Tool("cc"), Need::Tool("setpriv")]) {
        return;
    }
    for paranoid in ["2", "3", "4"] {
        nobody_measures_its_own(paranoid);
    }
}

#[test]
#[ignore = "needs: root, eBPF, cc"]
fn vm_whoever_holds_the_right_is_not_held_up_by_any_paranoia() {
    let _alone = alone();
    if !has(&CC) {
        return;
    }
    let (_folder, binary) = c_program();
    let load = Load::start(1, &text_of(&binary), &[]);
    let _set = Paranoid::set("4");
    assert_split(&profile(&["--pid", &load.pids()[0].to_string(), "--param", "hz=499", "--duration", "3s"]), &PARTS);
    let output = rdiag().args(["probe", "stat", "--duration", "1s"]).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

#[test]
#[ignore = "needs: root, eBPF, cc"]
fn a_lack_of_descriptors_is_told_and_not_put_down_to_the_programs() {
    let _alone = alone();
    if !has(&CC) {
        return;
    }
    let (_folder, binary) = c_program();
    let load = Load::start(1, &text_of(&binary), &[]);
    let rdiag = assert_cmd::cargo::cargo_bin!("rdiag").display();
    let limited = |limit: &str| {
        let pid = load.pids()[0];
        let line = format!("ulimit {limit}; exec {rdiag} probe profile --format json -d 4s --param hz=997 --pid {pid}");
        Command::new("sh").args(["-c", &line]).output().unwrap()
    };
    // What the soft limit lacks, the hard one gives.
    let output = limited("-S -n 12");
    assert_split(&serde_json::from_slice(&output.stdout).unwrap(), &PARTS);
    let output = limited("-n 9");
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    if output.status.success() {
        let result: Value = serde_json::from_slice(&output.stdout).unwrap();
        assert!(share(&result, "part_seventy") > 0.5 || notes(&result).contains("ulimit -n"), "{}", notes(&result));
    } else {
        assert!(output.status.code() == Some(3) && said.contains("ulimit -n"), "{said}");
    }
}

#[test]
#[ignore = "needs: root, eBPF, cc, setpriv"]
fn vm_without_the_right_to_load_programs_the_whole_host_is_sampled_through_rings() {
    let _alone = alone();
    if !has(&[Need::Root, Need::Tool("cc"), Need::Tool("setpriv")]) {
        return;
    }
    let (_folder, binary) = c_program();
    let _load = Load::start(1, &text_of(&binary), &[]);
    let (folder, _) = as_nobody().unwrap();
    let _set = Paranoid::set("-1");
    let mut command = Command::new("setpriv");
    command.args(["--bounding-set", "-sys_admin,-bpf"]).arg(folder.path().join("rdiag"));
    command.args(["probe", "profile", "--format", "json", "--param", "hz=499", "--duration", "4s"]);
    let output = command.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let result: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(result["attached"][0]["back_end"], "sampling ring", "{}", result["attached"]);
    let process =
        rows(&result, "processes").iter().find(|row| cell(&result, "processes", row, "name") == "splitter").unwrap();
    assert_eq!(cell(&result, "processes", process, "function"), "part_seventy", "{process}");
    let idle = cell(&result, "host", &rows(&result, "host")[0], "idle").as_f64().unwrap();
    assert!((0.0..1.0).contains(&idle), "{idle}");
}
