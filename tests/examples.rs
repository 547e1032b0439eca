//! The reports that people are shown as examples are those of this build, drawn from recorded hosts.
//! `RDIAG_BLESS=1 cargo test examples` writes them anew; so it does after a merge that conflicts in them, whichever side
//! was taken.

use std::collections::BTreeSet;

use crate::support::{path, rdiag};

/// Hosts of `tests/fixtures/hosts` that make good examples.
const STORIES: [&str; 3] = ["memory-thrashing-5.4", "whole-host-quiet", "whole-host-short-of-cpu"];
const FILES: [&str; 2] = ["report.json", "report.md"];
/// The page of one of them is enough: nobody reads the changes of three.
const WITH_PAGE: &str = "whole-host-short-of-cpu";

#[test]
fn the_examples_are_what_this_build_writes() {
    let bless = std::env::var_os("RDIAG_BLESS").is_some();
    let folder = tempfile::tempdir().unwrap();
    for story in STORIES {
        let out = folder.path().join(story);
        let root = path("tests/fixtures/hosts").join(story);
        rdiag().args(["run", "use-method", "--root"]).arg(root).arg("--out").arg(&out).assert().success();
        let report = std::fs::read_to_string(out.join("report.json")).unwrap();
        crate::schema::validate("report", &serde_json::from_str(&report).unwrap());
        let examples = path("reports/examples").join(story);
        if bless {
            std::fs::create_dir_all(&examples).unwrap();
        }
        let page = (story == WITH_PAGE).then_some("report.html");
        for name in FILES.into_iter().chain(page) {
            let fresh = std::fs::read_to_string(out.join(name)).unwrap();
            if bless {
                std::fs::write(examples.join(name), &fresh).unwrap();
            }
            let committed = std::fs::read_to_string(examples.join(name)).unwrap_or_default();
            assert!(committed == fresh, "{story}/{name} is stale; run RDIAG_BLESS=1 cargo test examples");
        }
    }
    for story in STORIES.into_iter().filter(|story| *story != WITH_PAGE) {
        assert!(
            !path("reports/examples").join(story).join("report.html").exists(),
            "{story}: a page that nothing checks"
        );
    }
    // That of a fleet is of many hosts, and has a test of its own.
    let folders = std::fs::read_dir(path("reports/examples")).unwrap();
    let folders = folders.filter(|entry| entry.as_ref().is_ok_and(|entry| entry.file_name() != "fleet-of-200"));
    let names: BTreeSet<String> = folders.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    assert_eq!(names, STORIES.map(str::to_owned).into(), "a folder without its story");
}

/// One that nobody scrolls through in a ticket.
#[test]
fn a_comment_about_any_recorded_host_has_at_most_60_lines_and_begins_with_the_verdict() {
    for host in std::fs::read_dir(path("tests/fixtures/hosts")).unwrap() {
        let host = host.unwrap().path();
        let folder = tempfile::tempdir().unwrap();
        let mut run = rdiag();
        run.args(["run", "use-method", "--format", "md,json", "--root"]).arg(&host).arg("--out").arg(folder.path());
        run.output().unwrap();
        let read = |file: &str| std::fs::read_to_string(folder.path().join(file)).unwrap();
        let comment = read("report.md");
        let report: serde_json::Value = serde_json::from_str(&read("report.json")).unwrap();
        let status = report["verdict"]["status"].as_str().unwrap().to_uppercase();
        assert!(comment.starts_with(&format!("# {status}: ")), "{}: {comment}", host.display());
        let lines = comment.lines().count();
        assert!((10..=60).contains(&lines), "{}: {lines} lines\n{comment}", host.display());
    }
}
