#!/usr/bin/env python3
"""The Ansible collection over hosts that answer, and hosts that do anything else: every host is accounted for, nothing is left on any.

    tests/ansible/check.py RDIAG          with ansible-playbook in the PATH; as root a full file system is among the faults

Hosts are local connections whose rdiag is a script: it adds a recorded tree, and so stands for a machine. One is asked over ssh at a port
that nobody listens on.
"""

import hashlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from place import EVIL, ROOT, TREES, Place

sys.path.insert(0, str(ROOT / "tests"))
from fleet_page import blocks  # noqa: E402


def full_file_system(folder: Path) -> Path | None:
    """A file system without room, if this user may mount one."""
    place = folder / "full"
    place.mkdir()
    done = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", place], capture_output=True)
    if done.returncode != 0:
        print("not checked: a full /tmp (needs a right to mount)")
        return None
    try:
        (place / "filler").write_bytes(bytes(1 << 20))
    except OSError:
        pass
    return place


def check(rdiag: str, folder: Path) -> None:
    place = Place(folder, rdiag)
    for n in range(5):
        story = "whole-host-short-of-cpu" if n < 4 else "whole-host-quiet"
        place.host("web", f"web-{n}", rdiag_path=place.tree(f"web-{n}", story))
    place.host("db", EVIL, rdiag_path=place.tree("db-1", "whole-host-quiet"))
    copied = place.tree("db-2", "whole-host-quiet")
    copy = {"rdiag_path": "/nonexistent/rdiag", "rdiag_copy": copied, "rdiag_copy_to": str(folder / "left")}
    place.host("db", "db-2", **copy, rdiag_copy_sha256=hashlib.sha256(Path(copied).read_bytes()).hexdigest())
    # Two hosts of one name.
    place.host("db", "db-3", rdiag_path=place.tree("twin", "whole-host-quiet", "a"))
    place.host("db", "db-4", rdiag_path=place.tree("twin", "whole-host-quiet", "b"))
    # What a host says is data for the controller, and no template.
    ran = folder / "ran-on-the-controller"
    template = place.script("template", f"echo \"{{{{ lookup('pipe', 'touch {ran}') }}}}\" >&2; exit 3")
    whole = f'"{rdiag}" record use-method -o - --root "{TREES / "whole-host-quiet"}"'
    wrong = {
        "dead": ({"ansible_connection": "ssh", "ansible_host": "127.0.0.1", "ansible_port": 1}, "Connection refused"),
        "no-rdiag": ({"rdiag_path": "/nonexistent/rdiag"}, "No such file or directory"),
        "no-rdiag-in-path": ({"rdiag_path": "no-such-rdiag"}, "there is no no-such-rdiag on this host"),
        "no-python": ({"ansible_python_interpreter": "/nonexistent/python3"}, ""),
        "garbage": ({"rdiag_path": str(place.script("garbage", "head -c 2000000 /dev/urandom"))}, "2000000 bytes that are no recording"),
        "cut-off": ({"rdiag_path": str(place.script("cut", f"{whole} | head -c 3000"))}, "cut off (3000 bytes)"),
        "other-json": ({"rdiag_path": str(place.script("other", "echo '{}' | gzip"))}, "no recording of rdiag"),
        "sick": ({"rdiag_path": str(place.script("sick", "echo 'error: nothing\tto\nsee' >&2; exit 3"))}, "rdiag ended with code 3: error: nothing to see"),
        "template": ({"rdiag_path": str(template)}, "(( lookup('pipe', 'touch "),
        "other-copy": (copy | {"rdiag_copy_sha256": "0" * 64}, "is not the program whose SHA-256 is rdiag_copy_sha256"),
        "slow": ({"rdiag_path": str(place.script("slow", "sleep 600")), "rdiag_time_limit": 2}, "did not end within 2 s"),
    }
    full = full_file_system(folder)
    if full:
        wrong["full"] = ({"ansible_remote_tmp": str(full / "tmp")}, "")
    for name, (how, _) in wrong.items():
        place.host("db", name, **how)
    place.inventory()
    try:
        done = place.play("fleet", "--forks", "20")
    finally:
        if full:
            subprocess.run(["umount", full], check=False)
    said = done.stdout + done.stderr
    assert done.returncode in (0, 2, 4), f"{done.returncode}: {said}"
    assert (folder / "fleet/fleet.json").exists(), said
    fleet = json.loads((folder / "fleet/fleet.json").read_text())
    missing = {gap["host"]: gap for gap in fleet["not_judged"]}
    assert set(missing) == set(wrong), f"not judged: {sorted(missing)}; expected {sorted(wrong)}\n{said}"
    for name, (_, why) in wrong.items():
        assert why in missing[name]["detail"], f"{name}: {missing[name]}"
        assert missing[name]["why"] == "unreachable", missing[name]
    judged = {row["host"].split(" (")[0]: row["group"] for row in fleet["hosts"]}
    assert judged == {f"web-{n}": "web" for n in range(5)} | {"db-1": "db", "db-2": "db", "twin": "db"}, judged
    assert fleet["judged"] == 9 and len(fleet["hosts"]) == 9
    common = {(fault["group"], fault["rule"]): fault["reach"]["hosts"] for fault in fleet["common"]}
    assert common.get(("web", "cpu.saturation")) == 4, common
    assert "4 of 5" in said, "the play ends with what was found"
    assert (folder / "fleet/fleet.html").exists()
    assert not ran.exists(), "what a host said was run on the controller"
    # Nothing is left: no copy of the program, no file of Ansible.
    left = [str(path) for path in [*(folder / "left").rglob("*"), *(folder / "remote").rglob("*")] if path.is_file()]
    assert not left, left
    assert not subprocess.run(["pgrep", "-f", str(folder / "slow.sh")], capture_output=True).stdout, "what was given up still runs"
    print(f"{len(fleet['hosts'])} hosts judged, {len(missing)} listed with their reasons: as expected")

    # A second run counts no recording of the first.
    del place.groups["db"]
    place.groups["web"] = {"web-0": place.groups["web"]["web-0"]}
    place.groups["web"]["web-0"]["rdiag_path"] = "/nonexistent/rdiag"
    place.inventory()
    place.play("fleet")
    fleet = json.loads((folder / "fleet/fleet.json").read_text())
    assert fleet["judged"] == 0 and [gap["host"] for gap in fleet["not_judged"]] == ["web-0"], fleet["headline"]
    print("a host that fails now is not judged by what it sent before")


def check_page(rdiag: str, folder: Path) -> None:
    """What docs/fleet.md says to one who has the sources, an inventory and rdiag."""
    place = Place(folder, rdiag)
    for n in range(4):
        story = "whole-host-short-of-cpu" if n else "whole-host-quiet"
        place.host("web", f"web-{n}", rdiag_path=place.tree(f"web-{n}", story))
    place.host("db", "dead", ansible_connection="ssh", ansible_host="127.0.0.1", ansible_port=1)
    place.inventory()
    (folder / "inventory.json").rename(folder / "inventory")
    (folder / "contrib").symlink_to(ROOT / "contrib")
    bin = folder / "bin"
    bin.mkdir()
    (bin / "rdiag").symlink_to(rdiag)
    environment = place.environment() | {"PATH": f"{bin}:{os.environ['PATH']}", "ANSIBLE_COLLECTIONS_PATH": str(folder / "installed")}
    (block,) = blocks("Ansible")
    # Without -e: a play ends with 4 where a host could not be reached.
    done = subprocess.run(["sh", "-c", block], cwd=folder, env=environment, stdin=subprocess.DEVNULL, capture_output=True, text=True)
    said = done.stdout + done.stderr
    assert done.returncode in (0, 4), said
    assert (folder / "installed/ansible_collections/rdiag/diagnose/MANIFEST.json").exists(), said
    fleet = json.loads((folder / "fleet/fleet.json").read_text())
    assert fleet["judged"] == 4 and [gap["host"] for gap in fleet["not_judged"]] == ["dead"], f"{fleet['headline']}\n{said}"
    assert "3 of 4" in fleet["headline"], fleet["headline"]
    print("the commands of docs/fleet.md: the collection is installed, and the inventory judged")


def main() -> None:
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    for check_of in [check, check_page]:
        with tempfile.TemporaryDirectory(prefix="rdiag-ansible.") as folder:
            check_of(str(Path(sys.argv[1]).resolve()), Path(folder))


# In a mount namespace of its own, the full file system ends with this program, however it ends.
if os.geteuid() == 0 and "RDIAG_OWN_MOUNTS" not in os.environ and shutil.which("unshare"):
    os.environ["RDIAG_OWN_MOUNTS"] = "yes"
    os.execvp("unshare", ["unshare", "--mount", sys.executable, *sys.argv])
main()
