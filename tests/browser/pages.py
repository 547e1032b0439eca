"""The pages that are looked at: every kind that rdiag writes, from recorded hosts."""

import gzip
import json
import pathlib
import shutil
import subprocess

TREE = pathlib.Path(__file__).resolve().parents[2]
HOSTS = TREE / "tests/fixtures/hosts"
# Hosts that differ in what their page has: a shortage, nothing, a disk, thrashing without process tables, limits of a container, history.
STORIES = ["whole-host-short-of-cpu", "whole-host-quiet", "disk-overloaded-4.15", "memory-thrashing-5.4", "network-listen-overflow", "filesystem-troubles"]
QUIET = "whole-host-quiet"
CAPTURES = TREE / "tests/captures"
# Stacks as another profiler folds them; deep, and with a name that breaks what does not escape it.
STACKS = """app;main;serve;parse 40
app;main;serve;compress;deflate 25
app;main;serve;<b onclick="x()">&amp; 5
app;main;log;write;entry_SYSCALL_64;do_syscall_64;vfs_write 20
"""


def write(rdiag, folder):
    """Writes all pages, each with its name."""
    # Within the folder: a page that names its files must not be as wide as the name of a temporary folder happens to be.
    rdiag = rdiag.resolve()

    def run(*arguments):
        done = subprocess.run([rdiag, *map(str, arguments)], capture_output=True, text=True, cwd=folder)
        if done.returncode > 2:
            raise SystemExit(f"rdiag {' '.join(map(str, arguments))}: {done.stderr}")

    pages = {}
    for story in STORIES:
        pages[story] = folder / story / "report.html"
        run("run", "use-method", "--root", HOSTS / story, "--out", folder / story)
    for capture in sorted(CAPTURES.glob("host/tasks.a_thread_that_fills*.gz")) + sorted(CAPTURES.glob("7.2/kernels.vm_four_loops*.gz")):
        name = f"capture {capture.name.split('.')[1][:24]}"
        pages[name] = folder / f"{capture.name}.html"
        run("analyze", capture, "--out", pages[name])
    folded = folder / "stacks.folded"
    folded.write_text(STACKS)
    pages["flame graph"] = folder / "flame.html"
    run("analyze", folded, "--out", pages["flame graph"])
    pages["diff"] = folder / "diff.html"
    run("diff", QUIET, STORIES[0], "--out", pages["diff"])
    pages["fleet"] = folder / "fleet.html"
    hosts = folder / "hosts"
    hosts.mkdir()
    # The captures are of one host. Hosts of one name are told apart by their files, and a long path is a word that must be broken.
    for number, capture in enumerate(sorted((CAPTURES / "host").glob("*.gz"))):
        recording = json.loads(gzip.decompress(capture.read_bytes()))
        recording["host"]["hostname"] = f"web-{number:02}"
        (hosts / f"web-{number:02}.json.gz").write_bytes(gzip.compress(json.dumps(recording).encode()))
    run("fleet", hosts, "--out", pages["fleet"])
    # Another is as long as names of hosts in a cloud are; all of it is one word.
    long = folder / "long"
    long.mkdir()
    for number, capture in enumerate(sorted((CAPTURES / "host").glob("*.gz"))[:6]):
        recording = json.loads(gzip.decompress(capture.read_bytes()))
        recording["host"]["hostname"] = f"ip-10-0-12-{number}.internal.checkout.production.eu-central-1.compute.example"
        (long / f"{number}.json.gz").write_bytes(gzip.compress(json.dumps(recording).encode()))
    pages["fleet, long names"] = folder / "fleet-long.html"
    run("fleet", long, "--out", pages["fleet, long names"])
    pages["fleet of 200"] = folder / "fleet-of-200/fleet.html"
    shutil.copytree(TREE / "reports/examples/fleet-of-200", folder / "fleet-of-200")
    return pages
