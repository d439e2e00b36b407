"""The engine with Spark: one job reads the units of all runs, one judges all their groups.

Tasks split the tables of the runs by (run_id, topic, topic_id, partition), one shuffle brings the
parts of a group together, and the kernels see whole tables again; what has no partition makes a
group of its own, the run's. Between tasks tables travel as Arrow, packed into bytes: with Spark's
own rows, the columns of all tables side by side, the same took seven times as long
(`benchmarks/checking.py`).
Results are bytes as well: JSON of checks, Arrow of statistics.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import astuple
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from py4j.protocol import Py4JError  # type: ignore[import-untyped]  # It has no stubs.
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql.pandas.types import from_arrow_schema

from checkers.columns import schema_of
from checkers.engine import EngineError
from checkers.examine import Piece, examine, pack, unpack
from checkers.facts import RunFacts
from checkers.ingest import Problem, Tables, Unit, ingest
from checkers.spark.local import groups
from checkers.spark.nodes import read_node
from checkers.spark.session import spark_session
from checkers.stored import readable_tables
from results.record.paths import RunPaths
from results.record.tables import TABLES

_KEYS = ("run_id", "topic", "topic_id", "partition")
_ROWS_AT_ONCE = 1_000_000
_PIECES = schema_of(
    run_id=pa.string(), topic=pa.string(), topic_id=pa.string(), partition=pa.int32(),
    kind=pa.string(), name=pa.string(), payload=pa.binary(),
)  # fmt: skip
_UNITS = schema_of(
    number=pa.int32(), run_id=pa.string(), name=pa.string(), folder=pa.string(),
    snapshot=pa.string(),
)  # fmt: skip
_FILES = schema_of(number=pa.int32(), run_id=pa.string(), name=pa.string(), path=pa.string())
_PARTS = schema_of(
    run_id=pa.string(), topic=pa.string(), topic_id=pa.string(), partition=pa.int32(),
    name=pa.string(), payload=pa.binary(),
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
        frame = self._session.createDataFrame(_table(rows, _UNITS))
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
        by_id = {facts.recorded_id: facts for facts in runs.values()}
        files = [
            (number, facts.recorded_id, name, str(path.absolute()))
            for root, facts in runs.items()
            for number, (name, path) in enumerate(readable_tables(RunPaths(root)).items())
        ]
        if not files:
            return

        # pyspark looks at the hints of the functions that it is given; a partial has none.
        def split(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            return _split_files(by_id, batches)

        def judge_group(key: tuple[pa.Scalar, ...], rows: pa.Table) -> pa.Table:  # type: ignore[type-arg]  # At run time it takes none.
            return _judge_group(by_id, key, rows)

        frame = self._session.createDataFrame(_table(files, _FILES))
        parts = frame.repartition(len(files), "number").mapInArrow(split, from_arrow_schema(_PARTS))
        judged = parts.groupBy(*_KEYS).applyInArrow(judge_group, from_arrow_schema(_PIECES))
        for row in judged.toArrow().to_pylist():
            yield Piece(**row)


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


def _split_files(
    by_id: Mapping[str, RunFacts], batches: Iterable[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """Read the tables of a task, and split them by place, as rows of `_PARTS`."""
    for batch in batches:
        for row in batch.to_pylist():
            name, facts = row["name"], by_id[row["run_id"]]
            for rows in pq.ParquetFile(row["path"]).iter_batches(_ROWS_AT_ONCE):
                table = pa.Table.from_batches([rows]).cast(TABLES[name])
                parts = [
                    (row["run_id"], *place, name, pack(tables[name]))
                    for place, tables in groups({name: table}, facts).items()
                ]
                if parts:
                    yield _batch(parts, _PARTS)


def _judge_group(by_id: Mapping[str, RunFacts], key: tuple[Any, ...], rows: pa.Table) -> pa.Table:
    """Judge one group, as rows of `_PIECES`."""
    run_id, topic, topic_id, partition = (scalar.as_py() for scalar in key)
    parts: dict[str, list[pa.Table]] = {}
    for row in rows.select(["name", "payload"]).to_pylist():
        parts.setdefault(row["name"], []).append(unpack(row["payload"]))
    tables = {name: pa.concat_tables(parts[name]) for name in sorted(parts)}
    pieces = examine(by_id[run_id], tables, (topic, topic_id, partition))
    return _table([astuple(piece) for piece in pieces], _PIECES)


def _table(rows: Sequence[tuple[Any, ...]], schema: pa.Schema) -> pa.Table:
    return pa.Table.from_batches([_batch(rows, schema)])


def _batch(rows: Sequence[tuple[Any, ...]], schema: pa.Schema) -> pa.RecordBatch:
    columns = zip(*rows, strict=True)
    arrays = [pa.array(column, field.type) for column, field in zip(columns, schema, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)
