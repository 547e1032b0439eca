//! Two recordings, reports or profiles side by side.

use serde_json::Value;

use crate::support::{path, rdiag};

fn report(host: &str, folder: &std::path::Path) -> std::path::PathBuf {
    let out = folder.join(host);
    let root = path(&format!("tests/fixtures/hosts/{host}"));
    let mut run = rdiag();
    run.args(["run", "use-method", "--format", "json", "--root"]).arg(root).arg("--out").arg(&out);
    assert!(matches!(run.output().unwrap().status.code(), Some(0)));
    out
}

fn diff(before: &std::path::Path, after: &std::path::Path, args: &[&str]) -> (String, Option<i32>) {
    let output = rdiag().arg("diff").arg(before).arg(after).args(args).output().unwrap();
    (String::from_utf8(output.stdout).unwrap() + &String::from_utf8_lossy(&output.stderr), output.status.code())
}

#[test]
fn a_finding_that_appeared_is_told_and_fails_where_asked() {
    let folder = tempfile::tempdir().unwrap();
    let (quiet, busy) = (report("whole-host-quiet", folder.path()), report("whole-host-short-of-cpu", folder.path()));
    for file in ["report.json", "recording.json.gz"] {
        let (quiet, busy) = (quiet.join(file), busy.join(file));
        let (text, code) = diff(&quiet, &busy, &["--fail-on", "warning"]);
        assert!(text.contains("appeared: cpu.saturation (ok → ") && code == Some(1), "{text}");
        let (text, code) = diff(&busy, &quiet, &["--fail-on", "warning"]);
        assert!(text.contains("gone: cpu.saturation") && code == Some(0), "{text}");
        let (same, code) = diff(&busy, &busy, &["--fail-on", "warning"]);
        assert!(same.contains("Findings: 0 differ") && same.contains("Metrics: 0 of ") && code == Some(0), "{same}");
        let (json, _) = diff(&quiet, &busy, &["--format", "json"]);
        let comparison: Value = serde_json::from_str(&json).unwrap();
        crate::schema::validate("comparison", &comparison);
        let moved = comparison["metrics"].as_array().unwrap();
        assert!(!moved.is_empty(), "{json}");
        let (page, _) = diff(&quiet, &busy, &["--format", "html"]);
        assert!(
            page.starts_with("<!doctype html>") && page.contains("appeared") && !page.contains("<script"),
            "{page}"
        );
    }
}

#[test]
fn two_profiles_give_a_table_and_a_differential_flame_graph() {
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str, text: &str| {
        let file = folder.path().join(name);
        std::fs::write(&file, text).unwrap();
        file
    };
    let before = file("a.folded", "app;main;parse 50\napp;main;write 50\n");
    let after = file("b.folded", "app;main;parse 900\napp;main;<b>\u{202e} 100\n");
    let (text, code) = diff(&before, &after, &[]);
    assert!(text.contains("+40.0 points") && text.contains("−50.0 points") && code == Some(0), "{text}");
    let out = folder.path().join("diff.svg");
    let (_, code) = diff(&before, &after, &["--format", "svg", "--out", out.to_str().unwrap()]);
    let svg = std::fs::read_to_string(out).unwrap();
    assert!(code == Some(0) && svg.contains("<title>parse: 50.0% before, 90.0% after, +40.0 points</title>"), "{svg}");
    let (page, _) = diff(&before, &after, &["--format", "html"]);
    assert!(page.contains("class=\"l5\"") && page.contains("&lt;b&gt;") && !page.contains('\u{202e}'), "{page}");
}

#[test]
fn what_cannot_be_compared_is_refused_in_a_sentence() {
    let recording = path("tests/fixtures/recordings/run-queue-waits.json");
    let folder = tempfile::tempdir().unwrap();
    let profile = folder.path().join("a.folded");
    std::fs::write(&profile, "app;main 5\n").unwrap();
    let (text, code) = diff(&profile, &recording, &["--playbook", "use-method"]);
    assert!(code == Some(2) && text.contains("nothing in common"), "{text}");
    let (text, code) = diff(&profile, folder.path(), &[]);
    assert!(code == Some(2) && text.contains("no recording.json.gz and no report.json"), "{text}");
}
