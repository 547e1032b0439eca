//! Limits of the page that need no browser: its size, and what it draws of single events. `tests/browser/run` has the others.

use serde_json::Value;

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
