#!/usr/bin/env python3
"""What `rdiag run method-r` forecasts of a change, and what the change brings.

    benches/forecasts.py [--rdiag PATH] [--runs 3] [--into docs/method-r.md] [--keep DIR] [NAME…]
                                                                          as root; the table in Markdown on stdout

A program (`benches/forecasts.c` and those below) runs under rdiag and alone: as it is, with half of one part, and without that part, several
times in turn. The forecast of the part's component in report.json (of the run with the median time) is held against the median alone. It
holds where the median is within its range, or within 10 % of an end of it; a component without a row is forecast to bring nothing.
A program that gains less than that, as other waits take the place of what is gone, is apart from one that gains more.

What the changed program has left of the component under rdiag says whether the change is the one that was forecast; its time there, what
observing costs it.
"""

import argparse
import contextlib
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import textwrap
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from document import put

HERE = Path(__file__).resolve().parent
BEGINS, ENDS = "<!-- benches/forecasts.py writes from here -->", "<!-- to here -->"
# How much of the part is left, and the field of the forecast that says what that brings.
CHANGES = {0.5: "halved", 0.0: "vanished"}
WITHIN = 0.1
# Narrower than this share of the time before, a forecast is one figure and no range.
POINT = 0.1
LONGEST = 60
TREE = Path("/sys/fs/cgroup")

PYTHON = {
    "python-sleep": """
        for _ in range(40):
            work()
            if KEPT:
                time.sleep(0.012 * KEPT)
    """,
    "python-stages": """
        # The first stage computes, the second one waits for a child.
        for _ in range(int(80 * KEPT)):
            work()
        result, said = os.pipe()
        os.posix_spawn("/bin/sh", ["sh", "-c", "sleep 0.4; echo"], os.environ, file_actions=[(os.POSIX_SPAWN_DUP2, said, 1)])
        os.read(result, 100)
        os.wait()
    """,
    "python-udp": """
        # A name server that takes its time, asked as resolvers do: send, poll, receive.
        import signal, socket
        server, client = (socket.socket(socket.AF_INET, socket.SOCK_DGRAM) for _ in range(2))
        server.bind(("127.0.0.1", 0))
        if os.fork() == 0:
            signal.alarm(60)
            while True:
                said, who = server.recvfrom(100)
                if said == b"end":
                    os._exit(0)
                if KEPT:
                    time.sleep(0.015 * KEPT)
                server.sendto(said, who)
        client.settimeout(5)
        for _ in range(30):
            work()
            client.sendto(b"name", server.getsockname())
            client.recv(100)
        client.sendto(b"end", server.getsockname())
    """,
    "python-child": """
        import subprocess
        for _ in range(4):
            work(10)
            subprocess.run(["sleep", str(0.15 * KEPT)])
    """,
}
# Work is CPU time in user mode, as in forecasts.c: by the wall clock, which takes no call, until the CPU clock agrees.
PROLOGUE = """
import os, time
def work(turns=1):
    ends = time.thread_time() + 0.006 * turns
    while (left := ends - time.thread_time()) > 0:
        until = time.perf_counter() + left
        while time.perf_counter() < until:
            sum(range(500))
"""
NODE = """
const until = ms => new Promise(done => setTimeout(done, ms));
let x = 0;
function work(ms) {
    const used = () => Object.values(process.cpuUsage()).reduce((sum, part) => sum + part / 1e3, 0), ends = used() + ms;
    for (let left = ms; left > 0; left = ends - used())
        for (const until = performance.now() + left; performance.now() < until;)
            for (let i = 0; i < 1e4; i++) x += i % 7;
}
(async () => {
    for (let turn = 0; turn < 40; turn++) {
        work(8);
        if (KEPT) await until(12 * KEPT);
    }
    console.log(x);
})();
"""
JAVA = """
import java.lang.management.*;
public class Main {
    static final ThreadMXBean threads = ManagementFactory.getThreadMXBean();
    static long x = 0;
    static void work(long ns) {
        long ends = threads.getCurrentThreadCpuTime() + ns;
        for (long left = ns; left > 0; left = ends - threads.getCurrentThreadCpuTime())
            for (long until = System.nanoTime() + left; System.nanoTime() < until;)
                for (int i = 0; i < 10_000; i++) x += i % 7;
    }
    public static void main(String[] words) throws Exception {
        double kept = Double.parseDouble(words[0]);
        for (int turn = 0; turn < 40; turn++) {
            work(6_000_000);
            if (kept > 0) Thread.sleep((long) (16 * kept));
        }
        System.out.println(x);
    }
}
"""
SHELL = """
for turn in 1 2 3 4; do
    PROGRAM work $1 150
    sleep 0.1
done
"""
MAKEFILE = """
all: one two
\t@sleep 0.2
one two:
\t@PROGRAM work $(KEPT) 400
"""


@dataclass
class Program:
    """A program with a part that can be made smaller."""

    name: str
    component: str
    # What is changed, to complete "half of" and "none of".
    part: str
    command: Callable[[float], list[str]]
    changes: tuple[float, ...] = (0.5, 0.0)
    # What runs beside it.
    around: Callable[[float], contextlib.AbstractContextManager] = field(default=lambda kept: contextlib.nullcontext())


@dataclass
class Row:
    """One change of one program; all in seconds."""

    program: Program
    kept: float
    observed: float
    alone: float
    forecast: tuple[float, float]
    measured: list[float]
    # Seconds of the component before, and what the changed program has left of it.
    had: float
    left: float
    # The changed program's time under rdiag.
    after_observed: float

    @property
    def after(self) -> float:
        return statistics.median(self.measured)

    @property
    def error(self) -> float:
        """How far the median is from the range, as a share of it: negative if it was faster."""
        low, high = self.forecast
        return min(self.after - low, 0) / self.after + max(self.after - high, 0) / self.after

    @property
    def holds(self) -> bool:
        return abs(self.error) <= WITHIN

    @property
    def is_as_forecast(self) -> bool:
        """Whether the change left what the forecast supposes, to within what its verdict allows for; a hundredth of the run is start and end."""
        return abs(self.left - self.kept * self.had) <= max(WITHIN * self.after, 0.01 * self.observed)

    @property
    def is_point(self) -> bool:
        low, high = self.forecast
        return high - low <= POINT * self.observed

    def cells(self) -> list[str]:
        low, high = self.forecast
        forecast = milliseconds(low) if milliseconds(low) == milliseconds(high) else f"{milliseconds(low)} – {milliseconds(high)}"
        verdict = "in the range" if self.error == 0 else "within 10 %" if self.holds else "**gains more**" if self.error < 0 else "gains less"
        change = f"{'half' if self.kept else 'none'} of {self.program.part}"
        after = f"{milliseconds(self.after)} ({milliseconds(min(self.measured))} – {milliseconds(max(self.measured))})"
        before = [milliseconds(self.observed), milliseconds(self.alone)]
        error = f"{100 * self.error:+.0f} %" if self.error else "0"
        left = f"{milliseconds(self.left)} of {milliseconds(self.had)}"
        if not self.is_as_forecast:
            left, verdict = f"**{left}**", f"{verdict}, by another change"
        row = [self.program.name, f"`{self.program.component}`", change, left, *before, forecast, after]
        return [*row, milliseconds(self.after_observed), error, verdict]


def milliseconds(seconds: float) -> str:
    return f"{seconds * 1e3:.0f}"


@contextlib.contextmanager
def hog(program: str, kept: float) -> Iterator[None]:
    """Another task on the same CPU. Of half the weight (nice 3) it takes half as much for each second of the program's."""
    if not kept:
        yield
        return
    words = ["nice", "-n", "0" if kept == 1 else "3", program, "hog", "1"]
    with subprocess.Popen(words) as running:
        try:
            time.sleep(0.1)
            yield
        finally:
            running.kill()


@contextlib.contextmanager
def quota(group: Path, kept: float) -> Iterator[None]:
    """A control group that has half of a CPU; with two thirds it waits half as long for each second of CPU time. Others hardly disturb it."""
    period = 40_000
    allowed = {1: period // 2, 0.5: period * 2 // 3, 0: -1}[kept]
    group.mkdir()
    try:
        if (TREE / "cgroup.controllers").exists():
            (group / "cpu.max").write_text(f"{allowed if allowed > 0 else 'max'} {period}")
            (group / "cpu.weight").write_text("10000")
        else:
            (group / "cpu.cfs_period_us").write_text(str(period))
            (group / "cpu.cfs_quota_us").write_text(str(allowed))
            (group / "cpu.shares").write_text("100000")
        yield
    finally:
        # The last task is gone for the kernel a moment after it ended.
        for _ in range(50):
            with contextlib.suppress(OSError):
                group.rmdir()
                break
            time.sleep(0.02)


def programs(folder: Path) -> Iterator[Program]:
    built = folder / "forecasts"
    subprocess.run(["cc", "-O1", "-pthread", "-w", "-o", built, HERE / "forecasts.c"], check=True)
    program = str(built)
    data, written = folder / "data", folder / "written"
    with data.open("wb") as file:
        for _ in range(64):
            file.write(os.urandom(1 << 20))
        os.fsync(file.fileno())

    def native(name: str, place: object = ".") -> Callable[[float], list[str]]:
        return lambda kept: [program, name, str(kept), str(place)]

    yield Program("compute-and-read", "cpu.user", "the computation between reads", native("compute-and-read", data))
    yield Program("uncached-reads", "io.block.read", "the reads past the page cache", native("uncached-reads", data))
    yield Program("fsync", "io.block.sync", "the syncs", native("fsync", written))
    yield Program("small-writes", "cpu.sys", "the writes", native("small-writes", written))
    yield Program("fork-join", "cpu.user", "the work of three unequal threads", native("fork-join"))
    yield Program("slack", "cpu.user", "the work of a thread that is done before another", native("slack"))
    yield Program("convoy", "lock.user", "the locking of four threads", native("convoy"), (0.0,))
    yield Program("mutex", "lock.user", "the time that another thread holds the lock", native("mutex"))
    yield Program("condvar", "wait.futex", "the time that a worker takes to signal", native("condvar"))
    yield Program("pipe", "ipc.pipe", "the wait for a slower producer", native("pipe"))
    yield Program("pipe-consumer", "cpu.user", "the consumer's work, beside a slower producer", native("pipe-consumer"))
    yield Program("slow-peer", "net.recv", "the time that the peer takes to answer", native("slow-peer"))
    yield Program("epoll-backend", "wait.poll", "the time that the backend takes", native("epoll-backend"))
    yield Program("timer", "wait.sleep", "the pause that a period leaves", native("timer"))
    yield Program("timer-work", "cpu.user", "the work, in the same period", native("timer-work"))

    def same(name: str, place: object = ".") -> Callable[[float], list[str]]:
        return lambda kept: native(name, place)(1)

    yield Program("run-queue", "runq.preempt", "another task's share of the CPU", same("run-queue"), around=lambda kept: hog(program, kept))
    yield Program("run-queue-work", "cpu.user", "the work, beside that task", native("run-queue"), around=lambda kept: hog(program, 1))
    group = (TREE if (TREE / "cgroup.controllers").exists() else TREE / "cpu") / f"rdiag-forecasts-{os.getpid()}"
    member = group / "cgroup.procs"
    yield Program("quota", "throttled", "the throttling", same("quota", member), around=lambda kept: quota(group, kept))
    yield Program("quota-work", "cpu.user", "the work, within the same quota", native("quota", member), around=lambda kept: quota(group, 1))

    def script(name: str, text: str) -> str:
        (folder / name).write_text(text.replace("PROGRAM", program))
        return str(folder / name)

    shell, rules = script("stages.sh", SHELL), script("Makefile", MAKEFILE)
    yield Program("sh-children", "cpu.user", "the work of one of two commands", lambda kept: ["sh", shell, str(kept)])
    yield Program("make -j2", "cpu.user", "the work of two parallel recipes", lambda kept: ["make", "-s", "-j2", "-f", rules, f"KEPT={kept}"])
    parts = {
        "python-sleep": ("wait.sleep", "the sleep"),
        "python-stages": ("cpu.user", "the first of two stages"),
        "python-udp": ("wait.poll", "the time that a server takes to answer by UDP"),
        "python-child": ("wait.sleep", "the time that a child sleeps"),
    }
    for name, text in PYTHON.items():
        def python(kept: float, name: str = name, text: str = text) -> list[str]:
            # Without what else it imports: the start is in the component as well, and no change of the script takes it away.
            return [sys.executable, "-I", "-S", script(f"{name}-{kept}.py", f"KEPT = {kept}\n{PROLOGUE}{textwrap.dedent(text)}")]

        yield Program(name, *parts[name], python)
    if shutil.which("node"):
        yield Program("node-timers", "wait.poll", "the timer", lambda kept: ["node", script(f"{kept}.js", f"const KEPT = {kept};{NODE}")])
    if shutil.which("javac"):
        (folder / "Main.java").write_text(JAVA)
        subprocess.run(["javac", "-d", folder, folder / "Main.java"], check=True)
        java = ["java", "-Xshare:auto", "-XX:+UseSerialGC", "-cp", str(folder), "Main"]
        # Java's threads sleep on a condition variable with a timeout.
        yield Program("java-sleep", "wait.futex", "the sleep", lambda kept: [*java, str(kept)])


def forecast(rdiag: str, program: Program, kept: float, folder: Path) -> dict:
    folder.mkdir(parents=True, exist_ok=True)
    words = [rdiag, "run", "method-r", "--no-guided", "--budget", "100%", "--format", "json", "--out", str(folder)]
    with program.around(kept):
        command = [*words, "--", *program.command(kept)]
        said = subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, errors="replace", timeout=4 * LONGEST)
    report = folder / "report.json"
    if not report.exists():
        raise RuntimeError(f"no report: {said.stderr[-300:]}")
    return json.loads(report.read_text())["profile"]["forecast"]


def elapsed(program: Program, kept: float) -> float:
    with program.around(kept):
        command, began = program.command(kept), time.perf_counter()
        with subprocess.Popen(command, stdout=subprocess.DEVNULL) as running:
            # Not wait(timeout), which looks every 50 ms only.
            late = threading.Timer(LONGEST, running.kill)
            late.start()
            code, took = running.wait(), time.perf_counter() - began
            late.cancel()
        if code:
            raise subprocess.CalledProcessError(code, command)
        return took


def rows(rdiag: str, program: Program, runs: int, folder: Path) -> Iterator[Row]:
    def row_of(told: dict) -> dict:
        return next((row for row in told["rows"] if row["id"] == program.component), {"seconds": 0})

    # In turn: a host that gets busier, or a disk that gets slower, hits all alike.
    measured = {kept: [] for kept in (1, *program.changes)}
    observed = {kept: [] for kept in measured}
    for turn in range(runs):
        for kept, all_ in measured.items():
            all_.append(elapsed(program, kept))
            observed[kept].append(forecast(rdiag, program, kept, folder / CHANGES.get(kept, "whole") / str(turn)))
    # The report is the one of the run that is the median; what a single run met would be in its forecast only.
    changed = {kept: sorted(all_, key=lambda told: told["response_seconds"])[len(all_) // 2] for kept, all_ in observed.items()}
    whole, row = changed[1]["response_seconds"], row_of(changed[1])
    for kept in program.changes:
        low, high = row.get(CHANGES[kept], [whole, whole])
        alone, left = statistics.median(measured[1]), row_of(changed[kept])["seconds"]
        yield Row(program, kept, whole, alone, (low, high), measured[kept], row["seconds"], left, changed[kept]["response_seconds"])


def summary(found: list[Row], load: float) -> str:
    names = list(dict.fromkeys(row.program.name for row in found))
    whole = sum(all(row.holds for row in found if row.program.name == name) for name in names)
    points = [row for row in found if row.is_point]
    release = ".".join(os.uname().release.split(".")[:2])
    less, more = (sum(not row.holds and row.error * sign > 0 for row in found) for sign in (1, -1))
    return (
        f"Measured on Linux {release} with {os.cpu_count()} CPUs, load {load:.1f} at the begin. {sum(row.holds for row in found)} of "
        f"{len(found)} forecasts hold, and all of {whole} of {len(names)} programs; {less} changes gain less than the forecast, {more} gain more. "
        f"{len(points)} forecasts are one figure (a range of at most {100 * POINT:.0f} % of the time before), of which "
        f"{sum(row.holds for row in points)} hold."
    )


def main() -> None:
    asked = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    asked.add_argument("--rdiag", default="rdiag")
    asked.add_argument("--runs", type=int, default=3)
    asked.add_argument("--into", type=Path, help="the document that gets the table")
    asked.add_argument("--keep", type=Path, help="a folder for the reports")
    asked.add_argument("names", nargs="*")
    told = asked.parse_args()
    load = os.getloadavg()[0]
    heads = ["program", "component", "change", "left of it", "before, observed", "before, alone", "forecast", "after, alone"]
    heads += ["after, observed", "error", "verdict"]
    lines, found = [f"| {' | '.join(heads)} |", f"|{'---|' * len(heads)}"], []
    print("\n".join(lines))
    with tempfile.TemporaryDirectory(dir="/var/tmp") as name:
        folder = Path(name)
        for program in programs(folder):
            if told.names and program.name not in told.names:
                continue
            place = (told.keep or folder / "reports") / program.name.replace(" ", "")
            try:
                own = list(rows(told.rdiag, program, told.runs, place))
            except (OSError, RuntimeError, KeyError, ValueError, subprocess.SubprocessError) as why:
                added = [f"| {program.name} | `{program.component}` | not measured: {str(why)[-200:]} |{' |' * 8}"]
            else:
                found += own
                added = [f"| {' | '.join(row.cells())} |" for row in own]
            lines += added
            print("\n".join(added), flush=True)
    text = f"{summary(found, load)} Times in milliseconds.\n\n" + "\n".join(lines) + "\n"
    print(f"\n{summary(found, load)}")
    if told.into:
        put(text, told.into, BEGINS, ENDS)


if __name__ == "__main__":
    main()
