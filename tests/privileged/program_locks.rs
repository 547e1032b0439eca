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

/// The report of a host on which this program runs.
fn beside(name: &str, source: &str) -> Value {
    let folder = tempfile::tempdir().unwrap();
    let (binary, text) = (folder.path().join(name), folder.path().join("program.c"));
    std::fs::write(&text, format!("{BEGINS}{source}")).unwrap();
    let flags = ["-O1", "-fno-omit-frame-pointer", "-pthread", "-o"];
    assert!(std::process::Command::new("cc").args(flags).arg(&binary).arg(&text).status().unwrap().success());
    let load = Load::start(1, binary.to_str().unwrap(), &[]);
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
    let report = beside("contends", CONTENDS);
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
        let report = beside(name, source);
        let found = finding(&report, "tasks.saturation.locks", None);
        // Another program of the host may contend for a lock of its own.
        let is_ours = |found: &Value| found["culprit"]["name"] == name;
        assert!(["ok", "info", "warning"].contains(&found["status"].as_str().unwrap()) && !is_ours(found), "{found:#}");
        assert!(!findings(&report, "tasks.saturation.lock_code").into_iter().any(is_ours));
    }
}
