//! Requests of programs that know their own: by what they are called by, and followed from one thread to another (`--each-key`,
//! `--each-off`, Go).

use std::path::Path;
use std::process::Command;

use serde_json::Value;

use crate::support::{Need, alone, has, rdiag, skip};

const NEEDS: &[Need] = &[Need::Root, Need::Path("/sys/kernel/btf/vmlinux")];

/// The profile of a command that is started in a folder, and what it has said itself.
fn profile(folder: &Path, marks: &[&str], command: &[&str]) -> (Value, String) {
    let output = rdiag()
        .args(["run", "method-r", "--format", "json", "--out", "-", "--budget", "100%"])
        .args(marks)
        .arg("--")
        .args(command)
        .current_dir(folder)
        .output()
        .unwrap();
    let told = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{marks:?}: {told}");
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    let profile = report.get("profile").cloned().expect("a profile");
    assert_eq!(at(&profile, "/level"), "L3", "{profile:#}");
    (profile, told)
}

/// What stands there; nothing if nothing does.
fn at<'p>(value: &'p Value, path: &str) -> &'p Value {
    value.pointer(path).unwrap_or(&Value::Null)
}

fn figure(value: &Value) -> f64 {
    value.as_f64().unwrap_or_else(|| panic!("{value} is no number"))
}

/// The runs of a key.
fn of_key<'p>(profile: &'p Value, key: &str) -> &'p Value {
    let rows = at(profile, "/runs/keyed/rows").as_array().unwrap_or_else(|| panic!("{:#}", at(profile, "/runs")));
    rows.iter().find(|row| at(row, "/key") == key).unwrap_or_else(|| panic!("no {key}: {rows:#?}"))
}

/// Seconds of a component, of all runs.
fn seconds(profile: &Value, id: &str) -> f64 {
    let rows = at(profile, "/components").as_array().unwrap();
    rows.iter().find(|row| at(row, "/id") == id).map_or(0.0, |row| figure(at(row, "/seconds")))
}

/// Every fifth request is of another kind and sleeps longer. It is called by its text, its result and its length.
const ORDERS: &str = r#"
#include <stdio.h>
#include <string.h>
#include <time.h>
static void nap(long ms) { struct timespec t = { 0, ms * 1000000 }; nanosleep(&t, 0); }
__attribute__((noinline)) int handle_request(long id, const char *route, unsigned long length)
{
    nap(length == 7 ? 12 : 2);
    return strcmp(route, "/report") ? 200 : 500;
}
int main(void)
{
    /* Memory that is there: a constant is read from the file when it is first used. */
    char report[] = "/report", cart[] = "/cart";
    int results = 0;
    for (long id = 0; id < 100; id++)
        results |= handle_request(id, id % 5 ? cart : report, id % 5 ? 5 : 7);
    return results == 0;
}
"#;

fn built(folder: &Path, compiler: &str, args: &[&str], source: (&str, &str)) {
    std::fs::write(folder.join(source.0), source.1).unwrap();
    let mut command = Command::new(compiler);
    command.args(args).arg(source.0).current_dir(folder).env("GO111MODULE", "off");
    command.env("GOCACHE", folder.join("cache")).env("GOPATH", folder.join("path"));
    assert!(command.status().unwrap().success(), "{compiler}");
}

#[test]
#[ignore = "needs: root, eBPF, cc"]
fn requests_are_compared_by_what_they_are_called_by_at_either_end() {
    let _alone = alone();
    if !has(NEEDS) || !has(&[Need::Tool("cc")]) {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    built(folder.path(), "cc", &["-O1", "-o", "orders"], ("orders.c", ORDERS));
    let marks = ["--each-from", "./orders:handle_request", "--each-key"];
    let by = |key: &str| profile(folder.path(), &[&marks[..], &[key]].concat(), &["./orders"]).0;
    for (key, slow, fast) in [
        ("arg2:string", "/report", "/cart"),
        ("arg2:slice", "/report", "/cart"),
        ("to=return:s32", "500", "200"),
        ("arg3", "7", "5"),
    ] {
        let profile = by(key);
        assert_eq!(profile["runs"]["keyed"]["count"], 2, "{key}: {:#}", profile["runs"]["keyed"]);
        let (slow_runs, fast_runs) = (of_key(&profile, slow), of_key(&profile, fast));
        assert_eq!((&slow_runs["runs"], &fast_runs["runs"]), (&20.into(), &80.into()), "{key}");
        // Ten of a hundred are the slow ones.
        assert_eq!(slow_runs["slow"], 10, "{key}: {slow_runs:#}");
        assert!(figure(&slow_runs["p50"]) > 0.012 && figure(&fast_runs["p50"]) < 0.01, "{key}: {slow_runs:#}");
        let headline = profile["runs"]["keyed"]["headline"].as_str().unwrap();
        assert!(headline.starts_with(&format!("The key {slow:?} has 10 of the 10 slowest runs")), "{headline}");
    }
    let ids = by("arg1");
    let keyed = &ids["runs"]["keyed"];
    assert_eq!((&keyed["count"], keyed.get("rows")), (&100.into(), None), "each has one of its own: {keyed:#}");
    let slowest = &ids["runs"]["slowest"][0]["key"];
    assert_eq!(slowest.as_str().unwrap().parse::<u32>().unwrap() % 5, 0, "{slowest}");
}

/// Requests that sleep, wait for a lock, for an answer of another goroutine, and for the network, each with its own clock. What it was
/// is said in the end, in nanoseconds.
const GO_SERVER: &str = r#"
package main

import (
	"fmt"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"time"
)

type server struct {
	mu    sync.Mutex
	work  chan chan int
	peer  string
	sums  [5]int64
	count int64
}

func (s *server) timed(kind int, what func()) {
	began := time.Now()
	what()
	atomic.AddInt64(&s.sums[kind], int64(time.Since(began)))
}

//go:noinline
func (s *server) handle(id int, route string) {
	s.timed(4, func() {
		switch id % 4 {
		case 0:
			s.timed(0, func() { time.Sleep(3 * time.Millisecond) })
		case 1:
			s.timed(1, func() { s.mu.Lock() })
			s.mu.Unlock()
		case 2:
			s.timed(2, func() { reply := make(chan int); s.work <- reply; <-reply })
		case 3:
			s.timed(3, func() {
				c, err := net.Dial("tcp", s.peer)
				if err != nil {
					panic(err)
				}
				var b [8]byte
				c.Read(b[:])
				c.Close()
			})
		}
	})
	s.done(route)
}

//go:noinline
func (s *server) done(route string) { atomic.AddInt64(&s.count, 1) }

func main() {
	s := &server{work: make(chan chan int)}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		panic(err)
	}
	s.peer = l.Addr().String()
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() { time.Sleep(4 * time.Millisecond); c.Write([]byte("x")); c.Close() }()
		}
	}()
	go func() {
		for reply := range s.work {
			time.Sleep(2 * time.Millisecond)
			reply <- 1
		}
	}()
	go func() {
		for {
			s.mu.Lock()
			time.Sleep(2 * time.Millisecond)
			s.mu.Unlock()
			time.Sleep(time.Millisecond)
		}
	}()
	routes := []string{"/sleep and more", "/lock", "/chan", "/net"}
	end := time.Now().Add(2 * time.Second)
	var wg sync.WaitGroup
	for worker := 0; worker < 8; worker++ {
		wg.Add(1)
		go func(worker int) {
			defer wg.Done()
			for id := worker; time.Now().Before(end); id++ {
				route := routes[id%4]
				if id%4 == 0 {
					route = route[:6]
				}
				s.handle(id, route)
			}
		}(worker)
	}
	wg.Wait()
	fmt.Fprintln(os.Stderr, "truth", s.count, s.sums[0], s.sums[1], s.sums[2], s.sums[3], s.sums[4])
}
"#;

#[test]
#[ignore = "needs: root, eBPF, go"]
fn requests_of_a_go_program_are_followed_from_thread_to_thread_with_what_their_goroutines_wait_for() {
    let _alone = alone();
    if !has(NEEDS) {
        return;
    }
    if !has(&[Need::Tool("go")]) {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    built(folder.path(), "go", &["build", "-o", "server"], ("server.go", GO_SERVER));
    let marks = ["--each-from", "./server:main.(*server).handle", "--each-to", "./server:main.(*server).done"];
    let (profile, told) = profile(folder.path(), &[&marks[..], &["--each-key", "arg3:slice"]].concat(), &["./server"]);
    let truth = told.lines().find_map(|line| line.strip_prefix("truth ")).unwrap_or_else(|| panic!("{told}"));
    let truth: Vec<f64> = truth.split(' ').map(|word| word.parse().unwrap()).collect();
    let [count, slept, locked, parked, network, whole] = truth[..] else { panic!("{truth:?}") };
    let runs = &profile["runs"];
    assert_eq!(figure(&profile["population"]["seen"]), count, "{:#}", profile["population"]);
    assert_eq!((&runs["followed"], &runs["open"]), (&true.into(), &0.into()), "{runs:#}");
    let all = figure(&profile["task_seconds"]);
    let points = |is: f64, truth: f64| 100.0 * (is - truth * 1e-9).abs() / all;
    assert!(points(all, whole) < 3.0, "{all} s of {whole} ns");
    // The rest of a call to the network is CPU time.
    for (id, truth, most) in [
        ("wait.sleep", slept, 2.0),
        ("lock.user", locked, 2.0),
        ("wait.parked", parked, 2.0),
        ("wait.poll", network, 3.0),
    ] {
        let is = seconds(&profile, id);
        assert!(points(is, truth) < most, "{id}: {is} s of {truth} ns in {all} s");
    }
    // A text of Go has its length behind it: of this one the program has more.
    let sleep = of_key(&profile, "/sleep");
    assert!((0.003..0.006).contains(&figure(&sleep["p50"])), "{sleep:#}");
    assert_eq!(sleep["parts"][0][0], "wait.sleep", "{sleep:#}");
    // Where it waits: by the goroutine's own stack, with its caller.
    let frames = profile["stacks"]["frames"].as_array().unwrap();
    for name in ["main.(*server).handle", "sync.(*Mutex).Lock", "runtime.chanrecv1", "time.Sleep"] {
        assert!(frames.iter().any(|frame| frame["name"] == name), "{name}: {frames:#?}");
    }
    assert!(!profile.to_string().contains("offcputime"), "threads that wait show nothing of goroutines");
}

/// Two goroutines that hand a number to and fro as fast as they can, and now and then a request. How often in each second is said.
const GO_CHATTER: &str = r#"
package main

import (
	"fmt"
	"os"
	"time"
)

//go:noinline
func handle(id int) { done(id) }

//go:noinline
func done(id int) {}

func main() {
	to, fro := make(chan int), make(chan int)
	go func() {
		for v := range to {
			fro <- v
		}
	}()
	for second := 0; second < 6; second++ {
		end := time.Now().Add(time.Second)
		turns := 0
		for ; time.Now().Before(end); turns++ {
			to <- turns
			<-fro
			if turns%100 == 0 {
				handle(turns)
			}
		}
		fmt.Fprintln(os.Stderr, "turns", turns)
	}
}
"#;

#[test]
#[ignore = "needs: root, eBPF, go"]
fn a_go_program_that_switches_goroutines_all_the_time_is_let_alone_when_that_takes_too_much() {
    let _alone = alone();
    if !has(NEEDS) || !has(&[Need::Tool("go")]) {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    built(folder.path(), "go", &["build", "-o", "chatter"], ("chatter.go", GO_CHATTER));
    let mut rdiag = rdiag();
    rdiag.args(["run", "method-r", "--format", "json", "--out", "-", "--each-from", "./chatter:main.handle"]);
    let output =
        rdiag.args(["--each-to", "./chatter:main.done", "--", "./chatter"]).current_dir(folder.path()).output();
    let output = output.unwrap();
    let told = String::from_utf8_lossy(&output.stderr).into_owned();
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    let partial = &report["profile"]["partial"];
    let why = partial["why"].as_str().unwrap_or_else(|| panic!("{told}: {:#}", report["profile"]));
    assert!(why.contains("the stops that run them") && why.contains("the budget is 5.0%"), "{why}");
    let share = figure(&partial["share"]);
    assert!(share < 0.8, "it ends before the program does: {share}");
    let turns: Vec<f64> =
        told.lines().filter_map(|line| line.strip_prefix("turns ")).map(|turns| turns.parse().unwrap()).collect();
    // From then on nothing holds it up.
    let (first, last) = (turns[0], turns[5]);
    assert!(last > 5.0 * first, "{turns:?}");
}

/// A thread reads requests and puts them into a queue, from which another one takes them: each with an id, a kind and its own clock.
const QUEUE: &str = r#"
import queue, sys, threading, time
marker = open(sys.argv[1], "wb", buffering=0)
def mark(*words): marker.write(" ".join(map(str, words)).encode() + b"\n")
jobs = queue.Queue()
slow = lambda number: number % 5 == 0
def work():
    while (number := jobs.get()):
        mark("takes", number)
        time.sleep(0.06 if slow(number) else 0.02)
        mark("answers", number)
# An error of the first thread ends the program, whatever the other one waits for.
worker = threading.Thread(target=work, daemon=True)
worker.start()
for number in range(1, 41):
    mark("accepts", number, "/report" if slow(number) else "/cart")
    time.sleep(0.01)
    mark("queues", number)
    jobs.put(number)
    time.sleep(0.03)
jobs.put(0)
worker.join()
"#;

/// Where programs write marks for ftrace.
fn trace_marker() -> Option<&'static str> {
    let places = ["/sys/kernel/tracing/trace_marker", "/sys/kernel/debug/tracing/trace_marker"];
    places.into_iter().find(|place| Path::new(place).exists())
}

/// Requests that go from a thread to another, by what the program says of them.
fn handed_over() {
    let _alone = alone();
    if !has(NEEDS) || !has(&[Need::Tool("python3")]) {
        return;
    }
    let Some(marker) = trace_marker() else { return skip("no place to write marks to") };
    let marks = ["--each-from", "marker=accepts ", "--each-off", "marker=queues ", "--each-on", "marker=takes "];
    let rest = ["--each-to", "marker=answers ", "--each-id", "text", "--each-key", "text"];
    let command = ["python3", "-c", QUEUE, marker];
    let (profile, _) = profile(Path::new("/"), &[marks, rest].concat(), &command);
    let runs = at(&profile, "/runs");
    assert_eq!((at(runs, "/count"), at(runs, "/open")), (&40.into(), &0.into()), "{runs:#}");
    // Each slept in both threads; behind a slow one it was in the queue for some time.
    let (slow, fast) = (of_key(&profile, "/report"), of_key(&profile, "/cart"));
    assert_eq!((at(slow, "/runs"), at(fast, "/runs")), (&8.into(), &32.into()), "{runs:#}");
    assert!(figure(at(slow, "/min")) > 0.07 && figure(at(fast, "/min")) > 0.03, "{runs:#}");
    let slept = seconds(&profile, "wait.sleep");
    let truth = 40.0 * 0.01 + 32.0 * 0.02 + 8.0 * 0.06;
    assert!((truth..truth + 0.4).contains(&slept), "{slept} s of {truth} s");
    assert!(seconds(&profile, "wait.parked") > 0.1, "{:#}", at(&profile, "/components"));
    let all = figure(at(&profile, "/task_seconds"));
    assert!(figure(at(&profile, "/unaccounted_seconds")).abs() < 0.02 * all, "{profile:#}");
}

#[test]
#[ignore = "needs: root, eBPF, python3"]
fn requests_that_go_through_a_queue_are_followed_by_their_ids() {
    handed_over();
}

#[test]
#[ignore = "needs: root, eBPF, python3"]
fn vm_requests_that_go_through_a_queue_are_followed_by_their_ids() {
    handed_over();
}

#[test]
#[ignore = "needs: root, eBPF, cc"]
fn fields_that_tell_no_requests_apart_are_refused_before_anything_is_measured() {
    let _alone = alone();
    if !has(NEEDS) || !has(&[Need::Tool("cc")]) {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    built(folder.path(), "cc", &["-O1", "-o", "orders"], ("orders.c", ORDERS));
    let from = ["--each-from", "./orders:handle_request"];
    let queue = ["--each-off", "./orders:main", "--each-on", "./orders:handle_request"];
    for (args, says) in [
        (&["--each-key", "return"][..], "write to=return"),
        (&["--each-key", "latency"], "does not distinguish requests"),
        (&["--each-key", "arg9"], "no field \"arg9\""),
        (&["--each-key", "text"], "no field \"text\""),
        (&[&queue[..], &["--each-id", "on=arg1"]].concat(), "for each mark"),
        (&[&queue[..2], &["--each-on", "./orders:main", "--each-id", "arg1"]].concat(), "where it is taken up"),
    ] {
        let mut rdiag = rdiag();
        rdiag.args(["run", "method-r"]).args(from).args(args).args(["--", "./orders"]);
        let output = rdiag.current_dir(folder.path()).output().unwrap();
        let told = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(2), "{args:?}: {told}");
        assert!(told.contains(says) && !told.contains("ended with code"), "{args:?}: {told}");
    }
}
