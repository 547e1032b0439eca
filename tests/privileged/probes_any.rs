//! Probes of any function or tracepoint: known calls with known arguments give exactly those.
#![expect(clippy::indexing_slicing, reason = "a test may panic, in its helpers too")]

use std::process::Command;

use serde_json::Value;

use super::probing::{Script, assert_nothing_lost, has_kprobes, probed, ready, rows, watched};
use crate::support::{Need, alone, has, rdiag};

/// Calls of a function that nobody else calls: labs(0) to labs(999), and 25 times labs(-7).
const LABS: &str = "
import ctypes
labs = ctypes.CDLL('libc.so.6').labs
labs.restype = ctypes.c_long
for i in range(1000): labs(ctypes.c_long(i))
for i in range(25): labs(ctypes.c_long(-7))
";

/// What a script was seen to do; another one does the same at the same time and must not be seen.
fn seen(work: &str, args: &[&str]) -> Vec<Value> {
    let (mut script, mut other) = (Script::start(work), Script::start(work));
    let pid = script.pid().to_string();
    let readings = probed(&[args, &["--pid", &pid, "--top", "2000"]].concat(), || {
        other.work();
        script.work();
    });
    assert_nothing_lost(&readings);
    readings
}

fn number(row: &serde_json::Map<String, Value>, column: &str) -> f64 {
    row[column].as_f64().unwrap()
}

fn calls_of_a_function_are_counted_and_their_arguments_added_up() {
    let found = rows(&seen(LABS, &["count", "--param", "function=libc:labs"]), "table", "counts");
    assert_eq!((found.len(), number(&found[0], "count")), (1, 1025.0));
    let readings = seen(LABS, &["count", "--param", "function=libc:labs", "--param", "value=arg1:s64"]);
    let found = rows(&readings, "table", "counts");
    assert_eq!((number(&found[0], "count"), number(&found[0], "sum")), (1025.0, 499_500.0 - 175.0));
    assert_eq!(readings[0]["attached"][0]["back_end"], "uprobe");
}

fn a_filter_lets_through_what_it_says() {
    for (filter, count) in [
        ("arg1 >= 900 and arg1:s64 != -7", 100.0 - 0.0),
        ("arg1:s64 < 0", 25.0),
        ("return == 7", 26.0),
        ("return == 7 and arg1:s32 == -7", 25.0),
        ("arg1 & 1 and arg1 < 10", 5.0),
    ] {
        let filter = format!("filter={filter}");
        let found =
            rows(&seen(LABS, &["count", "--param", "function=libc:labs", "--param", &filter]), "table", "counts");
        assert_eq!(number(&found[0], "count"), count, "{filter}");
    }
}

fn values_are_told_apart_by_key_and_distributed() {
    let by = |keys: &str| {
        let keys = format!("key={keys}");
        rows(&seen(LABS, &["count", "--param", "function=libc:labs", "--param", &keys]), "table", "counts")
    };
    let found = by("return");
    assert_eq!(found.len(), 1000);
    assert_eq!((found[0]["return"].as_str(), number(&found[0], "count")), (Some("7"), 26.0));
    let found = by("comm,arg1:s64,return");
    assert_eq!(found.len(), 1001);
    let first = ["name", "arg1", "return"].map(|column| found[0][column].as_str().unwrap());
    assert_eq!((first, number(&found[0], "count")), (["python3", "-7", "7"], 25.0));

    let readings = seen(LABS, &["hist", "--param", "function=libc:labs", "--param", "value=arg1:s64"]);
    let row = &readings[0]["outputs"][0]["histogram"]["rows"][0];
    assert_eq!(
        (row["count"].as_u64(), row["max"].as_f64(), row["sum"].as_f64()),
        (Some(1000), Some(999.0), Some(499_500.0))
    );
    assert!(readings[0]["notes"][0].as_str().unwrap().starts_with("25 values of arg1 were negative"), "{readings:#?}");
    let readings = seen(
        LABS,
        &[
            "hist",
            "--param",
            "function=libc:labs",
            "--param",
            "value=arg1",
            "--param",
            "key=return",
            "--param",
            "filter=return < 10",
        ],
    );
    let rows = readings[0]["outputs"][0]["histogram"]["rows"].as_array().unwrap();
    assert_eq!((rows.len(), &rows[0]["instance"], rows[0]["count"].as_u64()), (10, &Value::from("7"), Some(26)));
}

const SLEEPS: &str = "
import ctypes
usleep = ctypes.CDLL('libc.so.6').usleep
before = time.perf_counter()
for i in range(20): usleep(20000)
says = time.perf_counter() - before
";

/// The latencies of a function that sleeps, against the time that the sleeper itself measured.
fn assert_sleeps(function: &str) {
    let mut script = Script::start(SLEEPS);
    let (readings, slept) = watched(&mut script, &["hist", "--param", &format!("function={function}")]);
    let (row, slept) = (&readings[0]["outputs"][0]["histogram"]["rows"][0], slept.parse::<f64>().unwrap());
    let sum = row["sum"].as_f64().unwrap();
    assert_eq!(row["count"], 20);
    assert!(sum <= slept && sum > slept * 0.95, "{sum} s measured, {slept} s slept");
}

fn latency_is_the_time_from_entry_to_return() {
    assert_sleeps("libc:usleep");
}

const OPENS: &str = "
for i in range(77): os.close(os.open('/etc/passwd', os.O_RDONLY))
for i in range(5):
    try: os.open('/nonexistent/x', os.O_RDONLY)
    except OSError: pass
";

fn tracepoints_are_counted_with_their_fields() {
    let open = ["count", "--param", "tracepoint=syscalls:sys_enter_openat"];
    let found = rows(&seen(OPENS, &[&open[..], &["--param", "key=dfd"]].concat()), "table", "counts");
    assert_eq!((found.len(), found[0]["dfd"].as_str(), number(&found[0], "count")), (1, Some("-100"), 82.0));
    let exit =
        ["count", "--param", "tracepoint=syscalls:sys_exit_openat", "--param", "key=ret", "--param", "filter=ret < 0"];
    let readings = seen(OPENS, &exit);
    let found = rows(&readings, "table", "counts");
    assert_eq!((found.len(), found[0]["ret"].as_str(), number(&found[0], "count")), (1, Some("-2"), 5.0));
    assert_eq!(readings[0]["attached"][0]["back_end"], "tracepoint");
}

/// A pipe of 64 pages has 64 buffers of 40 bytes each.
const PIPES: &str = "
import fcntl
r, w = os.pipe()
for i in range(50):
    fcntl.fcntl(w, 1031, 64 << 12)
    fcntl.fcntl(w, 1031, 16 << 12)
";

fn allocations_above_a_size_are_told_by_size() {
    let filter = ["--param", "filter=bytes_req > 1000", "--param", "key=bytes_req"];
    let readings = seen(PIPES, &[&["count", "--param", "tracepoint=kmem:kmalloc"], &filter[..]].concat());
    let found = rows(&readings, "table", "counts");
    let of = |size: &str| found.iter().find(|row| row["bytes_req"] == size).map(|row| number(row, "count"));
    assert_eq!(of("2560"), Some(50.0), "{found:#?}");
    assert!(found.iter().all(|row| row["bytes_req"].as_str().unwrap().parse::<u64>().unwrap() > 1000), "{found:#?}");
}

holds!(a_function_is_counted, vm_a_function_is_counted, calls_of_a_function_are_counted_and_their_arguments_added_up);
holds!(a_filter_on_a_function_is_exact, vm_a_filter_on_a_function_is_exact, a_filter_lets_through_what_it_says);
holds!(values_have_keys, vm_values_have_keys, values_are_told_apart_by_key_and_distributed);
holds!(
    the_latency_of_a_function_is_true,
    vm_the_latency_of_a_function_is_true,
    latency_is_the_time_from_entry_to_return
);
holds!(a_tracepoint_is_counted, vm_a_tracepoint_is_counted, tracepoints_are_counted_with_their_fields);
holds!(large_allocations_are_counted, vm_large_allocations_are_counted, allocations_above_a_size_are_told_by_size);

const NAMES: &str = "
import ctypes, subprocess
libc = ctypes.CDLL('libc.so.6')
for i in range(30): os.close(os.open(f'/etc/passwd', os.O_RDONLY))
try: os.open('/nonexistent/x', os.O_RDONLY)
except OSError: pass
for i in range(3): libc.getenv(b'RDIAG_NO_SUCH_NAME')
";

fn events_are_logged_with_their_text() {
    let open = ["log", "--param", "tracepoint=syscalls:sys_enter_openat", "--param", "value=filename,dfd"];
    let readings = logged(NAMES, &[&open[..], &["--param", "stack=kernel"]].concat());
    // Calls of the system have one entry, whatever the kernel goes through from there. Older kernels start the stack of such a
    // tracepoint from the program's registers, and have none.
    let stack = |row: &serde_json::Map<String, Value>| row["stack"].as_array().unwrap().clone();
    let enters = |function: &Value| function.as_str().unwrap().starts_with("do_syscall_64");
    let release = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap();
    let mut release = release.split('.').map_while(|part| part.parse::<u32>().ok());
    let is_old = (release.next(), release.next()) < (Some(6), Some(12));
    let is_right = |stack: Vec<Value>| {
        stack.iter().any(enters) || is_old && stack == ["(what called it is not known)"].map(Value::from)
    };
    assert!(readings.iter().all(|row| is_right(stack(row))), "{:#?}", readings[0]);
    let names: Vec<String> = readings.iter().map(|row| row["filename"].as_str().unwrap().to_owned()).collect();
    assert_eq!(names.iter().filter(|name| *name == "/etc/passwd").count(), 30, "{names:?}");
    assert_eq!(names.last().map(String::as_str), Some("/nonexistent/x"));
    assert!(readings.iter().all(|row| row["name"] == "python3" && row["dfd"] == "-100"), "{readings:#?}");
    let getenv = ["log", "--param", "function=libc:getenv", "--param", "value=arg1:string"];
    let readings = logged(NAMES, &[&getenv[..], &["--param", "stack=both"]].concat());
    let asked: Vec<_> = readings.iter().filter(|row| row["arg1"] == "RDIAG_NO_SUCH_NAME").collect();
    assert_eq!(asked.len(), 3, "{readings:#?}");
    for row in asked {
        let stack: Vec<&str> = row["stack"].as_array().unwrap().iter().map(|line| line.as_str().unwrap()).collect();
        // Its caller is a library that calls functions for the interpreter.
        assert!(stack[0].contains("getenv (libc.so.6)") && stack[1].contains("(libffi.so"), "{stack:?}");
    }
    let getenv = ["log", "--param", "function=libc:getenv", "--param", "value=arg1:string,return,latency"];
    let readings = logged(NAMES, &getenv);
    let asked: Vec<_> = readings.iter().filter(|row| row["arg1"] == "RDIAG_NO_SUCH_NAME").collect();
    assert_eq!(asked.len(), 3, "{readings:#?}");
    assert!(asked.iter().all(|row| row["return"] == "0" && row["latency"].as_f64().unwrap() < 0.1), "{asked:#?}");
}

/// The lines of a script that is watched alone.
fn logged(work: &str, args: &[&str]) -> Vec<serde_json::Map<String, Value>> {
    rows(&watched(&mut Script::start(work), args).0, "events", "events")
}

holds!(events_have_text, vm_events_have_text, events_are_logged_with_their_text);

#[test]
#[ignore = "needs: root, eBPF"]
fn a_log_ends_after_the_lines_that_were_asked_for_and_names_what_was_executed() {
    let _alone = alone();
    if !ready() {
        return;
    }
    let exec =
        ["log", "--param", "tracepoint=sched:sched_process_exec", "--param", "value=filename", "--param", "lines=3"];
    let mut child = Command::new("sh").args(["-c", "while :; do /bin/true; sleep 0.02; done"]).spawn().unwrap();
    let output = rdiag().arg("probe").args(exec).args(["--duration", "30s", "--format", "json"]).output();
    child.kill().unwrap();
    child.wait().unwrap();
    let output = output.unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let readings: Vec<Value> =
        String::from_utf8_lossy(&output.stdout).lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let lines = rows(&readings, "events", "events");
    assert_eq!(lines.len(), 3, "{lines:#?}");
    assert!(lines.iter().any(|row| row["filename"].as_str().unwrap().ends_with("/true")), "{lines:#?}");
    let seconds: f64 = readings.iter().map(|reading| reading["seconds"].as_f64().unwrap()).sum();
    assert!(seconds < 20.0, "it went on for {seconds} s");
}

/// The kernel of this host may have no kprobes, those of the matrix do.
#[test]
#[ignore = "needs: root, eBPF, python3, a kernel of the matrix"]
fn vm_functions_of_the_kernel_are_counted_and_measured() {
    let _alone = alone();
    if !has_kprobes() {
        return;
    }
    let count = ["count", "--param", "function=hrtimer_nanosleep", "--param", "value=arg1"];
    let readings = seen(SLEEPS, &count);
    let found = rows(&readings, "table", "counts");
    assert_eq!((number(&found[0], "count"), number(&found[0], "sum")), (20.0, 20.0 * 20e6));
    assert_eq!(readings[0]["attached"][0]["back_end"], "fentry", "{}", readings[0]["attached"]);
    assert_sleeps("hrtimer_nanosleep");
    // Several functions are watched in the other way, and give the same.
    let readings = seen(SLEEPS, &["count", "--param", "function=hrtimer_nanosleep*", "--param", "value=arg1"]);
    let found = rows(&readings, "table", "counts");
    assert_eq!((number(&found[0], "count"), number(&found[0], "sum")), (20.0, 20.0 * 20e6), "{found:#?}");
    assert_eq!(readings[0]["attached"][0]["back_end"], "kprobe");
    let by_return = [
        "count",
        "--param",
        "function=hrtimer_nanosleep",
        "--param",
        "key=return,arg1",
        "--param",
        "filter=latency > 10ms",
    ];
    let found = rows(&seen(SLEEPS, &by_return), "table", "counts");
    assert_eq!(
        (found[0]["return"].as_str(), found[0]["arg1"].as_str(), number(&found[0], "count")),
        (Some("0"), Some("20000000"), 20.0)
    );
    let output = rdiag().args(["probe", "count", "--param", "function=hrtimer_nanoslep", "-d", "1s"]).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(said.contains("did you mean `hrtimer_nanosleep`"), "{said}");
}

/// Each of two functions asks for memory of its own size.
const ALLOCATES: &str = "
#include <stdlib.h>
#include <unistd.h>
__attribute__((noinline)) void *small(void) { void *p = malloc(111); asm volatile(\"\" : : \"r\"(p) : \"memory\"); return p; }
__attribute__((noinline)) void *large(void) { void *p = malloc(222222); asm volatile(\"\" : : \"r\"(p) : \"memory\"); return p; }
int main(void) {
    for (int i = 0; i < 300; i++) free(small());
    for (int i = 0; i < 40; i++) free(large());
    sleep(10); /* names are looked up while it lives, and an emulated CPU takes its time */
    return 0;
}
";

fn allocations_are_told_by_size_and_stack() {
    if !has(&[Need::Tool("gcc")]) {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let (source, program) = (folder.path().join("allocates.c"), folder.path().join("allocates"));
    std::fs::write(&source, ALLOCATES).unwrap();
    let options = ["-O1", "-g", "-fno-omit-frame-pointer", "-fno-optimize-sibling-calls", "-o"];
    assert!(Command::new("gcc").args(options).arg(&program).arg(&source).status().unwrap().success());
    let output = rdiag()
        .args([
            "probe",
            "count",
            "--param",
            "function=libc:malloc",
            "--param",
            "key=arg1,stack",
            "--format",
            "json",
            "--",
        ])
        .arg(&program)
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let reading: Value = serde_json::from_slice(&output.stdout).unwrap();
    let stacks = &reading["outputs"][0]["stacks"];
    for (size, times, caller) in [("111", 300, "small"), ("222222", 40, "large")] {
        let of_size = stacks["stacks"].as_array().unwrap().iter().filter(|stack| stack["owner"] == size);
        let stack = of_size.max_by_key(|stack| stack["count"].as_u64()).unwrap();
        assert_eq!(stack["count"], times, "{stack:#}");
        let names = stack["frames"]
            .as_array()
            .unwrap()
            .iter()
            .map(|at| &stacks["frames"][at.as_u64().unwrap() as usize]["name"]);
        let names: Vec<&str> = names.map(|name| name.as_str().unwrap()).collect();
        let tail = names.iter().rev().take(3).copied().collect::<Vec<_>>();
        assert!(tail[0].ends_with("malloc") && tail[1..] == [caller, "main"], "{names:?}");
    }
}

holds!(allocations_have_stacks, vm_allocations_have_stacks, allocations_are_told_by_size_and_stack);

#[test]
#[ignore = "needs: root, eBPF"]
fn what_there_is_not_is_told_with_what_was_meant() {
    let _alone = alone();
    if !has(&[Need::Root, Need::Path("/sys/kernel/tracing/events/kmem/kmalloc")]) {
        return;
    }
    for (params, says) in [
        (&["function=libc:mallok"][..], &["has no function \"mallok\"", "did you mean `malloc`"][..]),
        (&["function=libq:malloc"], &["no library or program \"libq\""]),
        (&["function=/no/such/file:main"], &["no file \"/no/such/file\""]),
        (&["function=/etc/passwd:main"], &["/etc/passwd cannot be searched"]),
        (&["function=libc:strlen"], &["chosen among several functions"]),
        (&["function=no_such_function_here"], &["the kernel has no function"]),
        (&["tracepoint=kmem:kmallok"], &["no tracepoint \"kmem:kmallok\"", "did you mean `kmem:kmalloc`"]),
        (&["tracepoint=kmen:kmalloc"], &["did you mean `kmem:kmalloc`"]),
        (&["tracepoint=../..:id"], &["no tracepoint"]),
        (
            &["tracepoint=kmem:kmalloc", "filter=bytes_rec > 1000"],
            &["no field \"bytes_rec\"", "did you mean `bytes_req`"],
        ),
        (&["tracepoint=kmem:kmalloc", "key=gfp_flags:flags"], &["no type \"flags\""]),
        (&["tracepoint=kmem:kmalloc", "value=latency"], &["passed in no time"]),
    ] {
        let mut command = rdiag();
        command.args(["probe", "count", "--duration", "1s"]);
        params.iter().for_each(|param| {
            command.args(["--param", param]);
        });
        let output = command.output().unwrap();
        let told = String::from_utf8_lossy(&output.stderr).into_owned();
        // There is such a function, and it was written as it should be.
        let code = if params == ["function=libc:strlen"] { 3 } else { 2 };
        assert_eq!(output.status.code(), Some(code), "{params:?}: {told}");
        for text in says {
            assert!(told.contains(text), "{params:?} should say {text:?}: {told}");
        }
    }
}
