//! `--begin-at`: the windows of many hosts are the same seconds. And what a recording says of how its host is set up.

use std::process::Stdio;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rdiag_model::Recording;

use crate::support::{path, rdiag};

const SHORT: [&str; 6] = ["record", "use-method", "--duration", "300ms", "--interval", "100ms"];

fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs()
}

/// The wall clock as RFC 3339 begins with it: what a recording calls its start.
fn seconds(started: &str) -> u64 {
    let clock =
        started.split_once('T').unwrap().1.trim_end_matches('Z').split(':').map(|part| part.parse::<u64>().unwrap());
    clock.fold(0, |all, part| all * 60 + part)
}

#[test]
fn runs_that_were_started_apart_measure_the_same_seconds() {
    let at = now() + 5;
    let start = || {
        let mut run = std::process::Command::new(assert_cmd::cargo::cargo_bin!("rdiag"));
        run.args(SHORT).args(["-o", "-", "--begin-at", &format!("@{at}")]);
        run.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
    };
    let first = start();
    std::thread::sleep(Duration::from_millis(1500));
    for run in [first, start()] {
        let output = run.wait_with_output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let recording: Recording = rdiag_session::read_recording(&output.stdout).unwrap();
        let begin = recording.setup.begin.clone().unwrap();
        // A busy machine may be late, and says by how much.
        let late = seconds(&recording.started) as f64 - (at % 86_400) as f64;
        assert!(late >= 0.0 && late <= begin.late_seconds + 0.1, "{late} {begin:?} {}", recording.started);
        assert!(begin.late_seconds < 30.0 && recording.windows[0].begins.abs() < 0.05, "{begin:?}");
        assert!(recording.setup.clock.is_some(), "whether the clock is kept in step is known");
    }
}

#[test]
fn an_instant_that_is_over_too_far_off_or_none_is_refused_before_anything_is_measured() {
    let (past, far) = (format!("@{}", now() - 60), format!("@{}", now() + 700));
    for (at, why) in
        [(past.as_str(), "s in the past on this host"), (&far, "waits for at most 600 s"), ("soon", "it is no instant")]
    {
        let output = rdiag().args(SHORT).args(["-o", "-", "--begin-at", at]).output().unwrap();
        let error = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.code() == Some(2) && output.stdout.is_empty() && error.contains(why), "{at}: {error}");
    }
}

#[test]
fn a_late_host_begins_at_once_where_asked_for_and_says_how_late() {
    let late = |seconds: u64| {
        let at = format!("@{}", now() - seconds);
        rdiag().args(SHORT).args(["-o", "-", "--or-now", "--begin-at", &at]).output().unwrap()
    };
    let output = late(60);
    let error = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success() && error.contains("the window began 6"), "{error}");
    let begin = rdiag_session::read_recording(&output.stdout).unwrap().setup.begin.unwrap();
    assert!((60.0..90.0).contains(&begin.late_seconds), "{begin:?}");
    let output = late(660);
    let error = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.code() == Some(2) && error.contains("--or-now is for at most 600 s"), "{error}");
}

#[test]
fn a_signal_ends_the_wait() {
    let mut run = std::process::Command::new(assert_cmd::cargo::cargo_bin!("rdiag"));
    run.args(SHORT).args(["-o", "-", "--begin-at", &format!("@{}", now() + 500)]).stdout(Stdio::piped());
    let run = run.stderr(Stdio::null()).spawn().unwrap();
    std::thread::sleep(Duration::from_secs(2));
    rustix::process::kill_process(
        rustix::process::Pid::from_raw(run.id().cast_signed()).unwrap(),
        rustix::process::Signal::TERM,
    )
    .unwrap();
    let output = run.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(130), "as any run that a signal ended early");
    assert!(rdiag_session::read_recording(&output.stdout).unwrap().interrupted);
}

#[test]
fn a_recording_says_how_its_host_is_set_up() {
    let output = rdiag().args(SHORT).args(["-o", "-"]).output().unwrap();
    let recording: Recording = rdiag_session::read_recording(&output.stdout).unwrap();
    let fact = |name: &str| recording.setup.facts.get(name).map(String::as_str);
    let swappiness = std::fs::read_to_string("/proc/sys/vm/swappiness").unwrap();
    assert_eq!(fact("sysctl vm.swappiness"), Some(swappiness.trim()));
    assert!(recording.setup.begin.is_none());
    let boot = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap();
    let own = recording.setup.boot.clone().unwrap();
    assert!(own.len() == 16 && !boot.contains(&own), "{own}");
    let tree = path("tests/fixtures/hosts/whole-host-quiet");
    let output = rdiag()
        .args(["record", "use-method", "-o", "-", "--begin-at", &format!("@{}", now() + 500), "--root"])
        .arg(&tree)
        .output();
    let recording: Recording = rdiag_session::read_recording(&output.unwrap().stdout).unwrap();
    assert_eq!(recording.setup.role("device", "vda"), Some("disk:root"));
    assert!(recording.setup.begin.unwrap().late_seconds == 0.0, "a recorded tree has its own instants");
}
