//! From the p99 of a Java service to its cause, as docs/slow-request.md tells it.

use std::process::Command;

use serde_json::Value;

use crate::support::{Load, Need, alone, has, path, rdiag, skip, wait_until};

const NEEDS: &[Need] =
    &[Need::Root, Need::Path("/sys/kernel/btf/vmlinux"), Need::Tool("java"), Need::Tool("python3"), Need::Tool("nm")];

/// What Method R says of the service's requests, with a client that asks for prices meanwhile.
fn requests(port: &str, how: &[&str]) -> Value {
    let folder = path("docs/slow-request");
    let file = |name: &str| folder.join(name).display().to_string();
    let _service = Load::start(1, "java", &[&[file("Orders.java").as_str(), port], how].concat());
    let listens = || std::net::TcpStream::connect(format!("127.0.0.1:{port}")).is_ok();
    assert!(wait_until(60, listens), "the service listens");
    let _client = Load::start(1, "python3", &[&file("client.py"), port, "60"]);
    // Until the methods are compiled, and the interpreter is done with the first requests.
    std::thread::sleep(std::time::Duration::from_secs(2));
    let (from, to) = ("tracepoint=syscalls:sys_exit_read", "tracepoint=syscalls:sys_enter_write");
    let output = rdiag()
        .args(["run", "method-r", "--format", "json", "--out", "-", "--budget", "100%", "--comm", "request"])
        .args(["--each-from", from, "--each-to", to, "-d", "6s"])
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    report.get("profile").cloned().expect("a profile")
}

#[test]
#[ignore = "needs: root, eBPF, java, python3"]
fn a_lock_that_makes_one_request_of_a_hundred_slow_is_found_with_the_thread_that_holds_it() {
    let _alone = alone();
    if !has(NEEDS) {
        return;
    }
    let names = "nm $(dirname $(readlink -f $(command -v java)))/../lib/server/libjvm.so | grep -q ObjectMonitor.*nter";
    if !Command::new("sh").args(["-c", names]).status().unwrap().success() {
        return skip("this Java machine has no table of symbols");
    }
    let profile = requests("18090", &[]);
    let rows = profile["runs"]["difference"]["rows"].as_array().unwrap();
    assert_eq!(rows[0]["id"], "lock.user", "{rows:#?}");
    assert!(rows[0]["seconds"].as_f64().unwrap() > 0.003, "{rows:#?}");
    let wakers = profile["wakers"].as_array().unwrap();
    let first = wakers.iter().find(|waker| waker["component"] == "lock.user").expect("who ends waits for the lock");
    assert_eq!(first["waker"]["comm"], "price-reload", "{wakers:#?}");
    let mended = requests("18091", &["mended"]);
    let components = mended["components"].as_array().unwrap();
    let lock =
        components.iter().find(|row| row["id"] == "lock.user").map_or(0.0, |row| row["seconds"].as_f64().unwrap());
    assert!(lock < 0.02, "{components:#?}");
}
