//! Exercises for real: the load runs, and rdiag's own answers are held against it.

use crate::support::{Need, alone, has, rdiag};

/// The gate for authors over some exercises, in a state folder of its own; what it says, and what is left there.
fn dev_check(ids: &[&str]) -> (Option<i32>, String) {
    let state = tempfile::tempdir_in("/var/tmp").unwrap();
    let output = rdiag().env("XDG_STATE_HOME", state.path()).args(["lab", "dev-check"]).args(ids).output().unwrap();
    let mut left: Vec<_> =
        std::fs::read_dir(state.path().join("rdiag/lab")).unwrap().map(|e| e.unwrap().file_name()).collect();
    left.retain(|name| name != "lock");
    assert!(left.is_empty(), "left behind: {left:?}");
    let said = format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    (output.status.code(), said)
}

fn holds(ids: &[&str], variants: usize) {
    let _alone = alone();
    if !has(&[Need::Root]) {
        return;
    }
    let (code, said) = dev_check(ids);
    assert_eq!(code, Some(0), "{said}");
    let judged = [": ok", ": not here", ": cannot judge"].map(|word| said.matches(word).count());
    assert_eq!(judged.iter().sum::<usize>(), variants, "{said}");
    if said.contains(": cannot judge") {
        println!("SKIPPED in part: {said}");
    }
}

#[test]
#[ignore = "needs: root, a quiet machine"]
fn the_exercise_of_the_busy_disk_can_be_solved_only_rightly_and_leaves_nothing() {
    holds(&["00-busydisk"], 1);
}

#[test]
#[ignore = "needs: root, a quiet machine"]
fn the_exercise_of_the_stutter_can_be_solved_only_rightly_and_leaves_nothing() {
    holds(&["01-stutter"], 2);
}

#[test]
#[ignore = "needs: root, a quiet machine"]
fn the_exercise_of_the_hundred_can_be_solved_only_rightly_and_leaves_nothing() {
    holds(&["02-hundred"], 1);
}

#[test]
#[ignore = "needs: root, a quiet machine"]
fn the_exercise_of_the_load_can_be_solved_only_rightly_and_leaves_nothing() {
    holds(&["04-load"], 3);
}

#[test]
#[ignore = "needs: root, a quiet machine"]
fn the_exercise_of_the_two_copies_can_be_solved_only_rightly_and_leaves_nothing() {
    holds(&["03-twocopies"], 1);
}

#[test]
#[ignore = "needs: root, a quiet machine"]
fn the_exercise_of_the_service_that_does_not_start_can_be_solved_only_rightly_and_leaves_nothing() {
    holds(&["05-nostart"], 2);
}

#[test]
#[ignore = "needs: root, a quiet machine"]
fn the_exercise_of_the_more_processors_can_be_solved_only_rightly_and_leaves_nothing() {
    holds(&["10-more"], 2);
}

#[test]
#[ignore = "needs: root, a quiet machine"]
fn the_exercise_of_the_catalogue_that_is_read_again_can_be_solved_only_rightly_and_leaves_nothing() {
    holds(&["17-catalogue"], 1);
}

#[test]
#[ignore = "needs: root, a quiet machine"]
fn the_exercise_of_the_spool_can_be_solved_only_rightly_and_leaves_nothing() {
    holds(&["19-spool"], 2);
    let mounts = std::fs::read_to_string("/proc/self/mounts").unwrap();
    assert!(!mounts.contains("rdiag-lab"), "{mounts}");
}

#[test]
#[ignore = "needs: root, a quiet machine"]
fn the_exercise_of_the_connection_that_takes_a_second_can_be_solved_only_rightly_and_leaves_nothing() {
    holds(&["21-knock"], 1);
}

#[test]
#[ignore = "needs: root, a quiet machine"]
fn the_exercise_of_the_parser_in_the_kernel_can_be_solved_only_rightly_and_leaves_nothing() {
    holds(&["24-parser"], 1);
}

#[test]
#[ignore = "needs: root, a quiet machine"]
fn the_exercises_that_may_run_beside_others_can_be_solved_only_rightly_and_leave_nothing() {
    // Their loads are gentle, or judged by themselves: the gate checks several at a time.
    holds(&["11", "12", "13", "16", "18", "20", "22", "23", "25", "27"], 14);
}

#[test]
#[ignore = "needs: root, a quiet machine"]
fn the_exercise_of_the_two_threads_can_be_solved_only_rightly_and_leaves_nothing() {
    holds(&["14-pair"], 2);
}

#[test]
#[ignore = "needs: root, a quiet machine"]
fn the_exercise_of_the_table_in_memory_can_be_solved_only_rightly_and_leaves_nothing() {
    holds(&["15-table"], 2);
    let swaps = std::fs::read_to_string("/proc/swaps").unwrap();
    assert!(!swaps.contains("scratch-"), "{swaps}");
}

#[test]
#[ignore = "needs: root, a quiet machine"]
fn the_exercise_of_the_time_that_is_nobodys_can_be_solved_only_rightly_and_leaves_nothing() {
    holds(&["26-nobody"], 2);
}

#[test]
#[ignore = "needs: a quiet machine"]
fn what_is_put_right_is_told_from_what_was_only_ended() {
    let _alone = alone();
    let state = tempfile::tempdir_in("/var/tmp").unwrap();
    let lab = |args: &[&str]| {
        let output = rdiag().env("XDG_STATE_HOME", state.path()).arg("lab").args(args).output().unwrap();
        (output.status.code(), String::from_utf8_lossy(&output.stdout).into_owned())
    };
    assert_eq!(lab(&["start", "33", "--variant", "licence", "--seed", "5", "--force", "--for", "60s"]).0, Some(0));
    let (code, told) = lab(&["check", "--fixed"]);
    assert!(code == Some(1) && told.contains("the symptom is still there"), "{told}");
    let scratch = state.path().join("rdiag/lab/scratch-0000000000000005");
    let started: serde_json::Value =
        serde_json::from_slice(&std::fs::read(scratch.join("started.json")).unwrap()).unwrap();
    let pid = started[0]["process"]["pid"].to_string();
    let signal =
        |name: &str| assert!(std::process::Command::new("kill").args([name, &pid]).status().unwrap().success());
    signal("-STOP");
    let (code, told) = lab(&["check", "--fixed"]);
    signal("-CONT");
    assert!(code == Some(1) && told.contains("To end the work is no fix"), "{told}");
    // What it looks for is put where it looks.
    for place in ["etc", "share", "local", "vendor", "legacy", "opt"] {
        std::fs::create_dir(scratch.join(place)).unwrap();
        std::fs::write(scratch.join(place).join("licence.key"), "").unwrap();
    }
    std::fs::write(scratch.join("locale.mo"), "").unwrap();
    let (code, told) = lab(&["check", "--fixed"]);
    assert!(code == Some(0) && told.contains("the work goes on"), "{told}");
    assert_eq!(lab(&["stop"]).0, Some(0));
}

#[test]
#[ignore = "needs: root, a quiet machine"]
fn the_drills_can_be_solved_only_rightly_and_leave_nothing() {
    holds(&["30", "31", "32", "33", "34", "35"], 9);
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
    let (code, _, error) = lab(&["check"]);
    assert!(code == Some(2) && error.contains("nothing is answered yet"), "{error}");
    let (code, _, error) = lab(&["solution"]);
    assert!(code == Some(2) && error.contains("--give-up"), "{error}");
    let (code, told, _) = lab(&["status"]);
    assert!(code == Some(0) && told.contains("longest: ") && told.contains("sleep: you are asked for it"), "{told}");
    let (code, _, error) = lab(&["answer"]);
    assert!(code == Some(2) && error.contains("cause=…"), "{error}");
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
    let (code, _, error) = lab(&["solution"]);
    assert_eq!(code, Some(0), "after a check the solution is free: {error}");
    let (code, told, _) = lab(&["stop"]);
    assert!(code == Some(0) && told.contains("folders removed: 1"), "{told}");
    let left: Vec<_> =
        std::fs::read_dir(state.path().join("rdiag/lab")).unwrap().map(|e| e.unwrap().file_name()).collect();
    assert!(!left.iter().any(|name| name == "run.json" || name == "journal"), "{left:?}");
}
