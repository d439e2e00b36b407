"""How a task gets the tables of a group: the seam between where records lie and what judges them.

`GroupReader` is all that anything behind it knows. `StoredGroups` reads the record's own files, on
a path that the task sees, `HandedGroups` a history's tables there; a route for records that only
Spark can read brings the rows to the task otherwise, and calls `examine` with them: see
`checkers/spark/engine.py`.
"""

from collections.abc import Iterator
from functools import cached_property
from pathlib import Path
from typing import Protocol, cast

import pyarrow as pa

from checkers.examine import Piece, damaged, examine
from checkers.facts import RunFacts
from checkers.handed import HandedGroups
from checkers.ingest import Tables
from checkers.layout import RUN, DamagedError, Place, TableFile, split
from checkers.shelf import Shelf, cleared
from results.record.paths import RunPaths
from results.record.tables import TABLES
from results.record.terms import QUORUM_TOPIC

WHOLE_ROWS = 200_000
"""A table of so many rows is read at once for all places of a run, rather than place by place."""
SHELVED_ROWS = 4_000_000
"""Of a place with more rows of a table, columns are read when they are asked for."""


class GroupReader(Protocol):
    """Gives the tables of a run, group by group."""

    def rows(self) -> dict[Place, int]:
        """Return how many rows each group of the run has, those of the run itself under `RUN`.

        Raises:
            DamagedError: What lies there is not what was written.
        """

    def tables(self, place: Place) -> Tables:
        """Return the tables of one group; those without rows may be missing.

        Raises:
            DamagedError: What lies there is not what was written.
        """


class StoredGroups:
    """A `GroupReader` for files that this process sees."""

    def __init__(self, root: Path, facts: RunFacts) -> None:
        paths = RunPaths(root)
        self._facts = facts
        self._files = [
            TableFile(name, paths.table(name)) for name in TABLES if name not in facts.unread
        ]

    def rows(self) -> dict[Place, int]:
        """Return how many rows each group has."""
        rows: dict[Place, int] = {}
        for file in self._files:
            for place, count in file.rows_by_place().items():
                if is_judged(self._facts, place):
                    rows[place] = rows.get(place, 0) + count
        return rows

    def tables(self, place: Place) -> Tables:
        """Return the tables of one group.

        All files are read to their end before anything is raised, so that every damaged one is
        known at once.
        """
        tables: Tables = {}
        hurt, shelf = [], Shelf()
        for file in self._files:
            try:
                if file in self._whole:
                    tables |= self._of(file, place)
                elif place in file.row_groups:
                    tables[file.name] = rows_of(file, place, shelf)
                if place == RUN:
                    self._look_at_the_rest(file)
            except DamagedError:
                hurt.append(file.name)
        if hurt:
            raise DamagedError(*hurt)
        return {name: table for name, table in tables.items() if table.num_rows}

    @cached_property
    def _whole(self) -> dict[TableFile, dict[Place, Tables]]:
        """The files that are read at once, with what was read of them so far."""
        return {file: {} for file in self._files if file.mixed or file.rows <= WHOLE_ROWS}

    def _of(self, file: TableFile, place: Place) -> Tables:
        read = self._whole[file]
        if not read:
            read |= {each: {file.name: rows} for each, rows in split(file.read())}
        return read.get(place, {})

    def _look_at_the_rest(self, file: TableFile) -> None:
        """Read what no group reads: its place may be wrong because the file is damaged."""
        for place in set(file.row_groups):
            if place is not None and not is_judged(self._facts, place) and file not in self._whole:
                file.read(place)


def reader_of(root: Path, facts: RunFacts) -> GroupReader:
    """Return what gives the tables of a run: those of its record, or of a history as handed over.

    Args:
        root: On a path that this process sees.
        facts: The run's context.
    """
    return HandedGroups(root) if facts.history else StoredGroups(root, facts)


def rows_of(file: TableFile, place: Place, shelf: Shelf) -> pa.Table:
    """Return a table's rows of a place; if they are many, columns are read when asked for.

    Args:
        file: One that is not mixed.
        place: Where.
        shelf: Keeps the columns of all big tables of a group.

    Raises:
        DamagedError: What lies there is not what was written.
    """
    if file.rows_by_place().get(place, 0) <= SHELVED_ROWS:
        return file.read(place)
    # What kernels use of a table, it has.
    return cast("pa.Table", file.shelved(place, shelf))


def is_judged(facts: RunFacts, place: Place) -> bool:
    """Tell whether a place is the run's: rows of other topics are not judged.

    Of a topic that a fault made again, its last incarnation is: the others are gone by order.
    """
    known = {(QUORUM_TOPIC, 0), *facts.numbers}
    return place == RUN or (place[0], place[2]) in known or facts.remade_at(*place) is not None


def examine_places(facts: RunFacts, reader: GroupReader, *places: Place) -> Iterator[Piece]:
    """Yield the results of some groups of a run; of one that is damaged, what is damaged."""
    for place in places:
        try:
            tables = reader.tables(place)
        except DamagedError as hurt:
            yield from damaged(facts, hurt.names, place)
        else:
            yield from examine(facts, tables, place)
            cleared(tables)
