"""Give tasks of this machine the tables of an imported history, as memory-mapped Arrow files.

A history is judged once, and its tables are not kept. A record that is kept is compressed
(`layout.py`). The compression would take more time than the judging. So each table is written in
Arrow's memory format. Each place has its own batch. A task reads only the batches that it judges.
"""

import json
from functools import cached_property
from pathlib import Path
from typing import Any

import pyarrow as pa

from checkers.ingest import Tables
from checkers.layout import Place, split
from results.record.paths import RunPaths
from results.record.tables import TABLES

_PLACES = b"places"


def hand_over(root: Path, tables: Tables) -> None:
    """Write tables for `HandedGroups`, on a disk that the tasks can read.

    Args:
        root: An existing folder.
        tables: The tables of a run. The rows of a place need not be together in a table.
    """
    RunPaths(root).record.mkdir()
    for name, table in tables.items():
        parts = [(place, rows) for place, rows in split(table) if rows.num_rows]
        if parts:
            _write(_path(root, name), table, dict(parts))


def _write(path: Path, table: pa.Table, parts: dict[Place, pa.Table]) -> None:
    told = [each for each in table.column_names if table[each].null_count < table.num_rows]
    schema = table.select(told).schema.with_metadata({_PLACES: json.dumps(list(parts)).encode()})
    with pa.ipc.new_file(str(path), schema) as writer:
        for rows in parts.values():
            (batch,) = rows.select(told).combine_chunks().to_batches()
            writer.write_batch(batch)


class HandedGroups:
    """A `GroupReader` for tables that `hand_over` wrote.

    Args:
        root: The folder that `hand_over` filled.
    """

    def __init__(self, root: Path) -> None:
        self._root = root

    def rows(self) -> dict[Place, int]:
        """Return the number of rows of each group."""
        rows: dict[Place, int] = {}
        for file in self._files.values():
            for place, at in file.places.items():
                rows[place] = rows.get(place, 0) + file.batch(at).num_rows
        return rows

    def tables(self, place: Place) -> Tables:
        """Return the tables of one group."""
        return {
            name: _whole(name, file.batch(file.places[place]))
            for name, file in self._files.items()
            if place in file.places
        }

    @cached_property
    def _files(self) -> "dict[str, _Mapped]":
        paths = {name: _path(self._root, name) for name in TABLES}
        return {name: _Mapped(path) for name, path in paths.items() if path.exists()}


class _Mapped:
    """A table's file, mapped into memory."""

    def __init__(self, path: Path) -> None:
        self._reader = pa.ipc.open_file(pa.memory_map(str(path)))
        told: list[Any] = json.loads(self._reader.schema.metadata[_PLACES])
        self.places: dict[Place, int] = {
            (topic, topic_id, partition): at for at, (topic, topic_id, partition) in enumerate(told)
        }

    def batch(self, at: int) -> pa.RecordBatch:
        """Return a batch of the file. The data is read only when it is used."""
        return self._reader.get_batch(at)


def _path(root: Path, name: str) -> Path:
    return RunPaths(root).record / f"{name}.arrow"


def _whole(name: str, batch: pa.RecordBatch) -> pa.Table:
    """Return a batch as a table of the record. Columns that the batch lacks are null."""
    told = set(batch.schema.names)
    return pa.table({
        each.name: batch[each.name] if each.name in told else pa.nulls(batch.num_rows, each.type)
        for each in TABLES[name]
    })  # fmt: skip
