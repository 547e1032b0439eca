//! Playbooks that start from a symptom: each is right under a fault, and under one that looks like it. What others do meanwhile may be a
//! cause as well, so that each cause is looked at by itself.
#![expect(clippy::indexing_slicing, reason = "a test may panic, in its helpers too")]

mod limits;
mod resources;
mod waits;

use std::path::PathBuf;
use std::process::{Command, Stdio};

use serde_json::Value;

use crate::support::{Load, rdiag};

/// The report of a playbook on this machine; `within` is what starts it elsewhere: `ip netns exec NAME`.
fn report_within(within: &[&str], playbook: &str, seconds: u32) -> Value {
    let program = rdiag().get_program().to_str().unwrap().to_owned();
    let duration = format!("{seconds}s");
    let words =
        [within, &[&program, "run", playbook, "--format", "json", "--out", "-", "--duration", &duration]].concat();
    let output = Command::new(words[0]).args(&words[1..]).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let report = serde_json::from_slice(&output.stdout).unwrap();
    tell_answered(playbook, &report);
    report
}

/// Says what the playbook answered: its verdict, and the causes by what became of each. The ledger of proofs keeps it.
fn tell_answered(playbook: &str, report: &Value) {
    let causes = report["answer"]["causes"].as_array().unwrap();
    let with = |outcome: &str| -> Vec<&str> {
        causes.iter().filter(|cause| cause["outcome"] == outcome).map(|cause| cause["id"].as_str().unwrap()).collect()
    };
    let told = serde_json::json!({
        "playbook": playbook,
        "verdict": report["verdict"]["headline"],
        "found": with("found"),
        "ruled_out": with("ruled_out"),
        "others": causes.len() - with("found").len() - with("ruled_out").len(),
    });
    println!("JUDGED {told}");
}

fn report(playbook: &str, seconds: u32) -> Value {
    report_within(&[], playbook, seconds)
}

/// What became of a cause.
fn outcome<'r>(report: &'r Value, id: &str) -> &'r str {
    let causes = report["answer"]["causes"].as_array().unwrap();
    let cause = causes.iter().find(|cause| cause["id"] == id).unwrap_or_else(|| panic!("no cause {id}: {causes:#?}"));
    cause["outcome"].as_str().unwrap()
}

/// The sentence of a cause that was found.
#[track_caller]
fn found<'r>(report: &'r Value, id: &str) -> &'r str {
    let causes = report["answer"]["causes"].as_array().unwrap();
    let cause = causes.iter().find(|cause| cause["id"] == id && cause["outcome"] == "found");
    cause.unwrap_or_else(|| panic!("{id} was not found: {:#}", report["answer"]))["sentence"].as_str().unwrap()
}

/// Whether the verdict is this cause: it begins with the symptom, goes on with the cause, and says whatever else is here.
#[track_caller]
fn assert_verdict(report: &Value, id: &str, says: &str) {
    let first = &report["answer"]["causes"][0];
    let headline = report["verdict"]["headline"].as_str().unwrap();
    assert_eq!((first["id"].as_str(), first["outcome"].as_str()), (Some(id), Some("found")), "{headline}");
    assert!(headline.starts_with(report["answer"]["symptom"].as_str().unwrap()), "{headline}");
    assert!(headline.contains(says), "{headline}");
}

/// Runs a program; false when it fails.
fn run(program: &str, arguments: &[&str]) -> bool {
    let mut command = Command::new(program);
    command.args(arguments).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command.status().is_ok_and(|status| status.success())
}

/// An ext4 of 64 MiB on a loop device that goes away with the test.
struct Mounted {
    folder: PathBuf,
    point: String,
}

impl Mounted {
    fn folder(name: &str) -> Self {
        let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("rdiag-{name}-{}", std::process::id()));
        std::fs::create_dir_all(folder.join("mount")).unwrap();
        let point = folder.join("mount").display().to_string();
        Self { folder, point }
    }

    /// None where it cannot be had.
    fn ext4(name: &str, mkfs: &[&str]) -> Option<Self> {
        let mounted = Self::folder(name);
        let image = mounted.image();
        std::fs::File::create(&image).unwrap().set_len(64 << 20).unwrap();
        let made = run("mkfs.ext4", &[&["-q", "-F"], mkfs, &[image.as_str()]].concat());
        (made && run("mount", &["-t", "ext4", "-o", "loop", &image, &mounted.point])).then_some(mounted)
    }

    fn image(&self) -> String {
        self.folder.join("image").display().to_string()
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        run("fsfreeze", &["-u", &self.point]);
        run("umount", &["-l", &self.point]);
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

/// A control group of one controller, in version 1 or 2, that goes away with the test.
struct Group {
    directory: PathBuf,
}

impl Group {
    /// `files` are pairs of a file of version 1 and one of version 2, with the values for each. None where there is no such controller.
    fn new(controller: &str, name: &str, files: &[[(&str, &str); 2]]) -> Option<Self> {
        let v1 = PathBuf::from("/sys/fs/cgroup").join(controller);
        let is_v1 = v1.join("cgroup.procs").exists();
        let root = if is_v1 { v1 } else { PathBuf::from("/sys/fs/cgroup") };
        let group = Self { directory: root.join(format!("{name}-{}", std::process::id())) };
        std::fs::create_dir_all(&group.directory).ok()?;
        for [old, new] in files {
            let (file, value) = if is_v1 { old } else { new };
            std::fs::write(group.directory.join(file), value).ok()?;
        }
        Some(group)
    }

    /// A shell that enters the group and goes on with this script.
    fn run(&self, script: &str) -> Load {
        let procs = self.directory.join("cgroup.procs");
        Load::start(1, "bash", &["-c", &format!("echo $$ > {} && {script}", procs.display())])
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        for _ in 0..40 {
            let pids = std::fs::read_to_string(self.directory.join("cgroup.procs")).unwrap_or_default();
            if pids.trim().is_empty() {
                break;
            }
            pids.lines().for_each(|pid| {
                run("kill", &["-9", pid]);
            });
            std::thread::sleep(std::time::Duration::from_millis(50));
        }
        let _ = std::fs::remove_dir(&self.directory);
    }
}
