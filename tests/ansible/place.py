"""Hosts for the collection: local connections whose rdiag is a script that adds a recorded tree, and so stands for a machine."""

import json
import os
import shutil
import stat
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
COLLECTION = ROOT / "contrib/ansible/rdiag/diagnose"
TREES = ROOT / "tests/fixtures/hosts"
EVIL = '"; rm -rf /'


class Place:
    """A folder for one run: hosts, their programs, an inventory."""

    def __init__(self, folder: Path, rdiag: str):
        self.folder, self.rdiag = folder, rdiag
        self.groups: dict[str, dict] = {}
        collections = folder / "collections/ansible_collections/rdiag"
        collections.mkdir(parents=True)
        shutil.copytree(COLLECTION, collections / "diagnose")
        (folder / "left").mkdir()

    def script(self, name: str, text: str) -> Path:
        path = self.folder / f"{name}.sh"
        path.write_text(f"#!/bin/sh\n{text}\n")
        path.chmod(path.stat().st_mode | stat.S_IXUSR)
        return path

    def host(self, group: str, name: str, **more: object) -> None:
        remote = self.folder / "remote" / str(len(list((self.folder / "remote").glob("*"))) if (self.folder / "remote").exists() else 0)
        remote.mkdir(parents=True)
        own = {"ansible_connection": "local", "ansible_remote_tmp": str(remote), "ansible_python_interpreter": sys.executable}
        self.groups.setdefault(group, {})[name] = own | more

    def tree(self, hostname: str, story: str, key: str = "") -> str:
        """A program that records the tree of a story under a name of its own."""
        tree = self.folder / "trees" / (key or hostname)
        shutil.copytree(TREES / story, tree)
        (tree / "t0/proc/sys/kernel/hostname").write_text(f"{hostname}\n")
        # A recorded tree has one length, whatever is asked for.
        return str(self.script(key or hostname, f'exec "{self.rdiag}" "$@" --root "{tree}"'))

    def inventory(self, **variables: object) -> None:
        children = {group: {"hosts": hosts} for group, hosts in self.groups.items()}
        (self.folder / "inventory.json").write_text(json.dumps({"all": {"vars": variables, "children": children}}))

    def environment(self) -> dict:
        return os.environ | {
            "PWD": str(self.folder),
            "ANSIBLE_COLLECTIONS_PATH": str(self.folder / "collections"),
            "ANSIBLE_LOCAL_TEMP": str(self.folder / "local"),
            "ANSIBLE_HOME": str(self.folder / "home"),
            "ANSIBLE_HOST_KEY_CHECKING": "0",
            "ANSIBLE_TIMEOUT": "3",
            "ANSIBLE_NOCOLOR": "1",
            "NO_COLOR": "1",
        }

    def play(self, playbook: str, *more: str) -> subprocess.CompletedProcess:
        command = ["ansible-playbook", "-i", "inventory.json", f"rdiag.diagnose.{playbook}", "-e", f"rdiag_controller={self.rdiag}", *more]
        return subprocess.run(command, cwd=self.folder, env=self.environment(), stdin=subprocess.DEVNULL, capture_output=True, text=True)
