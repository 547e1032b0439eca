//! Every command that reads what strangers sent does so in a confined copy of itself: where a layer is denied, each says which.

use std::os::unix::fs::PermissionsExt as _;

use crate::support::{path, rdiag, skip};

#[test]
fn every_command_that_reads_what_was_sent_is_confined() {
    if std::process::Command::new("python3").arg("--version").output().is_err() {
        return skip("python3");
    }
    let folder = tempfile::tempdir().unwrap();
    let (history, baselines) = (folder.path().join("history"), folder.path().join("baselines"));
    for private in [&history, &baselines] {
        std::fs::create_dir(private).unwrap();
        std::fs::set_permissions(private, std::fs::Permissions::from_mode(0o700)).unwrap();
    }
    let recording = path("tests/fixtures/recordings/orders-dsync.json.gz");
    std::fs::copy(&recording, baselines.join("normal.0.recording")).unwrap();
    let playbook = folder.path().join("sent.yaml");
    std::fs::write(&playbook, "name: sent\n").unwrap();
    let student = folder.path().join("student.json");
    std::fs::write(&student, "{}").unwrap();
    let sadf = path("tests/fixtures/sysstat/sadf.json");
    let [recording, history, baselines, playbook, student, sadf] =
        [&recording, &history, &baselines, &playbook, &student, &sadf].map(|path| path.to_str().unwrap());
    let at = "2026-03-10T03:12Z";
    let program = rdiag();
    for args in [
        &["analyze", recording][..],
        &["report", recording],
        &["report", "--at", at, "--from", sadf],
        &["run", "use-method", "--at", at, "--from", sadf],
        &["diff", recording, recording],
        &["diff", "--at", at, "--at", "2026-03-10T02:12Z", "--from", sadf],
        &["fleet", recording, recording],
        &["check", playbook],
        &["lab", "class", student],
        &["history", "list", "--history", history],
        &["baseline", "--baselines", baselines, "save", "other", recording],
        &["baseline", "--baselines", baselines, "compare", "normal", recording],
    ] {
        let mut command = std::process::Command::new("python3");
        command.arg(path("tests/privileged/denied/deny.py")).args(["ENOSYS:landlock_create_ruleset", "--"]);
        command.arg(program.get_program()).args(args).current_dir(folder.path());
        let output = command.env("XDG_CONFIG_HOME", "/nonexistent").output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        let said = said.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(said.contains("is less confined than it can be; missing here: Landlock"), "{args:?}: {said}");
    }
}
