//! A command after `--`: measured from its first instruction to its end, and nothing of it left behind.

use std::process::{Command, Stdio};

use serde_json::Value;

use crate::support::{Need, alone, has, rdiag, wait_until};

/// Exit code, what was measured, and what was told.
fn probe(args: &[&str]) -> (i32, Value, String) {
    let output = rdiag().arg("probe").args(args).output().unwrap();
    let told = String::from_utf8_lossy(&output.stderr).into_owned();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let measured = text.lines().last().and_then(|line| serde_json::from_str(line).ok()).unwrap_or(Value::Null);
    (output.status.code().unwrap(), measured, told)
}

fn kernel_can() -> bool {
    has(&[Need::Root, Need::Path("/sys/kernel/btf/vmlinux")])
}

fn calls(measured: &Value, name: &str) -> f64 {
    let tables = measured["outputs"].as_array().unwrap().iter().filter_map(|output| output.get("table"));
    let rows = tables.flat_map(|table| table["rows"].as_array().unwrap());
    let cells = rows.filter_map(|row| row["cells"].as_array());
    let found = cells.filter(|cells| cells.first().is_some_and(|cell| cell == name));
    found.filter_map(|cells| cells.iter().find_map(Value::as_f64)).sum()
}

#[test]
#[ignore = "needs: root, eBPF"]
fn vm_a_command_is_measured_with_all_that_it_starts_from_its_first_instruction_to_its_end() {
    if !kernel_can() {
        return;
    }
    let words = "cd /proc; cd /; cd /sys; sh -c 'cd /; (cd /proc; true); true'; exit 3";
    let (code, measured, told) = probe(&["syscount", "--format", "json", "--top", "100", "--", "sh", "-c", words]);
    assert_eq!(code, 3, "as the command: {told}");
    assert!(told.contains("ended with code 3"), "{told}");
    assert_eq!(calls(&measured, "chdir"), 5.0, "by three processes: {measured:#}");
    assert!(calls(&measured, "execve") >= 2.0, "the very first call is there: {measured:#}");
    assert_eq!(measured["params"]["command"], format!("sh -c {words}"));
}

#[test]
#[ignore = "needs: root, eBPF"]
fn how_a_command_ended_is_told_and_measuring_ends_with_it() {
    let _alone = alone();
    if !kernel_can() {
        return;
    }
    let (code, measured, told) = probe(&["runqlat", "--format", "json", "--", "sh", "-c", "sleep 0.3; kill -9 $$"]);
    assert_eq!(code, 128 + 9, "{told}");
    assert!(told.contains("was ended by signal 9"), "{told}");
    let seconds = measured["seconds"].as_f64().unwrap();
    assert!((0.3..0.8).contains(&seconds), "{seconds}");
    let (code, _, told) = probe(&["runqlat", "--", "sh", "-c", "sleep 0.1; kill -15 $$"]);
    assert_eq!(code, 128 + 15, "{told}");
    let (code, _, told) = probe(&["runqlat", "--duration", "300ms", "--", "sleep", "2"]);
    assert_eq!(code, 0, "{told}");
    assert!(told.contains("goes on as process"), "{told}");
}

#[test]
#[ignore = "needs: root, eBPF"]
fn a_file_that_the_kernel_cannot_execute_is_told() {
    let _alone = alone();
    if !kernel_can() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let script = folder.path().join("script");
    std::fs::write(&script, "#!/no/such/interpreter\n").unwrap();
    assert!(Command::new("chmod").arg("755").arg(&script).status().unwrap().success());
    let (code, _, told) = probe(&["runqlat", "--", &script.display().to_string()]);
    assert_eq!(code, 2, "{told}");
    assert!(told.contains("cannot be executed: No such file"), "{told}");
}

#[test]
#[ignore = "needs: root, eBPF"]
fn a_command_gets_what_is_typed_and_what_it_prints_is_not_touched() {
    let _alone = alone();
    if !kernel_can() {
        return;
    }
    let output = rdiag().args(["probe", "syscount", "--", "cat"]).write_stdin("as it is\n").output().unwrap();
    assert!(String::from_utf8_lossy(&output.stdout).starts_with("as it is\n"));
}

#[test]
#[ignore = "needs: root"]
fn a_command_whose_measurement_cannot_begin_never_runs_and_does_not_stay() {
    let _alone = alone();
    if !has(&[Need::Root, Need::Tool("setpriv")]) {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let trace = folder.path().join("it-ran");
    let binary = assert_cmd::cargo::cargo_bin!("rdiag");
    let mut command = Command::new("setpriv");
    command.args(["--bounding-set=-all", "--inh-caps=-all", "--no-new-privs"]).arg(binary);
    let output = command.args(["probe", "runqlat", "--", "touch"]).arg(&trace).output().unwrap();
    assert_eq!(output.status.code(), Some(3), "{}", String::from_utf8_lossy(&output.stderr));
    assert!(!trace.exists());
}

#[test]
#[ignore = "needs: root, eBPF"]
fn a_terminated_rdiag_takes_its_command_with_it() {
    let _alone = alone();
    if !kernel_can() {
        return;
    }
    let binary = assert_cmd::cargo::cargo_bin!("rdiag");
    let mut command = Command::new(binary);
    command.args(["probe", "runqlat", "--", "sleep", "61.5"]).stdout(Stdio::null()).stderr(Stdio::null());
    let mut child = command.spawn().unwrap();
    let running = || Command::new("pgrep").args(["-f", "^sleep 61.5$"]).output().unwrap().status.success();
    assert!(wait_until(20, running));
    assert!(Command::new("kill").args(["-TERM", &child.id().to_string()]).status().unwrap().success());
    let _ = child.wait().unwrap();
    assert!(!running());
}

#[test]
#[ignore = "needs: root, eBPF"]
fn a_command_can_be_followed_wherever_its_process_could_be_asked_for() {
    let _alone = alone();
    if !kernel_can() {
        return;
    }
    let listed = rdiag().args(["list", "probes"]).output().unwrap();
    let mut followed = 0;
    for name in String::from_utf8(listed.stdout).unwrap().lines().filter_map(|line| line.split_whitespace().next()) {
        let limited = |args: &[&str]| {
            let output = rdiag().args(["probe", name, "--budget", "100%"]).args(args).output().unwrap();
            (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
        };
        let own = std::process::id().to_string();
        let (as_process, _) = limited(&["--pid", &own, "--duration", "100ms"]);
        let (as_command, told) = limited(&["--", "sh", "-c", "sh -c true"]);
        assert_eq!(as_process, as_command, "{name}: {told}");
        followed += usize::from(as_command == Some(0));
    }
    assert!(followed >= 25, "{followed}");
    let words = ["probe", "count", "--param", "function=libc:malloc", "--", "sh", "-c", "sh -c true; true"];
    let told = String::from_utf8(rdiag().args(words).output().unwrap().stdout).unwrap();
    assert!(told.contains("note: functions of programs are watched in the command's own process"), "{told}");
}
