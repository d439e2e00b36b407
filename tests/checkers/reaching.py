"""Rows that reach something, and what they reached as plain values."""

from dataclasses import replace

from checkers.facts import Disturbance, RunFacts
from checkers.group import Group
from checkers.quorum import QuorumFacts
from checkers.reigns import Reign
from checkers.transitions.tables import reached
from results.record.identities import transactional_id
from results.record.transitions import TRANSITIONS, area_of
from tests.checkers.faithful_clients import Row
from tests.checkers.partition_rows import A, S, elected, facts, leads, made_plan


def counts(group: Group, *areas: str) -> dict[str, int]:
    """Return how often each transition of some areas happened, all places together."""
    found: dict[str, int] = {}
    for row in reached(group)["transitions"].to_pylist():
        assert row["transition"] in TRANSITIONS
        if area_of(row["transition"]) in areas:
            found[row["transition"]] = found.get(row["transition"], 0) + row["count"]
    return found


def firsts(group: Group, *areas: str) -> dict[str, int | None]:
    """Return when each transition of some areas happened first."""
    return {
        row["transition"]: row["first_ns"]
        for row in reached(group)["transitions"].to_pylist()
        if area_of(row["transition"]) in areas
    }


def pairs(group: Group) -> dict[tuple[str, str], int]:
    """Return how often each pair followed each other, all places together."""
    found: dict[tuple[str, str], int] = {}
    for row in reached(group)["successions"].to_pylist():
        key = row["before"], row["after"]
        found[key] = found.get(key, 0) + row["count"]
    return found


def written(leader: int, epoch: int, offset: int, *isr: int, unclean: bool = False) -> Row:
    """An entry of the controllers' log, committed at `offset` seconds."""
    row = elected(leader, epoch, offset, unclean=unclean)
    return {**row, "observer": "n1", "isr": list(isr or (1, 2, 3))}


def told(epoch: int, leader: int, at: int) -> Row:
    return leads(leader, epoch, at=at * S)


def fault(kind: str, node: str, begun: int, ended: int, **more: object) -> Disturbance:
    values: Row = {"kind": kind, "begun_ns": begun * S, "ended_ns": ended * S, **more}
    return Disturbance(nodes=frozenset({node}), **values)


def about(*faults: Disturbance, **changes: object) -> RunFacts:
    """Facts by which the entry at an offset was committed in that second."""
    commits = tuple((at + 1, at * S - S // 2, at * S) for at in range(60))
    known = facts(quorum=QuorumFacts(commits=commits), milestones=(), disturbances=faults)
    return replace(known, **changes)  # type: ignore[arg-type]  # By field name.


def look(
    node: str, end: int | None, at: float, *, life: int = 1, start: int = 0, mark: int = 0
) -> Row:
    return {"observed_ns": int(at * S), "node": node, "incarnation": life,
            "log_start_offset": start, "log_end_offset": end, "high_watermark": mark}  # fmt: skip


def cut(reason: str, *, start: int = 40, node: str = "n1", at: int | None = None) -> Row:
    return {"node": node, "from_offset": start, "reason": reason, "source": "server-log",
            "observed_ns": at}  # fmt: skip


def gave(process: int, at: int, kind: str = "rebalance-assigned") -> Row:
    return {"op_id": at, "process": process, "kind": kind, "time_ns": at * S, "offset": 0}


def took(process: int, at: int) -> Row:
    return gave(process, at, "rebalance-revoked")


def asked(act: str, offset: int | None, at: int, *, outcome: str = "ok") -> Row:
    return {"op_id": at, "process": 0, "act": act, "asked_ns": at * S, "told_ns": at * S + 1,
            "offset": offset, "outcome": outcome}  # fmt: skip


def shared(act: str, at: int, *, count: int | None = None, outcome: str = "ok") -> Row:
    return {"op_id": at, "process": 0, "act": act, "asked_ns": at * S, "told_ns": at * S,
            "offset": 3, "value": A, "delivery_count": count, "outcome": outcome}  # fmt: skip


def answer(node: int, epoch: int, leader: int, at: int) -> Row:
    role = "leader" if node == leader else "follower"
    said = {"role": role, "epoch": epoch, "leader": leader}
    return {"observed_ns": at * S, "node": f"n{node}", "incarnation": 1, **said}


def state(node: int, epoch: int, role: str | None, *, voted: int | None = None) -> Row:
    """A line of a controller's own log, or its file, which have no time."""
    return {"observed_ns": None, "node": f"n{node}", "incarnation": 0, "role": role,
            "epoch": epoch, "leader": None, "voted_for": voted}  # fmt: skip


def op(number: int, begun: int, ended: int | None, *, error: str | None = None, f: str = "txn",
       process: int = 0) -> Row:  # fmt: skip
    return {"op_id": number, "process": process, "f": f, "invoke_ns": begun * S,
            "complete_ns": None if ended is None else ended * S, "error": error}  # fmt: skip


def killed(node: str, begun: int, ended: int, kind: str = "kill") -> Disturbance:
    return Disturbance(kind=kind, begun_ns=begun * S, ended_ns=ended * S, nodes=frozenset({node}))


TRANSACTIONAL = {"workload": "txn", "concurrency": 4, "workers": 1}
PLAN = made_plan(**TRANSACTIONAL)
ID = transactional_id(0, PLAN)


def reign(topic: str, leader: int, epoch: int, span: tuple[int, int]) -> Reign:
    return Reign(
        topic=topic, partition=0, leader=leader, epoch=epoch, from_ns=span[0] * S,
        until_ns=span[1] * S,
    )  # fmt: skip


def transaction(number: int, decision: str, outcome: str) -> Row:
    return {"txn_id": number, "op_id": number, "transactional_id": ID, "decision": decision,
            "outcome": outcome}  # fmt: skip
