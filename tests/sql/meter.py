"""What a command and all that it starts use: CPU time, memory, time. Read from /proc meanwhile: engines do not wait for all they start."""

import os
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path

TICK = os.sysconf("SC_CLK_TCK")
PAGE = os.sysconf("SC_PAGE_SIZE")
MIB = 1 << 20
# Seconds between two looks.
PERIOD = 0.5


@dataclass
class Used:
    seconds: float
    cpu_seconds: float
    # The largest that one process was, and the largest that all were together.
    largest_mib: float
    together_mib: float


def processes(session: int) -> dict[str, tuple[float, float, float]]:
    """CPU seconds, resident bytes, and the most that these ever were, of each process of a session."""
    found = {}
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            fields = (entry / "stat").read_text().rpartition(")")[2].split()
            if int(fields[3]) == session:
                most = [int(line.split()[1]) * 1024 for line in (entry / "status").read_text().splitlines() if line.startswith("VmHWM")]
                seconds = (int(fields[11]) + int(fields[12])) / TICK
                found[f"{entry.name} {fields[19]}"] = seconds, int(fields[21]) * PAGE, max(most, default=0)
        except (OSError, IndexError, ValueError):
            # It has ended.
            continue
    return found


def metered(command: list, **more: object) -> tuple[int, Used]:
    """Runs a command to its end: its exit code, and what was used."""
    begun = time.monotonic()
    process = subprocess.Popen([str(part) for part in command], start_new_session=True, **more)
    seconds: dict[str, float] = {}
    largest = together = 0.0
    while True:
        done, status, own = os.wait4(process.pid, os.WNOHANG)
        now = processes(process.pid)
        seconds |= {name: cpu for name, (cpu, _, _) in now.items()}
        # Not what wait4 says: that begins with the size of this program, in which the command was forked.
        largest = max([largest, *(most for _, _, most in now.values())])
        together = max(together, sum(size for _, size, _ in now.values()))
        if done:
            break
        time.sleep(PERIOD)
    process.returncode = os.waitstatus_to_exitcode(status)
    # What it waited for itself is exact; of what it did not wait for the last look counts.
    cpu = max(own.ru_utime + own.ru_stime, sum(seconds.values()))
    return process.returncode, Used(time.monotonic() - begun, cpu, largest / MIB, max(together, largest) / MIB)
