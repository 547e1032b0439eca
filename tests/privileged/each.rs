//! Repeated runs of programs that are slow now and then for a known reason: `rdiag run method-r --each`.

use std::path::{Path, PathBuf};
use std::process::Stdio;

use serde_json::Value;

use crate::support::{Need, alone, has, rdiag, skip};

const NEEDS: &[Need] = &[Need::Root, Need::Path("/sys/kernel/btf/vmlinux")];

/// The runs of a report, and what rdiag told meanwhile.
fn runs(args: &[&str]) -> (Value, String) {
    let output = rdiag()
        .args(["run", "method-r", "--format", "json", "--out", "-", "--budget", "100%"])
        .args(args)
        .output()
        .unwrap();
    let told = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{args:?}: {told}");
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    let profile = report.get("profile").cloned().expect("a profile");
    assert_eq!(profile.get("level").and_then(Value::as_str), Some("L3"), "{profile:#}");
    (profile, told)
}

fn figure(value: &Value) -> f64 {
    value.as_f64().unwrap_or_else(|| panic!("{value} is no number"))
}

/// A script that does something in every fifth run, in a folder of its own.
struct Script {
    folder: tempfile::TempDir,
}

impl Script {
    fn new(every_fifth: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let counter = folder.path().join("count");
        std::fs::write(&counter, "0\n").unwrap();
        let text = format!(
            "read n < {0}\nn=$((n + 1))\necho $n > {0}\nif [ $((n % 5)) = 0 ]; then {every_fifth}; fi\nexit 0\n",
            counter.display()
        );
        std::fs::write(folder.path().join("script"), text).unwrap();
        Self { folder }
    }

    fn path(&self) -> String {
        self.folder.path().join("script").display().to_string()
    }

    fn count(&self) -> u32 {
        std::fs::read_to_string(self.folder.path().join("count")).unwrap().trim().parse().unwrap()
    }
}

/// The parts of each run add up to its time.
fn assert_whole(runs: &Value) {
    for run in runs["slowest"].as_array().unwrap() {
        let parts: f64 = run["parts"].as_array().unwrap().iter().map(|part| figure(&part[1])).sum();
        let seconds = figure(&run["seconds"]);
        assert!((parts - seconds).abs() < 0.02 * seconds + 0.002, "{run:#}");
    }
}

#[test]
#[ignore = "needs: root, eBPF"]
fn a_command_that_sleeps_in_every_fifth_run_is_slow_by_that_even_if_a_child_sleeps() {
    let _alone = alone();
    if !has(NEEDS) {
        return;
    }
    let script = Script::new("sleep 0.3");
    let (profile, told) = runs(&["--each", "20", "--goal", "200ms", "--", "sh", &script.path()]);
    let runs = &profile["runs"];
    assert_eq!(script.count(), 20, "it ran that often: {told}");
    assert_eq!((&runs["count"], &runs["open"]), (&20.into(), &0.into()), "{runs:#}");
    // On a busy machine others may miss it too.
    let late = runs["slowest"].as_array().unwrap().iter().filter(|run| figure(&run["seconds"]) > 0.2).count();
    assert!(late >= 4 && figure(&runs["within_goal"]) == 20.0 - late as f64, "{runs:#}");
    assert!(told.contains(", 20 times, ended with code 0"), "{told}");
    assert_whole(runs);
    let difference = &runs["difference"];
    let gap = figure(&difference["seconds"]);
    let rows = difference["rows"].as_array().unwrap();
    let slept = rows.iter().find(|row| row["id"] == "wait.sleep").expect("time asleep");
    assert_eq!((&slept["mostly"], &slept["above_all_fast"]), (&"clock_nanosleep in sleep".into(), &4.into()));
    // Four of the five slowest slept 0.3 s; whatever else the machine made them wait for is in other rows.
    assert!((0.235..0.26).contains(&figure(&slept["seconds"])), "{difference:#}");
    let busy = ["cpu.", "runq.", "io.block.", "fault"];
    let others = rows.iter().filter(|row| busy.iter().any(|begin| row["id"].as_str().unwrap().starts_with(begin)));
    let others: f64 = others.map(|row| figure(&row["seconds"])).sum();
    assert!((figure(&slept["seconds"]) + others - gap).abs() < 0.05 * gap, "{difference:#}");
    assert!(figure(&difference["unexplained_seconds"]).abs() < 0.05 * gap, "{difference:#}");
    // What starts the runs is none of them.
    let names = profile["threads"].as_array().unwrap();
    assert!(names.iter().all(|thread| thread["comm"] != "rdiag:each"), "{names:#?}");
}

#[test]
#[ignore = "needs: root, eBPF"]
fn a_command_that_computes_in_every_fifth_run_is_slow_by_that() {
    let _alone = alone();
    if !has(NEEDS) {
        return;
    }
    let script = Script::new("i=0; while [ $i -lt 200000 ]; do i=$((i + 1)); done");
    let (profile, _) = runs(&["--each", "20", "--", "sh", &script.path()]);
    let runs = &profile["runs"];
    assert_eq!(runs["count"], 20, "{runs:#}");
    assert_whole(runs);
    let difference = &runs["difference"];
    // Whoever computes may have to wait for a CPU; there is nothing else that could have grown.
    let of_cpu = |row: &&Value| ["cpu.", "runq."].iter().any(|begin| row["id"].as_str().unwrap().starts_with(begin));
    let rows = difference["rows"].as_array().unwrap();
    let share: f64 = rows.iter().filter(of_cpu).map(|row| figure(&row["share"])).sum();
    assert!((0.9..1.05).contains(&share), "{difference:#}");
    let computing = rows.iter().find(|row| row["id"] == "cpu.user").expect("time in user mode");
    // The fifth of the slow runs may have a little more than any fast one, too.
    assert!(figure(&computing["above_all_fast"]) >= 4.0, "{difference:#}");
}

#[test]
#[ignore = "needs: root, eBPF"]
fn runs_that_come_by_themselves_are_found_by_name_from_exec_to_exit() {
    let _alone = alone();
    if !has(NEEDS) {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let nap = folder.path().join("rdiag-nap");
    std::fs::copy(sleep(), &nap).unwrap();
    // It ends by itself, should the test not live to end it.
    let nap = nap.display();
    let text =
        format!("i=0; while [ $i -lt 40 ]; do i=$((i + 1)); for t in 0.04 0.04 0.04 0.04 0.2; do {nap} $t; done; done");
    let mut loops = std::process::Command::new("sh").args(["-c", &text]).stdin(Stdio::null()).spawn().unwrap();
    let (profile, _) = runs(&["--each", "rdiag-nap", "--duration", "3s"]);
    loops.kill().unwrap();
    loops.wait().unwrap();
    let runs = &profile["runs"];
    assert!(figure(&runs["count"]) >= 16.0 && figure(&runs["open"]) <= 2.0, "{runs:#}");
    assert_whole(runs);
    let response = &runs["response"];
    assert!(figure(&response["min"]) >= 0.04 && figure(&response["p50"]) < 0.08, "{response:#}");
    assert!((0.2..0.3).contains(&figure(&response["max"])), "{response:#}");
    assert_eq!(runs["difference"]["rows"][0]["id"], "wait.sleep", "{runs:#}");
}

/// Where `sleep` is a program of its own, and not one of many in one file that goes by its name.
fn sleep() -> PathBuf {
    let places = ["/usr/bin/sleep", "/bin/sleep"].map(Path::new);
    places.into_iter().find(|place| place.exists()).expect("a sleep").canonicalize().unwrap()
}

#[test]
#[ignore = "needs: root, eBPF"]
fn an_end_before_the_last_run_leaves_no_runs_behind() {
    let _alone = alone();
    if !has(NEEDS) {
        return;
    }
    let script = Script::new("true");
    let counter = script.folder.path().join("count").display().to_string();
    std::fs::write(script.path(), format!("read n < {counter}\necho $((n + 1)) > {counter}\nsleep 0.2\n")).unwrap();
    let (profile, told) = runs(&["--each", "100", "--duration", "2s", "--", "sh", &script.path()]);
    let count = figure(&profile["runs"]["count"]);
    assert!((3.0..=10.0).contains(&count), "{:#}", profile["runs"]);
    assert!(told.contains("not over"), "{told}");
    std::thread::sleep(std::time::Duration::from_millis(400));
    let ran = script.count();
    std::thread::sleep(std::time::Duration::from_millis(600));
    assert_eq!(script.count(), ran, "somebody still runs it");
}

/// A server that sleeps in every fifth request, in a call within the call, and between requests too.
const SERVER: &str = r#"
#include <fcntl.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
static int marker = -1;
static void mark(const char *text) { if (marker >= 0 && write(marker, text, strlen(text)) < 0) marker = -1; }
static void nap(long ms) { struct timespec t = { 0, ms * 1000000 }; nanosleep(&t, 0); }
__attribute__((noinline)) long handle_request(long n, int depth)
{
    volatile long sum = 0;
    for (int i = 0; i < 20000; i++) sum += i;
    if (depth) { sum += handle_request(n, 0); if (n % 5 == 4) nap(40); }
    return sum;
}
int main(int argc, char **argv)
{
    long n = 0;
    time_t end = time(0) + 60;
    if (argc > 1) marker = open(argv[1], O_WRONLY);
    while (time(0) < end) { mark("request begins"); handle_request(n++, 1); mark("request ends"); nap(5); }
}
"#;

/// Where programs write marks for ftrace.
fn trace_marker() -> Option<&'static Path> {
    let places = ["/sys/kernel/tracing/trace_marker", "/sys/kernel/debug/tracing/trace_marker"].map(Path::new);
    places.into_iter().find(|place| place.exists())
}

#[test]
#[ignore = "needs: root, eBPF"]
fn requests_of_a_server_are_told_apart_by_the_function_that_handles_them() {
    let _alone = alone();
    if !has(NEEDS) || !has(&[Need::Tool("cc")]) {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let (source, server) = (folder.path().join("server.c"), folder.path().join("rdiag-server"));
    std::fs::write(&source, SERVER).unwrap();
    let built = std::process::Command::new("cc").args(["-O1", "-o"]).arg(&server).arg(&source).status().unwrap();
    assert!(built.success());
    let mut running = std::process::Command::new(&server).args(trace_marker()).stdin(Stdio::null()).spawn().unwrap();
    let (pid, mark) = (running.id().to_string(), format!("{}:handle_request", server.display()));
    let (profile, _) = runs(&["--pid", &pid, "--each-from", &mark, "--duration", "3s"]);
    // A request that ends where the next one begins holds what is between them.
    let ends = format!("function={mark}");
    let (round, _) =
        runs(&["--pid", &pid, "--each-from", &format!("return={mark}"), "--each-to", &ends, "--duration", "1s"]);
    let marked = trace_marker().map(|_| {
        let (from, to) = ("marker=request begins", "marker=request ends");
        runs(&["--pid", &pid, "--each-from", from, "--each-to", to, "--duration", "2s"]).0
    });
    running.kill().unwrap();
    running.wait().unwrap();
    if marked.is_none() {
        skip("in part: no place to write marks to");
    }
    if let Some(marked) = marked {
        let runs = &marked["runs"];
        assert!(figure(&runs["count"]) > 40.0 && figure(&runs["response"]["p50"]) < 0.02, "{runs:#}");
        let rows = runs["difference"]["rows"].as_array().unwrap();
        assert_eq!(rows[0]["mostly"], "clock_nanosleep", "{rows:#?}");
    }
    let runs = &profile["runs"];
    let count = figure(&runs["count"]);
    assert!(count > 60.0 && figure(&runs["open"]) <= 1.0, "{runs:#}");
    assert_whole(runs);
    // The sleep between requests is in none, that within a call within the call is in every fifth.
    let components = runs["components"].as_array().unwrap();
    let slept = components.iter().find(|row| row["id"] == "wait.sleep").expect("time asleep");
    let every = count / figure(&slept["runs"]);
    assert!((4.5..5.5).contains(&every) && (0.04..0.06).contains(&figure(&slept["max"])), "{slept:#}");
    assert!(figure(&runs["response"]["p50"]) < 0.02, "{runs:#}");
    let rows = runs["difference"]["rows"].as_array().unwrap();
    let grown = rows.iter().find(|row| row["id"] == "wait.sleep").expect("what slow requests have more of");
    assert_eq!(grown["mostly"], "clock_nanosleep", "{rows:#?}");
    assert!(figure(&grown["seconds"]) > 0.03, "{grown:#}");
    let times = &round["runs"]["response"];
    assert!(figure(&times["min"]) > 0.004 && figure(&times["p50"]) < 0.03, "{times:#}");
}

/// Starts children that handle requests, a thread of its own in each, and ends with them.
const FORKS: &str = r#"
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
__attribute__((noinline)) long handle_request(long n)
{
    struct timespec t = { 0, n % 5 == 4 ? 40000000 : 2000000 };
    nanosleep(&t, 0);
    return n + 1;
}
int main(void)
{
    for (int child = 0; child < 3; child++)
        if (!fork()) {
            long sum = 0;
            for (long n = 0; n < 20; n++) sum += handle_request(n);
            _exit(sum == 0);
        }
    while (wait(0) > 0) {}
    return 0;
}
"#;

#[test]
#[ignore = "needs: root, eBPF, cc"]
fn requests_of_a_command_and_of_what_it_starts_are_measured_from_the_first_one() {
    let _alone = alone();
    if !has(NEEDS) || !has(&[Need::Tool("cc")]) {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    std::fs::create_dir(folder.path().join("bin")).unwrap();
    let (source, server) = (folder.path().join("forks.c"), folder.path().join("bin/rdiag-forks"));
    std::fs::write(&source, FORKS).unwrap();
    let built = std::process::Command::new("cc").args(["-O1", "-o"]).arg(&server).arg(&source).status().unwrap();
    assert!(built.success());
    // Nobody else's requests: not those of the same program that runs beside it.
    let mut other = std::process::Command::new("sh");
    other.args(["-c", "while :; do \"$0\"; done"]).arg(&server).stdin(Stdio::null());
    let mut other = other.spawn().unwrap();
    let here = |from: &str, at: &Path, command: &[&str]| {
        let mut rdiag = rdiag();
        rdiag.args(["run", "method-r", "--format", "json", "--out", "-", "--budget", "100%", "--each-from", from]);
        let output = rdiag.arg("--").args(command).current_dir(at).output().unwrap();
        let told = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success(), "{from}: {told}");
        let report: Value = serde_json::from_slice(&output.stdout).unwrap();
        report["profile"].clone()
    };
    let bin = folder.path().join("bin");
    let all = [
        here("./rdiag-forks:handle_request", &bin, &["./rdiag-forks"]),
        here("bin/rdiag-forks:handle_request", folder.path(), &["sh", "-c", "bin/rdiag-forks; true"]),
        here("../bin/rdiag-forks:handle_request", &bin, &["./rdiag-forks"]),
        // Its parent has ended: whose child it is does not tell that it belongs to the command.
        here("bin/rdiag-forks:handle_request", folder.path(), &["sh", "-c", "(bin/rdiag-forks &); sleep 1"]),
    ];
    other.kill().unwrap();
    other.wait().unwrap();
    for profile in all {
        let runs = &profile["runs"];
        assert_eq!((&runs["count"], &runs["open"]), (&60.into(), &0.into()), "{runs:#}");
        assert_whole(runs);
        let slept = &runs["components"][0];
        assert_eq!((&slept["id"], &slept["runs"]), (&"wait.sleep".into(), &60.into()), "{runs:#}");
        assert_eq!(runs["difference"]["rows"][0]["mostly"], "clock_nanosleep", "{runs:#}");
        let subject = profile["subject"].as_str().unwrap();
        assert!(subject.starts_with("the runs of the command `") && subject.contains(" from "), "{subject}");
        // What can be done next names the command, not processes that have ended.
        let next = profile["components"][0]["next"].to_string();
        assert!(!next.contains("--pid ") || next.contains("--pid ITS_PID"), "{next}");
    }
}

#[test]
#[ignore = "needs: root, eBPF"]
fn collections_of_garbage_are_told_apart_by_the_marks_that_the_interpreter_has() {
    let _alone = alone();
    let python = Path::new("/usr/bin/python3");
    if !has(NEEDS) || !has(&[Need::Tool("python3")]) {
        return;
    }
    let notes = std::process::Command::new("readelf").args(["-n", "/usr/bin/python3"]).output();
    if !notes.is_ok_and(|notes| String::from_utf8_lossy(&notes.stdout).contains("gc__start")) {
        return skip("the interpreter was built without marks");
    }
    let script = "import gc,time\nkept=[[] for _ in range(100000)]\nwhile True: gc.collect(); time.sleep(0.01)";
    let mut running = std::process::Command::new(python).args(["-c", script]).stdin(Stdio::null()).spawn().unwrap();
    let (pid, mark) = (running.id().to_string(), |name: &str| format!("usdt={}:python:{name}", python.display()));
    std::thread::sleep(std::time::Duration::from_millis(500));
    let (from, to) = (mark("gc__start"), mark("gc__done"));
    let (profile, _) = runs(&["--pid", &pid, "--each-from", &from, "--each-to", &to, "--duration", "2s"]);
    running.kill().unwrap();
    running.wait().unwrap();
    let runs = &profile["runs"];
    assert!(figure(&runs["count"]) > 10.0, "{runs:#}");
    assert_whole(runs);
    // Its pauses are between the collections.
    assert!(profile["components"].as_array().unwrap().iter().all(|row| row["id"] != "wait.sleep"), "{profile:#}");
}

#[test]
fn marks_that_are_none_are_told_before_anything_is_measured() {
    let told = |args: &[&str]| {
        let output = rdiag().args(["run", "method-r", "--pid", "1"]).args(args).output().unwrap();
        assert_eq!(output.status.code(), Some(2), "{args:?}");
        String::from_utf8_lossy(&output.stderr).into_owned()
    };
    assert!(told(&["--each-from", "uprobe=main", "--each-to", "x:main"]).contains("no kind of mark"));
    assert!(told(&["--each-from", "usdt=python3:python:audit"]).contains("add --each-to MARK"));
    assert!(told(&["--each-from", "/no/such/file:main"]).contains("/no/such/file"));
    assert!(told(&["--each-to", "x:main"]).contains("--each-from"));
    let own = std::env::current_exe().unwrap().display().to_string();
    let same = format!("{own}:main");
    assert!(told(&["--each-from", &same, "--each-to", &same]).contains("cannot be the beginning and the end"));
    // A relative path is one from here, and not from the root.
    let relative = told(&["--each-from", "usr/bin/no-such-program:main"]);
    let here = std::env::current_dir().unwrap().join("usr/bin/no-such-program");
    assert!(
        relative.contains(&format!("there is no file \"usr/bin/no-such-program\" here ({})", here.display())),
        "{relative}"
    );
}
