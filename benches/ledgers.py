#!/usr/bin/env python3
"""Method R's account of programs that keep their own: program, truth, ledger, error.

    benches/ledgers.py [--rdiag PATH] [--seconds 2] [NAME…]      as root; the table in Markdown on stdout

A program says at its end how long it waited for what (`benches/ledgers.c` and the programs below); `rdiag probe response -- PROGRAM` accounts for the
same run. The error is their difference in points of the time that the program lived. For a real command the truth is the CPU time that the kernel
charged to it and its children. A busy host does not change who is right: waiting for a CPU is a line of both accounts.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import textwrap
from pathlib import Path

HERE = Path(__file__).resolve().parent
# A line of the truth, and the components that it is the sum of.
CPU = ["cpu.user", "cpu.sys", "cpu.irq", "cpu.steal"]
SUMS = {
    "runnable": ["runq", "runq.preempt", "runq.wakeup", "throttled"],
    "cpu": CPU,
    "io.block.read": ["io.block.read", "io.block"],
    "fault.file": ["fault.file", "fault"],
}

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
import json, os, resource
def runnable(tid):
    return int(open(f"/proc/self/task/{tid}/schedstat").read().split()[1]) * 1e-9
def cpu():
    both = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(one.ru_utime + one.ru_stime for one in both)
def waits(name, seconds, whole):
    print("\\nTRUTH", json.dumps({"seconds": whole, name: seconds, "helpers": 1}), flush=True)
def own(name):
    print("\\nTRUTH", json.dumps({"cpu.seconds": cpu()}), flush=True)
"""
NODE = {
    "node-compute": """
        const until = Date.now() + 1000 * SECONDS;
        let x = 0;
        while (Date.now() < until) for (let i = 0; i < 1e5; i++) x += i;
        const used = process.cpuUsage();
        console.log("\\nTRUTH " + JSON.stringify({"cpu.seconds": (used.user + used.system) / 1e6}));
    """,
    "node-timers": """
        setTimeout(() => {
            const used = process.cpuUsage();
            console.log("\\nTRUTH " + JSON.stringify({"cpu.seconds": (used.user + used.system) / 1e6}));
        }, 1000 * SECONDS);
    """,
}
JAVA = {
    "java-monitor": """
        public class Main {
            static final Object lock = new Object();
            public static void main(String[] words) throws Exception {
                long ends = System.nanoTime() + (long) (SECONDS * 1e9);
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
                double sum = 0;
                for (int i = 0; i < 4; i++) { all[i].join(); sum += waited[i]; }
                System.out.println("\\nTRUTH {\\"seconds\\": " + 4 * SECONDS + ", \\"lock.user\\": " + sum + ", \\"helpers\\": 1}");
            }
        }
    """,
    "java-compute": """
        public class Main {
            public static void main(String[] words) throws Exception {
                long ends = System.nanoTime() + (long) (SECONDS * 1e9), x = 0;
                while (System.nanoTime() < ends) { byte[] a = new byte[1000]; x += a.length; }
                long used = ((com.sun.management.OperatingSystemMXBean)
                    java.lang.management.ManagementFactory.getOperatingSystemMXBean()).getProcessCpuTime();
                System.out.println(x + "\\nTRUTH {\\"cpu.seconds\\": " + used * 1e-9 + "}");
            }
        }
    """,
}
C_SOURCE = "#include <stdio.h>\n#include <stdlib.h>\n#include <string.h>\n" + "".join(
    f"int f{i}(int x) {{ for (int i = 0; i < x; i++) x ^= i * {i}; printf(\"%d\", x); return x + {i}; }}\n" for i in range(300)
)
CPP_SOURCE = "#include <map>\n#include <string>\n#include <vector>\n#include <regex>\nstd::map<std::string, std::vector<std::string>> m;\nstd::regex r(\"a+\");\n"


def commands(folder: Path, program: str) -> dict[str, list[str]]:
    """Real programs, of which the kernel's charge of CPU time is known."""
    (folder / "a.c").write_text(C_SOURCE)
    (folder / "a.cc").write_text(CPP_SOURCE)
    (folder / "Makefile").write_text("all: 1.o 2.o 3.o 4.o\n%.o:\n\tgcc -O1 -c -o /dev/null a.c\n")

    def sh(line: str) -> list[str]:
        return [program, "exec", "sh", "-c", f"cd {folder}; {line}"]

    return {
        "gcc": sh("gcc -O1 -c -o /dev/null a.c"),
        "g++": sh("g++ -c -o /dev/null a.cc"),
        "make -j2": sh("make -s -j2"),
        "shell-loop": sh("for i in $(seq 50); do /bin/true; done"),
        "pipeline": sh("head -c 10000000 /dev/urandom | gzip -1 | sha256sum"),
        "find": sh("find /usr -xdev -name nothing"),
        "tar": sh("tar -cf - /usr/include | wc -c"),
        "sort": sh("seq 100000 | sort -r | tail -1"),
    }


def programs(folder: Path, program: str, seconds: float) -> dict[str, list[str]]:
    names = subprocess.run([program], stdout=subprocess.PIPE, text=True, check=True).stdout.split()
    found = {f"C {name}": [program, name, str(seconds)] for name in names}
    for name, text in PYTHON.items():
        file = folder / f"{name}.py"
        file.write_text(f"SECONDS = {seconds}\n{PROLOGUE}{textwrap.dedent(text)}")
        found[name] = [sys.executable, str(file)]
    for name, text in NODE.items():
        file = folder / f"{name}.js"
        file.write_text(f"const SECONDS = {seconds};\n{textwrap.dedent(text)}")
        found[name] = ["node", str(file)]
    for name, text in JAVA.items():
        own = folder / name
        own.mkdir()
        (own / "Main.java").write_text(textwrap.dedent(text).replace("SECONDS", str(seconds)))
        found[name] = ["java", str(own / "Main.java")]
    return found | commands(folder, program)


def observed(rdiag: str, command: list[str]) -> tuple[dict[str, float], dict[str, float]]:
    """What the program says of itself, and seconds by component."""
    words = [rdiag, "probe", "response", "--budget", "100%", "--format", "json", "--param", "top=1000", "--", *command]
    said = subprocess.run(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, errors="replace", timeout=240)
    truth = [json.loads(line.removeprefix("TRUTH ")) for line in said.stdout.splitlines() if line.startswith("TRUTH ")]
    results = [json.loads(line) for line in said.stdout.splitlines() if line.startswith("{") and '"outputs"' in line]
    if not truth or not results:
        raise RuntimeError(f"{' '.join(words)} told nothing: {said.stderr[-300:]}")
    table = next(one["table"] for one in results[-1]["outputs"] if one.get("table", {}).get("id") == "components")
    at = {column["id"]: index for index, column in enumerate(table["columns"])}
    return truth[-1], {row["cells"][at["component"]]: row["cells"][at["time"]] for row in table["rows"]}


def lines(truth: dict[str, float], ledger: dict[str, float]) -> list[tuple[str, float, float, float]]:
    """What each line is about, its share by the program and by rdiag, and the difference in points."""
    total = sum(ledger.values())
    if "cpu.seconds" in truth:
        pairs = [("cpu", truth["cpu.seconds"], sum(ledger.get(name, 0) for name in CPU))]
        whole = total
    else:
        whole = truth.pop("seconds")
        skipped = {"cpu.user", "cpu.sys", "runnable", "wait.sleep"} if truth.pop("helpers", None) else set()
        # On a busy host threads wait for a CPU before they can begin their account, and after they ended it.
        skipped |= {"runnable"} if total > whole * 1.02 else set()
        named = [name for name in truth if name not in skipped]
        pairs = [(name, truth[name], sum(ledger.get(part, 0) for part in SUMS.get(name, [name]))) for name in named]
    return [(name, is_ / whole, told / whole, 100 * abs(told - is_) / whole) for name, is_, told in pairs]


def main() -> None:
    asked = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    asked.add_argument("--rdiag", default="rdiag")
    asked.add_argument("--seconds", type=float, default=2)
    asked.add_argument("names", nargs="*")
    told = asked.parse_args()
    print("| program | what | truth | ledger | error (points) | where else the ledger has it |\n|---|---|---|---|---|---|")
    worst = []
    with tempfile.TemporaryDirectory(dir="/var/tmp") as name:
        folder = Path(name)
        program = str(folder / "ledgers")
        subprocess.run(["cc", "-O1", "-pthread", "-w", "-o", program, str(HERE / "ledgers.c")], check=True)
        for title, command in programs(folder, program, told.seconds).items():
            if told.names and title not in told.names:
                continue
            try:
                truth, ledger = observed(told.rdiag, command)
            except (OSError, RuntimeError, subprocess.TimeoutExpired) as why:
                print(f"| {title} | not measured: {str(why)[-200:]} | | | | |", flush=True)
                continue
            found = lines(truth, ledger)
            most = max(found, key=lambda line: line[3])
            # Lines of little time are told where they are wrong.
            shown = [line for line in found if line[3] > 2 or line[1] > 0.1] or [most]
            for what, is_, has, error in shown:
                total = sum(ledger.values())
                rest = sorted(((part, value) for part, value in ledger.items() if part not in truth), key=lambda pair: -pair[1])
                else_ = ", ".join(f"{part} {100 * value / total:.0f} %" for part, value in rest[:2]) if error > 2 else ""
                print(f"| {title} | {what} | {100 * is_:.1f} % | {100 * has:.1f} % | {error:.1f} | {else_} |", flush=True)
            worst.append(most[3])
    within = sum(error <= 2 for error in worst)
    print(f"\n{within} of {len(worst)} programs within 2 points in every line; Linux {os.uname().release}, load {os.getloadavg()[0]:.0f}.")


if __name__ == "__main__":
    main()
