#!/usr/bin/env python3
"""The DaemonSet: each command of docs/fleet.md for it, by the real kubectl against the stub of the API. Every node is judged or listed, from
the logs of all pods as kubectl prints them one after the other.

    tests/kubernetes/daemons.py RDIAG       with kubectl in the PATH
"""

import json
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests"))
sys.dont_write_bytecode = True
from fleet_page import blocks  # noqa: E402
from stub import NODES, serve  # noqa: E402


def check(rdiag: str, folder: Path) -> None:
    cluster, environment = serve(rdiag, folder)
    bin = folder / "bin"
    bin.mkdir()
    (bin / "rdiag").symlink_to(rdiag)
    (folder / "contrib").symlink_to(ROOT / "contrib")
    environment["PATH"] = f"{bin}:{environment['PATH']}"
    (block,) = [block for block in blocks("Kubernetes") if "daemonset" in block]
    made = []
    own = cluster.daemon
    cluster.daemon = lambda whole, rdiag: made.append(json.loads(json.dumps(whole))) or own(whole, rdiag)
    # One node pulls for ever: minutes of a person, seconds here.
    block = block.replace("--timeout=5m", "--timeout=3s").replace("--expect nodes", "--expect nodes --format json")
    begun = time.time()
    done = subprocess.run(["sh", "-ec", block], env=environment, cwd=folder, capture_output=True, text=True)
    assert done.returncode == 0, f"{done.stdout}{done.stderr}"
    fleet = json.loads(done.stdout[done.stdout.index("{") : done.stdout.rindex("}") + 1])
    sound = {node for node, why in NODES.items() if not why}
    assert {host["host"] for host in fleet["hosts"]} == sound and fleet["judged"] == len(sound), fleet["headline"]
    gaps = {gap["host"]: gap["detail"] for gap in fleet["not_judged"]}
    assert set(NODES) - sound <= set(gaps), gaps
    said = " ".join(gaps.values())
    assert all(why in said for why in ["its text is cut off", "its text is damaged", "no recording"]), said
    assert not cluster.daemons and not cluster.pods, "the DaemonSet and its pods are gone"
    # All begin at one instant, and rdiag takes the words as they stand there.
    (whole,) = made
    (record,) = whole["spec"]["template"]["spec"]["initContainers"]
    (at,) = [int(word[1:]) for word in record["args"] if re.fullmatch("@[0-9]+", word)]
    assert begun + 50 < at < begun + 70 and "--or-now" in record["args"], record["args"]
    words = [{f"@{at}": f"@{int(time.time()) + 1}", "10s": "1s"}.get(word, word) for word in record["args"]]
    assert words != record["args"]
    text = subprocess.run([rdiag, *words], check=True, stdout=subprocess.PIPE).stdout
    judged = subprocess.run([rdiag, "analyze", "-", "--format", "json", "-o", "-"], input=text, check=True, stdout=subprocess.PIPE).stdout
    assert json.loads(judged)["verdict"], "a log is a recording"
    print(f"{len(sound)} nodes judged from the logs of a DaemonSet, {len(gaps)} listed, nothing left: as expected")


def main() -> None:
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    with tempfile.TemporaryDirectory(prefix="rdiag-daemons.") as folder:
        check(str(Path(sys.argv[1]).resolve()), Path(folder))


main()
