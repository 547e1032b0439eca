//! Small files that unpack to much: each is refused or judged, and its reader takes no more memory than is stated here.
#![expect(clippy::indexing_slicing, reason = "a test may panic, in its helpers too")]

use std::ffi::OsStr;
use std::io::{Read as _, Write as _};
use std::path::{Path, PathBuf};

use flate2::Compression;
use flate2::read::GzDecoder;
use flate2::write::GzEncoder;

use crate::readers::with_peak;
use crate::support::path;

/// What a reader may take of a file that is refused, in MiB: its text, at most 256 MiB, and rdiag.
const REFUSED: u64 = 384;
/// The same of one that is judged.
const JUDGED: u64 = 768;

/// A recording with these windows, packed.
fn recording(folder: &Path, name: &str, windows: &str) -> PathBuf {
    recording_with(folder, name, "windows", &format!("[{windows}]"))
}

/// A recording of which one part is this text, packed.
fn recording_with(folder: &Path, name: &str, part: &str, part_text: &str) -> PathBuf {
    let packed = std::fs::read(path("tests/fixtures/recordings/orders-dsync.json.gz")).unwrap();
    let mut text = String::new();
    GzDecoder::new(packed.as_slice()).read_to_string(&mut text).unwrap();
    let mut whole: serde_json::Value = serde_json::from_str(&text).unwrap();
    whole[part] = "HERE".into();
    let file = folder.join(name);
    let mut packer = GzEncoder::new(std::fs::File::create(&file).unwrap(), Compression::fast());
    let text = whole.to_string();
    let (before, after) = text.split_once("\"HERE\"").unwrap();
    for part in [before, part_text, after] {
        packer.write_all(part.as_bytes()).unwrap();
    }
    packer.finish().unwrap();
    file
}

fn window(collectors: &str) -> String {
    let times = "\"begins\":0,\"seconds\":5,\"interval_seconds\":1,\"suspended_seconds\":0";
    format!("{{\"steps\":[],{times},\"collectors\":{{{collectors}}}}}")
}

fn collector(name: &str, rest: &str) -> String {
    window(&format!("\"{name}\":{{\"times\":[0,1,2,3,4,5],{rest}}}"))
}

fn many(count: usize, one: impl Fn(usize) -> String) -> String {
    let mut all = String::new();
    for at in 0..count {
        all += if at > 0 { "," } else { "" };
        all += &one(at);
    }
    all
}

/// Instances with labels: each takes 17 bytes of text, and took 1.4 KB.
fn labels(count: usize) -> String {
    collector("diskstats", &format!("\"labels\":{{{}}}", many(count, |at| format!("\"{at}\":{{\"b\":\"\"}}"))))
}

/// What a command said of files, and its code, having taken no more than so many MiB.
fn told(command: &str, files: &[&Path], most: u64) -> (Option<i32>, String) {
    let args: Vec<&OsStr> =
        [OsStr::new(command)].into_iter().chain(files.iter().map(|file| file.as_os_str())).collect();
    let (output, peak) = with_peak(&args);
    let said = [output.stdout, output.stderr].map(|said| String::from_utf8_lossy(&said).into_owned()).concat();
    assert!((1..most << 10).contains(&peak), "{command} {files:?} took {peak} KiB: {said}");
    assert!(!said.contains("out of memory"), "{command} {files:?}: {said}");
    (output.status.code(), said)
}

#[test]
fn a_recording_that_would_take_gigabytes_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let empty = window("\"diskstats\":{\"times\":[]}");
    let text = format!("\"labels\":{{\"a\":{{\"b\":\"{}\"}}}}", "x".repeat(300 << 20));
    let nested = format!("\"labels\":{}", "[".repeat(5_000_000));
    let bombs = [
        ("labels", labels(1_300_000), "it consists of more than 300000 instances with labels"),
        ("windows", many(300_000, |_| empty.clone()), "it consists of more than 1000 windows"),
        ("values", collector("cpu_stat", &format!("\"x\":[{}]", many(11_000_000, |_| "1".into()))), "10000000 values"),
        ("text", collector("diskstats", &text), "it is larger than 256 MiB unpacked"),
        ("nesting", collector("diskstats", &nested), "it is no recording of rdiag"),
    ];
    for (name, windows, why) in bombs {
        let file = recording(folder.path(), name, &windows);
        assert!(std::fs::metadata(&file).unwrap().len() < 8 << 20, "{name} is no small file");
        for command in ["analyze", "report"] {
            let (code, said) = told(command, &[&file], REFUSED);
            assert!(code == Some(2) && said.contains(why) || command == "report" && code == Some(2), "{name}: {said}");
        }
        std::fs::remove_file(file).unwrap();
    }
}

#[test]
fn small_files_whose_maps_and_lists_would_take_hundreds_of_mebibytes_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let point = "{\"at\":0,\"state\":\"R\",\"utime\":0,\"stime\":0,\"minor_faults\":0,\"major_faults\":0,\"threads\":1,\
                 \"resident_pages\":1}";
    let process = |at: usize| {
        format!(
            "{{\"pid\":{at},\"ppid\":1,\"start_ticks\":1,\"comm\":\"\",\"first\":0,\"last\":5,\"points\":[{point}]}}"
        )
    };
    let steps = window("").replace("\"steps\":[]", &format!("\"steps\":[{}]", many(6_000_000, |_| "\"a\"".into())));
    let facts = format!("{{\"facts\":{{{}}}}}", many(2_200_000, |at| format!("\"{at:x}\":\"b\"")));
    let gap = "{\"reason\":\"absent\",\"why\":\"\"}";
    let bombs = [
        ("collectors", "windows", format!("[{}]", window(&many(700_000, |at| format!("\"{at:x}\":{{\"times\":[]}}"))))),
        (
            "gaps",
            "windows",
            format!(
                "[{}]",
                collector("diskstats", &format!("\"gaps\":{{{}}}", many(1_200_000, |at| format!("\"{at:x}\":{gap}"))))
            ),
        ),
        ("steps", "windows", format!("[{steps}]")),
        (
            "processes",
            "windows",
            format!("[{}]", collector("processes", &format!("\"processes\":[{}]", many(400_000, process)))),
        ),
        ("facts", "setup", facts),
        ("params", "params", format!("{{{}}}", many(2_200_000, |at| format!("\"{at:x}\":\"b\"")))),
    ];
    for (name, part, text) in bombs {
        let file = recording_with(folder.path(), name, part, &text);
        assert!(std::fs::metadata(&file).unwrap().len() < 16 << 20, "{name} is no small file");
        let (code, said) = told("analyze", &[&file], REFUSED);
        assert!(code == Some(2) && said.contains("it would take more than 256 MiB of memory"), "{name}: {said}");
    }
    let report = folder.path().join("report.json");
    std::fs::write(&report, format!("{{\"format_version\":1,\"findings\":[{}]}}", many(1_000_000, |_| "{}".into())))
        .unwrap();
    let (code, said) = told("report", &[&report], REFUSED);
    assert!(code == Some(2) && said.contains("it would take more than 256 MiB of memory"), "{said}");
}

#[test]
fn a_recording_of_very_many_things_is_judged_within_bounds() {
    let folder = tempfile::tempdir().unwrap();
    let point = "{\"at\":0,\"state\":\"R\",\"utime\":0,\"stime\":0,\"minor_faults\":0,\"major_faults\":0,\"threads\":1,\
                 \"resident_pages\":1}";
    let process = |at: usize, points: &str| {
        format!(
            "{{\"pid\":{at},\"ppid\":1,\"start_ticks\":1,\"comm\":\"a\",\"first\":0,\"last\":5,\"points\":[{points}]}}"
        )
    };
    let series = |at: usize| {
        let values = "\"kind\":\"counter\",\"unit\":\"count\",\"values\":[0,1,2,3,4,5]";
        format!("{{\"name\":\"diskstats.reads\",\"instance\":\"d{at}\",{values}}}")
    };
    let line = |at: usize| {
        format!("{{\"class\":\"oom\",\"seconds_since_boot\":1,\"in_window\":true,\"text\":\"Killed process {at}\"}}")
    };
    for (name, collector) in [
        (
            "points",
            collector("processes", &format!("\"processes\":[{}]", process(2, &many(500_000, |_| point.into())))),
        ),
        ("processes", collector("processes", &format!("\"processes\":[{}]", many(200_000, |at| process(at, point))))),
        ("series", collector("diskstats", &format!("\"series\":[{}]", many(200_000, series)))),
        ("log", collector("kernel_log", &format!("\"log\":[{}]", many(400_000, line)))),
    ] {
        let file = recording(folder.path(), name, &collector);
        let (code, said) = told("analyze", &[&file], JUDGED);
        assert!(matches!(code, Some(0 | 3)), "{name}: {said}");
    }
}

#[test]
fn one_recording_after_another_takes_no_more_than_one() {
    let folder = tempfile::tempdir().unwrap();
    let first = recording(folder.path(), "0.json.gz", &labels(1_300_000));
    let good = path("tests/fixtures/recordings/orders-dsync.json.gz");
    let (code, said) = told("diff", &[&good, &first], REFUSED);
    assert!(code == Some(2) && said.contains("300000 instances with labels"), "{said}");
    for at in 1..6 {
        std::fs::hard_link(&first, folder.path().join(format!("{at}.json.gz"))).unwrap();
    }
    std::fs::copy(good, folder.path().join("good.json.gz")).unwrap();
    let (code, said) = told("fleet", &[folder.path()], REFUSED);
    // Where its lines break depends on the path.
    let said = said.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(code == Some(0) && said.contains("300000 instances with labels"), "{said}");
}
