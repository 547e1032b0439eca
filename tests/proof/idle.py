#!/usr/bin/env python3
"""How often an idle host is accused: `rdiag run use-method` over and over on a host that does nothing else, as root.

    tests/proof/idle.py RDIAG [WINDOWS] [SECONDS]      201 windows of 5 s

Three run at once, so that all is done within some seven minutes; what they use themselves is no load to speak of. Counts windows in which a rule fired
(warning or critical), and of each the rules and their sentences. Where others than these three used more than a twentieth of one CPU,
the host was not idle: such windows are counted apart, whatever the verdict. The result is tests/proof/idle.json, which docs/detection.md shows
(`RDIAG_BLESS=1 cargo test detection` writes it).
"""

import argparse
import json
import os
import resource
import subprocess
import sys
from collections import Counter
from datetime import date
from pathlib import Path

RESULT = Path(__file__).parent / "idle.json"
# CPUs that others may use in a window that is called idle.
IDLE = 0.05
AT_ONCE = 3


def busy() -> float:
    """CPU seconds of all but idle CPUs since boot (/proc/stat)."""
    ticks = [int(word) for word in Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:9]]
    return (sum(ticks) - ticks[3] - ticks[4]) / os.sysconf("SC_CLK_TCK")


def own() -> float:
    """CPU seconds of the runs so far."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def windows(rdiag: str, seconds: int) -> tuple[list[dict], float]:
    """The reports of some runs at once, and how many CPUs others used meanwhile."""
    before = busy() - own()
    began = os.times().elapsed
    command = [rdiag, "run", "use-method", "--duration", f"{seconds}s", "--format", "json", "--out", "-"]
    runs = [subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) for _ in range(AT_ONCE)]
    reports = [json.loads(run.communicate()[0]) for run in runs]
    return reports, (busy() - own() - before) / (os.times().elapsed - began)


def main(rdiag: str, wanted: int, seconds: int) -> int:
    judged, disturbed, statuses, fired = 0, 0, Counter(), []
    while judged < wanted:
        reports, others = windows(rdiag, seconds)
        if others > IDLE:
            disturbed += len(reports)
            if disturbed > wanted:
                print(f"this host is not idle: in {disturbed} windows others used more than {IDLE} CPUs", file=sys.stderr)
                return 1
            continue
        for report in reports:
            judged += 1
            statuses[report["verdict"]["status"]] += 1
            loud = [finding for finding in report["findings"] if finding["status"] in ("warning", "critical")]
            fired += [{"rule": finding["id"], "status": finding["status"], "summary": finding["summary"]} for finding in loud]
            print(judged, report["verdict"]["status"], f"{others:.3f}", *(finding["id"] for finding in loud), flush=True)
    kernel = ".".join(os.uname().release.split(".")[:2])
    result = {
        "on": date.today().isoformat(),
        "kernel": kernel,
        "cpus": os.cpu_count(),
        "windows": judged,
        "at_once": AT_ONCE,
        "seconds": seconds,
        "disturbed": disturbed,
        "statuses": dict(sorted(statuses.items())),
        "fired": fired,
    }
    RESULT.write_text(json.dumps(result, indent=1) + "\n")
    return 1 if fired else 0


if __name__ == "__main__":
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("rdiag", type=Path, help="the program")
    arguments.add_argument("windows", type=int, nargs="?", default=201)
    arguments.add_argument("seconds", type=int, nargs="?", default=5)
    given = arguments.parse_args()
    sys.exit(main(str(given.rdiag.resolve(strict=True)), given.windows, given.seconds))
