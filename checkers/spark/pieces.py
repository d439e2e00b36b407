"""The schemas of rows that travel between Spark tasks (results, parts of tables)."""

from collections.abc import Iterator, Sequence
from dataclasses import astuple
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame

from checkers.columns import schema_of
from checkers.examine import Piece

PIECES = schema_of(
    run_id=pa.string(), topic=pa.string(), topic_id=pa.string(), partition=pa.int32(),
    kind=pa.string(), name=pa.string(), payload=pa.binary(),
)  # fmt: skip
"""The schema of rows that each contain one `Piece`."""


def batch_of(pieces: Sequence[Piece]) -> pa.RecordBatch:
    """Return pieces as rows of `PIECES`."""
    return rows_of([astuple(piece) for piece in pieces], PIECES)


def pieces_of(judged: DataFrame) -> Iterator[Piece]:
    """Run the Spark job that judges, and yield its pieces."""
    for row in judged.toArrow().to_pylist():
        yield Piece(**row)


def rows_of(rows: Sequence[tuple[Any, ...]], schema: pa.Schema) -> pa.RecordBatch:
    """Return rows as an Arrow batch."""
    columns = zip(*rows, strict=True) if rows else [()] * len(schema)
    arrays = [pa.array(column, field.type) for column, field in zip(columns, schema, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)
