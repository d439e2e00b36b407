"""The steps of a scripted run as scenes: the state of each replica at the end of each step."""

import itertools
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow.compute as pc

from results.page.logs import NO_LOG, Log, log_of_rows, log_of_spans
from results.record.steps import NodeAtStep, QuorumAtStep, Step
from results.tables import RunTables

UP, DOWN, PAUSED = "up", "down", "paused"
LIVE_SOURCE = "fetch"

_Rows = Sequence[Mapping[str, Any]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """The partition that a scripted run is about."""

    topic: str
    partition: int = 0

    @property
    def folder(self) -> str:
        """Name of the partition's folder in a broker's data: `peter-test01-0`."""
        return f"{self.topic}-{self.partition}"


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaAt:
    """One replica at the end of a step.

    Attributes:
        node: The replica's node.
        called: Name of the node in the scenario: `A`.
        state: `up`, `paused` or `down`.
        deaf_to: Names of the nodes whose messages do not reach this node.
        leader: Whether the cluster's metadata names this broker as the leader. For a controller:
            whether the controller itself claims to lead.
        in_isr: Whether the replica is in the ISR. None if there is no ISR, or if the ISR is
            unknown.
        belief: The broker's own view of the leader, if it differs from the cluster's metadata:
            `thinks it leads` or `does not know that it leads`; else empty.
        role: The role of a controller: `candidate, epoch 3`. If the controller is not up, its last
            role: `was leader, epoch 2`.
        log: The replica's log.
        high_watermark: The replica's own high watermark; None if unknown.
        on_disk: Whether the high watermark comes from the checkpoint file, because the broker did
            not respond.
    """

    node: str
    called: str
    state: str
    deaf_to: tuple[str, ...] = ()
    leader: bool = False
    in_isr: bool | None = None
    belief: str = ""
    role: str = ""
    log: Log = NO_LOG
    high_watermark: int | None = None
    on_disk: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Scene:
    """All replicas at the end of a step."""

    step: Step
    replicas: tuple[ReplicaAt, ...]

    def called(self, node: str) -> str:
        """Return the name of a node in the scenario."""
        known = self.replica(node)
        return known.called if known else node

    def broker(self, number: int | None) -> str:
        """Return the scenario's name for the broker or controller with this id."""
        return "no broker" if number is None or number < 0 else self.called(f"n{number}")

    def replica(self, node: str) -> ReplicaAt | None:
        """Return the replica of a node, or None."""
        return next((each for each in self.replicas if each.node == node), None)

    def differing(self, offset: int) -> bool:
        """Return whether two replicas hold different records at an offset."""
        runs = [run for each in self.replicas if (run := each.log.at(offset))]
        return len({run.identity for run in runs}) > 1


@dataclass(frozen=True, slots=True, kw_only=True)
class _Cast:
    """The nodes of a scripted run in the order of their numbers, with their scenario names."""

    nodes: tuple[str, ...]
    roles: Mapping[str, str]

    def called(self, node: str) -> str:
        return self.roles.get(node, node)


def scenes_of(
    tables: RunTables, steps: Sequence[Step], *, place: Place, roles: Mapping[str, str]
) -> list[Scene]:
    """Return a scene for each step.

    Args:
        tables: The run's tables.
        steps: The steps, in order.
        place: The partition that the scripted run is about.
        roles: Names of the nodes in the scenario.
    """
    here = (pc.field("topic") == place.topic) & (pc.field("partition") == place.partition)
    records = _by_snapshot(tables.record("replica_records", filters=here).to_pylist())
    states = _by_snapshot(tables.record("replica_states", filters=here).to_pylist())
    told = {log.node for step in steps for log in step.logs}
    seen = told or {node for _, node in itertools.chain(records, states)}
    cast = _Cast(nodes=tuple(sorted(seen, key=_number)), roles=roles)
    scenes: list[Scene] = []
    for step in steps:
        before = scenes[-1] if scenes else None
        replicas = tuple(
            _controller(step, node, cast=cast)
            if step.logs
            else _replica(
                step,
                node,
                cast=cast,
                records=records.get((step.name, node), ()),
                states=states.get((step.name, node), ()),
                before=before.replica(node) if before else None,
            )
            for node in cast.nodes
        )
        scenes.append(Scene(step=step, replicas=replicas))
    return scenes


def _by_snapshot(rows: Iterable[dict[str, Any]]) -> dict[tuple[str, str], list[dict[str, Any]]]:
    found: dict[tuple[str, str], list[dict[str, Any]]] = defaultdict(list)
    for row in rows:
        if str(row["snapshot"]).startswith("step-"):
            found[str(row["snapshot"]), str(row["node"])].append(row)
    return found


def _replica(
    step: Step,
    node: str,
    *,
    cast: _Cast,
    records: _Rows,
    states: _Rows,
    before: ReplicaAt | None,
) -> ReplicaAt:
    at = _node(step, node)
    live = _last([row for row in states if row["high_watermark_source"] == LIVE_SOURCE])
    disk = _last([row for row in states if row["high_watermark_source"] != LIVE_SOURCE])
    state = (live if at.state == UP else None) or disk or live
    if state is None and not records:
        log = before.log if before else NO_LOG  # Not observed: a node that is down does not change.
    else:
        log = log_of_rows(
            records, end=_of(disk, "log_end_offset"), start=_of(disk, "log_start_offset")
        )
    mark = _of(state, "high_watermark")
    return ReplicaAt(
        node=node,
        called=cast.called(node),
        state=at.state,
        deaf_to=tuple(cast.called(each) for each in at.deaf_to),
        leader=step.leader == _number(node),
        in_isr=_number(node) in step.isr if isr_is_known(step) else None,
        belief=_belief(step, node) if at.state == UP else "",
        log=log,
        high_watermark=before.high_watermark if mark is None and before and not states else mark,
        on_disk=state is not live or state is None,
    )


def isr_is_known(step: Step) -> bool:
    """Return whether the ISR is known; it is unknown if no broker responded."""
    return bool(step.isr or step.beliefs or step.leader is not None)


def _belief(step: Step, node: str) -> str:
    own = next((each for each in step.beliefs if each.node == node), None)
    if own is None:
        return ""
    thinks, leads = own.leader == _number(node), step.leader == _number(node)
    if thinks == leads:
        return ""
    return "thinks it leads" if thinks else "does not know that it leads"


def _controller(step: Step, node: str, *, cast: _Cast) -> ReplicaAt:
    at = _node(step, node)
    spans = next((each for each in step.logs if each.node == node), None)
    said = _said(step.quorum, node)
    return ReplicaAt(
        node=node,
        called=cast.called(node),
        state=at.state,
        deaf_to=tuple(cast.called(each) for each in at.deaf_to),
        leader=at.state == UP and said is not None and said.role.lower() == "leader",
        role=_role(said, at) if said else "",
        log=log_of_spans(spans) if spans else NO_LOG,
        high_watermark=_known(spans.high_watermark) if spans else None,
        on_disk=at.state != UP,
    )


def _role(said: QuorumAtStep, at: NodeAtStep) -> str:
    words = ", ".join(filter(None, (said.role.lower(), f"epoch {said.epoch}")))
    return words if at.state == UP else f"was {words}"


def _said(quorum: Iterable[QuorumAtStep], node: str) -> QuorumAtStep | None:
    """Return a node's state in the controller quorum, from its own file if possible."""
    own = [each for each in quorum if each.node == node]
    return next((each for each in own if each.source == "file"), own[0] if own else None)


def _node(step: Step, node: str) -> NodeAtStep:
    unknown = NodeAtStep(node=node, state=UP, incarnation=0)
    return next((each for each in step.nodes if each.node == node), unknown)


def _last(rows: _Rows) -> Mapping[str, Any] | None:
    return max(rows, key=lambda row: row["observed_ns"] or 0, default=None)


def _of(row: Mapping[str, Any] | None, column: str) -> int | None:
    return _known(row[column]) if row else None


def _known(offset: object) -> int | None:
    """Return an offset, or None for -1, which Kafka uses for an unknown offset."""
    return offset if isinstance(offset, int) and offset >= 0 else None


def _number(node: str) -> int:
    digits = node.removeprefix("n")
    return int(digits) if digits.isdecimal() else -1
