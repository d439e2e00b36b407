"""Stored runs as they would be of a system that cannot show everything.

`without` takes away what some sights give: rows of the record's tables, the nodes' files, and what
milestones say of nodes; and has the run's system declare that it cannot be seen.
"""

from collections.abc import Callable, Iterable, Mapping

from checkers.facts import NOTED
from results.record.declared import Declared, Sight
from results.record.milestones import ENDED
from results.record.terms import QUORUM_TOPIC
from tests.broken.record import Record, Row

_OWN_LOGS = ("server-log", "state-change-log")
"""Sources of what brokers' own logs tell."""


def without(record: Record, sights: Iterable[Sight]) -> Record:
    """Take away what some sights give, and have the system declare so; return the record."""
    lost = frozenset(sights)
    for each in sorted(lost):
        _TAKE[each](record)
    record.declared = Declared(what="a test's", sees=frozenset(Sight) - lost)
    return record


def _of_file(row: Row) -> bool:
    return row["snapshot"] not in {None, NOTED}


def _of_quorum(row: Row) -> bool:
    return bool(row["topic"] == QUORUM_TOPIC)


def _replica_logs(record: Record) -> None:
    record.drop("replica_records", lambda row: not _of_quorum(row))
    record.drop("replica_states", lambda row: not _of_quorum(row) and _of_file(row))
    for each in record.milestones:
        if each["name"] == "stopped":
            each["detail"] = {}


def _broker_logs(record: Record) -> None:
    record.drop("truncations", lambda _: True)
    record.drop("leadership", lambda row: row["source"] in _OWN_LOGS)


def _checkpoints(record: Record) -> None:
    for row in record.rows("replica_states"):
        if _of_file(row) and not _of_quorum(row):
            row |= {"epochs": [], "high_watermark": None, "high_watermark_source": None}


def _metadata_log(record: Record) -> None:
    for table in ("replica_records", "replica_states"):
        record.drop(table, _of_quorum)
    record.drop("leadership", lambda row: row["source"] == "metadata-log")


def _leader_epochs(record: Record) -> None:
    record.drop("leadership", lambda row: row["source"] != "metadata-log")


def _high_watermarks(record: Record) -> None:
    record.drop("replica_states", lambda row: not _of_quorum(row) and not _of_file(row))
    for row in record.rows("leadership"):
        row["high_watermark"] = None


def _quorum(record: Record) -> None:
    record.drop("quorum_states", lambda _: True)


def _ends(record: Record) -> None:
    record.milestones[:] = [each for each in record.milestones if each["name"] != ENDED]
    for each in record.milestones:
        if each["name"] == "noted":
            each["detail"].pop("lives", None)


_TAKE: Mapping[Sight, Callable[[Record], None]] = {
    Sight.REPLICA_LOGS: _replica_logs,
    Sight.BROKER_LOGS: _broker_logs,
    Sight.CHECKPOINTS: _checkpoints,
    Sight.METADATA_LOG: _metadata_log,
    Sight.LEADER_EPOCHS: _leader_epochs,
    Sight.HIGH_WATERMARKS: _high_watermarks,
    Sight.QUORUM: _quorum,
    Sight.ENDS: _ends,
}
