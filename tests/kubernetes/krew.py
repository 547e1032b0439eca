#!/usr/bin/env python3
"""The manifest of packaging/krew.sh is as krew wants it, and what it says installs a plugin that kubectl finds and that finds its rdiag.

    tests/kubernetes/krew.py ARCHIVE      of packaging/build.sh, with kubectl in the PATH and the Python package yaml

krew itself is not run here. What it asks of a manifest is from its documentation and its own validation.
"""

import glob
import hashlib
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

import yaml

ROOT = Path(__file__).resolve().parents[2]
SCRIPT = ROOT / "packaging/krew.sh"
# No publisher has this one.
ADDRESS = "https://packages.invalid/rdiag"


def told(*arguments: object) -> subprocess.CompletedProcess:
    return subprocess.run([SCRIPT, *arguments], capture_output=True, text=True)


def unpack(archive: Path, folder: Path) -> None:
    subprocess.run(["tar", "-xzf", archive, "-C", folder], check=True)


def check_manifest(manifest: dict, version: str, archives: list[Path]) -> None:
    assert set(manifest) == {"apiVersion", "kind", "metadata", "spec"} and manifest["kind"] == "Plugin"
    assert manifest["apiVersion"] == "krew.googlecontainertools.github.com/v1alpha2" and manifest["metadata"] == {"name": "rdiag"}
    spec = manifest["spec"]
    assert set(spec) == {"version", "homepage", "shortDescription", "description", "caveats", "platforms"}
    assert spec["version"] == f"v{version}" and re.fullmatch(r"v\d+\.\d+\.\d+(-[0-9A-Za-z.-]+)?", spec["version"])
    assert spec["homepage"] == ADDRESS
    assert 0 < len(spec["shortDescription"]) <= 70 and "\n" not in spec["shortDescription"]
    assert all(len(line) <= 80 for key in ["description", "caveats"] for line in spec[key].splitlines())
    chosen = set()
    assert len(spec["platforms"]) == len(archives)
    for platform, archive in zip(spec["platforms"], archives):
        assert set(platform) == {"selector", "uri", "sha256", "bin", "files"} and set(platform["selector"]) == {"matchLabels"}
        labels = platform["selector"]["matchLabels"]
        assert set(labels) == {"os", "arch"} and labels["os"] == "linux" and labels["arch"] in {"amd64", "arm64"}, labels
        chosen.add(labels["arch"])
        assert platform["uri"] == f"{ADDRESS}/releases/download/v{version}/{archive.name}"
        assert platform["sha256"] == hashlib.sha256(archive.read_bytes()).hexdigest()
        assert platform["files"], "nothing would be installed"
        assert all(set(files) == {"from", "to"} and os.path.normpath(files["to"]) == files["to"] for files in platform["files"])
    assert len(chosen) == len(archives), "two platforms would be chosen"


def install(platform: dict, archive: Path, folder: Path) -> Path:
    """As krew does: what the patterns name goes from the unpacked archive into a folder, and a link to `bin` into another one."""
    unpacked, store, links = folder / "unpacked", folder / "store", folder / "bin"
    for place in [unpacked, store, links]:
        place.mkdir()
    unpack(archive, unpacked)
    for files in platform["files"]:
        found = glob.glob(str(unpacked / files["from"]))
        assert found, f"nothing is named {files['from']}"
        for path in found:
            shutil.move(path, store / files["to"] / os.path.basename(path))
    assert os.access(store / platform["bin"], os.X_OK) and list(store.glob("LICENSE*")), sorted(store.iterdir())
    (links / "kubectl-rdiag").symlink_to(store / platform["bin"])
    return links


def check_plugin(links: Path, folder: Path) -> None:
    kubectl = shutil.which("kubectl")
    assert kubectl, "kubectl is not in the PATH"
    empty = folder / "empty"
    empty.mkdir()
    # The shell's tools, and no rdiag but the one beside the plugin.
    assert not shutil.which("rdiag", path="/usr/bin:/bin")
    environment = {"PATH": f"{links}:{os.path.dirname(kubectl)}:/usr/bin:/bin", "HOME": str(empty), "NO_COLOR": "1"}
    pod = subprocess.run(["kubectl", "rdiag", "pod", "node-x"], env=environment, capture_output=True, text=True, check=True)
    assert yaml.safe_load(pod.stdout)["spec"]["nodeName"] == "node-x"
    # A cluster of one node on which no pod may be created: that is what rdiag says.
    stub = empty / "kubectl"
    stub.write_text('#!/bin/sh\ncase "$*" in *"get nodes"*) echo node-a ;; *) echo refused >&2; exit 1 ;; esac\n')
    stub.chmod(0o755)
    environment["PATH"] = f"{empty}:/usr/bin:/bin"
    done = subprocess.run([links / "kubectl-rdiag", "-o", folder / "fleet"], env=environment, cwd=empty, capture_output=True, text=True)
    assert done.returncode == 3 and (folder / "fleet/fleet.json").exists(), done
    assert "node-a" in (folder / "fleet/fleet.md").read_text()


def check_refusals(archive: Path, folder: Path) -> None:
    assert "publisher's address is not known" in told(archive).stderr or "repository" in (ROOT / "Cargo.toml").read_text()
    other, older = folder / "rdiag.tar.gz", folder / re.sub(r"-\d+\.\d+\.\d+", "-0.0.1", archive.name)
    without = folder / archive.name
    shutil.copy(archive, other)
    shutil.copy(archive, older)
    with tarfile.open(without, "w:gz") as files:
        files.add(SCRIPT, f"{archive.name.removesuffix('.tar.gz')}/rdiag")
    for arguments, why in [
        ([ADDRESS], "no archive"),
        (["http://x", archive], "no https address"),
        (["https://x y", archive], "no https address"),
        (['https://x"/', archive], "no https address"),
        ([ADDRESS, other], "no name of an archive"),
        ([ADDRESS, without], "has no "),
        ([ADDRESS, archive, archive], "two archives are for"),
        ([ADDRESS, archive, older], "two versions"),
    ]:
        done = told("--address", *arguments)
        assert done.returncode == 2 and why in done.stderr and not done.stdout, (arguments, done)


def main() -> None:
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    archive = Path(sys.argv[1]).resolve()
    version, machine = re.fullmatch(r"rdiag-(.+)-(x86_64|aarch64)-unknown-linux-gnu\.tar\.gz", archive.name).groups()
    with tempfile.TemporaryDirectory(prefix="rdiag-krew.") as place:
        folder = Path(place)
        check_refusals(archive, folder)
        # The other architecture: the same files, in a folder of that name.
        name = archive.name.replace(machine, {"x86_64": "aarch64", "aarch64": "x86_64"}[machine])
        twin = folder / "twin" / name
        twin.parent.mkdir()
        unpack(archive, twin.parent)
        (twin.parent / archive.name.removesuffix(".tar.gz")).rename(twin.parent / name.removesuffix(".tar.gz"))
        subprocess.run(["tar", "-czf", twin, "-C", twin.parent, name.removesuffix(".tar.gz")], check=True)
        for archives in [[archive], [archive, twin]]:
            done = told("--address", ADDRESS, *archives)
            assert done.returncode == 0, done.stderr
            manifest = yaml.safe_load(done.stdout)
            check_manifest(manifest, version, archives)
        check_plugin(install(manifest["spec"]["platforms"][0], archive, folder), folder)
    print("the manifest for krew is of the archive, and installs a plugin with its rdiag: as expected")


main()
