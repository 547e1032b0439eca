//! The tracers of functions: trees of calls, and counts by caller. Where a kernel does not have them, rdiag says so.
#![expect(clippy::indexing_slicing, reason = "a test may panic, in its helpers too")]

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::Value;

use super::probing::{Script, assert_nothing_lost, probed, rows};
use crate::support::{Load, Need, has, rdiag, wait_until};

const TRACING: &str = "/sys/kernel/tracing";
const INSTANCES: &str = "/sys/kernel/tracing/instances";

fn can_trace() -> bool {
    has(&[Need::Root, Need::Path(INSTANCES), Need::Tool("python3")])
}

fn instances() -> BTreeSet<String> {
    let entries = fs::read_dir(INSTANCES).unwrap().flatten();
    entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect()
}

/// Exit code, last reading, and what was told. What counts is what is seen, not what that costs.
fn run(probe: &str, args: &[&str]) -> (i32, Value, String) {
    let fixed = ["probe", probe, "--format", "json"];
    let budget: &[&str] = if args.contains(&"--budget") { &[] } else { &["--budget", "100%"] };
    let output = rdiag().args(fixed).args(budget).args(args).output().unwrap();
    let told = String::from_utf8_lossy(&output.stderr).into_owned();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let reading = text.lines().last().and_then(|line| serde_json::from_str(line).ok()).unwrap_or(Value::Null);
    (output.status.code().unwrap(), reading, told)
}

fn graph(args: &[&str]) -> (i32, Value, String) {
    run("graph", args)
}

/// An empty instance of the test's own.
struct Own(PathBuf);

impl Own {
    fn new() -> Self {
        let path = Path::new(INSTANCES).join(format!("test-of-graph-{}", std::process::id()));
        fs::create_dir(&path).unwrap();
        Self(path)
    }
}

impl Drop for Own {
    fn drop(&mut self) {
        let _ = fs::remove_dir(&self.0);
    }
}

/// Whether this kernel traces calls in an instance; otherwise rdiag must say that it cannot.
fn kernel_has_graph() -> bool {
    let tracers = fs::read_to_string(Own::new().0.join("available_tracers")).unwrap();
    let has = tracers.split_whitespace().any(|tracer| tracer == "function_graph");
    if !has {
        let (code, _, told) = graph(&["--function", "vfs_read", "--", "true"]);
        assert_eq!(code, 3, "{told}");
        assert!(told.contains("does not run in an instance of its own here"), "{told}");
        assert!(told.contains("hint: use") && told.contains("Linux 6.12 or later"), "{told}");
        println!("SKIPPED: this kernel has no function_graph for instances");
    }
    has
}

fn calls(reading: &Value) -> &Vec<Value> {
    reading.pointer("/outputs/0/calls/calls").and_then(Value::as_array).unwrap()
}

#[test]
#[ignore = "needs: root, tracefs, the tracer function_graph in an instance"]
fn vm_the_calls_of_a_function_are_a_tree_with_durations() {
    if !can_trace() || !kernel_has_graph() {
        return;
    }
    let (code, reading, told) = graph(&["--function", "bprm_execve", "--param", "lines=100000", "--", "/bin/true"]);
    assert_eq!(code, 0, "{told}");
    assert!(reading.get("lost").is_none(), "{}", reading["lost"]);
    let all = calls(&reading);
    assert_eq!(all[0]["function"], "bprm_execve");
    assert!(all[0]["task"].as_str().unwrap().starts_with("true ("), "{}", all[0]);
    let outermost: Vec<&Value> = all.iter().filter(|call| call["depth"] == 0).map(|call| &call["function"]).collect();
    assert_eq!(outermost, ["bprm_execve"], "the file is there: one call");
    // It is called through a pointer, so no compiler can make it part of its caller.
    assert!(all.iter().any(|call| call["function"] == "load_elf_binary"), "{told}");
    for (at, call) in all.iter().enumerate() {
        let (depth, seconds) = (call["depth"].as_u64().unwrap(), call["seconds"].as_f64().unwrap());
        let below = all[at + 1..].iter().take_while(|below| below["depth"].as_u64().unwrap() > depth);
        // An interrupt between the moment of return and the record of it stands within a call that is over. The record of a call is
        // written a little after it began, so an end that is reckoned from there is a little late.
        let ends = |call: &Value| call["at"].as_f64().unwrap() + call["seconds"].as_f64().unwrap();
        let end = ends(call);
        let children =
            below.filter(|below| below["depth"].as_u64().unwrap() == depth + 1).filter(|below| ends(below) <= end);
        let within: f64 = children.map(|child| child["seconds"].as_f64().unwrap()).sum();
        assert!(within <= seconds + 1e-9, "{call}: what it calls takes {within} s");
    }
}

#[test]
#[ignore = "needs: root, tracefs, the tracer function_graph in an instance"]
fn vm_a_known_sleep_has_that_duration_and_only_the_command_and_its_children_are_followed() {
    if !can_trace() || !kernel_has_graph() {
        return;
    }
    let _other = Load::start(1, "sh", &["-c", "while :; do sleep 0.05; done"]);
    let (code, reading, told) =
        graph(&["--function", "hrtimer_nanosleep", "--", "sh", "-c", "sleep 0.4; sleep 0.8; exit 0"]);
    assert_eq!(code, 0, "{told}");
    let outermost: Vec<&Value> = calls(&reading).iter().filter(|call| call["depth"] == 0).collect();
    let took: Vec<f64> = outermost.iter().map(|call| call["seconds"].as_f64().unwrap()).collect();
    assert_eq!(took.len(), 2, "{outermost:#?}");
    assert!((0.4..0.55).contains(&took[0]) && (0.8..0.95).contains(&took[1]), "{took:?}");
    // Each call is an event, and so is its return.
    let cost = &reading["cost"];
    assert!(cost["of"] == "events" && cost["runs"].as_u64().unwrap() >= 2 * calls(&reading).len() as u64, "{cost}");
    assert!(cost["cpu_seconds"].as_f64().unwrap() > 0.0, "{cost}");
}

#[test]
#[ignore = "needs: root, tracefs, the tracer function_graph in an instance"]
fn vm_what_is_cut_of_a_graph_is_counted_and_nothing_is_left_behind() {
    if !can_trace() || !kernel_has_graph() {
        return;
    }
    let before = instances();
    let args = ["--function", "bprm_execve", "--param", "lines=5", "--param", "depth=2", "--", "/bin/true"];
    let (code, reading, told) = graph(&args);
    assert_eq!(code, 0, "{told}");
    let trace = &reading["outputs"][0]["calls"];
    assert_eq!(calls(&reading).len(), 5);
    assert!(trace["others"].as_u64().unwrap() > 0 && trace["deeper"].as_u64().unwrap() > 0, "{trace}");
    assert!(calls(&reading).iter().all(|call| call["depth"].as_u64().unwrap() < 2), "{trace}");
    assert_eq!(instances(), before);
    assert_eq!(fs::read_to_string("/sys/kernel/tracing/current_tracer").unwrap().trim(), "nop");
}

/// A program of which a part cannot be mapped: its place in the file and its address do not fit together within a page.
fn bad_program() -> PathBuf {
    let header = |kind: u32, flags: u32, words: [u64; 6]| {
        let words = words.iter().flat_map(|word| word.to_le_bytes());
        [kind.to_le_bytes(), flags.to_le_bytes()].concat().into_iter().chain(words).collect::<Vec<u8>>()
    };
    let mut bytes = b"\x7fELF\x02\x01\x01".to_vec();
    bytes.resize(16, 0);
    bytes.extend([2_u16, 62].iter().flat_map(|half| half.to_le_bytes()));
    bytes.extend(1_u32.to_le_bytes());
    bytes.extend([0x40_1000_u64, 64, 0].iter().flat_map(|word| word.to_le_bytes()));
    bytes.extend(0_u32.to_le_bytes());
    bytes.extend([64_u16, 56, 2, 64, 0, 0].iter().flat_map(|half| half.to_le_bytes()));
    bytes.extend(header(1, 5, [0, 0x40_0000, 0x40_0000, 0x1010, 0x1010, 0x1000]));
    bytes.extend(header(1, 6, [0x2010, 0x40_2000, 0x40_2000, 0x10, 0x10, 0x1000]));
    bytes.resize(0x3000, 0x90);
    let path = std::env::temp_dir().join(format!("rdiag-bad-elf-{}", std::process::id()));
    fs::write(&path, bytes).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    path
}

#[test]
#[ignore = "needs: root, tracefs, the tracer function_graph in an instance"]
fn vm_the_graph_of_a_program_that_cannot_be_executed_shows_which_function_rejects_it() {
    if !can_trace() || !kernel_has_graph() {
        return;
    }
    let program = bad_program();
    let (code, reading, told) =
        graph(&["--function", "bprm_execve", "--param", "lines=100000", "--", program.to_str().unwrap()]);
    fs::remove_file(&program).unwrap();
    assert_eq!(code, 0, "{told}");
    let all = calls(&reading);
    let last = |name: &str| all.iter().rposition(|call| call["function"] == name);
    let signal = last("force_fatal_sig").or_else(|| last("force_sigsegv")).expect("the kernel kills it");
    let mapping = last("vm_mmap").unwrap();
    assert!(mapping < signal, "the mapping is tried, and then the signal sent");
    let depth = |at: usize| all[at]["depth"].as_u64().unwrap();
    assert!(
        depth(mapping + 1) <= depth(mapping),
        "vm_mmap rejects it without a call of its own: {:?}",
        all[mapping + 1]
    );
    let first = all.iter().position(|call| call["function"] == "vm_mmap").unwrap();
    assert!(depth(first + 1) > depth(first), "the part that fits was mapped");
}

#[test]
#[ignore = "needs: root, tracefs, the tracer function_graph in an instance"]
fn vm_the_graph_of_ls_reads_the_directory() {
    if !can_trace() || !kernel_has_graph() {
        return;
    }
    let (code, reading, told) = graph(&["--param", "lines=100000", "--", "ls", "/proc/self"]);
    assert_eq!(code, 0, "{told}");
    let all = calls(&reading);
    let tasks: BTreeSet<&str> = all.iter().filter_map(|call| call["task"].as_str()).collect();
    assert!(tasks.iter().all(|task| task.starts_with("ls (")), "{tasks:?}");
    assert!(all.iter().any(|call| call["function"] == "iterate_dir"), "{told}");
}

#[test]
#[ignore = "needs: root, tracefs"]
fn vm_a_graph_of_nobody_or_of_an_unknown_function_is_refused() {
    if !can_trace() {
        return;
    }
    let (code, _, told) = graph(&["--function", "bprm_execv", "--", "true"]);
    if fs::read_to_string("/sys/kernel/tracing/available_filter_functions").is_ok() {
        assert_eq!(code, 2, "{told}");
        assert!(told.contains("no function \"bprm_execv\"") && told.contains("did you mean `bprm_execve`"), "{told}");
    } else {
        assert_eq!(code, 3, "{told}");
    }
    let (code, _, told) = graph(&["--duration", "1s"]);
    assert_eq!(code, 3, "{told}");
    assert!(told.contains("hint:"), "{told}");
}

/// Whether this kernel lets an instance trace functions; otherwise rdiag must say that it does not.
fn kernel_has_functions() -> bool {
    let own = Own::new();
    let has = fs::write(own.0.join("current_tracer"), "function").is_ok();
    drop(own);
    if !has {
        let before = instances();
        for args in [&["--function", "vfs_read", "--duration", "1s"][..], &["--", "true"]] {
            let (code, _, told) = run("functions", args);
            assert_eq!(code, 3, "{told}");
            assert!(told.contains("tracer") && told.contains("hint:"), "{told}");
        }
        let (code, told) = list("vfs_*");
        assert_eq!(code, 3, "{told}");
        assert_eq!(instances(), before, "nothing is left");
        println!("SKIPPED: this kernel does not trace functions in an instance");
    }
    has
}

/// Exit code and what was told of a list, both ways.
fn list(pattern: &str) -> (i32, String) {
    let output = rdiag().args(["list", "functions", pattern]).output().unwrap();
    let told = [output.stdout, output.stderr].concat();
    (output.status.code().unwrap(), String::from_utf8_lossy(&told).into_owned())
}

fn counts(readings: &[Value]) -> BTreeMap<String, f64> {
    let row = |row: serde_json::Map<String, Value>| {
        (row["function"].as_str().unwrap().to_owned(), row["count"].as_f64().unwrap())
    };
    rows(readings, "table", "functions").into_iter().map(row).collect()
}

#[test]
#[ignore = "needs: root, tracefs, the tracer function in an instance"]
fn vm_calls_of_a_function_are_counted_with_their_caller_and_only_of_the_command() {
    if !can_trace() || !kernel_has_functions() {
        return;
    }
    let other = Load::start(1, "sh", &["-c", "while :; do cd /; done"]);
    let program = "import os\nfor _ in range(70): os.chdir('/')";
    let args = ["--function", "__x64_sys_chdir,set_fs_pwd", "--param", "lines=5", "--", "python3", "-c", program];
    let (code, reading, told) = run("functions", &args);
    assert_eq!(code, 0, "{told}");
    let readings = [reading];
    assert_nothing_lost(&readings);
    let expected = [("__x64_sys_chdir", 70.0), ("set_fs_pwd", 70.0)].map(|(name, count)| (name.to_owned(), count));
    assert_eq!(counts(&readings), BTreeMap::from(expected));
    let callers = rows(&readings, "table", "callers");
    assert_eq!(callers.len(), 2, "each has one caller: {callers:?}");
    let first = rows(&readings, "events", "calls");
    assert_eq!(first.len(), 5);
    let times: Vec<f64> = first.iter().map(|call| call["time"].as_f64().unwrap()).collect();
    assert!(times.is_sorted() && times[0] > 0.0, "{times:?}");
    let order: Vec<&Value> = first.iter().map(|call| &call["function"]).collect();
    assert_eq!(order[..4], ["__x64_sys_chdir", "set_fs_pwd", "__x64_sys_chdir", "set_fs_pwd"]);
    assert_eq!(first[4]["name"], "python3");
    drop(other);
    // What is more than the budget stops it, though the program does little, and what was seen is kept.
    let before = instances();
    let program = Load::start(1, "python3", &["-c", "import time\nwhile True: time.sleep(0.01)"]);
    let pid = program.pids()[0].to_string();
    let args = ["--function", "schedule", "--pid", &pid, "--budget", "0.001%", "--duration", "60s"];
    let (code, reading, told) = run("functions", &args);
    assert_eq!(code, 0, "{told}");
    let notes = reading["notes"].to_string();
    assert!(notes.contains("stopped itself after") && notes.contains("events per second"), "{notes}");
    let (seconds, cost) = (reading["seconds"].as_f64().unwrap(), &reading["cost"]);
    assert!(seconds < 50.0 && cost["of"] == "events", "{seconds} s, {cost}: {notes}");
    assert!(counts(&[reading]).get("schedule").is_some_and(|count| *count > 0.0));
    assert_eq!(instances(), before, "nothing is left");
}

#[test]
#[ignore = "needs: root, tracefs, the tracer function in an instance"]
fn vm_functions_are_chosen_by_pattern_and_by_module_and_listed_as_the_kernel_takes_them() {
    if !can_trace() || !kernel_has_functions() {
        return;
    }
    let (code, reading, told) = run("functions", &["--function", "*balance*", "--duration", "3s"]);
    assert_eq!(code, 0, "{told}");
    let seen = counts(&[reading]);
    assert!(!seen.is_empty() && seen.keys().all(|name| name.contains("balance")), "{seen:?}");
    let (code, listed) = list("*balance*");
    assert_eq!(code, 0, "{listed}");
    assert!(
        seen.keys().all(|name| listed.lines().any(|line| line.split_whitespace().next() == Some(name))),
        "{listed}"
    );
    assert!(listed.lines().all(|line| line.contains("balance")), "{listed}");
    assert!(Command::new("modprobe").arg("null_blk").status().unwrap().success());
    let (code, listed) = list(":mod:null_blk");
    assert_eq!(code, 0, "{listed}");
    assert!(listed.lines().count() > 5 && listed.lines().all(|line| line.ends_with("null_blk")), "{listed}");
    // Requests may be handed to the driver by a thread of the kernel, so it is not the reader that is followed.
    let mut reader = Command::new("sh")
        .args([
            "-c",
            "while :; do dd if=/dev/nullb0 of=/dev/null bs=4k count=9 iflag=direct 2>/dev/null; sleep 0.1; done",
        ])
        .spawn()
        .unwrap();
    let (code, reading, told) = run("functions", &["--function", ":mod:null_blk", "--duration", "5s"]);
    let _ = reader.kill();
    let _ = reader.wait();
    assert_eq!(code, 0, "{told}");
    let seen = counts(&[reading]);
    assert!(seen.get("null_queue_rq").is_some_and(|count| *count >= 9.0), "{seen:?}");
    assert!(
        seen.keys().all(|name| listed.lines().any(|line| line.split_whitespace().next() == Some(name))),
        "{seen:?}"
    );
}

#[test]
#[ignore = "needs: root, tracefs, the tracer function in an instance"]
fn vm_what_may_not_be_traced_is_refused_before_anything_is() {
    if !can_trace() || !kernel_has_functions() {
        return;
    }
    let before = instances();
    for (args, expected, says) in [
        (&["--duration", "1s"][..], 3, "slow down the whole host"),
        (&["--function", "*", "--duration", "1s"], 3, "at most 1000"),
        (&["--function", "vfs_reed", "--duration", "1s"], 2, "did you mean `vfs_read`"),
        (&["--function", ":mod:no_such_module", "--duration", "1s"], 2, "lists no function"),
        (&["--function", "vfs_read:traceoff", "--duration", "1s"], 2, "no function of the kernel"),
    ] {
        let (code, _, told) = run("functions", args);
        assert_eq!(code, expected, "{told}");
        assert!(told.contains(says), "{told}");
    }
    let (code, told) = list(":mod:no_such_module");
    assert_eq!(code, 3, "{told}");
    assert!(told.contains("no_such_module"), "{told}");
    assert_eq!(instances(), before);
    assert_eq!(fs::read_to_string(format!("{TRACING}/current_tracer")).unwrap().trim(), "nop");
}

#[test]
#[ignore = "needs: root, tracefs, the tracers function and function_graph in instances"]
fn vm_the_graph_has_every_call_that_the_tracer_of_functions_sees_at_the_same_time() {
    if !can_trace() || !kernel_has_graph() || !kernel_has_functions() {
        return;
    }
    // What nothing but a change of directory calls in this program.
    const PATTERNS: &str = "*chdir*,filename_lookup*,path_lookupat*,path_init*,link_path_walk*,set_fs_pwd,getname*";
    let mut script = Script::start("for _ in range(40): os.chdir('/usr/bin')");
    let pid = script.pid().to_string();
    let mut tree = Vec::new();
    let listed = probed(&["functions", "--pid", &pid, "--top", "10000", "--function", PATTERNS], || {
        let args = ["graph", "--pid", &pid, "--function", "__x64_sys_chdir", "--param", "lines=100000"];
        tree = probed(&args, || drop(script.work()));
    });
    assert_nothing_lost(&listed);
    assert_nothing_lost(&tree);
    let listed = counts(&listed);
    let mut drawn: BTreeMap<String, f64> = BTreeMap::new();
    for call in calls(&tree[0]) {
        *drawn.entry(call["function"].as_str().unwrap().to_owned()).or_default() += 1.0;
    }
    assert_eq!(drawn.get("__x64_sys_chdir"), Some(&40.0));
    assert!(listed.len() >= 4, "{listed:?}");
    drawn.retain(|name, _| listed.contains_key(name));
    assert_eq!(drawn, listed);
}

/// What others would notice of the global tracing.
fn global_state() -> BTreeMap<&'static str, String> {
    let files = ["current_tracer", "tracing_on", "trace_clock", "set_ftrace_pid", "set_event", "options/function-fork"];
    let content = |file: &'static str| (file, fs::read_to_string(format!("{TRACING}/{file}")).unwrap());
    let trace = fs::read_to_string(format!("{TRACING}/trace")).unwrap();
    let recorded = trace.lines().filter(|line| !line.starts_with('#')).count().to_string();
    files.into_iter().map(content).chain([("trace", recorded)]).collect()
}

#[test]
#[ignore = "needs: root, tracefs, the tracer function_graph in the global buffer alone"]
fn vm_the_global_tracing_is_taken_where_it_must_be_while_it_is_free_and_is_given_back_at_every_end() {
    if !can_trace() {
        return;
    }
    let has_tracer = |tracers: &str| tracers.split_whitespace().any(|tracer| tracer == "function_graph");
    let own = Own::new();
    let in_instance = has_tracer(&fs::read_to_string(own.0.join("available_tracers")).unwrap());
    drop(own);
    let in_global = has_tracer(&fs::read_to_string(format!("{TRACING}/available_tracers")).unwrap());
    if in_instance || !in_global {
        return println!("SKIPPED: nothing has to be traced globally on this kernel");
    }
    let (before, others) = (global_state(), instances());
    let args = |seconds| ["--function", "hrtimer_nanosleep", "--param", "global=true", "--", "sleep", seconds];
    let (code, reading, told) = graph(&args("0.4"));
    assert_eq!(code, 0, "{told}");
    assert!(reading["attached"][0]["back_end"].as_str().unwrap().contains("global"), "{}", reading["attached"]);
    let outermost: Vec<&Value> = calls(&reading).iter().filter(|call| call["depth"] == 0).collect();
    assert_eq!(outermost.len(), 1, "{outermost:#?}");
    assert!((0.4..0.6).contains(&outermost[0]["seconds"].as_f64().unwrap()), "{outermost:#?}");
    assert!(calls(&reading).len() > 3, "what it calls is there too: {told}");
    assert_eq!((global_state(), instances()), (before.clone(), others.clone()));

    let enable = format!("{TRACING}/events/sched/sched_switch/enable");
    fs::write(&enable, "1").unwrap();
    let used = fs::read_to_string(format!("{TRACING}/set_event")).unwrap();
    let (code, _, told) = graph(&args("0.1"));
    assert!(code == 3 && told.contains("somebody uses the kernel's global tracing: set_event holds"), "{told}");
    assert_eq!(fs::read_to_string(format!("{TRACING}/set_event")).unwrap(), used);
    fs::write(&enable, "0").unwrap();
    fs::write(format!("{TRACING}/trace"), "").unwrap();
    assert_eq!((global_state(), instances()), (before.clone(), others.clone()));

    let mut command = Command::new(rdiag().get_program());
    let pid = std::process::id().to_string();
    command.args(["probe", "graph", "--param", "global=true", "--duration", "60s", "--pid", &pid]);
    let mut killed = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let tracer = || fs::read_to_string(format!("{TRACING}/current_tracer")).unwrap();
    assert!(wait_until(40, || tracer().trim() == "function_graph"));
    killed.kill().unwrap();
    killed.wait().unwrap();
    assert_eq!(tracer().trim(), "function_graph", "the kernel goes on");
    let (code, _, told) = run("events", &["--param", "event=sched:sched_process_exec", "--duration", "200ms"]);
    assert_eq!(code, 0, "{told}");
    assert_eq!((global_state(), instances()), (before, others));
}
