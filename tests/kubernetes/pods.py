#!/usr/bin/env python3
"""Findings name pod, container and namespace for each runtime and driver, in both versions of control groups: recorded hosts on which a
group is in trouble are judged as if it were a container, and the same must be found, by its name.

    tests/kubernetes/pods.py RDIAG

Trees are recorded hosts whose group has another path: that of a container of containerd, CRI-O or Docker, by systemd or by cgroupfs.
"""

import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
TREES = ROOT / "tests/fixtures/hosts"
ID = "0123456789abcdef" * 4
UID = "8e2a6bcb-5b49-4b71-9a9c-0d9a0f1f5d3e"
NAMED = "pod shop/web-1, container app"
# Version 2, version 1, and both at once.
STORIES = {
    "cgroup-v2-throttled": "system.slice/api.service",
    "cgroup-v1-joined": "docker/" + "5f2c" * 16,
    "cgroup-hybrid": "system.slice/search.service",
}
SLICE = f"kubepods-burstable-pod{UID.replace('-', '_')}.slice"
SYSTEMD = f"kubepods.slice/kubepods-burstable.slice/{SLICE}"
PLACES = {
    "containerd, systemd": f"{SYSTEMD}/cri-containerd-{ID}.scope",
    "CRI-O, systemd": f"{SYSTEMD}/crio-{ID}.scope",
    "Docker, systemd": f"{SYSTEMD}/docker-{ID}.scope",
    "containerd and Docker, cgroupfs": f"kubepods/burstable/pod{UID}/{ID}",
    "CRI-O, cgroupfs": f"kubepods/burstable/pod{UID}/crio-{ID}",
    # Where the kubelet uses systemd and the runtime does not know it.
    "containerd, mixed": f"system.slice/containerd.service/{SLICE}:cri-containerd:{ID}",
}


def renamed(story: str, group: str, folder: Path) -> Path:
    """The tree with another path for its group, and the names that the kubelet gives."""
    source, old, tree = TREES / story, STORIES[story], folder / "tree"
    shutil.rmtree(tree, ignore_errors=True)
    for parent, _, files in os.walk(source):
        place = tree / str(Path(parent).relative_to(source)).replace(old, group)
        place.mkdir(parents=True, exist_ok=True)
        for file in files:
            text = (Path(parent) / file).read_bytes()
            (place / file).write_bytes(text.replace(old.encode(), group.encode()))
    logs = tree / "t0/var/log"
    (logs / "containers").mkdir(parents=True)
    (logs / f"containers/web-1_shop_app-{ID}.log").touch()
    (logs / f"pods/shop_web-1_{UID}").mkdir(parents=True)
    return tree


def judged(rdiag: str, tree: Path, *more: str) -> dict:
    command = [rdiag, "run", "use-method", "--root", tree, "--format", "json", "--out", "-", *more]
    return json.loads(subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, check=True).stdout)


def fired(report: dict, group: str) -> dict[str, dict]:
    """Rules that fire at a group."""
    own = [one for one in report["findings"] if one.get("instance") == f"/{group}"]
    return {one["id"]: one for one in own if one["status"] in ("info", "warning", "critical")}


def statuses(found: dict[str, dict]) -> dict[str, str]:
    return {rule: one["status"] for rule, one in found.items()}


def check(rdiag: str, folder: Path) -> None:
    named = 0
    for story, old in STORIES.items():
        before = statuses(fired(judged(rdiag, TREES / story), old))
        assert before, f"{story}: nothing fires at {old}"
        for place, group in PLACES.items():
            tree = renamed(story, group, folder)
            for more in [[], ["--pod", "shop/web-1/app"]]:
                report = judged(rdiag, tree, *more)
                found = fired(report, group)
                what = f"{story}, {place} {more}"
                assert statuses(found) == before, f"{what}: {statuses(found)} and not {before}"
                for rule, one in found.items():
                    assert NAMED in one["summary"] and ID not in one["summary"], f"{what}: {rule}: {one['summary']}"
                    named += 1
            assert report["window"]["cgroup"] == f"/{group}", f"{what}: {report['window']}"
    print(f"{named} findings on {len(STORIES)} hosts with {len(PLACES)} kinds of paths: each by the names of pod, container and namespace")


def main() -> None:
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    with tempfile.TemporaryDirectory(prefix="rdiag-pods.") as folder:
        check(str(Path(sys.argv[1]).resolve()), Path(folder))


main()
