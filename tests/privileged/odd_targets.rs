//! Method R of targets that are not like others: of 32 bits, in namespaces, of the kernel, gone, with an io_uring.

use std::os::unix::fs::PermissionsExt;
use std::process::{Child, Command, Stdio};

use serde_json::Value;

use crate::support::{Need, alone, beside_others, has, rdiag, skip};

const NEEDS: &[Need] = &[Need::Root, Need::Path("/sys/kernel/btf/vmlinux")];

/// A process that ends with the test.
struct Killed(Child);

impl Drop for Killed {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn started(program: &str, args: &[&str]) -> Killed {
    let child = Command::new(program).args(args).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    std::thread::sleep(std::time::Duration::from_millis(500));
    Killed(child)
}

/// The first line that it prints, a number.
fn told(process: &mut Killed) -> u32 {
    use std::io::{BufRead as _, BufReader};
    let mut line = String::new();
    BufReader::new(process.0.stdout.take().unwrap()).read_line(&mut line).unwrap();
    line.trim().parse().unwrap()
}

fn profile(args: &[&str]) -> Value {
    let mut command = rdiag();
    command.args(["run", "method-r", "--no-guided", "--budget", "100%", "--format", "json", "--out", "-"]).args(args);
    let output = command.output().unwrap();
    assert!(output.status.success(), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    let profile = report.get("profile").cloned().expect("a profile");
    let rows = profile.get("components").and_then(Value::as_array).unwrap();
    let parts: f64 = rows.iter().map(|row| row["seconds"].as_f64().unwrap()).sum();
    let whole = profile.get("task_seconds").and_then(Value::as_f64).unwrap();
    assert!((parts / whole - 1.0).abs() < 0.02, "{args:?}: {parts} of {whole} s");
    profile
}

fn share(profile: &Value, component: &str) -> f64 {
    let rows = profile["components"].as_array().unwrap();
    rows.iter().find(|row| row["id"] == component).map_or(0.0, |row| row["share"].as_f64().unwrap())
}

fn of_pid(pid: u32) -> Value {
    profile(&["--duration", "2s", "--pid", &pid.to_string()])
}

/// What it says to a target that it refuses.
fn refusal(pid: u32) -> String {
    let output = rdiag().args(["run", "method-r", "--no-guided", "--pid", &pid.to_string()]).output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    String::from_utf8(output.stderr).unwrap()
}

/// An i386 program that sleeps 40 times for 20 ms, by system calls of its own (int 0x80).
fn program_of_32_bits() -> Vec<u8> {
    const BASE: u32 = 0x0804_8000;
    const HEADERS: u32 = 84;
    let mut code = vec![0xbe, 40, 0, 0, 0, 0xb8, 162, 0, 0, 0, 0xbb];
    // After the 31 bytes of code: struct timespec.
    code.extend((BASE + HEADERS + 31).to_le_bytes());
    code.extend([0x31, 0xc9, 0xcd, 0x80, 0x4e, 0x75, 0xef, 0xb8, 1, 0, 0, 0, 0x31, 0xdb, 0xcd, 0x80]);
    assert_eq!(code.len(), 31);
    code.extend([0; 4]);
    code.extend(20_000_000_u32.to_le_bytes());
    let size = HEADERS + code.len() as u32;
    let mut file = vec![0x7f, b'E', b'L', b'F', 1, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2, 0, 3, 0];
    // Version, entry, program headers, no sections, flags; then the sizes of the headers.
    [1, BASE + HEADERS, 52, 0, 0].iter().for_each(|word: &u32| file.extend(word.to_le_bytes()));
    [52, 32, 1, 0, 0, 0].iter().for_each(|half: &u16| file.extend(half.to_le_bytes()));
    // One segment, all of the file, to be read and executed.
    [1, 0, BASE, BASE, size, size, 5, 4096].iter().for_each(|word: &u32| file.extend(word.to_le_bytes()));
    file.extend(code);
    file
}

#[test]
#[ignore = "needs: root, eBPF"]
fn a_program_of_32_bits_is_known_by_its_own_calls() {
    let _beside = beside_others();
    if !has(NEEDS) {
        return;
    }
    if !cfg!(target_arch = "x86_64") {
        return skip("the program of 32 bits is one for x86");
    }
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("sleeper32");
    std::fs::write(&path, program_of_32_bits()).unwrap();
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
    if Command::new(&path).status().map(|status| status.success()).ok() != Some(true) {
        return skip("this kernel runs no programs of 32 bits");
    }
    let profile = profile(&["--", path.to_str().unwrap()]);
    assert_eq!(profile["level"], "L3");
    assert!(share(&profile, "wait.sleep") > 0.8, "{:#}", profile["components"]);
    let sleep = profile["components"].as_array().unwrap().iter().find(|row| row["id"] == "wait.sleep").unwrap();
    assert_eq!(sleep["count"], 40, "{sleep:#}");
}

#[test]
#[ignore = "needs: root, eBPF"]
fn threads_of_the_kernel_wait_for_work() {
    let _beside = beside_others();
    if !has(NEEDS) {
        return;
    }
    assert!(share(&of_pid(2), "kthread.idle") > 0.9);
}

#[test]
#[ignore = "needs: root, eBPF, python3"]
fn a_thread_and_a_process_that_has_ended_are_refused_with_what_they_are() {
    let _beside = beside_others();
    if !has(NEEDS) || !has(&[Need::Tool("python3")]) {
        return;
    }
    let thread = "import threading,time
t=threading.Thread(target=time.sleep,args=(60,),daemon=True);t.start();print(t.native_id,flush=True);time.sleep(60)";
    let mut process = started("python3", &["-c", thread]);
    let (pid, tid) = (process.0.id(), told(&mut process));
    let text = refusal(tid);
    assert!(text.contains(&format!("{tid} is a thread of the process {pid}")), "{text}");
    let zombie = "import os,time
p=os.fork()
if p==0: os._exit(0)
print(p,flush=True); time.sleep(60)";
    let mut process = started("python3", &["-c", zombie]);
    let text = refusal(told(&mut process));
    assert!(text.contains("has ended") && text.contains(&process.0.id().to_string()), "{text}");
}

#[test]
#[ignore = "needs: root, eBPF, unshare"]
fn a_process_in_a_namespace_is_seen_from_outside_and_from_inside_not_by_the_kernels_numbers() {
    let _beside = beside_others();
    if !has(NEEDS) || !has(&[Need::Tool("unshare")]) {
        return;
    }
    let outer = started("unshare", &["--pid", "--fork", "--kill-child", "sleep", "60"]);
    let children = format!("/proc/{0}/task/{0}/children", outer.0.id());
    let inner: u32 = std::fs::read_to_string(children).unwrap().trim().parse().unwrap();
    let seen = of_pid(inner);
    assert!(seen["level"] == "L3" && share(&seen, "wait.sleep") > 0.95, "{:#}", seen["components"]);
    // Inside, the process that is number 2 there is meant, not the kernel's number 2.
    let binary = rdiag().get_program().to_str().unwrap().to_owned();
    let script = "sleep 60 & exec \"$0\" run method-r --no-guided --duration 2s --pid $! --format json --out -";
    let args = ["--pid", "--fork", "--kill-child", "--mount-proc", "sh", "-c", script, &binary];
    let output = Command::new("unshare").args(args).output().unwrap();
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    let profile = &report["profile"];
    assert!(profile["level"] != "L3" && share(profile, "wait.sleep") > 0.95, "{:#}", profile["components"]);
    assert!(profile["refused"][0]["why"].as_str().is_some_and(|why| why.contains("namespace")), "{profile:#}");
}

#[test]
#[ignore = "needs: root, eBPF, chrt"]
fn a_task_with_real_time_priority_is_divided_as_any_other() {
    let _alone = alone();
    if !has(NEEDS) || !has(&[Need::Tool("chrt"), Need::Tool("python3")]) {
        return;
    }
    let program = "import time
while True:
  until=time.thread_time()+0.01
  while time.thread_time()<until: pass
  time.sleep(0.03)";
    let process = started("chrt", &["-f", "10", "python3", "-c", program]);
    let profile = of_pid(process.0.id());
    let (cpu, sleep) = (share(&profile, "cpu.user") + share(&profile, "cpu.sys"), share(&profile, "wait.sleep"));
    assert!((cpu - 0.25).abs() < 0.06 && (sleep - 0.75).abs() < 0.06, "{:#}", profile["components"]);
}

/// Reads a pipe that gives a byte every 50 ms, by an io_uring; or every 20 ms, writes each to the log that it is given, and reads a block of
/// that by the ring, with one more word by a worker.
const RING: &str = r#"
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>
#include <linux/io_uring.h>
int main(int count, char **words)
{
	int ends[2], log = count > 1 ? open(words[1], O_CREAT | O_RDWR | O_DIRECT, 0600) : -1;
	static char byte, block[4096] __attribute__((aligned(4096)));
	struct io_uring_params params = {};
	int ring = syscall(__NR_io_uring_setup, 4, &params);
	if (ring < 0 || pipe(ends) || (count > 1 && log < 0))
		return 1;
	if (!fork()) {
		for (int i = 0; i < 2000; i++) {
			usleep(log < 0 ? 50000 : 20000);
			if (write(ends[1], "x", 1) != 1)
				break;
		}
		_exit(0);
	}
	char *sq = mmap(0, params.sq_off.array + params.sq_entries * 4, 3, MAP_SHARED, ring, IORING_OFF_SQ_RING);
	char *cq = mmap(0, params.cq_off.cqes + params.cq_entries * 16, 3, MAP_SHARED, ring, IORING_OFF_CQ_RING);
	struct io_uring_sqe *sqes = mmap(0, params.sq_entries * sizeof(*sqes), 3, MAP_SHARED, ring, IORING_OFF_SQES);
	for (int i = 0; i < 2000; i++) {
		/* Every second request is for the disk. */
		int of_log = log >= 0 && i % 2;
		unsigned tail = *(unsigned *)(sq + params.sq_off.tail), at = tail & (params.sq_entries - 1);
		memset(&sqes[at], 0, sizeof(*sqes));
		sqes[at].opcode = IORING_OP_READ;
		sqes[at].fd = of_log ? log : ends[0];
		sqes[at].flags = of_log && count > 2 ? IOSQE_ASYNC : 0;
		sqes[at].addr = (uintptr_t)(of_log ? block : &byte);
		sqes[at].len = of_log ? sizeof(block) : 1;
		((unsigned *)(sq + params.sq_off.array))[at] = at;
		__atomic_store_n((unsigned *)(sq + params.sq_off.tail), tail + 1, __ATOMIC_RELEASE);
		syscall(__NR_io_uring_enter, ring, 1, 1, IORING_ENTER_GETEVENTS, 0, 0);
		*(unsigned *)(cq + params.cq_off.head) += 1;
		if (log >= 0 && (pwrite(log, block, sizeof(block), 0) != sizeof(block) || fdatasync(log)))
			return 1;
	}
	return 0;
}
"#;

const RING_NEEDS: &[Need] = &[Need::Tool("gcc"), Need::Path("/proc/sys/kernel/io_uring_disabled")];

/// The program above, started with its words.
fn ring(words: &[&str]) -> Killed {
    let folder = tempfile::tempdir().unwrap();
    let (source, program) = (folder.path().join("ring.c"), folder.path().join("ring"));
    std::fs::write(&source, RING).unwrap();
    assert!(Command::new("gcc").arg("-o").arg(&program).arg(&source).status().unwrap().success());
    started(program.to_str().unwrap(), words)
}

#[test]
#[ignore = "needs: root, eBPF, gcc, io_uring"]
fn an_io_uring_on_a_pipe_waits_for_no_disk() {
    let _beside = beside_others();
    if !has(NEEDS) || !has(RING_NEEDS) {
        return;
    }
    let mut process = ring(&[]);
    if process.0.try_wait().unwrap().is_some() {
        return skip("this host allows no io_uring");
    }
    let profile = of_pid(process.0.id());
    assert!(
        share(&profile, "wait.poll") > 0.9 && share(&profile, "io.block.async") < 0.01,
        "{:#}",
        profile["components"]
    );
}

#[test]
#[ignore = "needs: root, eBPF, gcc, io_uring, a disk under /var/tmp"]
fn an_io_uring_of_a_program_that_writes_a_log_waits_for_a_disk_only_where_the_ring_reads_it() {
    let _beside = beside_others();
    if !has(NEEDS) || !has(RING_NEEDS) {
        return;
    }
    let folder = tempfile::tempdir_in("/var/tmp").unwrap();
    let log = folder.path().join("log");
    for words in [vec![log.to_str().unwrap()], vec![log.to_str().unwrap(), "by a worker"]] {
        let mut process = ring(&words);
        if process.0.try_wait().unwrap().is_some() {
            return skip("this host allows no io_uring, or its disk no direct reads");
        }
        let profile = of_pid(process.0.id());
        let rows = profile["components"].as_array().unwrap();
        let of = |id: &str| rows.iter().find(|row| row["id"] == id);
        let count = |id: &str| of(id).and_then(|row| row["count"].as_u64()).unwrap_or(0);
        // A byte comes each 20 ms at most, and a worker waits for work as often. The log is written twice for each, which a busy disk may take
        // long for.
        let most = 110 * words.len() as u64;
        assert!(
            share(&profile, "wait.poll") > 0.3 && (20..=most).contains(&count("wait.poll")),
            "{words:?}: {rows:#?}"
        );
        assert!(count("io.block.write") > 20, "{words:?}: {rows:#?}");
        let (by_ring, sockets) = (count("io.block.async"), count("wait.poll"));
        if by_ring < sockets / 2 {
            return skip("in part: this disk is too fast for a read to be waited for");
        }
        // One for each byte: some of them are not waited for.
        assert!(by_ring <= sockets + sockets / 10 + 2, "{words:?}: {by_ring} and {sockets} of {rows:#?}");
    }
}

#[test]
#[ignore = "needs: root, eBPF, fio"]
fn an_io_uring_and_libaio_on_a_disk_wait_for_the_disk() {
    let _beside = beside_others();
    if !has(NEEDS) || !has(&[Need::Tool("fio")]) {
        return;
    }
    let folder = tempfile::tempdir_in("/var/tmp").unwrap();
    let file = format!("--filename={}/data", folder.path().display());
    for engine in ["io_uring", "libaio"] {
        let ring = format!("--ioengine={engine}");
        let job =
            ["--name=x", "--rw=randread", "--direct=1", "--size=64m", "--iodepth=1", "--time_based", "--runtime=8"];
        let rate = ["--rate_iops=300", "--eta=never", "--output=/dev/null"];
        let process = started("fio", &[&job[..], &rate[..], &[&ring, &file]].concat());
        std::thread::sleep(std::time::Duration::from_millis(1500));
        let children = format!("/proc/{0}/task/{0}/children", process.0.id());
        let Some(worker) = std::fs::read_to_string(children).ok().and_then(|text| text.trim().parse().ok()) else {
            skip(&format!("in part: fio cannot use {engine} on this disk"));
            continue;
        };
        let profile = of_pid(worker);
        let disk = share(&profile, "io.block.async");
        assert!(disk > 0.002 && share(&profile, "wait.poll") < 0.02, "{engine}: {:#}", profile["components"]);
    }
}

#[test]
#[ignore = "needs: root, eBPF"]
fn a_shell_that_waits_for_a_child_is_answered_by_what_the_child_does() {
    let _beside = beside_others();
    if !has(NEEDS) {
        return;
    }
    let profile = profile(&["--", "sh", "-c", "sleep 1; true"]);
    let headline = profile["answer"]["headline"].as_str().unwrap();
    assert!(headline.contains("(sh)") && headline.contains("what that waited for (sleep)"), "{headline}");
    assert_eq!(profile["forecast"]["rows"][0]["id"], "wait.sleep", "{:#}", profile["forecast"]);
}

#[test]
#[ignore = "needs: root, eBPF"]
fn calls_that_are_watched_for_a_part_of_the_time_are_scaled_to_the_whole() {
    let _alone = alone();
    if !has(NEEDS) {
        return;
    }
    let args = ["--duration", "4s", "--comm", "rdiag-steady"];
    let folder = tempfile::tempdir().unwrap();
    let program = folder.path().join("rdiag-steady");
    std::fs::copy("/bin/sh", &program).unwrap();
    let _steady = started(program.to_str().unwrap(), &["-c", "while :; do read -r x < /dev/null; done"]);
    let part = profile(&args);
    let whole = profile(&[&args[..], &["--param", "calls_for=24h"]].concat());
    let watched = part["calls"]["watched_share"].as_f64().unwrap();
    assert!(watched > 0.02 && watched < 0.1, "{watched}");
    assert!(whole["calls"]["watched_share"].is_null());
    let rate = |profile: &Value, name: &str| {
        let rows = profile["calls"]["rows"].as_array().unwrap();
        let row = rows.iter().find(|row| row["name"].as_str().unwrap().starts_with(name)).unwrap();
        row["count"].as_f64().unwrap()
    };
    // The loop is a loop on a busy host, and slower while all of its calls are watched: the ratio of two calls is what holds.
    let ratio = |profile: &Value| rate(profile, "read") / rate(profile, "openat");
    assert!((ratio(&part) / ratio(&whole) - 1.0).abs() < 0.05, "{:#} {:#}", part["calls"], whole["calls"]);
    assert!(rate(&part, "openat") > 0.5 * rate(&whole, "openat"), "{:#} {:#}", part["calls"], whole["calls"]);
}

#[test]
#[ignore = "needs: root, eBPF"]
fn the_calls_of_a_command_are_counted_to_its_end_unless_it_makes_very_many() {
    let _beside = beside_others();
    if !has(NEEDS) {
        return;
    }
    // What it does after the first half second is what counts: nothing of it is seen before.
    let few = "sleep 1; i=0; while [ $i -lt 700 ]; do read -r x < /dev/null; i=$((i + 1)); done";
    let calls = &profile(&["--", "sh", "-c", few])["calls"];
    assert!(calls["watched_share"].is_null(), "{calls:#}");
    let rows = calls["rows"].as_array().unwrap();
    let opened: f64 = rows
        .iter()
        .filter(|row| row["name"].as_str().unwrap().starts_with("openat"))
        .map(|row| {
            // Programs look for their libraries where they are not.
            let errors = row["errors"].as_array().unwrap().iter().map(|error| error[1].as_f64().unwrap());
            row["count"].as_f64().unwrap() - errors.sum::<f64>()
        })
        .sum();
    assert!((700.0..760.0).contains(&opened), "{calls:#}");
    let many = "end=$(($(date +%s) + 3)); while [ $(date +%s) -lt $end ]; do i=0; while [ $i -lt 90000 ]; do read -r x < /dev/null; i=$((i + 1)); done; done";
    let calls = &profile(&["--", "sh", "-c", many])["calls"];
    assert!(calls["watched_share"].as_f64().unwrap() < 0.8, "{calls:#}");
}
