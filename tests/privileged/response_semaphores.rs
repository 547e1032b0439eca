//! The probe `response` against semaphores: those that threads or processes hand on to each other as a lock, and those that count.

use std::fs;
use std::process::Command;

use super::response::{NEEDS, TOLERANCE, rows, shares};
use super::response_truths::{Programs, agrees, largest, observed, told};
use crate::support::{Need, alone, has};

#[test]
#[ignore = "needs: root, eBPF, cc"]
fn a_semaphore_that_threads_hand_on_to_each_other_is_a_lock() {
    let _alone = alone();
    if !has(NEEDS) || !has(&[Need::Tool("cc")]) {
        return;
    }
    let programs = Programs::compiled();
    for name in ["semaphore", "semaphore-again"] {
        let (result, share) = agrees(&programs, name, "lock.user");
        assert!(share > 0.3, "{name}: {share}");
        assert_eq!(largest(&result, "lock.user").0, "futex");
    }
}

/// Semaphores whose waits other threads end than those that have waited for them, or that are free more than once, or that each thread
/// hands on at once when the last one has come; and times that run out.
const NO_LOCKS: &str = r#"
#include <pthread.h>
#include <semaphore.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>
#define MEMBERS 4
static sem_t items, places, gate, jobs, never;
static pthread_barrier_t all_left;
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static double ends;
static int arrived;
static double now(void)
{
	struct timespec at;
	clock_gettime(CLOCK_MONOTONIC, &at);
	return at.tv_sec + at.tv_nsec * 1e-9;
}
static void *consumes(void *unused)
{
	while (now() < ends) { sem_wait(&items); usleep(1000); }
	return NULL;
}
static void *produces(void *unused)
{
	while (now() < ends) { usleep(10000); sem_post(&items); }
	sem_post(&items), sem_post(&items);
	return NULL;
}
static void *has_a_place(void *unused)
{
	unsigned seed = (unsigned long)&seed;
	while (now() < ends) { sem_wait(&places); usleep(5000 + rand_r(&seed) % 20000); sem_post(&places); usleep(500); }
	return NULL;
}
static void *arrives(void *member)
{
	for (int round = 0; round < 80; round++) {
		usleep(round % MEMBERS == (long)member ? 20000 : 1000);
		pthread_mutex_lock(&mutex);
		int is_last = ++arrived == MEMBERS;
		pthread_mutex_unlock(&mutex);
		if (is_last)
			sem_post(&gate);
		sem_wait(&gate);
		pthread_mutex_lock(&mutex);
		int is_left = --arrived > 0;
		pthread_mutex_unlock(&mutex);
		if (is_left)
			sem_post(&gate);
		pthread_barrier_wait(&all_left);
	}
	return NULL;
}
static void *brings_work(void *unused)
{
	for (int done = 1; now() < ends; done++) {
		sem_wait(&jobs);
		usleep(3000);
		for (int more = 0; done % 2 == 0 && more < 2; more++)
			sem_post(&jobs);
	}
	sem_post(&jobs);
	return NULL;
}
static void *runs_out(void *unused)
{
	while (now() < ends) {
		struct timespec until;
		clock_gettime(CLOCK_REALTIME, &until);
		until.tv_nsec += 20000000;
		if (until.tv_nsec >= 1000000000) { until.tv_nsec -= 1000000000; until.tv_sec++; }
		sem_timedwait(&never, &until);
	}
	return NULL;
}
int main(void)
{
	void *(*of[])(void *) = { consumes, consumes, produces, has_a_place, has_a_place, has_a_place, has_a_place, has_a_place,
		brings_work, brings_work, brings_work, brings_work, runs_out, runs_out };
	pthread_t all[sizeof(of) / sizeof(*of) + MEMBERS];
	int count = 0;
	ends = now() + 2;
	pthread_barrier_init(&all_left, NULL, MEMBERS);
	for (; count < (int)(sizeof(of) / sizeof(*of)); count++)
		pthread_create(&all[count], NULL, of[count], NULL);
	for (long member = 0; member < MEMBERS; member++)
		pthread_create(&all[count++], NULL, arrives, (void *)member);
	sem_post(&places), sem_post(&places);
	for (int free = 0; free < 5; free++)
		sem_post(&jobs);
	for (int at = 0; at < count; at++)
		pthread_join(all[at], NULL);
	puts("\nTRUTH {\"seconds\": 38}");
}
"#;

#[test]
#[ignore = "needs: root, eBPF, cc"]
fn semaphores_that_count_or_tell_of_an_arrival_are_no_locks() {
    let _alone = alone();
    if !has(NEEDS) || !has(&[Need::Tool("cc")]) {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let (source, program) = (folder.path().join("counts.c"), folder.path().join("counts"));
    fs::write(&source, NO_LOCKS).unwrap();
    let compiled = Command::new("cc").args(["-pthread", "-o"]).arg(&program).arg(&source).status().unwrap();
    assert!(compiled.success());
    let (result, _) = observed(&Command::new(&program), "semaphores that count");
    let (lock, futex) = (told(&result, "lock.user"), told(&result, "wait.futex"));
    // The mutex is one.
    assert!(lock < 0.02 && futex > 12.0, "{:#?} {:#?}", shares(&result), rows(&result, "waits"));
}

/// Threads, and then processes, that want a lock of Python; threads that wait for work in queues; and pools of threads and processes that
/// are idle, or bring each other work, one piece at a time.
const PYTHON: &str = r#"
import concurrent.futures, json, multiprocessing, queue, sys, threading, time
def wants(lock, ends, waited):
    own = 0
    while time.monotonic() < ends:
        at = time.monotonic()
        lock.acquire()
        own += time.monotonic() - at
        time.sleep(0.02)
        lock.release()
        time.sleep(0.001)
    waited.put(own)
def works(of):
    while of.get() is not None:
        pass
def again(pool, ends, done):
    time.sleep(0.005)
    if time.monotonic() < ends: pool.submit(again, pool, ends, done)
    else: done.set()
if __name__ == "__main__":
    waited, ends = queue.Queue(), time.monotonic() + 1.5
    lock, queues = threading.Lock(), [queue.Queue(), queue.SimpleQueue()]
    idle = [threading.Thread(target=works, args=(of,)) for of in queues for _ in range(2)]
    threads = [threading.Thread(target=wants, args=(lock, ends, waited)) for _ in range(4)]
    for one in idle + threads: one.start()
    while time.monotonic() < ends:
        for of in queues: of.put(1)
        time.sleep(0.01)
    for one in threads: one.join()
    for of in queues: of.put(None), of.put(None)
    for one in idle: one.join()
    of_threads = sum(waited.get() for _ in threads)
    make = multiprocessing.get_context("fork")
    # The first lock stays where it is: another one in its place would be the same to who knows the address alone.
    between, told, ends = make.Lock(), make.SimpleQueue(), time.monotonic() + 1.5
    processes = [make.Process(target=wants, args=(between, ends, told)) for _ in range(4)]
    for one in processes: one.start()
    for one in processes: one.join()
    of_processes = sum(told.get() for _ in processes)
    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        again(pool, time.monotonic() + 1, done := threading.Event())
        done.wait()
    with make.Pool(4) as pool:
        for _ in range(30):
            pool.apply(time.sleep, (0.002,))
            time.sleep(0.03)
    print("\nTRUTH", json.dumps({"seconds": 33, "lock.user": of_threads + of_processes, "processes": of_processes}), flush=True)
"#;

#[test]
#[ignore = "needs: root, eBPF, python3"]
fn a_lock_of_python_is_one_between_threads_and_between_processes_and_queues_and_pools_have_none() {
    let _alone = alone();
    if !has(NEEDS) || !has(&[Need::Tool("python3")]) {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let program = folder.path().join("locks.py");
    fs::write(&program, PYTHON).unwrap();
    let (result, truth) = observed(Command::new("python3").arg(&program), "locks of Python");
    let (is, should) = (told(&result, "lock.user"), truth["lock.user"]);
    assert!(truth["processes"] > 3.0 && should > 7.0, "{truth:#?}");
    assert!(
        (is - should).abs() < TOLERANCE * truth["seconds"],
        "{is} s of {should} s: {:#?} {:#?}",
        shares(&result),
        rows(&result, "waits")
    );
    assert!(told(&result, "wait.futex") > 5.0, "those without work: {:#?}", shares(&result));
}
