#!/usr/bin/env python3
"""What `rdiag run method-r` forecasts of a change, and what the change brings.

    benches/forecasts.py [--rdiag PATH] [--runs 3] [--into docs/method-r.md] [--keep DIR] [NAME…]
                                                                          as root; the table in Markdown on stdout

A program (`benches/forecasts.c`, `benches/forecasts_programs.py`) runs under rdiag and alone: as it is, with half of one part, and without
that part, several times in turn. The forecast of the part's component in report.json (of the run with the median time) is held against the
median alone. It holds where the median is within its range, or within 10 % of an end of it; a component without a row is forecast to bring
nothing.
A program that gains less than that, as other waits take the place of what is gone, is apart from one that gains more.

What the changed program has left of the component under rdiag says whether the change is the one that was forecast; its time there, what
observing costs it; the CPU time of all others during the runs alone, how far these were disturbed.
"""

import argparse
import json
import os
import resource
import statistics
import subprocess
import tempfile
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from document import put
from forecasts_programs import Program, programs

BEGINS, ENDS = "<!-- benches/forecasts.py writes from here -->", "<!-- to here -->"
# How much of the part is left, and the field of the forecast that says what that brings.
CHANGES = {0.5: "halved", 0.0: "vanished"}
WITHIN = 0.1
# Narrower than this share of the time before, a forecast is one figure and no range.
POINT = 0.1
LONGEST = 60


@dataclass
class Row:
    """One change of one program; all in seconds."""

    program: Program
    kept: float
    observed: float
    alone: float
    forecast: tuple[float, float]
    measured: list[float]
    # Seconds of the component before, and what the changed program has left of it.
    had: float
    left: float
    # The changed program's time under rdiag.
    after_observed: float
    # CPUs that all others had during the runs alone, the hog among them.
    others: float

    @property
    def after(self) -> float:
        return statistics.median(self.measured)

    @property
    def error(self) -> float:
        """How far the median is from the range, as a share of it: negative if it was faster."""
        low, high = self.forecast
        return min(self.after - low, 0) / self.after + max(self.after - high, 0) / self.after

    @property
    def holds(self) -> bool:
        return abs(self.error) <= WITHIN

    @property
    def is_as_forecast(self) -> bool:
        """Whether the change left what the forecast supposes, to within what its verdict allows for; a hundredth of the run is start and end."""
        return abs(self.left - self.kept * self.had) <= max(WITHIN * self.after, 0.01 * self.observed)

    @property
    def is_point(self) -> bool:
        low, high = self.forecast
        return high - low <= POINT * self.observed

    def cells(self) -> list[str]:
        low, high = self.forecast
        forecast = milliseconds(low) if milliseconds(low) == milliseconds(high) else f"{milliseconds(low)} – {milliseconds(high)}"
        verdict = "in the range" if self.error == 0 else "within 10 %" if self.holds else "**gains more**" if self.error < 0 else "gains less"
        change = f"{'half' if self.kept else 'none'} of {self.program.part}"
        after = f"{milliseconds(self.after)} ({milliseconds(min(self.measured))} – {milliseconds(max(self.measured))})"
        before = [milliseconds(self.observed), milliseconds(self.alone)]
        error = f"{100 * self.error:+.0f} %" if self.error else "0"
        left = f"{milliseconds(self.left)} of {milliseconds(self.had)}"
        if not self.is_as_forecast:
            left, verdict = f"**{left}**", f"{verdict}, by another change"
        row = [self.program.name, f"`{self.program.component}`", change, left, *before, forecast, after]
        return [*row, milliseconds(self.after_observed), f"{self.others:.2f}", error, verdict]


def milliseconds(seconds: float) -> str:
    return f"{seconds * 1e3:.0f}"


def forecast(rdiag: str, program: Program, kept: float, folder: Path) -> dict:
    folder.mkdir(parents=True, exist_ok=True)
    words = [rdiag, "run", "method-r", "--no-guided", "--budget", "100%", "--format", "json", "--out", str(folder)]
    with program.around(kept):
        command = [*words, "--", *program.command(kept)]
        said = subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, errors="replace", timeout=4 * LONGEST)
    report = folder / "report.json"
    if not report.exists():
        raise RuntimeError(f"no report: {said.stderr[-300:]}")
    return json.loads(report.read_text())["profile"]["forecast"]


def cpu_seconds() -> tuple[float, float]:
    """CPU time of the host, what a hypervisor took of it included, and of children that ended."""
    with open("/proc/stat") as stat:
        user, nice, system, _, _, irq, softirq, stolen = map(int, stat.readline().split()[1:9])
    ended = resource.getrusage(resource.RUSAGE_CHILDREN)
    return (user + nice + system + irq + softirq + stolen) / os.sysconf("SC_CLK_TCK"), ended.ru_utime + ended.ru_stime


def elapsed(program: Program, kept: float) -> tuple[float, float]:
    """Seconds that it took, and the CPU seconds of all others meanwhile."""
    with program.around(kept):
        command, (all_before, own_before), began = program.command(kept), cpu_seconds(), time.perf_counter()
        with subprocess.Popen(command, stdout=subprocess.DEVNULL) as running:
            # Not wait(timeout), which looks every 50 ms only.
            late = threading.Timer(LONGEST, running.kill)
            late.start()
            code, took = running.wait(), time.perf_counter() - began
            late.cancel()
        if code:
            raise subprocess.CalledProcessError(code, command)
        all_after, own_after = cpu_seconds()
        return took, all_after - all_before - (own_after - own_before)


def rows(rdiag: str, program: Program, runs: int, folder: Path) -> Iterator[Row]:
    def row_of(told: dict) -> dict:
        return next((row for row in told["rows"] if row["id"] == program.component), {"seconds": 0})

    # In turn: a host that gets busier, or a disk that gets slower, hits all alike.
    measured = {kept: [] for kept in (1, *program.changes)}
    observed = {kept: [] for kept in measured}
    by_others = 0
    for turn in range(runs):
        for kept, all_ in measured.items():
            took, others = elapsed(program, kept)
            all_.append(took)
            by_others += others
            observed[kept].append(forecast(rdiag, program, kept, folder / CHANGES.get(kept, "whole") / str(turn)))
    # The report is the one of the run that is the median; what a single run met would be in its forecast only.
    changed = {kept: sorted(all_, key=lambda told: told["response_seconds"])[len(all_) // 2] for kept, all_ in observed.items()}
    whole, row = changed[1]["response_seconds"], row_of(changed[1])
    others = max(by_others / sum(map(sum, measured.values())), 0)
    for kept in program.changes:
        low, high = row.get(CHANGES[kept], [whole, whole])
        alone, left = statistics.median(measured[1]), row_of(changed[kept])["seconds"]
        after = changed[kept]["response_seconds"]
        yield Row(program, kept, whole, alone, (low, high), measured[kept], row["seconds"], left, after, others)


def summary(found: list[Row], load: float) -> str:
    names = list(dict.fromkeys(row.program.name for row in found))
    whole = sum(all(row.holds for row in found if row.program.name == name) for name in names)
    points = [row for row in found if row.is_point]
    release = ".".join(os.uname().release.split(".")[:2])
    less, more = (sum(not row.holds and row.error * sign > 0 for row in found) for sign in (1, -1))
    return (
        f"Measured on Linux {release} with {os.cpu_count()} CPUs, load {load:.1f} at the begin. {sum(row.holds for row in found)} of "
        f"{len(found)} forecasts hold, and all of {whole} of {len(names)} programs; {less} changes gain less than the forecast, {more} gain more. "
        f"{len(points)} forecasts are one figure (a range of at most {100 * POINT:.0f} % of the time before), of which "
        f"{sum(row.holds for row in points)} hold."
    )


def main() -> None:
    asked = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    asked.add_argument("--rdiag", default="rdiag")
    asked.add_argument("--runs", type=int, default=3)
    asked.add_argument("--into", type=Path, help="the document that gets the table")
    asked.add_argument("--keep", type=Path, help="a folder for the reports")
    asked.add_argument("names", nargs="*")
    told = asked.parse_args()
    load = os.getloadavg()[0]
    heads = ["program", "component", "change", "left of it", "before, observed", "before, alone", "forecast", "after, alone"]
    heads += ["after, observed", "CPUs of others", "error", "verdict"]
    lines, found = [f"| {' | '.join(heads)} |", f"|{'---|' * len(heads)}"], []
    print("\n".join(lines))
    with tempfile.TemporaryDirectory(dir="/var/tmp") as name:
        folder = Path(name)
        for program in programs(folder):
            if told.names and program.name not in told.names:
                continue
            place = (told.keep or folder / "reports") / program.name.replace(" ", "")
            try:
                own = list(rows(told.rdiag, program, told.runs, place))
            except (OSError, RuntimeError, KeyError, ValueError, subprocess.SubprocessError) as why:
                added = [f"| {program.name} | `{program.component}` | not measured: {str(why)[-200:]} |{' |' * 9}"]
            else:
                found += own
                added = [f"| {' | '.join(row.cells())} |" for row in own]
            lines += added
            print("\n".join(added), flush=True)
    text = f"{summary(found, load)} Times in milliseconds.\n\n" + "\n".join(lines) + "\n"
    print(f"\n{summary(found, load)}")
    if told.into:
        put(text, told.into, BEGINS, ENDS)


if __name__ == "__main__":
    main()
