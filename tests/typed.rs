//! The command line as people type it, and the screen that they get.

use std::path::{Path, PathBuf};

use crate::support::{Need, has, path, rdiag};

fn story() -> PathBuf {
    path("tests/fixtures/hosts/whole-host-short-of-cpu")
}

/// Exit code, stdout and stderr.
fn typed(args: &[&str], within: &Path) -> (i32, String, String) {
    let output = rdiag().args(args).current_dir(within).env("LANG", "C.UTF-8").output().unwrap();
    let [out, told] = [output.stdout, output.stderr].map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
    (output.status.code().unwrap(), out, told)
}

fn names(folder: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(folder).unwrap();
    let mut names: Vec<String> = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

/// A folder with a run of the recorded host in `made`.
fn run() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let root = story().display().to_string();
    let (code, _, told) = typed(&["run", "use-method", "--root", &root, "--out", "made"], folder.path());
    assert_eq!(code, 0, "{told}");
    folder
}

#[test]
fn one_format_is_printed_and_nothing_is_written() {
    let (folder, root) = (tempfile::tempdir().unwrap(), story().display().to_string());
    let (code, out, _) = typed(&["run", "use-method", "--root", &root, "--format", "json"], folder.path());
    let report: serde_json::Value = serde_json::from_str(&out).unwrap();
    assert_eq!((code, &report["format_version"]), (0, &1.into()));
    let (code, out, _) = typed(&["run", "use-method", "--root", &root, "--format", "markdown"], folder.path());
    assert!(code == 0 && out.starts_with('#'), "{out}");
    assert!(names(folder.path()).is_empty(), "{:?}", names(folder.path()));
}

#[test]
fn a_name_with_an_ending_is_one_file_for_every_command() {
    let folder = run();
    let root = story().display().to_string();
    for args in [
        &["run", "use-method", "--root", &root, "--out", "run.html"][..],
        &["report", "made", "--out", "report.md"],
        &["analyze", "made", "--out", "again.json"],
        &["diff", "made", "made", "--out", "diff.html"],
        &["record", "use-method", "--root", &root, "--out", "it.json.gz"],
    ] {
        let (code, _, told) = typed(args, folder.path());
        assert_eq!(code, 0, "{args:?}: {told}");
        assert!(folder.path().join(args.last().unwrap()).is_file(), "{args:?}: {:?}", names(folder.path()));
    }
    let all = ["again.json", "diff.html", "it.json.gz", "made", "report.md", "run.html"];
    assert_eq!(names(folder.path()), all);
    let (code, _, told) = typed(&["record", "use-method", "--root", &root, "--out", "kept"], folder.path());
    assert_eq!(code, 0, "{told}");
    assert_eq!(names(&folder.path().join("kept")), ["recording.json.gz"]);
    let (code, _, told) = typed(&["report", "made", "--format", "md", "--out", "x.html"], folder.path());
    assert!(code == 2 && told.contains("ending says its format"), "{told}");
}

#[test]
fn commands_take_the_folder_of_a_run_and_say_which_of_its_files_they_were_given() {
    let folder = run();
    for args in [
        &["report", "made"][..],
        &["analyze", "made"],
        &["diff", "made", "made"],
        &["report", "made/recording.json.gz"],
    ] {
        let (code, out, told) = typed(args, folder.path());
        assert!(code == 0 && !out.is_empty(), "{args:?}: {told}");
    }
    let (report, _) = (typed(&["report", "made", "-q"], folder.path()), ());
    assert_eq!(report.1, typed(&["analyze", "made", "-q"], folder.path()).1);
    for (args, says) in [
        (["analyze", "made/report.json"], "`rdiag report FILE` shows it"),
        (["report", "made/report.html"], "give report.json or recording.json.gz"),
        (["report", "."], "name a folder that `rdiag run` wrote"),
    ] {
        let (code, _, told) = typed(&args, folder.path());
        assert!(code == 2 && told.contains(says), "{args:?}: {told}");
    }
}

#[test]
fn a_file_that_is_not_there_is_wrong_usage_everywhere() {
    let folder = tempfile::tempdir().unwrap();
    for args in [
        &["analyze", "nowhere"][..],
        &["report", "nowhere"],
        &["diff", "nowhere", "nowhere"],
        &["check", "nowhere.yaml"],
        &["run", "./nowhere.yaml"],
        &["nowhere.yaml"],
        &["lab", "class", "nowhere"],
    ] {
        let (code, _, told) = typed(args, folder.path());
        assert!(code == 2 && told.contains("nowhere"), "{args:?}: {code} {told}");
    }
}

#[test]
fn what_cannot_be_meant_is_refused_before_anything_is_measured() {
    let folder = tempfile::tempdir().unwrap();
    for (args, says) in [
        (&["run", "use-method", "-d", "1s", "-i", "2s"][..], "--interval 2.00 s is longer than the duration, 1.00 s"),
        (&["record", "use-method", "-i", "20s"], "longer than the duration, 10.0 s"),
        (&["probe", "runqlat", "-d", "1s", "-i", "2s"], "longer than the duration"),
        (&["run", "use-method", "--comm", "no-such-name"], "no task is named \"no-such-name\""),
        (&["run", "method-r", "--comm", "no-such-name"], "no task is named"),
        (&["use-metod"], "did you mean `use-method`?"),
        (&["biolatency"], "`rdiag probe biolatency`"),
        (&["iostat"], "`rdiag explain iostat`"),
        (&[], "Usage: rdiag"),
    ] {
        let (code, out, told) = typed(args, folder.path());
        assert!(code == 2 && told.contains(says) && out.is_empty(), "{args:?}: {code} {told}");
    }
    assert!(names(folder.path()).is_empty(), "{:?}", names(folder.path()));
    // A recorded host has other names than this one, and the window of a command is as long as it takes.
    let (code, _, told) = typed(&["run", "method-r", "-i", "20s", "--out", "o", "--", "true"], folder.path());
    assert!([0, 3].contains(&code), "{told}");
}

#[test]
fn the_name_of_a_playbook_is_a_command() {
    let (folder, root) = (tempfile::tempdir().unwrap(), story().display().to_string());
    let short = typed(&["--color", "never", "use-method", "--root", &root, "--format", "json"], folder.path());
    assert_eq!(short, typed(&["run", "use-method", "--root", &root, "--format", "json"], folder.path()));
    assert_eq!(short.0, 0, "{}", short.2);
}

#[test]
fn the_screen_holds_the_problems_who_and_what_next_and_ends_with_the_verdict() {
    let folder = run();
    let (_, out, told) = typed(&["report", "made"], folder.path());
    let lines: Vec<&str> = out.lines().collect();
    assert!(lines.len() <= 24, "more than a screen: {out}");
    let verdict = lines.iter().rposition(|line| line.starts_with("✖ CRITICAL Bottleneck: CPU saturation")).unwrap();
    assert!(lines.len() - verdict <= 4, "the verdict is not at the end: {out}");
    assert_eq!(out.matches("\n  3. ").count(), 1, "{out}");
    assert!(!out.contains("\n  4. ") && !out.contains("Ruled out"), "{out}");
    for shown in
        ["▲ WARNING CPU utilization · cpu.utilization 99.3%", "stress-ng-cpu (6 processes)", "Next", "Not measured: "]
    {
        assert!(out.contains(shown), "{shown}: {out}");
    }
    assert!(told.is_empty(), "{told}");
    let (_, all, _) = typed(&["report", "made", "-v"], folder.path());
    assert!(all.contains("Ruled out") && all.contains("Utilization") && all.lines().count() > 60, "{all}");
    assert!(all.contains(lines[verdict]), "{all}");
    let (_, line, told) = typed(&["report", "made", "--summary"], folder.path());
    assert_eq!((line.lines().count(), told.as_str()), (1, ""));
    assert!(line.starts_with("web-03: critical: CPU saturation") && line.contains("stress-ng-cpu"), "{line}");
    let (_, quiet, told) = typed(&["report", "made", "-q"], folder.path());
    assert!(quiet.starts_with(lines[verdict]) && out.ends_with(&quiet) && told.is_empty(), "{quiet}{told}");
    let root = story().display().to_string();
    let (_, out, _) = typed(&["run", "use-method", "--root", &root, "--out", "new"], folder.path());
    assert!(out.contains("\nWritten: new/report.html (and report.md, report.json, recording.json.gz)\n"), "{out}");
}

#[test]
fn rdiag_alone_on_a_terminal_takes_a_look_writes_nothing_and_says_what_to_type_next() {
    if !has(&[Need::Tool("script")]) {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let mut script = assert_cmd::Command::new("script");
    script.args(["--quiet", "--return", "--flush", "--command"]).arg(rdiag().get_program()).arg("/dev/null");
    script.env("XDG_CONFIG_HOME", "/nonexistent").env("NO_COLOR", "1").current_dir(folder.path());
    let output = script.timeout(std::time::Duration::from_secs(120)).output().unwrap();
    let screen = String::from_utf8_lossy(&output.stdout).into_owned();
    assert_eq!(output.status.code(), Some(0), "{screen}");
    assert!(screen.contains("rdiag run use-method") && screen.contains("use-method · 3."), "{screen}");
    assert!(names(folder.path()).is_empty(), "{:?}", names(folder.path()));
}
