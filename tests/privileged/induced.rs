//! What tests of induced faults share: the sign that a load has begun, a network namespace, a setting of the host that comes back.

use std::os::unix::process::CommandExt as _;
use std::process::{Child, Command, Output, Stdio};

use serde_json::Value;

use crate::support::{Load, rdiag, report_told, wait_until};

/// Waits until a Python load has said that it is there, by the name `begun`.
pub(super) fn has_said_begun(load: &Load) -> bool {
    let comm = format!("/proc/{}/comm", load.pids().into_iter().next().unwrap());
    wait_until(30, || std::fs::read_to_string(&comm).is_ok_and(|name| name == "begun\n"))
}

/// A setting of the host that comes back when the test ends, also when it is killed.
pub(super) struct Setting(Child);

impl Setting {
    pub(super) fn put(path: &str, value: &str) -> Self {
        let before = std::fs::read_to_string(path).unwrap();
        Self::put_and_restore((path, value), (path, before.trim()))
    }

    /// For settings of two forms, of which only one can hold what was there before.
    pub(super) fn put_and_restore((path, value): (&str, &str), (restored, before): (&str, &str)) -> Self {
        // It waits for the end of its input, which is the end of the test.
        let script = "cat > /dev/null; printf %s \"$1\" > \"$2\"";
        let mut command = Command::new("sh");
        command.args(["-c", script, "restore", before, restored]).stdin(Stdio::piped()).process_group(0);
        let setting = Self(command.spawn().unwrap());
        std::fs::write(path, value).unwrap();
        setting
    }
}

impl Drop for Setting {
    fn drop(&mut self) {
        drop(self.0.stdin.take());
        let _ = self.0.wait();
    }
}

/// A network namespace with its loopback, which goes with the test.
pub(super) struct Space(String);

impl Space {
    pub(super) fn new(purpose: &str) -> Self {
        let space = Self(format!("rdiag-{purpose}-{}", std::process::id()));
        ip_does(&["netns", "add", &space.0]);
        space.ip("link set lo up");
        space
    }

    /// With a pair of interfaces, v0 (10.9.8.1) and v1, and a neighbour, 10.9.8.2, that takes packets and answers none.
    pub(super) fn wired(purpose: &str) -> Self {
        let space = Self::new(purpose);
        for command in [
            "link add v0 type veth peer name v1",
            "address add 10.9.8.1/24 dev v0",
            "link set v0 up",
            "link set v1 up",
            "neighbour add 10.9.8.2 lladdr 02:00:00:00:00:02 dev v0 nud permanent",
        ] {
            space.ip(command);
        }
        space
    }

    /// A command of ip for this namespace.
    pub(super) fn ip(&self, command: &str) {
        let words: Vec<&str> = command.split(' ').collect();
        ip_does(&[&["-n", &self.0][..], &words].concat());
    }

    /// A program that runs in it until it ends.
    pub(super) fn within(&self, program: &str, args: &[&str]) -> Output {
        Command::new("ip").args(["netns", "exec", &self.0, program]).args(args).output().unwrap()
    }

    /// A Python program that stays, once it has begun.
    pub(super) fn load(&self, script: &str, args: &[&str]) -> Load {
        let load = Load::start(1, "ip", &[&["netns", "exec", &self.0, "python3", "-c", script], args].concat());
        assert!(has_said_begun(&load), "the load has begun");
        load
    }

    /// What rdiag says within it.
    pub(super) fn report(&self, duration: &str) -> Value {
        let program = rdiag().get_program().to_str().unwrap().to_owned();
        let times = ["--duration", duration, "--interval", "400ms"];
        let output =
            self.within(&program, &[&["run", "use-method", "--format", "json", "--out", "-"], &times[..]].concat());
        report_told(&output)
    }
}

impl Drop for Space {
    fn drop(&mut self) {
        let _ = Command::new("ip").args(["netns", "delete", &self.0]).output();
    }
}

fn ip_does(args: &[&str]) {
    let output = Command::new("ip").args(args).output().unwrap();
    assert!(output.status.success(), "ip {args:?}: {}", String::from_utf8_lossy(&output.stderr));
}
