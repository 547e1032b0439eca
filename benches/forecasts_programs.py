"""The programs of benches/forecasts.py: each has one part that can be made smaller."""

import contextlib
import os
import shutil
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

HERE = Path(__file__).resolve().parent
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
