#!/usr/bin/env python3
"""What the programs of a count and of a distribution at any point take, beside those of bpftrace's one-liner for the same question.

    benches/points.py [--rdiag target/release/rdiag] [--rounds 4] [--only vfs_read]

Both tracers are attached at the same time, each first in every other round, while a load of fixed work runs; the kernel's own
statistics (kernel.bpf_stats_enabled) tell the time in each one's programs, so a busy machine hits both alike. What the kernel takes to
call them is the same for both and not in it. A tracer whose programs did not run for every event is an error: a probe that its budget
ended would cost nothing. Needs root, tracefs, linux-perf, bpftrace and a C compiler. Prints Markdown.
"""
import argparse
import contextlib
import glob
import os
import re
import shlex
import statistics
import subprocess
import tempfile
import time

STATISTICS = "/proc/sys/kernel/bpf_stats_enabled"
FUNCTION = """
#include <stdlib.h>
__attribute__((noinline)) long work(long n) { __asm__ volatile("" : "+r"(n)); return n; }
int main(int argc, char **argv) { long sum = 0; for (long n = atol(argv[1]); n > 0; n--) sum += work(n); return sum == 1; }
"""
PERF = ["perf", "bench", "-f", "simple"]
# Name: what runs, how many events that is at least, bpftrace's point, rdiag's, and a field in the words of both.
LOADS = {
    "sched:sched_switch": ([*PERF, "sched", "pipe", "-l", "100000"], 200_000, "tracepoint:sched:sched_switch",
                           "tracepoint=sched:sched_switch", ("args->next_pid", "next_pid")),
    "raw_syscalls:sys_enter": ([*PERF, "syscall", "basic", "-l", "2000000"], 2_000_000, "tracepoint:raw_syscalls:sys_enter",
                               "tracepoint=raw_syscalls:sys_enter", ("args->id", "id")),
    "vfs_read": (["dd", "if=/dev/zero", "of=/dev/null", "bs=1", "count=50000", "status=none"], 50_000, "kprobe:vfs_read",
                 "function=vfs_read", ("arg2", "arg3")),
    "a function of a program": (["{program}", "50000"], 50_000, "uprobe:{program}:work", "function={program}:work", ("arg0", "arg1")),
}
# Question: what bpftrace does there, and what rdiag is told; {} is the field.
QUESTIONS = {
    "count": ("@ = count();", "count"),
    "count by comm": ("@[comm] = count();", "count --param key=comm"),
    "distribution of a field": ("@ = hist({});", "hist --param value={}"),
}
# Kernels without kprobes are measured without functions of the kernel.
if not os.path.exists("/sys/bus/event_source/devices/kprobe/type"):
    del LOADS["vfs_read"]
LATENCY = "uprobe:{0}:work {{ @t[tid] = nsecs; }} uretprobe:{0}:work /@t[tid]/ {{ @ = hist(nsecs - @t[tid]); delete(@t[tid]); }}"


def pairs(rdiag, program):
    """Load, question, and the commands of both."""
    for load, (_, _, point, param, (theirs, ours)) in LOADS.items():
        for question, (script, probe) in QUESTIONS.items():
            yield (load, question, f"bpftrace -e '{point.format(program=program)} {{ {script.format(theirs)} }}'",
                   f"{rdiag} probe {probe.format(ours)} --param {param.format(program=program)}")
    yield (load, "distribution of its time", f"bpftrace -e '{LATENCY.format(program)}'",
           f"{rdiag} probe hist --param {param.format(program=program)}")


def programs(pid):
    """Run time in ns and runs of the programs that a process holds."""
    found = {}
    for path in glob.glob(f"/proc/{pid}/fdinfo/*"):
        try:
            with open(path, encoding="utf-8") as info:
                held = dict(re.findall(r"^(\w+):\s+(\d+)$", info.read(), re.MULTILINE))
        except FileNotFoundError:
            continue
        if "run_cnt" in held:
            found[held["prog_id"]] = (int(held["run_time_ns"]), int(held["run_cnt"]))
    return tuple(map(sum, zip((0, 0), *found.values())))


def attached(command):
    is_own = "probe" in command
    tracer = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                              stderr=subprocess.PIPE if is_own else subprocess.DEVNULL, text=True)
    # One that takes many points is not ready when the first of them is.
    while is_own and "measuring" not in (line := tracer.stderr.readline()):
        if not line:
            raise SystemExit(f"{shlex.join(command)} does not run")
    deadline = time.monotonic() + 120
    while not programs(tracer.pid)[1]:
        # Nothing has run yet: not attached, or nobody has passed.
        subprocess.run(attached.poke, check=True, stdout=subprocess.DEVNULL)
        if tracer.poll() is not None or time.monotonic() > deadline:
            raise SystemExit(f"{shlex.join(command)} does not run")
        time.sleep(0.1)
    return tracer


def turn(commands, load, events):
    """ns of each one's programs for one event, in the order of the commands."""
    tracers = [attached(shlex.split(command)) for command in commands]
    before = [programs(tracer.pid) for tracer in tracers]
    subprocess.run(load, check=True, stdout=subprocess.DEVNULL)
    taken = []
    for command, tracer, (time_before, runs_before) in zip(commands, tracers, before):
        time_after, runs_after = programs(tracer.pid)
        if runs_after - runs_before < events:
            raise SystemExit(f"{command} ran {runs_after - runs_before} times at {events} events")
        # A function with its return takes two programs for a call: all of them belong to the event.
        taken.append((time_after - time_before) / (runs_after - runs_before) * round((runs_after - runs_before) / events))
    ended(tracers)
    return taken


def ended(tracers):
    for tracer in tracers:
        # bpftrace does not always heed the first one.
        while tracer.poll() is None:
            tracer.terminate()
            time.sleep(0.2)


@contextlib.contextmanager
def run_statistics():
    """The kernel's statistics of BPF programs, on for as long as they are needed."""
    with open(STATISTICS, encoding="utf-8") as file:
        kept = file.read()
    try:
        with open(STATISTICS, "w", encoding="utf-8") as file:
            file.write("1")
        yield
    finally:
        with open(STATISTICS, "w", encoding="utf-8") as file:
            file.write(kept)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rdiag", default="target/release/rdiag")
    parser.add_argument("--rounds", type=int, default=4)
    parser.add_argument("--only", choices=LOADS)
    args = parser.parse_args()
    with run_statistics():
        measure(args)


def measure(args):
    print("| point | question | bpftrace, ns | rdiag, ns | ratio |\n|---|---|---|---|---|")
    with tempfile.TemporaryDirectory() as folder:
        program = f"{folder}/calls"
        subprocess.run(["cc", "-O2", "-x", "c", "-", "-o", program], input=FUNCTION, text=True, check=True)
        attached.poke = [program, "10"]
        for name, question, *commands in pairs(os.path.abspath(args.rdiag), program):
            if args.only not in (None, name):
                continue
            commands[1] += " --budget 100 --duration 600s"
            load, events, *_ = LOADS[name]
            load = ["taskset", "-c", str(os.cpu_count() - 1), *(word.format(program=program) for word in load)]
            rounds = []
            for at in range(args.rounds):
                ordered = turn(commands[:: -1 if at % 2 else 1], load, events)
                rounds.append(ordered[:: -1 if at % 2 else 1])
            theirs, ours = (statistics.median(column) for column in zip(*rounds))
            ratios = [mine / other for other, mine in rounds]
            print(f"| {name} | {question} | {theirs:.0f} | {ours:.0f} | {statistics.median(ratios):.2f} "
                  f"({min(ratios):.2f}–{max(ratios):.2f}) |", flush=True)


if __name__ == "__main__":
    main()
