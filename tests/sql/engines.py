"""The questions of fleet/sql, asked of each engine in the folder that holds fleet.ndjson."""

import importlib.util
import json
import os
import shutil
import sys
from pathlib import Path

SQL = Path(__file__).resolve().parents[2] / "fleet/sql"
QUESTIONS = ["votes", "odd", "missing", "contrast"]
# By the packages of Python that bring them.
PACKAGES = {"duckdb": "duckdb", "datafusion": "datafusion", "clickhouse": "chdb", "spark": "pyspark"}
# Minutes for a few fleets: only when asked for.
SLOW = {"spark"}

Answers = dict[str, list[dict]]


def lacks(engine: str) -> str | None:
    """What is missing of an engine here."""
    if importlib.util.find_spec(PACKAGES[engine]) is None:
        return f"the Python package {PACKAGES[engine]}"
    if engine == "spark" and not shutil.which("java"):
        return "java, 17 or later"
    return None


def chosen(asked: str | None) -> list[str]:
    """The engines that are named, of which none may be missing; otherwise those that are here and quick."""
    if asked is None:
        return [engine for engine in PACKAGES if engine not in SLOW and lacks(engine) is None] or sys.exit("there is no engine here")
    engines = asked.split(",")
    for engine in engines:
        if engine not in PACKAGES:
            sys.exit(f"there is no engine {engine!r}, but {', '.join(PACKAGES)}")
        if missing := lacks(engine):
            sys.exit(f"{engine} was asked for, and {missing} is missing: see tests/fleet.requirements and tests/spark.requirements")
    return engines


def text(name: str) -> str:
    return (SQL / f"{name}.sql").read_text()


class Engine:
    """Asked of the table that a statement makes; by default that of fleet/sql, over fleet.ndjson."""

    def answers(self, table: str | None = None) -> Answers:
        raise NotImplementedError

    def close(self) -> None:
        pass


class DuckDb(Engine):
    def answers(self, table: str | None = None) -> Answers:
        import duckdb

        engine = duckdb.connect()
        engine.execute(table or text("duckdb"))
        answers = {}
        for name in QUESTIONS:
            found = engine.execute(text(name))
            columns = [column[0] for column in found.description]
            answers[name] = [dict(zip(columns, row)) for row in found.fetchall()]
        return answers


class DataFusion(Engine):
    def answers(self, table: str | None = None) -> Answers:
        import datafusion

        engine = datafusion.SessionContext()
        engine.sql(table or text("datafusion"))
        return {name: engine.sql(text(name)).to_pylist() for name in QUESTIONS}


class ClickHouse(Engine):
    def answers(self, table: str | None = None) -> Answers:
        from chdb import session

        with session.Session() as engine:
            engine.query(table or text("clickhouse"))
            return {name: json.loads(str(engine.query(text(name), "JSON")))["data"] for name in QUESTIONS}


class Spark(Engine):
    """On two worker processes, which run until the end. It reads below the folder in which it was started."""

    def __init__(self, memory: str = "1g", parts: int = 4) -> None:
        os.environ.update(SPARK_LOCAL_IP="127.0.0.1", PYSPARK_PYTHON=sys.executable)
        from pyspark.sql import SparkSession

        settings = {"spark.sql.shuffle.partitions": str(parts), "spark.ui.enabled": "false", "spark.ui.showConsoleProgress": "false"}
        settings |= {"spark.scheduler.minRegisteredResourcesRatio": "1.0", "spark.executor.memory": memory}
        # Of a large fleet, what is joined with all rows is built by the driver.
        settings |= {"spark.driver.memory": memory}
        workers = SparkSession.builder.master(f"local-cluster[2,1,{1024 * int(memory.removesuffix('g'))}]")
        self.engine = workers.config(map=settings).getOrCreate()
        self.engine.sparkContext.setLogLevel("ERROR")

    def answers(self, table: str | None = None) -> Answers:
        self.engine.sql((table or text("spark")).rstrip().rstrip(";"))
        answers = {name: [row.asDict() for row in self.engine.sql(text(name)).collect()] for name in QUESTIONS}
        # The driver is one of them.
        processes = len(self.engine.sparkContext._jsc.sc().statusTracker().getExecutorInfos())
        assert processes == 3, f"Spark had {processes - 1} workers and not 2"
        return answers

    def close(self) -> None:
        self.engine.stop()


KINDS = {"duckdb": DuckDb, "datafusion": DataFusion, "clickhouse": ClickHouse, "spark": Spark}
