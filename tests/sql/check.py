#!/usr/bin/env python3
"""The questions of fleet/sql on DuckDB and DataFusion name the same hosts as `rdiag fleet`, over generated fleets.

    tests/sql/check.py RDIAG [FLEETS]        with the Python packages duckdb and datafusion

Fleets differ in size (4 to 70), have one or two groups, planted odd hosts (a fault, a figure out of line, errors, a fact), hosts without a
recording, ties, and figures that vary as those of healthy hosts do.
"""

import gzip
import json
import os
import random
import subprocess
import sys
import tempfile
from pathlib import Path

import datafusion
import duckdb

ROOT = Path(__file__).resolve().parents[2]
TREES = ROOT / "tests/fixtures/hosts"
SQL = ROOT / "fleet/sql"
STORIES = ["whole-host-quiet", "whole-host-short-of-cpu", "memory-thrashing-5.4"]
# Counters that are no errors, and one that is.
NOISY = ["cpu_stat.user", "cpu_stat.system", "vmstat.pgfault", "diskstats.read_bytes", "meminfo.available", "diskstats.reads"]


def recorded(rdiag: str, story: str) -> dict:
    command = [rdiag, "record", "use-method", "-o", "-", "--root", TREES / story]
    return json.loads(gzip.decompress(subprocess.run(command, stdout=subprocess.PIPE, check=True).stdout))


def varied(recording: dict, name: str, dice: random.Random, spread: float) -> dict:
    """The same host as it could have been in another minute: counters have grown by a little more or less."""
    own = json.loads(json.dumps(recording))
    own["host"]["hostname"] = name
    for window in own["windows"]:
        for record in window["collectors"].values():
            for series in record.get("series", []):
                values = [value for value in series["values"] if value is not None]
                if not spread or len(values) < 2 or series["name"] not in NOISY:
                    continue
                factor = dice.lognormvariate(0, spread)
                first = values[0]
                series["values"] = [None if value is None else max(0, int(first + (value - first) * factor)) if series["kind"] == "counter" else value for value in series["values"]]
    own.setdefault("setup", {})["facts"] = {"governor": "performance", "sysctl vm.swappiness": "60"}
    return own


def plant(own: dict, dice: random.Random) -> None:
    """Something that no other host has."""
    own["setup"]["facts"]["governor"] = "powersave"
    for series in own["windows"][0]["collectors"].get("interfaces", {}).get("series", []):
        if series["name"].endswith("rx_errors") and series["values"]:
            series["values"][-1] = (series["values"][-1] or 0) + dice.randint(5, 500)
    memory = own["windows"][0]["collectors"]["meminfo"]["series"]
    for series in memory:
        if "available" in series["name"]:
            series["values"] = [value and int(value / 9) for value in series["values"]]


def fleet(rdiag: str, folder: Path, stories: dict, seed: int) -> tuple[list[str], int]:
    """Makes one; its arguments, and how many hosts it has."""
    dice = random.Random(seed)
    size = dice.choice([4, 5, 9, 12, 20, 31, 45, 70])
    spread = dice.choice([0.0, 0.02, 0.1, 0.4])
    common = dice.random() < 0.4
    runs = folder / "runs"
    runs.mkdir()
    odd = set(dice.sample(range(size), k=min(size, dice.choice([0, 1, 1, 2, size // 8]))))
    for n in range(size):
        name = f"{'web' if n % 3 else 'db'}-{n:02}"
        if dice.random() < 0.05:
            (runs / f"{name}.json").write_bytes(b"")
            continue
        story = "whole-host-short-of-cpu" if common and n % 4 else "whole-host-quiet"
        if n in odd and dice.random() < 0.5:
            story = dice.choice(STORIES[1:])
        own = varied(stories[story], name, dice, spread)
        if n in odd:
            plant(own, dice)
        (runs / f"{name}.json").write_text(json.dumps(own))
    groups = ["--group", "web=web-*", "--group", "db=db-*"] if dice.random() < 0.5 else []
    return ["fleet", str(runs), *groups], size


def query_duckdb(folder: Path) -> dict[str, list[dict]]:
    engine = duckdb.connect()
    engine.execute((SQL / "duckdb.sql").read_text())
    answers = {}
    for name in ["votes", "odd", "missing", "contrast"]:
        found = engine.execute((SQL / f"{name}.sql").read_text())
        columns = [column[0] for column in found.description]
        answers[name] = [dict(zip(columns, row)) for row in found.fetchall()]
    return answers


def query_datafusion(folder: Path) -> dict[str, list[dict]]:
    engine = datafusion.SessionContext()
    engine.sql((SQL / "datafusion.sql").read_text())
    return {name: engine.sql((SQL / f"{name}.sql").read_text()).to_pylist() for name in ["votes", "odd", "missing", "contrast"]}


def told(document: dict) -> dict[str, set]:
    """What `rdiag fleet` says, in the terms of the queries."""
    common = {(fault["group"], fault["rule"], fault["reach"]["hosts"], fault["reach"]["judged"]) for fault in document["common"]}
    odd = {(odd["group"], odd["host"]) for odd in document["odd"]}
    findings = {(odd["group"], odd["host"], finding["rule"]) for odd in document["odd"] for finding in odd["findings"]}
    return {"common": common, "odd": odd, "findings": findings, "missing": {gap["host"] for gap in document["not_judged"]}}


def asked(answers: dict[str, list[dict]]) -> dict[str, set]:
    common = {(row["grp"], row["rule"], int(row["hosts"]), int(row["judged"])) for row in answers["votes"] if row["reach"] == "common"}
    odd = {(row["grp"], row["host"]) for row in answers["odd"]}
    findings = {(row["grp"], row["host"], row["name"]) for row in answers["odd"] if row["what"] == "finding"}
    return {"common": common, "odd": odd, "findings": findings, "missing": {row["host"] for row in answers["missing"]}}


def main() -> None:
    if len(sys.argv) not in (2, 3):
        sys.exit(__doc__)
    rdiag, fleets = str(Path(sys.argv[1]).resolve()), int(sys.argv[2]) if len(sys.argv) == 3 else 40
    stories = {story: recorded(rdiag, story) for story in STORIES}
    named = with_common = with_contrast = 0
    for seed in range(fleets):
        with tempfile.TemporaryDirectory(prefix="rdiag-sql.") as place:
            folder = Path(place)
            os.chdir(folder)
            command, size = fleet(rdiag, folder, stories, seed)
            document = json.loads(subprocess.run([rdiag, *command, "--format", "json"], stdout=subprocess.PIPE, check=False).stdout)
            with open("fleet.ndjson", "wb") as rows:
                subprocess.run([rdiag, *command, "--format", "rows"], stdout=rows, check=False)
            expected = told(document)
            for engine, query in [("DuckDB", query_duckdb), ("DataFusion", query_datafusion)]:
                answers = query(folder)
                for what, hosts in asked(answers).items():
                    assert hosts == expected[what], f"fleet {seed} of {size}: {what} by {engine} {sorted(hosts ^ expected[what])} differ"
                contrasts = {(row["host"], row["fact"]) for row in answers["contrast"]}
                for odd in document["odd"]:
                    for fact in odd["contrast"]:
                        assert fact["shared"] > 0 or (odd["host"], fact["fact"]) in contrasts, f"fleet {seed}: {odd['host']} {fact} by {engine}"
                with_contrast += bool(contrasts)
            named += len(expected["odd"])
            with_common += bool(expected["common"])
            os.chdir(ROOT)
    assert named and with_common and with_contrast, "nothing was planted"
    print(f"{fleets} fleets: {named} odd hosts, {with_common} fleets with a common fault, the same by rdiag, DuckDB and DataFusion")


main()
