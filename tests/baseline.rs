//! `rdiag baseline`: recordings of normal times under a name.

use std::path::{Path, PathBuf};

use crate::readers::with_peak;
use crate::support::{path, rdiag};

/// What a command says, its exit code, and what it prints.
fn told(baselines: &Path, args: &[&str]) -> (Option<i32>, String, String) {
    let output = rdiag().arg("baseline").arg("--baselines").arg(baselines).args(args).output().unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (output.status.code(), text(&output.stderr), text(&output.stdout))
}

/// A recording of a recorded host.
fn recorded(place: &Path, story: &str) -> PathBuf {
    let file = place.join(format!("{story}.json.gz"));
    let mut record = rdiag();
    record.args(["record", "use-method", "--quiet", "--root"]).arg(path("tests/fixtures/hosts").join(story));
    record.arg("-o").arg(&file).assert().success();
    file
}

/// The same figures of another day.
fn at_another_day(place: &Path, recording: &str, day: u32) -> String {
    let mut own = rdiag_session::read_recording(&std::fs::read(recording).unwrap()).unwrap();
    own.started = format!("2026-02-0{}T03:12:45Z", day + 1);
    let file = place.join(format!("day-{day}.json"));
    std::fs::write(&file, serde_json::to_vec(&own).unwrap()).unwrap();
    file.display().to_string()
}

#[test]
fn a_sick_time_is_unlike_the_normal_ones_and_a_normal_one_is_not() {
    let place = tempfile::tempdir().unwrap();
    let kept = place.path().join("kept");
    let quiet = recorded(place.path(), "whole-host-quiet");
    let sick = recorded(place.path(), "whole-host-short-of-cpu");
    let (quiet, sick) = (quiet.to_str().unwrap(), sick.to_str().unwrap());
    let (code, said, _) = told(&kept, &["save", "normal", quiet]);
    assert!(code == Some(2) && said.contains("intervals say little about what varies; 24 are needed"), "{said}");
    let (code, said, _) = told(&kept, &["save", "normal", quiet, quiet]);
    assert!(code == Some(2) && said.contains("is the same recording as one before it"), "{said}");
    let five: Vec<String> = (0..5).map(|day| at_another_day(place.path(), quiet, day)).collect();
    let five: Vec<&str> = five.iter().map(String::as_str).collect();
    let (code, said, _) = told(&kept, &[&["save", "normal"], &five[..]].concat());
    assert!(code == Some(0) && said.contains("normal: 5 recordings with 25 intervals"), "{said}");
    let (code, said, _) = told(&kept, &[&["save", "normal"], &five[..]].concat());
    assert!(code == Some(2) && said.contains("there is a baseline normal already"), "{said}");
    assert_eq!(told(&kept, &["list"]).2.lines().count(), 1);
    assert!(told(&kept, &["list"]).2.starts_with("normal  5 recordings, "));
    let (code, said, shown) = told(&kept, &["compare", "normal", quiet]);
    assert!(code == Some(0) && shown.starts_with("Like baseline normal: none of "), "{said}{shown}");
    let (code, said, shown) = told(&kept, &["compare", "normal", sick]);
    let head = "Unlike baseline normal (5 recordings, 25 intervals)";
    assert!(code == Some(0) && shown.starts_with(head) && shown.contains("CPU busy:"), "{said}{shown}");
    // Another host is no news of this one.
    let other = recorded(place.path(), "memory-thrashing-5.4");
    let (code, said, _) = told(&kept, &["compare", "normal", other.to_str().unwrap()]);
    assert!(code == Some(2) && said.contains("is of other conditions: host db1, in the baseline web-03"), "{said}");
    assert!(said.contains("--anyway"), "{said}");
    let (code, said, _) = told(&kept, &[&["save", "mixed"], &five[..], &[other.to_str().unwrap()]].concat());
    assert!(code == Some(2) && said.contains("the recordings are of different conditions"), "{said}");
    let (_, _, shown) = told(&kept, &["compare", "normal", sick, "--json"]);
    let shown: serde_json::Value = serde_json::from_str(&shown).unwrap();
    let unlike = shown["unlike"].as_array().unwrap();
    assert!(
        unlike.iter().any(|one| one["metric"] == "cpu.busy.ratio" && one["now"].as_f64().unwrap() > 0.9),
        "{shown:#}"
    );
    assert_eq!(told(&kept, &["remove", "normal"]).0, Some(0));
    let (code, said, _) = told(&kept, &["list"]);
    assert!(code == Some(3) && said.contains("There is none in "), "{said}");
    assert_eq!(told(&kept, &["compare", "normal", quiet]).0, Some(2));
}

#[test]
fn of_a_baseline_one_recording_at_a_time_is_in_memory() {
    let place = tempfile::tempdir().unwrap();
    let quiet = recorded(place.path(), "whole-host-quiet");
    let days: Vec<String> = (0..5).map(|day| at_another_day(place.path(), quiet.to_str().unwrap(), day)).collect();
    let mut peaks = Vec::new();
    for day in &days {
        let mut own = rdiag_session::read_recording(&std::fs::read(day).unwrap()).unwrap();
        let record = own.windows.first_mut().unwrap().collectors.get_mut("diskstats").unwrap();
        let label = || [("class".to_owned(), "hdd".to_owned())].into();
        record.labels.extend((0..60_000).map(|at| (format!("disk{at}"), label())));
        std::fs::write(day, serde_json::to_vec(&own).unwrap()).unwrap();
        // With one that is large, and at the end with five of them.
        if day != &days[0] && day != &days[4] {
            continue;
        }
        let kept = place.path().join(format!("kept-{}", peaks.len()));
        let save = [&["save", "normal"], &days.iter().map(String::as_str).collect::<Vec<_>>()[..]].concat();
        let (code, said, _) = told(&kept, &save);
        assert_eq!(code, Some(0), "{said}");
        let args = ["baseline", "compare", "normal", quiet.to_str().unwrap(), "--baselines", kept.to_str().unwrap()];
        let (output, peak) = with_peak(&args.map(std::ffi::OsStr::new));
        assert!(output.status.success(), "{output:?}");
        peaks.push(peak);
    }
    let [one, five] = peaks[..] else { panic!("{peaks:?}") };
    println!("{one} KiB with one large recording, {five} KiB with five");
    assert!(five < one + one / 4, "{five} KiB for five large recordings, {one} KiB for one");
}

#[test]
fn names_files_and_folders_that_cannot_be_trusted_are_refused() {
    use std::os::unix::fs::PermissionsExt as _;
    let place = tempfile::tempdir().unwrap();
    let kept = place.path().join("kept");
    let quiet = recorded(place.path(), "whole-host-quiet");
    let quiet = quiet.to_str().unwrap();
    for name in ["../x", "", ".hidden", "a/b", "a b", "\u{1b}[31mx"] {
        let (code, said, _) = told(&kept, &["save", name, quiet]);
        assert!(code == Some(2) && said.contains("is no name of a baseline") && !said.contains('\u{1b}'), "{said}");
    }
    let cut = place.path().join("cut");
    std::fs::write(&cut, &std::fs::read(quiet).unwrap()[..500]).unwrap();
    let (code, said, _) = told(&kept, &["save", "cut", cut.to_str().unwrap()]);
    assert!(code == Some(2) && said.contains("cut off"), "{said}");
    assert_eq!(told(&kept, &["list"]).0, Some(3), "nothing was kept");
    std::fs::set_permissions(&kept, std::fs::Permissions::from_mode(0o777)).unwrap();
    let (code, said, _) = told(&kept, &["save", "open", quiet]);
    assert!(code == Some(4) && said.contains("may write"), "{said}");
}
