"""Read the tables of a stored run, with pyarrow alone.

A missing table is read as an empty table with the right columns. A missing column is read as nulls.
So the code that shows runs also works for a run that ended early.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from results.record.atomic import StoreError
from results.record.clock import NS_PER_S
from results.record.parquet import as_texts, open_parquet
from results.record.paths import RunPaths
from results.record.tables import TABLES

DAMAGES = (StoreError, OSError, ValueError, KeyError, TypeError, RecursionError, pa.ArrowException)
"""The exceptions that a reader of a damaged or malicious record may raise."""
_RUN: "pa.Field[Any]" = pa.field("run_id", pa.string())
_PLACE: "list[pa.Field[Any]]" = [pa.field("topic", pa.string()), pa.field("partition", pa.int32())]
_SECOND: "pa.Field[Any]" = pa.field("second", pa.int64())

_QUANTILES: "list[pa.Field[Any]]" = [
    pa.field(name, pa.float64()) for name in ("p50_ms", "p95_ms", "p99_ms", "max_ms")
]


def _counts(*names: str) -> "list[pa.Field[Any]]":
    return [pa.field(name, pa.int64()) for name in names]


STATISTICS: dict[str, pa.Schema] = {
    "rates": pa.schema([
        _RUN, _SECOND, pa.field("f", pa.string()), pa.field("outcome", pa.string()),
        *_counts("count"),
    ]),
    "latency": pa.schema([_RUN, _SECOND, pa.field("f", pa.string()), *_QUANTILES]),
    "lag": pa.schema([_RUN, *_PLACE, _SECOND, *_QUANTILES]),
    "offered": pa.schema([
        _RUN, _SECOND, *_counts("offered", "missed", "calm_offered", "calm_missed"),
    ]),
    "availability": pa.schema([_RUN, *_PLACE, _SECOND, *_counts("attempted", "ok")]),
    "leaders": pa.schema([
        _RUN, *_PLACE, pa.field("topic_id", pa.string()), pa.field("leader", pa.int32()),
        pa.field("leader_epoch", pa.int32()), *_counts("from_ns", "to_ns"),
    ]),
    "transitions": pa.schema([
        *_PLACE, pa.field("transition", pa.string()), *_counts("count", "first_ns"),
    ]),
    "successions": pa.schema([
        *_PLACE, pa.field("before", pa.string()), pa.field("after", pa.string()), *_counts("count"),
    ]),
}  # fmt: skip
"""The tables of `statistics/*.parquet` by name, with the columns that readers get.

`second` counts from the run's start. Two columns may have other names in the files: `window_ns`
(the start of the second in nanoseconds) and `epoch` (a leader epoch). A `calm_` column counts only
seconds without a fault.
"""


class RunTables:
    """The tables of one run.

    Args:
        paths: The run.

    Attributes:
        paths: The run's paths.
        unreadable: Names of damaged tables; they are treated as empty.
    """

    def __init__(self, paths: RunPaths) -> None:
        self.paths = paths
        self.unreadable: list[str] = []

    def record(
        self,
        name: str,
        *,
        filters: pc.Expression | None = None,
        columns: Sequence[str] | None = None,
    ) -> pa.Table:
        """Return a table of the record; empty if it is missing or damaged.

        Args:
            name: A name in `TABLES`.
            filters: Filter for the rows.
            columns: Columns to read; None for all.
        """
        schema, path = TABLES[name], self.paths.table(name)
        if columns is None:
            return self._lenient(path, schema, filters)
        return self._lenient(path, pa.schema([schema.field(each) for each in columns]), filters,
                             columns=list(columns))  # fmt: skip

    def statistics(self, name: str) -> pa.Table:
        """Return a table of the statistics with the columns of `STATISTICS`."""
        return self._lenient(statistics_path(self.paths, name), STATISTICS[name], None)

    def _lenient(
        self,
        path: Path,
        schema: pa.Schema,
        filters: pc.Expression | None,
        *,
        columns: list[str] | None = None,
    ) -> pa.Table:
        try:
            return _read(path, schema, filters=filters, columns=columns)
        except StoreError:
            self.unreadable.append(f"{path.parent.name}/{path.name}")
            return schema.empty_table()


def statistics_path(paths: RunPaths, name: str) -> Path:
    """Return the path of a statistics table."""
    return paths.statistics / f"{name}.parquet"


def read_table(paths: RunPaths, name: str, *, filters: pc.Expression | None = None) -> pa.Table:
    """Return a table of the record; a damaged table is an error.

    Args:
        paths: The run.
        name: A name in `TABLES`.
        filters: Filter for the rows: `pc.field("partition") == 1`.

    Raises:
        StoreError: The file exists, but is damaged.
    """
    return _read(paths.table(name), TABLES[name], filters=filters)


def _read(
    path: Path,
    schema: pa.Schema,
    *,
    filters: pc.Expression | None,
    columns: list[str] | None = None,
) -> pa.Table:
    words = [each.name for each in schema if pa.types.is_string(each.type)]
    try:
        with open_parquet(path) as file:
            table = pq.read_table(file, filters=filters, columns=columns, read_dictionary=words)
        conformed = _conformed(_renamed(as_texts(table), schema), schema)
        conformed.validate(full=True)  # Strings that are not UTF-8 would raise errors later.
    except FileNotFoundError:
        return schema.empty_table()
    except (OSError, ValueError, pa.ArrowException) as damaged:
        raise StoreError(
            f"the table {path} cannot be read ({damaged}); recreate it with `logquake check`"
        ) from damaged
    return conformed


def _renamed(table: pa.Table, schema: pa.Schema) -> pa.Table:
    names, wanted = table.column_names, schema.names
    if "second" in wanted and "second" not in names and "window_ns" in names:
        table = table.append_column("second", pc.divide(table["window_ns"], NS_PER_S))
    if "leader_epoch" in wanted and "leader_epoch" not in names and "epoch" in names:
        table = table.append_column("leader_epoch", table["epoch"])
    return table


def _conformed(table: pa.Table, schema: pa.Schema) -> pa.Table:
    columns = [
        pc.cast(table[field.name], field.type)
        if field.name in table.column_names
        else pa.nulls(table.num_rows, field.type)
        for field in schema
    ]
    return pa.table(columns, schema=schema)
