#!/usr/bin/env python3
"""Each command of "Other transports" in docs/fleet.md, by the real clush and pdsh over a stub of ssh: the host that answers is judged, and
those that are cut off or do not answer are listed.

    tests/transports/check.py RDIAG       with pdsh and clush (Python package ClusterShell) in the PATH
"""

import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests"))
sys.dont_write_bytecode = True
from fleet_page import blocks  # noqa: E402

TREES = ROOT / "tests/fixtures/hosts"
SSH = """#!/bin/sh
while :; do
    case $1 in
    -o | -l) shift 2 ;;
    -*) shift ;;
    *) break ;;
    esac
done
host=$1
shift
case $host in
web-1) exec sh -c "$*" ;;
# At the end of a line: pdsh puts the next line of another host behind one that was cut off.
web-2) sh -c "$*" | head -n 40 ;;
*) echo "no route to $host" >&2; exit 255 ;;
esac
"""
RDIAG = """#!/bin/sh
[ "$1" != record ] || set -- "$@" --root "{tree}"
exec "{rdiag}" "$@"
"""


def script(path: Path, text: str) -> None:
    path.write_text(text)
    path.chmod(0o755)


def check(rdiag: Path, folder: Path) -> None:
    bin = folder / "bin"
    bin.mkdir()
    script(bin / "ssh", SSH)
    script(bin / "rdiag", RDIAG.format(rdiag=rdiag, tree=TREES / "whole-host-quiet"))
    environment = os.environ | {"PATH": f"{bin}:{os.environ['PATH']}", "HOME": str(folder), "NO_COLOR": "1"}
    *carried, back = blocks("Other transports")
    assert len(carried) == 2, "a command for each transport"
    for command in carried:
        name = command.splitlines()[1].split()[0]
        place = folder / name
        place.mkdir()
        (place / "hosts").write_text("web-1\nweb-2\nweb-3\n")
        for block in [command, back]:
            done = subprocess.run(["sh", "-ec", block], cwd=place, env=environment, capture_output=True, text=True)
            assert done.returncode == 0, f"{block}: {done.stdout}{done.stderr}"
        as_json = f"{back.strip()} --format json"
        judged = subprocess.run(["sh", "-ec", as_json], cwd=place, env=environment, stdout=subprocess.PIPE, check=True)
        fleet = json.loads(judged.stdout)
        missing = {gap["host"]: gap["why"] for gap in fleet["not_judged"]}
        assert fleet["judged"] == 1 and missing == {"web-2": "unreadable", "web-3": "unreachable"}, f"{name}: {missing}"
        print(f"{name}: one host judged, one cut off, one unreachable: as expected")


def main() -> None:
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    for tool in ["clush", "pdsh"]:
        shutil.which(tool) or sys.exit(f"{tool} is missing: see .ci/full")
    with tempfile.TemporaryDirectory(prefix="rdiag-transports.") as folder:
        check(Path(sys.argv[1]).resolve(), Path(folder))


main()
