"""Find the start offsets of leader epochs, from logs and from `leader-epoch-checkpoint` files.

A checkpoint counts only if the broker stopped cleanly. After a crash, the file proves nothing,
because it may have lines that the broker would have corrected (KAFKA-16541). An empty or missing
checkpoint counts, too, if all files of its node were read. The exception is a fault that may have
emptied or truncated the log on disk.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from checkers.columns import Ints, equal, select, texts
from checkers.controllers_log import undisputed
from checkers.facts import CRASH, FINAL
from checkers.group import Group, ReplicaLog
from results.record.declared import Sight


@dataclass(frozen=True, slots=True, kw_only=True)
class EpochStart:
    """The smallest offset of a leader epoch on one replica.

    Attributes:
        snapshot, node: The snapshot (`final`, `crash`, or a scenario's step) and the replica's
            node.
        by_records: Whether the offset is the offset of a record. Otherwise it comes from a line of
            the checkpoint.
    """

    epoch: int
    offset: int
    node: str
    snapshot: str
    by_records: bool

    @property
    def text(self) -> str:
        """The start as a phrase, such as `n2's first record of epoch 5 is at offset 250`."""
        when = "" if self.snapshot in {FINAL, CRASH} else f" at the end of {self.snapshot}"
        if self.by_records:
            return f"{self.node}'s first record of epoch {self.epoch} is at {self.offset}{when}"
        return (
            f"according to {self.node}'s checkpoint, epoch {self.epoch} starts at"
            f" {self.offset}{when}"
        )


def checkpoints(group: Group) -> Mapping[str, list[tuple[int, int]]]:
    """Return each node's final checkpoint that counts, as lines: (epoch, start offset).

    An empty checkpoint counts only if all files of the node were read, and if no fault may have
    removed the partition's data.
    """
    if not group.facts.shows(Sight.CHECKPOINTS):
        return {}
    states = group.table("replica_states")
    final = select(states, equal(states, "snapshot", FINAL))
    clean = group.facts.clean_nodes
    lines: dict[str, list[tuple[int, int]]] = {}
    for node, told in zip(texts(final, "node"), final["epochs"].to_pylist(), strict=True):
        if node not in clean or told is None:
            continue
        known = [line for line in told if line and None not in line.values()]
        if known or (not told and _has_kept_its_disk(group, node)):
            lines[node] = sorted((line["epoch"], line["start_offset"]) for line in known)
    return lines


def _has_kept_its_disk(group: Group, node: str) -> bool:
    """Return whether a node's files were read, and no fault removed the partition's data."""
    losses = [
        loss
        for loss in group.facts.disk_losses
        if node in loss.nodes and loss.concerns(group.topic, group.partition)
    ]
    return node in group.facts.proving_nodes and not losses


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)  # Arrays cannot be compared with ==.
class Runs:
    """The sections of a log in which all records have the same epoch, in the order of offsets.

    Attributes:
        epochs: The epoch of each section; -1 if the records have no epoch.
        firsts, lasts: The offsets of each section's first and last record.
    """

    epochs: Ints
    firsts: Ints
    lasts: Ints


def runs(log: ReplicaLog) -> Runs:
    """Divide a log into sections; all records of a section have the same epoch."""
    fresh = np.ones(len(log.epochs) + 1, dtype=np.bool_)
    fresh[1:-1] = log.epochs[1:] != log.epochs[:-1]
    edges = np.flatnonzero(fresh)
    at, ends = edges[:-1], edges[1:]
    return Runs(epochs=log.epochs[at], firsts=log.offsets[at], lasts=log.offsets[ends - 1])


def _of_records(snapshot: str, log: ReplicaLog) -> Iterator[EpochStart]:
    found = runs(log)
    epochs, first = np.unique(found.epochs, return_index=True)
    for epoch, offset in zip(epochs.tolist(), found.firsts[first].tolist(), strict=True):
        if epoch >= 0:
            yield EpochStart(
                epoch=epoch, offset=offset, node=log.node, snapshot=snapshot, by_records=True
            )


def epoch_starts(group: Group) -> list[EpochStart]:
    """Return the smallest known start offset of each epoch.

    If a record and a checkpoint give the same offset, the record is preferred. All snapshots count,
    because every record that a log once held came from a leader.
    """
    found = [
        start
        for snapshot, logs in sorted(group.logs.items())
        for _, log in sorted(logs.items())
        for start in _of_records(snapshot, log)
    ]
    found += [
        EpochStart(epoch=epoch, offset=offset, node=node, snapshot=FINAL, by_records=False)
        for node, lines in sorted(checkpoints(group).items())
        for epoch, offset in lines
    ]
    smallest: dict[int, EpochStart] = {}
    for start in found:
        known = smallest.setdefault(start.epoch, start)
        if start.offset < known.offset:
            smallest[start.epoch] = start
    return [smallest[epoch] for epoch in sorted(smallest)]


def goes_back(group: Group, log: ReplicaLog | None, offset: int) -> str:
    """Return a sentence if a record of an earlier epoch follows a record in a log; otherwise "".

    In that case the record's epoch may be wrong, so perhaps no leader of that epoch started at this
    offset.
    """
    at = log.at(offset) if log is not None else None
    if log is None or at is None:
        return ""
    epoch = int(log.epochs[at])
    others = np.flatnonzero(log.epochs[at:] != epoch)[:1] + at
    if not len(others) or not 0 <= log.epochs[others[0]] < epoch:
        return ""
    last, older = int(log.offsets[others[0] - 1]), int(log.epochs[others[0]])
    what = f"offset {offset} has" if last == offset else f"offsets {offset} to {last} have"
    named = [each.leader for each in undisputed(group) if each.epoch == epoch]
    nobody = ", which has no leader in the controllers' log," * (max(named, default=0) < 0)
    return (
        f"in {log.node}'s log {what} epoch {epoch}{nobody} but epoch {older} comes after it:"
        f" epoch {epoch} may be wrong there, and possibly no record is missing"
    )
