//! Exercises for real: the load runs, and rdiag's own answers are held against it.

use crate::support::{Need, alone, has, rdiag};

/// A variant that some hosts cannot express.
struct Elsewhere {
    variant: &'static str,
    /// Part of what is said then.
    says: &'static str,
    /// Whether this is such a host, told without rdiag.
    is_such_a_host: fn() -> bool,
}

/// All of them. What is missing on any other host is a fault of the host or of rdiag, and fails.
const ELSEWHERE: &[Elsewhere] = &[
    // Two virtual CPUs may be two threads of one core, which share its caches: no line is taken from the other one then.
    Elsewhere {
        variant: "14-pair neighbours",
        says: "in each other's way at one cache line",
        is_such_a_host: is_virtual,
    },
    // Some kernels are built or booted without them.
    Elsewhere { variant: "32-pages pair", says: "transparent huge pages", is_such_a_host: has_no_huge_pages },
];

fn is_virtual() -> bool {
    std::fs::read_to_string("/proc/cpuinfo").unwrap().split_whitespace().any(|word| word == "hypervisor")
}

fn has_no_huge_pages() -> bool {
    let chosen = std::fs::read_to_string("/sys/kernel/mm/transparent_hugepage/enabled").unwrap_or_default();
    !chosen.contains("[always]") && !chosen.contains("[madvise]")
}

/// The gate for authors over some exercises, in a state folder of its own; the exit code, its lines, and all that it says.
fn dev_check(ids: &[&str]) -> (Option<i32>, String, String) {
    let state = tempfile::tempdir_in("/var/tmp").unwrap();
    let mut command = rdiag();
    // Each variant may have to wait for the end of a disturbance, and be tried once more.
    command.timeout(std::time::Duration::from_secs(1800));
    let output = command.env("XDG_STATE_HOME", state.path()).args(["lab", "dev-check"]).args(ids).output().unwrap();
    let mut left: Vec<_> =
        std::fs::read_dir(state.path().join("rdiag/lab")).unwrap().map(|e| e.unwrap().file_name()).collect();
    left.retain(|name| name != "lock");
    assert!(left.is_empty(), "left behind: {left:?}");
    let [out, error] = [output.stdout, output.stderr].map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
    (output.status.code(), out.clone(), out + &error)
}

/// What is amiss with what the gate said of so many variants: each must be ok, or belong to another kind of host; and of each exercise one
/// must be ok, unless all of it belongs elsewhere.
fn amiss(out: &str, variants: usize, elsewhere: &[Elsewhere]) -> Vec<String> {
    let lines: Vec<(&str, &str)> =
        out.lines().filter(|line| !line.starts_with(' ')).filter_map(|line| line.split_once(": ")).collect();
    let mut amiss = Vec::new();
    if lines.len() != variants {
        amiss.push(format!("{} variants were judged, not {variants}", lines.len()));
    }
    let is_ok = |said: &str| said.starts_with("ok (");
    let known = |variant: &str| elsewhere.iter().find(|known| known.variant == variant);
    for (variant, said) in lines.iter().filter(|(_, said)| !is_ok(said)) {
        let missing = said.strip_prefix("not here: ");
        let is_known = known(variant)
            .is_some_and(|known| missing.is_some_and(|why| why.contains(known.says)) && (known.is_such_a_host)());
        if !is_known {
            amiss.push(format!("{variant}: {said}"));
        }
    }
    let exercise = |variant: &str| variant.split(' ').next().unwrap().to_owned();
    let all: std::collections::BTreeSet<String> = lines.iter().map(|(variant, _)| exercise(variant)).collect();
    for id in all {
        let mut of_it = lines.iter().filter(|(variant, _)| exercise(variant) == id);
        if !of_it.clone().any(|(_, said)| is_ok(said)) && !of_it.all(|(variant, _)| known(variant).is_some()) {
            amiss.push(format!("{id}: no variant of it is ok"));
        }
    }
    amiss
}

fn holds(ids: &[&str], variants: usize) {
    let _alone = alone();
    if !has(&[Need::Root]) {
        return;
    }
    let (code, out, said) = dev_check(ids);
    assert_eq!(code, Some(0), "{said}");
    let amiss = amiss(&out, variants, ELSEWHERE);
    assert!(amiss.is_empty(), "{amiss:#?}\n{said}");
}

#[test]
fn an_exercise_that_was_not_judged_does_not_hold() {
    let known = |is_such_a_host| [Elsewhere { variant: "14-pair one", says: "caches", is_such_a_host }];
    let here = |out: &str, variants| amiss(out, variants, &known(|| false));
    let there = |out: &str, variants| amiss(out, variants, &known(|| true));
    assert!(here("14-pair one: ok (3 s)\n14-pair two: ok (4 s)\n", 2).is_empty());
    assert_eq!(here("14-pair one: ok (3 s)\n", 2), ["1 variants were judged, not 2"]);
    for bad in
        ["cannot judge: others used 1.3 of 2 CPUs\n    no rule", "WRONG\n    no rule", "FAILED: no", "not here: caches"]
    {
        assert_eq!(here(&format!("14-pair one: {bad}\n14-pair two: ok (4 s)\n"), 2).len(), 1, "{bad}");
        assert_eq!(there(&format!("14-pair two: {bad}\n14-pair one: ok (4 s)\n"), 2).len(), 1, "{bad}");
    }
    assert!(there("14-pair one: not here: its caches are one\n14-pair two: ok (4 s)\n", 2).is_empty());
    assert_eq!(there("14-pair one: not here: it needs root\n14-pair two: ok (4 s)\n", 2).len(), 1, "another reason");
    assert!(there("14-pair one: not here: its caches are one\n", 1).is_empty(), "all of it belongs elsewhere");
    let none =
        there("14-pair one: not here: its caches are one\n14-pair two: cannot judge: others used 2.0 of 2 CPUs\n", 2);
    assert_eq!(none.last().unwrap(), "14-pair: no variant of it is ok");
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
    assert!(code == Some(0) && told.contains("maximum: ") && told.contains("sleep: you are asked for it"), "{told}");
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
