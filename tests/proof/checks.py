"""What programs other than cargo's tests prove, in minutes each: `.ci/full` runs them, and the ledger holds what each was about.

A check stands for the script that it is, the files that it tries, and the code that is proven nowhere else: not for all that runs under it.
"""

import re
from pathlib import Path

from pieces import ROOT, folder
from source import digest

KUBERNETES = ["contrib/kubernetes", "tests/kubernetes/stub.py", "docs/fleet.md#Kubernetes"]
# Folders and files, of which comments count; `#` names the section of a page whose commands are run; code of rdiag, of which they do not.
CHECKS = {
    "cargo-deny": ["Cargo.lock", "deny.toml"],
    "packaging": ["packaging", "Cargo.toml#package"],
    "transports": ["tests/transports", "docs/fleet.md#Other transports", "src/session/armor.rs"],
    "ansible": ["contrib/ansible", "tests/ansible", "docs/fleet.md#Ansible"],
    "kubernetes": [*KUBERNETES, "tests/kubernetes", "src/session/armor.rs"],
    "sql": ["fleet/sql", "tests/sql/check.py", "tests/sql/engines.py", "src/session/rows.rs"],
    "spark": ["fleet/spark", "fleet/sql", "tests/spark", "tests/sql/check.py", "tests/sql/engines.py", "docs/fleet.md#A bucket of recordings, and a history"],
    "large-fleet": ["fleet/sql", "tests/sql", "src/fleet"],
    "sysstat": ["tests/sysstat", "src/session/past/elsewhere"],
}
# What is made by a run, and what is said of the files beside it.
IGNORED = {"__pycache__", ".ansible", "README.md"}


def text(place: str) -> str:
    """What a check stands for there."""
    path, _, section = place.partition("#")
    own = ROOT / path
    if path.startswith("src/"):
        return folder(own)
    if section:
        return part(own, section)
    files = [own] if own.is_file() else sorted(file for file in own.rglob("*") if file.is_file() and not IGNORED & set(file.parts))
    assert files, f"tests/proof/checks.py: there is no {path}"
    return digest(*(f"{file.relative_to(ROOT)}\0{file.read_text(errors='replace')}" for file in files))


def part(own: Path, section: str) -> str:
    """The commands of a section of a page, or all of a section of a manifest."""
    page = own.read_text()
    if own.suffix == ".toml":
        # Whatever is said of packages, beside what it depends on.
        parts = re.split(r"^(?=\[)", page, flags=re.M)
        found = [one for one in parts if one.startswith((f"[{section}", "[profile"))]
    else:
        parts = re.split(r"^(?=## )", page, flags=re.M)
        found = [block for one in parts if one.startswith(f"## {section}\n") for block in re.findall(r"^```.*?^```", one, flags=re.M | re.S)]
    assert found, f"tests/proof/checks.py: {own.name} has no {section!r}"
    return digest(*found)


def fingerprints() -> dict[str, str]:
    """One digest for each check."""
    return {name: digest(*map(text, places)) for name, places in CHECKS.items()}
