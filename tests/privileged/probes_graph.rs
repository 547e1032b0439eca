//! The tracer of calls: trees of them. Where a kernel does not have it, rdiag says so.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use serde_json::Value;

use super::probes_functions::{counts, kernel_has_functions};
use super::probing::{Script, assert_nothing_lost, probed};
use super::tracefs::{INSTANCES, Own, TRACING, can_trace, instance_of, instances, kill_with_its_helper, run};
use crate::support::{Load, rdiag, skip, wait_until};

fn graph(args: &[&str]) -> (i32, Value, String) {
    run("graph", args)
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
        skip("this kernel has no function_graph for instances");
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

#[test]
#[ignore = "needs: root, tracefs, the tracer function_graph in an instance"]
fn vm_a_graph_stops_at_its_budget_and_what_is_killed_is_removed_by_the_next_start() {
    if !can_trace() || !kernel_has_graph() {
        return;
    }
    let before = instances();
    let program = Load::start(1, "python3", &["-c", "import time\nwhile True: time.sleep(0.01)"]);
    let pid = program.pids()[0].to_string();
    let asked = ["--function", "hrtimer_nanosleep", "--pid", &pid, "--duration", "60s", "--budget"];
    let (code, reading, told) = graph(&[&asked[..], &["0.001%"]].concat());
    assert_eq!(code, 5, "{told}");
    let notes = reading["notes"].to_string();
    assert!(notes.contains("stopped itself after") && notes.contains("events per second"), "{notes}");
    let (seconds, cost) = (reading["seconds"].as_f64().unwrap(), &reading["cost"]);
    assert!(seconds < 50.0 && cost["of"] == "events", "{seconds} s, {cost}: {notes}");
    assert!(
        calls(&reading).iter().any(|call| call["function"] == "hrtimer_nanosleep"),
        "what was seen is kept: {told}"
    );
    assert_eq!(instances(), before, "nothing is left");

    let mut command = Command::new(rdiag().get_program());
    command.args(["probe", "graph"]).args(asked).arg("100%").stdout(Stdio::null()).stderr(Stdio::null());
    let mut killed = command.spawn().unwrap();
    let traces = |name: String| fs::read_to_string(format!("{INSTANCES}/{name}/current_tracer")).unwrap_or_default();
    assert!(wait_until(40, || instance_of(killed.id()).map(traces).is_some_and(|tracer| tracer.trim() != "nop")));
    kill_with_its_helper(&mut killed);
    assert!(instance_of(killed.id()).is_some(), "the kernel keeps what a killed process has made, and goes on tracing");
    let (code, _, told) = run("events", &["--param", "event=sched:sched_process_exec", "--duration", "200ms"]);
    assert_eq!(code, 0, "{told}");
    assert_eq!(instances(), before);
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
    // What the kernel does to it is passed on: 128 and SIGSEGV.
    assert_eq!(code, 139, "{told}");
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
        return skip("nothing has to be traced globally on this kernel");
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
    assert!(code == 3 && told.contains("the kernel's global tracing is in use: set_event holds"), "{told}");
    assert_eq!(fs::read_to_string(format!("{TRACING}/set_event")).unwrap(), used);
    fs::write(&enable, "0").unwrap();
    fs::write(format!("{TRACING}/trace"), "").unwrap();
    assert_eq!((global_state(), instances()), (before.clone(), others.clone()));

    let pid = std::process::id().to_string();
    let tracer = || fs::read_to_string(format!("{TRACING}/current_tracer")).unwrap();
    let start = || {
        let mut command = Command::new(rdiag().get_program());
        command.args(["probe", "graph", "--param", "global=true", "--duration", "60s", "--pid", &pid]);
        let child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        assert!(wait_until(40, || tracer().trim() == "function_graph"));
        child
    };
    let mut killed = start();
    killed.kill().unwrap();
    killed.wait().unwrap();
    let is_back = || (global_state(), instances()) == (before.clone(), others.clone());
    assert!(wait_until(60, is_back), "nobody gives it back");
    kill_with_its_helper(&mut start());
    assert_eq!(tracer().trim(), "function_graph", "the kernel goes on");
    let (code, _, told) = run("events", &["--param", "event=sched:sched_process_exec", "--duration", "200ms"]);
    assert_eq!(code, 0, "{told}");
    assert_eq!((global_state(), instances()), (before, others));
}
