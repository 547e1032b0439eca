//! Exercises for real: the load runs, and rdiag's own answers are held against it.

use crate::support::{Need, alone, has, rdiag};

/// The gate for authors over one exercise, in a state folder of its own; what it says, and what is left there.
fn dev_check(id: &str) -> (Option<i32>, String) {
    let state = tempfile::tempdir_in("/var/tmp").unwrap();
    let output = rdiag().env("XDG_STATE_HOME", state.path()).args(["lab", "dev-check", id]).output().unwrap();
    let mut left: Vec<_> =
        std::fs::read_dir(state.path().join("rdiag/lab")).unwrap().map(|e| e.unwrap().file_name()).collect();
    left.retain(|name| name != "lock");
    assert!(left.is_empty(), "left behind: {left:?}");
    let said = format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    (output.status.code(), said)
}

fn holds(id: &str, variants: usize) {
    let _alone = alone();
    if !has(&[Need::Root]) {
        return;
    }
    let (code, said) = dev_check(id);
    assert_eq!(code, Some(0), "{said}");
    assert_eq!(said.matches(": ok").count() + said.matches(": not here").count(), variants, "{said}");
}

#[test]
#[ignore = "needs: root, a quiet machine"]
fn the_exercise_of_the_busy_disk_can_be_solved_only_rightly_and_leaves_nothing() {
    holds("00-busydisk", 1);
}

#[test]
#[ignore = "needs: root, a quiet machine"]
fn the_exercise_of_the_stutter_can_be_solved_only_rightly_and_leaves_nothing() {
    holds("01-stutter", 2);
}

#[test]
#[ignore = "needs: root, a quiet machine"]
fn the_exercise_of_the_hundred_can_be_solved_only_rightly_and_leaves_nothing() {
    holds("02-hundred", 1);
}

#[test]
#[ignore = "needs: root, a quiet machine"]
fn the_exercise_of_the_load_can_be_solved_only_rightly_and_leaves_nothing() {
    holds("04-load", 2);
}

#[test]
#[ignore = "needs: a quiet machine"]
fn an_exercise_is_started_once_checked_and_outlived_by_nothing() {
    let _alone = alone();
    let state = tempfile::tempdir_in("/var/tmp").unwrap();
    let lab = |args: &[&str]| {
        let output = rdiag().env("XDG_STATE_HOME", state.path()).arg("lab").args(args).output().unwrap();
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        (output.status.code(), text(&output.stdout), text(&output.stderr))
    };
    let (code, told, error) = lab(&["start", "04", "--variant", "held", "--seed", "3", "--force", "--for", "40s"]);
    assert_eq!(code, Some(0), "{error}");
    let symptom = told.split("You are asked").next().unwrap();
    assert!(symptom.contains("more than twenty programs") && !symptom.contains("uninterruptible"), "{told}");
    let (code, _, error) = lab(&["start", "01"]);
    assert!(code == Some(2) && error.contains("04-load runs already"), "{error}");
    assert_eq!(lab(&["check"]).0, Some(1), "no answer is not passed");
    let (code, _, error) = lab(&["solution"]);
    assert_eq!(code, Some(0), "after a check the solution is free: {error}");
    // The seed's program, by its process id, as a student would find it.
    let run: serde_json::Value =
        serde_json::from_slice(&std::fs::read(state.path().join("rdiag/lab/run.json")).unwrap()).unwrap();
    let name = run["jobs"][0]["name"].as_str().unwrap().to_owned();
    let (code, told, _) = lab(&["answer", "cause=cpu", &format!("who={name}"), "busy=0"]);
    assert_eq!((code, told.as_str()), (Some(0), ""));
    let (code, told, _) = lab(&["check"]);
    assert_eq!(code, Some(1));
    assert!(
        told.contains("A task that waits for a CPU is runnable") && told.contains(&format!("right     who = {name}")),
        "{told}"
    );
    let (code, told, _) = lab(&["stop"]);
    assert!(code == Some(0) && told.contains("folders removed: 1"), "{told}");
    let left: Vec<_> =
        std::fs::read_dir(state.path().join("rdiag/lab")).unwrap().map(|e| e.unwrap().file_name()).collect();
    assert!(!left.iter().any(|name| name == "run.json" || name == "journal"), "{left:?}");
}
