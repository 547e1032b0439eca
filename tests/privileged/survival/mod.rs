//! Every command ended by every signal at any moment: nothing is left on the host, and what was measured is there.
//!
//! The moments follow from a seed that is printed; `RDIAG_SEED` gives another one.
#![expect(clippy::indexing_slicing, reason = "a test may panic, in its helpers too")]

mod case;
mod left;

use std::path::Path;
use std::process::{Child, Command, Stdio};

use super::probes_functions::kernel_has_functions;
use super::splitter::compiled;
use super::tracefs::{can_trace, instance_of};
use crate::support::{Load, Need, alone, has, path, rdiag, wait_until};
use case::{Case, Chance, Due, REPORT, SIGNALS, ended, send};
use left::broken;

/// Moments for each command, in the whole proof.
const MOMENTS: usize = 50;

const QUICK: [&str; 4] = ["--duration", "600ms", "--interval", "200ms"];

#[test]
#[ignore = "needs: root"]
fn a_few_moments_of_a_recording_and_of_traced_events_leave_nothing_behind() {
    let _alone = alone();
    if !can_trace() {
        return;
    }
    let record = [&["record", "use-method"], &QUICK[..], &["--out", "OUT/report/it.json.gz"]].concat();
    Case::new(&record, Due::Measured(&["report/it.json.gz"])).sweep(3, 2.0);
    let args = ["probe", "events", "--param", "event=sched:sched_switch", "--duration", "300ms"];
    Case::new(&args, Due::Nothing).sweep(4, 2.0);
}

#[test]
#[ignore = "needs: root"]
fn any_moment_of_the_use_method() {
    let _alone = alone();
    if has(&[Need::Root]) {
        let args = [&["run", "use-method"], &QUICK[..], &["--out", "OUT/report"]].concat();
        Case::new(&args, REPORT).sweep(MOMENTS, 10.0);
    }
}

#[test]
#[ignore = "needs: root, eBPF, perf events"]
fn any_moment_of_a_run_with_probes_and_names() {
    let _alone = alone();
    if has(&[Need::Root]) {
        let args = [&["run", "cpu-hot"], &QUICK[..], &["--out", "OUT/report"]].concat();
        Case::new(&args, REPORT).sweep(MOMENTS, 10.0);
    }
}

#[test]
#[ignore = "needs: root, eBPF"]
fn any_moment_of_a_command_that_is_measured() {
    let _alone = alone();
    if has(&[Need::Root]) {
        let args = ["run", "method-r", "--out", "OUT/report", "--", "sleep", "0.4"];
        Case::new(&args, REPORT).sweep(MOMENTS, 10.0);
    }
}

#[test]
#[ignore = "needs: root, tracefs"]
fn any_moment_of_traced_events() {
    let _alone = alone();
    if can_trace() {
        let args = ["probe", "events", "--param", "event=sched:sched_switch", "--duration", "400ms"];
        Case::new(&args, Due::Nothing).sweep(MOMENTS, 10.0);
    }
}

#[test]
#[ignore = "needs: root, tracefs, a kernel that traces functions in an instance"]
fn any_moment_of_traced_functions() {
    let _alone = alone();
    if can_trace() && kernel_has_functions() {
        let args = ["probe", "functions", "--function", "vfs_read", "--duration", "400ms"];
        Case::new(&args, Due::Nothing).sweep(MOMENTS, 10.0);
    }
}

#[test]
#[ignore = "needs: root"]
fn any_moment_of_a_recording() {
    let _alone = alone();
    if has(&[Need::Root]) {
        let args = [&["record", "use-method"], &QUICK[..], &["--out", "OUT/report/it.json.gz"]].concat();
        Case::new(&args, Due::Measured(&["report/it.json.gz"])).sweep(MOMENTS, 10.0);
    }
}

#[test]
#[ignore = "needs: root"]
fn any_moment_of_a_wait_and_of_what_it_starts() {
    let _alone = alone();
    if has(&[Need::Root]) {
        let when =
            ["wait", "--when", "cpu.busy.ratio >= 0", "--for", "200ms", "--timeout", "20s", "--", "run", "use-method"];
        let args = [&when, &QUICK[..], &["--out", "OUT/report"]].concat();
        let files = ["report/report.html", "report/report.md", "report/report.json", "report/recording.json.gz"];
        // A signal that comes while it waits ends it, and nothing was measured.
        let ended_while_it_waited = Case::new(&args, Due::Nothing);
        ended_while_it_waited.sweep(MOMENTS, 10.0);
        let out = tempfile::tempdir_in("/var/tmp").unwrap();
        assert!(ended_while_it_waited.command(&args, out.path()).status().unwrap().success());
        assert!(files.iter().all(|file| out.path().join(file).exists()));
    }
}

#[test]
#[ignore = "needs: root"]
fn any_moment_of_what_reads_recordings_and_reports() {
    let _alone = alone();
    if !has(&[Need::Root]) {
        return;
    }
    let recording = path("tests/fixtures/recordings/orders-dsync.json.gz").display().to_string();
    let folder = tempfile::tempdir().unwrap();
    let report = folder.path().join("report.json").display().to_string();
    let written = rdiag().args(["analyze", &recording, "--format", "json", "--out", &report]).output().unwrap();
    assert!(written.status.success(), "{written:?}");
    let both: &[&str] = &["report/report.html", "report/report.md"];
    let one = ["report", &report, "--format", "html,md", "--out", "OUT/report"];
    Case::new(&one, Due::Files(both)).sweep(MOMENTS / 2, 10.0);
    let compared = ["diff", &recording, &recording, "--format", "json", "--out", "OUT/report/comparison.json"];
    Case::new(&compared, Due::Files(&["report/comparison.json"])).sweep(MOMENTS / 2, 10.0);
    let fleet = ["fleet", &recording, "--format", "html", "--out", "OUT/report/fleet.html"];
    Case::new(&fleet, Due::Files(&["report/fleet.html"])).sweep(MOMENTS / 2, 10.0);
}

#[test]
#[ignore = "needs: root"]
fn any_moment_of_an_analysis() {
    let _alone = alone();
    if !has(&[Need::Root]) {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let recording = folder.path().join("it.json.gz").display().to_string();
    assert!(
        rdiag()
            .args(["record", "use-method"])
            .args(QUICK)
            .args(["--out", &recording])
            .output()
            .unwrap()
            .status
            .success()
    );
    let args = ["analyze", &recording, "--out", "OUT/report"];
    Case::new(&args, Due::Files(&["report/report.html", "report/report.md", "report/report.json"]))
        .sweep(MOMENTS, 10.0);
}

#[test]
#[ignore = "needs: root"]
fn any_moment_of_watching_leaves_a_history_that_can_be_read() {
    let _alone = alone();
    if !has(&[Need::Root]) {
        return;
    }
    let watch = ["watch", "--history", "OUT/history", "--interval", "1s", "--trigger", "pin", "--duration"];
    let (first, swept) = ([&watch[..], &["1s"]].concat(), [&watch[..], &["3s"]].concat());
    let around: [&[&str]; 2] = [&first, &["history", "list", "--history", "OUT/history"]];
    Case { around, ..Case::new(&swept, Due::Nothing) }.sweep(MOMENTS, 10.0);
}

#[test]
#[ignore = "needs: root"]
fn any_moment_of_a_look_at_the_past() {
    let _alone = alone();
    if !has(&[Need::Root]) {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let history = folder.path().join("history").display().to_string();
    let watch = ["watch", "--history", &history, "--interval", "1s", "--trigger", "off", "--duration", "4s"];
    rdiag().args(watch).assert().success();
    let judged = ["run", "use-method", "--at", "now", "--history", &history, "--out", "OUT/report"];
    let files = Due::Files(&["report/report.html", "report/report.md", "report/report.json"]);
    Case::new(&judged, files).sweep(MOMENTS, 10.0);
    Case::new(&["history", "show", "--last", "1h", "--history", &history], Due::Nothing).sweep(MOMENTS / 2, 10.0);
}

#[test]
#[ignore = "needs: root, eBPF, tracefs"]
fn any_moment_of_the_doctors_look() {
    let _alone = alone();
    // It tries a hundred probes for a minute, the same way each.
    if has(&[Need::Root]) {
        Case::new(&["doctor"], Due::Nothing).sweep(MOMENTS, 4.0);
    }
}

/// With files, processes and a control group.
const LAB: [&str; 6] = ["lab", "start", "17-catalogue", "--force", "--for", "60s"];

#[test]
#[ignore = "needs: root, control groups"]
fn any_moment_of_the_start_of_an_exercise() {
    let _alone = alone();
    if has(&[Need::Root]) {
        let case = Case { around: [&[], &["lab", "stop"]], ..Case::new(&LAB, Due::Nothing) };
        case.sweep(MOMENTS, 10.0);
    }
}

#[test]
#[ignore = "needs: root, control groups"]
fn any_moment_of_the_end_of_an_exercise() {
    let _alone = alone();
    if has(&[Need::Root]) {
        let case = Case { around: [&LAB, &["lab", "stop"]], ..Case::new(&["lab", "stop"], Due::Nothing) };
        case.sweep(MOMENTS, 10.0);
    }
}

#[test]
#[ignore = "needs: root, script"]
fn the_terminal_is_left_as_it_was_at_any_moment() {
    let _alone = alone();
    if !has(&[Need::Root, Need::Tool("script"), Need::Tool("stty")]) {
        return;
    }
    let mut chance = Chance::new();
    for signal in SIGNALS.into_iter().chain(SIGNALS) {
        let folder = tempfile::tempdir().unwrap();
        let file = |name: &str| folder.path().join(name);
        let (at, program) = (chance.next() * 1.5, rdiag().get_program().to_string_lossy().into_owned());
        let line = format!(
            "cd {}; stty -a > before; {program} run use-method --duration 600ms --interval 200ms --out report & sleep {at:.3}; \
             kill -s {signal} $!; wait; stty -a > after",
            folder.path().display()
        );
        let script = ["-qec", &line, &file("typed").display().to_string()];
        let shown = Command::new("script").args(script).env("TERM", "xterm").stdin(Stdio::null()).output().unwrap();
        let read = |name: &str| std::fs::read_to_string(file(name)).unwrap_or_default();
        assert!(!read("before").is_empty() && read("before") == read("after"), "SIG{signal} after {at:.3} s");
        let shown = String::from_utf8_lossy(&shown.stdout).into_owned();
        let (hidden, again) = (shown.rfind("\u{1b}[?25l"), shown.rfind("\u{1b}[?25h"));
        assert!(hidden <= again, "SIG{signal} after {at:.3} s: the cursor stays hidden: {shown:?}");
    }
}

#[test]
#[ignore = "needs: root, tracefs"]
fn what_a_killed_rdiag_has_left_in_tracefs_is_removed_without_another_start() {
    let _alone = alone();
    if !can_trace() {
        return;
    }
    let mut probe = Command::new(rdiag().get_program());
    let mut probe =
        probe.args(["probe", "events", "--param", "event=sched:sched_switch"]).stdout(Stdio::null()).spawn().unwrap();
    assert!(wait_until(60, || instance_of(probe.id()).is_some()));
    probe.kill().unwrap();
    probe.wait().unwrap();
    assert!(wait_until(10, || instance_of(probe.id()).is_none()), "nobody removes it");
}

/// The process of rdiag that reads symbols.
fn readers(pid: u32) -> Vec<u32> {
    let told = Command::new("pgrep").args(["-P", &pid.to_string(), "-f", "symbol-reader"]).output().unwrap();
    String::from_utf8_lossy(&told.stdout).lines().filter_map(|line| line.parse().ok()).collect()
}

/// Starts a run, and waits until its recording is there, while whoever reads symbols stands still, so that no name is found.
fn start_without_names(args: &[&str], out: &Path) -> (Child, bool) {
    let mut command = Command::new(rdiag().get_program());
    command.args(["run", "cpu-hot", "--interval", "500ms", "--out"]).arg(out).args(args);
    std::os::unix::process::CommandExt::process_group(&mut command, 0);
    let mut run = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let is_kept = wait_until(60, || {
        for reader in readers(run.id()) {
            let _ = Command::new("kill").args(["-STOP", &reader.to_string()]).status();
        }
        out.join("recording.json.gz").exists() || run.try_wait().unwrap().is_some()
    });
    let is_naming = run.try_wait().unwrap().is_none() && !out.join("report.html").exists();
    assert!(is_kept, "there is no recording");
    (run, is_naming)
}

const COUNTS_TO_ITS_END: &str =
    "unsigned long spun;\nint main(void) { for (long i = 0; i < END; i++) spun = spun * 3 + 1; }\n";

#[test]
#[ignore = "needs: root, perf events, cc, pgrep"]
fn a_recording_is_on_the_disk_before_names_are_looked_up() {
    let _alone = alone();
    if !has(&[Need::Root, Need::Tool("cc"), Need::Tool("pgrep")]) {
        return;
    }
    let (_folder, program) = compiled(COUNTS_TO_ITS_END, "spin.c", &["cc", "-O1", "-DEND=1L<<62"]);
    let load = Load::start(1, &program.display().to_string(), &[]);
    let out = tempfile::tempdir().unwrap();
    let args = ["--duration", "1500ms", "--pid", &load.pids()[0].to_string()];
    let (mut run, is_naming) = start_without_names(&args, out.path());
    let _ = run.kill();
    run.wait().unwrap();
    assert!(is_naming, "the recording came after the names");
    assert!(broken(out.path()).is_empty(), "{:?}", broken(out.path()));
    let output = rdiag().args(["analyze", "-v"]).arg(out.path().join("recording.json.gz")).output().unwrap();
    let told = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && told.contains("rdiag was ended while it read"), "{told}");
}

#[test]
#[ignore = "needs: root, perf events, cc, pgrep"]
fn a_signal_after_the_end_of_the_command_costs_no_report() {
    let _alone = alone();
    if !has(&[Need::Root, Need::Tool("cc"), Need::Tool("pgrep")]) {
        return;
    }
    let (_folder, program) = compiled(COUNTS_TO_ITS_END, "spin.c", &["cc", "-O1", "-DEND=2000000000L"]);
    let out = tempfile::tempdir().unwrap();
    let (mut run, is_naming) = start_without_names(&["--", &program.display().to_string()], out.path());
    send("INT", &run);
    let status = ended(&mut run).unwrap();
    assert!(is_naming && status.code().is_some(), "{status}");
    assert!(out.path().join("report.json").exists(), "{status}");
}
