#!/usr/bin/env python3
"""What recording costs, beside sadc, atop and below, at several numbers of idle processes.

    benches/recorder.py [--rdiag target/release/rdiag] [--below PATH] [--processes 50,1000,3000] [--seconds 1260] [--interval 5]

All of them record at the same time, so that whatever else the machine does hits them alike. CPU time is user and system of each program;
memory is VmRSS and RssAnon of /proc/PID/status, looked at each second, since the largest block of memory is needed for an instant (when a
block is written, every ten minutes; hence the 21 minutes). Needs sysstat and atop. below (as root, a release build) takes part where
--below names it, with the options of its own unit for systemd; with --no-exitstats without its BPF program. Prints Markdown.
In a PID namespace rdiag may load no program into the kernel, and reads the files of each process instead, which costs more.
"""
import argparse
import os
import re
import shutil
import subprocess
import tempfile
import time

SADC = next((path for path in ("/usr/lib/sysstat/sadc", "/usr/lib64/sa/sadc") if os.path.exists(path)), "sadc")


def start(command):
    return os.posix_spawnp(command[0], command, os.environ, file_actions=[
        (os.POSIX_SPAWN_OPEN, 1, "/dev/null", os.O_WRONLY, 0), (os.POSIX_SPAWN_OPEN, 2, "/dev/null", os.O_WRONLY, 0)])


def resident(pid):
    """Resident memory and the part of it that is of no file, in MiB; of a process that has ended nothing."""
    try:
        text = open(f"/proc/{pid}/status").read()
    except OSError:
        return 0, 0
    return tuple(int(found[1]) / 1024 if (found := re.search(rf"{key}:\s*(\d+)", text)) else 0 for key in ("VmRSS", "RssAnon"))


def size(path):
    if os.path.isfile(path):
        return os.path.getsize(path)
    return sum(os.path.getsize(os.path.join(folder, name)) for folder, _, names in os.walk(path) for name in names)


def below(program, folder, every, exitstats):
    """The command by which below records into a folder; it reads control groups of version 2, wherever they are mounted."""
    groups = next((fields[1] for fields in map(str.split, open("/proc/mounts")) if fields[2] == "cgroup2"), "/sys/fs/cgroup")
    os.makedirs(f"{folder}/below/store")
    with open(f"{folder}/below.conf", "w") as config:
        config.write(f'log_dir = "{folder}"\nstore_dir = "{folder}/below/store"\ncgroup_root = "{groups}"\n')
    command = [os.path.abspath(program), "--config", f"{folder}/below.conf", "record", "--retain-for-s", "604800", "--compress",
               "--interval-s", every]
    return command + ([] if exitstats else ["--disable-exitstats"])


def has_ended(pid):
    return os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None


def measured(entries, seconds):
    """Of each entry, CPU seconds, largest resident and anonymous MiB, and kB written."""
    pids = {name: start(command) for name, (command, _) in entries.items()}
    memory = {name: (0, 0) for name in entries}
    end = time.monotonic() + seconds + 2
    while time.monotonic() < end:
        for name, pid in pids.items():
            memory[name] = tuple(map(max, memory[name], resident(pid)))
        time.sleep(1)
    results = {}
    ended = [" ".join(entries[name][0]) for name, pid in pids.items() if name.startswith("below") and has_ended(pid)]
    for name, pid in pids.items():
        # Without its BPF program, below 0.9.0 takes no notice of SIGTERM.
        is_deaf = "--disable-exitstats" in entries[name][0]
        try:
            os.kill(pid, 9 if is_deaf else 15)
        except ProcessLookupError:
            pass
        _, _, usage = os.wait4(pid, 0)
        results[name] = (usage.ru_utime + usage.ru_stime, *memory[name], size(entries[name][1]) / 1000)
    if ended:
        raise SystemExit(f"below ended by itself; this says why: {ended[0]}")
    return results


def main():
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--rdiag", default="target/release/rdiag")
    arguments.add_argument("--below")
    arguments.add_argument("--no-exitstats", action="store_true")
    arguments.add_argument("--processes", default="50,1000,3000")
    arguments.add_argument("--seconds", type=int, default=1260)
    arguments.add_argument("--interval", type=int, default=5)
    args = arguments.parse_args()
    every, count = str(args.interval), str(args.seconds // args.interval)
    for processes in map(int, args.processes.split(",")):
        folder = tempfile.mkdtemp(prefix="rdiag-recorder-")
        idle = [subprocess.Popen(["sleep", "100000"]) for _ in range(processes)]
        try:
            time.sleep(2)
            entries = {
                "rdiag watch": ([os.path.abspath(args.rdiag), "watch", "--history", f"{folder}/rdiag", "--interval", f"{every}s",
                                 "--duration", f"{args.seconds}s"], f"{folder}/rdiag"),
                "sadc -S XALL": ([SADC, "-S", "XALL", every, count, f"{folder}/sa"], f"{folder}/sa"),
                "atop -w": (["atop", "-w", f"{folder}/atop", every, count], f"{folder}/atop"),
            }
            if args.below:
                name = "below record --compress" + (", no BPF" if args.no_exitstats else "")
                entries[name] = (below(args.below, folder, every, not args.no_exitstats), f"{folder}/below")
            results = measured(entries, args.seconds)
        finally:
            for process in idle:
                process.kill()
            for process in idle:
                process.wait()
            shutil.rmtree(folder, ignore_errors=True)
        print(f"\n### {processes} idle processes, a sample every {every} s, {args.seconds} s\n")
        print("| | of one CPU | peak resident MiB | of it not of files | kB a day |\n|---|---|---|---|---|", flush=True)
        for name, (cpu, rss, anon, written) in results.items():
            print(f"| {name} | {cpu / args.seconds:.2%} | {rss:.1f} | {anon:.1f} | {written * 86400 / args.seconds:,.0f} |", flush=True)


main()
