"""The engine with Spark: one job reads the units of all runs, one judges all their groups.

There are two routes to the tables of a group (the seam is `checkers/groups.py`): `direct.py`, where
tasks read the record's files themselves, and `shuffled.py`, where Spark brings the rows. Behind
both stands the same `examine`. Results are bytes: JSON of checks, Arrow of statistics.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

import pyarrow as pa
from py4j.protocol import Py4JError  # type: ignore[import-untyped]  # It has no stubs.
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql.pandas.types import from_arrow_schema

from checkers.columns import schema_of
from checkers.engine import EngineError
from checkers.examine import Piece, pack, unpack
from checkers.facts import RunFacts
from checkers.ingest import Problem, Tables, Unit, ingest
from checkers.spark.direct import examine_directly
from checkers.spark.nodes import read_node
from checkers.spark.pieces import rows_of, table_of
from checkers.spark.session import cores, spark_session
from checkers.spark.shuffled import examine_shuffled

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
        frame = self._session.createDataFrame(table_of(rows, _UNITS))
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
        master = self._session.conf.get("spark.master", "") or ""
        if master.startswith("local"):
            yield from examine_directly(self._session, runs, cores(master))
        else:
            yield from examine_shuffled(self._session, runs)


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
                yield rows_of(rows, _READ)
