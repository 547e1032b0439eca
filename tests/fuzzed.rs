//! Everything that fuzzing began with and found, read again: by the functions that are fuzzed (`fuzz/src/targets/`), without libFuzzer.

#[path = "../fuzz/src/targets/mod.rs"]
mod targets;

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use rustix::process::{Resource, Rlimit, setrlimit};
use rustix::time::{ClockId, clock_gettime};

use crate::support::path;
use targets::{ALL, Target};

/// Set where this test runs in a process of its own, for one target.
const CHILD: &str = "RDIAG_FUZZED";
/// What fuzzing begins with, and what was found, stays small enough for a repository.
const MOST_BYTES: u64 = 340 << 10;

/// Inputs that are about how they are refused.
const REFUSED: &[&str] = &["compressed.data"];

/// What is kept of a target: what it begins with, and what was found.
fn kept(target: &Target) -> Vec<PathBuf> {
    let mut files = Vec::new();
    for folder in ["corpus", "found"] {
        let Ok(entries) = std::fs::read_dir(path("fuzz").join(folder).join(target.name)) else { continue };
        files.extend(entries.map(|entry| entry.unwrap().path()));
    }
    // What libFuzzer itself has put there has no ending, and is not in the repository.
    files.retain(|file| file.extension().is_some());
    files.sort();
    files
}

fn is_found(file: &Path) -> bool {
    file.components().any(|part| part.as_os_str() == "found")
}

#[test]
fn every_kept_input_is_read_within_its_limits() {
    if let Ok(name) = std::env::var(CHILD) {
        return one(targets::find(&name).unwrap());
    }
    let mut failed = String::new();
    for target in ALL {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["--exact", "fuzzed::every_kept_input_is_read_within_its_limits", "--nocapture"]);
        let output = command.env(CHILD, target.name).env("RUST_BACKTRACE", "0").output().unwrap();
        let (said, cried) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        if !output.status.success() || !said.contains("1 passed") {
            failed += &format!("{}: {}\n{said}{cried}", target.name, output.status);
        }
    }
    assert!(failed.is_empty(), "{failed}");
}

/// Reads all inputs of a target in this process, which may take no more memory and CPU time than is right for one.
fn one(target: &Target) {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let kib = |line: &str| line.strip_prefix("VmSize:")?.trim().strip_suffix(" kB")?.parse::<u64>().ok();
    let now = status.lines().find_map(kib).unwrap() << 10;
    // Address space is more than what is allocated: threads, and room that the allocator keeps.
    limit(Resource::As, now + ((target.mebibytes as u64 * 3 / 2 + 256) << 20));
    let mut refused = Vec::new();
    for file in kept(target) {
        println!("{}", file.display());
        std::io::stdout().flush().unwrap();
        let used = clock_gettime(ClockId::ProcessCPUTime).tv_sec.cast_unsigned();
        limit(Resource::Cpu, used + 1 + u64::from(target.seconds));
        let is_read = (target.check)(&std::fs::read(&file).unwrap());
        // What fuzzing begins with would be of no use if it were refused.
        let is_meant = file.components().any(|part| part.as_os_str() == "found")
            || REFUSED.iter().any(|name| file.ends_with(name));
        if !is_read && !is_meant {
            refused.push(file);
        }
    }
    assert!(refused.is_empty(), "refused: {refused:#?}");
}

fn limit(of: Resource, most: u64) {
    setrlimit(of, Rlimit { current: Some(most), maximum: None }).unwrap();
}

#[test]
fn every_target_has_something_to_begin_with_and_all_of_it_is_small() {
    let manifest = std::fs::read_to_string(path("fuzz/Cargo.toml")).unwrap();
    let mut bytes = [0, 0];
    for target in ALL {
        let files = kept(target);
        assert!(!files.is_empty(), "fuzz/corpus/{} has nothing in it", target.name);
        for file in files {
            bytes[usize::from(is_found(&file))] += file.metadata().unwrap().len();
        }
        assert!(manifest.contains(&format!("name = \"{}\"", target.name)), "{} is not in fuzz/Cargo.toml", target.name);
    }
    assert!(bytes.iter().all(|bytes| *bytes <= MOST_BYTES), "{bytes:?} bytes");
    for folder in ["corpus", "found"] {
        for entry in std::fs::read_dir(path("fuzz").join(folder)).unwrap() {
            let name = entry.unwrap().file_name();
            assert!(
                name == ".gitkeep" || targets::find(name.to_str().unwrap()).is_some(),
                "fuzz/{folder}/{name:?} is of no target"
            );
        }
    }
}

#[test]
fn what_is_fuzzed_is_made_of_the_same_versions_as_what_is_shipped() {
    let packages = |file: &str| {
        let text = std::fs::read_to_string(path(file)).unwrap();
        let field = |package: &str, key: &str| {
            let lines = package.lines();
            lines.filter_map(|line| line.strip_prefix(key)?.strip_prefix(" = ")).next().unwrap_or_default().to_owned()
        };
        let packages = text.split("[[package]]").skip(1);
        packages.map(|package| (field(package, "name"), field(package, "version"))).collect::<Vec<_>>()
    };
    let shipped = packages("Cargo.lock");
    let other: Vec<_> = packages("fuzz/Cargo.lock")
        .into_iter()
        .filter(|(name, _)| shipped.iter().any(|(known, _)| known == name))
        .filter(|package| !shipped.contains(package))
        .collect();
    assert!(other.is_empty(), "copy Cargo.lock to fuzz/ and let cargo add what is missing: {other:?}");
}
