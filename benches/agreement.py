#!/usr/bin/env python3
"""Does rdiag agree with the programs that people know? Runs all of them over the same window on a loaded machine and compares.

    benches/agreement.py [--rdiag target/release/rdiag] [--seconds 10] [--no-load] [--only NAME]...

mpstat, iostat, pidstat and sar (sysstat), nstat, ss and tc (iproute2), df, free and slabtop (procps), numastat (numactl), ethtool,
and nfsiostat where NFS is mounted; stress-ng and fio for the load, as root. Load and traffic stay on this machine. Prints a Markdown
table in which each row has its limit; what rdiag does not measure is a row of its own. The exit code is 1 when a difference is over its
limit.
"""
import argparse
import contextlib
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time

import agreement_rows as rows
from agreement_load import Load, start

PROGRAMS = "mpstat iostat pidstat sar nstat ss tc df free slabtop numastat ethtool nfsiostat".split()


class Readings:
    """The metrics of the first window."""

    def __init__(self, windows):
        self.readings, self.labels, self.seconds = (windows[0][key] for key in ("readings", "labels", "seconds"))

    def instance(self, metric, instance=""):
        measured = self.readings[metric].get("measured")
        return measured and measured["instances"].get(instance)

    def get(self, metric, instance="", field="mean"):
        stats = (self.instance(metric, instance) or {}).get("Ok")
        return stats and stats[field]

    def mounts(self, kind):
        return [mount for mount, labels in self.labels.get("mount", {}).items() if labels.get("type", "").startswith(kind)]


def said(*command):
    return subprocess.run(command, capture_output=True, text=True, check=False, env=dict(os.environ, LC_ALL="C")).stdout


def queues():
    roots = [one for one in json.loads(said("tc", "-s", "-j", "qdisc", "show")) if one.get("root")]
    return {(one["dev"], one["kind"]): one for one in roots}


def drivers():
    """By interface, the counters that its driver keeps."""
    found = {}
    for name in sorted(os.listdir("/sys/class/net")):
        counters = {key.strip(): int(value) for key, value in re.findall(r"^ +([^:\n]+): (\d+)$", said("ethtool", "-S", name), re.M)}
        if counters:
            found[name] = counters
    return found


def nodes():
    header, *lines = [line.split() for line in said("numastat").splitlines() if line.strip()]
    return {node: {line[0]: int(line[1 + at]) for line in lines} for at, node in enumerate(header)}


class Snapshot:
    """Counters since the boot, those of each program with the moment at which they were read."""

    def __init__(self, programs):
        self.at, self.read = {}, {}
        counters = lambda: {line.split()[0]: int(line.split()[1]) for line in said("nstat", "-asz").splitlines()[1:]}
        for name, read in (("nstat", counters), ("tc", queues), ("ethtool", drivers), ("numastat", nodes)):
            if name not in programs:
                continue
            self.at[name], self.read[name] = time.monotonic(), read()

    def since(self, before, name):
        return before.read[name], self.read[name], self.at[name] - before.at[name]


def has_nfs():
    with open("/proc/self/mounts", encoding="utf-8", errors="replace") as mounts:
        return any(line.split()[2] in ("nfs", "nfs4") for line in mounts)


def processes():
    return {name for name in os.listdir("/proc") if name.isdigit()}


def disks():
    with open("/proc/diskstats", encoding="ascii") as lines:
        return {line.split()[2]: [int(word) for word in line.split()[3:14]] for line in lines}


def moved(*pairs):
    """By device, what its counters moved from the first to the second reading of each pair."""
    return {name: [sum(b[name][at] - a[name][at] for a, b in pairs) for at in range(11)] for name in pairs[0][0]}


def wait_for_window(rdiag, read):
    """Until rdiag has the threads that read: then its window begins. What was read last before. On an emulated CPU
    that took six seconds."""
    deadline = time.monotonic() + 30
    while True:
        counters = read()
        if len(os.listdir(f"/proc/{rdiag.pid}/task")) > 1 or time.monotonic() > deadline:
            return counters
        time.sleep(0.002)


def window(rdiag, args, recording, load, programs):
    """All programs over the same seconds; what each said."""
    seconds = args.seconds
    own = start(rdiag, "record", "use-method", "--duration", f"{seconds}s", "--interval", args.interval, "--out", recording)
    # Where disks are not compared, reading them all the time only disturbs an emulated CPU.
    read = disks if "iostat" in programs else dict
    edge = [wait_for_window(own, read)]
    began = time.monotonic()
    commands = {
        "mpstat": ("mpstat", str(seconds), "1"),
        "iostat": ("iostat", "-x", "-d", "-k", "-y", str(seconds), "1"),
        "pidstat": ("pidstat", "-u", str(seconds), "1"),
        "sar": ("sar", "-n", "DEV", str(seconds), "1"),
        "free": ("free", "-b", "-s", "0.25", "-c", str(4 * seconds)),
    }
    if has_nfs():
        commands["nfsiostat"] = ("nfsiostat", str(seconds), "2")
    tables = {name: start(*command) for name, command in commands.items() if name in programs}
    before, lived = Snapshot(programs), processes()
    edge.append(read())
    looks = {name: [] for name in ("df", "slabtop -o", "ss -s", "ss -tan", "depths")}
    space = ("df", "--block-size=1", "--output=target,size,used,avail,itotal,iused,fstype")
    for second in range(seconds + 1):
        time.sleep(max(0.0, began + second - time.monotonic()))
        # rdiag asks for space at the beginning of a window; its start may take a moment.
        if second == 0 and "df" in programs:
            looks["df"].append(said(*space))
        if second == 1 and load:
            load.unanswered()
        for look in ("slabtop -o", "ss -s", "ss -tan"):
            if look.split()[0] in programs:
                looks[look].append(said(*look.split()))
        if "tc" in programs:
            looks["depths"].append(queues())
        if second == seconds - 1:
            time.sleep(max(0.0, began + seconds - 0.02 - time.monotonic()))
            edge.append(read())
    after = Snapshot(programs)
    lived &= processes()
    # By now each has read for the last time.
    time.sleep(max(0.0, began + seconds + 0.1 - time.monotonic()))
    edge.append(read())
    texts = {name: program.communicate()[0] for name, program in tables.items()}
    own.communicate()
    return texts, looks, before, after, lived, moved(edge[:2], edge[2:])


def main():
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--rdiag", default="target/release/rdiag")
    arguments.add_argument("--seconds", type=int, default=10)
    arguments.add_argument("--interval", default="1s", help="of rdiag's samples; of levels the others are read once a second")
    arguments.add_argument("--no-load", action="store_true")
    arguments.add_argument("--only", action="append", choices=PROGRAMS, metavar="NAME", help="one of the programs; more than once for more of them")
    args = arguments.parse_args()
    programs = args.only or PROGRAMS
    needed = [name for name in programs if name != "nfsiostat" or has_nfs()] + ([] if args.no_load else ["stress-ng", "fio", "ip", "tc"])
    missing = [name for name in needed if not shutil.which(name)]
    if missing:
        sys.exit(f"these programs are needed and not here: {', '.join(missing)}")
    rdiag, scratch = os.path.abspath(args.rdiag), tempfile.mkdtemp(prefix="rdiag-agreement-", dir="/var/tmp")
    try:
        # Read the programs once, so that their own start is no disk traffic in one window and not in the other.
        for program in {"mpstat", "iostat", "pidstat", "sar"} & set(programs):
            said(program, "-V")
        said(rdiag, "--version")
        Snapshot(programs)
        recording = f"{scratch}/recording.json.gz"
        with contextlib.nullcontext() if args.no_load else Load(args.seconds, scratch) as load:
            # Where other programs want the CPUs, too, all windows begin at once only if these go first.
            with contextlib.suppress(PermissionError):
                os.nice(-20)
            texts, looks, before, after, lived, border = window(rdiag, args, recording, load, programs)
        metrics = subprocess.run([rdiag, "analyze", recording, "--print", "metrics"], capture_output=True, text=True, check=True)
        ours = Readings(json.loads(metrics.stdout))
    finally:
        shutil.rmtree(scratch, ignore_errors=True)

    out = rows.Table()
    tables = {
        "mpstat": lambda: rows.mpstat(out, texts["mpstat"], ours),
        "iostat": lambda: rows.iostat(out, texts["iostat"], border, ours),
        "pidstat": lambda: rows.pidstat(out, texts["pidstat"], ours, lived),
        "sar": lambda: rows.sar(out, texts["sar"], ours),
        "nstat": lambda: rows.nstat(out, *after.since(before, "nstat"), ours),
        "ss": lambda: rows.ss(out, looks["ss -s"], looks["ss -tan"], ours),
        "tc": lambda: rows.tc(out, *after.since(before, "tc"), looks["depths"], ours),
        "df": lambda: rows.df(out, looks["df"], ours),
        "free": lambda: rows.free(out, texts["free"], ours),
        "slabtop": lambda: rows.slabtop(out, looks["slabtop -o"], ours),
        "numastat": lambda: rows.numastat(out, *after.since(before, "numastat")[:2], ours),
        "ethtool": lambda: rows.ethtool(out, *after.since(before, "ethtool"), ours),
        "nfsiostat": lambda: rows.nfsiostat(out, texts.get("nfsiostat"), ours),
    }
    for name in PROGRAMS:
        if name in programs:
            tables[name]()
    out.print()
    return 1 if out.bad else 0


sys.exit(main())
