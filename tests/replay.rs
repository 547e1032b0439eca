//! A recording analysed later gives the same report.

use crate::support::rdiag;

#[test]
fn analysing_a_recording_gives_the_report_of_the_run_byte_for_byte() {
    let folder = tempfile::tempdir().unwrap();
    let (first, again) = (folder.path().join("first"), folder.path().join("again"));
    rdiag()
        .args(["run", "use-method", "--duration", "1s", "--interval", "200ms", "--out"])
        .arg(&first)
        .assert()
        .success();
    rdiag().arg("analyze").arg(first.join("recording.json.gz")).arg("--out").arg(&again).assert().success();
    for name in ["report.json", "report.md", "report.html"] {
        let (run, analysed) = (std::fs::read(first.join(name)).unwrap(), std::fs::read(again.join(name)).unwrap());
        assert!(run == analysed, "{name} differs");
    }
}
