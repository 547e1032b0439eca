//! Stacks of a recording as files for other programs.

use serde_json::{Value, json};

use crate::support::{path, rdiag};

/// A recording in which a probe has stacks.
fn recording() -> (tempfile::TempDir, std::path::PathBuf) {
    let text = std::fs::read_to_string(path("tests/fixtures/recordings/run-queue-waits.json")).unwrap();
    let mut recording: Value = serde_json::from_str(&text).unwrap();
    let stacks = json!({"stacks": {
        "id": "stacks", "title": "Blocked time by stack", "unit": "seconds", "activity": "waiting",
        "frames": [{"name": "main", "object": "app", "line": "/src/a.c:3"}, {"name": "schedule", "object": "[kernel]", "kernel": true}],
        "stacks": [
            {"owner": "a;b", "frames": [0, 1], "value": 0.25, "count": 3},
            {"owner": "other", "frames": [0], "value": 0.05, "count": 1},
        ],
        "unresolved": 0.0, "truncated": 0.0, "missing": 0.0,
    }});
    let probes = recording.pointer_mut("/windows/0/probes").unwrap().as_object_mut().unwrap();
    let mut result = probes.get("runqlat").unwrap().clone();
    *result.pointer_mut("/Ok/probe").unwrap() = "../offcputime".into();
    *result.pointer_mut("/Ok/outputs").unwrap() = json!([stacks]);
    probes.insert("offcputime".into(), result);
    crate::schema::validate("recording", &recording);
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("recording.json");
    std::fs::write(&file, recording.to_string()).unwrap();
    (folder, file)
}

/// What the format of speedscope requires of a file, as its description says.
fn schema() -> Value {
    let profile = json!({
        "type": "object",
        "required": ["type", "name", "unit", "startValue", "endValue", "samples", "weights"],
        "properties": {
            "type": {"const": "sampled"},
            "name": {"type": "string"},
            "unit": {"enum": ["bytes", "microseconds", "milliseconds", "nanoseconds", "none", "seconds"]},
            "startValue": {"type": "number"},
            "endValue": {"type": "number"},
            "samples": {"type": "array", "items": {"type": "array", "items": {"type": "integer", "minimum": 0}}},
            "weights": {"type": "array", "items": {"type": "number"}},
        },
    });
    let frame = json!({
        "type": "object",
        "required": ["name"],
        "properties": {"name": {"type": "string"}, "file": {"type": "string"}, "line": {"type": "number"}, "col": {"type": "number"}},
    });
    json!({
        "type": "object",
        "required": ["$schema", "profiles", "shared"],
        "properties": {
            "$schema": {"const": "https://www.speedscope.app/file-format-schema.json"},
            "shared": {"type": "object", "required": ["frames"], "properties": {"frames": {"type": "array", "items": frame}}},
            "profiles": {"type": "array", "items": profile},
            "exporter": {"type": "string"},
            "name": {"type": "string"},
            "activeProfileIndex": {"type": "number"},
        },
    })
}

#[test]
fn the_stacks_of_a_recording_become_folded_text_a_picture_and_a_profile() {
    let (folder, file) = recording();
    for command in ["report", "analyze"] {
        let mut run = rdiag();
        run.arg(command).arg(&file).args(["--format", "folded", "--out", "-"]);
        if command == "analyze" {
            run.args(["--playbook", "use-method"]);
        }
        let output = run.output().unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        assert_eq!(text, "a:b;main;schedule_[k] 250000\nother;main 50000\n", "{command}");
    }
    let out = folder.path().join("out");
    let output =
        rdiag().arg("report").arg(&file).args(["--format", "svg,speedscope", "--out"]).arg(&out).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    // The probe's name came from the file, and stays in the folder.
    let svg = std::fs::read_to_string(out.join("offcputime.svg")).unwrap();
    assert!(svg.starts_with("<?xml") && svg.contains("<title>schedule [kernel]: 250 ms, 83.3%"), "{svg}");
    let text = std::fs::read_to_string(out.join("offcputime.speedscope.json")).unwrap();
    let profile: Value = serde_json::from_str(&text).unwrap();
    jsonschema::validate(&schema(), &profile).unwrap();
    assert_eq!(profile["profiles"][0]["weights"], json!([0.25, 0.05]));
    assert_eq!(std::fs::read_dir(&out).unwrap().count(), 2);
}

#[test]
fn a_recording_without_stacks_says_so() {
    let file = path("tests/fixtures/recordings/run-queue-waits.json");
    let output = rdiag().arg("report").arg(file).args(["--format", "svg", "--out", "-"]).output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert!(output.stdout.is_empty());
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(stderr.contains("no probe with stacks has a result"), "{stderr}");
}
