"""Read a run's folder, file by file.

If a file is missing or broken, the functions `read_...` return a sentence about it, and raise no
exception.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import pyarrow as pa

from checkers.ingest import Problem
from checkers.layout import DamagedError, TableFile
from results.record.declared import Declared, DeclaredError, load_declared
from results.record.milestones import Milestone, load_milestones
from results.record.paths import RunPaths
from results.record.plan import Plan, PlanError, load_plan, plan_from
from results.record.reading import parse_json, read_lines, read_text
from results.record.seal import seal
from results.record.steps import Step, load_steps
from results.record.tables import TABLES
from results.record.topics import CreatedTopic, load_topics

BROKEN = (OSError, ValueError, TypeError, KeyError, OverflowError, RecursionError,
          pa.ArrowException)  # fmt: skip
"""The exceptions that reading a file of unknown origin can raise."""
LATER = frozenset({"commits", "kept_commits", "transforms", "shared"})
"""The tables that were added later, so that older runs do not have them."""


def notes_file(paths: RunPaths) -> Path:
    """Return the file of ingest's notes. Ingest writes this file last, after all tables."""
    return paths.record / "ingest.json"


def ingest_notes(paths: RunPaths) -> Mapping[str, Any]:
    """Return the notes of ingest.

    Raises:
        OSError, ValueError: The notes are missing or cannot be read.
    """
    notes = parse_json(read_text(notes_file(paths), root=paths.root))
    if not isinstance(notes, dict):
        raise ValueError("this is not a JSON object")  # noqa: TRY004 - as other damage
    return notes


def version_of(notes: Mapping[str, Any]) -> int:
    """Return the version of ingest that wrote the notes; 0 if the notes name no version."""
    return int(notes.get("ingest", notes.get("reads", 0)))


def tables_of(paths: RunPaths) -> frozenset[str]:
    """Return the tables that a run's record must have.

    A table that was added later is left out if the run does not have it.
    """
    return frozenset(TABLES) - (LATER - _seals(paths).keys())


def readable_tables(paths: RunPaths) -> dict[str, Path]:
    """Return the Parquet files of a run that have the right columns and the right seal, by table.

    The pages of a file are checked only when they are read: see `layout.DamagedError`.
    """
    files = [TableFile(name, paths.table(name)) for name in TABLES]
    seals = _seals(paths)
    sound = (each for each in files if each.sound and _sealed(each, seals))
    return {each.name: each.path for each in sound}


def _seals(paths: RunPaths) -> Mapping[str, str]:
    """Return the seals of a run's tables, by table. A seal is a digest of a file's footer.

    Tables of an early ingest have no seals.
    """
    try:
        return dict(ingest_notes(paths).get("seals", {}))
    except BROKEN:
        return {}  # Unreadable notes are reported elsewhere.


def _sealed(file: TableFile, seals: Mapping[str, str]) -> bool:
    return file.name not in seals or seal(file.path) == seals[file.name]


def load_table(paths: RunPaths, name: str, columns: Sequence[str] = ()) -> pa.Table:
    """Return a table of a run, or only the named columns.

    If the table cannot be read, the result is empty. Use this only for small tables or few columns,
    because the whole result is in memory.
    """
    schema = TABLES[name] if not columns else pa.schema([TABLES[name].field(c) for c in columns])
    file = TableFile(name, paths.table(name))
    try:
        return file.read_columns(schema.names).cast(schema) if file.sound else schema.empty_table()
    except DamagedError:
        return schema.empty_table()


def pieces_of(paths: RunPaths, name: str, columns: Sequence[str]) -> Iterator[pa.Table]:
    """Yield the named columns of a run's table in chunks, as far as the table can be read."""
    file = TableFile(name, paths.table(name))
    with suppress(DamagedError):
        yield from file.pieces(columns) if file.sound else ()


def read_plan(paths: RunPaths) -> tuple[Plan, list[str]]:
    """Return the plan of a run. If it cannot be read, return the default plan and the reason."""
    try:
        return plan_from(load_plan(paths.plan)), []
    except PlanError as broken:
        return Plan(), [f"the plan cannot be read, so the promises are unknown: {broken}"]


def read_declared(paths: RunPaths, plan: Plan) -> tuple[Declared, list[str]]:
    """Return a run's declared system; if unreadable, a system that shows nothing, and why."""
    try:
        return load_declared(paths.system, plan), []
    except DeclaredError as broken:
        why = f"the system's declared observations cannot be read: {broken}"
        return Declared(sees=frozenset()), [why]


def read_milestones(paths: RunPaths) -> tuple[list[Milestone], list[str]]:
    """Return a run's milestones up to the first unreadable line. Each line is one milestone."""
    try:
        milestones = load_milestones(paths.milestones)
        lines = b"\n".join(read_lines(paths.milestones)).splitlines()
    except BROKEN as broken:
        return [], [f"the milestones cannot be read: {broken}"]
    if len(milestones) < len(lines):
        count = f"only {len(milestones)} of {len(lines)}"
        return milestones, [f"the milestones cannot be read to their end: {count}"]
    return milestones, []


def read_topics(paths: RunPaths) -> tuple[list[CreatedTopic], list[str]]:
    """Return the topics of a run. If they cannot be read, return no topics, and the reason."""
    try:
        return load_topics(paths.topics), []
    except BROKEN as broken:
        return [], [f"the list of topics cannot be read: {broken}"]


def read_steps(paths: RunPaths) -> tuple[list[Step], list[str]]:
    """Return a scenario's steps up to the first unreadable line. Each line is one step."""
    try:
        steps = load_steps(paths.steps)
        lines = b"\n".join(read_lines(paths.steps)).splitlines()
    except OSError as broken:
        return [], [f"the steps cannot be read: {broken}"]
    if len(steps) < len(lines):
        return steps, [f"the steps cannot be read to their end: only {len(steps)} of {len(lines)}"]
    return steps, []


def read_notes(paths: RunPaths) -> tuple[str, list[Problem], list[str]]:
    """Return the tables' run id, the problems that ingest noted, and the problems of the notes."""
    if not notes_file(paths).exists():
        return _id_in_tables(paths), [], ["the notes of ingest are missing"]
    try:
        notes = ingest_notes(paths)
        problems = [Problem(**each) for each in notes["problems"]]
        if not all(
            isinstance(text, str) for each in problems for text in (each.unit, each.sentence)
        ):
            raise TypeError("a problem has no text")
        return str(notes["run_id"]), problems, []
    except BROKEN as broken:
        return _id_in_tables(paths), [], [f"the notes of ingest cannot be read: {broken}"]


def _id_in_tables(paths: RunPaths) -> str:
    ids = load_table(paths, "ops", ["run_id"])["run_id"]
    return str(ids[0].as_py()) if len(ids) else paths.run_id
