#!/usr/bin/env python3
"""The collection over ssh: three hosts in network namespaces of their own, each with an sshd, and an address that does not answer. Every
name of the inventory is accounted for, and nothing is left on any host, also where the controller was killed.

    tests/ansible/ssh.py RDIAG            as root, with ansible-playbook in the PATH, sshd and ip

The second host has a full /tmp, the third no Python. A host's rdiag is a script that adds a recorded tree. Folders that a host writes to
are its own (tmpfs); all else is this machine's.
"""

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from place import COLLECTION, EVIL, Place

OWN = ["/tmp", "/var/tmp", "/root", "/run"]
# Seconds for which no other process sleeps.
NAP = "8.4375"
CONFIG = """Port 22
HostKey {0}/host_key
AuthorizedKeysFile {0}/key.pub
PermitRootLogin yes
StrictModes no
UsePAM no
PasswordAuthentication no
PidFile none
MaxStartups 100
Subsystem sftp internal-sftp
"""
HOST = """set -e
{before}
for place in {own}; do mount -t tmpfs -o size=64m tmpfs "$place"; done
hostname "host-{n}"
mkdir /run/sshd
{faults}
echo ready
read -r _
ip link set lo up
ip address add 10.231.{n}.2/24 dev host
ip link set host up
exec /usr/sbin/sshd -D -f "{folder}/sshd_config" -E "{folder}/sshd-{n}.log"
"""


def ip(*arguments: object) -> None:
    subprocess.run(["ip", *map(str, arguments)], check=True)


class Host:
    """A network namespace with an sshd, and folders of its own."""

    def __init__(self, n: int, folder: Path, before: str = "", faults: str = ""):
        self.address = f"10.231.{n}.2"
        script = HOST.format(n=n, folder=folder, own=" ".join(OWN), before=before, faults=faults)
        command = ["unshare", "--net", "--mount", "--uts", "sh", "-c", script]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        assert self.process.stdout.readline() == "ready\n", f"host {n} did not begin"
        ip("link", "add", f"to-host-{n}", "type", "veth", "peer", "name", "host", "netns", self.process.pid)
        ip("address", "add", f"10.231.{n}.1/24", "dev", f"to-host-{n}")
        ip("link", "set", f"to-host-{n}", "up")
        self.process.stdin.write("go\n")
        self.process.stdin.flush()
        self.before = self.files()

    def run(self, *command: str) -> str:
        own = ["nsenter", "--target", str(self.process.pid), "--mount", *command]
        return subprocess.run(own, stdout=subprocess.PIPE, text=True, check=True).stdout

    def files(self) -> set[str]:
        """All that lies in its folders, less the empty ones in which Ansible makes its own."""
        found = set(self.run("find", *OWN, "-mindepth", "1").splitlines())
        return found - {"/root/.ansible", "/root/.ansible/tmp", "/tmp/ansible"}

    def processes(self) -> set[int]:
        """What runs in its network, except for the sshd that listens."""
        own, found = os.readlink(f"/proc/{self.process.pid}/ns/net"), set()
        for entry in Path("/proc").glob("[0-9]*"):
            try:
                if os.readlink(entry / "ns/net") == own:
                    found.add(int(entry.name))
            except OSError:
                continue
        return found - {self.process.pid}

    def left(self) -> set[str]:
        """What was added, once all connections are closed."""
        until("connections of the last play are closed", 60, lambda: not self.processes())
        return self.files() - self.before


def until(what: str, seconds: float, done) -> None:
    end = time.monotonic() + seconds
    while not done():
        assert time.monotonic() < end, f"{what}: not within {seconds} s"
        time.sleep(0.2)


def begin(folder: Path) -> list[Host]:
    for name in ["key", "host_key"]:
        subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", folder / name], check=True)
    (folder / "sshd_config").write_text(CONFIG.format(folder))
    ip("link", "set", "lo", "up")
    # A network in which the host is not.
    ip("link", "add", "to-host-4", "type", "veth", "peer", "name", "dead")
    ip("address", "add", "10.231.4.1/24", "dev", "to-host-4")
    for link in ["to-host-4", "dead"]:
        ip("link", "set", link, "up")
    full = "mount -t tmpfs -o size=64k tmpfs /tmp; ! head -c 1M /dev/zero >/tmp/filler 2>/dev/null"
    without = 'for python in /usr/bin/python3*; do mount --bind /dev/null "$python"; done'
    return [Host(1, folder), Host(2, folder, faults=full), Host(3, folder, faults=without)]


def add(place: Place, group: str, name: str, host: Host | str, **more: object) -> None:
    own = {
        "ansible_host": host if isinstance(host, str) else host.address,
        "ansible_user": "root",
        "ansible_python_interpreter": "/usr/bin/python3",
        "ansible_ssh_private_key_file": str(place.folder / "key"),
        "ansible_ssh_common_args": "-o UserKnownHostsFile=/dev/null -o LogLevel=ERROR",
    }
    place.groups.setdefault(group, {})[name] = own | more


def check_all(place: Place, hosts: list[Host]) -> None:
    one, two, three = hosts
    short, quiet = place.tree("web-1", "whole-host-short-of-cpu"), place.tree("web-2", "whole-host-quiet")
    # No rdiag of its own: it gets a copy.
    bare = {"rdiag_path": "/nonexistent/rdiag", "rdiag_copy": quiet}
    add(place, "web", "web-1", one, rdiag_path=short)
    add(place, "web", "web-2", two, **bare)
    add(place, "db", EVIL, one, rdiag_path=place.tree("db-1", "whole-host-quiet"))
    garbage, slow = place.script("garbage", "head -c 2000000 /dev/urandom"), place.script("slow", "sleep 600")
    wrong = {
        "dead": ("10.231.4.2", {}, ""),
        "full": (two, bare | {"rdiag_copy_to": "/tmp"}, ""),
        "no-room-for-ansible": (two, bare | {"ansible_remote_tmp": "/tmp/ansible"}, ""),
        "no-python": (three, {"rdiag_path": quiet}, "/usr/bin/python3: Permission denied"),
        "garbage": (one, {"rdiag_path": str(garbage)}, "2000000 bytes that are no recording"),
        "slow": (one, {"rdiag_path": str(slow), "rdiag_time_limit": 2}, "did not end within 2 s"),
        "no-rdiag": (one, {"rdiag_path": "no-such-rdiag"}, "there is no no-such-rdiag on this host"),
    }
    for name, (host, how, _) in wrong.items():
        add(place, "db", name, host, **how)
    place.inventory()
    done = place.play("fleet", "--forks", "20")
    said = done.stdout + done.stderr
    assert done.returncode in (0, 2, 4) and (place.folder / "fleet/fleet.json").exists(), said
    fleet = json.loads((place.folder / "fleet/fleet.json").read_text())
    missing = {gap["host"]: gap["detail"] for gap in fleet["not_judged"]}
    assert set(missing) == set(wrong), f"{sorted(missing)} and not {sorted(wrong)}\n{said}"
    for name, (_, _, why) in wrong.items():
        assert why in missing[name] and missing[name], f"{name}: {missing[name]}\n{said}"
    assert {row["host"] for row in fleet["hosts"]} == {"web-1", "web-2", "db-1"}, fleet["hosts"]
    for host in hosts:
        assert not host.left(), f"{host.address}: {host.left()}"
    print(f"3 of {3 + len(wrong)} names judged over ssh, the others listed with their reasons, nothing left on three hosts")
    for name, why in sorted(missing.items()):
        print(f"  {name}: {why}")


def check_raw(place: Place, host: Host) -> None:
    """What the collection's README says of hosts without Python, for one of them."""
    text = (COLLECTION / "README.md").read_text()
    (block,) = [block.split("```")[0] for block in text.split("```sh\n") if "-m raw" in block]
    block = block.replace("ansible all -i inventory ", "ansible no-python -i inventory.json ").replace("rdiag ", f'"{place.folder}/rdiag" ')
    # On the host, whose rdiag has a tree of its own.
    block = block.replace(f"'\"{place.folder}/rdiag\"", f"'{place.folder}/web-2.sh")
    shutil.rmtree(place.folder / "fleet")
    (place.folder / "fleet/runs").mkdir(parents=True)
    done = subprocess.run(["sh", "-ec", block], cwd=place.folder, env=place.environment(), capture_output=True, text=True)
    assert done.returncode == 0 and "1 host: no common fault" in done.stdout, f"{done.stdout}{done.stderr}"
    assert not host.left(), host.left()
    print("a host without Python: judged by what `raw` brings")


def check_killed(place: Place, host: Host) -> None:
    """A controller that is killed while hosts record."""
    place.groups.clear()
    slow = place.script("slow-copy", f'sleep {NAP}; exec "{place.folder}/web-2.sh" "$@"')
    add(place, "web", "web-2", host, rdiag_path="/nonexistent/rdiag", rdiag_copy=str(slow))
    place.inventory()
    command = ["ansible-playbook", "-i", "inventory.json", "rdiag.diagnose.fleet", "-e", f"rdiag_controller={place.rdiag} rdiag_lead=0"]
    quiet = {"stdin": subprocess.DEVNULL, "stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    running = subprocess.Popen(command, cwd=place.folder, env=place.environment(), start_new_session=True, **quiet)
    asleep = lambda: any(f"sleep\0{NAP}".encode() in read(pid) for pid in host.processes())
    until("the host records", 120, asleep)
    os.killpg(running.pid, signal.SIGKILL)
    running.wait()
    until("the copy is removed", float(NAP) + 30, lambda: not host.left())
    # One that was killed between copying and recording leaves the copy. The next play takes away what is older than an hour, and no copy that
    # another one may use now.
    copied = "/var/tmp/rdiag.ansible.left"
    host.run("mkdir", copied)
    for age, expected in [("50 minutes ago", {copied}), ("70 minutes ago", set())]:
        host.run("touch", "--date", age, copied)
        done = place.play("fleet", "-e", "rdiag_lead=0")
        fleet = json.loads((place.folder / "fleet/fleet.json").read_text())
        assert fleet["judged"] == 1, done.stdout
        assert host.left() == expected, f"{age}: {host.left()}"
    print("a killed controller: the host records to its end and removes the copy; a later play removes one that was never used")


def read(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""


def main() -> None:
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    if os.geteuid() != 0 or not os.access("/usr/sbin/sshd", os.X_OK):
        sys.exit("root and sshd are needed: see .ci/full")
    # Not below /tmp, which is another one on each host.
    with tempfile.TemporaryDirectory(prefix="rdiag-ssh.", dir="/srv") as name:
        folder = Path(name)
        rdiag = shutil.copy(sys.argv[1], folder / "rdiag")
        place = Place(folder, str(rdiag))
        hosts = begin(folder)
        check_all(place, hosts)
        check_raw(place, hosts[2])
        check_killed(place, hosts[1])


# In namespaces of its own all hosts end with this program, however it ends.
if os.geteuid() == 0 and "RDIAG_OWN_NETWORK" not in os.environ:
    os.environ["RDIAG_OWN_NETWORK"] = "yes"
    os.environ["ANSIBLE_SSH_ARGS"] = "-o ControlMaster=auto -o ControlPersist=2s"
    own = ["--net", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc"]
    os.execvp("unshare", ["unshare", *own, sys.executable, *sys.argv])
main()
