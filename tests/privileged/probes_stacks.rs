//! Blocked time by stack, on programs whose stacks and sleeps are known.

use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::support::{Load, Need, alone, has, rdiag};

/// A program with frame pointers that sleeps 50 ms at a time, where its argument says.
const PROGRAM: &str = r#"
#define _GNU_SOURCE
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static struct timespec nap = {0, 50000000};

__attribute__((noinline)) static long sleeps_here(void)
{
	long result;
	__asm__ volatile("syscall" : "=a"(result) : "a"(SYS_nanosleep), "D"(&nap), "S"(0) : "rcx", "r11", "memory");
	return result + 1;
}

__attribute__((noinline)) static long calls_it(void)
{
	return sleeps_here() + 1;
}

/* Code that no file holds, as a compiler at run time makes it: mov eax, nanosleep; syscall; ret. */
static long compiled(void)
{
	static long (*code)(struct timespec *, void *);
	if (!code) {
		char path[64], bytes[] = {'\xb8', 35, 0, 0, 0, '\x0f', '\x05', '\xc3'};
		code = mmap(0, 4096, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		memcpy((void *)code, bytes, sizeof bytes);
		snprintf(path, sizeof path, "/tmp/perf-%d.map", getpid());
		FILE *map = fopen(path, "w");
		fprintf(map, "%lx 8 jit::sleeps_there\n", (unsigned long)code);
		fclose(map);
	}
	return code(&nap, 0) + 1;
}

/* The parent of a vfork waits uninterruptibly. */
static long vforks(void)
{
	if (!vfork()) {
		nanosleep(&nap, 0);
		_exit(0);
	}
	return 1;
}

int main(int argc, char **argv)
{
	if (!strcmp(argv[1], "stuck") && !vfork()) {
		nap.tv_sec = 60;
		nanosleep(&nap, 0);
		_exit(0);
	}
	for (int i = 0; i < (argc > 2 ? 40 : 400); i++) {
		if (!strcmp(argv[1], "calls"))
			calls_it();
		else if (!strcmp(argv[1], "compiled"))
			compiled();
		else
			vforks();
	}
	return 0;
}
"#;

const CC: [Need; 2] = [Need::Root, Need::Tool("cc")];

/// The program, where guests of the matrix can run it too.
fn program() -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let (source, binary) = (folder.path().join("sleeper.c"), folder.path().join("sleeper"));
    std::fs::write(&source, PROGRAM).unwrap();
    let flags = ["-O0", "-g", "-fno-omit-frame-pointer", "-fno-optimize-sibling-calls", "-o"];
    let status = std::process::Command::new("cc").args(flags).arg(&binary).arg(&source).status().unwrap();
    assert!(status.success());
    (folder, binary)
}

fn path_of(path: &Path) -> String {
    path.display().to_string()
}

fn probe(name: &str, args: &[&str]) -> Value {
    let output = rdiag().args(["probe", name, "--format", "json", "--duration", "3s"]).args(args).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

fn stacks(result: &Value) -> &Value {
    result.pointer("/outputs/0/stacks").unwrap()
}

/// The frames of a stack, outermost first.
fn frames<'r>(result: &'r Value, stack: &Value) -> Vec<&'r Value> {
    let indices = stack["frames"].as_array().unwrap().iter();
    indices.map(|at| stacks(result).pointer(&format!("/frames/{at}")).unwrap()).collect()
}

fn names<'r>(result: &'r Value, stack: &Value) -> Vec<&'r str> {
    frames(result, stack).iter().map(|frame| frame["name"].as_str().unwrap()).collect()
}

/// The largest stack.
fn first(result: &Value) -> &Value {
    stacks(result).pointer("/stacks/0").unwrap()
}

fn mean(stack: &Value) -> f64 {
    stack["value"].as_f64().unwrap() / stack["count"].as_f64().unwrap()
}

#[test]
#[ignore = "needs: root, eBPF, cc"]
fn blocked_time_is_that_of_the_sleeps_and_its_stack_names_every_function() {
    let _alone = alone();
    if !has(&CC) {
        return;
    }
    let (_folder, binary) = program();
    let load = Load::start(1, &path_of(&binary), &["calls"]);
    let pid = load.pids()[0];
    let result = probe("offcputime", &["--pid", &pid.to_string()]);
    let stack = first(&result);
    let names = names(&result, stack);
    let at = |name: &str| names.iter().position(|known| *known == name).unwrap_or_else(|| panic!("{name}: {names:?}"));
    assert!(at("main") < at("calls_it") && at("calls_it") < at("sleeps_here"), "{names:?}");
    let kernel: Vec<&Value> = frames(&result, stack).into_iter().filter(|frame| frame["kernel"] == true).collect();
    assert!(kernel.iter().any(|frame| frame["name"].as_str().unwrap().contains("nanosleep")), "{names:?}");
    let here = frames(&result, stack)[at("sleeps_here")];
    assert!(here["line"].as_str().unwrap().contains("sleeper.c:"), "{here}");
    assert_eq!((here["object"].as_str(), stack["pid"].as_u64()), (Some("sleeper"), Some(u64::from(pid))));
    assert!((mean(stack) / 0.05 - 1.0).abs() < 0.05, "{stack}");
    let whole = stack["value"].as_f64().unwrap();
    let window = result["seconds"].as_f64().unwrap();
    assert!(whole < window + 0.05 && whole > window * 0.95 - 0.05, "{whole} of {window}");
    let row = &result["outputs"][1]["table"]["rows"][0]["cells"];
    assert_eq!((row[0].as_str(), row[1].as_str()), (Some("sleeper"), Some(pid.to_string().as_str())), "{row}");
    assert!((row[2].as_f64().unwrap() - whole).abs() < 1e-6, "{row}");
}

#[test]
#[ignore = "needs: root, eBPF, cc, unshare"]
fn a_program_that_only_its_own_mount_namespace_has_is_named_and_no_other_process_appears() {
    let _alone = alone();
    if !has(&[Need::Root, Need::Tool("cc"), Need::Tool("unshare")]) {
        return;
    }
    let (_folder, binary) = program();
    let script = format!("mount -t tmpfs none /mnt && cp {} /mnt/inner && exec /mnt/inner calls", path_of(&binary));
    let load = Load::start(1, "unshare", &["-m", "sh", "-c", &script]);
    std::thread::sleep(std::time::Duration::from_millis(500));
    let pid = load.pids()[0];
    let result = probe("offcputime", &["--pid", &pid.to_string()]);
    let names = names(&result, first(&result));
    assert!(names.contains(&"main") && names.contains(&"calls_it") && names.contains(&"sleeps_here"), "{names:?}");
    let all = stacks(&result)["stacks"].as_array().unwrap();
    assert!(all.iter().all(|stack| stack["pid"] == pid && stack["owner"] == "inner"), "{all:#?}");
}

#[test]
#[ignore = "needs: root, eBPF, cc"]
fn code_compiled_at_run_time_has_its_name_and_a_process_that_has_ended_keeps_its_names() {
    let _alone = alone();
    if !has(&CC) {
        return;
    }
    let (_folder, binary) = program();
    // It ends after 40 sleeps, 2 seconds, before the window does.
    let load = Load::start(1, &path_of(&binary), &["compiled", "short"]);
    let pid = load.pids()[0];
    let result = probe("offcputime", &["--pid", &pid.to_string()]);
    let _ = std::fs::remove_file(format!("/tmp/perf-{pid}.map"));
    let stack = first(&result);
    assert!(names(&result, stack).contains(&"jit::sleeps_there"), "{:?}", names(&result, stack));
    assert!(stack["count"].as_u64().unwrap() < 41, "{stack}");
}

#[test]
#[ignore = "needs: root, eBPF, cc"]
fn stacks_come_as_folded_text_in_microseconds_and_as_a_picture_that_loads_nothing() {
    let _alone = alone();
    if !has(&CC) {
        return;
    }
    let (_folder, binary) = program();
    let load = Load::start(1, &path_of(&binary), &["calls"]);
    let pid = load.pids()[0].to_string();
    let of = |format: &str| {
        let args = ["probe", "offcputime", "--pid", &pid, "--duration", "2s", "--format", format];
        let output = rdiag().args(args).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    };
    let folded = of("folded");
    let line =
        folded.lines().find(|line| line.contains(";main;calls_it;sleeps_here;")).unwrap_or_else(|| panic!("{folded}"));
    assert!(line.starts_with("sleeper;"), "{line}");
    let microseconds: f64 = line.rsplit(' ').next().unwrap().parse().unwrap();
    assert!((1_500_000.0..2_300_000.0).contains(&microseconds), "{line}");
    let svg = of("svg");
    assert!(svg.starts_with("<?xml") && svg.trim_end().ends_with("</svg>"), "{svg}");
    assert!(svg.contains("<title>calls_it: ") && !svg.contains("src=") && !svg.contains("href"), "{svg}");
}

#[test]
#[ignore = "needs: root, eBPF, cc"]
fn only_uninterruptible_waits_are_told_when_asked_for() {
    let _alone = alone();
    if !has(&CC) {
        return;
    }
    let (_folder, binary) = program();
    let sleeper = Load::start(1, &path_of(&binary), &["calls"]);
    let forker = Load::start(1, &path_of(&binary), &["vforks"]);
    let pids = format!("{},{}", sleeper.pids()[0], forker.pids()[0]);
    let result = probe("offcputime", &["--pid", &pids, "--param", "uninterruptible=true"]);
    let all = stacks(&result)["stacks"].as_array().unwrap();
    assert!(!all.is_empty() && all.iter().all(|stack| stack["pid"] == forker.pids()[0]), "{all:#?}");
    assert!(names(&result, first(&result)).iter().any(|name| name.contains("vfork")), "{all:#?}");
    assert!((mean(first(&result)) / 0.05 - 1.0).abs() < 0.1, "{}", first(&result));
}

#[test]
#[ignore = "needs: root, eBPF, cc"]
fn a_task_that_waits_uninterruptibly_through_the_whole_window_is_listed_with_its_kernel_stack() {
    let _alone = alone();
    if !has(&CC) {
        return;
    }
    let (_folder, binary) = program();
    let load = Load::start(1, &path_of(&binary), &["stuck"]);
    let pid = load.pids()[0];
    std::thread::sleep(std::time::Duration::from_millis(500));
    let result = probe("offcputime", &["--pid", &pid.to_string(), "--param", "uninterruptible=true"]);
    let table = result.pointer("/outputs/2/table").unwrap();
    assert_eq!(table["id"], "stuck");
    let cells = &table["rows"][0]["cells"];
    assert_eq!((cells[0].as_str(), cells[1].as_str()), (Some("sleeper"), Some(pid.to_string().as_str())), "{table:#}");
    assert!(cells[3].is_null(), "it fell asleep before the probe began: {cells}");
    assert!(cells[4].as_str().unwrap().contains("vfork") || cells[4].as_str().unwrap().contains("clone"), "{cells}");
    assert_eq!(stacks(&result)["stacks"].as_array().unwrap().len(), 0);
}

#[test]
#[ignore = "needs: root, eBPF, python3"]
fn waits_below_the_threshold_are_summed_without_a_stack() {
    let _alone = alone();
    if !has(&[Need::Root, Need::Tool("python3")]) {
        return;
    }
    let load = Load::start(1, "python3", &["-c", "import time\nwhile True: time.sleep(0.1)"]);
    let result = probe("offcputime", &["--pid", &load.pids()[0].to_string(), "--threshold", "5s"]);
    assert_eq!(stacks(&result)["stacks"].as_array().unwrap().len(), 0);
    let others = stacks(&result)["others"].as_f64().unwrap();
    let window = result["seconds"].as_f64().unwrap();
    assert!(others > window * 0.8 && others < window + 0.12, "{others} of {window}");
}

/// One process that writes into a pipe every 50 ms, and its child that waits for it.
const PIPE: &str = "
import os, time
r, w = os.pipe()
if os.fork():
    open('/proc/self/comm', 'w').write('the_giver')
    while True:
        time.sleep(0.05)
        os.write(w, b'x')
open('/proc/self/comm', 'w').write('the_taker')
while True:
    os.read(r, 1)
";

#[test]
#[ignore = "needs: root, eBPF, python3"]
fn vm_a_wait_has_the_stack_of_whoever_ended_it_and_a_timer_is_nobody() {
    let _alone = alone();
    if !has(&[Need::Root, Need::Tool("python3")]) {
        return;
    }
    let _load = Load::start(1, "python3", &["-c", PIPE]);
    std::thread::sleep(std::time::Duration::from_secs(2));
    let result = probe("wakeuptime", &["--comm", "the_taker"]);
    let stack = first(&result);
    assert_eq!(stack["owner"], "the_giver", "{stack}");
    let of = names(&result, stack);
    assert_eq!(*of.last().unwrap(), "wakes the_taker");
    assert!(of.iter().any(|name| name.contains("pipe_write")), "{of:?}");
    assert!(!of.iter().any(|name| name.starts_with("bpf_")), "{of:?}");
    let result = probe("wakeuptime", &["--comm", "the_giver"]);
    assert_eq!(first(&result)["owner"], "interrupt", "{:?}", names(&result, first(&result)));
    let result = probe("offwaketime", &["--comm", "the_taker"]);
    let of = names(&result, first(&result));
    let at = |part: &str| of.iter().position(|name| name.contains(part)).unwrap_or_else(|| panic!("{part}: {of:?}"));
    assert!(at("pipe_read") < at("woken by the_giver") && at("woken by the_giver") < at("pipe_write"), "{of:?}");
}

#[test]
#[ignore = "needs: root, eBPF, python3"]
fn vm_a_sleep_has_its_time_and_the_names_of_kernel_and_library() {
    let _alone = alone();
    if !has(&[Need::Root, Need::Tool("python3")]) {
        return;
    }
    let load = Load::start(1, "python3", &["-c", "import time\nwhile True: time.sleep(0.2)"]);
    std::thread::sleep(std::time::Duration::from_secs(2));
    let result = probe("offcputime", &["--pid", &load.pids()[0].to_string()]);
    let stack = first(&result);
    let named = |kernel: bool| {
        let all = frames(&result, stack).into_iter().filter(|frame| (frame["kernel"] == true) == kernel);
        all.map(|frame| frame["name"].as_str().unwrap()).any(|name| name.contains("nanosleep"))
    };
    assert!(named(true) && named(false), "{:?}", names(&result, stack));
    // An emulated machine is late, never early.
    assert!(mean(stack) > 0.199 && mean(stack) < 0.24, "{stack}");
}
