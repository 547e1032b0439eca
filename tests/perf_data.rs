//! Profiles of other programs, analysed by the shipped binary; what `perf report` says of the same files stands beside them.

use std::path::{Path, PathBuf};

use crate::support::{path, rdiag};

/// Where the recorded program was.
const RECORDED: &str = "/tmp/rdiag-perf-000000";

/// A folder with the recorded program, and the recording as if it had been made there.
fn moved(name: &str) -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::Builder::new().prefix("rdiag-perf-").rand_bytes(6).tempdir_in("/tmp").unwrap();
    let here = folder.path().to_str().unwrap();
    assert_eq!(here.len(), RECORDED.len());
    std::fs::copy(path("tests/fixtures/perf/split"), folder.path().join("split")).unwrap();
    let mut bytes = std::fs::read(path(&format!("tests/fixtures/perf/{name}.data"))).unwrap();
    for at in 0..bytes.len() {
        if let Some(place) = bytes.get_mut(at..at + RECORDED.len()).filter(|place| *place == RECORDED.as_bytes()) {
            place.copy_from_slice(here.as_bytes());
        }
    }
    let file = folder.path().join("perf.data");
    std::fs::write(&file, bytes).unwrap();
    (folder, file)
}

fn analyze(file: &Path, args: &[&str]) -> String {
    let output = rdiag().arg("analyze").arg(file).args(args).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

/// Percentages before a function's name: of `rdiag` they are self and total.
fn shares(line: &str) -> Vec<f64> {
    line.split_whitespace().map_while(|word| word.strip_suffix('%')?.parse().ok()).collect()
}

fn line<'t>(text: &'t str, function: &str) -> &'t str {
    let with = |line: &&str| line.split_whitespace().any(|word| word == function) && !shares(line).is_empty();
    text.lines().find(with).unwrap_or_else(|| panic!("{function} is not in {text}"))
}

#[test]
fn self_and_total_of_a_perf_data_are_those_of_perf_report() {
    for name in ["chains", "no-chains", "stream"] {
        let (_folder, file) = moved(name);
        let text = analyze(&file, &[]);
        let expected = std::fs::read_to_string(path(&format!("tests/fixtures/perf/{name}.self.txt"))).unwrap();
        for function in ["spin", "twenty", "ten"] {
            let (found, wanted) = (shares(line(&text, function))[0], shares(line(&expected, function))[0]);
            assert!((found - wanted).abs() <= 0.06, "{name} {function}: {found} {wanted}\n{text}");
        }
    }
    let (_folder, file) = moved("chains");
    let text = analyze(&file, &[]);
    let expected = std::fs::read_to_string(path("tests/fixtures/perf/chains.total.txt")).unwrap();
    for function in ["main", "work", "spin", "twenty", "again", "ten"] {
        let (found, wanted) = (shares(line(&text, function)), shares(line(&expected, function)));
        assert!((found[1] - wanted[0]).abs() <= 0.06 && (found[0] - wanted[1]).abs() <= 0.06, "{function}\n{text}");
    }
}

#[test]
fn a_perf_data_becomes_every_format() {
    let (folder, file) = moved("two-events");
    let out = folder.path().join("out");
    let formats = ["--format", "html,md,json,folded,svg,speedscope", "--out", out.to_str().unwrap()];
    let text = analyze(&file, &formats);
    assert!(text.contains("cpu-clock by stack") && text.contains("page-faults by stack"), "{text}");
    let read = |name: &str| std::fs::read_to_string(out.join(name)).unwrap();
    let page = read("report.html");
    assert!(page.contains("<svg class=\"flame\"") && page.contains("spin") && !page.contains("http:"), "{page}");
    assert!(read("report.md").contains("| spin"));
    let result: serde_json::Value = serde_json::from_str(&read("report.json")).unwrap();
    assert_eq!(result["outputs"][0]["stacks"]["activity"], "running");
    assert!(read("perfdata.folded").contains(";main;work;"));
    assert!(read("perfdata.svg").contains("<title>spin: ") && out.join("perfdata-2.svg").exists());
    assert!(read("perfdata.speedscope.json").contains("file-format-schema"));
    // What was written as folded text is read as such.
    let text = analyze(&out.join("perfdata.folded"), &[]);
    assert!(shares(line(&text, "spin"))[0] > 50.0, "{text}");
}

#[test]
fn a_program_that_was_replaced_since_gives_addresses_and_the_reason() {
    let (folder, file) = moved("chains");
    let program = folder.path().join("split");
    std::fs::write(&program, std::fs::read(rdiag().get_program()).unwrap()).unwrap();
    let text = analyze(&file, &[]);
    assert!(text.contains("split: it has been replaced since") && text.contains("split+0x"), "{text}");
    std::fs::remove_file(&program).unwrap();
    let text = analyze(&file, &[]);
    assert!(text.contains("no names for ") && text.contains("split+0x") && !text.contains(" spin"), "{text}");
}

#[test]
fn what_cannot_be_read_is_refused_in_a_sentence() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("x");
    let text = "hello\n".repeat(10).into_bytes();
    let cut = std::fs::read(path("tests/fixtures/perf/chains.data")).unwrap()[..90].to_vec();
    let compressed = std::fs::read(path("tests/fixtures/perf/compressed.data")).unwrap();
    for (bytes, said) in [(text, "no folded text"), (cut, "ends within its header"), (compressed, "compressed")] {
        std::fs::write(&file, bytes).unwrap();
        let output = rdiag().arg("analyze").arg(&file).output().unwrap();
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.code() == Some(2) && stderr.contains(said), "{stderr}");
    }
}
