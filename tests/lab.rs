//! Exercises as a student meets them, as far as no load is needed for it.

use crate::support::rdiag;

/// Runs `rdiag lab …` with a state folder of its own; exit code, stdout and stderr.
fn lab(state: &std::path::Path, args: &[&str]) -> (Option<i32>, String, String) {
    let output = rdiag().env("XDG_STATE_HOME", state).arg("lab").args(args).output().unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (output.status.code(), text(&output.stdout), text(&output.stderr))
}

#[test]
fn exercises_are_listed_with_what_can_run_here() {
    let state = tempfile::tempdir().unwrap();
    let (code, list, _) = lab(state.path(), &["list", "--json"]);
    assert_eq!(code, Some(0));
    let list: serde_json::Value = serde_json::from_str(&list).unwrap();
    let first = &list[1];
    assert_eq!((first["id"].as_str(), first["reached"]["passed"].as_bool()), (Some("01-stutter"), Some(false)));
    // Its first variant needs nothing, so it is ready, or in part where there is no real-time priority.
    assert!(["ready", "in part"].contains(&first["standing"].as_str().unwrap()), "{first}");
    let (_, none, note) = lab(state.path(), &["list", "--topic", "cooking"]);
    assert!(none.is_empty() && note.contains("no such exercise"), "{note}");
}

#[test]
fn whoever_asks_for_what_is_not_there_is_told_what_is() {
    let state = tempfile::tempdir().unwrap();
    for (args, code, says) in [
        (&["info", "stuter"][..], 2, "did you mean `01-stutter`?"),
        (&["start", "99"], 2, "there are 00-busydisk, 01-stutter"),
        (&["start", "01", "--variant", "nothing"], 2, "it has crowd, pulse"),
        (&["start", "01", "--for", "9h"], 2, "it can run for 10 to 1800 s"),
        (&["start", "01", "--for", "soon"], 2, "soon"),
        (&["check"], 2, "no exercise was started"),
        (&["hint", "01"], 2, "`rdiag lab start ID` starts one"),
        (&["answer", "cause=crowd"], 2, "no exercise was started"),
        (&["solution"], 2, "no exercise was started"),
        (&["status"], 2, "no exercise was started"),
    ] {
        let (found, _, error) = lab(state.path(), args);
        assert_eq!(found, Some(code), "{args:?}: {error}");
        assert!(error.contains(says), "{args:?}: {error}");
    }
}

#[test]
fn a_dry_run_tells_every_change_and_makes_none_and_stop_does_no_harm() {
    let state = tempfile::tempdir().unwrap();
    let (code, told, error) =
        lab(state.path(), &["start", "04", "--variant", "held", "--dry-run", "--force", "--seed", "3"]);
    assert_eq!(code, Some(0), "{error}");
    assert!(told.contains("scratch-0000000000000003") && told.contains("rdiag:lab"), "{told}");
    let folder = state.path().join("rdiag/lab");
    assert!(!folder.join("run.json").exists() && !folder.join("scratch-0000000000000003").exists());
    let (code, told, _) = lab(state.path(), &["stop"]);
    assert_eq!((code, told.as_str()), (Some(0), "no exercise was started; processes ended: 0, folders removed: 0\n"));
}

#[test]
fn a_state_that_cannot_be_read_is_told_and_cleaned_up() {
    let state = tempfile::tempdir().unwrap();
    let folder = state.path().join("rdiag/lab");
    std::fs::create_dir_all(folder.join("scratch-1")).unwrap();
    std::fs::write(folder.join("run.json"), "{\"scenario\":").unwrap();
    std::fs::write(folder.join("journal"), format!("{{\"folder\":\"{}\"}}\n", folder.join("scratch-1").display()))
        .unwrap();
    let (code, _, error) = lab(state.path(), &["status"]);
    assert_eq!(code, Some(4));
    assert!(error.contains("`rdiag lab stop` cleans up"), "{error}");
    let (code, told, _) = lab(state.path(), &["stop"]);
    assert_eq!((code, told.as_str()), (Some(0), "no exercise was started; processes ended: 0, folders removed: 1\n"));
    assert_eq!(lab(state.path(), &["stop"]).0, Some(0));
}

#[test]
fn a_run_from_before_a_reboot_is_no_run() {
    let state = tempfile::tempdir().unwrap();
    let folder = state.path().join("rdiag/lab");
    std::fs::create_dir_all(&folder).unwrap();
    let run = serde_json::json!({
        "scenario": "01-stutter", "variant": "crowd", "seed": 1, "started": "2026-01-01T00:00:00Z", "boot": "another",
        "until": 1e12, "scratch": folder.join("scratch-1"), "keeper": {"pid": 1, "started": 1, "boot": "another"},
        "jobs": [], "baseline": {}, "answers": {}, "hints": 0, "checks": 0,
    });
    std::fs::write(folder.join("run.json"), run.to_string()).unwrap();
    let (code, _, error) = lab(state.path(), &["check"]);
    assert_eq!(code, Some(3));
    assert!(error.contains("does not run any more") && error.contains("rdiag lab start 01-stutter"), "{error}");
    // Answers are kept nevertheless, and what cannot be one is refused.
    assert_eq!(lab(state.path(), &["answer", "cause=crowd"]).0, Some(0));
    for (answer, says) in [
        ("share=70000", "a number from 0 to 6400 %"),
        ("cause=crowds", "did you mean `crowd`?"),
        ("color=red", "it asks for cause, who, share"),
        ("red", "write key=value"),
    ] {
        let (code, _, error) = lab(state.path(), &["answer", "01", answer]);
        assert_eq!(code, Some(2), "{answer}");
        assert!(error.contains(says), "{answer}: {error}");
    }
    for stage in 1..=4 {
        assert!(lab(state.path(), &["hint"]).1.starts_with(&format!("Hint {stage} of 4: ")));
    }
    assert_eq!(lab(state.path(), &["hint"]).0, Some(2));
}
