#!/usr/bin/env python3
"""The ledger of proofs, tests/proof.json: which privileged test passed on which kernel, which check of .ci/full passed, and what of the
tree it was about.

    tests/proof/ledger.py check            fails when a piece of the tree changed since its test passed, or a test is new
    tests/proof/ledger.py stale            the pairs to be proven again, a line each: KERNEL TEST
    tests/proof/ledger.py all              all pairs there are
    tests/proof/ledger.py owed             the pairs that were never proven since the ledger began
    tests/proof/ledger.py record FILE      takes over results: KERNEL TEST ok|skipped|retried|FAILED SECONDS OTHERS
                                           and what fired on a host that a test judged: KERNEL TEST judged JSON
    tests/proof/ledger.py why TEST         the pieces that a test or check stands for

The kernel `host` is that of the machine the tests run on; the others are the series of tests/vm/kernels.lock.
"""

import json
import re
import subprocess
import sys
from contextlib import suppress
from datetime import date
from functools import cache
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
import checks  # noqa: E402
import pieces  # noqa: E402

LEDGER = pieces.ROOT / "tests/proof.json"
# A folder or control group that a test made, wherever targets are built: the number is that of its process.
FOLDER = re.compile(r"(?:/[\w./@+-]*?)?/(rdiag-[a-z-]*[a-z])-\d+")
# A test that needed its second try more often than this in its last runs is broken.
RETRIES, RUNS = 2, 20
HOST = "host"


def kernels() -> dict[str, str]:
    """The pinned release of each series, and the host, whose kernel is whatever it is."""
    lines = (pieces.ROOT / "tests/vm/kernels.lock").read_text().splitlines()
    return {HOST: HOST} | dict(line.split() for line in lines if not line.startswith("#"))


def built(what: str) -> str:
    """The path of a program that cargo builds: `integration`, or the `rdiag` that it runs."""
    command = ["cargo", "test", "--no-run", "--test", "integration", "--locked", "--quiet", "--message-format=json"]
    told = subprocess.run(command, cwd=pieces.ROOT, stdout=subprocess.PIPE, check=True, text=True).stdout
    paths = [json.loads(line).get("executable") for line in told.splitlines() if line.startswith("{")]
    return [path for path in paths if path and Path(path).name.startswith(what)][-1]


def tests(binary: str) -> list[str]:
    """The names of all tests that need more than a laptop gives."""
    told = subprocess.run([binary, "--ignored", "--list", "--format", "terse"], stdout=subprocess.PIPE, check=True, text=True).stdout
    return [line.removesuffix(": test") for line in told.splitlines() if line.endswith(": test")]


def is_guest(test: str) -> bool:
    return test.rsplit("::", 1)[-1].startswith("vm_")


@cache
def pairs() -> dict[tuple[str, str], str]:
    """What each pair of kernel and test stands for now, and each check on this host."""
    found = {(HOST, name): now for name, now in checks.fingerprints().items()}
    for test in tests(built("integration")):
        for kernel, release in kernels().items():
            if (kernel != HOST) == is_guest(test):
                found[kernel, test] = pieces.fingerprint(test, release)
    return found


def load() -> dict[str, dict[str, dict]]:
    return json.loads(LEDGER.read_text()) if LEDGER.exists() else {}


def save(ledger: dict[str, dict[str, dict]]) -> None:
    """A line for each pair, so that two changes seldom meet."""
    blocks = []
    for kernel in sorted(ledger, key=lambda name: [int(part) for part in name.split(".")] if name != HOST else []):
        lines = [f"  {json.dumps(test)}: {json.dumps(entry)}" for test, entry in sorted(ledger[kernel].items())]
        blocks.append(f'{json.dumps(kernel)}: {{\n' + ",\n".join(lines) + "\n}")
    LEDGER.write_text("{\n" + ",\n".join(blocks) + "\n}\n")


def stale() -> list[tuple[str, str]]:
    """The pairs whose pieces are not those that were proven."""
    ledger = load()
    return [pair for pair, now in pairs().items() if ledger.get(pair[0], {}).get(pair[1], {}).get("of") != now]


def owed() -> list[tuple[str, str]]:
    ledger = load()
    return [(kernel, test) for kernel, all_tests in ledger.items() for test, entry in all_tests.items() if "owed" in entry]


def judged(said: str) -> list[str]:
    """What fired on each host that a test judged, as it has said, without a space."""
    found = [line.removeprefix("JUDGED ") for line in said.splitlines() if line.startswith("JUDGED ")]
    return [text.strip().replace(" ", "\\u0020") for text in found]


def record(lines: list[str], now: dict[tuple[str, str], str]) -> list[str]:
    """Takes over results, and says what is wrong with them."""
    ledger, wrong = load(), []
    for line in lines:
        match line.split():
            case [kernel, test, "judged", text] if (kernel, test) in now:
                # The kernel of a guest may have talked into it.
                with suppress(json.JSONDecodeError):
                    ledger[kernel][test].setdefault("judged", []).append(json.loads(FOLDER.sub(r"/\1", text)))
                continue
            case [_, _, "judged", _]:
                continue
            case [kernel, test, word, seconds, others]:
                pass
            case _:
                raise ValueError(f"no result: {line}")
        if (kernel, test) not in now:
            continue
        entry = ledger.setdefault(kernel, {}).setdefault(test, {})
        runs = (entry.get("runs", "") + {"retried": "r", "FAILED": "F"}.get(word, "."))[-RUNS:]
        if word == "retried":
            # How many CPUs others used meanwhile: what may have disturbed it.
            entry["disturbed"] = float(others)
        entry["runs"] = runs
        if word == "FAILED" or runs.count("r") > RETRIES:
            entry["of"] = ""
            wrong.append(f"{kernel} {test}: " + ("failed" if word == "FAILED" else f"needed a second try too often: {runs}"))
            continue
        entry.pop("owed", None)
        entry.pop("judged", None)
        entry |= {"of": now[kernel, test], "on": date.today().isoformat(), "seconds": round(float(seconds), 1)}
        entry.pop("skipped", None)
        if word == "skipped":
            entry["skipped"] = True
    for kernel in list(ledger):
        ledger[kernel] = {test: entry for test, entry in ledger[kernel].items() if (kernel, test) in now}
    save(ledger)
    return wrong


def skipped() -> tuple[int, list[str]]:
    """How many pairs count as proven because the kernel cannot do it, and the tests that no kernel has run."""
    ledger = load()
    entries = [(test, entry) for all_tests in ledger.values() for test, entry in all_tests.items()]
    have_run = {test for test, entry in entries if not entry.get("skipped")}
    never = sorted({test for test, _ in entries} - have_run)
    return sum(bool(entry.get("skipped")) for _, entry in entries), never


def owe(reason: str) -> None:
    """Enters the pairs without any proof as owed: only when the ledger, or a kernel, begins."""
    ledger = load()
    for (kernel, test), now in pairs().items():
        entry = ledger.setdefault(kernel, {}).setdefault(test, {})
        if not entry.get("of"):
            entry |= {"of": now, "owed": reason}
    save(ledger)


def main(words: list[str]) -> int:
    match words:
        case ["check"]:
            left, debts = stale(), owed()
            print(f"proofs: {len(pairs()) - len(left) - len(debts)} fresh, {len(debts)} never made, {len(left)} stale")
            for kernel, test in left[:20]:
                print(f"  {kernel} {test}")
            skips, never = skipped()
            print(f"{skips} of the fresh ones are skips: that kernel cannot do it. Whole on no kernel: {', '.join(never) or 'none'}")
            if left:
                print("What these tests stand for has changed since they passed. Renew exactly these: .ci/full --stale")
            return 1 if left else 0
        case ["all"] | ["stale"] | ["owed"]:
            for kernel, test in {"all": pairs, "stale": stale, "owed": owed}[words[0]]():
                print(kernel, test)
        case ["record", file]:
            wrong = record(Path(file).read_text().splitlines(), pairs())
            print("\n".join(wrong))
            return 1 if wrong else 0
        case ["owe", reason]:
            owe(reason)
        case ["why", name] if name in checks.CHECKS:
            for place in checks.CHECKS[name]:
                print(f"  {checks.text(place)} {place}")
        case ["why", name]:
            for test in tests(built("integration")):
                if name in test:
                    print(test, pieces.lane(test))
                    for piece, value in pieces.pieces(test).items():
                        print(f"  {value} {piece}")
        case _:
            print(__doc__)
            return 2
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
