"""The programs of benches/ledgers.py: what each is called → its command. A program says at its end what it waited for, or what CPU time it took."""

import os
import subprocess
import sys
import textwrap
from pathlib import Path
from shutil import which

from ledgers_commands import commands, servers

HERE = Path(__file__).resolve().parent
# Of /proc/PID/stat in a second.
TICKS = os.sysconf("SC_CLK_TCK")

PYTHON = {
    "python-gil": """
        import threading, time
        ends = time.monotonic() + SECONDS
        def work():
            while time.monotonic() < ends:
                sum(range(1000))
            used.append(time.thread_time() + runnable(threading.get_native_id()))
        used = []
        both = [threading.Thread(target=work) for _ in range(2)]
        for one in both: one.start()
        for one in both: one.join()
        # One of the two has the lock at any moment; the first thread waits for them.
        waits("lock.user", 2 * SECONDS - sum(used), whole=2 * SECONDS)
    """,
    "python-lock": """
        import threading, time
        lock, ends, waited = threading.Lock(), time.monotonic() + SECONDS, []
        def work():
            own = 0
            while time.monotonic() < ends:
                at = time.monotonic()
                lock.acquire()
                own += time.monotonic() - at
                time.sleep(0.02)
                lock.release()
                time.sleep(0.001)
            waited.append(own)
        all = [threading.Thread(target=work) for _ in range(4)]
        for one in all: one.start()
        for one in all: one.join()
        waits("lock.user", sum(waited), whole=4 * SECONDS)
    """,
    "python-asyncio": """
        import asyncio
        asyncio.run(asyncio.sleep(SECONDS))
        waits("wait.poll", SECONDS, whole=SECONDS)
    """,
    "python-multiprocessing": """
        import multiprocessing, time
        def work(of):
            ends = time.process_time() + of
            while time.process_time() < ends:
                pass
        all = [multiprocessing.Process(target=work, args=(SECONDS / 8,)) for _ in range(2)]
        for one in all: one.start()
        for one in all: one.join()
        own("cpu.seconds")
    """,
    "python-sqlite": """
        import sqlite3, time
        path = "/var/tmp/ledgers.db"
        ends = time.monotonic() + SECONDS
        made = sqlite3.connect(path)
        made.execute("create table if not exists t (a)")
        while time.monotonic() < ends:
            made.execute("insert into t values (1)")
            made.commit()
        made.close()
        os.unlink(path)
        own("cpu.seconds")
    """,
}
# What each of them says at its end.
PROLOGUE = """
import json, os, resource, time
def lived():
    began = int(open("/proc/self/stat").read().rpartition(")")[2].split()[19]) / os.sysconf("SC_CLK_TCK")
    return float(open("/proc/uptime").read().split()[0]) - began
def runnable(tid):
    return int(open(f"/proc/self/task/{tid}/schedstat").read().split()[1]) * 1e-9
def cpu():
    both = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(one.ru_utime + one.ru_stime for one in both)
def waits(name, seconds, whole):
    print("\\nTRUTH", json.dumps({"seconds": whole, name: seconds, "helpers": 1}), flush=True)
def own(name):
    print("\\nTRUTH", json.dumps({"cpu.seconds": cpu(), "elapsed": lived()}), flush=True)
"""
NODE = {
    "node-compute": """
        const until = Date.now() + 1000 * SECONDS;
        let x = 0;
        while (Date.now() < until) for (let i = 0; i < 1e5; i++) x += i;
        told();
    """,
    "node-timers": """
        setTimeout(told, 1000 * SECONDS);
    """,
}
# Since its first instruction: `process.uptime()` begins when node and its libraries are loaded, which takes seconds from a cold disk.
NODE_PROLOGUE = """
function told() {
    const read = (name) => require("fs").readFileSync(name, "utf8");
    const began = read("/proc/self/stat").split(") ").pop().split(" ")[19] / TICKS;
    const used = process.cpuUsage();
    const elapsed = read("/proc/uptime").split(" ")[0] - began;
    console.log("\\nTRUTH " + JSON.stringify({"cpu.seconds": (used.user + used.system) / 1e6, "elapsed": elapsed}));
}
"""
# Four threads that want one lock; the one that has it sleeps.
CONTENDED = """
    public class Main {
        static final Object monitor = new Object();
        static final java.util.concurrent.locks.ReentrantLock lock = new java.util.concurrent.locks.ReentrantLock();
        static void nap() { try { Thread.sleep(20); } catch (InterruptedException e) { } }
        public static void main(String[] words) throws Exception {
            long ends = System.nanoTime() + (long) (SECONDS * 1e9);
            double[] waited = new double[4];
            Thread[] all = new Thread[4];
            for (int i = 0; i < 4; i++) {
                final int me = i;
                all[i] = new Thread(() -> {
                    while (System.nanoTime() < ends) {
                        long at = System.nanoTime();
                        LOCKED
                        for (long until = System.nanoTime() + 1000000; System.nanoTime() < until; ) { }
                    }
                });
                all[i].start();
            }
            double sum = 0;
            for (int i = 0; i < 4; i++) { all[i].join(); sum += waited[i]; }
            System.out.println("\\nTRUTH {\\"seconds\\": " + 4 * SECONDS + ", \\"lock.user\\": " + sum + ", \\"helpers\\": 1}");
        }
    }
"""
HAS = "waited[me] += (System.nanoTime() - at) * 1e-9; nap();"
JAVA = {
    "java-monitor": CONTENDED.replace("LOCKED", f"synchronized (monitor) {{ {HAS} }}"),
    "java-reentrant-lock": CONTENDED.replace("LOCKED", f"lock.lock(); {HAS} lock.unlock();"),
    "java-compute": """
        public class Main {
            public static void main(String[] words) throws Exception {
                long ends = System.nanoTime() + (long) (SECONDS * 1e9), x = 0;
                while (System.nanoTime() < ends) { byte[] a = new byte[1000]; x += a.length; }
                long used = ((com.sun.management.OperatingSystemMXBean)
                    java.lang.management.ManagementFactory.getOperatingSystemMXBean()).getProcessCpuTime();
                String all = java.nio.file.Files.readString(java.nio.file.Path.of("/proc/self/stat"));
                double began = Double.parseDouble(all.substring(all.lastIndexOf(')') + 2).split(" ")[19]) / TICKS;
                String up = java.nio.file.Files.readString(java.nio.file.Path.of("/proc/uptime"));
                double lived = Double.parseDouble(up.split(" ")[0]) - began;
                System.out.println(x + "\\nTRUTH {\\"cpu.seconds\\": " + used * 1e-9 + ", \\"elapsed\\": " + lived + "}");
            }
        }
    """,
}
# Threads that say how long they waited for one thing: the body of a thread is what is between `BEGINS` and `ENDS`.
CPP = {
    "c++-mutex": """
        std::mutex one;
        void body() { { WAITS(one.lock()); } nap(20); one.unlock(); spin(1); }
        int main() { return threads("lock.user", 4); }
    """,
    "c++-shared-mutex": """
        std::shared_mutex one;
        std::atomic<int> number;
        void body() {
            thread_local int own = number++;
            if (own) { { WAITS(one.lock_shared()); } spin(1); one.unlock_shared(); }
            else { { WAITS(one.lock()); } nap(50); one.unlock(); }
            spin(1);
        }
        int main() { return threads("lock.user", 4); }
    """,
    "c++-condition-variable": """
        std::mutex one;
        std::condition_variable filled;
        std::deque<int> queue;
        void body() {
            std::unique_lock<std::mutex> held(one);
            { WAITS(filled.wait(held, [] { return !queue.empty() || over(); })); }
            if (!queue.empty()) queue.pop_front();
        }
        int main() {
            std::thread([] {
                while (!over()) { nap(20); std::lock_guard<std::mutex> held(one); queue.push_back(1); filled.notify_one(); }
                filled.notify_all();
            }).detach();
            return threads("wait.futex", 4);
        }
    """,
    "c++-sort": """
        int main() {
            std::vector<unsigned> all(1 << 20);
            for (unsigned seed = 1; !over(); std::sort(all.begin(), all.end()))
                for (unsigned &one : all) one = seed = seed * 1664525 + 1013904223;
            return own();
        }
    """,
}
CPP_PROLOGUE = """
#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <cstring>
#include <deque>
#include <functional>
#include <mutex>
#include <shared_mutex>
#include <sys/resource.h>
#include <thread>
#include <vector>
using Clock = std::chrono::steady_clock;
const auto began = Clock::now();
double since(Clock::time_point from) { return std::chrono::duration<double>(Clock::now() - from).count(); }
bool over() { return since(began) >= SECONDS; }
void spin(int ms) { for (auto from = Clock::now(); since(from) < ms * 1e-3;) { } }
thread_local double waited, napped;
struct Waits { double &sum = waited; Clock::time_point from = Clock::now(); ~Waits() { sum += since(from); } };
void nap(int ms) { Waits nap{napped}; std::this_thread::sleep_for(std::chrono::milliseconds(ms)); }
// Of the time that was neither on a CPU nor waiting for one, by the kernel's account, what the clock around the calls divides it into.
double share(double lived) {
    rusage used;
    unsigned long long ran = 0, delay = 0;
    if (FILE *file = fopen("/proc/thread-self/schedstat", "r")) { (void)!fscanf(file, "%llu %llu", &ran, &delay); fclose(file); }
    getrusage(RUSAGE_THREAD, &used);
    double rest = lived - (used.ru_utime.tv_sec + used.ru_stime.tv_sec + (used.ru_utime.tv_usec + used.ru_stime.tv_usec) * 1e-6) - delay * 1e-9;
    return waited + napped > 0 ? waited / (waited + napped) * rest : 0;
}
#define WAITS(call) Waits waits; call
__attribute__((weak)) void body();
int threads(const char *name, int count) {
    std::mutex adding;
    double sum = 0, lived = 0;
    std::vector<std::thread> all;
    for (int i = 0; i < count; i++)
        all.emplace_back([&] {
            auto from = Clock::now();
            while (!over()) body();
            std::lock_guard<std::mutex> held(adding);
            lived += since(from); sum += share(since(from));
        });
    auto joins = Clock::now();
    for (auto &one : all) one.join();
    // The first thread waits for the others.
    if (!strcmp(name, "wait.futex")) { sum += since(joins); lived += since(joins); }
    printf("\\nTRUTH {\\"seconds\\": %f, \\"%s\\": %f, \\"helpers\\": 1}\\n", lived, name, sum);
    return 0;
}
int own() {
    rusage used;
    getrusage(RUSAGE_SELF, &used);
    printf("\\nTRUTH {\\"cpu.seconds\\": %f, \\"elapsed\\": %f}\\n", used.ru_utime.tv_sec + used.ru_stime.tv_sec +
           (used.ru_utime.tv_usec + used.ru_stime.tv_usec) * 1e-6, since(began));
    return 0;
}
"""
RUST = {
    "rust-mutex": """
        fn main() {
            let one = Arc::new(Mutex::new(()));
            threads("lock.user", 4, move |waited| {
                let held = waits(waited, || one.lock().unwrap());
                nap(20);
                drop(held);
                spin(1);
            });
        }
    """,
    "rust-channel": """
        fn main() {
            let (sends, takes) = std::sync::mpsc::channel();
            let takes = Mutex::new(takes);
            thread::spawn(move || while sends.send(()).is_ok() { nap(20) });
            threads("wait.futex", 1, move |waited| { let _ = waits(waited, || takes.lock().unwrap().recv()); });
        }
    """,
    "rust-tcp": """
        use std::io::{Read as _, Write as _};
        fn main() {
            let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
            let mut far = std::net::TcpStream::connect(listener.local_addr().unwrap()).unwrap();
            let near = Mutex::new(listener.accept().unwrap().0);
            thread::spawn(move || while far.write_all(b"x").is_ok() { nap(20) });
            threads("net.recv", 1, move |waited| { let _ = waits(waited, || near.lock().unwrap().read(&mut [0; 8])); });
        }
    """,
    "rust-compute": """
        fn main() {
            let mut sum = 0u64;
            while !over() { sum = (0..1u64 << 20).fold(sum, |all, one| all ^ one.wrapping_mul(all | 3)); }
            own(sum);
        }
    """,
}
RUST_PROLOGUE = """
#![allow(unused)]
use std::sync::{Arc, Mutex, OnceLock};
use std::time::{Duration, Instant};
use std::{fs, thread};
static BEGAN: OnceLock<Instant> = OnceLock::new();
fn over() -> bool { BEGAN.get_or_init(Instant::now).elapsed().as_secs_f64() >= SECONDS }
fn nap(ms: u64) { thread::sleep(Duration::from_millis(ms)) }
fn spin(ms: u64) { let from = Instant::now(); while from.elapsed() < Duration::from_millis(ms) {} }
fn waits<T>(waited: &mut f64, call: impl FnOnce() -> T) -> T {
    let from = Instant::now();
    let given = call();
    *waited += from.elapsed().as_secs_f64();
    given
}
fn threads(name: &str, count: usize, body: impl Fn(&mut f64) + Send + Sync + 'static) {
    over();
    let body = Arc::new(body);
    let all: Vec<_> = (0..count).map(|_| { let body = body.clone(); thread::spawn(move || {
        let (from, mut waited) = (Instant::now(), 0.0);
        while !over() { body(&mut waited) }
        (from.elapsed().as_secs_f64(), waited)
    }) }).collect();
    let (mut lived, mut sum) = (0.0, 0.0);
    let joins = Instant::now();
    for one in all { let (own, waited) = one.join().unwrap(); lived += own; sum += waited; }
    // The first thread waits for the others.
    if name == "wait.futex" { sum += joins.elapsed().as_secs_f64(); lived += joins.elapsed().as_secs_f64(); }
    println!("\\nTRUTH {{\\"seconds\\": {lived}, \\"{name}\\": {sum}, \\"helpers\\": 1}}");
}
fn own(sum: u64) {
    let stat = fs::read_to_string("/proc/self/stat").unwrap();
    let ticks: Vec<f64> = stat.rsplit(')').next().unwrap().split_whitespace().skip(11).take(2).map(|one| one.parse().unwrap()).collect();
    println!("{sum}\\nTRUTH {{\\"cpu.seconds\\": {}, \\"elapsed\\": {}}}", (ticks[0] + ticks[1]) / TICKS, BEGAN.get().unwrap().elapsed().as_secs_f64());
}
"""
# What a goroutine waits for is known to the runtime alone: the threads' own truth is the CPU time that the kernel charged.
GO = {
    "go-compute": """
        func body() { for i, x := 0, 1; i < 1<<20; i++ { x = x*1664525 + 1013904223; sink = x } }
    """,
    "go-mutex": """
        var one sync.Mutex
        func body() {
            var all sync.WaitGroup
            for i := 0; i < 50; i++ {
                all.Add(1)
                go func() { defer all.Done(); one.Lock(); spin(time.Millisecond / 2); one.Unlock(); spin(time.Millisecond / 4) }()
            }
            all.Wait()
        }
    """,
    "go-channel": """
        func body() {
            given, taken := make(chan int), make(chan int)
            go func() { for one := range given { taken <- one + 1 }; close(taken) }()
            for i := 0; i < 10000; i++ { given <- i; <-taken }
            close(given)
        }
    """,
    "go-http": """
        var server = httptest.NewServer(http.HandlerFunc(func(to http.ResponseWriter, _ *http.Request) { fmt.Fprintln(to, "x") }))
        func body() {
            for i := 0; i < 100; i++ {
                if got, err := http.Get(server.URL); err == nil { io.Copy(io.Discard, got.Body); got.Body.Close() }
            }
        }
    """,
    "go-collector": """
        var kept [1 << 16]*[64]byte
        func body() { for i := range kept { kept[i] = new([64]byte) } }
    """,
}
GO_PROLOGUE = """
package main
import ("fmt"; "io"; "net/http"; "net/http/httptest"; "sync"; "syscall"; "time")
var sink int
var _ = io.EOF
var _ = http.StatusOK
var _ = httptest.DefaultRemoteAddr
var _ sync.Mutex
func spin(long time.Duration) { for from := time.Now(); time.Since(from) < long; { } }
func main() {
    began := time.Now()
    for time.Since(began).Seconds() < SECONDS { body() }
    var used syscall.Rusage
    syscall.Getrusage(syscall.RUSAGE_SELF, &used)
    seconds := float64(used.Utime.Nano()+used.Stime.Nano()) * 1e-9
    fmt.Printf("\\nTRUTH {\\"cpu.seconds\\": %f, \\"elapsed\\": %f}\\n", seconds, time.Since(began).Seconds())
}
"""
def compiled(folder: Path, name: str, text: str, words: list[str], ending: str) -> list[str]:
    """The command that runs a program of this text, which a compiler (`words`, with the source at their end) makes of it."""
    source, binary = folder / f"{name}.{ending}", folder / name
    source.write_text(text)
    surrounding = {**os.environ, "GOCACHE": f"{folder}/go-cache", "GO111MODULE": "off"}
    if which(words[0]):
        subprocess.run([*words, "-o", str(binary), str(source)], check=True, env=surrounding)
    return [str(binary)]


def programs(folder: Path, program: str, seconds: float) -> dict[str, list[str]]:
    """What each of them is called, and its command."""
    names = subprocess.run([program], stdout=subprocess.PIPE, text=True, check=True).stdout.split()
    found = {f"C {name}": [program, name, str(seconds)] for name in names}
    rings = compiled(folder, "rings", (HERE / "ledgers_rings.c").read_text(), ["cc", "-O1", "-pthread", f"-I{HERE}"], "c")
    found |= {f"C {name}": [*rings, name, str(seconds)] for name in ("uring-recv", "uring-read", "uring-serve", "aio-read")}
    for name, text in CPP.items():
        whole = f"const double SECONDS = {seconds};\n{CPP_PROLOGUE}{textwrap.dedent(text)}"
        found[name] = compiled(folder, name, whole, ["g++", "-O1", "-std=c++17", "-pthread"], "cc")
    for name, text in RUST.items():
        whole = f"{RUST_PROLOGUE}const SECONDS: f64 = {float(seconds)};\nconst TICKS: f64 = {float(TICKS)};\n{textwrap.dedent(text)}"
        found[name] = compiled(folder, name, whole, ["rustc", "-O", "--edition=2021"], "rs")
    for name, text in GO.items():
        found[name] = compiled(folder, name, f"{GO_PROLOGUE}const SECONDS = {seconds}\n{textwrap.dedent(text)}", ["go", "build"], "go")
    for name, text in PYTHON.items():
        file = folder / f"{name}.py"
        file.write_text(f"SECONDS = {seconds}\n{PROLOGUE}{textwrap.dedent(text)}")
        found[name] = [sys.executable, str(file)]
    for name, text in NODE.items():
        file = folder / f"{name}.js"
        file.write_text(f"const SECONDS = {seconds}, TICKS = {TICKS};\n{NODE_PROLOGUE}{textwrap.dedent(text)}")
        found[name] = ["node", str(file)]
    for name, text in JAVA.items():
        own = folder / name
        own.mkdir()
        (own / "Main.java").write_text(textwrap.dedent(text).replace("SECONDS", str(seconds)).replace("TICKS", str(TICKS)))
        found[name] = ["java", str(own / "Main.java")]
    return found | commands(folder, program) | servers(folder, program)
