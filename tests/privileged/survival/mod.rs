//! Every command ended by every signal at any moment: nothing is left on the host, and what was measured is there.
//!
//! The moments follow from a seed that is printed; `RDIAG_SEED` gives another one.
#![expect(clippy::indexing_slicing, reason = "a test may panic, in its helpers too")]

mod left;

use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use super::probes_functions::kernel_has_functions;
use super::splitter::compiled;
use super::tracefs::{can_trace, instance_of};
use crate::support::{Load, Need, alone, has, path, rdiag, wait_until};
use left::{broken, of_rdiag};

const SIGNALS: [&str; 5] = ["INT", "TERM", "HUP", "KILL", "PIPE"];
/// Moments for each command, in the whole proof.
const MOMENTS: usize = 50;
/// A command that goes on after a signal that it does not heed, or has much to write, ends within so many seconds.
const PATIENCE: u64 = 60;

/// Numbers that look random, the same for the same seed.
struct Chance(u64);

impl Chance {
    fn new() -> Self {
        let seed = std::env::var("RDIAG_SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or(18);
        println!("seed {seed}");
        Self(seed)
    }

    /// From 0 to 1.
    fn next(&mut self) -> f64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        for (shift, factor) in [(30, 0xbf58_476d_1ce4_e5b9), (27, 0x94d0_49bb_1331_11eb_u64)] {
            mixed = (mixed ^ (mixed >> shift)).wrapping_mul(factor);
        }
        ((mixed ^ (mixed >> 31)) >> 11) as f64 / (1_u64 << 53) as f64
    }
}

/// A command that measures heeds every signal but KILL after so many seconds, even on a busy host.
const HEEDS: f64 = 0.5;

/// What is to be there when a command ends by itself, signal or not.
enum Due {
    /// These files, in the folder that stands for `OUT` in the arguments. What was measured is not lost: no signal but KILL ends it.
    Measured(&'static [&'static str]),
    /// These files, made of others that are still there.
    Files(&'static [&'static str]),
    /// Nothing but what it prints.
    Nothing,
}

const REPORT: Due =
    Due::Measured(&["report/report.html", "report/report.md", "report/report.json", "report/recording.json.gz"]);

/// A command and its state folder; `OUT` in its arguments is a new folder each time.
struct Case<'c> {
    args: &'c [&'c str],
    due: Due,
    /// Done before it, and after it.
    around: [&'c [&'c str]; 2],
}

impl<'c> Case<'c> {
    fn new(args: &'c [&'c str], due: Due) -> Self {
        Self { args, due, around: [&[], &[]] }
    }

    fn command(&self, args: &[&str], out: &Path) -> Command {
        let mut command = Command::new(rdiag().get_program());
        command.args(args.iter().map(|word| word.replace("OUT", &out.display().to_string())));
        command.env("XDG_STATE_HOME", out.join("state")).env("XDG_CONFIG_HOME", "/nonexistent");
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        std::os::unix::process::CommandExt::process_group(&mut command, 0);
        command
    }

    /// Runs it, ended by a signal after so many seconds if there is one. How it ended, after how many seconds, and what is wrong.
    fn run(&self, signal: Option<(&str, f64)>) -> (ExitStatus, f64, Vec<String>) {
        let out = tempfile::tempdir_in("/var/tmp").unwrap();
        let before = of_rdiag(0);
        let prepare = |args: &[&str]| args.is_empty() || self.command(args, out.path()).status().unwrap().success();
        assert!(prepare(self.around[0]), "{:?} failed", self.around[0]);
        let began = Instant::now();
        let mut child = self.command(self.args, out.path()).spawn().unwrap();
        if let Some((name, seconds)) = signal {
            std::thread::sleep(Duration::from_secs_f64(seconds));
            send(name, &child);
        }
        let Some(status) = ended(&mut child) else { fail(&mut child, signal) };
        let took = began.elapsed().as_secs_f64();
        assert!(prepare(self.around[1]), "{:?} failed", self.around[1]);
        let mut wrong = Vec::new();
        let left = || of_rdiag(child.id());
        if !wait_until(20, || left().is_subset(&before)) {
            wrong.extend(left().difference(&before).map(|left| format!("left: {left}")));
        }
        wrong.extend(broken(&out.path().join("report")).into_iter().map(|file| format!("not whole: {file}")));
        if let (Due::Measured(files) | Due::Files(files), Some(_)) = (&self.due, status.code()) {
            let missing = files.iter().filter(|file| !out.path().join(file).exists());
            wrong.extend(missing.map(|file| format!("not there: {file}")));
        }
        if let (Due::Measured(_), None, Some((name, at))) = (&self.due, status.code(), signal)
            && name != "KILL"
            && at > HEEDS
        {
            wrong.push(format!("it died of SIG{name}, and what it had measured with it"));
        }
        (status, took, wrong)
    }

    /// At so many moments of it, one signal after the other.
    fn sweep(&self, moments: usize, most: f64) {
        let mut chance = Chance::new();
        let (status, took, mut wrong) = self.run(None);
        assert!(status.code().is_some() && wrong.is_empty(), "undisturbed: {status}, {wrong:#?}");
        let span = (took * 1.05).min(most);
        for moment in 0..moments {
            let (signal, at) = (SIGNALS[moment % SIGNALS.len()], chance.next() * span);
            let (status, took, found) = self.run(Some((signal, at)));
            println!("SIG{signal} after {at:.3} s of {span:.3} s: {status} after {took:.3} s");
            wrong.extend(found.into_iter().map(|what| format!("SIG{signal} after {at:.3} s, {status}: {what}")));
        }
        assert!(wrong.is_empty(), "{:?}: {wrong:#?}", self.args);
    }
}

/// A Ctrl-C reaches the whole group, any other signal the process.
fn send(name: &str, child: &Child) {
    let whom = format!("{}{}", if name == "INT" { "-" } else { "" }, child.id());
    // It may have ended before.
    let _ = Command::new("kill").args(["-s", name, "--", &whom]).stderr(Stdio::null()).status().unwrap();
}

fn ended(child: &mut Child) -> Option<ExitStatus> {
    let mut status = None;
    wait_until(PATIENCE, || {
        status = child.try_wait().unwrap();
        status.is_some()
    });
    status
}

fn fail(child: &mut Child, signal: Option<(&str, f64)>) -> ! {
    child.kill().unwrap();
    panic!("it did not end within {PATIENCE} s: {signal:?}");
}

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
