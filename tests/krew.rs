//! The manifest for krew, from archives as packaging/build.sh names them. `tests/kubernetes/krew.py` does the same with real ones, and installs it.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use crate::support::path;

const ADDRESS: &str = "https://packages.invalid/rdiag";
const NEEDED: [&str; 5] = ["kubectl-rdiag", "rdiag", "rbac.yaml", "LICENSE-MIT", "LICENSE-APACHE"];

/// An archive of a version and machine with these files.
fn archive(folder: &Path, version: &str, machine: &str, files: &[&str]) -> PathBuf {
    let name = format!("rdiag-{version}-{machine}-unknown-linux-gnu");
    std::fs::create_dir_all(folder.join(&name)).unwrap();
    for file in files {
        std::fs::write(folder.join(&name).join(file), machine).unwrap();
    }
    let packed = folder.join(format!("{name}.tar.gz"));
    let tar = Command::new("tar").arg("-czf").arg(&packed).arg("-C").arg(folder).arg(&name).status().unwrap();
    assert!(tar.success());
    packed
}

fn krew(address: &str, archives: &[&Path]) -> Output {
    Command::new(path("packaging/krew.sh")).args(["--address", address]).args(archives).output().unwrap()
}

#[test]
fn the_manifest_names_version_place_and_checksum_of_each_archive() {
    let folder = tempfile::tempdir().unwrap();
    let archives = ["x86_64", "aarch64"].map(|machine| archive(folder.path(), "1.2.3", machine, &NEEDED));
    let told = krew(ADDRESS, &[&archives[0], &archives[1]]);
    assert!(told.status.success(), "{}", String::from_utf8_lossy(&told.stderr));
    let manifest: serde_json::Value = serde_yaml::from_slice(&told.stdout).unwrap();
    assert_eq!(manifest["spec"]["version"], "v1.2.3");
    let platforms = manifest["spec"]["platforms"].as_array().unwrap();
    for ((platform, packed), arch) in platforms.iter().zip(&archives).zip(["amd64", "arm64"]) {
        let name = packed.file_name().unwrap().to_str().unwrap();
        let sum = Command::new("sha256sum").arg(packed).output().unwrap().stdout;
        assert_eq!(platform["selector"]["matchLabels"]["arch"], arch);
        assert_eq!(platform["uri"], format!("{ADDRESS}/releases/download/v1.2.3/{name}"));
        assert!(String::from_utf8(sum).unwrap().starts_with(platform["sha256"].as_str().unwrap()), "{platform}");
        assert_eq!((&platform["bin"], platform["files"].as_array().unwrap().len()), (&"kubectl-rdiag".into(), 4));
    }
    assert_eq!(platforms.len(), 2);
}

#[test]
fn no_manifest_is_made_of_what_cannot_be_installed() {
    let folder = tempfile::tempdir().unwrap();
    let whole = archive(folder.path(), "1.2.3", "x86_64", &NEEDED);
    let lacking = archive(folder.path(), "1.2.3", "aarch64", &NEEDED[1..]);
    let older = archive(folder.path(), "1.2.2", "aarch64", &NEEDED);
    let other = folder.path().join("rdiag.tar.gz");
    std::fs::copy(&whole, &other).unwrap();
    for (address, archives, why) in [
        (ADDRESS, &[][..], "no archive was given"),
        ("http://packages.invalid", &[&*whole][..], "no https address"),
        ("https://x\"/", &[&*whole][..], "no https address"),
        (ADDRESS, &[&*lacking][..], "has no rdiag-1.2.3-aarch64-unknown-linux-gnu/kubectl-rdiag"),
        (ADDRESS, &[&*other][..], "no name of an archive"),
        (ADDRESS, &[&*whole, &*whole][..], "two archives are for amd64"),
        (ADDRESS, &[&*whole, &*older][..], "of two versions"),
    ] {
        let told = krew(address, archives);
        let stderr = String::from_utf8_lossy(&told.stderr);
        assert!(told.status.code() == Some(2) && stderr.contains(why) && told.stdout.is_empty(), "{why}: {stderr}");
    }
}
