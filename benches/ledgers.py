#!/usr/bin/env python3
"""Method R's account of programs that keep their own: program, truth, ledger, error, and what the reader was told.

    benches/ledgers.py [--rdiag PATH] [--seconds 2] [--into docs/method-r.md] [NAME…]      as root; the table in Markdown on stdout

A program says at its end how long it waited for what (`benches/ledgers.c` and the programs below); `rdiag run method-r -- PROGRAM` accounts for the
same run. The error is their difference in points of the time that the program lived. For a real command the truth is the CPU time that the kernel
charged to it and its children. A busy host does not change who is right: waiting for a CPU is a line of both accounts.

The verdict is right where the cause that its headline begins with is the largest line of the truth, or within two points of it, or what the elapsed
time is bound by where most threads wait for that (`BOUND`). Where the truth has less than half of the time in its lines, or less than half of the
elapsed time, from the program's first instruction, as CPU time, it cannot tell, and neither can the verdict be held to it.
"""

import argparse
import json
import os
import re
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path

from document import put
from ledgers_programs import programs

HERE = Path(__file__).resolve().parent
# A line of the truth, and the components that it is the sum of.
CPU = ["cpu.user", "cpu.sys", "cpu.irq", "cpu.steal"]
SUMS = {
    "runnable": ["runq", "runq.preempt", "runq.wakeup", "throttled"],
    "cpu": CPU,
    "io.block.read": ["io.block.read", "io.block"],
    "io.block.async": ["io.block.async", "io.block"],
    "fault.file": ["fault.file", "fault"],
}

# Helpers of `ledgers.c` sleep between what they do: a verdict that looks through the wait for one names that, which is more than the truth says.
THROUGH, HELPERS_DO = " and in what that waited for ", "wait.sleep"
# What bounds the elapsed time of programs of which most threads wait for it: the headline is about the elapsed time, the lines are sums over threads.
BOUND = {
    # The first thread sleeps from its begin to its end, and eight others wait for it.
    "C condvar-pool": "wait.sleep",
    # One writer sleeps while it has the lock, and the three readers wait for it.
    "C rwlock": "wait.sleep",
    "c++-shared-mutex": "wait.sleep",
    # `mariadb-admin shutdown` sleeps a second before it looks whether the server has ended.
    "mariadb": "wait.sleep",
}
# Beyond so many points a line is wrong.
POINTS = 2
# A truth that knows of less than this share of the time knows no cause.
MOST = 0.5
BEGINS, ENDS = "<!-- benches/ledgers.py writes from here -->", "<!-- the table of benches/ledgers.py ends here -->"


def phrases() -> dict[str, str]:
    """The words by which a verdict names a component → its id."""
    text = (HERE.parent / "src/model/component.rs").read_text()
    found = re.findall(r'^    \w+ "([a-z_.]+)" \w+ (?:true|false)\s+"[^"]*",\s+"([^"]*)"', text, re.MULTILINE)
    return {phrase: name for name, phrase in found}


@dataclass
class Run:
    """What a program says of itself, and what rdiag does."""

    truth: dict[str, float]
    ledger: dict[str, float]
    headline: str


def cause(headline: str) -> str | None:
    """The component that a headline names first; none if it names none."""
    places = [(headline.find(f" is {words}"), -len(words), name) for words, name in phrases().items()]
    return min((place for place in places if place[0] >= 0), default=(0, 0, None))[2]


def observed(rdiag: str, command: list[str]) -> Run:
    words = [rdiag, "run", "method-r", "--no-guided", "--budget", "100%", "--format", "json", "--out", "-", "--", *command]
    said = subprocess.run(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, errors="replace", timeout=240)
    truth = [json.loads(line.removeprefix("TRUTH ")) for line in said.stdout.splitlines() if line.startswith("TRUTH ")]
    _, begins, report = said.stdout.rpartition("\n{\n")
    if not truth or not begins:
        raise RuntimeError(f"{' '.join(words)} told nothing: {said.stderr[-300:]}")
    report = json.loads("{" + report)
    profile = report.get("profile") or {}
    if profile.get("level") != "L3":
        raise RuntimeError(f"no account of every event: {report['verdict']['headline']}")
    ledger = {row["id"]: row["seconds"] for row in profile["components"]}
    beyond = (profile["population"].get("not_followed") or {}).get("seconds", 0)
    for name, seconds in [
        ("unaccounted", profile["unaccounted_seconds"] - beyond),
        ("over-accounted", profile["over_accounted_seconds"]),
        ("not followed", beyond),
    ]:
        if seconds > 1e-6 * profile["task_seconds"]:
            ledger[name] = seconds
    return Run(truth[-1], ledger, report["verdict"]["headline"])


def verdict(title: str, run: Run, found: list[tuple[str, float, float, float]]) -> str:
    """Whether the cause that was told is the one that the truth has; `–` where the truth cannot tell."""
    truth, told = run.truth, cause(run.headline)
    if told is None:
        return "**no cause**"
    if "cpu.seconds" in truth:
        # A busy host makes it wait for a CPU, which this truth does not know.
        if truth["cpu.seconds"] < MOST * truth.get("elapsed", float("inf")) or told in SUMS["runnable"]:
            return "–"
        if told == BOUND.get(title):
            return f"right, what bounds it: `{told}`"
        causes = CPU
    else:
        if sum(line[1] for line in found) < MOST:
            return "–"
        if title.startswith("C ") and truth.get("helpers") and THROUGH in run.headline and told == HELPERS_DO:
            return f"right, looked through: `{told}`"
        if told == BOUND.get(title):
            return f"right, what bounds it: `{told}`"
        most = max(line[1] for line in found)
        largest = [line[0] for line in found if line[1] > most - POINTS / 100]
        causes = [part for name in largest for part in SUMS.get(name, [name])]
    return f"right: `{told}`" if told in causes else f"**wrong**: `{told}`"


def lines(truth: dict[str, float], ledger: dict[str, float]) -> list[tuple[str, float, float, float]]:
    """What each line is about, its share by the program and by rdiag, and the difference in points."""
    total = sum(ledger.values())
    if "cpu.seconds" in truth:
        pairs = [("cpu", truth["cpu.seconds"], sum(ledger.get(name, 0) for name in CPU))]
        whole = total
    else:
        whole = truth["seconds"]
        skipped = {"cpu.user", "cpu.sys", "runnable", "wait.sleep"} if truth.get("helpers") else set()
        # On a busy host threads wait for a CPU before they can begin their account, and after they ended it.
        skipped |= {"runnable"} if total > whole * 1.02 else set()
        named = [name for name in truth if name not in skipped | {"seconds", "helpers"}]
        pairs = [(name, truth[name], sum(ledger.get(part, 0) for part in SUMS.get(name, [name]))) for name in named]
    return [(name, is_ / whole, told / whole, 100 * abs(told - is_) / whole) for name, is_, told in pairs]


def rows(title: str, run: Run) -> tuple[list[str], float, str]:
    """The rows of a program, its largest error, and the verdict."""
    found = lines(run.truth, run.ledger)
    most = max(found, key=lambda line: line[3])
    word = verdict(title, run, found)
    total = sum(run.ledger.values())
    rest = sorted(((part, value) for part, value in run.ledger.items() if part not in run.truth), key=lambda pair: -pair[1])
    text = []
    # Lines of little time are told where they are wrong.
    for what, is_, has, error in [line for line in found if line[3] > POINTS or line[1] > 0.1] or [most]:
        else_ = ", ".join(f"{part} {100 * value / total:.0f} %" for part, value in rest[:2]) if error > POINTS else ""
        told = word if not text else ""
        text.append(f"| {title} | {what} | {100 * is_:.1f} % | {100 * has:.1f} % | {error:.1f} | {else_} | {told} |")
    return text, most[3], word


def summary(errors: list[float], words: list[str], seconds: float, load: float) -> str:
    within = sum(error <= POINTS for error in errors)
    judged = [word for word in words if word != "–"]
    right = sum(word.startswith("right") for word in judged)
    release = ".".join(os.uname().release.split(".")[:2])
    return (
        f"Measured on Linux {release} with {os.cpu_count()} CPUs, each program for {seconds:g} s, load average {load:.1f} before. "
        f"{within} of {len(errors)} programs are within {POINTS} points in every line. The headline begins with the right cause for "
        f"{right} of {len(judged)}: the largest line of the truth, one within {POINTS} points of it, or what bounds the elapsed time where "
        "most threads wait for that. A verdict – is of a truth that does not tell the cause."
    )


def main() -> None:
    asked = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    asked.add_argument("--rdiag", default="rdiag")
    asked.add_argument("--seconds", type=float, default=2)
    asked.add_argument("--into", type=Path, help="the document that gets the table")
    asked.add_argument("names", nargs="*")
    told = asked.parse_args()
    load = os.getloadavg()[0]
    heads = ["program", "what", "truth", "ledger", "error (points)", "where else the ledger has it", "verdict"]
    table = [f"| {' | '.join(heads)} |", f"|{'---|' * len(heads)}"]
    print("\n".join(table))
    errors, words = [], []
    with tempfile.TemporaryDirectory(dir="/var/tmp") as name:
        folder = Path(name)
        program = str(folder / "ledgers")
        subprocess.run(["cc", "-O1", "-pthread", "-w", "-o", program, str(HERE / "ledgers.c")], check=True)
        for title, command in programs(folder, program, told.seconds).items():
            if told.names and title not in told.names:
                continue
            try:
                added, error, word = rows(title, observed(told.rdiag, command))
            except (OSError, RuntimeError, KeyError, ValueError, subprocess.TimeoutExpired) as why:
                added = [f"| {title} | not measured: {str(why)[-200:]} |{' |' * 5}"]
            else:
                errors.append(error)
                words.append(word)
            table += added
            print("\n".join(added), flush=True)
    text = summary(errors, words, told.seconds, load)
    print(f"\n{text}")
    if told.into:
        put(f"{text}\n\n" + "\n".join(table) + "\n", told.into, BEGINS, ENDS)


if __name__ == "__main__":
    main()
