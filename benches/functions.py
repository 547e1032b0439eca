#!/usr/bin/env python3
"""What the kernel's tracers of functions take from the one that is traced, and from others: rdiag beside its twins.

    benches/functions.py [--rdiag target/release/rdiag] [--rounds 5] [--calls 5000]

A program makes system calls and tells its own CPU time for them: alone, while it is traced, and while another process is. What it took
more, for each function that it called, is the cost. The twins are the same tracer set by hand in an instance, whose buffer nobody reads,
and perf ftrace, which takes the global one. What readers take themselves is not in it. Needs root, a kernel with the tracers function
and function_graph (in instances since Linux 6.12; before, rdiag is given global=true), linux-perf and a C compiler. Prints Markdown.
"""
import argparse
import glob
import json
import os
import platform
import shutil
import signal
import statistics
import subprocess
import tempfile
import time

TRACING = "/sys/kernel/tracing"
PROGRAM = """
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>
int main(int argc, char **argv) {
    struct timespec from, to;
    struct stat about;
    long calls = atol(argv[2]);
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &from);
    for (long n = 0; n < calls; n++)
        if (argv[3][0] == 'g') syscall(SYS_getpgid, 0);
        else stat("/proc", &about);
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &to);
    FILE *file = fopen(argv[1], "w");
    fprintf(file, "%lld", (to.tv_sec - from.tv_sec) * 1000000000LL + to.tv_nsec - from.tv_nsec);
    return fclose(file);
}
"""
LIMIT = {"x86_64": "__x64_sys_getpgid", "aarch64": "__arm64_sys_getpgid"}[platform.machine()]
# Tracer: what the program calls, how many times as often, to which functions it is limited, how perf and rdiag are told.
CASES = {
    "function": ("getpgid", 20, LIMIT, ["-t", "function", "-T", LIMIT], ["functions", "--function", LIMIT]),
    "function_graph": ("stat", 1, None, ["-t", "function_graph"], ["graph", "--param", "lines=1"]),
}


class ByHand:
    """The tracer in an instance of its own, for one process."""

    def __init__(self, tracer, limit, pid):
        self.place = f"{TRACING}/instances/by-hand-{os.getpid()}"
        os.mkdir(self.place)
        self.write("tracing_on", 0)
        if limit:
            self.write("set_ftrace_filter", limit)
        self.write("set_ftrace_pid", pid)
        self.write("current_tracer", tracer)
        self.write("tracing_on", 1)

    def write(self, name, value):
        with open(f"{self.place}/{name}", "w", encoding="utf-8") as file:
            file.write(str(value))

    def records(self):
        total = 0
        for path in glob.glob(f"{self.place}/per_cpu/cpu*/stats"):
            with open(path, encoding="utf-8") as file:
                stats = dict(line.split(": ") for line in file.read().splitlines())
            total += int(stats["entries"]) + int(stats["overrun"])
        return total

    def end(self):
        self.write("tracing_on", 0)
        os.rmdir(self.place)


class Bench:
    def __init__(self, args, folder):
        self.args, self.out, self.program = args, f"{folder}/took", f"{folder}/calls"
        subprocess.run(["cc", "-O2", "-x", "c", "-", "-o", self.program], input=PROGRAM, text=True, check=True)
        instance = f"{TRACING}/instances/look-{os.getpid()}"
        os.mkdir(instance)
        with open(f"{instance}/available_tracers", encoding="utf-8") as file:
            self.in_instance = file.read().split()
        os.rmdir(instance)

    def work(self, tracer, calls=None):
        what, times, *_ = CASES[tracer]
        calls = self.args.calls * times if calls is None else calls
        return [self.program, self.out, str(calls), what[0]]

    def took(self):
        """ns that the program took, by its own account."""
        with open(self.out, encoding="utf-8") as file:
            taken = int(file.read())
        os.remove(self.out)
        return taken

    def alone(self, tracer):
        subprocess.run(self.work(tracer), check=True)
        return self.took()

    def by_hand(self, tracer, followed, calls=None):
        """ns, and the functions that were called."""
        # It waits until it is traced, then becomes the program.
        child = subprocess.Popen(["sh", "-c", 'read go; exec "$@"', "sh", *self.work(tracer, calls)], stdin=subprocess.PIPE)
        other = subprocess.Popen(["sleep", "1000"])
        hand = ByHand(tracer, CASES[tracer][2], child.pid if followed else other.pid)
        before = hand.records()
        child.communicate(b"\n")
        records = hand.records() - before
        hand.end()
        other.kill()
        other.wait()
        return self.took(), records / (2 if tracer == "function_graph" else 1)

    def perf(self, tracer, followed):
        base = ["perf", "ftrace", "trace", *CASES[tracer][3]]
        return self.under(base, lambda pid: ["-p", str(pid)], tracer, followed)

    def rdiag(self, tracer, followed):
        base = [os.path.abspath(self.args.rdiag), "probe", *CASES[tracer][4], "--budget", "100%", "--format", "json"]
        if tracer == "function_graph" and tracer not in self.in_instance:
            base += ["--param", "global=true"]
        return self.under(base, lambda pid: ["--pid", str(pid)], tracer, followed)

    def under(self, base, by_pid, tracer, followed):
        if followed:
            done = subprocess.run([*base, "--", *self.work(tracer)], check=True, capture_output=True, text=True)
            if "rdiag" in base[0] and "lost" in json.loads(done.stdout.splitlines()[-1]):
                raise SystemExit(f"{base}: {done.stdout.splitlines()[-1][:400]}")
            return self.took()
        other = subprocess.Popen(["sleep", "1000"])
        tracing = subprocess.Popen([*base, *by_pid(other.pid)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        self.wait_until_traced(tracer)
        subprocess.run(self.work(tracer), check=True)
        # perf leaves the tracer on when it is ended in any other way, and then everything after it is traced too.
        tracing.send_signal(signal.SIGINT)
        other.kill()
        tracing.wait()
        other.wait()
        return self.took()

    @staticmethod
    def wait_until_traced(tracer):
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline:
            for place in [TRACING, *glob.glob(f"{TRACING}/instances/*")]:
                with open(f"{place}/current_tracer", encoding="utf-8") as one, open(f"{place}/tracing_on", encoding="utf-8") as two:
                    if one.read().strip() == tracer and two.read().strip() == "1":
                        return
            time.sleep(0.1)
        raise SystemExit(f"{tracer} does not begin")

    def measure(self, tracer):
        has_hand = tracer in self.in_instance
        rows = {("alone", ""): []}
        called = []
        # What the program does besides its calls.
        besides = self.by_hand(tracer, True, 0)[1] if has_hand else 0
        for _ in range(self.args.rounds):
            rows["alone", ""].append(self.alone(tracer))
            for followed in (True, False):
                whom = "itself" if followed else "another"
                if has_hand:
                    taken, records = self.by_hand(tracer, followed)
                    rows.setdefault(("by hand", whom), []).append(taken)
                    called += [records - besides] if followed else []
                if shutil.which("perf"):
                    rows.setdefault(("perf ftrace", whom), []).append(self.perf(tracer, followed))
                rows.setdefault(("rdiag", whom), []).append(self.rdiag(tracer, followed))
        calls = self.args.calls * CASES[tracer][1]
        # Without an instance nobody counts: as many as were seen elsewhere stand for it.
        functions = statistics.median(called) if called else calls * self.args.functions
        alone = statistics.median(rows["alone", ""])
        per = functions / calls
        print(f"| {tracer} | nobody | – | {alone / calls:.0f} ns a call of {per:.1f} functions | | |")
        added = {key: (statistics.median(taken) - alone) / functions for key, taken in rows.items()}
        for (tool, whom), ns in added.items():
            if tool != "alone":
                twin = added.get(("by hand", whom))
                ratio = f"{ns / twin:.2f}" if twin and tool != "by hand" else ""
                slower = statistics.median(rows[tool, whom]) / alone
                print(f"| {tracer} | {tool} | {whom} | {ns:.0f} | {slower:.2f} | {ratio} |", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rdiag", default="target/release/rdiag")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--calls", type=int, default=5000)
    parser.add_argument("--functions", type=float, default=20, help="functions in a call of stat, where they cannot be counted")
    args = parser.parse_args()
    print(f"Linux {platform.release()}\n\n| tracer | by | traced | ns added per function | slow-down | ratio to by hand |\n|---|---|---|---|---|---|")
    with tempfile.TemporaryDirectory() as folder:
        bench = Bench(args, folder)
        for tracer in CASES:
            bench.measure(tracer)


if __name__ == "__main__":
    main()
