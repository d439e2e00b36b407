"""Load a run's folder for the pipeline: the run's facts, and the tables that ingest made.

A missing or broken file becomes a problem in `RunFacts`, never an exception.
"""

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from checkers.absences import absences, answers_around
from checkers.acknowledger import ZOOKEEPER
from checkers.calm import calm_from_ns, silences
from checkers.changes import disturbances
from checkers.columns import Ints, equal, ints, present, select, texts
from checkers.disk_losses import disk_losses
from checkers.facts import CRASH, FINAL, Disturbance, RunFacts
from checkers.folder import (
    BROKEN,
    LATER,
    ingest_notes,
    load_table,
    notes_file,
    pieces_of,
    read_declared,
    read_milestones,
    read_notes,
    read_plan,
    read_steps,
    read_topics,
    readable_tables,
    tables_of,
    version_of,
)
from checkers.ingest import (
    Problem,
    Tables,
    Unit,
    combined,
    live_units,
    node_units,
    step_units,
    with_topic_ids,
)
from checkers.layout import TableFile, write_table
from checkers.ordering import ordered
from checkers.positions import LEFT_OUT
from checkers.quorum import ENTRY_COLUMNS, quorum_facts
from checkers.reigns import CUT_COLUMNS, ENDING, Reign, cuts, lasting, reigns
from checkers.remade_topics import remade_topics
from checkers.taking import MARK_COLUMNS, taking
from checkers.transactions import (
    POLL_COLUMNS,
    SEND_COLUMNS,
    doubts,
    unknown_sends,
    witnessed,
)
from checkers.unclean_orders import unclean_orders
from checkers.weakest import as_weakest
from results.record.atomic import write_atomically
from results.record.declared import SHOWN_BY_FILES, Sight
from results.record.milestones import DRAINED, Milestone
from results.record.nodes import broker_names, controller_names
from results.record.parquet import open_parquet
from results.record.paths import RunPaths
from results.record.plan import Plan
from results.record.seal import seal
from results.record.shares import has_shares
from results.record.stream import STREAM_SUFFIX, stream_parts
from results.record.tables import DAMAGE, SCHEMA_VERSION, TABLES
from results.record.terms import Outcome
from results.record.topics import CreatedTopic
from results.record.whole import written_whole

_OPS_STREAMS = (
    "op_invocations", "op_completions", "send_invocations", "send_completions", "polled",
    "assignments",
)  # fmt: skip
"""The streams that must exist for every worker and for the final reader, with any plan."""
_POLLS_AT_ONCE = 1_000_000
_OBSERVED = ("leadership", "replica_records", "replica_states", "truncations", "kept_commits")
_EVENTS = frozenset({"faults", "leadership", "replica_states", "truncations"})
"""The tables with the events that may allow an anomaly."""
_NEMESIS, _OBSERVER = "nemesis", "observer-"
"""The writer that records faults, and the first word of the names of those that ask servers."""
_INGEST = 3
"""The version of ingest. Ingest writes this version into its notes. Notes without a version have
version 0. The version grows when ingest makes other tables from the same files. Version 1 reads the
quorum's log, and adds `left-out` assignments. Version 2 reads the groups' log. Version 3 also
counts, in the `messages` of an op, the confirmed acknowledgements of a share group."""
_SEEN = "observed_ns"
_SCRIPT = "script"
"""The writer of a scenario's own ops. For ops with another `acks` setting, another writer is opened
on demand."""


def needs_ingest(paths: RunPaths) -> bool:
    """Return whether ingest must make a run's tables: they are missing, incomplete or outdated.

    Without live streams, ingest cannot make tables. Then existing tables must not be overwritten.
    """
    whole = all(paths.table(name).exists() for name in tables_of(paths))
    done = whole and notes_file(paths).exists() and not _outgrown(paths)
    return can_ingest(paths) and not done


def _outgrown(paths: RunPaths) -> bool:
    """Return whether an older version made the tables, and this version can make them again.

    If streams or nodes' files have been removed, ingest can now read less than the old tables
    contain. Then the old tables are kept.
    """
    try:
        old = version_of(ingest_notes(paths)) < _INGEST
    except BROKEN:
        return False  # Broken notes are reported, and not overwritten.
    return old and not missing_streams(paths) and _has_logs(paths)


def _has_logs(paths: RunPaths) -> bool:
    """Return whether the source of the replicas' records still exists: nodes' logs, or a stream.

    If the table has no rows, no source is necessary.
    """
    logs = [next(unit.folder.glob("data/*/*.log"), None) for unit in _node_units(paths)]
    streams = paths.live.glob(f"replica_records.*{STREAM_SUFFIX}")
    return any([*logs, *streams]) or not _rows(paths, "replica_records")


def _rows(paths: RunPaths, name: str) -> int:
    """Return the number of rows of a table, or 1 if the table is damaged."""
    try:
        return TableFile(name, paths.table(name)).rows
    except BROKEN:
        return 1


def can_ingest(paths: RunPaths) -> bool:
    """Return whether the live streams of a run still exist."""
    return next(paths.live.glob(f"*{STREAM_SUFFIX}"), None) is not None


def units_of(paths: RunPaths) -> list[Unit]:
    """Return the units (writers and nodes) that ingest must read for a run."""
    return [*live_units(paths.run_id, paths.live), *_node_units(paths)]


def _node_units(paths: RunPaths) -> list[Unit]:
    sees = read_declared(paths, read_plan(paths)[0])[0].sees
    if not sees & SHOWN_BY_FILES:
        return []
    stopped = any(each.name == "stopped" for each in read_milestones(paths)[0])
    snapshot = FINAL if stopped else CRASH
    units = [
        *node_units(paths.run_id, paths.nodes, snapshot),
        *step_units(paths.run_id, paths.snapshots),
    ]
    old = _is_old(paths)
    return [replace(unit, sees=sees, old=old) for unit in units]


def _is_old(paths: RunPaths) -> bool:
    """Return whether a run is from an old version that recorded no keys, headers or timestamps."""
    streams = sorted(paths.live.glob(f"polled.*{STREAM_SUFFIX}"))
    return not any(DAMAGE[0] in _columns(path) for path in streams)


def _columns(stream: Path) -> list[str]:
    """Return the column names of a live stream, or an empty list if the stream is damaged."""
    try:
        schema, _ = next(stream_parts(stream))
        return list(schema.names)
    except StopIteration:
        return []
    except BROKEN:
        return []


def missing_streams(paths: RunPaths) -> list[Problem]:
    """Return a problem for each stream that is missing, although the milestones require it.

    Every writer opens all of its streams when it starts. Suppose that a stream is missing. Without
    this check, a record that the stream's writer read would count as unseen. A record that the
    stream's writer sent would count as never sent. A fault or an answer would never have happened.
    """
    plan, _ = read_plan(paths)
    reached = {each.name for each in read_milestones(paths)[0]}
    writers = [f"worker-{at}" for at in range(plan.crews)]
    if plan.workload == "script":
        writers = [_SCRIPT]
    tables = [
        *_OPS_STREAMS,
        *(["transactions"] if plan.transactional else []),
        *(["commits"] if plan.is_grouped else []),
        *(["transforms"] if plan.workload == "pipeline" else []),
        *(["shared"] if has_shares(plan) else []),
    ]
    wanted = [
        *((table, writer) for writer in writers for table in tables if "main" in reached),
        *(_tellers(paths, plan) if "main" in reached else ()),
        *((table, "final") for table in _OPS_STREAMS if "noted" in reached),
        *((table, "drain") for table in (*_OPS_STREAMS, "shared")
          if has_shares(plan) and DRAINED in reached),
    ]  # fmt: skip
    names = [(f"{table}.{writer}{STREAM_SUFFIX}", writer) for table, writer in wanted]
    return [
        Problem(unit=writer, sentence=f"the stream {name} is missing", cut=True)
        for name, writer in names
        if not (paths.live / name).exists()
    ]


def _tellers(paths: RunPaths, plan: Plan) -> Iterator[tuple[str, str]]:
    """Yield the streams (table, writer) with the faults and with the answers of each server."""
    yield "faults", _NEMESIS
    sees, brokers = read_declared(paths, plan)[0].sees, broker_names(plan)
    if Sight.LEADER_EPOCHS in sees:
        if plan.kept_outside:
            yield "leadership", f"{_OBSERVER}{ZOOKEEPER}"
        for node in brokers:
            yield from ((table, f"{_OBSERVER}{node}") for table in ("leadership", "replica_states"))
    if plan.has_quorum and Sight.QUORUM in sees:
        for node in (*brokers, *controller_names(plan)):
            yield "quorum_states", f"{_OBSERVER}{node}"


def _main_ns(milestones: Iterable[Milestone]) -> int | None:
    """Return the time at which the main phase began, or None if it did not begin."""
    return next((each.at_ns for each in milestones if each.name == "main"), None)


def write_tables(paths: RunPaths, parts: Iterable[Tables], problems: Iterable[Problem]) -> None:
    """Write one Parquet file for each table, then the notes about unreadable files.

    Args:
        paths: The run.
        parts: The tables of the run's units.
        problems: The problems of the run's units.
    """
    ids = topic_ids(paths)
    paths.record.mkdir(parents=True, exist_ok=True)
    for name, table in combined(parts).items():
        write_table(paths.table(name), name, [ordered(name, identified(name, table, ids))])
    write_notes(paths, problems)


def identified(name: str, table: pa.Table, ids: Mapping[str, str]) -> pa.Table:
    """Add topic ids to a table whose source (nodes or observers) gives only topic names."""
    return with_topic_ids(table, ids) if name in _OBSERVED else table


def topic_ids(paths: RunPaths) -> dict[str, str]:
    """Return the ids of a run's topics, without topics that were created more than once."""
    return _unique_topic_ids(read_topics(paths)[0])


def write_notes(paths: RunPaths, problems: Iterable[Problem]) -> None:
    """Write the notes with every problem found. The notes mark the run's tables as complete."""
    notes = {
        "schema_version": SCHEMA_VERSION,
        "ingest": _INGEST,
        "run_id": paths.run_id,
        "seals": {name: seal(paths.table(name)) for name in TABLES if paths.table(name).exists()},
        "problems": [
            {name: getattr(each, name) for name in ("unit", "sentence", "cut")}
            for each in (*missing_streams(paths), *problems)
        ],
    }
    write_atomically(notes_file(paths), json.dumps(notes, indent=1) + "\n")


def load_facts(root: Path) -> RunFacts:
    """Return the facts of a run whose tables exist."""
    paths = RunPaths(root)
    plan, plan_problems = read_plan(paths)
    milestones, milestone_problems = read_milestones(paths)
    topics, topic_problems = read_topics(paths)
    steps, step_problems = read_steps(paths)
    if (
        plan.scenario is not None
        and not steps
        and any(each.name == "main-ended" for each in milestones)
    ):
        step_problems.append("the steps are missing")
    declared, declared_problems = read_declared(paths, plan)
    recorded_id, noted, note_problems = read_notes(paths)
    reservations, quorum = load_table(paths, "reservations"), load_table(paths, "quorum_states")
    faults = load_table(paths, "faults")
    calm_ns = calm_from_ns(faults, milestones, plan)
    unread = frozenset(TABLES) - readable_tables(paths).keys()
    nodes = {unit.label for unit in units_of(paths) if unit.snapshot}
    return RunFacts(
        run_id=paths.run_id,
        recorded_id=recorded_id,
        plan=as_weakest(plan, declared),
        plan_known=not plan_problems,
        topics=tuple(topics),
        milestones=tuple(milestones),
        reservations=_ranges(reservations),
        quorum_high_watermark=pc.max(quorum["high_watermark"]).as_py(),
        quorum=quorum_facts(
            quorum,
            {each.name: each.begun_ns for each in steps},
            load_table(paths, "leadership", ENTRY_COLUMNS),
        ),
        calm_from_ns=calm_ns,
        silences=silences(_times(paths), _main_ns(milestones)),
        step_isrs={each.name: frozenset(f"n{broker}" for broker in each.isr) for each in steps},
        disk_losses=disk_losses(faults),
        unclean_orders=unclean_orders(faults),
        remade=remade_topics(faults),
        disturbances=disturbances(faults),
        absences=absences(faults),
        answers=answers_around(
            load_table(paths, "leadership", ["observer", "asked_ns", _SEEN]), disturbances(faults)
        ),
        reigns=_reigns(paths, quorum, disturbances(faults)),
        inner_cuts=cuts(load_table(paths, "truncations", CUT_COLUMNS)),
        commits_kept_on=_commits_kept_on(paths),
        witnessed=_witnessed(paths, as_weakest(plan, declared), faults),
        taking=taking(load_table(paths, "leadership", MARK_COLUMNS), calm_ns),
        story_broken=bool(step_problems) or any(each.failed for each in steps),
        moves_known=_moves_known(paths),
        declared=declared,
        contents_known=any(_has(paths, name, DAMAGE[0]) for name in ("polls", "replica_records")),
        problems=(
            *plan_problems, *declared_problems, *milestone_problems, *topic_problems,
            *step_problems, *note_problems,
            *_unread_sentences(unread & tables_of(paths)),
            *(problem.sentence for problem in noted),
        ),
        unread=unread,
        cut_streams=any(problem.cut for problem in noted)
        or bool(note_problems)
        or not tables_of(paths).isdisjoint(unread),
        events_known=_EVENTS.isdisjoint(unread)
        and not note_problems
        and not any(each.cut and each.unit.startswith((_NEMESIS, _OBSERVER)) for each in noted),
        collected_nodes=_collected(paths),
        unreadable_nodes=frozenset(problem.unit for problem in noted if problem.unit in nodes),
    )  # fmt: skip


def _collected(paths: RunPaths) -> frozenset[str]:
    """Return the nodes from which at least one final log was read."""
    states = load_table(paths, "replica_states", ["snapshot", "node"])
    return frozenset(texts(select(states, equal(states, "snapshot", FINAL)), "node"))


def _commits_kept_on(paths: RunPaths) -> frozenset[str]:
    """Return the nodes whose final logs have commits, if none of these logs may be compacted."""
    kept = load_table(paths, "kept_commits", ["snapshot", "node", "whole", "topic_id"])
    kept = select(kept, equal(kept, "snapshot", FINAL))
    whole = equal(kept, "whole", True) & present(kept, "topic_id")  # noqa: FBT003 - a value
    return frozenset(texts(kept, "node")) if whole.all() else frozenset()


def _reigns(paths: RunPaths, quorum: pa.Table, faults: Iterable[Disturbance]) -> tuple[Reign, ...]:
    """Return all leader epochs with their times. A leader that is cut off may continue to lead."""
    columns = [
        "topic", "partition", "source", "leader", "leader_epoch", "log_offset", "unclean",
    ]  # fmt: skip
    cut_off = (
        (node, each.begun_ns, each.ended_ns)
        for each in faults
        if each.kind not in ENDING
        for node in each.nodes | each.ends
    )
    return lasting(reigns(load_table(paths, "leadership", columns), quorum), cut_off)


def _times(paths: RunPaths) -> Iterator[Ints]:
    """Yield the times of all client ops and of all answers to observers about leaders."""
    for table, column in (("ops", "invoke_ns"), ("ops", "complete_ns"), ("leadership", _SEEN)):
        yield from (ints(piece, column) for piece in pieces_of(paths, table, [column]))


def _witnessed(paths: RunPaths, plan: Plan, faults: pa.Table) -> frozenset[int]:
    """Return the op ids of transactions that certainly committed, because a reader got a record."""
    if not _has(paths, "sends", "txn_id"):
        return frozenset()
    words = [name for name in POLL_COLUMNS if name != "value"]
    try:
        with open_parquet(paths.table("sends")) as file:
            sends = pq.read_table(
                file, columns=[*SEND_COLUMNS], filters=[("outcome", "=", Outcome.INFO.value)],
                page_checksum_verification=True,
            )  # fmt: skip
        with (
            open_parquet(paths.table("polls")) as file,
            pq.ParquetFile(file, read_dictionary=words, page_checksum_verification=True) as polls,
        ):
            parts = polls.iter_batches(_POLLS_AT_ONCE, columns=[*POLL_COLUMNS])
            tables = (pa.Table.from_batches([part]) for part in parts)
            doubtful = doubts(plan, disk_losses(faults), unclean_orders(faults))
            return witnessed(unknown_sends(sends), tables, doubtful)
    except BROKEN:
        return frozenset()  # The unreadable table is reported elsewhere.


def _moves_known(paths: RunPaths) -> bool:
    """Return whether `assignments` include `left-out` rows. Ingest version 0 added no such rows."""
    try:
        if version_of(ingest_notes(paths)) > 0:
            return True
    except BROKEN:
        pass  # Without valid notes, the tables' age is unknown. Then their rows decide.
    kinds = load_table(paths, "assignments", ["kind"])
    return not kinds.num_rows or bool(equal(kinds, "kind", LEFT_OUT).any())


def _has(paths: RunPaths, table: str, column: str) -> bool:
    """Return whether any row of a table has a value in a column."""
    try:
        return TableFile(table, paths.table(table)).has(column)
    except BROKEN:
        return False  # The unreadable table is reported elsewhere.


def without_tables(facts: RunFacts, names: Iterable[str]) -> RunFacts:
    """Return the facts of a run, and mark more tables as damaged.

    Half a table would look like lost messages. So a damaged table counts as empty.
    """
    more = frozenset(names) - facts.unread
    return replace(
        facts,
        unread=facts.unread | more,
        problems=(*facts.problems, *_unread_sentences(more)),
        cut_streams=True,
        events_known=facts.events_known and _EVENTS.isdisjoint(more),
    )


def _unread_sentences(names: frozenset[str]) -> list[str]:
    if names >= frozenset(TABLES) - LATER:
        return ["the run has no record: no table can be read"]
    return [f"the table {name} cannot be read" for name in TABLES if name in names]


def write_statistics(paths: RunPaths, statistics: Mapping[str, pa.Table]) -> None:
    """Write one Parquet file for each statistic."""
    paths.statistics.mkdir(parents=True, exist_ok=True)
    for name, table in statistics.items():
        with written_whole(paths.statistics / f"{name}.parquet") as file:
            pq.write_table(table, file)


def _ranges(reservations: pa.Table) -> tuple[tuple[int, int], ...]:
    columns = (ints(reservations, name).tolist() for name in ("value_from", "value_to"))
    return tuple(sorted(zip(*columns, strict=True)))


def _unique_topic_ids(topics: Iterable[CreatedTopic]) -> dict[str, str]:
    ids: dict[str, set[str]] = {}
    for each in topics:
        ids.setdefault(each.topic, set()).add(each.topic_id)
    return {topic: next(iter(known)) for topic, known in ids.items() if len(known) == 1}
