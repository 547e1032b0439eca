#!/usr/bin/env python3
"""A fault of a minute that is over is diagnosed with `--at`: from sysstat alone, whose own sadc records this host while the fault is
induced and whose own sadf prints the file; and from `rdiag watch` with its own settings, which records the same minute.

    tests/sysstat/check.py RDIAG [--fault cpu|disk]      by default both, three and a half minutes in all

The fault must be found, with the CPUs or the device that it is about; that it is over, and was not before, must be seen as well. sysstat
records no processes, so no culprit may be named; the recorder has to name who made the CPUs short, and to pin that time. What sysstat has
of a fault is judged on samples of a second and on the means over a minute that most files of sysstat are closer to.
"""

import argparse
import contextlib
import json
import os
import subprocess
import sys
import tempfile
import time
from datetime import UTC, datetime
from pathlib import Path

SADC = next((path for path in ("/usr/lib/sysstat/sadc", "/usr/lib64/sa/sadc") if os.path.exists(path)), "sadc")
# Seconds before the fault, of the fault, and after it.
BEFORE, FAULT, AFTER = 15, 60, 20
WORSE = ["unknown", "skipped", "ok", "info", "warning", "critical"]
# Of each fault, the rules that must fire, what they are about (the disk, or "" for the host), and the least that they must say: how slow a
# disk becomes differs from host to host, and of sysstat's files no latency is taken.
WANTED = {
    "cpu": [("cpu.saturation.runnable", "", "warning")],
    "disk": [("disk.saturation.pressure", "", "info")],
}


# The same of the recorder, with who is behind it.
WANTED_OF_RECORDER = {
    "cpu": ("cpu.saturation", "warning", {"sh"}),
    "disk": ("disk.saturation.pressure", "info", None),
}


def loops() -> list[list[str]]:
    """Four loops for each CPU, each of which ends by itself."""
    return [["sh", "-c", f"ulimit -t {FAULT}; while :; do :; done"]] * (4 * (os.cpu_count() or 1))


def writers(folder: str) -> list[list[str]]:
    """Direct writes without end to files of their own."""
    command = "while :; do dd if=/dev/zero of={} bs=64k count=256 oflag=direct conv=notrunc 2>/dev/null; done"
    return [["sh", "-c", command.format(f"{folder}/written-{number}")] for number in range(4)]


@contextlib.contextmanager
def fault(commands: list[list[str]]):
    running = [subprocess.Popen(command, start_new_session=True) for command in commands]
    try:
        yield
    finally:
        for process in running:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, 9)
            process.wait()


def device_of(folder: str) -> str:
    """The disk that a folder lies on, as sysstat names it."""
    number = os.stat(folder).st_dev
    name = Path(f"/sys/dev/block/{os.major(number)}:{os.minor(number)}").resolve()
    return name.parent.name if (name / "partition").exists() else name.name


def record(rdiag: str, folder: str, commands: list[list[str]]) -> tuple[str, dict[str, float], str]:
    """sysstat's file, when each part ended, and what the recorder of rdiag said; its history lies beside that file."""
    file, ends = f"{folder}/sa", {}
    sadc = subprocess.Popen([SADC, "-S", "XALL", "1", str(BEFORE + FAULT + AFTER + 5), file])
    watch = subprocess.Popen([rdiag, "watch", "--trigger", "pin", "--history", f"{folder}/history"], stderr=subprocess.PIPE, text=True)
    try:
        time.sleep(BEFORE)
        ends["before"] = time.time()
        with fault(commands):
            time.sleep(FAULT)
            ends["fault"] = time.time()
        time.sleep(AFTER)
        ends["after"] = time.time()
    finally:
        for recorder in (sadc, watch):
            recorder.terminate()
        sadc.wait()
        _, said = watch.communicate()
    return file, ends, said


def judged(rdiag: str, file: str, end: float, seconds: int, every: int) -> dict:
    """The report about the seconds up to an end, from what sadf prints of the file at an interval."""
    printed = subprocess.run(["sadf", "-j", str(every), file, "--", "-A"], capture_output=True, check=True, env=os.environ | {"LC_ALL": "C"}).stdout
    return report_of(rdiag, end, seconds, ["--from", "-"], printed)


def report_of(rdiag: str, end: float, seconds: int, source: list[str], printed: bytes = b"") -> dict:
    at = datetime.fromtimestamp(end, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    command = [rdiag, "run", "use-method", "--at", at, "--last", f"{seconds}s", *source, "--format", "json", "--out", "-"]
    run = subprocess.run(command, input=printed, capture_output=True, check=False)
    if not run.stdout:
        sys.exit(f"{' '.join(command)}: {run.stderr.decode()}")
    return json.loads(run.stdout)


def findings(report: dict, rule: str, instance: str) -> list[dict]:
    return [one for one in report["findings"] if one["id"] == rule and instance in (one.get("instance") or "")]


def worst(report: dict, rule: str, instance: str) -> str:
    return max((one["status"] for one in findings(report, rule, instance)), key=WORSE.index, default="unknown")


def check_recorder(rdiag: str, what: str, place: str, ends: dict[str, float], said: str) -> list[str]:
    """What is wrong with what the recorder has of the same fault."""
    rule, least, culprits = WANTED_OF_RECORDER[what]
    source = ["--history", f"{place}/history"]
    reports = {"the fault": report_of(rdiag, ends["fault"], FAULT - 3, source), "after": report_of(rdiag, ends["after"], AFTER - 5, source)}
    status = {name: worst(report, rule, "") for name, report in reports.items()}
    named = {one["culprit"]["name"] for one in findings(reports["the fault"], rule, "") if one.get("culprit")}
    print(f"{what}, recorder: {rule}: the fault {status['the fault']} by {', '.join(named) or 'nothing'}, after {status['after']}")
    wrong = []
    if WORSE.index(status["the fault"]) < WORSE.index(least):
        wrong.append(f"{what}, recorder: {rule} is {status['the fault']}")
    if WORSE.index(status["after"]) >= WORSE.index(status["the fault"]):
        wrong.append(f"{what}, recorder: {rule} is {status['after']} after the fault, as in it")
    if culprits and named != culprits:
        wrong.append(f"{what}, recorder: {rule} names {named} and not {culprits}")
    if not reports["the fault"]["verdict"]["limits"][0].startswith("Source: the recorder, a sample every 5 s"):
        wrong.append(f"{what}, recorder: the source is {reports['the fault']['verdict']['limits'][0]}")
    listed = subprocess.run([rdiag, "history", "list", *source], stdout=subprocess.PIPE, text=True, check=True).stdout
    if what == "cpu" and not any("incident: " in line and "  pinned  " in line for line in listed.splitlines()):
        wrong.append(f"{what}, recorder: nothing is pinned: {listed}{said}")
    return wrong


def check(rdiag: str, what: str, place: str) -> list[str]:
    """What is wrong."""
    commands = loops() if what == "cpu" else writers(place)
    file, ends, said = record(rdiag, place, commands)
    wrong = check_recorder(rdiag, what, place, ends, said)
    reports = {
        "before": judged(rdiag, file, ends["before"], BEFORE - 3, 1),
        "the fault": judged(rdiag, file, ends["fault"], FAULT - 3, 1),
        "the fault, by the minute": judged(rdiag, file, ends["fault"] + AFTER, FAULT + AFTER, 60),
        "after": judged(rdiag, file, ends["after"], AFTER - 5, 1),
    }
    for rule, about, least in WANTED[what]:
        instance = device_of(place) if about == "device" else ""
        status = {name: worst(report, rule, instance) for name, report in reports.items()}
        print(f"{what}: {rule} {instance}: " + ", ".join(f"{name} {word}" for name, word in status.items()))
        for name in ("the fault", "the fault, by the minute"):
            found = findings(reports[name], rule, instance)
            if WORSE.index(status[name]) < WORSE.index(least):
                wrong.append(f"{what}, {name}: {rule} is {status[name]}: {json.dumps(found, indent=1)}")
            wrong += [f"{what}, {name}: {rule} names {one['culprit']}, and sysstat has no processes" for one in found if one.get("culprit")]
        for name in ("before", "after"):
            if WORSE.index(status[name]) >= WORSE.index(status["the fault"]):
                wrong.append(f"{what}, {name}: {rule} is {status[name]}, as in the fault")
    for name, report in reports.items():
        source = report["verdict"]["limits"][0]
        print(f"  {name}: {report['verdict']['headline']} [{source}]")
        if "sysstat" not in source:
            wrong.append(f"{what}, {name}: the source is {source}")
    low = {one["confidence"] for one in reports["the fault, by the minute"]["findings"]}
    if low != {"low"}:
        wrong.append(f"{what}: of means over a minute the confidence is {low}")
    return wrong


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("rdiag")
    arguments.add_argument("--fault", choices=sorted(WANTED), action="append")
    asked = arguments.parse_args()
    wrong = []
    for what in asked.fault or sorted(WANTED):
        # Not below /tmp, which may lie in memory.
        with tempfile.TemporaryDirectory(dir="/var/tmp") as place:
            wrong += check(asked.rdiag, what, place)
    if wrong:
        sys.exit("\n".join(wrong))


main()
