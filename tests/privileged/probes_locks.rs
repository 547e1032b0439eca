//! Probes of locks: waits of a known length for a lock of the kernel, and for one of a program.

use super::probing::{Script, assert_nothing_lost, probed, ready, rows};
use crate::support::{Load, Need, alone, finding, has, live_report, rdiag};

/// Writes of one byte into a file into which another process writes all the time: both need the lock of its inode. They share a
/// CPU, since a writer that finds the holder running spins at first, of which the kernel does not tell.
const WRITES: &str = "
os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
f, block, parent = os.memfd_create('rdiag'), bytes(8 << 20), os.getpid()
holder = os.fork()
while not holder and os.getppid() == parent: os.pwrite(f, block, 0)
if not holder: os._exit(0)
waited = 0
for i in range(60):
    began = time.monotonic()
    os.pwrite(f, b'x', 0)
    waited += time.monotonic() - began
    time.sleep(0.003)
os.kill(holder, 9)
os.waitpid(holder, 0)
says = waited
";

fn waits_for_an_inode_are_as_long_as_the_writer_says() {
    let (mut script, mut waited) = (Script::start(WRITES), 0.0);
    let pid = script.pid().to_string();
    let readings = probed(&["klockstat", "--pid", &pid], || waited = script.work().parse::<f64>().unwrap());
    assert_nothing_lost(&readings);
    let tasks = rows(&readings, "table", "tasks");
    assert!(tasks.iter().all(|row| row["pid"] == pid.as_str() && row["name"] == "python3"), "{tasks:#?}");
    let locks = rows(&readings, "table", "locks");
    let of_inode = locks.iter().filter(|row| {
        row["kind"] == "rwsem, write" && row["function"].as_str().is_some_and(|name| name.contains("file_write_iter"))
    });
    let (mut time, mut longest) = (0.0, 0.0_f64);
    for row in of_inode {
        time += row["time"].as_f64().unwrap();
        longest = longest.max(row["max"].as_f64().unwrap());
    }
    // What is left of a write beside the wait is the way to the lock, one byte, and the CPU that it gets back.
    assert!(time <= waited && time > 0.7 * waited, "{time} s, and the writer was kept for {waited} s: {locks:#?}");
    assert!(longest > 0.0 && longest <= time);
}

/// One process writes without a pause into a file into which four others want to write a byte, as in `WRITES`. The first in the queue
/// is woken and has no CPU yet; the others sleep.
const WAITS_FOR_A_WRITER: &str = "
import os, time
os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
f, block, parent = os.memfd_create('rdiag'), bytes(8 << 20), os.getpid()
def loop(name, data):
    if os.fork(): return
    open('/proc/self/comm', 'w').write(name)
    while os.getppid() == parent: os.pwrite(f, data, 0)
    os._exit(0)
for name, data in [('rdiag-holds', block)] + 4 * [('rdiag-waits', b'x')]: loop(name, data)
time.sleep(60)
";

#[test]
#[ignore = "needs: root, eBPF, python3"]
fn writers_that_wait_for_another_of_their_file_are_named_with_the_function_that_asked_for_the_lock() {
    let _alone = alone();
    if !ready() {
        return;
    }
    let load = Load::start(1, "python3", &["-c", WAITS_FOR_A_WRITER]);
    let report = live_report(4);
    drop(load);
    let found = finding(&report, "kernel.saturation.locks", None);
    assert_eq!(found["status"], "info", "{found:#}");
    assert_eq!(found["culprit"], serde_json::Value::Null, "who waits holds no lock: {found:#}");
    assert!(found["value"].as_f64().unwrap() > 1.0, "four wait nearly all the time: {found:#}");
    let summary = found["summary"].as_str().unwrap();
    assert!(summary.contains("file_write_iter") && summary.contains("rdiag-waits waited the most"), "{summary}");
}

/// A thread that waits 20 times for 20 ms until another one wakes it, and 10 times for 10 ms in vain.
const FUTEX: &str = "
import ctypes, threading
libc = ctypes.CDLL(None, use_errno=True)
word, idle = ctypes.c_int(0), ctypes.c_int(0)
class Timespec(ctypes.Structure): _fields_ = [('seconds', ctypes.c_long), ('ns', ctypes.c_long)]
call = 202 if os.uname().machine == 'x86_64' else 98
waited = 0
def wait(word, timeout):
    global waited
    began = time.monotonic()
    result = libc.syscall(call, ctypes.byref(word), 128, 0, timeout and ctypes.byref(timeout))
    if not timeout: waited += time.monotonic() - began
    return result
def waiter():
    for i in range(20): wait(word, None)
    for i in range(10): wait(idle, Timespec(0, 10000000))
thread = threading.Thread(target=waiter)
thread.start()
for i in range(20):
    time.sleep(0.02)
    while libc.syscall(call, ctypes.byref(word), 129, 1) != 1: time.sleep(0.001)
thread.join()
says = f'{ctypes.addressof(word):#x} {ctypes.addressof(idle):#x} {waited} {threading.get_native_id()}'
";

/// `least`: how much of what the thread sees is the wait; the way there and back takes an emulated CPU milliseconds.
fn waits_in_futex_are_told(least: f64) {
    let (mut script, mut says) = (Script::start(FUTEX), String::new());
    let mut other = Script::start(FUTEX);
    let pid = script.pid().to_string();
    let readings = probed(&["futexctn", "--pid", &pid], || {
        says = script.work();
        other.work();
    });
    assert_nothing_lost(&readings);
    let [word, idle, waited, waker] = says.split(' ').collect::<Vec<_>>()[..] else { panic!("{says}") };
    let locks = rows(&readings, "table", "locks");
    assert!(locks.iter().all(|row| row["pid"] == pid.as_str() && row["name"] == "python3"), "{locks:#?}");
    let at = |address: &str| locks.iter().find(|row| row["address"] == address).unwrap_or_else(|| panic!("{locks:#?}"));
    let (lock, waited) = (at(word), waited.parse::<f64>().unwrap());
    assert_eq!((&lock["count"], &lock["timed_out"]), (&20.0.into(), &0.0.into()));
    let time = lock["time"].as_f64().unwrap();
    assert!(time <= waited && time > least * waited && time > 0.35, "{time} s, and the thread itself says {waited} s");
    assert_eq!(lock["ended_by"], format!("python3 (tid {waker})"));
    assert_eq!(lock["ended"], lock["time"]);
    assert_eq!((&at(idle)["count"], &at(idle)["timed_out"]), (&10.0.into(), &10.0.into()));
    assert!(at(idle)["time"].as_f64().unwrap() >= 0.1 && at(idle)["ended_by"].is_null(), "{locks:#?}");
    let outputs = readings.last().unwrap()["outputs"].as_array().unwrap();
    let lengths = outputs.iter().find_map(|output| output.get("histogram")).unwrap()["rows"].as_array().unwrap();
    let timed_out = lengths.iter().find(|row| row["instance"] == "timed out").unwrap();
    assert!(timed_out["count"].as_f64().unwrap() >= 10.0, "{timed_out:#}");
}

#[test]
#[ignore = "needs: root, eBPF, python3"]
fn waits_for_a_lock_of_the_kernel_and_of_a_program_are_as_long_as_who_waited_says() {
    let _alone = alone();
    if ready() {
        waits_for_an_inode_are_as_long_as_the_writer_says();
        waits_in_futex_are_told(0.95);
    }
}

#[test]
#[ignore = "needs: root, eBPF, python3, a kernel of the matrix"]
fn vm_waits_for_a_lock_of_the_kernel_are_as_long_as_the_writer_says() {
    let _alone = alone();
    if ready() {
        waits_for_an_inode_are_as_long_as_the_writer_says();
    }
}

#[test]
#[ignore = "needs: root, eBPF, python3, a kernel of the matrix"]
fn vm_waits_in_futex_are_told_by_address_with_who_ended_them() {
    let _alone = alone();
    if ready() {
        waits_in_futex_are_told(0.7);
    }
}

/// Two threads, one after the other so that they never meet: they contradict each other in the order of `a` and `b`, agree on `a` and
/// `c`, and one of them contradicts itself.
const ORDERS: &str = r"
#include <pthread.h>
#include <unistd.h>
/* All zero is how a mutex begins. */
static pthread_mutex_t a, b, c, d;
static void both(pthread_mutex_t *first, pthread_mutex_t *then)
{
	pthread_mutex_lock(first);
	pthread_mutex_lock(then);
	pthread_mutex_unlock(then);
	pthread_mutex_unlock(first);
}
static void *pays(void *x)
{
	for (int i = 0; i < 5; i++) {
		pthread_mutex_lock(&a);
		pthread_mutex_lock(&b);
		pthread_mutex_unlock(&a); /* not in the opposite order */
		pthread_mutex_unlock(&b);
	}
	both(&a, &c);
	both(&c, &d);
	both(&d, &c);
	return 0;
}
static void *pays_back(void *x)
{
	for (int i = 0; i < 3; i++) {
		pthread_mutex_lock(&b);
		pthread_mutex_lock(&a);
		pthread_mutex_unlock(&a);
		pthread_mutex_unlock(&b);
	}
	both(&a, &c);
	return 0;
}
int main(void)
{
	pthread_t thread;
	pthread_create(&thread, 0, pays, 0);
	pthread_join(thread, 0);
	pthread_create(&thread, 0, pays_back, 0);
	pthread_join(thread, 0);
	sleep(3);
	return 0;
}
";

fn contradicting_orders_are_told_with_both_functions() {
    let folder = tempfile::tempdir().unwrap();
    let (source, binary) = (folder.path().join("orders.c"), folder.path().join("orders"));
    std::fs::write(&source, ORDERS).unwrap();
    let flags = ["-O0", "-fno-omit-frame-pointer", "-pthread", "-o"];
    assert!(std::process::Command::new("cc").args(flags).arg(&binary).arg(&source).status().unwrap().success());
    let mut command = rdiag();
    command.args(["probe", "deadlock", "--format", "json", "--budget", "100%", "--"]).arg(&binary);
    let output = command.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let readings: Vec<serde_json::Value> = vec![serde_json::from_slice(&output.stdout).unwrap()];
    assert_nothing_lost(&readings);
    let circles = rows(&readings, "table", "circles");
    let [circle] = &circles[..] else { panic!("{circles:#?}") };
    let functions: std::collections::BTreeSet<&str> = circle["functions"].as_str().unwrap().split(", ").collect();
    assert_eq!(functions, ["pays", "pays_back"].into());
    assert_eq!((&circle["name"], &circle["locks"], &circle["count"]), (&"orders".into(), &2.0.into(), &3.0.into()));
}

#[test]
#[ignore = "needs: root, eBPF, cc"]
fn mutexes_that_two_threads_take_in_contradicting_orders_are_told_though_nobody_waited() {
    let _alone = alone();
    if has(&[Need::Root, Need::Tool("cc")]) {
        contradicting_orders_are_told_with_both_functions();
    }
}

#[test]
#[ignore = "needs: root, a kernel of the matrix"]
fn vm_mutexes_that_two_threads_take_in_contradicting_orders_are_told_though_nobody_waited() {
    let _alone = alone();
    if has(&[Need::Root, Need::Tool("cc")]) {
        contradicting_orders_are_told_with_both_functions();
    }
}
