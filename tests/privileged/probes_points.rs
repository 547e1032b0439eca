//! What there is to look at under a name, several points at once, and places that developers have marked.
#![expect(clippy::indexing_slicing, reason = "a test may panic, in its helpers too")]

use std::process::Output;

use serde_json::Value;

use super::probing::{Script, assert_nothing_lost, probed, ready, rows};
use crate::support::{Need, alone, has, rdiag, skip};

/// An interpreter whose developers have marked places in it, if there is one.
const MARKED: &str = "/usr/bin/python3";

fn has_markers() -> bool {
    let notes = |bytes: Vec<u8>| bytes.windows(b"gc__start".len()).any(|part| part == b"gc__start");
    if !has(&[Need::Path(MARKED)]) {
        return false;
    }
    let found = std::fs::read(MARKED).is_ok_and(notes);
    if !found {
        skip(&format!("{MARKED} has no marked places"));
    }
    found
}

fn document(output: &Output) -> Value {
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout)
        .unwrap_or_else(|error| panic!("{error}: {}", String::from_utf8_lossy(&output.stdout)))
}

/// What a probe sees of a script from its first instruction to its end.
fn seen(args: &[&str], work: &str) -> Vec<Value> {
    let fixed = ["probe", "--format", "json", "--budget", "100%"];
    let output = rdiag().args(fixed).args(args).args(["--", MARKED, "-c", work]).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let readings: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_nothing_lost(&readings);
    readings
}

const MARKS: &str = "
import gc, sys
for i in range(100): sys.audit('rdiag.marked', i)
for i in range(7): gc.collect(1)
";

fn marked_places_are_passed_as_often_as_the_program_does_it() {
    if !has_markers() {
        return;
    }
    let audit = ["log", "--param", "usdt=/usr/bin/python3:python:audit", "--param", "value=arg1:string"];
    let lines = rows(&seen(&audit, MARKS), "events", "events");
    let marked = lines.iter().filter(|line| line["arg1"] == "rdiag.marked").count();
    assert_eq!(marked, 100, "the program looks at a counter first, so somebody must have counted it up: {lines:#?}");
    let collected = [
        "count",
        "--param",
        "usdt=/usr/bin/python3:python:gc__start",
        "--param",
        "key=arg1",
        "--param",
        "filter=arg1 == 1",
    ];
    let readings = seen(&collected, MARKS);
    let found = rows(&readings, "table", "counts");
    assert_eq!((found.len(), found[0]["count"].as_f64()), (1, Some(7.0)), "{found:#?}");
    assert_eq!(readings[0]["attached"][0]["back_end"], "uprobe");
    let both = rows(&seen(&["count", "--param", "usdt=/usr/bin/python3:python:gc__*"], MARKS), "table", "counts");
    let names: Vec<&str> = both.iter().map(|row| row["point"].as_str().unwrap()).collect();
    assert!(names.len() == 2 && names.iter().all(|name| name.contains(":python:gc__")), "{both:#?}");
    assert_eq!(both[0]["count"], both[1]["count"], "what has begun ends");
}

const OPENS: &str = "
for i in range(77): os.close(os.open('/etc/passwd', os.O_RDONLY))
";

fn several_points_are_counted_at_once_and_told_apart() {
    let mut script = Script::start(OPENS);
    let pid = script.pid().to_string();
    let args = ["count", "--param", "tracepoint=syscalls:sys_e*_openat", "--param", "key=comm", "--pid", &pid];
    let readings = probed(&args, || drop(script.work()));
    assert_nothing_lost(&readings);
    let found = rows(&readings, "table", "counts");
    let of = |name: &str| found.iter().find(|row| row["point"] == name).map(|row| row["count"].as_f64());
    for name in ["syscalls:sys_enter_openat", "syscalls:sys_exit_openat"] {
        assert_eq!(of(name), Some(Some(77.0)), "{found:#?}");
    }
    assert!(found.iter().all(|row| row["name"] == "python3"), "{found:#?}");
    let abs = "import ctypes\nlabs = ctypes.CDLL('libc.so.6').labs\nfor i in range(1000): labs(i)\n";
    let mut script = Script::start(abs);
    let pid = script.pid().to_string();
    let args = ["hist", "--param", "function=libc:l*abs", "--param", "value=arg1:s64", "--pid", &pid];
    let readings = probed(&args, || drop(script.work()));
    let rows = readings[0]["outputs"][0]["histogram"]["rows"].as_array().unwrap();
    let counts: Vec<(bool, &Value, &Value)> = rows
        .iter()
        .map(|row| (row["instance"].as_str().unwrap().ends_with("labs"), &row["count"], &row["sum"]))
        .collect();
    assert_eq!(counts, [(true, &Value::from(1000), &Value::from(499_500.0))], "functions of the same place are one");
}

holds!(marked_places_are_seen, vm_marked_places_are_seen, marked_places_are_passed_as_often_as_the_program_does_it);
holds!(several_points_are_seen, vm_several_points_are_seen, several_points_are_counted_at_once_and_told_apart);

fn listed(name: &str) -> Value {
    document(&rdiag().args(["probe", "list", name, "--format", "json"]).output().unwrap())
}

/// The names under which something can be read at the only point of a listing.
fn readable(listing: &Value) -> Vec<String> {
    let points = listing["points"].as_array().unwrap();
    assert_eq!(points.len(), 1, "{listing:#}");
    let fields = points[0]["details"]["fields"].as_array().unwrap();
    fields
        .iter()
        .flat_map(|field| field["names"].as_array().unwrap())
        .map(|name| name.as_str().unwrap().to_owned())
        .collect()
}

fn a_name_is_told_with_what_can_be_read_there() {
    let kmalloc = listed("kmem:kmalloc");
    assert!(readable(&kmalloc).contains(&"bytes_req".to_owned()), "{kmalloc:#}");
    assert_eq!(kmalloc["points"][0]["details"]["unavailable"], Value::Null);
    let malloc = listed("libc:malloc");
    assert_eq!(readable(&malloc).first().map(String::as_str), Some("arg1"));
    assert_eq!(malloc["points"][0]["details"]["unavailable"], Value::Null);
    let many = listed("kmem:*");
    assert!(many["points"].as_array().unwrap().len() > 8, "{many:#}");
    assert!(many["points"].as_array().unwrap().iter().all(|point| point["details"] == Value::Null));
    if has_markers() {
        let start = listed("/usr/bin/python3:python:gc__start");
        assert_eq!((readable(&start), &start["points"][0]["kind"]), (vec!["arg1".to_owned()], &Value::from("marker")));
    }
    let send = listed("tcp_sendmsg");
    assert!(send["points"][0]["details"]["declared"].as_str().unwrap().contains("size_t size"), "{send:#}");
    let names = readable(&send);
    assert_eq!(names[4..], ["size", "arg3", "return"], "{names:?}");
    let kprobes = std::path::Path::new("/sys/bus/event_source/devices/kprobe").exists();
    assert_eq!(send["points"][0]["details"]["unavailable"] == Value::Null, kprobes, "{send:#}");
}

holds!(a_name_is_explained, vm_a_name_is_explained, a_name_is_told_with_what_can_be_read_there);

/// 30 messages of 1000 bytes over the loopback device.
const SENDS: &str = "
import socket, subprocess
subprocess.run(['ip', 'link', 'set', 'lo', 'up'])
server = socket.create_server(('127.0.0.1', 0))
client = socket.create_connection(server.getsockname())
for i in range(30): client.send(bytes(1000))
for i in range(60): os.read(os.open('/dev/zero', os.O_RDONLY), 777)
";

/// The kernel of this host may have no kprobes, those of the matrix do.
#[test]
#[ignore = "needs: root, eBPF, python3, a kernel of the matrix"]
fn vm_arguments_of_kernel_functions_go_by_their_names_and_patterns_mean_all() {
    let _alone = alone();
    if !ready() || !has(&[Need::Path("/sys/bus/event_source/devices/kprobe/type")]) {
        return;
    }
    let watched = |args: &[&str]| {
        let mut script = Script::start(SENDS);
        let pid = script.pid().to_string();
        let readings = probed(&[args, &["--pid", &pid]].concat(), || drop(script.work()));
        assert_nothing_lost(&readings);
        readings
    };
    let sizes = watched(&["hist", "--param", "function=tcp_sendmsg", "--param", "value=size"]);
    let row = &sizes[0]["outputs"][0]["histogram"]["rows"][0];
    assert_eq!((row["count"].as_u64(), row["sum"].as_f64()), (Some(30), Some(30_000.0)), "{sizes:#?}");
    let names = watched(&["log", "--param", "function=do_sys_openat2", "--param", "value=filename:ustring"]);
    let opened = rows(&names, "events", "events");
    assert_eq!(opened.iter().filter(|row| row["filename"] == "/dev/zero").count(), 60, "{opened:#?}");
    let counts = |args: &[&str]| rows(&watched(args), "table", "counts");
    let of = |found: &[serde_json::Map<String, Value>], name: &str| {
        found.iter().find(|row| row["point"] == name).and_then(|row| row["count"].as_f64()).unwrap_or(0.0)
    };
    // The modules that it imports are read too, in pieces of other sizes.
    let found = counts(&["count", "--param", "function=vfs_*"]);
    assert!(of(&found, "vfs_read") >= 60.0 && of(&found, "vfs_open") >= 60.0, "{found:#?}");
    let found = counts(&["count", "--param", "function=vfs_*", "--param", "filter=arg3 == 777"]);
    assert_eq!(of(&found, "vfs_read"), 60.0, "{found:#?}");
}
