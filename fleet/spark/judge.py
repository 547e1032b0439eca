#!/usr/bin/env python3
"""Judges the recordings below a folder or bucket on the workers of a Spark cluster, and writes their rows by table and day.

    spark-submit judge.py SOURCE TARGET [--rdiag FILE] [--format parquet|json] [--append] [--largest MB] [--seconds S]

SOURCE and TARGET are what Spark reads and writes: file:, s3a:, hdfs:. Each *.json and *.gz below SOURCE, but no report.json, is piped
through `rdiag analyze - --format rows --out -`; Spark sends rdiag, which is one static file, to its workers. A file that cannot be judged
is a row of `runs` with the reason and costs no other. Spark lists no file whose name begins with . or _, or is not UTF-8.
"""

import argparse
import contextlib
import datetime
import hashlib
import json
import os
import re
import resource
import signal
import subprocess
import sys
import tempfile

from pyspark import SparkFiles
from pyspark.sql import SparkSession, functions as F

# The columns of all four tables (reports/schema/rows.schema.json), by type.
COLUMNS = {
    "STRING": "tbl day run host grp file machine boot started rdiag playbook kernel os arch verdict headline not_judged metric dimension"
    " instance role unit source rule title resource kind status confidence summary culprit_kind culprit reason fact text",
    "BIGINT": "format_version cpus memory_bytes unknown window_index instances discarded held held_of",
    "DOUBLE": "seconds clock_error_seconds late_seconds value mean min max p95 last total share",
    "BOOLEAN": "clock_synchronized virtual_machine is_error fallback is_past",
}
# A host of which there is no recording that could be judged.
NOT_JUDGED = dict.fromkeys(["run", "grp", "started", "rdiag", "playbook", "arch"], "") | {
    "tbl": "runs", "format_version": 1, "kernel": "unknown", "os": "unknown", "seconds": 0.0, "cpus": 0, "memory_bytes": 0,
    "virtual_machine": False, "verdict": "unknown", "unknown": 0,
}
# Rows of one recording, in bytes: those of a large host are a hundredth of it.
MOST = 256 << 20


def bounded() -> None:
    resource.setrlimit(resource.RLIMIT_FSIZE, (MOST, MOST))


def piped(content: bytes, rdiag: str, seconds: float) -> list[dict]:
    """The rows of a recording; ValueError says why there are none."""
    with tempfile.TemporaryFile() as given, tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as said:
        given.write(content)
        given.seek(0)
        command, files = [rdiag, "analyze", "-", "--format", "rows", "--out", "-"], {"stdin": given, "stdout": out, "stderr": said}
        process = subprocess.Popen(command, **files, start_new_session=True, preexec_fn=bounded)
        try:
            code = process.wait(seconds)
        except subprocess.TimeoutExpired:
            raise ValueError(f"rdiag was not done with it after {seconds:g} s") from None
        finally:
            if process.poll() is None:
                # With the confined copy of itself that reads.
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
        out.seek(0)
        said.seek(0)
        # It ends with 3 if nothing could be judged, and says so in its rows.
        rows = [json.loads(line) for line in out] if code in (0, 3) else []
        if not rows:
            error = said.read(4000).decode(errors="replace").removeprefix("error: ").removeprefix("reading /dev/stdin: ").strip()
            raise ValueError(error or (f"rdiag was ended by signal {-code}" if code < 0 else f"rdiag ended with code {code}"))
        return rows


def judge(file, rdiag: str, largest: int, seconds: float):
    """The rows of one file, as JSON; one row of a file that cannot be judged."""
    path, day = file.path, file.day
    try:
        if file.length == 0:
            raise ValueError("the file is empty: the host has sent nothing")
        if file.length > largest:
            raise ValueError(f"it has {file.length} bytes, and no recording of more than {largest} is read")
        if file.content is None:
            raise ValueError("Spark could not read it: it is gone, damaged, or not to be read by this user")
        rows = piped(file.content, SparkFiles.get(rdiag), seconds)
        # The name of a folder: not whatever a recording calls its beginning.
        with contextlib.suppress(ValueError):
            day = datetime.date.fromisoformat(rows[0]["started"][:10]).isoformat()
    except ValueError as error:
        named = path.removesuffix("/recording.json.gz").rsplit("/", 1)[-1]
        why = "unreadable" if file.length else "unreachable"
        rows = [NOT_JUDGED | {"host": re.sub(r"(\.json\.gz|\.json|\.gz)$", "", named), "headline": f"{path}: {error}", "not_judged": why}]
    for row in rows:
        # Two copies of a recording are two runs.
        run = hashlib.sha256(f"{row['run']} {path}".encode(errors="replace")).hexdigest()[:16]
        yield json.dumps(row | {"run": run, "day": day} | ({"file": path} if row["tbl"] == "runs" else {}))


def empty(spark: SparkSession, names: list[str], known: set[str]):
    """Files without a byte: Spark reads none of them, and each is a host that has sent nothing."""
    path_of, uri_of, settings = spark._jvm.org.apache.hadoop.fs.Path, spark._jvm.java.net.URI, spark._jsc.hadoopConfiguration()
    for name in names:
        path = path_of(uri_of(name))
        if path.toString() not in known and path.getName() != "report.json":
            status = path.getFileSystem(settings).getFileStatus(path)
            day = datetime.datetime.fromtimestamp(status.getModificationTime() / 1000, datetime.timezone.utc).date()
            yield path.toString(), status.getLen(), day.isoformat()


def main() -> None:
    options = argparse.ArgumentParser(usage=__doc__)
    options.add_argument("source")
    options.add_argument("target")
    options.add_argument("--rdiag", default="/usr/bin/rdiag")
    options.add_argument("--format", choices=["parquet", "json"], default="parquet")
    options.add_argument("--append", action="store_true")
    options.add_argument("--largest", type=int, default=64)
    options.add_argument("--seconds", type=float, default=120)
    asked = options.parse_args()
    with SparkSession.builder.appName("rdiag").config("spark.sql.session.timeZone", "UTC").getOrCreate() as spark:
        run(spark, asked)


def run(spark: SparkSession, asked: argparse.Namespace) -> None:
    target = spark._jvm.org.apache.hadoop.fs.Path(asked.target)
    if not asked.append and target.getFileSystem(spark._jsc.hadoopConfiguration()).exists(target):
        sys.exit(f"error: writing to {asked.target}: it is there already; name another place, or --append to it")
    # Spark sends what a link leads to, by its own name.
    sent = os.path.realpath(asked.rdiag) if os.path.exists(asked.rdiag) else asked.rdiag
    spark.sparkContext.addFile(sent)
    rdiag, largest, seconds = os.path.basename(sent), asked.largest << 20, asked.seconds
    # A file that goes away or may not be read costs itself alone: the list says that it was there.
    lenient = {"recursiveFileLookup": True, "pathGlobFilter": "*.{json,gz}", "ignoreMissingFiles": True, "ignoreCorruptFiles": True}
    found = spark.read.format("binaryFile").options(**lenient).load(asked.source).where("path NOT LIKE '%/report.json'")
    listed = found.select("path", "length", F.date_format("modificationTime", "yyyy-MM-dd").alias("day"))
    known = {file.path for file in listed.select("path").collect()}
    listed = listed.union(spark.createDataFrame(empty(spark, found.inputFiles(), known), listed.schema))
    number = listed.count()
    if not number:
        sys.exit(f"error: looking for recordings below {asked.source}: no file there ends in .json or .gz; `rdiag record -o -` gives one")
    tasks = max(spark.sparkContext.defaultParallelism, number // 32)
    contents = found.where(F.col("length") <= largest).select("path", "content").repartition(tasks, "path")
    files = listed.repartition(tasks, "path").join(contents, "path", "left")
    lines = files.rdd.flatMap(lambda file: judge(file, rdiag, largest, seconds))
    columns = ", ".join(f"{name} {kind}" for kind, names in COLUMNS.items() for name in names.split())
    # At most eight files for each table and day, and not one for each task.
    rows = spark.read.schema(columns).json(lines).repartition("tbl", "day", F.expr("pmod(hash(run), 8)"))
    rows.write.partitionBy("tbl", "day").mode("append" if asked.append else "errorifexists").format(asked.format).save(asked.target)
    print(f"{number} recordings: {asked.target}")


if __name__ == "__main__":
    main()
