"""The engine without Spark: the same functions, one after the other, in this process."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Self

import numpy as np
import pyarrow as pa

from checkers.columns import equal, ints, present, select, take
from checkers.examine import RUN, Piece, examine
from checkers.facts import RunFacts
from checkers.ingest import Problem, Tables, Unit, ingest
from checkers.judge import Place
from checkers.spark.nodes import read_node
from checkers.stored import load_table, readable_tables
from results.record.paths import RunPaths


class LocalEngine:
    """An `Engine` for machines without Java, and for runs that are small."""

    name = "local"

    def __enter__(self) -> Self:
        """Start nothing."""
        return self

    def __exit__(self, *_error: object) -> None:
        """Stop nothing."""

    def ingest(self, units: Sequence[Unit]) -> Iterator[tuple[Unit, Tables, list[Problem]]]:
        """Yield the tables of each unit."""
        for unit in units:
            yield unit, *ingest(unit, read_node)

    def examine(self, runs: Mapping[Path, RunFacts]) -> Iterator[Piece]:
        """Yield the results of each group of the runs."""
        for root, facts in runs.items():
            paths = RunPaths(root)
            tables = {name: load_table(paths, name) for name in readable_tables(paths)}
            for place, group in groups(tables, facts).items():
                yield from examine(facts, group, place)


def groups(tables: Mapping[str, pa.Table], facts: RunFacts) -> dict[Place, dict[str, pa.Table]]:
    """Return a run's tables by place: those without a partition under `RUN`.

    Rows of topics that are not the run's, or whose topic_id is not known, are not judged.
    """
    found: dict[Place, dict[str, pa.Table]] = {}
    for name, table in tables.items():
        if "partition" not in table.column_names:
            if table.num_rows:
                found.setdefault(RUN, {})[name] = table
            continue
        for place, rows in _by_place(table, facts):
            found.setdefault(place, {})[name] = rows
    return found


def _by_place(table: pa.Table, facts: RunFacts) -> Iterator[tuple[Place, pa.Table]]:
    topics = facts.plan.topic_names
    named = present(table, "topic_id") & present(table, "partition")
    rows = select(table, equal(table, "topic", *topics) & named)
    ids = rows["topic_id"].combine_chunks().dictionary_encode()
    topic_of = rows["topic"].combine_chunks().dictionary_encode()
    keys = [np.asarray(column.indices) for column in (topic_of, ids)] + [ints(rows, "partition")]
    order = np.lexsort(keys)
    ranked = np.stack([key[order] for key in keys]) if len(order) else np.zeros((3, 0))
    cuts = np.flatnonzero((ranked[:, 1:] != ranked[:, :-1]).any(axis=0)) + 1
    for part in np.split(order, cuts) if len(order) else ():
        first = int(part[0])
        place = (
            str(rows["topic"][first].as_py()),
            str(rows["topic_id"][first].as_py()),
            int(rows["partition"][first].as_py()),
        )
        if place[:1] + place[2:] in facts.numbers:
            yield place, take(rows, np.sort(part))
