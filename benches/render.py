#!/usr/bin/env python3
"""What a page costs to render: `rdiag report FILE --format html --out -` less a start of rdiag.

    benches/render.py [--rdiag target/release/rdiag] [--repeat 15]

The reports are made of recorded hosts, and of a recording with drill-downs, whose page has a flame graph and a heat map. Starts
(`rdiag --version`), the same report as JSON, and the page alternate; CPU time is user and system of rdiag and of the confined copy of itself
that reads the file, the median of the repeats. Prints Markdown.
"""
import argparse
import os
import pathlib
import statistics
import subprocess
import tempfile

TREE = pathlib.Path(__file__).resolve().parent.parent
HOSTS = ["whole-host-quiet", "whole-host-short-of-cpu"]
DRILLED = "7.2/kernels.vm_four_loops_for_each_cpu_are_a_critical_saturation_by_the_kernels_own_count.1.json.gz"
# What a page may cost, in CPU seconds.
MOST = 0.1


def cost(command):
    """CPU seconds of a command and all that it started and waited for, and the bytes that it wrote."""
    with tempfile.TemporaryFile() as out:
        pid = os.posix_spawn(command[0], command, os.environ, file_actions=[
            (os.POSIX_SPAWN_DUP2, out.fileno(), 1), (os.POSIX_SPAWN_OPEN, 2, "/dev/null", os.O_WRONLY, 0)])
        _, status, usage = os.wait4(pid, 0)
        if status:
            raise SystemExit(f"{' '.join(command)} ended with {status}")
        return usage.ru_utime + usage.ru_stime, out.seek(0, os.SEEK_END)


def reports(rdiag, folder):
    """Writes the reports, each with its name."""
    made = {}
    for host in HOSTS:
        made[host] = f"{folder}/{host}.json"
        subprocess.run([rdiag, "run", "use-method", "--quiet", "--root", TREE / "tests/fixtures/hosts" / host, "--out", made[host]],
                       check=True, stdout=subprocess.DEVNULL)
    made["four loops for each CPU, with drill-downs"] = f"{folder}/drilled.json"
    subprocess.run([rdiag, "analyze", "--quiet", TREE / "tests/captures" / DRILLED, "--out", f"{folder}/drilled.json"],
                   check=True, stdout=subprocess.DEVNULL)
    return made


def main():
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--rdiag", default="target/release/rdiag")
    arguments.add_argument("--repeat", type=int, default=15)
    args = arguments.parse_args()
    rdiag = os.path.abspath(args.rdiag)
    print("| report | start, CPU s | as JSON, CPU s | page, CPU s | page less start | of the limit of 0.1 | page, kB |")
    print("|---|---|---|---|---|---|---|")
    with tempfile.TemporaryDirectory(prefix="rdiag-render-") as folder:
        for name, file in reports(rdiag, folder).items():
            commands = {
                "start": [rdiag, "--version"],
                "json": [rdiag, "report", file, "--format", "json", "--out", "-"],
                "html": [rdiag, "report", file, "--format", "html", "--out", "-"],
            }
            taken = {which: [] for which in commands}
            size = 0
            for _ in range(args.repeat):
                for which, command in commands.items():
                    seconds, size = cost(command)
                    taken[which].append(seconds)
            start, json, html = (statistics.median(taken[which]) for which in commands)
            print(f"| {name} | {start:.4f} | {json:.3f} | {html:.3f} | **{html - start:.3f}** | {(html - start) / MOST:.2f} | {size / 1000:.0f} |",
                  flush=True)


if __name__ == "__main__":
    main()
