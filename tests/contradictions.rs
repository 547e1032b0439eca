//! A report never says two things that cannot both be true: over every recorded host, every capture, and captures put together at random
//! from the sources of several.
#![expect(clippy::indexing_slicing, reason = "a test may panic, in its helpers too")]

use std::io::Read as _;
use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::support::{path, rdiag};

/// Rules that say that CPUs are short, and so that none of them may say that they are not beside another.
const SHORT_OF_CPUS: [&str; 3] = ["cpu.saturation", "cpu.saturation.runnable", "cpu.saturation.pressure"];
/// Words of a rule that was taken back, against which rules that fired at the same time.
const DENIALS: [(&str, &[&str]); 3] = [
    ("the host was not short of CPUs", &SHORT_OF_CPUS),
    ("some CPUs idled while others were full", &SHORT_OF_CPUS),
    ("not because the host ran out", &["memory.errors.oom"]),
];

fn text<'v>(of: &'v Value, key: &str) -> &'v str {
    of[key].as_str().unwrap_or_default()
}

fn is_past(finding: &Value) -> bool {
    text(finding, "title").starts_with("Before the window: ")
}

/// What in a report cannot be true together.
fn contradictions(report: &Value) -> Vec<String> {
    let findings = report["findings"].as_array().unwrap();
    let serious = |finding: &&Value| ["warning", "critical"].contains(&text(finding, "status"));
    let fired: Vec<&Value> = findings.iter().filter(serious).collect();
    let headline = text(&report["verdict"], "headline");
    let mut found = Vec::new();
    for finding in findings {
        let because = text(finding, "refuted_by");
        for (denial, _) in DENIALS.iter().filter(|(denial, _)| because.contains(denial)) {
            let against = DENIALS.iter().filter(|(words, _)| words == denial).flat_map(|(_, ids)| ids.iter());
            for id in against.filter(|id| fired.iter().any(|finding| text(finding, "id") == **id)) {
                found.push(format!("{id} fired, and {} says {denial}", text(finding, "id")));
            }
        }
        let summary = text(finding, "summary");
        let full =
            fired.iter().any(|finding| ["disk.saturation", "disk.saturation.depth"].contains(&text(finding, "id")));
        if full && ["no disk is overloaded", "for serial I/O"].iter().any(|denial| summary.contains(denial)) {
            found.push(format!("disk.saturation fired, and {} says: {summary}", text(finding, "id")));
        }
        if is_past(finding) && text(finding, "status") != "info" {
            found.push(format!("{} is of the past and {}", text(finding, "id"), text(finding, "status")));
        }
    }
    if headline.starts_with("No bottleneck") && !fired.is_empty() {
        found.push(format!("{} fired, and the headline is: {headline}", text(fired[0], "id")));
    }
    let present = |finding: &&Value| ["info", "warning", "critical"].contains(&text(finding, "status"));
    let order: Vec<bool> = findings.iter().filter(present).map(is_past).collect();
    if order.windows(2).any(|pair| pair[0] && !pair[1]) {
        found.push("what was before the window stands above what was in it".to_owned());
    }
    found
}

fn report(arguments: &[&std::ffi::OsStr]) -> Value {
    let output = rdiag().args(arguments).args(["--format", "json", "--out", "-"]).output().unwrap();
    serde_json::from_slice(&output.stdout)
        .unwrap_or_else(|error| panic!("{arguments:?}: {error}: {}", String::from_utf8_lossy(&output.stderr)))
}

fn analyzed(recording: &Path) -> Value {
    report(&["analyze".as_ref(), recording.as_os_str()])
}

fn entries(folder: &str) -> Vec<PathBuf> {
    let mut all: Vec<PathBuf> = std::fs::read_dir(path(folder)).unwrap().map(|entry| entry.unwrap().path()).collect();
    all.sort();
    all
}

fn captures() -> Vec<PathBuf> {
    let folders = entries("tests/captures").into_iter().filter(|entry| entry.is_dir());
    folders.flat_map(|folder| entries(&folder.to_string_lossy())).collect()
}

#[test]
fn no_recorded_host_gives_a_report_that_contradicts_itself() {
    for host in entries("tests/fixtures/hosts") {
        let found =
            contradictions(&report(&["run".as_ref(), "use-method".as_ref(), "--root".as_ref(), host.as_os_str()]));
        assert!(found.is_empty(), "{}: {found:#?}", host.display());
    }
    for capture in captures() {
        let found = contradictions(&analyzed(&capture));
        assert!(found.is_empty(), "{}: {found:#?}", capture.display());
    }
}

/// The sources of the first window of one recording, some of them taken from another.
#[test]
fn no_recording_put_together_at_random_gives_a_report_that_contradicts_itself() {
    let unpacked = |file: &PathBuf| -> Value {
        let mut text = Vec::new();
        flate2::read::GzDecoder::new(std::fs::File::open(file).unwrap()).read_to_end(&mut text).unwrap();
        serde_json::from_slice(&text).unwrap()
    };
    // Those with something to contradict.
    let all: Vec<Value> =
        captures().iter().filter(|file| file.to_string_lossy().contains("/host/")).map(unpacked).collect();
    let seed: u64 = std::env::var("RDIAG_SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or(19);
    let mut state = seed;
    let mut random = |below: usize| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) as usize % below
    };
    let folder = std::env::temp_dir().join(format!("rdiag-contradictions-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    for at in 0..40 {
        let mut mixed = all[random(all.len())].clone();
        let other = &all[random(all.len())];
        for (name, record) in other["windows"][0]["collectors"].as_object().unwrap() {
            if random(2) == 0 {
                mixed["windows"][0]["collectors"][name] = record.clone();
            }
        }
        let file = folder.join("recording.json.gz");
        let mut packed =
            flate2::write::GzEncoder::new(std::fs::File::create(&file).unwrap(), flate2::Compression::fast());
        serde_json::to_writer(&mut packed, &mixed).unwrap();
        packed.finish().unwrap();
        let found = contradictions(&analyzed(&file));
        assert!(found.is_empty(), "recording {at} of RDIAG_SEED={seed}: {found:#?}");
    }
    std::fs::remove_dir_all(&folder).unwrap();
}
