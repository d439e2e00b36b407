"""The engine with Spark: one job reads the units of all runs, one judges all their groups.

There are two routes to the tables of a group (the seam is `checkers/groups.py`): `direct.py`, where
tasks read the record's files themselves, on this machine; and `shuffled.py`, where Spark brings the
rows, on a cluster. Behind both stands the same `examine`. Results are bytes: JSON of checks, Arrow
of statistics. Ingest is the driver's own on a cluster: its machines do not see what nodes left.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

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
from checkers.spark.elsewhere import Elsewhere
from checkers.spark.local import LocalEngine
from checkers.spark.nodes import read_node
from checkers.spark.pieces import rows_of, table_of
from checkers.spark.session import cores, failure, spark_session
from checkers.spark.shuffled import examine_shuffled
from checkers.statistics import STATISTICS
from results.record.paths import RunPaths
from results.record.tables import TABLES
from results.record.verdict import Verdict
from results.verdict_json import write_verdict

_UNITS = schema_of(
    number=pa.int32(), run_id=pa.string(), name=pa.string(), folder=pa.string(),
    snapshot=pa.string(),
)  # fmt: skip
_READ = schema_of(number=pa.int32(), kind=pa.string(), cut=pa.bool_(), payload=pa.binary())
_PROBLEM = "problem"


_BACK = (
    "verdict.json", "record/ingest.json", *(f"record/{name}.parquet" for name in TABLES),
    *(f"statistics/{name}.parquet" for name in STATISTICS),
)  # fmt: skip
"""What a judgement writes."""


@contextmanager
def spark_engine(master: str | None) -> Iterator["SparkEngine"]:
    """Start Spark, and give the engine that uses it.

    Raises:
        EngineError: Spark did not start, or a job of it failed.
    """
    with spark_session(master) as session, TemporaryDirectory(prefix="logquake-") as scratch:
        try:
            yield SparkEngine(session, Path(scratch))
        except (PySparkException, Py4JError) as failed:
            raise EngineError(failure(failed)) from failed


class SparkEngine:
    """An `Engine` on one Spark session.

    Args:
        session: Where the tasks run.
        scratch: For copies of runs that lie elsewhere.
    """

    name = "spark"

    def __init__(self, session: SparkSession, scratch: Path) -> None:
        self._session = session
        self._scratch = scratch
        self._homes: dict[Path, str] = {}
        self._cores = cores(session.conf.get("spark.master", "") or "")

    def find(self, pattern: str) -> list[Path]:
        """Return copies of the runs that a URI means, ready to be judged.

        Raises:
            EngineError: It cannot be read, or there is no run.
        """
        elsewhere = Elsewhere(self._session)
        found = []
        for uri in elsewhere.runs(pattern):
            if uri in self._homes.values():
                continue
            root = elsewhere.fetch(uri, self._scratch / str(len(self._homes)))
            self._homes[root] = uri
            found.append(root)
        return found

    def give_back(self, root: Path, verdict: Verdict) -> str:
        """Copy a verdict, and what else a judgement wrote, to where the run lies.

        Returns:
            Why that was not possible; empty if it was.
        """
        write_verdict(RunPaths(root), verdict)
        try:
            Elsewhere(self._session).put(root, self._homes[root], _BACK)
        except EngineError as refused:
            return str(refused)
        return ""

    def ingest(self, units: Sequence[Unit]) -> Iterator[tuple[Unit, Tables, list[Problem]]]:
        """Yield the tables of each unit; the units are read in parallel."""
        if self._cores is None:
            yield from LocalEngine().ingest(units)
            return
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
        if self._cores is not None:
            yield from examine_directly(self._session, runs, self._cores)
            return
        yield from examine_shuffled(
            self._session,
            {self._homes.get(root) or f"file:{root.resolve()}": facts
             for root, facts in runs.items()},
        )  # fmt: skip


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
