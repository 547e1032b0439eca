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

/// Runs the plugin beside a kubectl that answers as it is told.
fn plugin(folder: &std::path::Path, kubectl: &str, args: &[&str]) -> Output {
    use std::os::unix::fs::PermissionsExt as _;
    let stub = folder.join("kubectl");
    std::fs::write(&stub, format!("#!/bin/sh\n{kubectl}\n")).unwrap();
    std::fs::set_permissions(&stub, std::fs::Permissions::from_mode(0o755)).unwrap();
    let mut command = Command::new("sh");
    command.arg(path("contrib/kubernetes/kubectl-rdiag")).args(args).current_dir(folder);
    command.env("PATH", format!("{}:/usr/bin:/bin", folder.display())).env("RDIAG", "true").env("RDIAG_POLL", "0");
    command.output().unwrap()
}

#[test]
fn whatever_the_log_of_a_pod_holds_there_is_a_reason_why_its_node_has_no_recording() {
    for log in ["RDIAG1 3 \\nAAAA\\nRDIAG1 END\\n", "RDIAG1 10 zz\\nRDIAG1 END\\n", "\\033[2J", ""] {
        let folder = tempfile::tempdir().unwrap();
        let answers = format!(
            "case \"$*\" in *'get nodes'*) echo node-a ;; *'get pod'*) printf Succeeded ;;\n\
             *--limit-bytes=*) printf '{log}' ;; *logs*) exit 1 ;; esac"
        );
        let output = plugin(folder.path(), &answers, &["-o", "fleet"]);
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success() && stderr.is_empty(), "{log}: {stderr}");
        let hosts = std::fs::read_to_string(folder.path().join("fleet/hosts")).unwrap();
        assert!(hosts.starts_with("node-a\tits log holds no recording") && !hosts.contains('\u{1b}'), "{log}: {hosts}");
    }
}

#[test]
fn the_name_of_a_node_is_a_text_whatever_number_it_looks_like() {
    let folder = tempfile::tempdir().unwrap();
    let pod = String::from_utf8(plugin(folder.path(), "exit 1", &["pod", "1e3"]).stdout).unwrap();
    assert!(pod.contains("  nodeName: \"1e3\"\n"), "{pod}");
    for name in ["a\"b", "a b", "a\nb: c", "$(id)", ""] {
        let output = plugin(folder.path(), "exit 1", &["pod", name]);
        assert!(output.stdout.is_empty() && !output.status.success(), "{name:?}");
    }
}
