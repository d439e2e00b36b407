"""Who acknowledged a record: what all that was recorded leaves of the brokers that ever led.

A client is told an offset, and not by whom. Each (broker, leader epoch) that anybody told of may
have been it, unless something says otherwise: the broker knew of a later epoch before the send, or
only of an earlier one after it; it was away while the send was under way; its log was read to the
end, never lost anything from that offset on, and has something else there; what it lost there was
of later epochs; its log ended elsewhere while it led; or the copies that are left are of later
epochs. Where two are left, both are named. Where replicas may have been made anew, or files were
not read, nothing follows from what a log lacks.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from checkers.columns import NONE, ints, present, select, texts
from checkers.facts import CRASH, FINAL
from checkers.findings import known
from checkers.group import LEADER_SOURCES, Group, ReplicaLog
from results.record.terms import Mode
from results.record.verdict import Evidence

_KNOWN_NS = 500_000_000
"""What a broker answers about a leader may be so much older or newer than what it does."""
_ZOOKEEPER = "zk"
"""Where the controller writes down whom it makes the leader, before that one leads."""
_REMAKE = frozenset({"reassignment", "wipe"})
"""Faults after which a replica is copied from its beginning."""
_LOOK_NS = 2_000_000_000
"""A log's end may be so much older than the time that it is noted with: two questions' limits."""
_FILES = ("metadata-log", "state-change-log")
"""Sources whose rows lie in a broker's files: what they tell, the broker did not answer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Acked:
    """An acknowledged record.

    Attributes:
        value: What it holds.
        offset: Where it stood, -1 if unknown.
        sent_ns, acked_ns: When its send began and ended, -1 if unknown.
        weak: Whether its send asked for less than all acknowledgements.
    """

    value: int
    offset: int
    sent_ns: int
    acked_ns: int
    weak: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Acknowledger:
    """A broker that led a partition in an epoch; -1: nobody tells which broker, or which epoch."""

    broker: int
    epoch: int

    @property
    def node(self) -> str:
        """The node's name: broker 2 is n2."""
        return f"n{self.broker}" if self.broker >= 0 else "an unknown leader"

    @property
    def text(self) -> str:
        """For people: `broker 1, leader of epoch 4`."""
        if self.broker < 0:
            return f"whoever led in epoch {self.epoch}"
        return f"broker {self.broker}" + (f", leader of epoch {self.epoch}" * (self.epoch >= 0))


class _Answer(NamedTuple):
    """What a broker answered of a partition's leader."""

    asked_ns: int
    seen_ns: int
    epoch: int
    life: int
    own: bool


def acknowledgers(group: Group, record: Acked) -> tuple[Acknowledger, ...]:
    """Return who may have acknowledged a record, by broker and epoch; empty: nobody was told of."""
    written = _copied(group, record)
    left = [each for each in group.view(_claims) if _wrote(group, each, written)]
    rules: Sequence[Callable[[Acknowledger], bool]] = (
        lambda who: _can_have_held(group, record, who),
        lambda who: _led_then(group, record, who),
        lambda who: _was_there(group, record, who),
        lambda who: _grew_then(group, record, who),
    )
    for rule in rules:
        left = [each for each in left if rule(each)] or left  # What rules out all proves nothing.
    return tuple(left)


def _wrote(group: Group, who: Acknowledger, written: frozenset[int]) -> bool:
    """Tell whether a leader may have answered for a record of which copies of some epochs are left.

    One that was sent again may have been written by an earlier leader, and only be recognized.
    """
    if not written or who.epoch < 0:
        return True
    return who.epoch >= min(written) if group.facts.idempotent else who.epoch in written


def _claims(group: Group) -> list[Acknowledger]:
    rows = group.table("leadership")
    led = select(rows, ints(rows, "leader") >= 0)
    told = set(zip(ints(led, "leader").tolist(), ints(led, "leader_epoch").tolist(), strict=True))
    told = {each for each in told if each[1] >= 0} or told
    logs = [log for copies in group.logs.values() for log in copies.values()]
    written = {epoch for log in logs for epoch in np.unique(log.epochs).tolist() if epoch >= 0}
    # Of an epoch of which only records tell nobody knows who led.
    unknown = {(NONE, epoch) for epoch in written - {epoch for _, epoch in told}}
    return [Acknowledger(broker=one, epoch=epoch) for one, epoch in sorted({*told, *unknown})]


def _copied(group: Group, record: Acked) -> frozenset[int]:
    """Return the leader epochs under which copies of a record were found at its offset.

    Nobody sends again what was acknowledged: a copy there is the record, or was an earlier try.
    """
    polls = group.table("polls")
    columns = [[ints(polls, name) for name in ("value", "offset", "leader_epoch")]]
    columns += [
        [log.values, log.offsets, log.epochs]
        for copies in group.logs.values()
        for log in copies.values()
    ]
    return frozenset(
        epoch
        for values, offsets, epochs in columns
        for epoch in epochs[(values == record.value) & (offsets == record.offset)].tolist()
        if epoch >= 0
    )


def _can_have_held(group: Group, record: Acked, who: Acknowledger) -> bool:
    """Tell whether a broker's log may have had the record, under that epoch."""
    log = group.logs.get(FINAL, group.logs.get(CRASH, {})).get(who.node)
    if log is None or record.offset < log.start or record.offset < 0 or moved(group):
        return True
    index = log.at(record.offset)
    if index is not None and int(log.values[index]) == record.value:
        return who.epoch < 0 or int(log.epochs[index]) <= who.epoch
    cut = cut_at(group, record, who.node)
    if cut is not None:
        return who.epoch < 0 or who.epoch >= _epoch_before(log, cut)
    ends_early = not log.whole and log.read_end <= record.offset
    return ends_early or not read_whole(group, who.node) or shrank(group, record, who.node)


def moved(group: Group) -> bool:
    """Tell whether replicas may have been made anew: then no line of a log tells what they had."""
    return any(each.kind in _REMAKE for each in group.facts.disturbances)


def read_whole(group: Group, node: str) -> bool:
    """Tell whether all files of a node were read, so that what they lack was not there."""
    return node in group.facts.collected_nodes - group.facts.unreadable_nodes


def shrank(group: Group, record: Acked, node: str) -> bool:
    """Tell whether a log was seen to reach beyond a record, and then no more."""
    return any(one > record.offset >= two for (_, one), (_, two) in pairwise(looks_at(group, node)))


def cut_at(group: Group, record: Acked, node: str) -> int | None:
    """Return from which offset on a node's log may have lost the record, the lowest; None: none."""
    cuts = group.table("truncations")
    from_offsets, times = ints(cuts, "from_offset"), ints(cuts, "observed_ns")
    hit = np.array([each == node for each in texts(cuts, "node")], dtype=np.bool_)
    hit &= (from_offsets <= record.offset) & ((times < 0) | (times >= record.sent_ns))
    lost = [
        loss.first_taken
        for loss in group.facts.disk_losses
        if node in loss.nodes
        and loss.concerns(group.topic, group.partition)
        and loss.first_taken <= record.offset
        and loss.until_ns >= record.sent_ns
    ]
    return min([*from_offsets[hit].tolist(), *lost], default=None)


def _epoch_before(log: ReplicaLog, offset: int) -> int:
    """Return the epoch of the last record before an offset: what followed it was no older."""
    before = int(np.searchsorted(log.offsets, offset)) - 1
    return int(log.epochs[before]) if before >= 0 else NONE


def _led_then(group: Group, record: Acked, who: Acknowledger) -> bool:
    """Tell whether a broker may have led in an epoch at some time while a send was under way."""
    if who.epoch < 0 or record.acked_ns < 0:
        return True
    answers = group.view(_answers).get(who.node, ())
    if group.facts.plan.mode is Mode.ZOOKEEPER:
        # There a broker may be told of the leader in one request, and lead by another, earlier one.
        answers = [each for each in answers if each.own]
    reign = [each for each in answers if each.own and each.epoch == who.epoch]
    if reign and reign[0].seen_ns <= record.sent_ns and record.acked_ns <= reign[-1].asked_ns:
        return True
    decided = group.view(_answers).get(_ZOOKEEPER, ())
    if any(each.epoch < who.epoch and each.asked_ns > record.acked_ns for each in decided):
        return False
    knew = [each.epoch for each in answers if each.seen_ns < record.sent_ns - _KNOWN_NS]
    learned = [each.epoch for each in answers if each.asked_ns > record.acked_ns + _KNOWN_NS]
    return max(knew, default=NONE) <= who.epoch <= min(learned, default=who.epoch)


def _grew_then(group: Group, record: Acked, who: Acknowledger) -> bool:
    """Tell whether a leader's log may have come to reach beyond the record during its send.

    While it leads, a broker's log only grows: before the send it ended at the offset or earlier,
    and afterwards it goes on behind it.
    """
    answers = group.view(_answers).get(who.node, ())
    reign = [each for each in answers if each.own and each.epoch == who.epoch]
    known = min(record.offset, record.sent_ns, record.acked_ns) >= 0
    if not known or len({each.life for each in reign}) != 1:
        return True
    from_ns, until_ns = reign[0].seen_ns + _LOOK_NS, reign[-1].asked_ns
    looks = [each for each in looks_at(group, who.node) if from_ns <= each[0] <= until_ns]
    before = [end for seen_ns, end in looks if seen_ns <= record.sent_ns]
    after = [end for seen_ns, end in looks if seen_ns > record.acked_ns + _LOOK_NS]
    return max(before, default=0) <= record.offset < min(after, default=record.offset + 1)


def looks_at(group: Group, node: str) -> Sequence[tuple[int, int]]:
    """Return (when, where) a node's log was seen to end, while its broker ran."""
    return group.view(_looks).get(node, ())


def _looks(group: Group) -> dict[str, list[tuple[int, int]]]:
    """Return when each replica's log was seen to end where."""
    states = group.table("replica_states")
    told = present(states, "observed_ns") & present(states, "log_end_offset")
    seen = select(states, told)
    columns = (ints(seen, name).tolist() for name in ("observed_ns", "log_end_offset"))
    found: dict[str, list[tuple[int, int]]] = {}
    for node, seen_ns, end in zip(texts(seen, "node"), *columns, strict=True):
        found.setdefault(node, []).append((seen_ns, end))
    return {node: sorted(each) for node, each in found.items()}


def _answers(group: Group) -> dict[str, list[_Answer]]:
    """Return what each broker answered of leader epochs."""
    rows = group.table("leadership")
    told = (ints(rows, "leader_epoch") >= 0) & (ints(rows, "observed_ns") >= 0)
    answered = select(rows, told)
    names = ("asked_ns", "observed_ns", "leader_epoch", "incarnation")
    columns = (ints(answered, name).tolist() for name in names)
    found: dict[str, list[_Answer]] = {}
    for observer, source, asked_ns, seen_ns, epoch, life in zip(
        texts(answered, "observer"), texts(answered, "source"), *columns, strict=True
    ):
        if source not in _FILES:
            own = source == LEADER_SOURCES[0]
            answer = _Answer(asked_ns=asked_ns, seen_ns=seen_ns, epoch=epoch, life=life, own=own)
            found.setdefault(observer, []).append(answer)
    return {observer: sorted(each) for observer, each in found.items()}


def _was_there(group: Group, record: Acked, who: Acknowledger) -> bool:
    """Tell whether a broker was there for a part, at least, of the time of a send."""
    if record.sent_ns < 0 or record.acked_ns < 0:
        return True
    return not any(
        each.node == who.node
        and each.from_ns <= record.sent_ns
        and record.acked_ns <= each.until_ns
        for each in group.facts.absences
    )


def led_between(group: Group, from_ns: int, until_ns: int) -> tuple[Acknowledger, ...]:
    """Return who may have led a partition at some time between two, and so answered clients."""
    return acknowledgers(group, Acked(value=NONE, offset=NONE, sent_ns=from_ns, acked_ns=until_ns))


def named(found: Sequence[Acknowledger]) -> str:
    """Return them for people: `broker 2, leader of epoch 1, or broker 3, leader of epoch 2`."""
    return ", or ".join(each.text for each in found) or "nobody was seen to lead"


def evidence_of(found: Sequence[Acknowledger]) -> Evidence:
    """Return them as evidence: the broker and the epoch where only one is left."""
    brokers, epochs = {each.broker for each in found}, {each.epoch for each in found}
    return {
        "leader_then": known(min(brokers)) if len(brokers) == 1 else None,
        "leader_epoch_then": known(min(epochs)) if len(epochs) == 1 else None,
        "may_have_acknowledged": [each.text for each in found],
    }
