#!/usr/bin/env python3
"""The questions of fleet/sql name the same hosts on DuckDB, DataFusion, ClickHouse and Spark as `rdiag fleet`, over generated fleets.

    tests/sql/check.py RDIAG [FLEETS] [--engines duckdb,datafusion,clickhouse,spark]

Engines that are named must be installed (tests/fleet.requirements, tests/spark.requirements). Without --engines those that are here are
asked, but not Spark, which is slow.

Fleets differ in size (4 to 70), have one or two groups, planted odd hosts (a fault, a figure out of line, errors, a fact), hosts without a
recording, ties, and figures that vary as those of healthy hosts do.
"""

import argparse
import gzip
import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
from decimal import Decimal
from pathlib import Path

sys.dont_write_bytecode = True
import engines  # noqa: E402

ROOT = Path(__file__).resolve().parents[2]
TREES = ROOT / "tests/fixtures/hosts"
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
        if series["name"] == "interfaces.device_receive_errors" and series["values"]:
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


def digits(answers: dict[str, list[dict]]) -> dict[str, list]:
    """The answers as engines must agree on them: the same rows in the same order, and figures in all digits that are worth something."""
    def plain(value: object) -> object:
        return float(f"{float(value):.9g}") if isinstance(value, (int, float, Decimal)) else value
    return {name: [{column: plain(value) for column, value in row.items()} for row in rows] for name, rows in answers.items()}


def ask(rdiag: str, seed: int, folder: Path, stories: dict, asked_engines: dict) -> tuple[int, bool, bool, bool]:
    """One fleet; how many odd hosts it has, whether a common fault, a fact that one host alone has, and errors that nearly no other has."""
    shutil.rmtree(folder / "runs", ignore_errors=True)
    command, size = fleet(rdiag, folder, stories, seed)
    document = json.loads(subprocess.run([rdiag, *command, "--format", "json"], stdout=subprocess.PIPE, check=False).stdout)
    with open(folder / "fleet.ndjson", "wb") as rows:
        subprocess.run([rdiag, *command, "--format", "rows"], stdout=rows, check=False)
    expected, contrasted, counted, first = told(document), False, False, None
    for name, engine in asked_engines.items():
        answers = engine.answers()
        for what, hosts in asked(answers).items():
            assert hosts == expected[what], f"fleet {seed} of {size}: {what} by {name} {sorted(hosts ^ expected[what])} differ"
        first = first or digits(answers)
        for what, rows in digits(answers).items():
            other = f"fleet {seed} of {size}: {what} by {name} is not as by {next(iter(asked_engines))}"
            assert rows == first[what], f"{other}: {rows} {first[what]}"
        contrasts = {(row["host"], row["fact"]) for row in answers["contrast"]}
        for odd in document["odd"]:
            for fact in odd["contrast"]:
                assert fact["shared"] > 0 or (odd["host"], fact["fact"]) in contrasts, f"fleet {seed}: {odd['host']} {fact} by {name}"
        contrasted, counted = bool(contrasts), any(row["what"] == "errors" for row in answers["odd"])
    return len(expected["odd"]), bool(expected["common"]), contrasted, counted


def main() -> None:
    options = argparse.ArgumentParser(usage=__doc__)
    options.add_argument("rdiag", type=Path)
    options.add_argument("fleets", type=int, nargs="?", default=40)
    options.add_argument("--engines")
    given = options.parse_args()
    names = engines.chosen(given.engines)
    rdiag = str(given.rdiag.resolve())
    stories = {story: recorded(rdiag, story) for story in STORIES}
    with tempfile.TemporaryDirectory(prefix="rdiag-sql.") as place:
        # The files that make the table name fleet.ndjson alone.
        os.chdir(place)
        asked_engines = {name: engines.KINDS[name]() for name in names}
        found = [ask(rdiag, seed, Path(place), stories, asked_engines) for seed in range(given.fleets)]
        for engine in asked_engines.values():
            engine.close()
        os.chdir(ROOT)
    named, with_common, with_contrast, with_errors = (sum(column) for column in zip(*found))
    assert named and with_common and with_contrast and with_errors, f"nothing of one kind was planted: {list(zip(*found))}"
    print(f"{given.fleets} fleets: {named} odd hosts, {with_common} fleets with a common fault, the same by rdiag and {', '.join(names)}")


if __name__ == "__main__":
    main()
