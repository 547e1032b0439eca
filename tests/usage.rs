//! What is typed wrong: the exit code, and what is said about it.

use crate::support::{path, rdiag};

/// Standard error and the exit code of a command in a folder.
fn said(folder: &std::path::Path, args: &[&str]) -> (Option<i32>, String) {
    let output = rdiag().current_dir(folder).args(args).output().unwrap();
    (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
}

#[test]
fn wrong_usage_ends_with_2_and_says_what_is_wrong_with_what_was_typed() {
    let folder = tempfile::tempdir().unwrap();
    let recording = path("tests/fixtures/recordings/orders-dsync.json.gz");
    std::fs::copy(&recording, folder.path().join("recording.json.gz")).unwrap();
    std::fs::copy(path("playbooks/rules/fd.yaml"), folder.path().join("rules.yaml")).unwrap();
    std::fs::write(folder.path().join("file"), "").unwrap();
    let given = "recording.json.gz";
    let cases: [(&[&str], &str); 12] = [
        (&["run", "./rules.yaml"], "./rules.yaml: it holds rules, and a playbook is what is run\n  hint: rules in"),
        (&["report", given, "--playbook", "disk-full"], "cannot be used with"),
        (&["report", given, "--last", "5m"], "cannot be used with"),
        (&["fleet", given, "--playbook", "nosuch"], "there is no playbook named \"nosuch\""),
        (
            &["wait", "--when", "cpu.runnable.count", "--", "run", "use-method"],
            "the condition is neither true nor false: compare it with something",
        ),
        (&["probe", "runqlat", "--cgroup", "nosuch"], "there is no control group \"nosuch\""),
        (&["analyze", given, "--out", "file"], "--out file: it is there, and no folder"),
        (&["analyze", "nosuch"], "hint: check the path; --help of the command says which files it reads"),
        (&["run", "use-method", "--at", "now", "--last", "0"], "--last: it must be longer than 0"),
        (&["run", "use-method", "--budget", "0"], "--budget: \"0\" is no share of the CPUs above 0 and up to 100%"),
        (&["run", "use-method", "--param", "interval=x"], "parameter interval: \"x\" is no duration"),
        (&["explain", "nosuchthing"], "hint: `rdiag list rules`"),
    ];
    for (args, wanted) in cases {
        let (code, said) = said(folder.path(), args);
        assert!(code == Some(2) && said.contains(wanted), "{args:?} ended with {code:?}: {said}");
    }
}

#[test]
fn a_history_without_a_recorder_is_told_from_one_that_has_just_begun() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::create_dir(folder.path().join("empty")).unwrap();
    let (code, told) = said(folder.path(), &["history", "list", "--history", "empty"]);
    assert!(code == Some(3) && told.contains("Nothing was recorded here"), "{code:?} {told}");
}
