"""Readers that give a task the tables of a group.

Because of these readers, checks do not depend on how data is stored. All later steps know only the
interface `GroupReader`. `StoredGroups` reads a run's files, on a path that the task can read.
`HandedGroups` reads the tables of an imported history, on a path that the task can read. If only
Spark can read a run, Spark brings the rows to the task and calls `examine`: see
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
"""A table with at most this many rows is read for all places at once."""
SHELVED_ROWS = 4_000_000
"""If a table has more rows than this for one place, the table's columns are read on demand."""


class GroupReader(Protocol):
    """An interface that gives the tables of a run, group by group."""

    def rows(self) -> dict[Place, int]:
        """Return the number of rows of each group. Rows of the run itself are under `RUN`.

        Raises:
            DamagedError: A file is damaged.
        """

    def tables(self, place: Place) -> Tables:
        """Return the tables of one group. Tables without rows may be missing.

        Raises:
            DamagedError: A file is damaged.
        """


class StoredGroups:
    """A `GroupReader` for files that this process can read."""

    def __init__(self, root: Path, facts: RunFacts) -> None:
        paths = RunPaths(root)
        self._facts = facts
        self._files = [
            TableFile(name, paths.table(name)) for name in TABLES if name not in facts.unread
        ]

    def rows(self) -> dict[Place, int]:
        """Return the number of rows of each group."""
        rows: dict[Place, int] = {}
        for file in self._files:
            for place, count in file.rows_by_place().items():
                if is_judged(self._facts, place):
                    rows[place] = rows.get(place, 0) + count
        return rows

    def tables(self, place: Place) -> Tables:
        """Return the tables of one group.

        The group's rows are read from all files before an error is raised, so that the error names
        every file with damaged rows of the group.
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
        """The files that are read for all places at once, each with the tables read so far."""
        return {file: {} for file in self._files if file.mixed or file.rows <= WHOLE_ROWS}

    def _of(self, file: TableFile, place: Place) -> Tables:
        read = self._whole[file]
        if not read:
            read |= {each: {file.name: rows} for each, rows in split(file.read())}
        return read.get(place, {})

    def _look_at_the_rest(self, file: TableFile) -> None:
        """Read the rows that belong to no group, because a damaged file may name wrong places."""
        for place in set(file.row_groups):
            if place is not None and not is_judged(self._facts, place) and file not in self._whole:
                file.read(place)


def reader_of(root: Path, facts: RunFacts) -> GroupReader:
    """Return a reader for the tables of a run's record, or of an imported history.

    Args:
        root: The run's folder, on a path that this process can read.
        facts: The run's context.
    """
    return HandedGroups(root) if facts.history else StoredGroups(root, facts)


def rows_of(file: TableFile, place: Place, shelf: Shelf) -> pa.Table:
    """Return a table's rows for a place. If there are many rows, columns are read on demand.

    Args:
        file: A table's file with one place in each row group.
        place: The place (topic and partition).
        shelf: The cache for columns of a group's big tables.

    Raises:
        DamagedError: The file is damaged.
    """
    if file.rows_by_place().get(place, 0) <= SHELVED_ROWS:
        return file.read(place)
    # A shelved table has everything that checkers use of a table.
    return cast("pa.Table", file.shelved(place, shelf))


def is_judged(facts: RunFacts, place: Place) -> bool:
    """Return whether the checkers judge a partition.

    Rows of topics outside the plan are not judged.

    If a fault recreated a topic, only the topic's last incarnation is judged. The fault deleted the
    earlier incarnations.
    """
    known = {(QUORUM_TOPIC, 0), *facts.numbers}
    return place == RUN or (place[0], place[2]) in known or facts.remade_at(*place) is not None


def examine_places(facts: RunFacts, reader: GroupReader, *places: Place) -> Iterator[Piece]:
    """Yield the results of the given groups of a run.

    For a damaged group, yield the damaged tables.
    """
    for place in places:
        try:
            tables = reader.tables(place)
        except DamagedError as hurt:
            yield from damaged(facts, hurt.names, place)
        else:
            yield from examine(facts, tables, place)
            cleared(tables)
