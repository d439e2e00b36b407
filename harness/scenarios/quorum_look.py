"""Record the controllers' quorum at each step: the members' metadata logs and the leader."""

import re
from collections.abc import Iterator, Sequence
from contextlib import suppress
from itertools import groupby
from pathlib import Path

from cluster.files.metadata import METADATA_TOPIC
from cluster.files.metadata_names import NamedRecord, metadata_record_names
from harness.scenarios.protocol import QuorumSight
from harness.scenarios.sight import ClusterSight, partition_folder
from results.record.nodes import node_id
from results.record.paths import RunPaths
from results.record.steps import LogAtStep, QuorumAtStep, Span

_IDLE = "NoOpRecord"
"""The record that a leader writes if it had no other record to write for half a second
(KIP-835)."""
_WORD = re.compile(r"[A-Z]+[a-z]*")


class QuorumLook:
    """A recorder of the state of the quorum at each step of a scenario.

    Args:
        sight: The object that asks nodes and reads their files.
        paths: The run's folder.
        controllers: The quorum's voters.
    """

    def __init__(self, sight: ClusterSight, paths: RunPaths, controllers: Sequence[str]) -> None:
        self._sight, self._paths, self._controllers = sight, paths, controllers
        self._told_from: int | None = None
        self._marks: dict[str, int] = {}

    def ask(self) -> None:
        """Before the logs are copied, ask for the high watermarks, so that each copy reaches them.

        Only controllers that claim to lead report a high watermark.
        """
        told = {node: self._sight.quorum(node) for node in self._controllers}
        self._marks = {
            node: state.high_watermark
            for node, state in told.items()
            if state is not None and state.leader == node and state.high_watermark is not None
        }

    def logs(self, snapshot: str) -> Iterator[LogAtStep]:
        """Yield each controller's metadata log, from its copy in a snapshot.

        Some records were in all logs at the end of the first step. They are shown as one span for
        each epoch. Each later record is shown by itself.
        """
        held = {node: self._records(snapshot, node) for node in self._controllers}
        ends = {node: rows[-1].offset + 1 if rows else 0 for node, rows in held.items()}
        if self._told_from is None:
            self._told_from = min(ends.values(), default=0)
        for node, rows in held.items():
            yield LogAtStep(
                node=node,
                spans=tuple(_spans(rows, self._told_from)),
                end=ends[node],
                high_watermark=self._marks.get(node),
                start=rows[0].offset if rows else 0,
            )

    def states(self, nodes: Sequence[str]) -> Iterator[QuorumAtStep]:
        """Yield each controller's `quorum-state` file, and each node's report about the quorum."""
        for node in self._controllers:
            if state := self._sight.quorum_file(node):
                yield QuorumAtStep(
                    node=node,
                    source="file",
                    role=_role(node, state),
                    epoch=state.epoch,
                    leader=_number(state.leader),
                    voted_for=_number(state.voted_for),
                )
        for node in nodes:
            if state := self._sight.quorum(node):
                yield QuorumAtStep(
                    node=node,
                    source="asked",
                    role="leader" if state.leader == node else "",
                    epoch=state.epoch,
                    leader=_number(state.leader),
                )

    def _records(self, snapshot: str, node: str) -> list[NamedRecord]:
        data = self._paths.snapshots / snapshot / node / "data"
        folder = data / partition_folder((METADATA_TOPIC, 0))
        segments = sorted(path for path in folder.glob("*.log") if path.stem.isdecimal())
        return [record for path in segments for record in metadata_record_names(_bytes(path))]


def _spans(rows: Sequence[NamedRecord], told_from: int) -> Iterator[Span]:
    def alike(row: NamedRecord) -> tuple[int, bool, int]:
        told = row.offset >= told_from
        return row.epoch, told, row.offset if told and row.name != _IDLE else -1

    for (epoch, told, _), group in groupby(rows, alike):
        members = list(group)
        name = _short(members[0].name) if told else ""
        yield Span(first=members[0].offset, last=members[-1].offset, epoch=epoch, name=name)


def _short(name: str) -> str:
    """Return a readable name of a record: `topic other-1`, `leader change`."""
    kind, _, subject = name.partition(" ")
    if kind == _IDLE:
        return ""
    words = " ".join(_WORD.findall(kind.removesuffix("Record"))) or kind
    return f"{words.lower()} {subject}".rstrip()


def _role(node: str, state: QuorumSight) -> str:
    if state.leader is not None:
        return "leader" if state.leader == node else "follower"
    if state.voted_for is not None:
        return "candidate" if state.voted_for == node else "voted"
    return "unattached"


def _number(node: str | None) -> int | None:
    return None if node is None else node_id(node)


def _bytes(path: Path) -> bytes:
    with suppress(FileNotFoundError):
        return path.read_bytes()
    return b""
