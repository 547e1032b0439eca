#!/usr/bin/env python3
"""Do rdiag and sysstat agree? Runs both over the same window on a loaded machine and compares.

    benches/agreement.py [--rdiag target/release/rdiag] [--seconds 10] [--no-load]

Needs sysstat, and stress-ng and fio for the load. Load and traffic stay on this machine. Prints a Markdown table; the
exit code is 1 when a difference is over its limit: CPU split 2 points of mpstat, device rates and waits 5 % of iostat -x,
CPU of a process 2 points of pidstat, interface rates 2 % of sar.
"""
import argparse
import json
import os
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
import time


def start(*command):
    env = dict(os.environ, LC_ALL="C", S_TIME_FORMAT="ISO", S_COLORS="never")
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, env=env)


def traffic(stop):
    """Datagrams to ourselves at a steady rate."""
    out, into = socket.socket(socket.AF_INET, socket.SOCK_DGRAM), socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    into.bind(("127.0.0.1", 0))
    into.setblocking(False)
    while not stop.is_set():
        for _ in range(20):
            out.sendto(b"x" * 1000, into.getsockname())
            try:
                into.recv(2000)
            except BlockingIOError:
                pass
        time.sleep(0.01)


def table(text, first):
    """The last table of sysstat output whose header has a column named `first`: a list of rows by column."""
    header, rows = None, []
    for line in text.splitlines():
        fields = line.split()
        if first in fields:
            header, rows = fields, []
        elif header and len(fields) == len(header):
            rows.append(dict(zip(header, fields)))
    return rows


class Readings:
    def __init__(self, windows):
        self.readings = windows[0]["readings"]
        self.labels = windows[0]["labels"]

    def get(self, metric, instance="", field="mean"):
        reading = self.readings[metric].get("measured")
        stats = reading and reading["instances"].get(instance, {}).get("Ok")
        return stats and stats[field]


def main():
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--rdiag", default="target/release/rdiag")
    arguments.add_argument("--seconds", type=int, default=10)
    arguments.add_argument("--no-load", action="store_true")
    args = arguments.parse_args()
    rdiag = os.path.abspath(args.rdiag)
    seconds = str(args.seconds)
    scratch = tempfile.mkdtemp(prefix="rdiag-agreement-", dir="/var/tmp")
    loads, stop = [], threading.Event()
    try:
        if not args.no_load:
            life = str(args.seconds + 6)
            loads.append(start("stress-ng", "--cpu", "1", "--cpu-load", "60", "--timeout", life))
            loads.append(start("fio", "--name=agreement", f"--directory={scratch}", "--size=256m", "--rw=randrw", "--bs=8k", "--direct=1",
                               "--rate_iops=400,200", "--time_based", f"--runtime={life}"))
            threading.Thread(target=traffic, args=(stop,), daemon=True).start()
            time.sleep(4)
        recording = f"{scratch}/recording.json.gz"
        # Read the programs once, so that their own start is no disk traffic in one window and not in the other.
        for program in ("mpstat", "iostat", "pidstat", "sar", rdiag):
            subprocess.run([program, "-V" if program != rdiag else "--version"], capture_output=True, check=False)
        time.sleep(1)
        peers = {
            "mpstat": start("mpstat", seconds, "1"),
            "iostat": start("iostat", "-x", "-d", "-k", "-y", seconds, "1"),
            "pidstat": start("pidstat", "-u", seconds, "1"),
            "sar": start("sar", "-n", "DEV", seconds, "1"),
        }
        own = start(rdiag, "record", "use-method", "--duration", f"{seconds}s", "--out", recording)
        texts = {name: peer.communicate()[0] for name, peer in peers.items()}
        own.communicate()
        stop.set()
        metrics = subprocess.run([rdiag, "analyze", recording, "--print", "metrics"], capture_output=True, text=True, check=True)
        readings = Readings(json.loads(metrics.stdout))
    finally:
        stop.set()
        for load in loads:
            load.terminate()
            load.wait()
        shutil.rmtree(scratch, ignore_errors=True)

    rows, bad = [], 0

    def compare(what, theirs, ours, limit, relative, digits=2):
        """`theirs` was printed with so many digits, so it may be off by half of the last one."""
        nonlocal bad
        if ours is None:
            rows.append((what, f"{theirs:.3f}", "not measured", "", "over"))
            bad += 1
            return
        difference = max(0.0, abs(ours - theirs) - 0.5 * 10**-digits)
        if relative:
            difference = 100 * difference / theirs if theirs else 0.0
        over = difference > limit
        bad += over
        rows.append((what, f"{theirs:.3f}", f"{ours:.3f}", f"{difference:.2f}{' %' if relative else ' points'}", "over" if over else "ok"))

    cpu = table(texts["mpstat"], "%usr")[-1]
    compare("CPU user + nice, %", float(cpu["%usr"]) + float(cpu["%nice"]), 100 * readings.get("cpu.user.ratio"), 2, False)
    compare("CPU system, %", float(cpu["%sys"]), 100 * readings.get("cpu.system.ratio"), 2, False)
    busy = 100 - float(cpu["%idle"]) - float(cpu["%iowait"]) - float(cpu["%steal"])
    compare("CPU busy, %", busy, 100 * readings.get("cpu.busy.ratio"), 2, False)
    for row in table(texts["iostat"], "r/s"):
        device = row["Device"]
        if float(row["r/s"]) + float(row["w/s"]) < 20:
            continue
        for column, metric, scale in (("r/s", "disk.reads.per_second", 1), ("w/s", "disk.writes.per_second", 1),
                                      ("rkB/s", "disk.read.bytes_per_second", 1 / 1024), ("wkB/s", "disk.write.bytes_per_second", 1 / 1024),
                                      ("r_await", "disk.read_await.seconds", 1000), ("w_await", "disk.write_await.seconds", 1000)):
            ours = readings.get(metric, device)
            compare(f"{device} {column}", float(row[column]), ours and ours * scale, 5, True)
    names = readings.labels["process"]
    instances = readings.readings["process.cpu.seconds"]["measured"]["instances"]
    by_pid = {names[key]["pid"]: stats["Ok"]["total"] / args.seconds * 100 for key, stats in instances.items() if "Ok" in stats and key in names}
    for row in table(texts["pidstat"], "%CPU"):
        if float(row["%CPU"]) >= 5:
            compare(f"process {row['Command']} %CPU", float(row["%CPU"]), by_pid.get(row["PID"]), 2, False)
    for row in table(texts["sar"], "rxkB/s"):
        if float(row["rxkB/s"]) > 10 and re.fullmatch(r"[\w.@-]+", row["IFACE"]):
            for column, metric in (("rxkB/s", "receive"), ("txkB/s", "transmit")):
                ours = readings.get(f"network.interface.{metric}.bytes_per_second", row["IFACE"])
                compare(f"{row['IFACE']} {column}", float(row[column]), ours and ours / 1024, 2, True)

    print("| what | sysstat | rdiag | difference | |\n|---|---|---|---|---|")
    for row in rows:
        print("| " + " | ".join(row) + " |")
    return 1 if bad else 0


sys.exit(main())
