"""The Spark route for a cluster: it reads files at any path, and groups the rows with one shuffle.

Spark reads each table's file as raw bytes (`binaryFile`). So the page checksums are verified, as in
the other route. Tasks split the tables by (run_id, topic, topic_id, partition). One shuffle brings
the parts of a group together, so that the checks see complete tables. Between tasks, tables travel
as Arrow data in byte columns. With Spark's own rows, the same work took seven times as long.
"""

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.sql import SparkSession
from pyspark.sql.pandas.types import from_arrow_schema

from checkers.columns import schema_of
from checkers.examine import DAMAGED, Piece, damaged, examine, pack, unpack
from checkers.facts import RunFacts
from checkers.groups import is_judged
from checkers.layout import GROUP_ROWS, RUN, DamagedError, TableFile, split
from checkers.spark.pieces import PIECES, batch_of, pieces_of, rows_of
from results.record.tables import TABLES

_KEYS = ("run_id", "topic", "topic_id", "partition")
_PARTS = schema_of(
    run_id=pa.string(), topic=pa.string(), topic_id=pa.string(), partition=pa.int32(),
    kind=pa.string(), name=pa.string(), payload=pa.binary(),
)  # fmt: skip
_ROWS = "rows"


def examine_shuffled(session: SparkSession, runs: Mapping[str, RunFacts]) -> Iterator[Piece]:
    """Yield the results for each group of the runs, in any order.

    Args:
        session: The Spark session whose tasks read the tables.
        runs: The facts of each run. The key is the URI of the run's folder, as Hadoop writes it.
    """
    by_id = {facts.recorded_id: facts for facts in runs.values()}
    files = {
        f"{uri}/record/{name}.parquet": (facts.recorded_id, name)
        for uri, facts in runs.items()
        for name in TABLES
        if name not in facts.unread
    }
    if not files:
        return

    # pyspark reads the type hints of these functions. A partial has none.
    def split_tables(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        return _split_files(by_id, files, batches)

    def judge_group(key: tuple[pa.Scalar, ...], rows: pa.Table) -> pa.Table:  # type: ignore[type-arg]  # At run time it takes none.
        return _judge_group(by_id, key, rows)

    frame = session.read.format("binaryFile").load(list(files)).select("path", "content")
    parts = frame.mapInArrow(split_tables, from_arrow_schema(_PARTS))
    judged = parts.groupBy(*_KEYS).applyInArrow(judge_group, from_arrow_schema(PIECES))
    yield from pieces_of(judged)


def _split_files(
    by_id: Mapping[str, RunFacts],
    files: Mapping[str, tuple[str, str]],
    batches: Iterable[pa.RecordBatch],
) -> Iterator[pa.RecordBatch]:
    """Read the tables of one task, split them by partition, and yield rows of `_PARTS`."""
    for batch in batches:
        for path, content in zip(batch["path"], batch["content"], strict=True):
            run_id, name = files[path.as_py()]
            try:
                whole = TableFile(name, Path(path.as_py()), content.as_buffer()).read()
            except DamagedError:
                yield rows_of([(run_id, *RUN, DAMAGED, name, b"")], _PARTS)
                continue
            for place, rows in split(whole):
                if rows.num_rows and is_judged(by_id[run_id], place):
                    for start in range(0, rows.num_rows, GROUP_ROWS):
                        part = pack(rows.slice(start, GROUP_ROWS))
                        yield rows_of([(run_id, *place, _ROWS, name, part)], _PARTS)


def _judge_group(by_id: Mapping[str, RunFacts], key: tuple[Any, ...], rows: pa.Table) -> pa.Table:
    """Judge one group, and return the results as rows of `PIECES`."""
    run_id, topic, topic_id, partition = (scalar.as_py() for scalar in key)
    facts, place = by_id[run_id], (topic, topic_id, partition)
    tables: dict[str, list[pa.Table]] = {}
    hurt = []
    for row in rows.select(["kind", "name", "payload"]).to_pylist():
        if row["kind"] == DAMAGED:
            hurt.append(row["name"])
        else:
            tables.setdefault(row["name"], []).append(unpack(row["payload"]))
    whole = {name: pa.concat_tables(tables[name]).unify_dictionaries() for name in sorted(tables)}
    pieces = damaged(facts, hurt, place) if hurt else examine(facts, whole, place)
    return pa.Table.from_batches([batch_of(pieces)])
