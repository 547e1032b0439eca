#!/usr/bin/env python3
"""fleet/spark/judge.py on two worker processes: every recording is judged as by `rdiag fleet`, and none costs another.

    tests/spark/check.py RDIAG        with the Python packages pyspark and duckdb, and java

Below one folder lie committed recordings, some under hostile names, and what cannot be judged: cut off, foreign, newer, empty, too large,
one at which rdiag hangs and one of which it says no end.
"""

import gzip
import importlib.util
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path
from types import SimpleNamespace

import duckdb

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tests/sql"), str(ROOT / "tests")]
sys.dont_write_bytecode = True
import check  # noqa: E402
import engines  # noqa: E402
from fleet_page import blocks  # noqa: E402

JOB = ROOT / "fleet/spark/judge.py"
# How long nobody else sleeps.
NAP = "86317.25"
WRAPPER = f"""#!/bin/sh
pwd >> WORKERS
grep -qa 'rdiag hangs here' < /proc/self/fd/0 && {{ sleep {NAP} & sleep {NAP}; }}
grep -qa 'rdiag goes on and on' < /proc/self/fd/0 && exec yes
exec RDIAG "$@"
"""
HOSTILE = ['"; touch pwned;"', "$(touch pwned)", "a b%20c", "line\nbreak", "-rf", "[a]{b,c}?", "\u202eöä", "day=2020-01-01"]
TABLES = {f"tbl={name}" for name in ("runs", "readings", "findings", "facts")}
PARQUET = "read_parquet('rows/*/*/*.parquet', hive_partitioning = true)"
# As docs/fleet.md has them, of one day; and without a day that is asked for.
SECTION = "A bucket of recordings, and a history"
(VIEWS,) = blocks(SECTION, "sql")
DAYS = {"of Spark": VIEWS.splitlines()[0], "of DuckDB": VIEWS.splitlines()[1]}
assert all("day = '2026-03-02'" in view for view in DAYS.values()), VIEWS
VIEW_OF_SPARK, VIEW = (view.replace("day = '2026-03-02'", "day > '2020-01-01'") for view in DAYS.values())


def named(recording: bytes, host: str, **other: str) -> bytes:
    own = json.loads(gzip.decompress(recording)) | other
    own["host"]["hostname"] = host
    return json.dumps(own).encode()


def lay(folder: Path) -> None:
    """What is judged."""
    captures = sorted((ROOT / "tests/captures/host").glob("*.json.gz"))[:12] + sorted((ROOT / "tests/captures/5.10").glob("*.json.gz"))[:4]
    for n, capture in enumerate(captures):
        (folder / f"host-{n:02}.json.gz").write_bytes(gzip.compress(named(capture.read_bytes(), f"host-{n:02}")))
    packed = captures[0].read_bytes()
    plain = named(packed, "plain")
    for n, name in enumerate(HOSTILE):
        (folder / f"{name}.json").write_bytes(named(packed, f"hostile-{n}"))
    # The same recording twice.
    (folder / "of-a-folder").mkdir()
    shutil.copy(folder / "host-01.json.gz", folder / "of-a-folder/recording.json.gz")
    (folder / "of-a-folder/report.json").write_text("{}")
    (folder / "timeless.json").write_bytes(named(packed, "timeless", started="../../2026-01-01T"))
    damaged = {"cut": plain[:2000], "foreign": b"hello", "newer": b'{"format_version": 99, "windows": []}', "silent": b"", "%41\n[x]": b""}
    for name, content in damaged.items():
        (folder / f"{name}.json").write_bytes(content)
    (folder / "unpacked.json.gz").write_bytes(b"\x1f\x8b\x08\0\0\0")
    # Where `rdiag fleet` does not look.
    deep = folder / "by/day"
    deep.mkdir(parents=True)
    (deep / "hung.json").write_bytes(b"rdiag hangs here")
    (deep / "endless.json").write_bytes(b"rdiag goes on and on")
    (deep / "large.json").write_bytes(b" " * (1 << 20) + plain)


def submit(folder: Path, *arguments: object, command: list | None = None) -> subprocess.CompletedProcess:
    """The job with these arguments on two workers, or a command that names spark-submit."""
    spark = Path(importlib.util.find_spec("pyspark").origin).parent
    settings = {"spark.master": "local-cluster[2,1,1024]", "spark.ui.enabled": "false"}
    settings |= {"spark.scheduler.minRegisteredResourcesRatio": "1.0", "spark.sql.shuffle.partitions": "4"}
    (folder / "conf").mkdir(exist_ok=True)
    (folder / "conf/spark-defaults.conf").write_text("".join(f"{name} {value}\n" for name, value in settings.items()))
    own = {"SPARK_HOME": str(spark), "SPARK_LOCAL_IP": "127.0.0.1", "SPARK_LOCAL_DIRS": str(folder), "PYSPARK_PYTHON": sys.executable}
    own |= {"SPARK_CONF_DIR": str(folder / "conf"), "PATH": f"{folder}/bin:{spark}/bin:{os.environ['PATH']}"}
    # Of both Spark makes one: what the job says on stderr comes on stdout.
    kept = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True, "timeout": 1200, "check": False}
    command = command or [spark / "bin/spark-submit", JOB, *arguments]
    run = subprocess.run([str(part) for part in command], cwd=folder, env=os.environ | own, **kept)
    # Without progress and the stacks of Java.
    run.stdout = "\n".join(line for line in run.stdout.splitlines() if not line.startswith("\tat ") and " INFO " not in line)
    return run


def by_file(rows: list[dict]) -> dict[str, Counter]:
    """The rows of each file that was judged, without what names run, day and file."""
    files = {row["run"]: row["file"].removeprefix("file:") for row in rows if row["tbl"] == "runs"}
    told: dict[str, Counter] = {file: Counter() for file in files.values()}
    assert len(files) == sum(row["tbl"] == "runs" for row in rows), "two runs have one name"
    for row in rows:
        kept = {name: value for name, value in row.items() if value is not None and name not in ("run", "file", "day")}
        told[files[row["run"]]][json.dumps(kept, sort_keys=True)] += 1
    return told


def gaps(rows: list[dict]) -> dict[str, dict]:
    """Of which files there is nothing but the reason, by host."""
    without = [row for row in rows if row["tbl"] == "runs" and row["not_judged"] and not row["started"]]
    return {row["host"]: {name: value for name, value in row.items() if value is not None} for row in without}


def of_parquet() -> list[dict]:
    found = duckdb.connect().execute(f"SELECT * REPLACE (CAST(day AS VARCHAR) AS day) FROM {PARQUET}")
    columns = [column[0] for column in found.description]
    return [dict(zip(columns, row)) for row in found.fetchall()]


def of_json() -> list[dict]:
    files = Path("as-json").glob("tbl=*/day=*/*.json")
    return [json.loads(line) | {"tbl": file.parts[1].removeprefix("tbl=")} for file in files for line in file.read_text().splitlines()]


def of_fleet(rdiag: Path, recordings: Path, form: str) -> str:
    command = [rdiag, "fleet", recordings, "--format", form]
    return subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False).stdout


def compare(rows: list[dict], fleet: list[dict], recordings: Path) -> None:
    """The job's rows are those of `rdiag fleet`, and what only the job met is named."""
    mine, theirs = gaps(rows), gaps(fleet)
    ours = by_file([row for row in rows if row["host"] not in mine])
    others = by_file([row for row in fleet if row["host"] not in theirs])
    assert len(others) >= 25 and ours.keys() == others.keys(), ours.keys() ^ others.keys()
    for file, told in others.items():
        assert ours[file] == told, f"{file}: {ours[file] - told} {told - ours[file]}"
    for host, row in theirs.items():
        same = {name: value for name, value in row.items() if name not in ("run", "file")}
        own = {name: value for name, value in mine[host].items() if name not in ("run", "file", "day")}
        own["headline"] = own["headline"].removeprefix("file:")
        # `rdiag analyze` says what else it could have been: it reads profiles, too.
        common = f"{recordings}/foreign.json: it is no recording of rdiag"
        if own["headline"].startswith(common):
            own["headline"] = same["headline"]
        assert host != "foreign" or same["headline"].startswith(common), same
        assert own == same, f"{host}: {own} {same}"
    only = {"hung": "not done with it after 10 s", "endless": "ended by signal 25", "large": "no recording of more than"}
    assert mine.keys() - theirs.keys() == only.keys(), mine.keys()
    for host, why in only.items():
        assert mine[host]["not_judged"] == "unreadable" and why in mine[host]["headline"], mine[host]
        assert mine[host]["file"] == f"file:{recordings}/by/day/{host}.json", mine[host]


def check_units() -> None:
    """What needs no cluster: the columns, and a file that was listed and could not be read."""
    spec = importlib.util.spec_from_file_location("judge", JOB)
    judge = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(judge)
    schema = json.loads((ROOT / "reports/schema/rows.schema.json").read_text())["$defs"]
    kinds = {"string": "STRING", "integer": "BIGINT", "number": "DOUBLE", "boolean": "BOOLEAN"}
    expected = {"tbl": "STRING", "day": "STRING"}
    for table in ["RunRow", "ReadingRow", "FindingRow", "FactRow"]:
        for name, column in schema[table]["properties"].items():
            kind = column.get("type", "string")
            expected[name] = kinds[kind[0] if isinstance(kind, list) else kind]
    assert expected == {name: kind for kind, names in judge.COLUMNS.items() for name in names.split()}
    required = set(schema["RunRow"]["required"])
    gone = SimpleNamespace(path="s3a://runs/web-1/recording.json.gz", length=9, day="2026-03-02", content=None)
    (row,) = [json.loads(line) for line in judge.judge(gone, "rdiag", 1000, 10)]
    assert (row["host"], row["day"], row["not_judged"]) == ("web-1", "2026-03-02", "unreadable"), row
    assert "Spark could not read it" in row["headline"], row
    assert not required - row.keys(), required - row.keys()


def check_page(rdiag: Path, folder: Path) -> None:
    """The command of docs/fleet.md over a folder of recordings, and the view of their day; and the same with --append."""
    for made in ("runs", "bin"):
        (folder / made).mkdir()
    (folder / "fleet").symlink_to(ROOT / "fleet")
    (folder / "bin/rdiag").symlink_to(rdiag)
    tree = ROOT / "tests/fixtures/hosts/whole-host-quiet"
    packed = subprocess.run([rdiag, "record", "use-method", "-o", "-", "--root", tree], stdout=subprocess.PIPE, check=True).stdout
    for n in range(3):
        (folder / f"runs/web-{n}.json.gz").write_bytes(gzip.compress(named(packed, f"web-{n}")))
    (block,) = blocks(SECTION)
    for times, more in enumerate(["", " --append"], 1):
        run = submit(folder, command=["sh", "-ec", block.rstrip() + more])
        assert run.returncode == 0, run.stdout[-6000:]
        os.chdir(folder)
        engine = duckdb.connect()
        engine.execute(DAYS["of DuckDB"])
        judged = "SELECT host, count(*) FROM fleet WHERE tbl = 'runs' AND not_judged IS NULL GROUP BY host ORDER BY host"
        found = engine.execute(judged).fetchall()
        os.chdir(ROOT)
        assert found == [(f"web-{n}", times) for n in range(3)], f"{more}: {found}"
    print("the command of docs/fleet.md: three recordings judged, and added once more")


def main() -> None:
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    if missing := engines.lacks("spark"):
        sys.exit(f"{missing} is missing: see tests/fleet.requirements and tests/spark.requirements")
    check_units()
    rdiag = Path(sys.argv[1]).resolve()
    with tempfile.TemporaryDirectory(prefix="rdiag-spark.") as place:
        check_page(rdiag, Path(place))
    with tempfile.TemporaryDirectory(prefix="rdiag-spark.") as place:
        folder = Path(place)
        recordings, empty, wrapper = folder / "recordings", folder / "empty", folder / "rdiag"
        for made in (recordings, empty):
            made.mkdir()
        lay(recordings)
        wrapper.write_text(WRAPPER.replace("WORKERS", str(folder / "workers")).replace("RDIAG", str(rdiag)))
        options = ["--rdiag", wrapper, "--largest", 1, "--seconds", 10]
        run = submit(folder, "recordings", "rows", *options)
        assert run.returncode == 0, run.stdout[-6000:]
        workers = set((folder / "workers").read_text().split())
        assert len(workers) == 2, f"recordings were judged in {workers}"
        asleep = [entry for entry in Path("/proc").glob("[0-9]*/cmdline") if NAP.encode() in entry.read_bytes()]
        assert not asleep and not list(Path(place).rglob("pwned")), asleep

        os.chdir(folder)
        fleet = [json.loads(line) for line in of_fleet(rdiag, recordings, "rows").splitlines()]
        rows = of_parquet()
        compare(rows, fleet, recordings)
        started = {row["started"][:10] for row in fleet if row.get("started", "").startswith("20")}
        parts = {tuple(str(part).split("/")[1:]) for part in Path("rows").glob("tbl=*/day=*")}
        days = {day.removeprefix("day=") for _, day in parts}
        # Those that were never recorded, and the one that calls its beginning a path, are of the day of their file.
        assert days > started and all(len(day) == 10 for day in days) and {table for table, _ in parts} == TABLES, parts

        expected = check.told(json.loads(of_fleet(rdiag, recordings, "json")))
        expected["missing"] |= {"hung", "endless", "large"}
        # Where two have one name, `rdiag fleet` adds the file.
        for what in ("odd", "findings"):
            expected[what] = {(group, host.split(" (")[0], *rule) for group, host, *rule in expected[what]}
        assert expected["odd"] and expected["findings"], expected
        for engine, view in ((engines.DuckDb(), VIEW), (engines.Spark(), VIEW_OF_SPARK)):
            for what, answer in check.asked(engine.answers(view)).items():
                assert answer == expected[what], f"{what} by {engine}: {answer ^ expected[what]}"
            engine.close()

        before = (folder / "workers").read_text()
        again = submit(folder, recordings, folder / "rows", *options)
        assert again.returncode != 0 and "it is there already" in again.stdout, again.stdout[-6000:]
        assert (folder / "workers").read_text() == before, "it was judged, and could not be written"
        none = submit(folder, empty, folder / "none", *options)
        assert none.returncode != 0 and "no file there ends in" in none.stdout and not Path("none").exists(), none.stdout[-6000:]
        one = submit(folder, recordings / "of-a-folder", folder / "as-json", *options, "--format", "json")
        assert one.returncode == 0, one.stdout[-6000:]
        file = f"{recordings}/of-a-folder/recording.json.gz"
        assert by_file(of_json()) == {file: by_file([row for row in fleet if row["host"] not in gaps(fleet)])[file]}
        os.chdir(ROOT)
    judged, others = len(by_file(rows)), len(gaps(rows))
    print(f"{judged - others} recordings and {others} files that are none, on two workers: as by rdiag fleet")


if __name__ == "__main__":
    main()
