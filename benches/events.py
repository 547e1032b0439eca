#!/usr/bin/env python3
"""What probes add to each event, beside the tools of libbpf-tools that answer the same question.

    benches/events.py [--rdiag target/release/rdiag] [--rounds 5] [--load pipe|syscall] [NAME=COMMAND…]

Two loads of fixed work, pinned to the last CPU: `perf bench sched pipe` (two switches, two wake-ups and four system calls for
each turn) and `perf bench syscall basic` (one call). In each round every tracer runs once, in random order, and the load runs
before, beside and after it; what counts is the load's own CPU time, which holds what programs of the kernel spend in its
name. Medians over the rounds. Further tracers are given as NAME=COMMAND; they are ended by SIGINT. Needs root, linux-perf and,
for the comparison, libbpf-tools. Prints Markdown.
"""
import argparse
import os
import random
import shlex
import shutil
import signal
import statistics
import subprocess
import time

LOADS = {"pipe": ["sched", "pipe", "-l", "200000"], "syscall": ["syscall", "basic", "-l", "5000000"]}
TURNS = {"pipe": 200_000, "syscall": 5_000_000}
PEERS = {"libbpf-tools runqlat": "runqlat 600 1", "libbpf-tools syscount": "syscount -d 600",
         "libbpf-tools offcputime": "offcputime 600"}
OURS = {"rdiag runqlat": "runqlat", "rdiag syscount": "syscount", "rdiag offcputime": "offcputime"}


def turn(load):
    """CPU time of one turn of a load, in ns."""
    command = ["taskset", "-c", str(os.cpu_count() - 1), "perf", "bench", "-f", "simple", *LOADS[load]]
    pid = os.posix_spawnp(command[0], command, os.environ, file_actions=[
        (os.POSIX_SPAWN_OPEN, 1, "/dev/null", os.O_WRONLY, 0), (os.POSIX_SPAWN_OPEN, 2, "/dev/null", os.O_WRONLY, 0)])
    _, status, usage = os.wait4(pid, 0)
    if status:
        raise SystemExit(f"{' '.join(command)} ended with {status}")
    return (usage.ru_utime + usage.ru_stime) / TURNS[load] * 1e9


def beside(command, load):
    """The same while a tracer runs, and the tracer's own CPU seconds."""
    tracer = subprocess.Popen(shlex.split(command), stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    time.sleep(3)
    if tracer.poll() is not None:
        raise SystemExit(f"{command} ended before the load ran")
    took = turn(load)
    tracer.send_signal(signal.SIGINT)
    _, _, usage = os.wait4(tracer.pid, 0)
    tracer.returncode = 0
    return took, usage.ru_utime + usage.ru_stime


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rdiag", default="target/release/rdiag")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--load", choices=LOADS)
    parser.add_argument("more", nargs="*", metavar="NAME=COMMAND")
    args = parser.parse_args()
    tracers = {name: command for name, command in PEERS.items() if shutil.which(command.split()[0])}
    tracers |= {name: f"{os.path.abspath(args.rdiag)} probe {probe} --duration 600s" for name, probe in OURS.items()}
    tracers |= dict(each.split("=", 1) for each in args.more)
    for load in [args.load] if args.load else LOADS:
        rounds = {name: [] for name in tracers}
        for _ in range(args.rounds):
            for name in random.sample(list(tracers), len(tracers)):
                before = turn(load)
                took, own = beside(tracers[name], load)
                alone = (before + turn(load)) / 2
                rounds[name].append((took / alone, took - alone, own))
        print(f"\n### {load}, {args.rounds} rounds\n\n| | slow-down | ns added to a turn | the tracer's own CPU s |\n|---|---|---|---|")
        for name, taken in rounds.items():
            slower, added, own = (statistics.median(column) for column in zip(*taken))
            print(f"| {name} | {slower:.3f} ({min(taken)[0]:.3f}–{max(taken)[0]:.3f}) | {added:.0f} | {own:.2f} |")


if __name__ == "__main__":
    main()
