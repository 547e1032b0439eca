//! The conversation of Method R as a person has it: on a terminal, line by line.

use std::io::{Read as _, Write as _};

use serde_json::Value;

use crate::support::{Need, has, path, rdiag};

/// What is on the screen in the end of somebody who types these lines, and the report; none where no report was written.
fn at_a_terminal(args: &[&str], typed: &str) -> (String, Option<Value>) {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("out");
    let (before, command) = args.split_at(args.iter().position(|arg| *arg == "--").unwrap_or(args.len()));
    let binary = rdiag().get_program().to_string_lossy().into_owned();
    let words = [
        &[binary.as_str(), "run", "method-r", "--guided", "--interval", "100ms", "--out"],
        &[out.to_str().unwrap()][..],
    ];
    let line = [&words.concat(), before, command].concat().join(" ");
    let mut script = assert_cmd::Command::new("script");
    script.args(["--quiet", "--flush", "--command", &line, "/dev/null"]).write_stdin(typed);
    script.env("XDG_CONFIG_HOME", "/nonexistent").env("NO_COLOR", "1").timeout(std::time::Duration::from_secs(120));
    let output = script.output().unwrap();
    let screen = String::from_utf8_lossy(&output.stdout).into_owned();
    let report = std::fs::read(out.join("report.json")).ok();
    (screen, report.map(|bytes| serde_json::from_slice(&bytes).unwrap()))
}

#[test]
fn what_a_person_answers_stands_in_the_report_and_the_verdict_answers_it() {
    if !has(&[Need::Tool("script")]) {
        return;
    }
    let typed = "the nightly import\nthe warehouse\nsoon\n200ms\na\n";
    let (screen, report) = at_a_terminal(&["--", "sleep", "0.6"], typed);
    let report = report.unwrap_or_else(|| panic!("no report: {screen}"));
    let told = &report["profile"]["conversation"];
    assert_eq!((&told["task"], &told["for_whom"]), (&"the nightly import".into(), &"the warehouse".into()), "{screen}");
    assert_eq!((&told["goal_seconds"], &told["measured"]), (&0.2.into(), &true.into()), "{screen}");
    let asked = report["profile"]["answer"]["asked"].as_str().unwrap();
    assert!(
        asked.starts_with("the nightly import for the warehouse took ") && asked.ends_with("; the goal is 200 ms"),
        "{asked}"
    );
    assert_eq!(report["verdict"]["status"], "warning", "the goal is missed");
    let goal = report["profile"]["answer"]["goal"].as_str().unwrap();
    assert!(goal.contains("to 200 ms") && goal.contains("must be saved"), "{goal}");
    // It says how to write a time, walks through the steps, and shows the answer at last.
    for shown in
        ["not a duration; examples: 200ms", "How long may it take?", "Step 1 of 2", "Asked:", "the nightly import"]
    {
        assert!(screen.contains(shown), "{shown} is not on the screen: {screen}");
    }
    assert!(!screen.contains("How long does it take now"), "rdiag measures that itself: {screen}");
}

#[test]
fn a_person_who_named_no_task_is_shown_the_busiest_and_asked() {
    if !has(&[Need::Tool("script")]) {
        return;
    }
    let mut busy = std::process::Command::new("sh").args(["-c", "while :; do :; done"]).spawn().unwrap();
    let pid = busy.id().to_string();
    let typed = format!("4194305\n{pid}\n\n\n2s\n1s\nq\n");
    let (screen, report) = at_a_terminal(&["--duration", "500ms"], &typed);
    busy.kill().unwrap();
    busy.wait().unwrap();
    let report = report.unwrap_or_else(|| panic!("no report: {screen}"));
    assert!(screen.contains("there is no process 4194305"), "{screen}");
    assert!(
        screen.lines().any(|line| line.contains(&pid) && line.contains("of a CPU")),
        "it is among the busiest: {screen}"
    );
    assert_eq!(report["profile"]["target"]["pids"], serde_json::json!([busy.id()]));
    let told = &report["profile"]["conversation"];
    assert_eq!((&told["now_seconds"], &told["goal_seconds"]), (&2.0.into(), &1.0.into()), "{screen}");
    assert_eq!((&told["task"], &told["measured"]), (&Value::Null, &false.into()));
    assert_eq!(report["profile"]["answer"]["asked"], "takes 2.00 s; the goal is 1.00 s");
}

#[test]
fn a_person_who_answers_nothing_is_told_how_to_name_a_task() {
    if !has(&[Need::Tool("script")]) {
        return;
    }
    let (screen, report) = at_a_terminal(&["--duration", "500ms"], "\n");
    assert!(report.is_none() && screen.contains("none is named") && screen.contains("-- COMMAND"), "{screen}");
}

#[test]
fn nobody_is_asked_anything_who_did_not_want_to_be_guided() {
    if !has(&[Need::Tool("script")]) {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let line = format!("{} run method-r --out out -- sleep 0.3", rdiag().get_program().to_string_lossy());
    let mut script = assert_cmd::Command::new("script");
    script.args(["--quiet", "--flush", "--command", &line, "/dev/null"]).current_dir(folder.path());
    script.env("XDG_CONFIG_HOME", "/nonexistent").env("NO_COLOR", "1").timeout(std::time::Duration::from_secs(120));
    let screen = String::from_utf8_lossy(&script.output().unwrap().stdout).into_owned();
    assert!(!screen.contains("What hurts") && !screen.contains("Step 1 of"), "{screen}");
    assert!(screen.contains("Where the time of the command `sleep 0.3`"), "{screen}");
}

/// The guided walk through a recorded host: what is on the screen in the end, and how rdiag exited.
fn walked(typed: &str) -> (String, Option<i32>) {
    let folder = tempfile::tempdir().unwrap();
    let (binary, root) =
        (rdiag().get_program().to_string_lossy().into_owned(), path("tests/fixtures/hosts/whole-host-quiet"));
    let line = format!("{binary} run use-method --guided --out out --root {}", root.display());
    let mut script = assert_cmd::Command::new("script");
    script.args(["--quiet", "--return", "--flush", "--command", &line, "/dev/null"]).current_dir(folder.path());
    script.env("XDG_CONFIG_HOME", "/nonexistent").env("NO_COLOR", "1").timeout(std::time::Duration::from_secs(120));
    let output = script.write_stdin(typed).output().unwrap();
    (String::from_utf8_lossy(&output.stdout).into_owned(), output.status.code())
}

#[test]
fn every_line_that_was_typed_ahead_is_a_key_of_the_walk() {
    if !has(&[Need::Tool("script")]) {
        return;
    }
    let (screen, code) = walked("b\n?\nxyzzy\n\n\nb\nq\n");
    let shown: Vec<&str> =
        screen.lines().filter(|line| line.starts_with("Step ")).filter_map(|line| line.split(':').next()).collect();
    let of = shown.first().and_then(|first| first.rsplit(' ').next()).unwrap_or_default();
    let expected = [1, 2, 1].map(|step| format!("Step {step} of {of}"));
    assert_eq!(shown, expected, "two steps, and back to the first: {screen}");
    for said in ["This is the first step.", "back to the step before", "Unknown key: xyzzy", "leave at once"] {
        assert!(screen.contains(said), "{said} is not on the screen: {screen}");
    }
    assert!(screen.contains("No bottleneck found"), "quit leads to the verdict: {screen}");
    assert_eq!(code, Some(0), "{screen}");
}

#[test]
fn all_steps_follow_without_a_key_and_the_end_of_the_input_is_no_dead_end() {
    if !has(&[Need::Tool("script")]) {
        return;
    }
    let (screen, _) = walked("a\n");
    let steps = screen.lines().filter(|line| line.starts_with("Step ")).count();
    assert!(steps > 5 && screen.matches("[Enter]").count() == 1, "{steps} steps: {screen}");
}

#[test]
fn a_person_goes_back_to_a_question_and_asks_what_it_is_for() {
    if !has(&[Need::Tool("script")]) {
        return;
    }
    let typed = "?\nthe nightly import\nb\nthe monthly import\nops\n200ms\nq\n";
    let (screen, report) = at_a_terminal(&["--", "sleep", "0.3"], typed);
    let report = report.unwrap_or_else(|| panic!("no report: {screen}"));
    let told = &report["profile"]["conversation"];
    assert_eq!((&told["task"], &told["for_whom"]), (&"the monthly import".into(), &"ops".into()), "{screen}");
    assert!(screen.contains("b goes back") && screen.contains("nothing is judged by it"), "{screen}");
}

#[test]
fn a_person_who_quits_a_question_gets_no_report_and_no_error() {
    if !has(&[Need::Tool("script")]) {
        return;
    }
    let (screen, report) = at_a_terminal(&["--", "sleep", "0.3"], "the nightly import\nq\n");
    assert!(report.is_none() && screen.contains("nothing was measured") && !screen.contains("error:"), "{screen}");
}

/// What is on the screen when rdiag waits with this prompt and Ctrl-C is pressed once, and how it exited.
fn interrupted_at(prompt: &str, args: &str) -> (String, Option<i32>) {
    let folder = tempfile::tempdir().unwrap();
    let line = format!("{} run {args} --guided --out out", rdiag().get_program().to_string_lossy());
    let mut script = std::process::Command::new("timeout")
        .args(["60", "script", "--quiet", "--return", "--flush", "--command", &line, "/dev/null"])
        .current_dir(folder.path())
        .env("XDG_CONFIG_HOME", "/nonexistent")
        .stdin(std::process::Stdio::piped())
        .stdout(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    let (mut keys, mut out) = (script.stdin.take().unwrap(), script.stdout.take().unwrap());
    let (mut screen, mut buffer, mut is_pressed) = (String::new(), [0; 4096], false);
    while let Ok(read @ 1..) = out.read(&mut buffer) {
        screen.push_str(&String::from_utf8_lossy(buffer.get(..read).unwrap()));
        if !is_pressed && screen.contains(prompt) {
            keys.write_all(b"\x03").unwrap();
            is_pressed = true;
        }
    }
    (screen, script.wait().unwrap().code())
}

#[test]
fn one_ctrl_c_leaves_whatever_waits_for_an_answer() {
    if !has(&[Need::Tool("script")]) {
        return;
    }
    let root = path("tests/fixtures/hosts/whole-host-quiet");
    let (screen, code) = interrupted_at("step 1 of", &format!("use-method --root {}", root.display()));
    assert_eq!(code, Some(130), "{screen}");
    let (screen, code) = interrupted_at("Its process id", "method-r");
    assert_eq!(code, Some(130), "{screen}");
}
