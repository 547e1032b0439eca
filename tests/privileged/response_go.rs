//! Method R against programs whose runtime moves the work between its threads, as Go's does: they are taken as one.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::Command;

use serde_json::Value;

use super::response::NEEDS;
use crate::support::{Need, alone, has, rdiag};

/// Has the table by which a program of Go is known. Its first thread computes for 0.2 s, and then makes three, of which in each turn two compute for 10 ms beside each other, and
/// then one waits for 10 ms in `poll`, while the others are parked. It says for how long any of them computed, and for how long it waited.
const TURNS: &str = r#"
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>
#ifndef PLAIN
__attribute__((section(".gopclntab"), used)) static const char table[] = "functions";
#endif
static pthread_barrier_t turn;
static double began[2], ended[2], computed, waited;
static double at(clockid_t clock)
{
	struct timespec now;
	clock_gettime(clock, &now);
	return now.tv_sec + now.tv_nsec * 1e-9;
}
static void *works(void *number)
{
	long me = (long)number;
	for (int i = 0; i < TURNS; i++) {
		pthread_barrier_wait(&turn);
		if (me < 2) {
			began[me] = at(CLOCK_MONOTONIC);
			for (double from = at(CLOCK_THREAD_CPUTIME_ID); at(CLOCK_THREAD_CPUTIME_ID) - from < 0.01; )
				;
			ended[me] = at(CLOCK_MONOTONIC);
		}
		pthread_barrier_wait(&turn);
		if (me == 2) {
			double from = at(CLOCK_MONOTONIC);
			computed += (ended[0] > ended[1] ? ended[0] : ended[1]) - (began[0] < began[1] ? began[0] : began[1]);
			poll(NULL, 0, 10);
			waited += at(CLOCK_MONOTONIC) - from;
		}
	}
	return NULL;
}
int main(void)
{
	pthread_t three[3];
	double from = at(CLOCK_MONOTONIC);
	while (at(CLOCK_THREAD_CPUTIME_ID) < 0.2)
		;
	computed = at(CLOCK_MONOTONIC) - from;
	pthread_barrier_init(&turn, NULL, 3);
	for (long i = 0; i < 3; i++)
		pthread_create(&three[i], NULL, works, (void *)i);
	for (int i = 0; i < 3; i++)
		pthread_join(three[i], NULL);
	printf("\nTRUTH {\"elapsed\": %f, \"computed\": %f, \"waited\": %f}\n", at(CLOCK_MONOTONIC) - from, computed, waited);
#ifdef BECOMES
	fflush(stdout);
	execl(BECOMES, BECOMES, (char *)NULL);
#endif
}
"#;

/// That program as it is compiled with these flags.
fn compiled(folder: &Path, name: &str, flags: &[&str]) {
    fs::write(folder.join("turns.c"), TURNS).unwrap();
    let mut compiler = Command::new("cc");
    compiler.args(["-O1", "-pthread", "-o", name, "turns.c"]).args(flags);
    assert!(compiler.current_dir(folder).status().unwrap().success());
}

/// What that program says of itself, the headline, and the seconds of the time that it took by component.
fn observed(folder: &Path) -> (BTreeMap<String, f64>, String, BTreeMap<String, f64>) {
    let mut rdiag = rdiag();
    rdiag.args(["run", "method-r", "--no-guided", "--budget", "100%", "--format", "json", "--out", "-", "--"]);
    let output = rdiag.current_dir(folder).arg("./turns").output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let truth = text.lines().find_map(|line| serde_json::from_str(line.strip_prefix("TRUTH ")?).ok());
    let report = text.split_once("\n{\n").and_then(|(_, report)| serde_json::from_str(&format!("{{{report}")).ok());
    let (truth, report): (_, Value) = truth.zip(report).expect("an account and a report");
    let rows = report.pointer("/profile/forecast/rows").and_then(Value::as_array).unwrap().iter();
    let row = |row: &Value| Some((row.get("id")?.as_str()?.to_owned(), row.get("seconds")?.as_f64()?));
    let headline = report.pointer("/verdict/headline").and_then(Value::as_str).unwrap().to_owned();
    (truth, headline, rows.map(|one| row(one).unwrap()).collect())
}

/// So many turns.
fn any_thread_counts(turns: u32) {
    let _alone = alone();
    if !has(NEEDS) || !has(&[Need::Tool("cc")]) {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    compiled(folder.path(), "turns", &[&format!("-DTURNS={turns}")]);
    let (truth, headline, rows) = observed(folder.path());
    let all = || format!("{headline}\n{truth:?}\n{rows:#?}");
    let sum =
        |of: &[&str]| rows.iter().filter(|(id, _)| of.iter().any(|one| id.starts_with(one))).map(|row| row.1).sum();
    let [computed, waited, parked]: [f64; 3] =
        [&["cpu.", "runq.", "throttled"][..], &["wait.poll"], &["wait.futex"]].map(sum);
    assert!(headline.contains("in the threads of turns (Go) taken as one"), "{}", all());
    // The program's own turns from the one to the other are in neither of its sums, and a wait for a CPU that follows from one in `poll` is in
    // its second one.
    let [should_compute, should_wait, elapsed] =
        ["computed", "waited", "elapsed"].map(|name| truth.get(name).copied().unwrap());
    let (near, woken) = (0.05 * elapsed, rows.get("runq.wakeup").copied().unwrap_or(0.0));
    assert!((should_compute - near..elapsed - should_wait + woken + near).contains(&computed), "{}", all());
    assert!((should_wait - woken - near..should_wait + near).contains(&waited), "{}", all());
    assert!((computed + waited - elapsed).abs() < 2.0 * near, "{}", all());
    assert!(parked < near, "{}", all());
}

#[test]
#[ignore = "needs: root, eBPF, cc"]
fn the_time_of_a_program_of_go_is_what_any_of_its_threads_did() {
    any_thread_counts(50);
}

#[test]
#[ignore = "needs: root, eBPF, cc"]
fn vm_the_time_of_a_program_of_go_is_what_any_of_its_threads_did() {
    any_thread_counts(200);
}

#[test]
#[ignore = "needs: root, eBPF, cc"]
fn the_time_of_any_other_program_is_that_of_its_first_thread_and_of_what_this_waited_for() {
    let _alone = alone();
    if !has(NEEDS) || !has(&[Need::Tool("cc")]) {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    compiled(folder.path(), "turns", &["-DTURNS=50", "-DPLAIN"]);
    let (_, headline, _) = observed(folder.path());
    assert!(headline.contains("in its first thread (turns)") && !headline.contains("Go"), "{headline}");
}

#[test]
#[ignore = "needs: root, eBPF, cc"]
fn a_program_of_go_that_becomes_another_one_is_none_of_go() {
    let _alone = alone();
    if !has(NEEDS) || !has(&[Need::Tool("cc")]) {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    compiled(folder.path(), "then", &["-DTURNS=50", "-DPLAIN"]);
    compiled(folder.path(), "turns", &["-DTURNS=50", "-DBECOMES=\"./then\""]);
    let (_, headline, _) = observed(folder.path());
    assert!(headline.contains("in its first thread (then)") && !headline.contains("Go"), "{headline}");
}
