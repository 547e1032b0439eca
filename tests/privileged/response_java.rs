//! The probe `response` against machines of Java, which park threads: what they park them for.

use std::fs;
use std::process::Command;

use serde_json::Value;

use super::code::costs_its_own_names;
use super::response::{NEEDS, rows};
use super::response_truths::{observed, told};
use crate::support::{Load, Need, alone, has, rdiag, skip};

/// Seconds that waits with such a key take of a component.
fn keyed(result: &Value, component: &str, key: &str) -> f64 {
    let all = rows(result, "waits");
    let own = all.iter().filter(|row| row["component"] == component && row["key"] == key);
    own.filter_map(|row| row["time"].as_f64()).sum()
}

/// Three seconds in which four threads want a lock that is held for 20 ms each time, two of them to read, and others wait for no lock.
const LOCKS: &str = r#"
import java.util.concurrent.*;
import java.util.concurrent.locks.*;
public class Main {
    static final ReentrantLock lock = new ReentrantLock();
    static final ReentrantReadWriteLock fair = new ReentrantReadWriteLock(true);
    static double take(Lock lock) {
        long at = System.nanoTime();
        lock.lock();
        double waited = (System.nanoTime() - at) * 1e-9;
        try { Thread.sleep(20); } catch (InterruptedException e) { }
        lock.unlock();
        return waited;
    }
    static Thread idle(Callable<?> waits) {
        Thread thread = new Thread(() -> { try { waits.call(); } catch (Exception e) { } });
        thread.setDaemon(true);
        thread.start();
        return thread;
    }
    public static void main(String[] words) throws Exception {
        long ends = System.nanoTime() + 3_000_000_000L;
        double[] waited = new double[4];
        Thread[] all = new Thread[4];
        for (int i = 0; i < 4; i++) {
            final int me = i;
            all[i] = new Thread(() -> {
                while (System.nanoTime() < ends)
                    waited[me] += take(me < 2 ? lock : me == 2 ? fair.readLock() : fair.writeLock());
            });
            all[i].start();
        }
        BlockingQueue<Integer> queue = new LinkedBlockingQueue<>();
        idle(() -> { while (true) queue.poll(20, TimeUnit.MILLISECONDS); });
        Semaphore none = new Semaphore(0);
        idle(() -> { while (true) none.tryAcquire(20, TimeUnit.MILLISECONDS); });
        double sum = 0;
        for (int i = 0; i < 4; i++) { all[i].join(); sum += waited[i]; }
        System.out.println("\nTRUTH {\"seconds\": 12, \"lock.user\": " + sum + "}");
    }
}
"#;

#[test]
#[ignore = "needs: root, eBPF, java"]
fn a_thread_of_java_that_is_parked_for_a_lock_waits_for_one_and_one_that_is_parked_for_a_queue_does_not() {
    let _alone = alone();
    if !has(NEEDS) || !has(&[Need::Tool("java"), Need::Tool("nm")]) {
        return;
    }
    let names = "nm $(dirname $(readlink -f $(command -v java)))/../lib/server/libjvm.so | grep -q park_blocker_offset";
    if !Command::new("sh").args(["-c", names]).status().unwrap().success() {
        return skip("this Java machine has no table of symbols");
    }
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("Main.java"), LOCKS).unwrap();
    let (result, truth) = observed(Command::new("java").arg(folder.path().join("Main.java")), "java");
    let (is, should) = (told(&result, "lock.user"), truth["lock.user"]);
    let all = || format!("{is} s of {should} s: {:#?}", rows(&result, "waits"));
    // The program cannot tell the wait for a CPU that follows from that for a lock.
    let runnable: f64 = ["runq.wakeup", "runq.preempt"].iter().map(|component| told(&result, component)).sum();
    assert!((is - should).abs() < 0.02 * truth["seconds"] + runnable, "{}", all());
    for (name, least) in [("ReentrantLock", 2.5), ("ReentrantReadWriteLock", 2.5)] {
        assert!(keyed(&result, "lock.user", name) > least, "{name}: {}", all());
    }
    for name in ["AbstractQueuedSynchronizer$ConditionObject", "Semaphore"] {
        assert!(keyed(&result, "wait.futex", name) > 2.0, "{name}: {}", all());
    }
}

/// Has what a machine of Java has, and threads that wait on their futexes for 10 ms each time: one for a lock and a latch in turn, one for
/// a latch, one for a lock once and three times for nothing; and one for a futex that is not its own while its object says that it is
/// parked for a lock. If it lies, lists and names without an end, pointers that lead nowhere, and a name that would ring a bell and clear
/// the screen.
const PRETENDS: &str = r#"
#include <linux/futex.h>
#include <pthread.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>
#ifdef NARROW
typedef uint32_t pointer;
#define IS_NARROW 1
#else
typedef uint64_t pointer;
#define IS_NARROW 0
#endif
#define AT(object) ((pointer)((uint64_t)&(object) >> (IS_NARROW ? 3 : 0)))
struct symbol { uint32_t hash; uint16_t length; char letters[66]; };
struct class_ { uint64_t first; struct symbol *name; };
struct object { uint64_t mark; pointer class_, other, parked_for; };
struct java_thread { uint64_t first; struct object **object; unsigned futex[2]; };
struct list { uint32_t first, length; struct java_thread **threads; };
#define SYMBOL(text) { 1, sizeof(text) - 1, text }
static struct symbol names[] = {
	SYMBOL("java/util/concurrent/locks/ReentrantLock$FairSync"), SYMBOL("java/util/concurrent/CountDownLatch$Sync"),
	SYMBOL("bell\a\033[2J\033]0;owned\a"),
};
static _Alignas(8) struct class_ classes[] = { { 0, &names[0] }, { 0, &names[1] }, { 0, &names[2] } };
static _Alignas(8) struct object blockers[3], objects[4];
static struct object *handles[] = { &objects[0], &objects[1], &objects[2], &objects[3] };
static struct java_thread threads[] = { { 0, &handles[0] }, { 0, &handles[1] }, { 0, &handles[2] }, { 0, &handles[3] } };
static struct java_thread *all[20] = { [16] = &threads[3], &threads[2], &threads[1], &threads[0] };
static struct list list = { 0, 20, all }, *listed = &list;
static uint64_t none;
static int shift = 3;
int _ZN16java_lang_Thread20_park_blocker_offsetE = offsetof(struct object, parked_for);
char UseCompressedOops = IS_NARROW, UseCompressedClassPointers = IS_NARROW, UseZGC = 0, UseShenandoahGC = 0;
struct entry { const char *of, *field, *type; int is_static; uint64_t offset; void *address; };
static struct entry entries[] = {
	{ "Klass", "_name", "Symbol*", 0, offsetof(struct class_, name) },
	{ "Symbol", "_length", "u2", 0, offsetof(struct symbol, length) },
	{ "Symbol", "_body[0]", "u1", 0, offsetof(struct symbol, letters) },
	{ "CompressedOops", "_base", "address", 1, 0, &none },
	{ "CompressedOops", "_shift", "int", 1, 0, &shift },
	{ "CompressedKlassPointers", "_narrow_klass._base", "address", 1, 0, &none },
	{ "CompressedKlassPointers", "_narrow_klass._shift", "int", 1, 0, &shift },
	{ "ThreadsSMRSupport", "_java_thread_list", "ThreadsList*", 1, 0, &listed },
	{ "ThreadsList", "_length", "uint", 0, offsetof(struct list, length) },
	{ "ThreadsList", "_threads", "JavaThread**", 0, offsetof(struct list, threads) },
	{ "JavaThread", "_threadObj", "OopHandle", 0, offsetof(struct java_thread, object) },
	{ 0 },
};
struct entry *gHotSpotVMStructs = entries;
static struct { const char *name, *of; int are[3]; uint64_t size; } types[] = {
	{ "Thread", 0, { 0 }, 8 }, { "JavaThread", "Thread", { 0 }, sizeof(struct java_thread) }, { 0 },
};
void *gHotSpotVMTypes = types;
static unsigned elsewhere[16];
static void park(unsigned *futex)
{
	struct timespec until;
	clock_gettime(CLOCK_REALTIME, &until);
#ifdef SLEEPS
	until.tv_sec += 60;
#endif
	until.tv_nsec += 10000000;
	until.tv_sec += until.tv_nsec / 1000000000;
	until.tv_nsec %= 1000000000;
	syscall(SYS_futex, futex, FUTEX_WAIT_BITSET_PRIVATE | FUTEX_CLOCK_REALTIME, *futex, &until, NULL, FUTEX_BITSET_MATCH_ANY);
}
static void *waits(void *number)
{
	long at = (long)number;
	for (int i = 0; i < SECONDS * 100; i++) {
#ifdef LIES
		struct class_ *wrong[] = { &classes[2], 0, (void *)7, (void *)(1ULL << 47), (void *)~0ULL };
		names[2].length = i % 5 ? sizeof("bell\a\033[2J\033]0;owned\a") - 1 : 65535;
		classes[2].name = i % 9 ? &names[2] : (void *)&names[2] + ((long)i << 40);
		for (int each = 0; each < 2; each++)
			blockers[each].class_ = (pointer)(uint64_t)wrong[i % 4 ? 0 : 1 + i / 4 % 4];
		list.length = i % 3 ? ~0U : 20;
		list.threads = i % 11 ? all : (void *)((uint64_t)i << 33);
		handles[at] = i % 13 ? &objects[at] : (void *)-8;
		nanosleep(&(struct timespec){ .tv_nsec = 1000000 }, 0);
#endif
		int is_lock = at == 0 ? i % 2 == 0 : at == 3 ? i % 4 == 0 : at == 2;
		objects[at].parked_for = at == 3 && !is_lock ? 0 : AT(blockers[is_lock ? 0 : 1]);
		park(at == 2 ? elsewhere : &threads[at].futex[0]);
		objects[at].parked_for = 0;
	}
	return NULL;
}
int main(void)
{
	pthread_t four[4];
	for (int i = 0; i < 3; i++)
		blockers[i].class_ = AT(classes[i % 2]);
	for (long i = 0; i < 4; i++)
		pthread_create(&four[i], NULL, waits, (void *)i);
	for (int i = 0; i < 4; i++)
		pthread_join(four[i], NULL);
	printf("\nTRUTH {\"seconds\": %d}\n", SECONDS * 5);
}
"#;

/// That program, in a folder that lives as long.
fn pretending(flags: &[&str], takes: u32) -> (tempfile::TempDir, String) {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("java.c"), PRETENDS).unwrap();
    let mut compiler = Command::new("cc");
    compiler.args(["-O1", "-pthread", "-o", "libjvm.so", "java.c"]).arg(format!("-DSECONDS={takes}")).args(flags);
    assert!(compiler.current_dir(folder.path()).status().unwrap().success());
    let program = folder.path().join("libjvm.so").to_str().unwrap().to_owned();
    (folder, program)
}

/// What is known of four threads: so much of their time at most is for locks, and for a latch, of which the first second may be missing.
fn is_known(result: &Value, flags: &[&str], takes: u32, shares: [f64; 2]) {
    let [locks, latch] = shares.map(|share| share * f64::from(takes));
    let (is, all) = (keyed(result, "lock.user", "ReentrantLock"), told(result, "lock.user"));
    let other = keyed(result, "wait.futex", "CountDownLatch");
    let waits = || format!("{flags:?}: {is} {all} {other}: {:#?}", rows(result, "waits"));
    let as_told = |is: f64, most: f64| (0.6 * most..1.05 * most).contains(&is);
    assert!(as_told(is, locks) && as_told(other, latch) && (all - is).abs() < 0.01, "{}", waits());
    assert!(told(result, "wait.futex") > other + f64::from(takes), "what is no futex of its thread: {}", waits());
}

fn what_it_says(flags: &[&str], takes: u32) {
    let (_folder, program) = pretending(flags, takes);
    let (result, _) = observed(&Command::new(program), "a machine of Java");
    is_known(&result, flags, takes, [0.75, 1.5]);
}

#[test]
#[ignore = "needs: root, eBPF, cc"]
fn what_a_thread_is_parked_for_is_what_its_machine_says() {
    let _alone = alone();
    if !has(NEEDS) || !has(&[Need::Tool("cc")]) {
        return;
    }
    what_it_says(&["-pie", "-fPIE"], 2);
    what_it_says(&["-no-pie", "-DNARROW"], 2);
}

#[test]
#[ignore = "needs: root, eBPF, cc"]
fn vm_what_a_thread_is_parked_for_is_what_its_machine_says() {
    let _alone = alone();
    if !has(NEEDS) || !has(&[Need::Tool("cc")]) {
        return;
    }
    what_it_says(&["-no-pie", "-DNARROW"], 6);
}

/// No thread of it runs while it is looked at.
fn what_it_says_of_sleepers(flags: &[&str], takes: u32) {
    let _alone = alone();
    if !has(NEEDS) || !has(&[Need::Tool("cc")]) {
        return;
    }
    let (_folder, program) = pretending(&[flags, &["-DSLEEPS"]].concat(), 1);
    let load = Load::start(1, &program, &[]);
    std::thread::sleep(std::time::Duration::from_secs(1));
    let pid = load.pids().first().expect("it runs").to_string();
    let mut probe = rdiag();
    probe.args(["probe", "response", "--budget", "100%", "--format", "json", "--pid", &pid, "--duration"]);
    let output = probe.arg(format!("{takes}s")).output().unwrap();
    let result = serde_json::from_slice(&output.stdout).expect("a result");
    is_known(&result, flags, takes, [2.0, 1.0]);
}

#[test]
#[ignore = "needs: root, eBPF, cc"]
fn what_threads_are_parked_for_that_never_run_is_what_their_machine_says() {
    what_it_says_of_sleepers(&["-pie", "-fPIE"], 2);
    what_it_says_of_sleepers(&["-no-pie", "-DNARROW"], 2);
}

#[test]
#[ignore = "needs: root, eBPF, cc"]
fn vm_what_threads_are_parked_for_that_never_run_is_what_their_machine_says() {
    what_it_says_of_sleepers(&["-pie", "-fPIE"], 6);
}

#[test]
#[ignore = "needs: root, eBPF, cc"]
fn a_program_that_lies_about_being_java_costs_its_own_names() {
    let _alone = alone();
    if !has(NEEDS) || !has(&[Need::Tool("cc")]) {
        return;
    }
    costs_its_own_names("libjvm.so", PRETENDS, &["-pthread", "-DSECONDS=2", "-DLIES"]);
}
