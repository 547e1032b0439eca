//! `rdiag run method-r` as an ordinary user meets it; what single components must be is tested where programs with known
//! ledgers run.

use serde_json::Value;

use crate::schema::validate;
use crate::support::{Series, rdiag};

fn fails_with(args: &[&str], says: &[&str]) {
    let output = rdiag().args(["run", "method-r"]).args(args).output().unwrap();
    let told = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(2), "{args:?}: {told}");
    assert!(output.stdout.is_empty(), "{args:?} printed results");
    for text in says {
        assert!(told.contains(text), "{args:?} should say {text:?}: {told}");
    }
}

/// The report of a run, as JSON.
fn report(args: &[&str]) -> Value {
    let (before, command) = args.split_at(args.iter().position(|arg| *arg == "--").unwrap_or(args.len()));
    let mut rdiag = rdiag();
    rdiag.args(["run", "method-r", "--format", "json", "--out", "-", "--interval", "200ms"]).args(before).args(command);
    let output = rdiag.output().unwrap();
    let told = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{args:?}: {told}");
    serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{args:?}: {error}: {told}"))
}

fn figure(value: &Value) -> f64 {
    value.as_f64().unwrap_or_else(|| panic!("{value} is no number"))
}

/// What the components hold with what is left over, per task-second.
fn sum(profile: &Value) -> f64 {
    let components = profile["components"].as_array().unwrap();
    let held: f64 = components.iter().map(|component| figure(&component["seconds"])).sum();
    let all = held + figure(&profile["unaccounted_seconds"]) - figure(&profile["over_accounted_seconds"]);
    all / figure(&profile["task_seconds"])
}

fn share(profile: &Value, id: &str) -> f64 {
    let components = profile["components"].as_array().unwrap();
    components.iter().find(|component| component["id"] == id).map_or(0.0, |component| figure(&component["share"]))
}

#[test]
fn a_run_without_a_task_says_how_to_name_one() {
    fails_with(&[], &["none is named", "--pid 4711", "-- COMMAND"]);
}

#[test]
fn wrong_usage_is_told_before_anything_is_measured_or_started() {
    fails_with(&["--pid", "4194305"], &["there is no process 4194305"]);
    fails_with(&["--goal", "fast", "--", "sleep", "60"], &["goal", "500ms"]);
    fails_with(&["--now=-1s", "--pid", "1"], &["now"]);
    fails_with(&["--", "no-such-program"], &["there is no program \"no-such-program\""]);
    fails_with(&["--pid", "1", "--", "true"], &["cannot be used with"]);
    fails_with(&["--each", "twenty", "--", "true"], &["how often to run it", "from 2 to 1000"]);
    fails_with(&["--each", "1", "--", "true"], &["how often to run it"]);
    fails_with(&["--each", "20"], &["the name of a program", "--each NAME"]);
    fails_with(&["--each", "sleep", "--pid", "1"], &["cannot be used with"]);
    fails_with(&["--each", "3", "--", "no-such-program"], &["there is no program \"no-such-program\""]);
    fails_with(&["--root", "tests/fixtures/hosts/whole-host-quiet", "--", "true"], &["on this machine only"]);
}

#[test]
fn a_command_is_observed_from_its_first_instruction_to_its_end() {
    let report = report(&["--goal", "200ms", "--", "sleep", "1.2"]);
    validate("report", &report);
    let profile = &report["profile"];
    let elapsed = figure(&profile["elapsed_seconds"]);
    assert!((1.2..3.0).contains(&elapsed), "{elapsed}");
    assert!((sum(profile) - 1.0).abs() < 0.005, "{}", sum(profile));
    assert!(share(profile, "wait.sleep") > 0.8, "{:#}", profile["components"]);
    assert_eq!(report["window"]["interrupted"], false, "the end of the command is what was waited for");
    assert_eq!(report["verdict"]["status"], "warning", "the goal is missed: {:#}", report["verdict"]);
    let headline = report["verdict"]["headline"].as_str().unwrap();
    assert!(headline.contains("voluntary sleep"), "{headline}");
}

#[test]
fn each_run_of_a_command_is_told_apart_or_it_is_said_why_not() {
    let report = report(&["--each", "3", "--", "sleep", "0.3"]);
    validate("report", &report);
    let profile = &report["profile"];
    assert!((sum(profile) - 1.0).abs() < 0.005, "{}", sum(profile));
    assert!(share(profile, "wait.child") < 0.1, "who starts the runs is none of them: {:#}", profile["components"]);
    assert!(share(profile, "wait.sleep") > 0.5, "{:#}", profile["components"]);
    let runs = &profile["runs"];
    if profile["level"] == "L3" {
        assert_eq!(runs["count"], 3, "{runs:#}");
        assert!((0.3..1.0).contains(&figure(&runs["response"]["mean"])), "{runs:#}");
        assert!(runs.get("difference").is_none_or(Value::is_null), "three runs are too few: {runs:#}");
    } else {
        assert_eq!(runs["count"], 0, "{runs:#}");
        assert!(runs["limits"][0].as_str().unwrap().contains("level L3"), "{runs:#}");
    }
}

#[test]
fn a_command_that_fails_passes_its_exit_code_on() {
    for (words, code) in [
        (&["false"][..], 1),
        (&["sh", "-c", "sleep 0.1; exit 42"], 42),
        (&["sh", "-c", "kill -9 $$"], 137),
        (&["sh", "-c", "sleep 0.1; kill -15 $$"], 128 + 15),
        (&["true"], 0),
    ] {
        let folder = tempfile::tempdir().unwrap();
        let run = ["run", "method-r", "-q", "-i", "100ms", "--"];
        let output = rdiag().args(run).args(words).current_dir(folder.path()).output().unwrap();
        let told = String::from_utf8_lossy(&output.stderr).into_owned();
        // What is over so soon may leave nothing to measure, which is told where the command did not fail.
        let is_too_short = code == 0 && output.status.code() == Some(3);
        assert!(output.status.code() == Some(code) || is_too_short, "{words:?}: {:?} {told}", output.status.code());
    }
    let repeated = ["run", "method-r", "-q", "-i", "100ms", "--each", "2", "--", "sh", "-c", "sleep 0.2; kill -11 $$"];
    let folder = tempfile::tempdir().unwrap();
    assert_eq!(rdiag().args(repeated).current_dir(folder.path()).output().unwrap().status.code(), Some(128 + 11));
    let record = ["record", "method-r", "-i", "100ms", "-o", "-", "--", "sh", "-c", "sleep 0.2; exit 5"];
    assert_eq!(rdiag().args(record).output().unwrap().status.code(), Some(5));
}

#[test]
fn runs_that_fail_are_told() {
    let output = rdiag()
        .args([
            "run",
            "method-r",
            "--format",
            "json",
            "--out",
            "-",
            "--each",
            "2",
            "--",
            "sh",
            "-c",
            "sleep 0.2; exit 7",
        ])
        .output()
        .unwrap();
    let told = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.code() == Some(7) && told.contains(", 2 times, ended with code 7"), "{told}");
    assert!(told.contains("not every run ended with code 0"), "{told}");
}

#[test]
fn runs_are_told_apart_by_method_r_only() {
    let output = rdiag().args(["run", "use-method", "--each", "3", "--", "true"]).output().unwrap();
    let told = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.code() == Some(2) && told.contains("is for playbooks of Method R"), "{told}");
}

#[test]
fn a_busy_process_is_on_the_cpu_or_waits_for_it() {
    let mut busy = std::process::Command::new("sh").args(["-c", "while :; do :; done"]).spawn().unwrap();
    let pid = busy.id().to_string();
    // The kernel's own account of its CPU time (/proc/PID/schedstat, the first figure).
    let account = {
        let file = format!("/proc/{pid}/schedstat");
        Series::of(move || {
            let text = std::fs::read_to_string(&file).unwrap_or_default();
            text.split_whitespace().next().and_then(|field| field.parse::<f64>().ok()).unwrap_or(0.0) * 1e-9
        })
    };
    let report = report(&["--duration", "1s", "--pid", &pid]);
    let window = figure(&report["profile"]["elapsed_seconds"]);
    let (least, most) = account.within(window);
    busy.kill().unwrap();
    busy.wait().unwrap();
    let profile = &report["profile"];
    let waiting: f64 = ["runq", "runq.preempt", "runq.wakeup", "throttled"].iter().map(|id| share(profile, id)).sum();
    let on_cpu = share(profile, "cpu.user") + share(profile, "cpu.sys") + share(profile, "cpu.irq");
    // How much of it is waiting depends on who else wants the CPUs: the kernel knows.
    let (least, most) = (least / window - 0.1, most / window + 0.1);
    assert!(on_cpu > 0.0 && (least..=most).contains(&on_cpu), "{least} to {most}: {:#}", profile["components"]);
    assert!(on_cpu + waiting > 0.9, "{:#}", profile["components"]);
    assert!((sum(profile) - 1.0).abs() < 0.005);
}

#[test]
fn a_recording_gives_the_same_profile_again() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("out");
    let status = rdiag()
        .args(["run", "method-r", "--no-guided", "--goal", "5s", "--param", "task=nap", "--out"])
        .arg(&out)
        .args(["--", "sleep", "0.5"])
        .output()
        .unwrap();
    assert!(status.status.success(), "{}", String::from_utf8_lossy(&status.stderr));
    let first: Value = serde_json::from_slice(&std::fs::read(out.join("report.json")).unwrap()).unwrap();
    let again = rdiag()
        .arg("analyze")
        .arg(out.join("recording.json.gz"))
        .args(["--format", "json", "--out", "-"])
        .output()
        .unwrap();
    let again: Value = serde_json::from_slice(&again.stdout).unwrap();
    assert_eq!(first["profile"], again["profile"]);
    assert_eq!(first["verdict"], again["verdict"]);
    assert_eq!(first["verdict"]["status"], "ok", "the goal is met");
    let asked = first["profile"]["answer"]["asked"].as_str().unwrap();
    assert!(asked.starts_with("nap took "), "{asked}");
    for file in ["report.html", "report.md"] {
        let text = std::fs::read_to_string(out.join(file)).unwrap();
        assert!(text.contains("Where the time of the command") && text.contains("unaccounted"), "{file}");
    }
}

#[test]
fn init_and_kernel_threads_are_accounted_for_or_said_to_be_unknown() {
    for pid in ["1", "2"] {
        let output = rdiag()
            .args(["run", "method-r", "--duration", "500ms", "--format", "json", "--out", "-", "--pid", pid])
            .output()
            .unwrap();
        let told = String::from_utf8_lossy(&output.stderr).into_owned();
        if !std::path::Path::new(&format!("/proc/{pid}")).exists() {
            assert_eq!(output.status.code(), Some(2), "{told}");
            continue;
        }
        let report: Value = serde_json::from_slice(&output.stdout).unwrap();
        match report.get("profile") {
            Some(profile) => {
                assert!((sum(profile) - 1.0).abs() < 0.005, "{profile:#}");
                let on_cpu = share(profile, "cpu.user");
                assert!(pid != "2" || on_cpu == 0.0, "a kernel thread has no user mode: {on_cpu}");
            }
            None => assert_eq!((output.status.code(), &report["verdict"]["status"]), (Some(3), &"unknown".into())),
        }
    }
}

#[test]
fn every_component_is_explained() {
    for component in rdiag_model::Component::ALL {
        let output = rdiag().args(["explain", component.id()]).output().unwrap();
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(output.status.success() && text.contains(component.def().title), "{}: {text}", component.id());
    }
}
