//! Method R on programs as people run them, confirmed by other accounts of the same time: the program's own, the kernel's,
//! and the load generator's.

use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use serde_json::Value;

use super::databases::{BTF, Postgres, run};
use crate::support::{Need, alone, has, rdiag};

/// A profile that is being made; the load may begin once it is.
fn profiling(args: &[&str]) -> Child {
    let binary = std::env::var_os("RDIAG_BINARY")
        .map_or_else(|| assert_cmd::cargo::cargo_bin!("rdiag").to_path_buf(), PathBuf::from);
    let mut command = Command::new(binary);
    command.env("NO_COLOR", "1").args(["run", "method-r", "--format", "json", "--out", "-"]).args(args);
    // Other tools count all calls.
    command.args(["--param", "calls_for=24h"]);
    let child = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    // Attaching takes a fraction of this, also in a build that is not optimised; the window is long enough for the rest.
    std::thread::sleep(Duration::from_secs(4));
    child
}

fn profile(child: Child) -> Value {
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    report.get("profile").cloned().expect("a profile")
}

fn seconds(profile: &Value, components: &[&str]) -> f64 {
    let all = profile["components"].as_array().unwrap().iter();
    let named = all.filter(|row| components.iter().any(|id| row["id"].as_str().unwrap().starts_with(id)));
    named.map(|row| row["seconds"].as_f64().unwrap()).sum()
}

/// CPU time as the kernel counts it: with what a hypervisor took, unless the kernel was built to leave that out.
fn cpu_seconds(profile: &Value) -> f64 {
    let types = std::fs::read("/sys/kernel/btf/vmlinux").unwrap();
    let leaves_out = types.windows(18).any(|name| name == b"prev_steal_time_rq");
    seconds(profile, if leaves_out { &["cpu.user", "cpu.sys"] } else { &["cpu."] })
}

fn call<'p>(profile: &'p Value, name: &str) -> Vec<&'p Value> {
    profile
        .pointer("/calls/rows")
        .and_then(Value::as_array)
        .expect("calls")
        .iter()
        .filter(|row| row["name"] == name)
        .collect()
}

/// The sum is all of the time, whatever it consists of.
fn assert_whole(profile: &Value) {
    assert_eq!(profile["level"], "L3", "{:#}", profile["refused"]);
    let whole = seconds(profile, &[""]) + profile["unaccounted_seconds"].as_f64().unwrap()
        - profile["over_accounted_seconds"].as_f64().unwrap();
    let total = profile["task_seconds"].as_f64().unwrap();
    assert!((whole / total - 1.0).abs() < 0.005, "{whole} of {total} s");
}

fn assert_close(what: &str, ours: f64, theirs: f64, share: f64, at_least: f64) {
    println!("{what}: {ours:.4}, the other account says {theirs:.4}");
    assert!((ours - theirs).abs() <= (theirs * share).max(at_least), "{what}: {ours}, the other account says {theirs}");
}

/// utime, stime, cutime and cstime of a process (/proc/PID/stat, fields 14–17) in seconds.
fn times(pid: &str) -> [f64; 4] {
    let text = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    let fields: Vec<f64> = text.rsplit_once(')').map_or(Vec::new(), |(_, rest)| {
        rest.split_whitespace().map(|field| field.parse().unwrap_or(0.0) / 100.0).collect()
    });
    [11, 12, 13, 14].map(|at| fields.get(at).copied().unwrap_or(0.0))
}

/// CPU seconds and seconds of waiting for a CPU of a process with one thread (/proc/PID/schedstat).
fn schedstat(pid: &str) -> (f64, f64) {
    let text = std::fs::read_to_string(format!("/proc/{pid}/schedstat")).unwrap_or_default();
    let mut fields = text.split_whitespace().map(|field| field.parse::<f64>().unwrap_or(0.0) / 1e9);
    (fields.next().unwrap_or(0.0), fields.next().unwrap_or(0.0))
}

#[test]
#[ignore = "needs: root, eBPF, PostgreSQL"]
fn the_time_of_a_database_under_load_is_what_the_database_and_the_kernel_say() {
    let _alone = alone();
    if !has(&[Need::Root, BTF, Need::Path("/usr/lib/postgresql"), Need::Tool("setpriv")]) {
        return;
    }
    let server = Postgres::start().expect("a server");
    let pid = std::fs::read_to_string(server.data().join("postmaster.pid")).unwrap();
    let pid = pid.lines().next().unwrap().to_owned();
    let all = || {
        let children = std::fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap_or_default();
        let living: f64 = children.split_whitespace().map(|child| times(child).iter().take(2).sum::<f64>()).sum();
        living + times(&pid).iter().sum::<f64>()
    };
    // To watch all calls costs some 5 % of the CPUs at thousands of transactions in a second, which is where the budget ends.
    let observed = profiling(&["--comm", "postgres", "--duration", "15s", "--budget", "20%"]);
    let (cpu, synced) = (all(), server.sync_seconds());
    let bench = run(&mut server.client("pgbench", &["--client=2", "--time=6", "bench"]));
    // The server's processes pass their counts on once a second at most.
    std::thread::sleep(Duration::from_millis(1500));
    let (cpu, synced) = (all() - cpu, server.sync_seconds() - synced);
    let profile = profile(observed);
    println!("{bench}");
    assert_whole(&profile);
    let sync = call(&profile, "fdatasync(file)");
    let sync: f64 = sync.iter().map(|row| row["seconds"].as_f64().unwrap()).sum();
    assert_close("seconds in fdatasync", sync, synced, 0.05, 0.05);
    assert_close("CPU seconds", cpu_seconds(&profile), cpu, 0.05, 0.1);
}

#[test]
#[ignore = "needs: root, eBPF, nginx, wrk"]
fn the_time_of_a_web_server_under_load_is_what_the_kernel_and_the_client_say() {
    let _alone = alone();
    if !has(&[Need::Root, BTF, Need::Tool("nginx"), Need::Tool("wrk")]) {
        return;
    }
    let folder = tempfile::tempdir_in("/var/tmp").unwrap();
    std::fs::write(folder.path().join("page"), "x".repeat(3000)).unwrap();
    let settings = "daemon off; worker_processes 1; pid nginx.pid; error_log error.log; user root;
        events { worker_connections 64; }
        http { access_log off; server { listen 127.0.0.1:5581; root .; } }";
    std::fs::write(folder.path().join("settings"), settings).unwrap();
    let server =
        Command::new("nginx").arg("-p").arg(folder.path()).args(["-c", "settings"]).stderr(Stdio::null()).spawn();
    let mut server = Killed(server.unwrap());
    std::thread::sleep(Duration::from_millis(500));
    let master = server.0.id();
    let worker = std::fs::read_to_string(format!("/proc/{master}/task/{master}/children")).unwrap().trim().to_owned();
    assert!(!worker.is_empty(), "nginx did not start: {:?}", server.0.try_wait());
    // Some 60,000 requests per second are more than the budget of a run has room for.
    let observed = profiling(&["--pid", &worker, "--duration", "12s", "--budget", "50%"]);
    let before = schedstat(&worker);
    let told = run(Command::new("wrk").args(["-t1", "-c8", "-d5s", "http://127.0.0.1:5581/page"]));
    let after = schedstat(&worker);
    let profile = profile(observed);
    println!("{told}");
    assert_whole(&profile);
    let requests = told.lines().find_map(|line| line.trim().split_once(" requests in")).unwrap().0;
    let requests: f64 = requests.parse().unwrap();
    let opened: f64 = call(&profile, "openat").iter().map(|row| row["count"].as_f64().unwrap()).sum();
    // Up to eight requests are under way as the client ends.
    assert_close("requests", opened, requests, 0.0, 8.0);
    assert_close("CPU seconds", cpu_seconds(&profile), after.0 - before.0, 0.03, 0.02);
    // The kernel begins its count when the woken CPU has taken up the wake-up, some µs later each time.
    assert_close("seconds of waiting for a CPU", seconds(&profile, &["runq."]), after.1 - before.1, 0.03, 0.05);
}

#[test]
#[ignore = "needs: root, eBPF, cargo"]
fn the_time_of_a_build_is_what_its_parent_is_told() {
    let _alone = alone();
    if !has(&[Need::Root, BTF, Need::Tool("cargo")]) {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let source = folder.path().join("src");
    std::fs::create_dir(&source).unwrap();
    std::fs::write(folder.path().join("Cargo.toml"), "[package]\nname = \"built\"\nversion = \"0.1.0\"\n").unwrap();
    let functions: String = (0..300)
        .map(|n| {
            format!(
                "pub fn f{n}(x: &[u64]) -> Vec<String> {{ x.iter().map(|y| format!(\"{{}}\", y + {n})).collect() }}\n"
            )
        })
        .collect();
    std::fs::write(source.join("lib.rs"), functions).unwrap();
    let rusage = folder.path().join("rusage");
    // What a parent is told of its children when they are gone, by a shell that has no others.
    let script = format!(
        "cargo build --offline --quiet --manifest-path {}/Cargo.toml; times > {}",
        folder.path().display(),
        rusage.display()
    );
    let mut command = rdiag();
    command.args(["run", "method-r", "--format", "json", "--out", "-", "--", "bash", "-c", &script]);
    command.env("CARGO_TARGET_DIR", folder.path().join("target"));
    let output = command.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    let profile = &report["profile"];
    assert_whole(profile);
    let told = std::fs::read_to_string(&rusage).unwrap();
    let minutes = |text: &str| -> f64 {
        let (minutes, seconds) = text.trim_end_matches('s').split_once('m').unwrap();
        minutes.parse::<f64>().unwrap() * 60.0 + seconds.parse::<f64>().unwrap()
    };
    let cpu: f64 = told.split_whitespace().map(minutes).sum();
    assert_close("CPU seconds", cpu_seconds(profile), cpu, 0.05, 0.1);
}

/// A process that ends with the test.
struct Killed(Child);

impl Drop for Killed {
    fn drop(&mut self) {
        let pid = rustix::process::Pid::from_raw(self.0.id().cast_signed()).unwrap();
        let _ = rustix::process::kill_process(pid, rustix::process::Signal::QUIT);
        let _ = self.0.wait();
    }
}
