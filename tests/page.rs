//! Limits of the page that need no browser: its size, and what it draws of single events. `tests/browser/run` has the others.
#![expect(clippy::indexing_slicing, reason = "a test may panic, in its helpers too")]

use serde_json::{Value, json};

use crate::support::{path, rdiag};

/// Most bytes of a page without a flame graph, and of one with.
const WITHOUT_FLAMES: usize = 300_000;
const WITH_FLAMES: usize = 1_200_000;
/// The only kernel whose drill-down is needed here: four loops for each CPU, with `runqslower` and `profile`.
const DRILLED: &str = "tests/captures/7.2/kernels.vm_four_loops_for_each_cpu_are_a_critical_saturation_by_the_kernels_own_count.1.json.gz";

fn analyzed(recording: &str, format: &str) -> String {
    let output = rdiag().arg("analyze").arg(path(recording)).args(["--format", format, "--out", "-"]).output().unwrap();
    assert!(output.status.success(), "{recording}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn pages_stay_within_their_sizes() {
    for (story, most) in [("whole-host-short-of-cpu", WITHOUT_FLAMES), ("whole-host-quiet", WITHOUT_FLAMES)] {
        let folder = tempfile::tempdir().unwrap();
        let out = folder.path().join("report.html");
        let root = path("tests/fixtures/hosts").join(story);
        rdiag().args(["run", "use-method", "--root"]).arg(root).arg("--out").arg(&out).assert().success();
        let bytes = std::fs::read(&out).unwrap().len();
        assert!(bytes <= most, "{story}: {bytes} bytes");
    }
    let page = analyzed(DRILLED, "html");
    assert!(page.len() <= WITH_FLAMES, "{} bytes", page.len());
    let flame: usize = page.split("<svg class=\"flame\"").skip(1).filter_map(|rest| rest.find("</svg>")).sum();
    assert!(page.len() - flame <= WITHOUT_FLAMES, "{} bytes without its flame graphs", page.len() - flame);
}

#[test]
fn waits_for_a_cpu_are_a_heat_map_of_every_event_that_was_recorded() {
    let page = analyzed(DRILLED, "html");
    assert_eq!(
        page.matches("<svg class=\"plot heat-map\"").count(),
        1,
        "of runqslower, and of nothing that has no times"
    );
    assert!(page.contains("Only events of at least 20ms are measured."), "what is not in it is said");
    let report: Value = serde_json::from_str(&analyzed(DRILLED, "json")).unwrap();
    let probe = report["probes"].as_array().unwrap().iter().find(|probe| probe["probe"] == "runqslower").unwrap();
    let output = |kind: &str| probe["outputs"].as_array().unwrap().iter().find_map(|output| output.get(kind)).unwrap();
    let (map, events) = (output("heat"), output("events"));
    let counts = map["bands"].as_array().unwrap().iter().flat_map(|band| band["counts"].as_array().unwrap());
    let drawn: u64 = counts.map(|count| count.as_u64().unwrap()).sum();
    let listed = events["rows"].as_array().unwrap().len() as u64 + events["others"].as_u64().unwrap_or(0);
    assert!(drawn > 200, "{drawn}: more than the table of the report lists");
    assert_eq!(
        drawn + map["others"].as_u64().unwrap_or(0),
        listed,
        "each event is in a field, or is said to be in none"
    );
    assert!(map["bands"][0]["below"].as_f64().unwrap() > 0.02, "nothing below the threshold is drawn");
}

/// Disk requests as `biosnoop` hands them on, one each 2 ms.
const REQUESTS: usize = 3_000;

/// The recording with these requests beside the probe that gave other events.
fn with_requests() -> Value {
    let packed = std::fs::read(path(DRILLED)).unwrap();
    let mut recording: Value = serde_json::from_reader(flate2::read::GzDecoder::new(packed.as_slice())).unwrap();
    let windows = recording["windows"].as_array_mut().unwrap();
    let window = windows.iter_mut().find(|window| window["probes"]["runqslower"].is_object()).unwrap();
    let mut probe = window["probes"]["runqslower"]["Ok"].clone();
    let column = |(id, unit): &(&str, &str)| match *unit {
        "" => json!({"id": id, "title": id}),
        unit => json!({"id": id, "title": id, "unit": unit}),
    };
    let columns = [
        ("time", "seconds"),
        ("name", ""),
        ("pid", ""),
        ("tid", ""),
        ("device", ""),
        ("operation", ""),
        ("sector", ""),
        ("bytes", "bytes"),
        ("queued", "seconds"),
        ("latency", "seconds"),
    ];
    let row = |at: usize| {
        let (time, latency) = (at as f64 * 0.002, 0.006 + (at % 50) as f64 * 0.001);
        json!({"instance": "", "cells": [time, "fio", "4711", "4712", "vda", "read", at.to_string(), 4096.0, 1e-6, latency]})
    };
    probe["probe"] = "biosnoop".into();
    probe["params"] = json!({"threshold": "5ms"});
    probe["outputs"] = json!([{"events": {
        "id": "ios",
        "title": "Block I/Os",
        "columns": columns.iter().map(column).collect::<Vec<_>>(),
        "rows": (0..REQUESTS).map(row).collect::<Vec<_>>(),
        "others": 0,
    }}]);
    window["probes"]["biosnoop"] = json!({"Ok": probe});
    recording
}

#[test]
fn slow_disk_requests_are_a_heat_map_of_all_and_a_list_of_few() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("recording.json");
    let recording = with_requests();
    crate::schema::validate("recording", &recording);
    std::fs::write(&file, recording.to_string()).unwrap();
    let file = file.to_str().unwrap();
    let page = analyzed(file, "html");
    assert!(page.contains("Block I/Os: heat map of time and latency"), "the requests have no heat map");
    assert!(page.contains("Only events of at least 5ms are measured."), "what is not in it is said");
    let without = analyzed(DRILLED, "html").len();
    assert!(page.len() - without < 60_000, "{} bytes for {REQUESTS} requests", page.len() - without);
    let report: Value = serde_json::from_str(&analyzed(file, "json")).unwrap();
    let probe = report["probes"].as_array().unwrap().iter().find(|probe| probe["probe"] == "biosnoop").unwrap();
    let counts = probe["outputs"][0]["heat"]["bands"].as_array().unwrap().iter();
    let drawn: u64 =
        counts.flat_map(|band| band["counts"].as_array().unwrap()).map(|count| count.as_u64().unwrap()).sum();
    let events = &probe["outputs"][1]["events"];
    let listed = events["rows"].as_array().unwrap().len();
    assert_eq!((drawn, listed as u64 + events["others"].as_u64().unwrap()), (REQUESTS as u64, REQUESTS as u64));
    assert!(listed <= 200, "{listed} rows");
    let output = rdiag().args(["analyze", file, "-v", "--format", "md"]).output().unwrap();
    let ticket = String::from_utf8_lossy(&output.stdout).into_owned();
    let (head, rows) =
        ticket.split_once("\nBlock I/Os:\n").map(|(_, rest)| rest.trim_start().split_once('\n').unwrap()).unwrap();
    assert!(head.contains("| latency |") && !head.contains("sector"), "the latency goes last: {head}");
    assert!(rows.lines().take_while(|line| line.starts_with('|')).count() <= 6, "{rows}");
}

#[test]
fn the_playbooks_about_slow_disks_record_each_slow_request() {
    let output = rdiag().args(["list", "playbooks", "--json"]).output().unwrap();
    let listed: Value = serde_json::from_slice(&output.stdout).unwrap();
    for name in ["io-stall", "high-latency"] {
        let of = listed.as_array().unwrap().iter().find(|of| of["name"] == name).unwrap();
        let steps = of["playbook"]["steps"].as_array().unwrap();
        let step = steps.iter().find(|step| step["id"] == "disk-requests").unwrap();
        assert!(step["collect"].to_string().contains("biosnoop"), "{name}: {step}");
        assert!(step["collect"].to_string().contains("5ms"), "{name}: {step}");
    }
}
