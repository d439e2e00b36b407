"""Build a run's tables from its streams and logs, in steps.

Parallel tasks do these steps. A small run is one step. For a big run, a first step divides each
unit (a writer or a node) into parts (`parts.py`). Then each part is a step, and writes files named
`record/parts/<unit>-<part>.<table>.parquet`, sorted by place. Finally, each table is a step that
merges these files, place by place. So a task holds at most one part, or one place of one table.
Only the step of `assignments` holds rows of all places. Spark and the local engine run the same
steps. A step returns no rows: it returns its reading problems, and its parts or the names of files.
"""

import fcntl
import os
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from itertools import groupby, pairwise
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from checkers.columns import joined
from checkers.ingest import (
    ASSIGNS,
    TOUCHES,
    BrokenStream,
    NodeLooker,
    NodeReader,
    Part,
    Problem,
    Unit,
    ingest,
    with_run,
)
from checkers.layout import GROUP_ROWS, Place, Reach, TableFile, write_table
from checkers.left_out import left_out
from checkers.ordering import PLACE, ordered, sort_keys
from checkers.parts import PART_BYTES, node_parts, shortened, writer_parts
from checkers.stored import identified, topic_ids, units_of, write_notes, write_tables
from results.record.paths import RunPaths
from results.record.stream import STREAM_SUFFIX, stream_bytes
from results.record.tables import LIVE, TABLES
from results.record.whole import drafts, written_whole

SMALL_BYTES = 64 << 20
"""A run is one step if its streams and logs have fewer bytes than this."""
_MOVES = "assignments"


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One step of a run's compaction, done by one task.

    Attributes:
        root: The run's folder.
        unit: The unit to divide into parts, or the part to read. It is None if the whole run is one
            step, or if the step merges a table.
        number: The unit's number.
        table: The table to merge; otherwise empty.
        files: The names of all files that the parts wrote. The step merges the files of its table.
        bytes: About how many bytes the step reads. For a merge, the bytes of the whole run. 0 if
            the step divides a unit.
    """

    root: Path
    unit: Unit | None = None
    number: int = 0
    table: str = ""
    files: tuple[str, ...] = ()
    bytes: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """The result of a step.

    Attributes:
        problems: The reasons why some data could not be read.
        parts: The parts of the unit, if the step divided a unit.
        files: The names of the files that a part wrote.
    """

    problems: Sequence[Problem] = ()
    parts: Sequence[Unit] = ()
    files: tuple[str, ...] = ()


Steps = Sequence[Step]
Doer = Callable[[Steps], Iterable[tuple[Step, Found]]]
"""A function that does the given steps, in any order or in parallel."""


@dataclass(slots=True)
class _Reading:
    """The state of one unit of a big run while its parts are read."""

    root: Path
    number: int
    parts: list[Unit] = field(default_factory=list)
    problems: dict[int, list[Problem]] = field(default_factory=dict)
    """The problems of each part. The key -1 has the problems of the step that divided the unit."""
    first: dict[str, BrokenStream] = field(default_factory=dict)
    files: dict[int, tuple[str, ...]] = field(default_factory=dict)
    """The names of the files that each part wrote."""

    def due(self) -> dict[int, Unit]:
        """Return the parts that must be read next. A part of a broken stream may be read again."""
        unread = {at: part for at, part in enumerate(self.parts) if at not in self.problems}
        if unread:
            return unread
        broken = [
            each for found in self.problems.values() for each in found
            if isinstance(each, BrokenStream)
        ]  # fmt: skip
        again, self.first = shortened(self.parts, broken)
        for at, part in again.items():
            self.parts[at] = part
            self.problems[at] = [
                each for each in self.problems[at] if isinstance(each, BrokenStream)
            ]
        return again

    def told(self) -> list[Problem]:
        """Return the unit's problems without repetitions."""
        rest = [
            each for at in sorted(self.problems) for each in self.problems[at]
            if not isinstance(each, BrokenStream)
        ]  # fmt: skip
        cut = [
            Problem(unit=each.unit, sentence=each.sentence, cut=True)
            for _, each in sorted(self.first.items())
        ]
        return [*cut, *dict.fromkeys(rest)]


def compact(roots: Iterable[Path], do: Doer) -> None:
    """Build the tables of runs.

    Args:
        roots: The runs' folders.
        do: The function that does the steps.
    """
    sizes = {root: _bytes(RunPaths(root)) for root in roots}
    small = [Step(root=root, bytes=size) for root, size in sizes.items() if size < SMALL_BYTES]
    big = sorted(root for root, size in sizes.items() if size >= SMALL_BYTES)
    with ExitStack() as held:
        for root in big:
            held.enter_context(alone(root))
            _sweep(root)
        _compact(small, {root: sizes[root] for root in big}, do)


def sweep_left(root: Path) -> None:
    """Remove the files of an interrupted compaction: parts, and incomplete tables.

    Args:
        root: The run's folder. If another check still uses this folder, the function removes
            nothing.
    """
    with suppress(OSError), alone(root, wait=False):
        _sweep(root)


@contextmanager
def alone(root: Path, *, wait: bool = True) -> Iterator[None]:
    """Lock a run's folder, so that two checks do not mix up its parts.

    Raises:
        BlockingIOError: Another check holds the lock, and `wait` is false.
    """
    folder = os.open(RunPaths(root).record, os.O_RDONLY | os.O_DIRECTORY)
    try:
        fcntl.flock(folder, fcntl.LOCK_EX if wait else fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield
    finally:
        os.close(folder)


def _sweep(root: Path) -> None:
    shutil.rmtree(_parts(root), ignore_errors=True)
    for name in TABLES:
        for left in RunPaths(root).record.glob(drafts(RunPaths(root).table(name))):
            left.unlink(missing_ok=True)


def _compact(small: Steps, sizes: Mapping[Path, int], do: Doer) -> None:
    """Build the tables of small runs in one step each, and of big runs in parts."""
    big = list(sizes)
    looks = []
    for root in big:
        looks += [
            Step(root=root, unit=unit, number=at)
            for at, unit in enumerate(units_of(RunPaths(root)))
        ]
    readings: dict[tuple[Path, int], _Reading] = {}
    for step, found in do([*small, *looks]):
        if step.unit is not None:
            readings[step.root, step.number] = _Reading(
                step.root, step.number, list(found.parts), {-1: list(found.problems)}
            )
    _read(readings, do)
    files = {root: _files(root, readings) for root in big}
    puts = [
        Step(root=root, table=name, files=files[root], bytes=sizes[root])
        for root in big
        for name in _ORDER
    ]
    for _ in do(puts):
        pass
    for root in big:
        _sweep(root)  # Before the notes, because a run with notes is not compacted again.
        told = [each for (of, _), each in sorted(readings.items()) if of == root]
        write_notes(RunPaths(root), [problem for each in told for problem in each.told()])


def _files(root: Path, readings: Mapping[tuple[Path, int], _Reading]) -> tuple[str, ...]:
    """Return the names of all files that a run's parts wrote, so that a missing file is noticed."""
    return tuple(
        sorted(
            file
            for (of, _), reading in readings.items()
            if of == root
            for written in reading.files.values()
            for file in written
        )
    )


def _part_of(step: Step) -> Part:
    assert step.unit is not None, "it reads a unit"
    assert step.unit.part is not None, "or a part of it"
    return step.unit.part


def _read(readings: dict[tuple[Path, int], _Reading], do: Doer) -> None:
    """Read all parts of all units. Read a broken stream again, but only up to the break."""
    while True:
        due = [
            Step(root=root, unit=unit, number=number, bytes=unit.part.bytes if unit.part else 0)
            for (root, number), reading in readings.items()
            for unit in reading.due().values()
        ]
        if not due:
            return
        for step, found in do(due):
            part = _part_of(step)
            reading = readings[step.root, step.number]
            reading.problems.setdefault(part.number, []).extend(found.problems)
            reading.files[part.number] = found.files


_ORDER = sorted(TABLES, key=lambda name: name not in {"replica_records", "polls", "sends"})
"""The names of the tables, the biggest tables first."""


def take(step: Step, read_node: NodeReader, look: NodeLooker) -> Found:
    """Do one step.

    Args:
        step: The step.
        read_node: The function that reads a node's files.
        look: The function that lists a node's replicas.
    """
    if step.table:
        _put_together(step)
        return Found()
    if step.unit is not None:
        if step.unit.part is not None:
            return _write_part(step, step.unit, read_node)
        return _looked_at(step.unit, look)
    paths = RunPaths(step.root)
    read = [ingest(unit, read_node) for unit in units_of(paths)]
    problems = [problem for _, found in read for problem in found]
    write_tables(paths, [tables for tables, _ in read], problems)
    return Found(problems=problems)


def _bytes(paths: RunPaths) -> int:
    """Return the size of a run's streams (unpacked) and of its nodes' logs, in bytes."""
    kept = (paths.nodes, paths.snapshots)
    logs = [file for folder in kept for file in folder.rglob("*.log")]
    streams = [_stream_bytes(path) for path in paths.live.glob(f"*{STREAM_SUFFIX}")]
    return sum(streams) + sum(map(_file_bytes, logs))


def _file_bytes(path: Path) -> int:
    try:
        return path.lstat().st_size
    except OSError:
        return 0


def _stream_bytes(path: Path) -> int:
    try:
        return stream_bytes(path)
    except OSError:
        return 0  # The task that reads the stream reports the error.


def _looked_at(unit: Unit, look: NodeLooker) -> Found:
    if not unit.snapshot:
        parts, broken = writer_parts(unit, PART_BYTES)
        return Found(parts=parts, problems=broken)
    return Found(parts=node_parts(unit, look(unit), PART_BYTES))


def _parts(root: Path) -> Path:
    return RunPaths(root).record / "parts"


def _write_part(step: Step, unit: Unit, read_node: NodeReader) -> Found:
    part = _part_of(step)
    tables, problems = ingest(unit, read_node)
    ids = topic_ids(RunPaths(step.root))
    folder = _parts(step.root)
    folder.mkdir(parents=True, exist_ok=True)
    stem = f"{step.number:06}-{part.number:06}"
    for left in folder.glob(f"{stem}.*"):  # Files of an earlier try, with too many rows.
        left.unlink()
    for name in (ASSIGNS, TOUCHES):
        if name in tables:
            with written_whole(folder / f"{stem}.{name}.parquet") as file:
                pq.write_table(tables.pop(name), file)
    for name in list(tables):
        table = ordered(name, identified(name, tables.pop(name), ids))
        if table.num_rows:
            write_table(folder / f"{stem}.{name}.parquet", name, [table])
    return Found(
        problems=problems, files=tuple(path.name for path in folder.glob(f"{stem}.*.parquet"))
    )


def _put_together(step: Step) -> None:
    root, name = step.root, step.table
    paths = [*_written(step, name), *(_leave_out(step) if name == _MOVES else ())]
    files = [TableFile(name, path, own=True) for path in paths]
    write_table(RunPaths(root).table(name), name, _by_place(name, files))


def _written(step: Step, name: str) -> list[Path]:
    """Return the files that a run's parts wrote for a table."""
    return [_parts(step.root) / file for file in step.files if file.split(".")[1] == name]


def _leave_out(step: Step) -> list[Path]:
    """Write the `left-out` rows of assignments as one more file, and return its path."""
    root = step.root
    assigns, touches = (
        [pq.read_table(path) for path in _written(step, name)] for name in (ASSIGNS, TOUCHES)
    )
    if not assigns:
        return []
    files = [TableFile(_MOVES, path, own=True) for path in _written(step, _MOVES)]
    schema = LIVE[_MOVES]
    moves = joined([schema.empty_table(), *(file.read_columns(schema.names) for file in files)])
    rows = left_out(joined(assigns), moves, joined(touches))
    if not rows.num_rows:
        return []
    table = ordered(_MOVES, with_run(_MOVES, rows, RunPaths(root).run_id))
    path = _parts(root) / f"left-out.{_MOVES}.parquet"
    write_table(path, _MOVES, [table])
    return [path]


def _by_place(name: str, files: Sequence[TableFile]) -> Iterator[pa.Table]:
    """Yield the rows of a table place by place, sorted as `ordered` sorts them.

    There are only few rows without a place, so these rows are sorted together.
    """
    places: set[Place | None] = {place for file in files for place in file.row_groups}
    homeless = _homeless(name, files) if None in places else {}
    known = {_rank(place): place for place in places if place is not None}
    for rank in sorted({*known, *homeless}):
        if rank in homeless:
            yield homeless[rank]
            continue
        place = known[rank]
        parts = [file for file in files if place in file.row_groups]
        yield from _in_turn(name, place, parts) or _sorted(name, place, parts)


def _homeless(name: str, files: Sequence[TableFile]) -> "dict[_Rank, pa.Table]":
    """Return the rows whose place is partly unknown, grouped by the known columns of the place."""
    (rows,) = _sorted(name, None, [file for file in files if None in file.row_groups])
    said = zip(*(rows[each].to_pylist() for each in PLACE), strict=True)
    found: dict[_Rank, pa.Table] = {}
    at = 0
    for rank, same in groupby(map(_rank, said)):
        count = sum(1 for _ in same)
        found[rank] = rows.slice(at, count)
        at += count
    return found


_Rank = tuple[tuple[bool, str | int], ...]


def _rank(place: Iterable[str | int | None]) -> _Rank:
    """Return a place's sort key, which sorts as `ordered` does: unknown values come last."""
    return tuple((each is None, 0 if each is None else each) for each in place)


def _in_turn(name: str, place: Place, files: Sequence[TableFile]) -> Iterator[pa.Table] | None:
    """Return the rows of a place, file by file, in key order.

    Return None if the key ranges of the files overlap, or if a range is unknown.
    """
    reaches = [file.reach(place, sort_keys(name)) for file in files]
    by_key = sorted(
        ((reach, at) for at, reach in enumerate(reaches) if reach is not None),
    )
    if len(by_key) < len(files) or any(
        not _is_behind(later[0], earlier[0]) for earlier, later in pairwise(by_key)
    ):
        return None
    return _gathered(name, place, [files[at] for _, at in by_key])


def _is_behind(later: Reach, earlier: Reach) -> bool:
    """Return whether, by the known key columns, all keys of one file are above all of another."""
    known = min(len(later[0]), len(earlier[1]))
    return later[0][:known] > earlier[1][:known]


def _gathered(name: str, place: Place, files: Sequence[TableFile]) -> Iterator[pa.Table]:
    """Yield the rows of files in order, in tables of about one row group each."""
    waiting: list[pa.Table] = []
    for file in files:
        waiting.append(ordered(name, file.rows_of(place)))
        if sum(each.num_rows for each in waiting) >= GROUP_ROWS:
            yield joined(waiting)
            waiting = []
    if waiting:
        yield joined(waiting)


def _sorted(name: str, place: Place | None, files: Sequence[TableFile]) -> Iterator[pa.Table]:
    parts = [file.rows_of(place) for file in files]
    whole = joined(parts)  # Sorted by unit and part, which decides the order of equal keys.
    parts.clear()
    yield ordered(name, whole)
