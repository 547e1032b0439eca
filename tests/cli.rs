//! The command line as scripts use it.

use std::os::unix::fs::PermissionsExt as _;

use crate::support::{path, rdiag};

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[test]
fn a_format_on_stdout_is_alone_there() {
    let output =
        rdiag().args(["run", "use-method", "--duration", "300ms", "--format", "json", "--out", "-"]).output().unwrap();
    assert!(output.status.success());
    let report: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(report["format_version"], 1);
}

#[test]
fn two_formats_on_stdout_are_refused_before_anything_is_measured() {
    let output = rdiag().args(["run", "use-method", "--format", "json,md", "--out", "-"]).output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output.stderr).contains("--format must name exactly one"), "{}", text(&output.stderr));
}

#[test]
fn an_unknown_playbook_is_a_usage_error_with_a_suggestion() {
    let output = rdiag().args(["run", "use-metod"]).output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output.stderr).contains("did you mean `use-method`?"), "{}", text(&output.stderr));
}

#[test]
fn an_output_folder_that_cannot_be_written_is_found_before_the_window_starts() {
    let begun = std::time::Instant::now();
    let output =
        rdiag().args(["run", "use-method", "--duration", "30s", "--out", "/proc/rdiag-test"]).output().unwrap();
    assert_eq!(output.status.code(), Some(4));
    assert!(begun.elapsed().as_secs() < 10);
    assert!(text(&output.stderr).contains("preparing the output folder /proc/rdiag-test"), "{}", text(&output.stderr));
}

#[test]
fn files_are_private_to_the_user() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("new");
    rdiag().args(["run", "use-method", "--duration", "300ms", "--out"]).arg(&out).assert().success();
    for name in ["report.html", "report.md", "report.json", "recording.json.gz"] {
        let mode = std::fs::metadata(out.join(name)).unwrap().permissions().mode() & 0o777;
        assert_eq!(mode, 0o600, "{name}");
    }
    assert_eq!(std::fs::metadata(&out).unwrap().permissions().mode() & 0o777, 0o700);
}

#[test]
fn an_existing_link_is_replaced_and_never_written_through() {
    let folder = tempfile::tempdir().unwrap();
    let victim = folder.path().join("victim");
    std::fs::write(&victim, "precious").unwrap();
    let out = folder.path().join("out");
    std::fs::create_dir(&out).unwrap();
    std::os::unix::fs::symlink(&victim, out.join("report.json")).unwrap();
    rdiag().args(["run", "use-method", "--duration", "300ms", "--out"]).arg(&out).assert().success();
    assert_eq!(std::fs::read_to_string(&victim).unwrap(), "precious");
    assert!(!out.join("report.json").symlink_metadata().unwrap().file_type().is_symlink());
}

#[test]
fn broken_recordings_and_reports_are_clear_errors() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("r");
    for (bytes, message) in [(&b"{\"a\": 1}"[..], "no recording of rdiag"), (&b"\x1f\x8b\x08\x00"[..], "cut off")] {
        std::fs::write(&file, bytes).unwrap();
        let output = rdiag().arg("analyze").arg(&file).output().unwrap();
        assert_eq!(output.status.code(), Some(2));
        assert!(text(&output.stderr).contains(message), "{}", text(&output.stderr));
    }
    std::fs::write(&file, "{}").unwrap();
    let output = rdiag().arg("report").arg(&file).output().unwrap();
    assert_eq!(output.status.code(), Some(2));
}

#[test]
fn everything_shipped_passes_the_check() {
    let output = rdiag().arg("check").output().unwrap();
    assert!(output.status.success(), "{}", text(&output.stdout));
    assert!(!text(&output.stdout).contains("warning"), "{}", text(&output.stdout));
}

#[test]
fn a_rule_that_is_hard_to_read_is_taken_with_warnings() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("rules.yaml");
    let rules = std::fs::read_to_string(path("playbooks/rules/cpu.yaml")).unwrap();
    let rule =
        format!("- id: {}", rules.split("\n- id: ").find(|rule| rule.starts_with("cpu.saturation.steal\n")).unwrap());
    let field = |key: &str| rule.lines().find(|line| line.starts_with(&format!("  {key}: "))).unwrap().to_owned();
    for (key, written, told) in [
        ("title", "title: What the hypervisor took from the CPUs of this machine", "title of cpu.saturation.steal has"),
        ("says", "says: Steal was {{ value|percent }}.", "does not say what"),
        ("says", "says: The hypervisor took some.", "has no number with a unit"),
        (
            "quiet",
            "quiet: Steal took {{ value|percent }} of it from nobody.",
            "quiet of cpu.saturation.steal uses \"nobody\"",
        ),
        ("says", &format!("says: {} {{{{ value|percent }}}} of it.", "much ".repeat(40)), "at most 160 characters"),
    ] {
        std::fs::write(&file, rule.replacen(&field(key), &format!("  {written}"), 1)).unwrap();
        let output = rdiag().arg("check").arg(&file).output().unwrap();
        let shown = text(&output.stdout);
        assert!(output.status.success(), "{written}: {shown}");
        assert!(shown.contains("warning: ") && shown.contains(told), "{written}: {shown}");
    }
}

#[test]
fn every_valid_playbook_passes_and_every_invalid_one_fails_with_its_message() {
    let list = |folder: &str| -> Vec<_> {
        let mut paths: Vec<_> = std::fs::read_dir(path(folder)).unwrap().map(|entry| entry.unwrap().path()).collect();
        paths.retain(|path| path.extension().is_some_and(|extension| extension == "yaml"));
        paths.sort();
        assert!(!paths.is_empty(), "{folder} is empty");
        paths
    };
    for file in list("tests/playbooks/valid") {
        let output = rdiag().arg("check").arg(&file).output().unwrap();
        assert!(output.status.success(), "{}: {}", file.display(), text(&output.stdout));
    }
    for file in list("tests/playbooks/invalid") {
        let expected =
            std::fs::read_to_string(file.with_extension("expected")).expect("each invalid file has its message");
        let output = rdiag().arg("check").arg(&file).output().unwrap();
        assert_eq!(output.status.code(), Some(2), "{}", file.display());
        let shown = text(&output.stdout).replace(&file.parent().unwrap().display().to_string(), "");
        for line in expected.lines().filter(|line| !line.is_empty()) {
            assert!(shown.contains(line), "{} lacks {line:?}:\n{shown}", file.display());
        }
    }
}

#[test]
fn every_list_has_a_json_form() {
    for kind in ["playbooks", "rules", "metrics", "collectors", "labs"] {
        let output = rdiag().args(["list", kind, "--json"]).output().unwrap();
        let list: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
        assert!(!list.as_array().unwrap().is_empty(), "{kind}");
    }
}

#[test]
fn a_rule_names_the_exercise_that_shows_what_it_is_about() {
    let explained = rdiag().args(["explain", "tasks.saturation.blocked"]).output().unwrap();
    assert!(text(&explained.stdout).ends_with("See it for yourself\n  rdiag lab start 04-load\n"));
}

#[test]
fn the_first_of_each_list_is_explained() {
    for kind in ["playbooks", "rules", "metrics", "collectors"] {
        let output = rdiag().args(["list", kind]).output().unwrap();
        let id = text(&output.stdout).split_whitespace().next().unwrap().to_owned();
        let explained = rdiag().args(["explain", &id]).output().unwrap();
        assert!(explained.status.success(), "{id}: {}", text(&explained.stderr));
    }
}

#[test]
fn what_people_type_is_explained_and_what_is_like_it_suggested() {
    for term in [
        "iowait",
        "%util",
        "await",
        "p99",
        "OOM",
        "throttling",
        "steal",
        "D state",
        "load average",
        "swap",
        "softirq",
        "retransmit",
        "PSI",
    ] {
        let explained = rdiag().args(["explain", term]).output().unwrap();
        let shown = text(&explained.stdout);
        assert!(explained.status.success(), "{term}: {}", text(&explained.stderr));
        assert!(shown.contains("\nMind\n") && shown.contains("In rdiag"), "{term}: {shown}");
    }
    for (typed, meant) in [("iowiat", "iowait"), ("what is steal", "steal"), ("Retransmitts", "retransmits")] {
        let refused = rdiag().args(["explain", typed]).output().unwrap();
        assert_eq!(refused.status.code(), Some(2));
        assert!(text(&refused.stderr).contains(meant), "{typed}: {}", text(&refused.stderr));
    }
}

#[test]
fn a_closed_pipe_is_no_error() {
    let status = std::process::Command::new("sh")
        .arg("-c")
        .arg(format!(
            "{} list metrics | head -n 1; exit ${{PIPESTATUS:-0}}",
            assert_cmd::cargo::cargo_bin!("rdiag").display()
        ))
        .output()
        .unwrap();
    assert!(status.stderr.is_empty(), "{}", text(&status.stderr));
}

#[test]
fn notes_that_nobody_reads_stop_nothing() {
    let rdiag = assert_cmd::cargo::cargo_bin!("rdiag");
    let mut child = std::process::Command::new(rdiag)
        .args(["explain", "nothing-is-named-so"])
        .stderr(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    drop(child.stderr.take());
    // An error is the first thing that it says: 101 would be a panic.
    assert_eq!(child.wait().unwrap().code(), Some(2));
}

#[test]
fn an_interrupted_run_reports_what_it_has() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("out");
    let mut child = std::process::Command::new(assert_cmd::cargo::cargo_bin!("rdiag"))
        .args(["run", "use-method", "--duration", "60s", "--no-guided", "--out"])
        .arg(&out)
        .stdout(std::process::Stdio::null())
        .stderr(std::process::Stdio::null())
        .spawn()
        .unwrap();
    std::thread::sleep(std::time::Duration::from_millis(2500));
    let interrupt = std::process::Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap();
    assert!(interrupt.success());
    let status = child.wait().unwrap();
    assert_eq!(status.code(), Some(130));
    let report: serde_json::Value = serde_json::from_slice(&std::fs::read(out.join("report.json")).unwrap()).unwrap();
    assert_eq!(report["window"]["interrupted"], true);
}

#[test]
fn a_session_that_drops_costs_neither_the_recording_nor_the_reports() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("out");
    let mut child = std::process::Command::new(assert_cmd::cargo::cargo_bin!("rdiag"))
        .args(["run", "use-method", "--duration", "60s", "--interval", "500ms", "--out"])
        .arg(&out)
        .env("XDG_CONFIG_HOME", "/nonexistent")
        .stdin(std::process::Stdio::null())
        .stdout(std::process::Stdio::piped())
        .stderr(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    std::thread::sleep(std::time::Duration::from_secs(3));
    // Nobody reads any more, and the kernel and the shell send a signal each.
    drop((child.stdout.take(), child.stderr.take()));
    for _ in 0..2 {
        let hangup = std::process::Command::new("kill").args(["-HUP", &child.id().to_string()]).status().unwrap();
        assert!(hangup.success());
        std::thread::sleep(std::time::Duration::from_millis(50));
    }
    child.wait().unwrap();
    for name in ["recording.json.gz", "report.html", "report.md", "report.json"] {
        assert!(out.join(name).exists(), "{name} is not there");
    }
    let report: serde_json::Value = serde_json::from_slice(&std::fs::read(out.join("report.json")).unwrap()).unwrap();
    assert_eq!(report["window"]["interrupted"], true);
}

#[test]
fn a_recording_names_no_file_and_what_it_names_is_not_shown() {
    let folder = tempfile::tempdir().unwrap();
    let secret = folder.path().join("secret");
    std::fs::write(&secret, "root:$6$hash\n").unwrap();
    let (recording, root) = (folder.path().join("recording.json"), path("tests/fixtures/hosts/idle"));
    let made = folder.path().join("out");
    rdiag()
        .args(["run", "use-method", "--format", "json", "--out"])
        .arg(&made)
        .arg("--root")
        .arg(root)
        .assert()
        .success();
    let mut text = String::new();
    let packed = std::fs::read(made.join("recording.json.gz")).unwrap();
    std::io::Read::read_to_string(&mut flate2::read::GzDecoder::new(packed.as_slice()), &mut text).unwrap();
    for named in
        [secret.display().to_string(), "x\u{1b}[2Jx".to_owned(), "../use-method".to_owned(), "a.yaml".to_owned()]
    {
        let mut changed: serde_json::Value = serde_json::from_str(&text).unwrap();
        changed["playbook"] = named.clone().into();
        std::fs::write(&recording, changed.to_string()).unwrap();
        for command in [vec!["analyze"], vec!["diff", "--format", "json"]] {
            let mut run = rdiag();
            run.args(&command).arg(&recording);
            if command[0] == "diff" {
                run.arg(&recording);
            }
            let output = run.output().unwrap();
            let said = String::from_utf8_lossy(&output.stderr).into_owned() + &String::from_utf8_lossy(&output.stdout);
            assert_eq!(output.status.code(), Some(2), "{command:?} {named:?}: {said}");
            assert!(!said.contains("hash") && !said.contains('\u{1b}'), "{said:?}");
        }
    }
}

/// Every text of a document, keys left out, with a sequence that clears the screen in front.
fn with_escapes(value: &mut serde_json::Value) {
    match value {
        serde_json::Value::String(text) => text.insert_str(0, "\u{1b}[2J\u{9b}1A"),
        serde_json::Value::Array(all) => all.iter_mut().for_each(with_escapes),
        serde_json::Value::Object(all) => all.values_mut().for_each(with_escapes),
        _ => {}
    }
}

#[test]
fn no_text_of_a_report_that_was_sent_acts_on_the_terminal() {
    let folder = tempfile::tempdir().unwrap();
    let (sent, root) = (folder.path().join("report.json"), path("tests/fixtures/hosts/whole-host-short-of-cpu"));
    let made =
        rdiag().args(["run", "use-method", "--format", "json", "--out", "-", "--root"]).arg(root).output().unwrap();
    let report: serde_json::Value = serde_json::from_slice(&made.stdout).unwrap();
    let mut drawn = 0;
    // Words that the program itself chooses from stay: with others in their place it is no report, which is an error with the word in it.
    for key in report.as_object().unwrap().keys() {
        let mut changed = report.clone();
        with_escapes(&mut changed[key]);
        for finding in changed["findings"].as_array_mut().unwrap() {
            for field in ["id", "title", "summary", "why", "verify"] {
                with_escapes(&mut finding[field]);
            }
        }
        std::fs::write(&sent, changed.to_string()).unwrap();
        let output = rdiag().arg("report").arg(&sent).output().unwrap();
        drawn += usize::from(output.status.success());
        let acts =
            |bytes: &[u8]| String::from_utf8_lossy(bytes).chars().any(|c| c.is_control() && c != '\n' && c != '\t');
        assert!(!acts(&output.stdout) && !acts(&output.stderr), "{key}: {}", String::from_utf8_lossy(&output.stderr));
    }
    assert!(drawn > 3, "{drawn} reports were drawn");
}

#[test]
fn a_playbook_that_others_may_write_to_is_not_used_and_that_is_said() {
    use std::os::unix::fs::PermissionsExt as _;
    let folder = tempfile::tempdir().unwrap();
    let (config, root) = (folder.path().join("rdiag"), path("tests/fixtures/hosts/idle"));
    std::fs::create_dir(&config).unwrap();
    let file = config.join("use-method.yaml");
    std::fs::copy(path("playbooks/use-method.yaml"), &file).unwrap();
    let run = || {
        let mut run = rdiag();
        run.env("XDG_CONFIG_HOME", folder.path()).args(["run", "use-method", "--format", "md", "--out", "-", "--root"]);
        let output = run.arg(&root).output().unwrap();
        assert!(output.status.success());
        String::from_utf8_lossy(&output.stderr).into_owned()
    };
    for (place, mode) in [(&file, 0o666), (&config, 0o777)] {
        std::fs::set_permissions(place, std::fs::Permissions::from_mode(mode)).unwrap();
        let said = run();
        assert!(said.contains(&format!("left out: {}: not used: others may write to it", place.display())), "{said}");
        std::fs::set_permissions(place, std::fs::Permissions::from_mode(mode & !0o022)).unwrap();
        assert!(!run().contains("not used"));
    }
}

#[test]
fn a_probe_without_stacks_has_no_flame_graph_and_says_which_have() {
    let output = rdiag().args(["probe", "runqlat", "--format", "folded"]).output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(stderr.contains("runqlat has no stacks") && stderr.contains("offcputime"), "{stderr}");
    let output = rdiag().args(["probe", "offcputime", "--format", "svg", "--interval", "1s"]).output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    let output = rdiag().args(["probe", "offcputime", "--param", "usr=true"]).output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&output.stderr).contains("threshold, top, user"));
}

#[test]
fn doctor_tells_probes_that_cannot_run_from_those_that_have_to_be_told_more() {
    let output = rdiag().arg("doctor").output().unwrap();
    assert_eq!(output.status.code(), Some(0));
    let told = text(&output.stdout);
    assert!(told.contains("sources answer in full"), "{told}");
    let (_, told) = told.split_once("Probes that have to be told what to look at\n").expect("no such section");
    let told = told.split("\n\n").next().unwrap();
    for probe in ["count", "hist", "log"] {
        assert!(told.contains(&format!("\n  {probe} (")) || told.starts_with(&format!("  {probe} (")), "{told}");
    }
}
