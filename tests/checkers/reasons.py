"""Rows from which causes are told, and the causes."""

from checkers.facts import Disturbance
from checkers.group import Group
from checkers.protocol import Checker
from results.record.milestones import Milestone
from tests.checkers.faithful import STONES
from tests.checkers.faithful_clients import Row
from tests.checkers.partition_rows import S, elected, facts, leads

NODES = ("n1", "n2", "n3")
STOPPED = facts(
    milestones=(
        *(Milestone(name=name, at_ns=at) for at, name in enumerate(STONES) if name != "stopped"),
        Milestone(name="stopped", at_ns=99 * S, detail=dict.fromkeys(NODES, "clean")),
    ),
    collected_nodes=frozenset(NODES),
)
"""All brokers stopped cleanly, and their files were read."""
KILL = Disturbance(kind="kill", begun_ns=S, ended_ns=9 * S, nodes=frozenset({"n3"}))


def causes(checker: Checker, on: Group) -> list[str]:
    return [checker.why(on, each) for each in checker.check(on).anomalies]


def cause(checker: Checker, on: Group) -> str:
    """The cause of all anomalies that a check finds, if it is one."""
    (told,) = set(causes(checker, on))
    return told


def look(node: str, end: int, at_s: float, *, start: int = 0, mark: int | None = None) -> Row:
    """What a broker told of its own replica."""
    return {"node": node, "observed_ns": int(at_s * S), "log_start_offset": start,
            "log_end_offset": end, "high_watermark": mark, "high_watermark_source": "fetch",
            "incarnation": 1}  # fmt: skip


def metadata(by: str, leader: int, epoch: int, at_s: float, *isr: int) -> Row:
    """What a broker's metadata named."""
    told: Row = {**leads(leader, epoch, at=int(at_s * S), source="metadata"), "observer": by}
    return {**told, "isr": [*isr] or None, "incarnation": 1}


def written(leader: int, epoch: int, offset: int, *isr: int, unclean: bool = False) -> Row:
    """A record of the controllers' log."""
    return {**elected(leader, epoch, offset, unclean=unclean), "isr": [*isr]}


def announced(broker: int, epoch: int, mark: int, at_s: float) -> Row:
    return {**leads(broker, epoch, at=int(at_s * S)), "high_watermark": mark, "incarnation": 1}
