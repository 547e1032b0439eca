//! What a command leaves behind that could not make its report, and the exit code, by the shipped binary.

use crate::history::files;
use crate::support::rdiag;

#[test]
fn a_report_that_fails_leaves_no_folder_behind_and_is_the_fault_of_what_was_given() {
    let place = tempfile::tempdir().unwrap();
    let foreign = place.path().join("foreign.json");
    std::fs::write(&foreign, "{\"a\": 1}").unwrap();
    std::fs::create_dir(place.path().join("empty")).unwrap();
    std::fs::create_dir(place.path().join("history")).unwrap();
    let cases: &[&[&str]] = &[
        &["run", "use-method", "--at", "2026-03-10T03:12", "--from", "foreign.json"],
        &["run", "use-method", "--at", "2026-03-10T03:12", "--from", "foreign.json", "--out", "new/report"],
        &["run", "use-method", "--at", "2026-03-10T03:12", "--from", "foreign.json", "--out", "empty"],
        &["run", "use-method", "--at", "2026-03-10T03:12", "--history", "history"],
        &["analyze", "foreign.json", "--out", "new"],
        &["report", "foreign.json", "--out", "new/report.html"],
        &["report", "missing.json", "--out", "new"],
        &["analyze", "."],
        &["diff", "foreign.json", "foreign.json"],
        &["baseline", "save", "some", "foreign.json"],
    ];
    for args in cases {
        let output = rdiag().current_dir(place.path()).args(*args).output().unwrap();
        let said = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(2), "{args:?}: {said}");
        // The one that was there before stays.
        assert_eq!(files(place.path()), ["empty", "foreign.json", "history"], "{args:?}: {said}");
    }
}
