//! Exercises as a student meets them, as far as no load is needed for it.

use std::os::unix::fs::PermissionsExt as _;

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

/// What the journal says of a process that a run has started.
fn entry(pid: u32) -> String {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    let started: u64 = stat.rsplit_once(')').unwrap().1.split_whitespace().nth(19).unwrap().parse().unwrap();
    let boot = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap();
    serde_json::json!({"process": {"pid": pid, "started": started, "boot": boot.trim()}}).to_string() + "\n"
}

#[test]
fn a_journal_that_another_user_can_write_ends_no_process() {
    let state = tempfile::tempdir().unwrap();
    let folder = state.path().join("rdiag/lab");
    std::fs::create_dir_all(&folder).unwrap();
    let mut sleeper = std::process::Command::new("sleep").arg("60").spawn().unwrap();
    std::fs::write(folder.join("journal"), entry(sleeper.id())).unwrap();
    let of_another = |owner: Option<u32>| {
        let mode = if owner.is_some() { 0o755 } else { 0o777 };
        std::fs::set_permissions(&folder, std::fs::Permissions::from_mode(mode)).unwrap();
        std::os::unix::fs::chown(&folder, owner, None).unwrap();
    };
    // Only root can give a folder away.
    let others = if rustix::process::geteuid().is_root() { &[None, Some(65534)][..] } else { &[None] };
    for owner in others {
        of_another(*owner);
        for args in [&["stop"][..], &["start", "01"], &["status"]] {
            let (code, _, error) = lab(state.path(), args);
            assert!(code == Some(2) && error.contains("cannot hold the state of an exercise"), "{args:?}: {error}");
        }
        assert_eq!(sleeper.try_wait().unwrap(), None, "it still runs");
    }
    // Nor is one of one's own in a folder of another's, who can put a different one into its place.
    let (above, own) = (folder.parent().unwrap(), rustix::process::geteuid().as_raw());
    std::os::unix::fs::chown(&folder, Some(own), None).unwrap();
    std::fs::set_permissions(&folder, std::fs::Permissions::from_mode(0o700)).unwrap();
    for (mode, owner) in [(0o777, None), (0o755, Some(65534))].into_iter().take(others.len()) {
        std::fs::set_permissions(above, std::fs::Permissions::from_mode(mode)).unwrap();
        std::os::unix::fs::chown(above, owner, None).unwrap();
        for args in [&["stop"][..], &["start", "01"]] {
            let (code, _, error) = lab(state.path(), args);
            assert!(
                code == Some(2) && error.contains("cannot hold the state of an exercise: of a folder above it, "),
                "{args:?}: {error}"
            );
        }
        assert_eq!(sleeper.try_wait().unwrap(), None, "it still runs");
    }
    std::fs::set_permissions(above, std::fs::Permissions::from_mode(0o755)).unwrap();
    std::os::unix::fs::chown(above, Some(own), None).unwrap();
    // A folder of one's own is believed.
    std::os::unix::fs::chown(&folder, Some(rustix::process::geteuid().as_raw()), None).unwrap();
    std::fs::set_permissions(&folder, std::fs::Permissions::from_mode(0o700)).unwrap();
    let (code, told, error) = lab(state.path(), &["stop"]);
    assert!(code == Some(0) && told.contains("processes ended: 1"), "{told}{error}");
    assert!(!sleeper.wait().unwrap().success());
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
    assert!(error.contains("is no longer running") && error.contains("rdiag lab start 01-stutter"), "{error}");
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

/// Plays a lesson with these lines typed.
fn lesson(state: &std::path::Path, args: &[&str], typed: &str) -> (Option<i32>, String, String) {
    let output =
        rdiag().env("XDG_STATE_HOME", state).args(["lab", "lesson"]).args(args).write_stdin(typed).output().unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (output.status.code(), text(&output.stdout), text(&output.stderr))
}

#[test]
fn a_lesson_is_played_through_on_its_recording_and_its_progress_is_kept() {
    let state = tempfile::tempdir().unwrap();
    let (code, told, error) = lesson(state.path(), &["disk"], "trouble\nfine\nfine\nmaybe\nf\nfifty\nwait\n");
    assert_eq!(code, Some(0), "{error}");
    for said in [
        "Utilization was designed for disks with one arm",
        "You said trouble: it was not so.",
        "You said fine: as it was.",
        "By hand: iostat -dx 1 10",
        "rdiag read: disk.",
        "Foreseen: 3 of 4. Answered rightly: 2 of 2.",
        "Passed. The same on your own host: add --here.",
    ] {
        assert!(told.contains(said), "{said}: {told}");
    }
    assert!(error.contains("answer with one of: fine, trouble"), "{error}");
    let (_, list, _) = lesson(state.path(), &[], "");
    assert!(list.lines().any(|line| line.starts_with("disk ") && line.contains("passed")), "{list}");
    let (code, told, _) = lesson(state.path(), &["busy"], "t\nt\nf\ntwice\nhalf\nlittle\n");
    assert_eq!(code, Some(0));
    assert!(told.contains("No: nothing.") && told.contains("Not passed yet"), "{told}");
    // What was passed once stays so, and what was left is not counted.
    let (_, _, error) = lesson(state.path(), &["disk"], "fine\n");
    assert!(error.contains("left before its end"), "{error}");
    let (_, progress, _) = lab(state.path(), &["progress"]);
    let progress: serde_json::Value = serde_json::from_str(&progress).unwrap();
    assert_eq!((&progress["disk"]["passed"], &progress["disk"]["checks"]), (&true.into(), &1.into()));
    assert_eq!((&progress["busy"]["passed"], &progress["busy"]["score"]["right"]), (&false.into(), &1.into()));
    let (code, _, error) = lesson(state.path(), &["dsk"], "");
    assert!(code == Some(2) && error.contains("did you mean `disk`?"), "{error}");
}

#[test]
fn a_lesson_can_be_played_on_this_host_as_an_ordinary_user() {
    let state = tempfile::tempdir().unwrap();
    let typed = "fine\n".repeat(3) + "nothing\ntwice\nlittle\n";
    let (code, told, error) = lesson(state.path(), &["busy", "--here", "--duration", "1s"], &typed);
    assert_eq!(code, Some(0), "{error}");
    assert!(told.contains("Answered rightly: 3 of 3") && !told.contains("A host with two CPUs. Its users"), "{told}");
    let (code, _, error) = lesson(state.path(), &["busy", "--here", "--duration", "soon"], "");
    assert!(code == Some(2) && error.contains("soon"), "{error}");
}

#[test]
fn a_class_is_told_from_the_files_of_its_students() {
    let folder = tempfile::tempdir().unwrap();
    let (anna, ben) = (folder.path().join("anna.json"), folder.path().join("ben.json"));
    std::fs::write(&anna, r#"{"04-load": {"passed": true, "hints": 1, "checks": 2}}"#).unwrap();
    std::fs::write(&ben, "not JSON").unwrap();
    let class = |files: &[&std::path::Path], more: &[&str]| {
        let output = rdiag().args(["lab", "class"]).args(files).args(more).output().unwrap();
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        (output.status.code(), text(&output.stdout), text(&output.stderr))
    };
    let (code, _, error) = class(&[&anna, &ben], &[]);
    assert!(code == Some(2) && error.contains("rdiag lab progress > NAME.json"), "{error}");
    std::fs::write(&ben, "{}").unwrap();
    let (code, table, _) = class(&[&ben, &anna], &[]);
    assert_eq!(code, Some(0));
    assert!(table.contains("| anna | 1 | 0 | passed, hints: 1 |\n| ben | 0 | 0 |  |"), "{table}");
    let (_, json, _) = class(&[&anna], &["--json"]);
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!((&json["format_version"], &json["exercises"][0]["tried"]), (&1.into(), &1.into()));
}

/// A state folder in which an exercise seems to run: what watches over it is this test.
fn state_with_exercise() -> tempfile::TempDir {
    let state = tempfile::tempdir().unwrap();
    let folder = state.path().join("rdiag/lab");
    std::fs::create_dir_all(&folder).unwrap();
    let read = |file: &str| std::fs::read_to_string(file).unwrap();
    let stat = read("/proc/self/stat");
    let started: u64 = stat.rsplit_once(") ").unwrap().1.split_whitespace().nth(19).unwrap().parse().unwrap();
    let boot = read("/proc/sys/kernel/random/boot_id").trim().to_owned();
    let run = serde_json::json!({
        "scenario": "04-load", "variant": "held", "seed": u64::MAX, "started": "2026-01-01T00:00:00Z", "boot": boot,
        "until": 1e12, "scratch": folder.join("scratch-1"),
        "keeper": {"pid": std::process::id(), "started": started, "boot": boot},
        "jobs": [], "baseline": {}, "answers": {}, "hints": 0, "checks": 0,
    });
    std::fs::write(folder.join("run.json"), run.to_string()).unwrap();
    state
}

#[test]
fn a_report_of_an_exercise_says_how_to_have_the_same_again_and_not_what_it_is() {
    let record = |state: &std::path::Path, name: &str, more: &[&str]| {
        let file = state.join(name);
        let args = ["record", "use-method", "--duration", "1s", "--interval", "500ms", "--out"];
        assert!(
            rdiag().env("XDG_STATE_HOME", state).args(args).arg(&file).args(more).output().unwrap().status.success()
        );
        file
    };
    let told = |file: &std::path::Path, format: &[&str]| {
        let output = rdiag().arg("analyze").arg(file).args(format).output().unwrap();
        String::from_utf8_lossy(&output.stdout).into_owned()
    };
    let exercise = |file: &std::path::Path| {
        let report: serde_json::Value = serde_json::from_str(&told(file, &["--format", "json", "--out", "-"])).unwrap();
        report["exercise"].clone()
    };
    let command = format!("rdiag lab start 04-load --variant 3 --seed {}", u64::MAX);
    let state = state_with_exercise();
    let file = record(state.path(), "whole.json.gz", &[]);
    let known = serde_json::json!({
        "id": "04-load", "variant": 3, "seed": u64::MAX, "command": command, "whole": true,
    });
    assert_eq!(exercise(&file), known);
    let folder = tempfile::tempdir().unwrap();
    // The last one is the terminal.
    for format in [&["--format", "md", "--out", "-"][..], &["--format", "html", "--out", "-"], &[]] {
        let text = told(&file, format).split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(text.contains("Measured during the exercise 04-load. The same again: "), "{format:?}: {text}");
        assert!(text.contains(&command), "{format:?}: {text}");
    }
    // It ends while rdiag measures.
    let end = format!("rm {}; sleep 1", state.path().join("rdiag/lab/run.json").display());
    let cut = record(state.path(), "cut.json.gz", &["--", "sh", "-c", &end]);
    assert_eq!((&exercise(&cut)["id"], &exercise(&cut)["whole"]), (&"04-load".into(), &false.into()));
    assert!(told(&cut, &["--format", "md", "--out", "-"]).contains("which ended before the measuring did"));
    let none = record(folder.path(), "none.json.gz", &[]);
    assert!(exercise(&none).is_null() && !told(&none, &["--format", "md", "--out", "-"]).contains("exercise"));
    assert!(!folder.path().join("rdiag").exists(), "nothing is kept, so no folder is made");
    // The number means what the name means.
    let start = |variant: &str| {
        let (code, told, error) =
            lab(folder.path(), &["start", "04", "--variant", variant, "--seed", "9", "--dry-run", "--force"]);
        assert_eq!(code, Some(0), "{error}");
        told
    };
    assert_eq!(start("3"), start("held"));
    assert!(lab(folder.path(), &["start", "04", "--variant", "4"]).2.contains("1 to 3"));
}

#[test]
fn marks_of_markdown_do_not_come_to_the_terminal() {
    let state = tempfile::tempdir().unwrap();
    let (_, told, _) = lesson(state.path(), &["memory"], "");
    let (_, info, _) = lab(state.path(), &["info", "04"]);
    assert!(!told.contains("**") && told.contains("look at available memory"), "{told}");
    assert!(!info.contains("**"), "{info}");
}
