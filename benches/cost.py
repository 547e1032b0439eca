#!/usr/bin/env python3
"""What a whole run costs, beside the floor and pidstat, at several numbers of idle processes.

    benches/cost.py [--rdiag target/release/rdiag] [--processes 50,3000] [--seconds 10] [--repeat 3] [--one-window]

Needs a C compiler for the floor, sysstat for pidstat, and a quiet machine: a busy one makes rdiag drill down in a second
window. With --one-window it runs a copy of the playbook whose drill-downs never happen, which an idle machine would not
need either. Runs alternate; CPU time is user and system of the program alone, the median of the repeats. Prints Markdown.
"""
import argparse
import os
import re
import shutil
import statistics
import subprocess
import tempfile
import time


def cost(command, folder):
    """CPU seconds, largest resident MiB, and wall seconds of one command."""
    began = time.monotonic()
    pid = os.posix_spawnp(command[0], command, os.environ, file_actions=[
        (os.POSIX_SPAWN_OPEN, 1, "/dev/null", os.O_WRONLY, 0), (os.POSIX_SPAWN_OPEN, 2, "/dev/null", os.O_WRONLY, 0)])
    _, status, usage = os.wait4(pid, 0)
    if status:
        raise SystemExit(f"{' '.join(command)} ended with {status}")
    return usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024, time.monotonic() - began


def main():
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--rdiag", default="target/release/rdiag")
    arguments.add_argument("--processes", default="50,3000")
    arguments.add_argument("--seconds", type=int, default=10)
    arguments.add_argument("--repeat", type=int, default=3)
    arguments.add_argument("--one-window", action="store_true")
    args = arguments.parse_args()
    here = os.path.dirname(os.path.abspath(__file__))
    folder = tempfile.mkdtemp(prefix="rdiag-cost-")
    seconds, samples = str(args.seconds), str(args.seconds + 1)
    playbook = "use-method"
    try:
        if args.one_window:
            text = open(f"{here}/../playbooks/use-method.yaml").read()
            playbook = f"{folder}/use-method.yaml"
            with open(playbook, "w") as copy:
                copy.write(re.sub(r"(?m)^    when: .*\n(?:      .*\n)*", '    when: status("cpu.utilization") > critical\n', text))
        floor = f"{folder}/floor"
        subprocess.run(["cc", "-O2", "-o", floor, f"{here}/floor.c"], check=True)
        entries = {
            "floor: four files of each process, every sample": [floor, "all", samples],
            "floor: `stat` every sample, the others at both ends": [floor, "gate", samples],
            "pidstat -u -r -d -w": ["pidstat", "-u", "-r", "-d", "-w", "1", seconds],
            "rdiag run use-method": [os.path.abspath(args.rdiag), "run", playbook, "--duration", f"{seconds}s", "--no-guided",
                                     "--out", f"{folder}/out"],
        }
        table = {}
        for count in map(int, args.processes.split(",")):
            idle = [subprocess.Popen(["sleep", "100000"]) for _ in range(count)]
            try:
                time.sleep(2)
                results = {name: [] for name in entries}
                for _ in range(args.repeat):
                    for name, command in entries.items():
                        results[name].append(cost(command, folder))
                html = os.path.getsize(f"{folder}/out/report.html")
            finally:
                for process in idle:
                    process.kill()
                for process in idle:
                    process.wait()
            own = statistics.median(run[0] for run in results["rdiag run use-method"])
            print(f"\n### {count} idle processes, {seconds} s, {args.repeat} runs\n")
            print("| | CPU s, median (least–most) | rdiag / this | peak RSS MiB | wall s |\n|---|---|---|---|---|")
            for name, runs in results.items():
                cpu = [run[0] for run in runs]
                median = statistics.median(cpu)
                table[name, count] = median
                print(f"| {name} | {median:.3f} ({min(cpu):.3f}–{max(cpu):.3f}) | {own / median:.2f} | "
                      f"{max(run[1] for run in runs):.1f} | {statistics.median(run[2] for run in runs):.2f} |")
            print(f"\nreport.html: {html / 1000:.0f} kB")
        counts = [int(count) for count in args.processes.split(",")]
        if len(counts) > 1:
            low, high = counts[0], counts[-1]
            print(f"\n### Per process and sample, from {low} to {high} processes\n\n| | µs | rdiag / this |\n|---|---|---|")
            each = {name: (table[name, high] - table[name, low]) / (high - low) / int(samples) * 1e6 for name in entries}
            for name, value in each.items():
                print(f"| {name} | {value:.2f} | {each['rdiag run use-method'] / value:.2f} |")
            print(f"\nCost at {high} per cost at {low} processes: {table['rdiag run use-method', high] / table['rdiag run use-method', low]:.1f}")
    finally:
        shutil.rmtree(folder, ignore_errors=True)


main()
