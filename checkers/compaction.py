"""From what a run left to its tables, in steps that tasks do side by side.

A small run is one step. Of a big one each unit (a writer, a node) is a step that writes parts
(`record/parts/<unit>.<table>.parquet`, sorted by place), and then each table is a step that puts
its parts together, place by place: so nobody ever holds more than one unit, or one place of one
table. Both engines take the same steps; only what could not be read comes back from them.
"""

import shutil
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa

from checkers.columns import joined
from checkers.ingest import NodeReader, Problem, Unit, ingest
from checkers.layout import Place, TableFile, write_table
from checkers.ordering import first_key, ordered
from checkers.stored import identified, topic_ids, units_of, write_notes, write_tables
from results.record.paths import RunPaths
from results.record.stream import STREAM_SUFFIX, stream_bytes
from results.record.tables import TABLES

SMALL_BYTES = 64 << 20
"""A run whose streams and logs are smaller is one step."""
HUGE_BYTES = 4 << 30
"""Of a run with more, two steps at once would need more memory than 6 GiB."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """Something that a task does for a run.

    Attributes:
        root: The run's folder.
        unit: Which of its units is read; None for all at once, or where a table is put together.
        number: Of the unit.
        table: Which table is put together; empty otherwise.
        alone: Whether it needs so much memory that no other step is taken meanwhile.
    """

    root: Path
    unit: Unit | None = None
    number: int = 0
    table: str = ""
    alone: bool = False


Steps = Sequence[Step]
Doer = Callable[[Steps], Iterable[tuple[Step, list[Problem]]]]
"""Takes steps in any order, or side by side; gives what could not be read in each."""


def compact(roots: Iterable[Path], do: Doer) -> None:
    """Work out the tables of runs.

    Args:
        roots: Their folders.
        do: Takes steps.
    """
    sizes = {root: _bytes(RunPaths(root)) for root in roots}
    big = {root: units_of(RunPaths(root)) for root in roots if sizes[root] >= SMALL_BYTES}
    huge = {root for root in big if sizes[root] >= HUGE_BYTES}
    for root in big:
        _clear(root)
    reads = [Step(root=root) for root in roots if root not in big]
    for root, units in big.items():
        reads += [
            Step(root=root, unit=unit, number=at, alone=root in huge)
            for at, unit in enumerate(units)
        ]
    problems: dict[Path, dict[int, list[Problem]]] = {root: {} for root in big}
    for step, found in do(reads):
        if step.unit is not None:
            problems[step.root][step.number] = found
    puts = [Step(root=root, table=name, alone=root in huge) for root in big for name in _ORDER]
    for _ in do(puts):
        pass
    for root, found_by in problems.items():
        write_notes(RunPaths(root), [each for at in sorted(found_by) for each in found_by[at]])
        _clear(root)


_ORDER = sorted(TABLES, key=lambda name: name not in {"replica_records", "polls"})
"""The biggest tables first."""


def take(step: Step, read_node: NodeReader) -> list[Problem]:
    """Take a step.

    Returns:
        What could not be read of its unit.
    """
    if step.table:
        _put_together(step.root, step.table)
        return []
    if step.unit is not None:
        return _write_parts(step, step.unit, read_node)
    paths = RunPaths(step.root)
    read = [ingest(unit, read_node) for unit in units_of(paths)]
    problems = [problem for _, found in read for problem in found]
    write_tables(paths, [tables for tables, _ in read], problems)
    return problems


def _bytes(paths: RunPaths) -> int:
    """Return how much a run left: streams (as they were when unpacked) and nodes' logs."""
    kept = (paths.nodes, paths.snapshots)
    logs = [file for folder in kept for file in folder.rglob("*.log")]
    streams = [_stream_bytes(path) for path in paths.live.glob(f"*{STREAM_SUFFIX}")]
    return sum(streams) + sum(file.stat().st_size for file in logs)


def _stream_bytes(path: Path) -> int:
    try:
        return stream_bytes(path)
    except OSError:
        return 0  # That it cannot be read is told by who reads it.


def _parts(root: Path) -> Path:
    return RunPaths(root).record / "parts"


def _clear(root: Path) -> None:
    shutil.rmtree(_parts(root), ignore_errors=True)


def _write_parts(step: Step, unit: Unit, read_node: NodeReader) -> list[Problem]:
    tables, problems = ingest(unit, read_node)
    ids = topic_ids(RunPaths(step.root))
    folder = _parts(step.root)
    folder.mkdir(parents=True, exist_ok=True)
    for name in list(tables):
        table = ordered(name, identified(name, tables.pop(name), ids))
        if table.num_rows:
            write_table(folder / f"{step.number:06}.{name}.parquet", name, [table])
    return problems


def _put_together(root: Path, name: str) -> None:
    files = [TableFile(name, path) for path in sorted(_parts(root).glob(f"*.{name}.parquet"))]
    write_table(RunPaths(root).table(name), name, _by_place(name, files))


def _by_place(name: str, files: Sequence[TableFile]) -> Iterator[pa.Table]:
    """Yield the rows of each place in order; at the end those that belong to no place."""
    places: set[Place | None] = {place for file in files for place in file.row_groups}
    known = sorted(place for place in places if place is not None)
    for place in (*known, *({None} & places)):
        parts = [file.rows_of(place) for file in files if place in file.row_groups]
        # Writers number their ops apart, and nodes have names: mostly nothing is left to sort.
        parts.sort(key=lambda part: first_key(name, part))
        whole = joined(parts)
        parts.clear()
        yield ordered(name, whole)
