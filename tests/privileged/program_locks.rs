//! Threads that contend for a lock of their program, and threads that look the same: a pool without work, a deadlock.

use serde_json::Value;

use crate::support::{Load, Need, alone, assert_nothing_else_fired, finding, findings, has, live_report};

const NEEDS: &[Need] = &[Need::Root, Need::Tool("cc")];

const BEGINS: &str = r"
#include <pthread.h>
#include <unistd.h>
/* All zero is how they begin. */
static pthread_mutex_t lock;
static pthread_cond_t work;
static int jobs;
static void *run(void *);
static void twelve(void)
{
	pthread_t thread;
	for (int i = 0; i < 12; i++)
		pthread_create(&thread, 0, run, 0);
}
";

/// Each holds the lock for 2 ms, asleep: no CPU is busy.
const CONTENDS: &str = r"
__attribute__((noinline)) static void pay(void)
{
	pthread_mutex_lock(&lock);
	usleep(2000);
	pthread_mutex_unlock(&lock);
}
__attribute__((noinline)) static void serve(void) { for (;;) pay(); }
static void *run(void *x) { serve(); return x; }
int main(void) { twelve(); pause(); }
";

/// A pool that waits for work, of which there is some 200 times a second.
const POOL: &str = r"
static void *run(void *x)
{
	for (;;) {
		pthread_mutex_lock(&lock);
		while (!jobs)
			pthread_cond_wait(&work, &lock);
		jobs--;
		pthread_mutex_unlock(&lock);
	}
	return x;
}
int main(void)
{
	for (twelve();;) {
		usleep(5000);
		pthread_mutex_lock(&lock);
		jobs++;
		pthread_cond_signal(&work);
		pthread_mutex_unlock(&lock);
	}
}
";

/// No thread gets the lock.
const DEADLOCK: &str = r"
static void *run(void *x) { pthread_mutex_lock(&lock); return x; }
int main(void) { pthread_mutex_lock(&lock); twelve(); pause(); }
";

/// What Rust's library has. In the first argument stands what the threads do: `contend` as those of `CONTENDS`; `pool` as those of `POOL`,
/// at a condition variable that was signalled twice before they wait, so that its word is that of a contended mutex; `receive` by
/// turns, where one waits for a message with the lock and the others wait for the lock.
const RUST: &str = r#"
use std::sync::{mpsc, Condvar, Mutex};
use std::time::Duration;
static LOCK: Mutex<u32> = Mutex::new(0);
static WORK: Condvar = Condvar::new();
static MESSAGES: Mutex<Option<mpsc::Receiver<()>>> = Mutex::new(None);
#[inline(never)]
fn serve() {
    loop {
        let _held = LOCK.lock().unwrap();
        std::thread::sleep(Duration::from_millis(2));
    }
}
fn wait_for_work() {
    let mut jobs = LOCK.lock().unwrap();
    loop {
        while *jobs == 0 {
            jobs = WORK.wait(jobs).unwrap();
        }
        *jobs -= 1;
    }
}
fn receive() {
    loop {
        let messages = MESSAGES.lock().unwrap();
        messages.as_ref().unwrap().recv().unwrap();
    }
}
fn main() {
    let does = std::env::args().nth(1).unwrap();
    let (sender, receiver) = mpsc::channel();
    *MESSAGES.lock().unwrap() = Some(receiver);
    if does == "pool" {
        // A signal counts only while somebody waits.
        for _ in 0..2 {
            let one = std::thread::spawn(|| drop(WORK.wait(LOCK.lock().unwrap())));
            std::thread::sleep(Duration::from_millis(20));
            WORK.notify_one();
            one.join().unwrap();
        }
    }
    let run = match &*does {
        "contend" => serve,
        "pool" => wait_for_work,
        _ => receive,
    };
    for _ in 0..12 {
        std::thread::spawn(run);
    }
    std::thread::sleep(Duration::from_secs(1));
    loop {
        std::thread::sleep(Duration::from_millis(200));
        sender.send(()).unwrap();
        *LOCK.lock().unwrap() += u32::from(does == "pool");
        WORK.notify_one();
    }
}
"#;

/// Who builds a program.
#[derive(Clone, Copy)]
enum Library {
    Glibc,
    Musl,
    Rust,
}

/// The report of a host on which this program runs.
fn beside(name: &str, library: Library, source: &str, arguments: &[&str]) -> Value {
    let folder = tempfile::tempdir().unwrap();
    let (binary, text) = (folder.path().join(name), folder.path().join("program"));
    let (compiler, flags, begins): (_, &[&str], _) = match library {
        Library::Glibc => ("cc", &["-x", "c", "-O1", "-fno-omit-frame-pointer", "-pthread"], BEGINS),
        Library::Musl => ("musl-gcc", &["-x", "c", "-O1", "-static"], BEGINS),
        Library::Rust => ("rustc", &["--crate-name", "program", "-O", "-C", "force-frame-pointers"], ""),
    };
    std::fs::write(&text, format!("{begins}{source}")).unwrap();
    let mut command = std::process::Command::new(compiler);
    assert!(command.args(flags).arg("-o").arg(&binary).arg(&text).status().unwrap().success());
    let load = Load::start(1, binary.to_str().unwrap(), arguments);
    std::thread::sleep(std::time::Duration::from_millis(300));
    let report = live_report(6);
    drop(load);
    report
}

#[test]
#[ignore = "needs: root, cc"]
fn twelve_threads_at_one_mutex_are_found_with_the_code_that_asks_for_it() {
    let _alone = alone();
    if !has(NEEDS) {
        return;
    }
    let report = beside("contends", Library::Glibc, CONTENDS, &[]);
    let found = finding(&report, "tasks.saturation.locks", None);
    assert_eq!(
        (found["status"].as_str(), found["culprit"]["name"].as_str()),
        (Some("warning"), Some("contends")),
        "{found:#}"
    );
    let waiting = found["value"].as_f64().unwrap();
    assert!((9.0..=12.0).contains(&waiting), "eleven wait while one has it: {found:#}");
    let code = finding(&report, "tasks.saturation.lock_code", None);
    assert_eq!(
        (code["status"].as_str(), code["culprit"]["name"].as_str()),
        (Some("info"), Some("contends")),
        "{code:#}"
    );
    let summary = code["summary"].as_str().unwrap();
    assert!(summary.ends_with("asked for in serve or below."), "{summary}");
    assert_nothing_else_fired(&report, &["tasks.saturation.locks"]);
}

#[test]
#[ignore = "needs: root, cc"]
fn a_pool_without_work_and_a_deadlock_are_no_contention() {
    let _alone = alone();
    if !has(NEEDS) {
        return;
    }
    for (name, source) in [("pool", POOL), ("deadlock", DEADLOCK)] {
        assert_no_contention_of(name, &beside(name, Library::Glibc, source, &[]));
    }
}

/// Another program of the host may contend for a lock of its own.
fn assert_no_contention_of(name: &str, report: &Value) {
    let found = finding(report, "tasks.saturation.locks", None);
    let is_ours = |found: &Value| found.pointer("/culprit/name").is_some_and(|culprit| culprit == name);
    let status = found.get("status").and_then(Value::as_str).unwrap();
    assert!(["ok", "info", "warning"].contains(&status) && !is_ours(found), "{found:#}");
    assert!(!findings(report, "tasks.saturation.lock_code").into_iter().any(is_ours));
}

#[test]
#[ignore = "needs: root, musl-gcc, rustc"]
fn mutexes_of_musl_and_of_rust_are_found_as_well() {
    let _alone = alone();
    if !has(&[Need::Root, Need::Tool("musl-gcc"), Need::Tool("rustc")]) {
        return;
    }
    for (name, library, source) in [("musl", Library::Musl, CONTENDS), ("rust", Library::Rust, RUST)] {
        let report = beside(name, library, source, &["contend"]);
        for (rule, status) in [("tasks.saturation.locks", "warning"), ("tasks.saturation.lock_code", "info")] {
            let found = finding(&report, rule, None);
            let said = (found["status"].as_str(), found["culprit"]["name"].as_str());
            assert_eq!(said, (Some(status), Some(name)), "{found:#}");
        }
        let waiting = finding(&report, "tasks.saturation.locks", None)["value"].as_f64().unwrap();
        assert!((9.0..=12.0).contains(&waiting), "{name}: eleven wait while one has it: {waiting}");
        assert_nothing_else_fired(&report, &["tasks.saturation.locks"]);
    }
}

#[test]
#[ignore = "needs: root, musl-gcc, rustc"]
fn pools_of_musl_and_of_rust_without_work_are_no_contention() {
    let _alone = alone();
    if !has(&[Need::Root, Need::Tool("musl-gcc"), Need::Tool("rustc")]) {
        return;
    }
    for (name, library, source) in [("musl", Library::Musl, POOL), ("rust", Library::Rust, RUST)] {
        assert_no_contention_of(name, &beside(name, library, source, &["pool"]));
    }
}

#[test]
#[ignore = "needs: root, rustc"]
fn threads_that_take_turns_at_receiving_work_are_no_problem() {
    let _alone = alone();
    if !has(&[Need::Root, Need::Tool("rustc")]) {
        return;
    }
    let report = beside("receives", Library::Rust, RUST, &["receive"]);
    let found = finding(&report, "tasks.saturation.locks", None);
    assert_eq!(
        (found["status"].as_str(), found["culprit"]["name"].as_str()),
        (Some("info"), Some("receives")),
        "{found:#}"
    );
    let said = found["summary"].as_str().unwrap();
    assert!(said.ends_with("; the others mostly waited for work."), "{said}");
}
