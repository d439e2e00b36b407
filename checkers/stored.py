"""A run's folder as the pipeline sees it: its context, and the tables that were worked out of it.

Whatever is missing or broken becomes a problem of `RunFacts`, never an exception.
"""

import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from checkers.columns import ints
from checkers.facts import CRASH, FINAL, RunFacts
from checkers.ingest import Problem, Tables, Unit, combined, live_units, node_units, with_topic_ids
from checkers.ordering import ordered
from results.record.milestones import Milestone, load_milestones
from results.record.paths import RunPaths
from results.record.plan import Plan, PlanError, load_plan, plan_from
from results.record.tables import SCHEMA_VERSION, TABLES
from results.record.topics import CreatedTopic, load_topics

_BROKEN = (OSError, ValueError, TypeError, KeyError, pa.ArrowException)
_OBSERVED = ("leadership", "replica_records", "replica_states", "truncations")


def _notes(paths: RunPaths) -> Path:
    """What ingest has to say of a record; written last, it marks the tables as complete."""
    return paths.record / "ingest.json"


def needs_ingest(paths: RunPaths) -> bool:
    """Tell whether a run's tables are missing, or were not finished."""
    whole = all(paths.table(name).exists() for name in TABLES)
    return not (whole and (_notes(paths).exists() or not paths.live.is_dir()))


def units_of(paths: RunPaths) -> list[Unit]:
    """Return what ingest has to read of a run."""
    stopped = any(each.name == "stopped" for each in _milestones(paths)[0])
    snapshot = FINAL if stopped else CRASH
    return [
        *live_units(paths.run_id, paths.live),
        *node_units(paths.run_id, paths.nodes, snapshot),
    ]


def write_tables(paths: RunPaths, parts: Iterable[Tables], problems: Iterable[Problem]) -> None:
    """Write a Parquet file a table, and then what could not be read.

    Args:
        paths: The run.
        parts: The tables of its units.
        problems: Of its units.
    """
    ids = _unique_topic_ids(_topics(paths)[0])
    paths.record.mkdir(parents=True, exist_ok=True)
    for name, table in combined(parts).items():
        whole = with_topic_ids(table, ids) if name in _OBSERVED else table
        pq.write_table(ordered(name, whole), paths.table(name))
    notes = {
        "schema_version": SCHEMA_VERSION,
        "run_id": paths.run_id,
        "problems": [asdict(problem) for problem in problems],
    }
    _notes(paths).write_text(json.dumps(notes, indent=1) + "\n", encoding="utf-8")


def load_facts(root: Path) -> RunFacts:
    """Return the context of a run whose tables are there."""
    paths = RunPaths(root)
    plan, plan_problems = _plan(paths)
    milestones, milestone_problems = _milestones(paths)
    topics, topic_problems = _topics(paths)
    recorded_id, noted, note_problems = _noted(paths)
    reservations, quorum = load_table(paths, "reservations"), load_table(paths, "quorum_states")
    mark = pc.max(quorum["high_watermark"]).as_py()
    unread = [f"the table {name} cannot be read" for name in TABLES if not _readable(paths, name)]
    nodes = {unit.name for unit in units_of(paths) if unit.snapshot}
    return RunFacts(
        run_id=paths.run_id,
        recorded_id=recorded_id,
        plan=plan,
        topics=tuple(topics),
        milestones=tuple(milestones),
        reservations=_ranges(reservations),
        quorum_high_watermark=mark,
        problems=(
            *plan_problems, *milestone_problems, *topic_problems, *note_problems, *unread,
            *(problem.sentence for problem in noted),
        ),
        cut_streams=any(problem.cut for problem in noted) or bool(unread),
        unreadable_nodes=frozenset(problem.unit for problem in noted if problem.unit in nodes),
    )  # fmt: skip


def readable_tables(paths: RunPaths) -> dict[str, Path]:
    """Return the Parquet files of a run that are what they should be, by table."""
    return {name: paths.table(name) for name in TABLES if _readable(paths, name)}


def load_table(paths: RunPaths, name: str) -> pa.Table:
    """Return a table of a run; empty if it cannot be read."""
    try:
        table = pq.ParquetFile(paths.table(name)).read()
        table.validate(full=True)
        return table.select(TABLES[name].names).cast(TABLES[name])
    except _BROKEN:
        return TABLES[name].empty_table()


def write_statistics(paths: RunPaths, statistics: Mapping[str, pa.Table]) -> None:
    """Write a Parquet file a statistic."""
    paths.statistics.mkdir(parents=True, exist_ok=True)
    for name, table in statistics.items():
        pq.write_table(table, paths.statistics / f"{name}.parquet")


def _readable(paths: RunPaths, name: str) -> bool:
    try:
        return bool(pq.read_schema(paths.table(name)).equals(TABLES[name]))
    except _BROKEN:
        return False


def _plan(paths: RunPaths) -> tuple[Plan, list[str]]:
    try:
        return plan_from(load_plan(paths.plan)), []
    except PlanError as broken:
        return Plan(), [f"what was asked of the system is not known: {broken}"]


def _milestones(paths: RunPaths) -> tuple[list[Milestone], list[str]]:
    try:
        return load_milestones(paths.milestones), []
    except _BROKEN as broken:
        return [], [f"the milestones cannot be read: {broken}"]


def _topics(paths: RunPaths) -> tuple[list[CreatedTopic], list[str]]:
    try:
        return load_topics(paths.topics), []
    except _BROKEN as broken:
        return [], [f"the list of topics cannot be read: {broken}"]


def _noted(paths: RunPaths) -> tuple[str, list[Problem], list[str]]:
    if not _notes(paths).exists():
        return _id_in_tables(paths), [], []
    try:
        notes = json.loads(_notes(paths).read_text(encoding="utf-8"))
        return str(notes["run_id"]), [Problem(**each) for each in notes["problems"]], []
    except _BROKEN as broken:
        return _id_in_tables(paths), [], [f"the notes of ingest cannot be read: {broken}"]


def _id_in_tables(paths: RunPaths) -> str:
    ids = load_table(paths, "ops")["run_id"]
    return str(ids[0].as_py()) if len(ids) else paths.run_id


def _ranges(reservations: pa.Table) -> tuple[tuple[int, int], ...]:
    columns = (ints(reservations, name).tolist() for name in ("value_from", "value_to"))
    return tuple(sorted(zip(*columns, strict=True)))


def _unique_topic_ids(topics: Iterable[CreatedTopic]) -> dict[str, str]:
    ids: dict[str, set[str]] = {}
    for each in topics:
        ids.setdefault(each.topic, set()).add(each.topic_id)
    return {topic: next(iter(known)) for topic, known in ids.items() if len(known) == 1}
