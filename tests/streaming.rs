//! What is found is told while the window runs.

use std::path::PathBuf;

use crate::support::{Need, has, rdiag};

/// A rule that fires in every interval.
const PLAYBOOK: &str = r#"
format_version: 1
name: always
title: Always a warning
params:
  duration: {type: duration, default: 3s, help: Length.}
overrides:
  cpu.utilization: {warning: value >= 0, why: The test wants it.}
steps:
  - id: cpu
    question: How busy are the CPUs?
    collect: [cpu_stat, processes, psi]
    rules: [cpu.utilization]
"#;

fn playbook() -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("always.yaml");
    std::fs::write(&file, PLAYBOOK).unwrap();
    (folder, file)
}

/// What a run of three seconds tells on stderr, and prints on stdout.
fn told(args: &[&str]) -> (String, String) {
    let (folder, file) = playbook();
    let out = folder.path().join("out").display().to_string();
    let out: &[&str] = if args.contains(&"-o") { &[] } else { &["--out", &out] };
    let output = rdiag().arg("run").arg(&file).args(["-d", "3s"]).args(out).args(args).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    (String::from_utf8(output.stderr).unwrap(), String::from_utf8(output.stdout).unwrap())
}

#[test]
fn without_a_terminal_each_finding_is_a_line_once_and_provisional() {
    let (told, printed) = told(&[]);
    let lines: Vec<&str> = told.lines().filter(|line| line.contains("CPU utilization · cpu.utilization ")).collect();
    assert_eq!(lines.len(), 1, "{told}");
    let early = lines[0].trim_start();
    assert!(early.starts_with("1 s  warning") || early.starts_with("2 s  warning"), "{told}");
    assert_eq!(told.matches("provisional until the end").count(), 1, "{told}");
    assert!(!printed.contains("provisional"), "the result is none: {printed}");
}

#[test]
fn nothing_is_told_meanwhile_with_quiet_and_beside_json() {
    for args in [&["-q"][..], &["--summary"], &["--format", "json", "-o", "-"]] {
        let (told, printed) = told(args);
        assert!(!told.contains("provisional"), "{args:?}: {told}");
        assert!(!printed.contains("provisional"), "{args:?}: {printed}");
    }
}

#[test]
fn on_a_terminal_the_cells_of_the_matrix_come_while_the_window_runs() {
    if !has(&[Need::Tool("script")]) {
        return;
    }
    let (folder, file) = playbook();
    let program = rdiag().get_program().to_string_lossy().into_owned();
    let line =
        format!("stty cols 100; {program} run {} -d 3s --out {}", file.display(), folder.path().join("out").display());
    let mut script = assert_cmd::Command::new("script");
    script.args(["--quiet", "--flush", "--command", &line, "/dev/null"]).write_stdin("");
    script.env("XDG_CONFIG_HOME", "/nonexistent").env("NO_COLOR", "1").env("TERM", "xterm");
    let screen = String::from_utf8_lossy(&script.timeout(std::time::Duration::from_secs(120)).output().unwrap().stdout)
        .into_owned();
    let first = screen.find("provisional until the end").unwrap_or_else(|| panic!("{screen}"));
    let row = screen[first..].find("CPU ").unwrap_or_else(|| panic!("{screen}"));
    assert!(screen[first + row..].contains("warning"), "{screen}");
    // What is left on the screen is the judgement of the end.
    let last = screen.rfind("Written: ").unwrap_or_else(|| panic!("{screen}"));
    assert!(screen.rfind("provisional until the end").unwrap() < last, "{screen}");
}
