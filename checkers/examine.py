"""Check one group, and return its results in a form that can be sent between processes.

Both engines call `examine` for each group. Then `gathered` puts the results of each run together,
in the process that started the engine. So the engines differ only in where the work is done.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

import pyarrow as pa

from checkers.facts import RunFacts
from checkers.group import Group, group_of
from checkers.layout import RUN, Place
from checkers.registry import DERIVATIONS
from checkers.runner import CheckResult, dump_result, guarded, parse_result, run_checkers
from checkers.statistics import STATISTICS, partition_statistics, run_statistics
from checkers.transitions.tables import reached

CHECK, STATISTIC, DERIVED, DAMAGED = "check", "statistic", "derived", "damaged"
UNCOVERED = "uncovered"


@dataclass(frozen=True, slots=True, kw_only=True)
class Piece:
    """One result of one group.

    Attributes:
        run_id: The run id in the tables.
        topic, topic_id, partition: The group; empty and -1 for the whole run.
        kind: The content of the payload. `CHECK`: a result in JSON. `STATISTIC` or `DERIVED`: an
            Arrow IPC stream. `UNCOVERED`: the reason why the group's coverage is unknown, in UTF-8.
            `DAMAGED`: nothing, because a table is not as it was written.
        name: The name of the checker, the statistic, the derivation, or the table.
        payload: The result in bytes; see `kind`.
    """

    run_id: str
    topic: str
    topic_id: str
    partition: int
    kind: str
    name: str
    payload: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Gathered:
    """All results of one run.

    Attributes:
        checks: The checkers' results, by place.
        statistics: Every table of `STATISTICS`, with rows in the order of places.
        uncovered: The places whose coverage is unknown, with the reasons. Such a place does not
            change the verdict.
    """

    checks: Mapping[Place, list[CheckResult]]
    statistics: Mapping[str, pa.Table]
    uncovered: tuple[str, ...] = ()


def examine(facts: RunFacts, tables: Mapping[str, pa.Table], place: Place) -> list[Piece]:
    """Check one group and compute its statistics.

    Args:
        facts: The run's context.
        tables: The group's rows by table.
        place: The group. Partition -1 means the tables without a partition.
    """
    topic, topic_id, partition = place
    group = group_of(facts, tables, topic=topic, topic_id=topic_id, partition=partition)
    results = run_checkers(group)
    figures = {} if facts.history else guarded("statistics", group, _figures)
    if isinstance(figures, CheckResult):
        results, figures = [*results, figures], {}
    group.forget()
    covered = {} if facts.history else guarded("coverage", group, reached)
    group.forget()
    uncovered = [covered] if isinstance(covered, CheckResult) else []
    figures = figures if isinstance(covered, CheckResult) else {**figures, **covered}
    derived: dict[str, pa.Table] = {}
    of_clients = not group.of_quorum and group.remade is None
    for each in DERIVATIONS if partition >= 0 and of_clients else ():
        if each.applies(facts):
            rows = guarded(each.name, group, each.derive)
            if isinstance(rows, CheckResult):
                results = [*results, rows]
            else:
                derived[each.name] = rows.cast(each.schema)
            group.forget()
    return [
        *_pieces(
            facts, place, CHECK, [(each.name, dump_result(each).encode()) for each in results]
        ),
        *_pieces(
            facts,
            place,
            STATISTIC,
            [(name, pack(rows.cast(STATISTICS[name]))) for name, rows in figures.items()],
        ),
        *_pieces(facts, place, DERIVED, [(name, pack(rows)) for name, rows in derived.items()]),
        *_pieces(
            facts, place, UNCOVERED, [(each.name, str(each.error).encode()) for each in uncovered]
        ),
    ]


def _figures(group: Group) -> dict[str, pa.Table]:
    if group.of_quorum or group.remade:
        return {}  # Clients do not write to such a partition.
    return run_statistics(group) if group.partition < 0 else partition_statistics(group)


def conclude(facts: RunFacts, pieces: Iterable[Piece]) -> list[Piece]:
    """Run the checks across partitions, on the tables that `examine` derived.

    Args:
        facts: The run's context.
        pieces: The pieces of all partitions of the run. Only derived tables are used.

    Returns:
        The results, at the place of the whole run.
    """
    derived = {
        each.name: [each.schema.empty_table()] for each in DERIVATIONS if each.applies(facts)
    }
    if not derived:
        return []
    for piece in sorted(pieces, key=lambda each: (each.topic, each.partition, each.topic_id)):
        if piece.kind == DERIVED:
            derived[piece.name].append(unpack(piece.payload))
    whole = {name: pa.concat_tables(parts).combine_chunks() for name, parts in derived.items()}
    group = replace(group_of(facts, {}), derived=whole)
    results = run_checkers(group)
    return _pieces(facts, RUN, CHECK, [(each.name, dump_result(each).encode()) for each in results])


def damaged(facts: RunFacts, names: Iterable[str], place: Place = RUN) -> list[Piece]:
    """Return one piece for each table of a run that is no longer as it was written."""
    return _pieces(facts, place, DAMAGED, [(name, b"") for name in names])


def _pieces(
    facts: RunFacts, place: Place, kind: str, payloads: Iterable[tuple[str, bytes]]
) -> list[Piece]:
    topic, topic_id, partition = place
    return [
        Piece(
            run_id=facts.recorded_id, topic=topic, topic_id=topic_id, partition=partition,
            kind=kind, name=name, payload=payload,
        )
        for name, payload in payloads
    ]  # fmt: skip


def gathered(pieces: Iterable[Piece]) -> Gathered:
    """Put the pieces of one run together, in the order of their places."""
    checks: defaultdict[Place, list[CheckResult]] = defaultdict(list)
    uncovered: list[str] = []
    parts: dict[str, list[pa.Table]] = {
        name: [schema.empty_table()] for name, schema in STATISTICS.items()
    }
    for piece in sorted(pieces, key=lambda each: (each.topic, each.partition, each.topic_id)):
        if piece.kind == STATISTIC:
            parts[piece.name].append(unpack(piece.payload))
        elif piece.kind == CHECK:
            place = (piece.topic, piece.topic_id, piece.partition)
            checks[place].append(parse_result(piece.payload.decode()))
        elif piece.kind == UNCOVERED:
            uncovered.append(piece.payload.decode())
    tables = {name: pa.concat_tables(each).combine_chunks() for name, each in parts.items()}
    return Gathered(checks=dict(checks), statistics=tables, uncovered=tuple(uncovered))


def pack(table: pa.Table) -> bytes:
    """Return a table as the bytes of an Arrow IPC stream."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return sink.getvalue().to_pybytes()


def unpack(payload: bytes) -> pa.Table:
    """Return the table from the bytes that `pack` returned."""
    with pa.ipc.open_stream(payload) as reader:
        return reader.read_all()
