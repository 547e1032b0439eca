#!/usr/bin/env python3
"""A large fleet: `rdiag fleet` and the questions of fleet/sql on all engines name the hosts that were planted, and no other.

    tests/sql/large.py RDIAG [--hosts 30000] [--engines duckdb,datafusion,clickhouse,spark] [--shipped] [--place FOLDER]

Slow. Recordings are made of recorded hosts whose counters vary. One host in a hundred is odd (a fault, a shortage, or a figure, errors and
a fact), five are missing: nothing was sent, no file is there, or it is cut off, foreign, newer, damaged or hostile. There are two groups,
and in one of them all hosts have a fault in common.

`rdiag fleet` judges all recordings. Rows are made of those that differ in more than their host, and repeated for the others: for a tenth of
the fleet these are compared with what rdiag gives. Engines read Parquet, as docs/fleet.md says, each in a process of its own; Spark has two
workers. --shipped: RDIAG is what is shipped, so that the limits of CPU time and memory hold. Prints Markdown.
"""

import argparse
import contextlib
import gzip
import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

sys.dont_write_bytecode = True
import check  # noqa: E402
import engines  # noqa: E402
import meter  # noqa: E402

HERE = Path(__file__).resolve()
QUIET, SHORT, THRASHING = check.STORIES
USUAL, UNUSUAL = {"web": QUIET, "db": SHORT}, {"web": SHORT, "db": QUIET}
# Healthy hosts are copies of so many, under other names.
VARIANTS = 200
# Figures of healthy hosts differ by so much (a standard deviation of their logarithms).
SPREAD = 0.05
# Recordings lie in so many folders, and the first of them is a fleet of its own.
FOLDERS = 10
NAME = "a-name-that-no-host-has"
PER_HOST_SECONDS, MOST_MIB = 0.03, 256
# In the place of a recording; "absent" is no file.
DAMAGED = ["silent", "absent", "cut", "foreign", "newer", "unpacked", "deep", "names"]
HEAD = "| of | by | wall s | CPU s | MiB, all processes | |\n|---|---|---|---|---|---|"


def damaged(kind: str, recording: bytes) -> bytes:
    packed = gzip.compress(recording, 1)
    return {
        "silent": b"",
        "cut": packed[: len(packed) // 2],
        "foreign": b"hello",
        "newer": gzip.compress(b'{"format_version": 99, "windows": []}'),
        "unpacked": packed[:100] + b"\xff" * 100 + packed[200:],
        "deep": gzip.compress(b"[" * 1_000_000, 1),
        "names": gzip.compress(recording.replace(NAME.encode(), b'\\u001b[2J", "hostname": "twice', 1), 1),
    }[kind]


class Fleet:
    """The recordings below a folder, and what was planted in them."""

    def __init__(self, rdiag: str, place: Path, hosts: int):
        self.place, self.hosts = place, hosts
        self.odd: set[tuple[str, str]] = set()
        self.missing: set[str] = set()
        # By group, a host with a fact that no other has.
        self.alone: dict[str, str] = {}
        dice = random.Random(hosts)
        own = {story: check.recorded(rdiag, story) for story in check.STORIES}
        pools = {story: [self.text(check.varied(own[story], NAME, dice, SPREAD)) for _ in range(VARIANTS)] for story in own}
        for folder in ["rows", *(f"runs/{part}" for part in range(FOLDERS))]:
            (place / folder).mkdir(parents=True)
        names, absent, copies = [], [], ["host,variant"]
        for n in range(hosts):
            group = "web" if n % 3 else "db"
            name = f"{group}-{n:05}"
            names.append(name)
            file = place / f"runs/{n * FOLDERS // hosts}/{name}.json.gz"
            variants = pools[USUAL[group]]
            if n % 20 == 7:
                self.missing.add(name)
                kind = DAMAGED[n // 20 % len(DAMAGED)]
                if kind == "absent":
                    absent.append(name)
                else:
                    file.write_bytes(damaged(kind, variants[0]))
                    shutil.copy(file, place / "rows")
            elif n % 100 == 50:
                self.odd.add((group, name))
                put(file, self.planted(pools, group, name, dice), name)
                shutil.copy(file, place / "rows")
            else:
                at = dice.randrange(VARIANTS)
                variant = f"{group}-variant-{at:03}"
                copies.append(f"{name},{variant}")
                put(file, variants[at], name)
                put(place / f"rows/{variant}.json.gz", variants[at], variant)
        for list_of, lines in [("hosts", names), ("absent", absent), ("copies.csv", copies)]:
            (place / list_of).write_text("".join(f"{line}\n" for line in lines))

    @staticmethod
    def text(recording: dict) -> bytes:
        return json.dumps(recording, separators=(",", ":")).encode()

    def planted(self, pools: dict[str, list[bytes]], group: str, name: str, dice: random.Random) -> bytes:
        """In turn: as hosts of the other group are, other rules fire, and figures, errors and a fact are out of line."""
        kind = (len(self.odd) + len(self.odd) // 3) % 3
        if kind == 0:
            return dice.choice(pools[UNUSUAL[group]])
        if kind == 1:
            return dice.choice(pools[THRASHING])
        own = json.loads(dice.choice(pools[USUAL[group]]))
        check.plant(own, dice)
        if group not in self.alone:
            self.alone[group] = name
            own["setup"]["facts"]["sysctl vm.swappiness"] = "1"
        return self.text(own)

    def judged(self, rdiag: str, folders: list[str], form: str, out: str, expected: str | None = None) -> meter.Used:
        command = [rdiag, "fleet", *(self.place / folder for folder in folders), "--format", form]
        command += ["--group", "web=web-*", "--group", "db=db-*"]
        with open(self.place / out, "wb") as file:
            code, used = meter.metered([*command, *(["--expect", self.place / expected] if expected else [])], stdout=file)
        assert code == 0, f"rdiag fleet ended with {code}"
        files = sum(len(list((self.place / folder).iterdir())) for folder in folders)
        row(f"{files} files", f"`rdiag fleet --format {form}`", used, f"the largest process {used.largest_mib:.0f} MiB")
        return used


def put(file: Path, text: bytes, name: str) -> None:
    if not file.exists():
        file.write_bytes(gzip.compress(text.replace(NAME.encode(), name.encode(), 1), 1))


def row(of: str, by: str, used: meter.Used, more: str = "") -> None:
    print(f"| {of} | {by} | {used.seconds:.1f} | {used.cpu_seconds:.1f} | {used.together_mib:.0f} | {more} |", flush=True)


def judge(fleet: Fleet, rdiag: str, shipped: bool) -> dict:
    """What `rdiag fleet` says, which must be what was planted."""
    tenth = fleet.judged(rdiag, ["runs/0"], "json", "tenth.json")
    whole = fleet.judged(rdiag, [f"runs/{part}" for part in range(FOLDERS)], "json", "fleet.json", "hosts")
    document = json.loads((fleet.place / "fleet.json").read_text())
    expected = check.told(document)
    assert expected["missing"] == fleet.missing, sorted(expected["missing"] ^ fleet.missing)[:20]
    assert expected["odd"] == fleet.odd, sorted(expected["odd"] ^ fleet.odd)[:20]
    assert document["judged"] == fleet.hosts - len(fleet.missing), document["headline"]
    # A rule that only odd hosts could be judged by is common to these.
    shared = {(group, rule) for group, rule, hosts, _ in expected["common"] if 10 * hosts > fleet.hosts}
    assert ("db", "cpu.saturation") in shared and all(group == "db" for group, _ in shared), expected["common"]
    if shipped:
        assert whole.largest_mib <= MOST_MIB, f"{whole.largest_mib:.0f} MiB"
        assert whole.cpu_seconds <= PER_HOST_SECONDS * document["judged"], f"{whole.cpu_seconds:.0f} CPU s"
        # Ten times as many hosts may take a quarter more than ten times as long.
        assert whole.cpu_seconds <= 1.25 * FOLDERS * tenth.cpu_seconds, f"{tenth.cpu_seconds:.1f} and {whole.cpu_seconds:.1f} CPU s"
    return document


def alike(document: dict, fleet: Fleet, answers: dict[str, dict]) -> None:
    """Each engine names the hosts that `rdiag fleet` names, and engines agree on the figures."""
    expected, first = check.told(document), None
    largest = max(group["hosts"] for group in document["groups"])
    for name, answer in answers.items():
        for what, hosts in check.asked(answer).items():
            assert hosts == expected[what], f"{what} by {name}: {sorted(hosts ^ expected[what])[:20]} differ"
        contrasts = {(row["grp"], row["host"]) for row in answer["contrast"] if row["fact"] == "sysctl vm.swappiness"}
        assert contrasts == set(fleet.alone.items()), f"{name}: {contrasts}"
        # Its medians of larger groups are those of 8192 hosts.
        if name == "clickhouse" and largest > 8192:
            continue
        digits = check.digits(answer)
        first = first or (name, digits)
        for what, rows in digits.items():
            assert rows == first[1][what], f"{what} by {name} is not as by {first[0]}"


def ask(engine: str, place: Path) -> None:
    """In a process of its own: the questions, over fleet.parquet in a folder."""
    os.chdir(place)
    kind = engines.KINDS[engine]
    asked = kind("3g", 32) if engine == "spark" else kind()
    answers = asked.answers(engines.text(f"parquet/{engine}"))
    asked.close()
    (place / f"{engine}.json").write_text(json.dumps(answers, default=float))


# Each recording is a run of its own.
REPEATED = """
ALTER VIEW fleet RENAME TO given;
CREATE TABLE copies AS SELECT * FROM read_csv('copies.csv', header = true, all_varchar = true);
CREATE VIEW fleet AS SELECT g.* REPLACE (coalesce(c.host, g.host) AS host,
  CASE WHEN c.host IS NULL THEN g.run ELSE substr(sha256(g.run || c.host), 1, 16) END AS run)
FROM given g LEFT JOIN copies c ON g.host = c.variant
"""


def converted(place: Path) -> None:
    """In a process of its own: fleet.ndjson as fleet.parquet, with the rows of a variant for each host that is one."""
    import duckdb

    os.chdir(place)
    engine = duckdb.connect()
    for statement in [engines.text("duckdb"), *REPEATED.split(";"), engines.text("parquet/write")]:
        engine.execute(statement)


def compared(place: Path) -> None:
    """The rows that were repeated are those that rdiag gives."""
    import duckdb

    os.chdir(place)
    engine = duckdb.connect()
    engine.execute(engines.text("duckdb").replace("fleet.ndjson", "tenth.ndjson").replace("VIEW fleet", "VIEW tenth"))
    ours = "SELECT * EXCLUDE (run) FROM 'fleet.parquet' WHERE not_judged IS NULL AND host IN (SELECT host FROM tenth)"
    # Of what is no recording the row holds the path.
    theirs = "SELECT * EXCLUDE (run) FROM tenth WHERE not_judged IS NULL"
    for one, other in [(ours, theirs), (theirs, ours)]:
        differ = engine.execute(f"{one} EXCEPT ALL {other}").fetchall()
        assert not differ, f"{len(differ)} rows differ: {differ[:3]}"
    rows, hosts = engine.execute("SELECT count(*), count(DISTINCT run) FROM 'fleet.parquet' WHERE not_judged IS NULL").fetchone()
    print(f"{rows} rows of {hosts} recordings; those of a tenth are as by rdiag", file=sys.stderr)


def itself(what: str, place: Path) -> meter.Used:
    code, used = meter.metered([sys.executable, HERE, "--part", what, "--place", place])
    assert code == 0, f"{what} ended with {code}"
    return used


def run(rdiag: str, names: list[str], place: Path, hosts: int, shipped: bool) -> None:
    fleet = Fleet(rdiag, place, hosts)
    assert fleet.odd and fleet.alone, "nothing was planted: name more hosts"
    print(HEAD, flush=True)
    document = judge(fleet, rdiag, shipped)
    fleet.judged(rdiag, ["rows"], "rows", "fleet.ndjson", "absent")
    used = itself("parquet", place)
    packed = (place / "fleet.parquet").stat().st_size
    row(f"{hosts} hosts", "DuckDB: `parquet/write.sql`", used, f"{packed / 1e6:.1f} MB")
    fleet.judged(rdiag, ["runs/0"], "rows", "tenth.ndjson")
    itself("compared", place)
    shutil.rmtree(place / "runs")
    answers = {}
    for name in names:
        used = itself(name, place)
        answers[name] = json.loads((place / f"{name}.json").read_text())
        row(f"{hosts} hosts", f"{name}: the four questions", used)
    alike(document, fleet, answers)
    missing = len(fleet.missing)
    print(f"\n{hosts} hosts, {len(fleet.odd)} odd and {missing} missing: all named, and no other, by rdiag and {', '.join(names)}")


def main() -> None:
    options = argparse.ArgumentParser(usage=__doc__)
    options.add_argument("rdiag", nargs="?")
    options.add_argument("--hosts", type=int, default=30_000)
    options.add_argument("--engines", default=",".join(engines.PACKAGES))
    options.add_argument("--shipped", action="store_true")
    options.add_argument("--place", type=Path)
    options.add_argument("--part")
    given = options.parse_args()
    if given.part:
        part = {"parquet": converted, "compared": compared}.get(given.part, lambda place: ask(given.part, place))
        return part(given.place)
    names, rdiag = engines.chosen(given.engines), shutil.which(given.rdiag or "") or sys.exit(__doc__)
    with contextlib.ExitStack() as stack:
        place = given.place or Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="rdiag-large.")))
        run(os.path.abspath(rdiag), names, place.resolve(), given.hosts, given.shipped)


if __name__ == "__main__":
    main()
