//! In which functions the time of a command went, on CPUs and in waits: of programs in C and in Python.

use std::fmt::Write as _;
use std::path::Path;
use std::process::Command;

use serde_json::Value;

use crate::support::{Need, alone, has, rdiag};

pub(super) const NEEDS: &[Need] = &[Need::Root, Need::Path("/sys/kernel/btf/vmlinux")];

pub(super) fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Runs a command in a folder, and gives the profile of its time.
pub(super) fn profile(folder: &Path, command: &[&str]) -> Value {
    profile_of(folder, &[&["--"], command].concat())
}

/// The same of what these arguments say.
pub(super) fn profile_of(folder: &Path, command: &[&str]) -> Value {
    let mut run = rdiag();
    run.args(["run", "method-r", "--format", "json", "--out", "-", "--budget", "100%"]).args(command);
    let output = run.current_dir(folder).output().unwrap();
    assert!(output.status.success(), "{command:?}: {}", text(&output.stderr));
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    report.get("profile").cloned().expect("a profile")
}

/// A stack: its component, seconds, and functions with their files, outermost first.
pub(super) struct Shown {
    pub(super) component: String,
    pub(super) seconds: f64,
    pub(super) functions: Vec<String>,
}

impl Shown {
    /// Whether it has these functions, in this order, one calling the next.
    fn has(&self, functions: &[&str]) -> bool {
        self.functions.windows(functions.len()).any(|own| own == functions)
    }
}

pub(super) fn stacks(profile: &Value) -> Vec<Shown> {
    let at = |value: &Value, path: &str| value.pointer(path).cloned().unwrap_or_default();
    let text = |value: Value| value.as_str().unwrap_or_default().to_owned();
    let all = |value: Value| value.as_array().cloned().unwrap_or_default();
    let frames: Vec<String> = all(at(profile, "/stacks/frames"))
        .iter()
        .map(|frame| format!("{} {}", text(at(frame, "/name")), text(at(frame, "/object"))))
        .collect();
    let shown = |stack: &Value| Shown {
        component: text(at(stack, "/owner")),
        seconds: at(stack, "/value").as_f64().unwrap_or_default(),
        functions: all(at(stack, "/frames"))
            .iter()
            .filter_map(|frame| frames.get(frame.as_u64()? as usize).cloned())
            .collect(),
    };
    let mut shown: Vec<Shown> = all(at(profile, "/stacks/stacks")).iter().map(shown).collect();
    shown.sort_by(|a, b| b.seconds.total_cmp(&a.seconds));
    shown
}

/// Seconds in a component with these functions on the stack.
pub(super) fn seconds(stacks: &[Shown], component: &str, functions: &[&str]) -> f64 {
    let own = stacks.iter().filter(|stack| stack.component == component && stack.has(functions));
    own.map(|stack| stack.seconds).sum()
}

/// The largest, for a failed test.
pub(super) fn all(stacks: &[Shown]) -> String {
    stacks.iter().take(40).fold(String::new(), |mut all, stack| {
        let _ = writeln!(all, "{} {:.3} {}", stack.component, stack.seconds, stack.functions.join(";"));
        all
    })
}

/// Sleeps for 20 ms and for 5 ms in turn, in a class; a thread of its own burns CPU; two forked processes do the same as each other.
const PROGRAM: &str = r#"
import os, threading, time
end = time.time() + SECONDS
def slow():
    time.sleep(0.02)
class Server:
    def handle(self):
        self.query()
    def query(self):
        time.sleep(0.005)
def burn(n):
    total = 0
    for i in range(20000):
        total += i * n
    return total
def work():
    while time.time() < end:
        burn(3)
        time.sleep(0.001)
def child():
    while time.time() < end:
        child_sleeps()
    os._exit(0)
def child_sleeps():
    time.sleep(0.02)
# Not in ASCII, and longer than there is room for.
exec("def geh\u00fctet():\n time.sleep(0.01)\n")
exec("def " + "long_" * 20 + "name():\n time.sleep(0.01)\n")
pids = [os.fork() or child() for _ in range(2)]
threading.Thread(target=work).start()
while time.time() < end:
    slow()
    Server().handle()
    globals()["geh\u00fctet"]()
    globals()["long_" * 20 + "name"]()
[os.waitpid(pid, 0) for pid in pids]
"#;

/// The interpreter is known within a second; where the processor is emulated, from some seconds on.
fn python_has_its_time(takes: u32) {
    let _alone = alone();
    if !has(NEEDS) || !has(&[Need::Tool("python3")]) {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("shop.py"), PROGRAM.replace("SECONDS", &takes.to_string())).unwrap();
    let stacks = stacks(&profile(folder.path(), &["/usr/bin/python3", "shop.py"]));
    let sleeps =
        |functions: &[&str]| seconds(&stacks, "wait.sleep", functions) + seconds(&stacks, "wait.poll", functions);
    let slow = sleeps(&["<module> shop.py", "slow shop.py"]);
    let query = sleeps(&["<module> shop.py", "Server.handle shop.py", "Server.query shop.py"]);
    assert!(slow > 0.3 && (2.0..8.0).contains(&(slow / query)), "{slow} {query}\n{}", all(&stacks));
    // Each has its thread's number from its parent, and the other's functions at the same addresses.
    let of_children = sleeps(&["child shop.py", "child_sleeps shop.py"]);
    assert!(of_children > 2.0 && of_children < 2.0 * f64::from(takes) + 1.0, "{of_children}\n{}", all(&stacks));
    let burnt = seconds(&stacks, "cpu.user", &["work shop.py", "burn shop.py"]);
    let user: f64 = stacks.iter().filter(|stack| stack.component == "cpu.user").map(|stack| stack.seconds).sum();
    assert!(burnt > 0.3 * user, "{burnt} of {user}\n{}", all(&stacks));
    assert!(sleeps(&["(a name that is not ASCII) <string>"]) > 0.1, "{}", all(&stacks));
    let tail = format!("{}name <string>", "long_".repeat(20).get(41..).unwrap_or_default());
    assert!(sleeps(&[&tail]) > 0.1, "{tail}\n{}", all(&stacks));
}

#[test]
#[ignore = "needs: root, eBPF, python3"]
fn time_of_a_python_program_is_that_of_its_functions() {
    python_has_its_time(3);
}

#[test]
#[ignore = "needs: root, eBPF, python3"]
fn vm_time_of_a_python_program_is_that_of_its_functions() {
    python_has_its_time(12);
}

/// What has frame pointers: half of its time on a CPU in one function, a quarter in another.
const SPINS: &str = r"
#include <time.h>
__attribute__((noinline)) unsigned long work(unsigned long x) { for (int i = 0; i < 2000; i++) x = x * 3 + i; return x; }
__attribute__((noinline)) unsigned long more(unsigned long x) { for (int i = 0; i < 1000; i++) x = x * 3 + i; return x; }
int main(void)
{
	unsigned long x = 1;
	for (time_t end = time(0) + 3; time(0) < end;)
		for (int i = 0; i < 1000; i++) { x = work(x) + 1; x = more(x) + 1; }
	return x == 7;
}
";

#[test]
#[ignore = "needs: root, eBPF, cc"]
fn cpu_time_is_divided_among_functions_and_adds_up_to_what_the_ledger_has() {
    let _alone = alone();
    if !has(NEEDS) || !has(&[Need::Tool("cc")]) {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("spin.c"), SPINS).unwrap();
    let flags = ["-O1", "-fno-omit-frame-pointer", "-o", "spin", "spin.c"];
    assert!(Command::new("cc").args(flags).current_dir(folder.path()).status().unwrap().success());
    let profile = profile(folder.path(), &["./spin"]);
    let stacks = stacks(&profile);
    let (work, more) = (seconds(&stacks, "cpu.user", &["work spin"]), seconds(&stacks, "cpu.user", &["more spin"]));
    assert!((1.4..2.8).contains(&(work / more)), "{work} {more}\n{}", all(&stacks));
    let user: f64 = stacks.iter().filter(|stack| stack.component == "cpu.user").map(|stack| stack.seconds).sum();
    let rows = profile.pointer("/components").and_then(Value::as_array).unwrap();
    let row = rows.iter().find(|row| row.pointer("/id").is_some_and(|id| id == "cpu.user")).expect("cpu.user");
    let known = row.pointer("/seconds").and_then(Value::as_f64).unwrap();
    assert!((user - known).abs() < 0.01 * known, "{user} of {known}");
}

/// Without frame pointers: two functions of one caller wait in turn, four times as long as each other and in two calls, a thread waits
/// once, and a function of a function computes. Then it becomes another program, with other functions at the same addresses.
const NAPS: &str = r#"
#include <poll.h>
#include <pthread.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>
#define FUNCTION __attribute__((noipa)) static
FUNCTION long nap(long ms) { struct timespec time = { .tv_nsec = ms * 1000000 }; return nanosleep(&time, 0) + ms; }
#ifdef SECOND
FUNCTION long after(long ms) { volatile long room[60] = { ms }; return nap(room[0]) + room[0]; }
int main(void) { for (int i = 0; i < 50; i++) if (after(20) == 7) return 7; return 0; }
#else
static pthread_mutex_t held = PTHREAD_MUTEX_INITIALIZER;
FUNCTION long slow(long ms) { return nap(ms) + 1; }
FUNCTION long rest(long ms) { return poll(0, 0, ms) + ms; }
FUNCTION long quick(long ms) { return rest(ms) + 2; }
FUNCTION long work(long ms) { return slow(4 * ms) + quick(ms) + 1; }
FUNCTION long spin(long n) { for (int i = 0; i < 4000000; i++) n = n * 3 + i; return n; }
FUNCTION long burn(long n) { return spin(n) + 1; }
FUNCTION long once(void) { return pthread_mutex_lock(&held) + 1; }
static void *waits(void *of) { return (void *)once(); }
int main(int count, char **given)
{
	long sum = 0;
	pthread_t thread;
	pthread_mutex_lock(&held);
	pthread_create(&thread, 0, waits, 0);
	for (time_t end = time(0) + atoi(given[1]); time(0) < end;) {
		sum += work(5);
		sum += burn(sum);
	}
	pthread_mutex_unlock(&held);
	pthread_join(thread, 0);
	if (sum == 7) return 7;
	execl("./after", "after", NULL);
}
#endif
"#;

fn functions_without_frame_pointers_have_their_time(takes: &str) {
    let _alone = alone();
    if !has(NEEDS) || !has(&[Need::Tool("cc")]) {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("naps.c"), NAPS).unwrap();
    for pointers in ["-fomit-frame-pointer", "-fno-omit-frame-pointer"] {
        for (program, define) in [("naps", "-DFIRST"), ("after", "-DSECOND")] {
            let flags = ["-O2", pointers, "-no-pie", "-pthread", define, "-o", program, "naps.c"];
            assert!(Command::new("cc").args(flags).current_dir(folder.path()).status().unwrap().success());
        }
        let stacks = stacks(&profile(folder.path(), &["./naps", takes]));
        let sleeps = |functions: &[&str]| seconds(&stacks, "wait.sleep", functions);
        let slow = sleeps(&["main naps", "work naps", "slow naps", "nap naps"]);
        let quick = seconds(&stacks, "wait.poll", &["main naps", "work naps", "quick naps", "rest naps"]);
        assert!(slow > 0.3 && (2.0..8.0).contains(&(slow / quick)), "{slow} {quick} {pointers}\n{}", all(&stacks));
        // Who follows frame pointers leaves out who called the C library, which has none.
        let callers = ["slow naps", "quick naps", "work naps", "after after"];
        let skips = |own: &[String]| matches!(own, [caller, called] if called.contains("libc") && callers.contains(&caller.as_str()));
        let wrong =
            stacks.iter().filter(|stack| stack.component == "wait.sleep" && stack.functions.windows(2).any(skips));
        let wrong: f64 = wrong.map(|stack| stack.seconds).sum();
        assert!(wrong < 0.001, "{wrong} {pointers}\n{}", all(&stacks));
        let once = seconds(&stacks, "lock.user", &["once naps"]);
        assert!(once > 0.5 * takes.parse::<f64>().unwrap(), "{once} {pointers}\n{}", all(&stacks));
        let burnt = seconds(&stacks, "cpu.user", &["main naps", "burn naps", "spin naps"]);
        let user: f64 = stacks.iter().filter(|stack| stack.component == "cpu.user").map(|stack| stack.seconds).sum();
        assert!(burnt > 0.5 * user, "{burnt} of {user} {pointers}\n{}", all(&stacks));
        let after = sleeps(&["main after", "after after", "nap after"]);
        assert!(after > 0.2, "{after} {pointers}\n{}", all(&stacks));
    }
}

#[test]
#[ignore = "needs: root, eBPF, cc"]
fn time_of_functions_without_frame_pointers_is_theirs() {
    functions_without_frame_pointers_have_their_time("3");
}

#[test]
#[ignore = "needs: root, eBPF, cc"]
fn vm_time_of_functions_without_frame_pointers_is_theirs() {
    functions_without_frame_pointers_have_their_time("10");
}

/// Calls itself an interpreter, and has lists and frames without an end, and a name that would ring a bell and clear the screen.
const LIAR: &str = r#"
#include <pthread.h>
#include <stdint.h>
#include <string.h>
#include <time.h>
struct text { uint64_t head[2], length, hash; uint32_t state; uint32_t pad[3]; char characters[128]; };
struct code { uint64_t words[17]; };
struct frame { uint64_t words[9]; };
struct cframe { uint64_t words[2]; };
struct state { uint64_t words[32]; };
static struct text name = { .length = 100, .state = 0x40 }, file = { .length = 24, .state = 0x40 };
static struct code code;
static struct frame frame;
static struct cframe cframe;
static struct state thread, interpreter;
__attribute__((section(".PyRuntime"), used)) struct state _PyRuntime = { { 1 } };
int main(void)
{
	memset(name.characters, 7, sizeof(name.characters));
	strcpy(file.characters, "/x/\033[2J\033]0;owned\007.py");
	code.words[16] = (uint64_t)&name;
	code.words[14] = (uint64_t)&file;
	frame.words[4] = (uint64_t)&code;
	frame.words[6] = (uint64_t)&frame;
	cframe.words[1] = (uint64_t)&frame;
	thread.words[1] = (uint64_t)&thread;
	thread.words[7] = (uint64_t)&cframe;
	interpreter.words[0] = (uint64_t)&interpreter;
	interpreter.words[2] = (uint64_t)&thread;
	_PyRuntime.words[5] = (uint64_t)&interpreter;
	for (int i = 0; i < 200; i++) {
		/* Known in turns: the list is walked in vain, or the frames are. */
		thread.words[19] = i & 1 ? (uint64_t)pthread_self() : 0;
		nanosleep(&(struct timespec){ .tv_nsec = 10000000 }, 0);
	}
}
"#;

#[test]
#[ignore = "needs: root, eBPF, cc"]
fn a_program_that_lies_about_being_an_interpreter_costs_its_own_names() {
    let _alone = alone();
    if !has(NEEDS) || !has(&[Need::Tool("cc")]) {
        return;
    }
    costs_its_own_names("python3.11", LIAR, &[]);
}

/// Has a program observed that makes up names which would ring a bell and clear the screen: it is shown as what it is called, without what
/// would reach the terminal.
pub(super) fn costs_its_own_names(name: &str, source: &str, flags: &[&str]) {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("liar.c"), source).unwrap();
    let compiled =
        Command::new("cc").args(["-O1", "-o", name, "liar.c"]).args(flags).current_dir(folder.path()).status();
    assert!(compiled.unwrap().success());
    let mut run = rdiag();
    run.args(["run", "method-r", "-v", "--budget", "100%", "--", &format!("./{name}")]);
    let output = run.current_dir(folder.path()).output().unwrap();
    let (shown, told) = (text(&output.stdout), text(&output.stderr));
    assert!(output.status.success(), "{told}");
    assert!(shown.contains("wait.sleep"), "{shown}");
    for raw in ['\u{1b}', '\u{7}'] {
        assert!(!shown.contains(raw) && !told.contains(raw), "{raw:?} in {shown:?}");
    }
    assert!(
        shown.contains("\\u{7}") || shown.contains("\\x07") || shown.contains('\u{fffd}') || shown.contains("^G"),
        "{shown}"
    );
}
