"""Hand-made share groups: what was delivered, and what members made of it."""

from dataclasses import replace

from checkers.facts import Disturbance, RunFacts
from checkers.group import Group
from checkers.protocol import Checker
from checkers.reigns import Reign
from results.record.milestones import DRAINED, Milestone
from tests.checkers.faithful_clients import Row
from tests.checkers.partition_rows import A, S, ack, facts, final_read, found, group, leads, read

SHARES = {"workload": "shares", "replication": 3, "concurrency": 8, "workers": 2}
"""Two members: at the end each may have lost a record, and so may each lock of 6 s."""
DONE_NS = 100 * S


def reign(epoch: int, from_s: int, until_s: int, *, partition: int = 0) -> Reign:
    return Reign(topic="log-0", partition=partition, leader=1, epoch=epoch, from_ns=from_s * S,
                 until_ns=until_s * S)  # fmt: skip


def about(*, failed: str = "", drained: bool = True, **changes: object) -> RunFacts:
    told = facts(plan=SHARES, **{"reigns": (reign(3, 0, 200),), **changes})
    detail = {"failed": failed} if failed else {}
    stone = Milestone(name=DRAINED, at_ns=DONE_NS, detail=detail)
    return replace(told, milestones=(*told.milestones, *([stone] if drained else [])))


def delivery(offset: int, *, at: int = 5 * S, after: int = 0, value: int | None = None) -> Row:
    """The delivery of a record, which was acquired after some time."""
    return {
        "op_id": 20 + at // S, "process": at // S, "act": "deliver", "asked_ns": at - S // 10,
        "told_ns": at, "offset": offset, "value": A + offset if value is None else value,
        "delivery_count": 1, "acquired_after_ns": after, "outcome": "ok",
    }  # fmt: skip


def says(offset: int, act: str = "accept", *, at: int = 6 * S, outcome: str = "ok") -> Row:
    """What a member made of a record, and was answered."""
    return {
        **delivery(offset, at=at), "op_id": 40 + at // S, "act": act, "delivery_count": None,
        "acquired_after_ns": None, "outcome": outcome, "error": None if outcome == "ok" else "E",
    }  # fmt: skip


def joins(at: int) -> Row:
    return {"op_id": 60, "process": 1, "kind": "subscribe", "time_ns": at}


def fault(at: int) -> Disturbance:
    return Disturbance(kind="kill", begun_ns=at - S, ended_ns=at)


def knows(node: int, epoch: int, *, at: int = S) -> Row:
    """A broker tells of a leader epoch."""
    return {**leads(1, epoch, at=at, source="metadata"), "observer": f"n{node}"}


def shared(told: RunFacts, rows: list[Row], **others: list[Row]) -> Group:
    """A partition of three records, which were sent at 80 s and read at the end."""
    values = [A + offset for offset in range(3)]
    tables = {
        "sends": [ack(value, at, op=at, at=80 * S) for at, value in enumerate(values)],
        "polls": [{**read(value, at), "leader_epoch": 3} for at, value in enumerate(values)],
        "final_reads": [final_read(3)],
        "leadership": [knows(node, 3) for node in (1, 2, 3)],
        **others,
    }
    return group(told, shared=rows, **tables)


def offsets(checker: Checker, on: Group) -> list[int]:
    return [each.offset for each in found(checker, on).anomalies]
