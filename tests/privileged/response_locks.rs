//! The probe `response` against programs that wait on futexes: which of these waits are for a lock, and which must never be called one.

use std::fs;
use std::process::Command;

use super::response::{NEEDS, TOLERANCE, rows, shares};
use super::response_truths::{Programs, agrees, largest, observed, told};
use crate::support::{Need, alone, has, skip};

#[test]
#[ignore = "needs: root, eBPF, cc"]
fn a_reader_writer_lock_is_a_lock_and_an_idle_pool_is_none() {
    let _alone = alone();
    if !has(NEEDS) || !has(&[Need::Tool("cc")]) {
        return;
    }
    let programs = Programs::compiled();
    let (result, share) = agrees(&programs, "rwlock", "lock.user");
    assert!(share > 0.3, "{share}");
    let (call, key) = largest(&result, "lock.user");
    assert!(call == "futex" && key.starts_with("rwlock 0x"), "{call} {key}");
    for name in ["condvar-pool", "fork-join"] {
        let (result, _) = agrees(&programs, name, "wait.futex");
        assert!(told(&result, "lock.user") < 0.02, "{name}: {:#?}", shares(&result));
    }
}

/// Waits with the values that reader-writer locks are waited for with, in memory that is none: plain, and with one thing amiss.
const LIKE_A_LOCK: &str = r#"
#include <linux/futex.h>
#include <pthread.h>
#include <stdio.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>
static _Alignas(8) unsigned words[6][16] = {
	{ 0, 0, 3, 3 }, /* nobody has it */
	{ 0, 0, 2, 3 },
	{ 2 | 1 << 3, 1, 2, 3, 7 }, /* a word that locks leave 0 */
	{ 2, 0, 2, 3 }, /* no reader, and no other writer */
	{ 2 | 1 << 3, 0, 2, 3, 0, 0, 0, 1 }, /* shared, and waited for as private */
	{ 2 | 1 << 3, 1, 2, 3, 0, 0, 0, 0, 0, 0, 0, 0, 9 }, /* of no kind */
};
static void *waits(void *of)
{
	unsigned *word = of;
	struct timespec until;
	clock_gettime(CLOCK_REALTIME, &until);
	until.tv_sec += 1;
	syscall(SYS_futex, word, FUTEX_WAIT_BITSET_PRIVATE | FUTEX_CLOCK_REALTIME, *word, &until, NULL, FUTEX_BITSET_MATCH_ANY);
	return NULL;
}
int main(void)
{
	pthread_t all[12];
	for (int at = 0; at < 12; at++)
		pthread_create(&all[at], NULL, waits, &words[at / 2][2 + at % 2]);
	for (int at = 0; at < 12; at++)
		pthread_join(all[at], NULL);
	puts("\nTRUTH {\"seconds\": 13}");
}
"#;

#[test]
#[ignore = "needs: root, eBPF, cc"]
fn what_only_looks_like_a_reader_writer_lock_is_none() {
    let _alone = alone();
    if !has(NEEDS) || !has(&[Need::Tool("cc")]) {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let (source, program) = (folder.path().join("like.c"), folder.path().join("like"));
    fs::write(&source, LIKE_A_LOCK).unwrap();
    let compiled = Command::new("cc").args(["-pthread", "-o"]).arg(&program).arg(&source).status().unwrap();
    assert!(compiled.success());
    let (result, _) = observed(&Command::new(&program), "like a lock");
    let (lock, futex) = (told(&result, "lock.user"), told(&result, "wait.futex"));
    assert!(lock < 0.01 && futex > 11.0, "{:#?}", shares(&result));
}

/// Two threads that want the global interpreter lock, and two that wait for work all the time.
const GIL: &str = r#"
import json, queue, threading, time
ends, used, work = time.monotonic() + 2, [], queue.Queue()
def runnable():
    return int(open(f"/proc/self/task/{threading.get_native_id()}/schedstat").read().split()[1]) * 1e-9
def spins():
    while time.monotonic() < ends:
        sum(range(1000))
    used.append(time.thread_time() + runnable())
both = [threading.Thread(target=spins) for _ in range(2)]
idle = [threading.Thread(target=work.get) for _ in range(2)]
for one in both + idle: one.start()
for one in both: one.join()
for one in idle: work.put(1)
for one in idle: one.join()
print("\nTRUTH", json.dumps({"seconds": 10, "lock.user": 4 - sum(used)}), flush=True)
"#;

#[test]
#[ignore = "needs: root, eBPF, python3"]
fn a_thread_of_python_that_wants_the_interpreter_waits_for_a_lock_and_one_without_work_does_not() {
    let _alone = alone();
    if !has(NEEDS) || !has(&[Need::Tool("python3")]) {
        return;
    }
    let (result, truth) = observed(Command::new("python3").args(["-c", GIL]), "python");
    let (is, should) = (told(&result, "lock.user"), truth["lock.user"]);
    if should < 0.5 {
        return skip("in part: this Python has no global interpreter lock");
    }
    assert!((is - should).abs() < TOLERANCE * truth["seconds"], "{is} s of {should} s: {:#?}", shares(&result));
    assert!(told(&result, "wait.futex") > 3.5, "those without work: {:#?}", shares(&result));
    let (_, key) = largest(&result, "lock.user");
    assert_eq!(key, "futex _PyRuntime", "{:#?}", rows(&result, "waits"));
}

/// Four threads that want a mutex, three at a reader-writer lock, and two that wait for a condition variable all the time.
const RUST: &str = r#"
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Condvar, Mutex, RwLock};
use std::time::{Duration, Instant};
static WAITED: AtomicU64 = AtomicU64::new(0);
fn nap(ms: u64) { std::thread::sleep(Duration::from_millis(ms)) }
fn waits<T>(take: impl FnOnce() -> T) -> T {
    let began = Instant::now();
    let taken = take();
    WAITED.fetch_add(began.elapsed().as_micros() as u64, Relaxed);
    taken
}
fn main() {
    let end = Instant::now() + Duration::from_secs(2);
    let all = Arc::new((Mutex::new(()), RwLock::new(()), Mutex::new(()), Condvar::new()));
    let turn = move |at: usize| {
        let (mutex, lock, idle, work) = &*all;
        match at {
            0..4 => { let _held = waits(|| mutex.lock()); nap(20) }
            4 => { let _held = waits(|| lock.write()); nap(20) }
            5..7 => { let _held = waits(|| lock.read()); nap(5) }
            _ => drop(work.wait_timeout(idle.lock().unwrap(), Duration::from_millis(200))),
        }
        nap(1);
    };
    let run = move |at| while Instant::now() < end { turn(at) };
    let threads: Vec<_> = (0..9).map(|at| { let run = run.clone(); std::thread::spawn(move || run(at)) }).collect();
    threads.into_iter().for_each(|thread| thread.join().unwrap());
    println!("\nTRUTH {{\"seconds\": 18, \"lock.user\": {}}}", WAITED.load(Relaxed) as f64 * 1e-6);
}
"#;

#[test]
#[ignore = "needs: root, eBPF, rustc"]
fn a_thread_of_rust_that_wants_a_lock_waits_for_one_and_an_idle_pool_does_not() {
    let _alone = alone();
    if !has(NEEDS) || !has(&[Need::Tool("rustc")]) {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let (source, program) = (folder.path().join("locks.rs"), folder.path().join("locks"));
    fs::write(&source, RUST).unwrap();
    let compiled = Command::new("rustc").args(["--edition=2021", "-O", "-o"]).arg(&program).arg(&source).status();
    assert!(compiled.unwrap().success());
    let (result, truth) = observed(&Command::new(&program), "rust");
    let (is, should) = (told(&result, "lock.user"), truth["lock.user"]);
    assert!(
        should > 6.0 && (is - should).abs() < TOLERANCE * truth["seconds"],
        "{is} s of {should} s: {:#?}",
        shares(&result)
    );
    // With the first thread, which joins the others.
    assert!(told(&result, "wait.futex") > 5.5, "those without work: {:#?}", shares(&result));
}

/// Four threads that want a monitor of which one has it and sleeps, one that waits to be notified, and one that is parked.
const MONITOR: &str = r#"
public class Main {
    static final Object lock = new Object(), idle = new Object();
    static volatile boolean over;
    public static void main(String[] words) throws Exception {
        long ends = System.nanoTime() + 3_000_000_000L;
        double[] waited = new double[4];
        Thread[] all = new Thread[4];
        for (int i = 0; i < 4; i++) {
            final int me = i;
            all[i] = new Thread(() -> {
                while (System.nanoTime() < ends) {
                    long at = System.nanoTime();
                    synchronized (lock) {
                        waited[me] += (System.nanoTime() - at) * 1e-9;
                        try { Thread.sleep(20); } catch (InterruptedException e) { }
                    }
                }
            });
            all[i].start();
        }
        Thread notified = new Thread(() -> {
            synchronized (idle) {
                try { while (!over) idle.wait(30); } catch (InterruptedException e) { }
            }
        });
        Thread parked = new Thread(() -> { while (!over) java.util.concurrent.locks.LockSupport.parkNanos(30_000_000L); });
        notified.start();
        parked.start();
        double sum = 0;
        for (int i = 0; i < 4; i++) { all[i].join(); sum += waited[i]; }
        over = true;
        System.out.println("\nTRUTH {\"seconds\": 12, \"lock.user\": " + sum + "}");
    }
}
"#;

#[test]
#[ignore = "needs: root, eBPF, java"]
fn a_thread_of_java_that_wants_a_monitor_waits_for_a_lock_and_one_that_is_parked_does_not() {
    let _alone = alone();
    if !has(NEEDS) || !has(&[Need::Tool("java"), Need::Tool("nm")]) {
        return;
    }
    let names = "nm $(dirname $(readlink -f $(command -v java)))/../lib/server/libjvm.so | grep -q ObjectMonitor.*nter";
    if !Command::new("sh").args(["-c", names]).status().unwrap().success() {
        return skip("this Java machine has no table of symbols");
    }
    let folder = tempfile::tempdir().unwrap();
    let source = folder.path().join("Main.java");
    fs::write(&source, MONITOR).unwrap();
    let (result, truth) = observed(Command::new("java").arg(&source), "java");
    let (is, should) = (told(&result, "lock.user"), truth["lock.user"]);
    // Its compilers and collectors, which are idle most of the time, and the two without work may not be in it.
    assert!((is - should).abs() < 0.05 * truth["seconds"], "{is} s of {should} s: {:#?}", rows(&result, "waits"));
    assert!(told(&result, "wait.futex") > 6.0, "those without work: {:#?}", shares(&result));
}

/// Two threads take turns at a mutex for a second, or two wait that long for a condition variable that is signalled now and then.
const MUSL: &str = r#"
#include <pthread.h>
#include <stdio.h>
#include <unistd.h>
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t work = PTHREAD_COND_INITIALIZER;
static int contends, jobs, ends;
static void *run(void *x)
{
	for (int turn = 0; turn < 50 && contends; turn++) {
		pthread_mutex_lock(&lock);
		usleep(10000);
		pthread_mutex_unlock(&lock);
		usleep(10);
	}
	pthread_mutex_lock(&lock);
	while (!contends && !ends) {
		while (!jobs && !ends)
			pthread_cond_wait(&work, &lock);
		jobs = 0;
	}
	pthread_mutex_unlock(&lock);
	return x;
}
int main(int count, char **arguments)
{
	pthread_t two[2];
	contends = count > 1;
	for (int at = 0; at < 2; at++)
		pthread_create(&two[at], NULL, run, NULL);
	for (int at = 0; at < 20 && !contends; at++) {
		usleep(50000);
		pthread_mutex_lock(&lock);
		jobs = 1;
		pthread_cond_signal(&work);
		pthread_mutex_unlock(&lock);
	}
	pthread_mutex_lock(&lock);
	ends = 1;
	pthread_cond_broadcast(&work);
	pthread_mutex_unlock(&lock);
	for (int at = 0; at < 2; at++)
		pthread_join(two[at], NULL);
	puts("\nTRUTH {\"seconds\": 2}");
}
"#;

#[test]
#[ignore = "needs: root, eBPF, musl-gcc"]
fn a_mutex_of_musl_is_a_lock_and_threads_that_wait_for_its_condition_variable_do_not_wait_for_one() {
    let _alone = alone();
    if !has(NEEDS) || !has(&[Need::Tool("musl-gcc")]) {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let (source, program) = (folder.path().join("musl.c"), folder.path().join("musl"));
    fs::write(&source, MUSL).unwrap();
    let compiled = Command::new("musl-gcc").args(["-static", "-o"]).arg(&program).arg(&source).status().unwrap();
    assert!(compiled.success());
    let (result, _) = observed(Command::new(&program).arg("contends"), "a mutex of musl");
    // One of two waits while the other has it: about a second in all.
    let lock = told(&result, "lock.user");
    assert!((0.7..1.5).contains(&lock), "{lock}: {:#?}", shares(&result));
    let (result, _) = observed(&Command::new(&program), "a condition variable of musl");
    let (lock, futex) = (told(&result, "lock.user"), told(&result, "wait.futex"));
    assert!(lock < 0.05 && futex > 1.8, "{lock} {futex}: {:#?}", shares(&result));
}
