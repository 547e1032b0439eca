//! Faults that were induced on each kernel, judged again from what was recorded then: what a rule says of real figures of real kernels
//! must not change unnoticed. `RDIAG_BLESS=1 cargo test captures` writes `tests/captures/expected.txt` anew; read the difference.
//! New recordings: `tests/vm/run --capture DIR` and `tests/run --capture DIR`.
#![expect(clippy::indexing_slicing, reason = "a test may panic, in its helpers too")]

use std::fmt::Write as _;
use std::path::PathBuf;

use serde_json::Value;

use crate::support::{path, rdiag};

/// Every recording, by kernel and test.
fn recordings() -> Vec<(String, PathBuf)> {
    let mut found = Vec::new();
    for kernel in std::fs::read_dir(path("tests/captures")).unwrap().flatten().filter(|entry| entry.path().is_dir()) {
        for file in std::fs::read_dir(kernel.path()).unwrap().flatten() {
            let name = file.file_name().to_string_lossy().trim_end_matches(".json.gz").to_owned();
            found.push((format!("{} {name}", kernel.file_name().to_string_lossy()), file.path()));
        }
    }
    found.sort();
    found
}

/// The verdict, and a line for each finding that is not `ok`: status, confidence, rule, instance and culprit. What could not be judged is
/// one line, since most of it is the same on every guest.
fn summary(report: &Value) -> String {
    let word = |value: &Value| value.as_str().unwrap_or("").to_owned();
    let mut lines = vec![format!("  {}: {}", word(&report["verdict"]["status"]), word(&report["verdict"]["headline"]))];
    let mut unknown = Vec::new();
    for finding in report["findings"].as_array().unwrap() {
        let (id, status) = (word(&finding["id"]), word(&finding["status"]));
        match status.as_str() {
            "ok" | "skipped" => {}
            "unknown" => unknown.push(id),
            _ => {
                let mut line = format!("  {status} ({}) {id}", word(&finding["confidence"]));
                for (mark, value) in [("of", &finding["instance"]), ("by", &finding["culprit"]["name"])] {
                    if let Some(text) = value.as_str() {
                        let _ = write!(line, " {mark} {text}");
                    }
                }
                lines.push(line);
            }
        }
    }
    unknown.sort();
    unknown.dedup();
    if !unknown.is_empty() {
        lines.push(format!("  not judged: {}", unknown.join(", ")));
    }
    lines.join("\n")
}

fn judged(recording: &PathBuf) -> String {
    let output = rdiag().arg("analyze").arg(recording).args(["--format", "json", "--out", "-"]).output().unwrap();
    assert!(output.status.success(), "{}: {}", recording.display(), String::from_utf8_lossy(&output.stderr));
    summary(&serde_json::from_slice(&output.stdout).unwrap())
}

#[test]
fn faults_recorded_on_each_kernel_are_judged_as_they_were() {
    let all = recordings();
    assert!(all.len() > 20, "{} recordings", all.len());
    let halves: Vec<_> = std::thread::scope(|scope| {
        let workers: Vec<_> = all
            .chunks(all.len().div_ceil(2))
            .map(|part| {
                scope
                    .spawn(|| part.iter().map(|(name, file)| format!("{name}\n{}\n", judged(file))).collect::<Vec<_>>())
            })
            .collect();
        workers.into_iter().map(|worker| worker.join().unwrap()).collect()
    });
    let fresh = halves.concat().join("\n");
    let file = path("tests/captures/expected.txt");
    if std::env::var_os("RDIAG_BLESS").is_some() {
        std::fs::write(&file, &fresh).unwrap();
    }
    let committed = std::fs::read_to_string(&file).unwrap_or_default();
    for (old, new) in committed.split("\n\n").zip(fresh.split("\n\n")) {
        assert_eq!(old, new, "read the difference, then RDIAG_BLESS=1 cargo test captures");
    }
    assert_eq!(committed.len(), fresh.len(), "recordings were added or removed: RDIAG_BLESS=1 cargo test captures");
}
