"""The engine with Spark: one job reads the units of all runs, one judges all their groups.

Rows of all tables travel in one frame, tagged with their table, so that one shuffle by (run_id,
topic, topic_id, partition) brings together what a kernel needs; tables without a partition make a
group of their own, the run's. Results come back as bytes: JSON of checks, Arrow of statistics.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import astuple
from functools import partial, reduce
from pathlib import Path
from typing import Any

import pyarrow as pa
from py4j.protocol import Py4JError  # type: ignore[import-untyped]  # It has no stubs.
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf
from pyspark.sql.pandas.types import from_arrow_schema

from checkers.columns import equal, schema_of, select, texts
from checkers.engine import EngineError
from checkers.examine import RUN, Piece, examine, pack, unpack
from checkers.facts import RunFacts
from checkers.ingest import Problem, Tables, Unit, ingest
from checkers.spark.nodes import read_node
from checkers.spark.session import spark_session
from checkers.stored import readable_tables
from results.record.paths import RunPaths
from results.record.tables import TABLES

_KEYS = ("run_id", "topic", "topic_id", "partition")
_TABLE = "record_table"
_PIECES = schema_of(
    run_id=pa.string(), topic=pa.string(), topic_id=pa.string(), partition=pa.int32(),
    kind=pa.string(), name=pa.string(), payload=pa.binary(),
)  # fmt: skip
_UNITS = schema_of(
    number=pa.int32(), run_id=pa.string(), name=pa.string(), folder=pa.string(),
    snapshot=pa.string(),
)  # fmt: skip
_READ = schema_of(number=pa.int32(), kind=pa.string(), cut=pa.bool_(), payload=pa.binary())
_PROBLEM = "problem"


@contextmanager
def spark_engine(master: str | None) -> Iterator["SparkEngine"]:
    """Start Spark, and give the engine that uses it.

    Raises:
        EngineError: Spark did not start, or a job of it failed.
    """
    with spark_session(master) as session:
        try:
            yield SparkEngine(session)
        except (PySparkException, Py4JError) as failed:
            first = (str(failed).strip().splitlines() or [type(failed).__name__])[0]
            raise EngineError(f"a job of Spark failed: {first}; try --engine local") from failed


class SparkEngine:
    """An `Engine` on one Spark session."""

    name = "spark"

    def __init__(self, session: SparkSession) -> None:
        self._session = session

    def ingest(self, units: Sequence[Unit]) -> Iterator[tuple[Unit, Tables, list[Problem]]]:
        """Yield the tables of each unit; the units are read in parallel."""
        rows = [
            (number, unit.run_id, unit.name, str(unit.folder.absolute()), unit.snapshot)
            for number, unit in enumerate(units)
        ]
        columns = [list(column) for column in zip(*rows, strict=True)]
        frame = self._session.createDataFrame(pa.table(columns, schema=_UNITS))
        read = frame.repartition(len(units), "number").mapInArrow(
            _read_units, from_arrow_schema(_READ)
        )
        tables: list[Tables] = [{} for _ in units]
        problems: list[list[Problem]] = [[] for _ in units]
        for row in read.toArrow().to_pylist():
            unit = units[row["number"]]
            if row["kind"] == _PROBLEM:
                sentence = row["payload"].decode()
                found = Problem(unit=unit.name, sentence=sentence, cut=row["cut"])
                problems[row["number"]].append(found)
            else:
                tables[row["number"]][row["kind"]] = unpack(row["payload"])
        yield from zip(units, tables, problems, strict=True)

    def examine(self, runs: Mapping[Path, RunFacts]) -> Iterator[Piece]:
        """Yield the results of each group of the runs, in any order."""
        rows = self._rows([RunPaths(root) for root in runs], _topics(runs.values()))
        if rows is None:
            return
        by_id = {facts.recorded_id: facts for facts in runs.values()}

        # pyspark looks at the hints of the function that it is given; a partial has none.
        def judge_group(key: tuple[pa.Scalar, ...], rows: pa.Table) -> pa.Table:  # type: ignore[type-arg]  # At run time it takes none.
            return _judge_group(by_id, key, rows)

        judged = rows.groupBy(*_KEYS).applyInArrow(judge_group, from_arrow_schema(_PIECES))
        for row in judged.toArrow().to_pylist():
            yield Piece(**row)

    def _rows(self, runs: Sequence[RunPaths], topics: Sequence[str]) -> DataFrame | None:
        """Return every row of the runs in one frame, tagged with its table."""
        files: dict[str, list[str]] = {name: [] for name in TABLES}
        for paths in runs:
            for name, path in readable_tables(paths).items():
                files[name].append(str(path.absolute()))
        frames = [self._table(name, paths, topics) for name, paths in files.items() if paths]
        union = partial(DataFrame.unionByName, allowMissingColumns=True)
        return reduce(union, frames) if frames else None

    def _table(self, name: str, paths: Sequence[str], topics: Sequence[str]) -> DataFrame:
        reader = self._session.read.schema(from_arrow_schema(TABLES[name]))
        frame = reader.parquet(*paths).withColumn(_TABLE, sf.lit(name))
        if "partition" in TABLES[name].names:
            ours = sf.col("topic").isin(*topics)
            return frame.where(
                ours & sf.col("topic_id").isNotNull() & sf.col("partition").isNotNull()
            )
        nothing = {
            "topic": sf.lit(RUN[0]), "topic_id": sf.lit(RUN[1]),
            "partition": sf.lit(RUN[2]).cast("int"),
        }  # fmt: skip
        return frame.withColumns(nothing)


def _topics(runs: Iterable[RunFacts]) -> list[str]:
    return sorted({topic for facts in runs for topic in facts.plan.topic_names})


def _read_units(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Read the units of a task, as rows of `_READ`."""
    for batch in batches:
        for row in batch.to_pylist():
            unit = Unit(
                run_id=row["run_id"], name=row["name"], folder=Path(row["folder"]),
                snapshot=row["snapshot"],
            )  # fmt: skip
            tables, problems = ingest(unit, read_node)
            rows = [(row["number"], name, False, pack(table)) for name, table in tables.items()]
            rows += [
                (row["number"], _PROBLEM, each.cut, each.sentence.encode()) for each in problems
            ]
            if rows:
                yield _batch(rows, _READ)


def _judge_group(by_id: Mapping[str, RunFacts], key: tuple[Any, ...], rows: pa.Table) -> pa.Table:
    """Judge one group, as rows of `_PIECES`."""
    run_id, topic, topic_id, partition = (scalar.as_py() for scalar in key)
    facts = by_id.get(run_id)
    place = (topic, topic_id, partition)
    if facts is None or (partition >= 0 and (topic, partition) not in facts.numbers):
        return _PIECES.empty_table()
    tables = {}
    for name in sorted(set(texts(rows, _TABLE))):
        mine = select(rows, equal(rows, _TABLE, name))
        tables[name] = mine.select(TABLES[name].names).cast(TABLES[name])
    pieces = [astuple(piece) for piece in examine(facts, tables, place)]
    return pa.Table.from_batches([_batch(pieces, _PIECES)])


def _batch(rows: Sequence[tuple[Any, ...]], schema: pa.Schema) -> pa.RecordBatch:
    columns = zip(*rows, strict=True)
    arrays = [pa.array(column, field.type) for column, field in zip(columns, schema, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)
