#!/usr/bin/env python3
"""What `rdiag fleet` costs per host, and whether it names the hosts that were made odd.

    benches/fleet.py [--rdiag target/release/rdiag] [--hosts 300,3000,30000]

Recordings are made of recorded hosts under names of their own: of a hundred hosts 94 are healthy, one is short of CPUs, and five are missing.
CPU time is user and system of all processes of `rdiag fleet`, memory the largest resident set of one of them. Prints Markdown.
"""
import argparse
import gzip
import json
import os
import pathlib
import resource
import subprocess
import tempfile

TREE = pathlib.Path(__file__).resolve().parent.parent
HEALTHY, ODD = "whole-host-quiet", "whole-host-short-of-cpu"


def recording(rdiag, story):
    """A recorded host as the text of a recording."""
    made = subprocess.run([rdiag, "record", "use-method", "--quiet", "--root", TREE / "tests/fixtures/hosts" / story, "-o", "-"],
                          capture_output=True, check=True)
    return gzip.decompress(made.stdout).decode()


def fleet(folder, count, texts):
    """Writes the recordings, and the list of all hosts. Returns the names of those that are odd."""
    odd, names = [], []
    hosts = {story: json.dumps(json.loads(text)["host"]["hostname"]) for story, text in texts.items()}
    for number in range(count):
        name = f"host-{number:05}"
        names.append(name)
        if number % 100 in range(1, 6):
            continue
        story = ODD if number % 100 == 0 else HEALTHY
        if story == ODD:
            odd.append(name)
        text = texts[story].replace(f'"hostname":{hosts[story]}', f'"hostname":"{name}"', 1)
        (folder / f"{name}.json.gz").write_bytes(gzip.compress(text.encode(), 1))
    (folder.parent / "hosts").write_text("\n".join(names) + "\n")
    return odd


def main():
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--rdiag", default="target/release/rdiag")
    arguments.add_argument("--hosts", default="300,3000,30000")
    args = arguments.parse_args()
    rdiag = os.path.abspath(args.rdiag)
    texts = {story: recording(rdiag, story) for story in (HEALTHY, ODD)}
    print("| hosts | recordings, MB | CPU s | CPU ms per recording | peak MiB | odd hosts named |")
    print("|---|---|---|---|---|---|")
    for count in map(int, args.hosts.split(",")):
        with tempfile.TemporaryDirectory(prefix="rdiag-fleet-") as place:
            folder = pathlib.Path(place) / "runs"
            folder.mkdir()
            odd = fleet(folder, count, texts)
            size = sum(file.stat().st_size for file in folder.iterdir())
            before = resource.getrusage(resource.RUSAGE_CHILDREN)
            done = subprocess.run([rdiag, "fleet", folder, "--expect", pathlib.Path(place) / "hosts", "--format", "json"],
                                  capture_output=True, check=False)
            after = resource.getrusage(resource.RUSAGE_CHILDREN)
            used = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
            text = done.stdout.decode()
            named = sum(f'"{name}"' in text for name in odd)
            there = len(list(folder.iterdir()))
            print(f"| {count} | {size / 1e6:.1f} | {used:.1f} | {1000 * used / there:.1f} | {after.ru_maxrss / 1024:.0f} | "
                  f"{named} of {len(odd)} |", flush=True)


if __name__ == "__main__":
    main()
