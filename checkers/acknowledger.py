"""Who acknowledged a record: what all that was recorded leaves of the brokers that ever led.

A client is told an offset, and not by whom. Each (broker, leader epoch) that anybody told of may
have been it, unless something says otherwise: the broker knew of a later epoch before the send, or
only of an earlier one after it; it was away while the send was under way, or had ended in that
epoch; its log was read to the end, never lost anything from that offset on, and has something else
there; what it lost there was of later epochs; its log ended elsewhere while it led; the producer's
sequences show that another took it; or the copies that are left are of other epochs, unless the
client had the time to send again: then they may be of another try. Where two are left, both are
named. Where replicas may have been made anew, or files were not read, no log's lack tells anything.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import pyarrow as pa

from checkers.changes import NEVER_NS
from checkers.columns import NONE, Ints, equal, ints, order_of, present, select, texts
from checkers.disk_losses import replicas_of
from checkers.facts import CRASH, FINAL, Absence
from checkers.findings import known
from checkers.group import LEADER_SOURCES, Group, Leader, ReplicaLog, once
from checkers.taken_epochs import taken
from checkers.written_epochs import epochs_of, written_epochs
from results.record.terms import Source
from results.record.verdict import Evidence

KNOWN_NS = 500_000_000
"""What a broker answers about a leader may be so much older or newer than what it does."""
ZOOKEEPER = "zk"
"""Where the controller writes down whom it makes the leader, before that one leads."""
_REMAKE = frozenset({"reassignment", "wipe"})
"""Faults after which a replica is copied from its beginning."""
LOOK_NS = 2_000_000_000
"""A log's end may be so much older than the time that it is noted with: two questions' limits."""
_GAP = 8
"""Of so many epochs in a row that nobody told of each may have had a leader."""
_OF_TIME = 2
"""So many rules are of when a broker led and was there; the others are of what logs have."""
FILES = (Source.METADATA_LOG, Source.STATE_CHANGE_LOG)
"""Sources whose rows lie in a broker's files: what they tell, the broker did not answer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Acked:
    """An acknowledged record, or one that a reader was given all the same.

    Attributes:
        value: What it holds.
        offset: Where it stood, -1 if unknown.
        sent_ns, acked_ns: When its send began and ended, -1 if unknown.
        weak: Whether its send asked for less than all acknowledgements.
        acked: Whether it was acknowledged.
    """

    value: int
    offset: int
    sent_ns: int
    acked_ns: int
    weak: bool = False
    acked: bool = True

    @property
    def took(self) -> str:
        """What its leader is known to have done with it."""
        return "acknowledged" if self.acked else "wrote"


@dataclass(frozen=True, slots=True, kw_only=True)
class Acknowledger(Leader):
    """A leader that may have acknowledged a record."""

    @property
    def text(self) -> str:
        """For people: `n1, leader of epoch 4`."""
        if self.broker >= 0:
            return self.node + (f", leader of epoch {self.epoch}" * (self.epoch >= 0))
        return f"whoever led in epoch {self.epoch}" if self.epoch >= 0 else self.node


_UNTOLD = Acknowledger(broker=NONE, epoch=NONE)
"""A leader of which nobody told: where all others were away or did not lead."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Reign:
    """A leader's own answers in one epoch.

    Attributes:
        from_ns, until_ns: When the first one was seen, and the last one was asked for.
        life: Of which process they are; -1 if of several.
    """

    from_ns: int
    until_ns: int
    life: int


@dataclass(frozen=True, slots=True, kw_only=True)
class _Answers:
    """What a broker answered of a partition's leader.

    Attributes:
        seen_ns, knew: When answers were seen, by time; the highest epoch up to each of them.
        asked_ns, learned: When answers were asked for, by time; the lowest epoch from each on.
        reigns: By epoch.
    """

    seen_ns: Ints
    knew: Ints
    asked_ns: Ints
    learned: Ints
    reigns: Mapping[int, _Reign]

    def highest_before(self, time_ns: int) -> int:
        """Return the highest epoch in answers that were seen before a time; -1 if there is none."""
        at = int(np.searchsorted(self.seen_ns, time_ns))
        return int(self.knew[at - 1]) if at else NONE

    def lowest_after(self, time_ns: int, *, otherwise: int) -> int:
        """Return the lowest epoch in answers that were asked for after a time."""
        at = int(np.searchsorted(self.asked_ns, time_ns, side="right"))
        return int(self.learned[at]) if at < len(self.learned) else otherwise


def leads_on(group: Group, before: Leader, after: Leader) -> bool:
    """Tell whether one broker led in two epochs without anything between: its log only grew."""
    if before.broker != after.broker or before.epoch + 1 != after.epoch:
        return False
    told = group.view(_answers).get(before.node)
    reigns = [told.reigns.get(each.epoch) for each in (before, after)] if told else []
    lives = {each.life if each else NONE for each in reigns}
    return len(lives) == 1 and NONE not in lives


@once
def acknowledgers(group: Group, record: Acked) -> tuple[Acknowledger, ...]:
    """Return who may have acknowledged a record, by broker and epoch; empty: nobody was told of.

    Of a record that nobody acknowledged: who may have written it, by its copies if there are any.
    """
    copied = frozenset() if record.acked else epochs_of(group, record.value)
    if wrote := tuple(each for each in group.view(_claims) if each.epoch in copied):
        return wrote
    written = written_epochs(group, record.offset, record.value)
    left = [each for each in group.view(_claims) if _wrote(group, each, record, written)]
    if not written and (shown := taken(group, record.value)):
        left = [each for each in left if _took(group, each, record, shown.epoch)] or left
    rules: Sequence[Callable[[Acknowledger], bool]] = (
        lambda who: _led_then(group, record, who),
        lambda who: _was_there(group, record, who),
        lambda who: _can_have_held(group, record, who),
        lambda who: _grew_then(group, record, who),
    )
    led = left
    for number, rule in enumerate(rules):
        kept = [each for each in left if rule(each)]
        if left and not kept and not written and number < _OF_TIME:
            kept = [*left, _UNTOLD]
        left = kept or left  # What rules out all proves nothing.
        led = left if number < _OF_TIME else led
    return tuple(
        each for each in led if each in left or _may_have_dropped(group, record, each, left)
    )


def _may_have_dropped(
    group: Group, record: Acked, who: Acknowledger, others: Sequence[Acknowledger]
) -> bool:
    """Tell whether a leader may have acknowledged what its log lost without a trace.

    It led all the time, and none of the others is known to have done so. Either it wrote another
    record in the same place, or another broker was only believed to lead in its epoch.
    """
    if not _reigned(group, record, who) or any(_reigned(group, record, each) for each in others):
        return False
    rivals = any(each.epoch == who.epoch for each in others)
    return rivals or overwritten_in(group, record, who.epoch)


def _wrote(group: Group, who: Acknowledger, record: Acked, written: frozenset[int]) -> bool:
    """Tell whether a leader may have answered for a record of which copies of some epochs are left.

    What was sent again may lie there from another try, by an earlier leader or a later one.
    """
    if not written or who.epoch < 0:
        return True
    if not may_be_resent(group, record):
        return who.epoch in written
    claims = group.view(_claims)
    later = [
        {each.broker for each in claims if each.epoch == epoch}
        for epoch in written
        if epoch > who.epoch
    ]
    # A broker never goes back to an epoch of before one in which it took a try.
    return not later or ({who.broker} not in later and not _one_by_one(group))


def _took(group: Group, who: Acknowledger, record: Acked, epoch: int) -> bool:
    """Tell whether a leader may have answered for a record that was taken in an epoch."""
    if who.epoch in (NONE, epoch):
        return True
    # With one try nobody else had it; a later leader may have been sent it again.
    return may_be_resent(group, record) and (who.epoch > epoch or not _one_by_one(group))


def may_be_resent(group: Group, record: Acked) -> bool:
    """Tell whether a client had the time to send a record more than once."""
    took_ns = record.acked_ns - record.sent_ns
    unknown = min(record.sent_ns, record.acked_ns) < 0
    return group.facts.retries and (unknown or took_ns >= group.facts.resends_after_ns)


def _one_by_one(group: Group) -> bool:
    """Tell whether no leader acknowledges what a later one has written.

    With idempotence an acknowledgement is that of the whole ISR, and the next leader is one of it.
    """
    return group.facts.idempotent and not group.facts.plan.unclean_elections


def _claims(group: Group) -> list[Acknowledger]:
    rows = group.table("leadership")
    led = select(rows, ints(rows, "leader") >= 0)
    told = set(zip(ints(led, "leader").tolist(), ints(led, "leader_epoch").tolist(), strict=True))
    told = {each for each in told if each[1] >= 0} or told
    logs = [log for copies in group.logs.values() for log in copies.values()]
    written = {epoch for log in logs for epoch in np.unique(log.epochs).tolist() if epoch >= 0}
    # Of an epoch of which only records tell nobody knows who led.
    untold = {*written, *_between(ints(rows, "leader_epoch"))} - {epoch for _, epoch in told}
    unknown = {(NONE, epoch) for epoch in untold}
    return [Acknowledger(broker=one, epoch=epoch) for one, epoch in sorted({*told, *unknown})]


def _between(told: Ints) -> list[int]:
    """Return the epochs between others of which no row tells, at most some of each gap."""
    epochs = np.unique(told[told >= 0]).tolist()
    return [
        epoch for one, two in pairwise(epochs) for epoch in range(one + 1, min(two, one + 1 + _GAP))
    ]


def _can_have_held(group: Group, record: Acked, who: Acknowledger) -> bool:
    """Tell whether a broker's log may have had the record, under that epoch."""
    log = group.logs.get(FINAL, group.logs.get(CRASH, {})).get(who.node)
    if log is None or record.offset < log.start or record.offset < 0 or moved(group):
        return True
    index = log.at(record.offset)
    if index is not None and int(log.values[index]) == record.value:
        older = who.epoch < 0 or int(log.epochs[index]) <= who.epoch
        return older or (may_be_resent(group, record) and not _one_by_one(group))
    cut = cut_at(group, record, who.node)
    if cut is not None:
        return who.epoch < 0 or who.epoch >= _epoch_before(log, cut)
    ends_early = not log.whole and log.read_end <= record.offset
    return ends_early or not read_whole(group, who.node) or shrank(group, record, who.node)


def overwritten_in(group: Group, record: Acked, epoch: int) -> bool:
    """Tell whether a final log has another record at that offset, written in an epoch."""
    logs = group.logs.get(FINAL, {}).values()
    places = ((log, log.at(record.offset)) for log in logs)
    return any(
        at is not None and int(log.epochs[at]) == epoch and int(log.values[at]) != record.value
        for log, at in places
    )


def moved(group: Group) -> bool:
    """Tell whether replicas may have been made anew: then no line of a log tells what they had."""
    return any(each.kind in _REMAKE for each in group.facts.disturbances)


def read_whole(group: Group, node: str) -> bool:
    """Tell whether all files of a node were read, so that what they lack was not there."""
    return node in group.facts.collected_nodes - group.facts.unreadable_nodes


def shrank(group: Group, record: Acked, node: str) -> bool:
    """Tell whether a log was seen to reach beyond a record, and then no more."""
    return any(one > record.offset >= two for one, two in group.view(_shrinkings).get(node, ()))


def _shrinkings(group: Group) -> dict[str, list[tuple[int, int]]]:
    """Return between which ends each log was seen to have lost records."""
    return {
        node: list(zip(ends[:-1][less].tolist(), ends[1:][less].tolist(), strict=True))
        for node, (_, ends) in group.view(looks).items()
        for less in [ends[1:] < ends[:-1]]
    }


def cut_at(group: Group, record: Acked, node: str) -> int | None:
    """Return from which offset on a node's log may have lost the record, the lowest; None: none."""
    cuts = group.view(_cuts).get(node, ())
    hit = [
        from_offset
        for from_offset, at_ns in cuts
        if from_offset <= record.offset and (at_ns < 0 or at_ns >= record.sent_ns)
    ]
    lost = [
        loss.first_taken
        for loss in group.facts.disk_losses
        if node in loss.nodes
        and loss.concerns(group.topic, group.partition)
        and loss.first_taken <= record.offset
        and loss.until_ns >= record.sent_ns
    ]
    return min([*hit, *lost], default=None)


def _cuts(group: Group) -> dict[str, list[tuple[int, int]]]:
    """Return from which offsets on each node's log was cut, and when; -1 if that is not known."""
    cuts = group.table("truncations")
    columns = (ints(cuts, name).tolist() for name in ("from_offset", "observed_ns"))
    found: dict[str, list[tuple[int, int]]] = {}
    for node, *cut in zip(texts(cuts, "node"), *columns, strict=True):
        found.setdefault(node, []).append((cut[0], cut[1]))
    return found


def _epoch_before(log: ReplicaLog, offset: int) -> int:
    """Return the epoch of the last record before an offset: what followed it was no older."""
    before = int(np.searchsorted(log.offsets, offset)) - 1
    return int(log.epochs[before]) if before >= 0 else NONE


def _led_then(group: Group, record: Acked, who: Acknowledger) -> bool:
    """Tell whether a broker may have led in an epoch at some time while a send was under way."""
    if who.epoch < 0 or record.acked_ns < 0:
        return True
    told = group.view(_answers)
    if ZOOKEEPER in told:
        decided = told[ZOOKEEPER].lowest_after(record.acked_ns, otherwise=who.epoch)
        if decided < who.epoch and not _reigned(group, record, who):
            return False
    if who.broker < 0:
        return any(_may_know(group, record, each, who.epoch) for each in replicas_of(group))
    return _reigned(group, record, who) or _may_know(group, record, who.node, who.epoch)


def _may_know(group: Group, record: Acked, node: str, epoch: int) -> bool:
    """Tell whether an epoch may have been the newest that a broker knew, at some time of a send."""
    told = group.view(_answers).get(node)
    if told is None:
        return True
    knew = told.highest_before(record.sent_ns - KNOWN_NS)
    # Without ZooKeeper a broker names an epoch before it leads in it, never afterwards.
    early_ns = 0 if group.facts.plan.has_quorum else KNOWN_NS
    return knew <= epoch <= told.lowest_after(record.acked_ns + early_ns, otherwise=epoch)


def _reigned(group: Group, record: Acked, who: Acknowledger) -> bool:
    """Tell whether a leader told before a send and after it that it led in an epoch."""
    reign = _reign(group, who)
    return reign is not None and (
        reign.from_ns <= record.sent_ns and record.acked_ns <= reign.until_ns
    )


def led_itself(group: Group, who: Acknowledger, span: tuple[int, int]) -> bool:
    """Tell whether a broker's own answers as the leader of an epoch reach into a time."""
    reign = _reign(group, who)
    return reign is not None and reign.from_ns <= span[1] and span[0] <= reign.until_ns


def _reign(group: Group, who: Acknowledger) -> _Reign | None:
    told = group.view(_answers).get(who.node)
    return told.reigns.get(who.epoch) if told else None


def _grew_then(group: Group, record: Acked, who: Acknowledger) -> bool:
    """Tell whether a leader's log may have come to reach beyond the record during its send.

    While it leads, a broker's log only grows: before the send it ended at the offset or earlier,
    and afterwards it goes on behind it.
    """
    reign = _reign(group, who)
    known = min(record.offset, record.sent_ns, record.acked_ns) >= 0
    if not known or reign is None or reign.life == NONE or who.node not in group.view(looks):
        return True
    seen_ns, ends = group.view(looks)[who.node]
    first = np.searchsorted(seen_ns, reign.from_ns + LOOK_NS)
    edges = (record.sent_ns, record.acked_ns + LOOK_NS, reign.until_ns)
    sent, later, last = np.searchsorted(seen_ns, edges, side="right")
    before, after = ends[first : min(sent, last)], ends[max(later, first) : last]
    return bool(before.max(initial=0) <= record.offset) and bool(
        record.offset < after.min(initial=record.offset + 1)
    )


def looks(group: Group) -> dict[str, tuple[Ints, Ints]]:
    """Return when each replica's log was seen to end where, by time, while its broker ran."""
    states = group.table("replica_states")
    told = present(states, "observed_ns") & present(states, "log_end_offset")
    seen = select(states, told)
    times, ends = ints(seen, "observed_ns"), ints(seen, "log_end_offset")
    order = order_of(times, ends)
    of = np.array(texts(seen, "node"), dtype=object)[order]
    return {node: (times[order][of == node], ends[order][of == node]) for node in sorted(set(of))}


def looks_at(group: Group, node: str) -> list[tuple[int, int]]:
    """Return (time in ns, log end offset) of each look at a node's log, by time."""
    columns = group.view(looks).get(node)
    return [] if columns is None else list(zip(*(each.tolist() for each in columns), strict=True))


def _answers(group: Group) -> dict[str, _Answers]:
    """Return what each broker answered of leader epochs.

    Where ZooKeeper decides, a broker is told of the leader in one request, and may lead by another,
    earlier one: there its own leadership alone counts.
    """
    rows = group.table("leadership")
    told = (ints(rows, "leader_epoch") >= 0) & (ints(rows, "observed_ns") >= 0)
    told &= ~equal(rows, "source", *FILES)
    if not group.facts.plan.has_quorum:
        told &= equal(rows, "source", LEADER_SOURCES[0]) | equal(rows, "observer", ZOOKEEPER)
    answered = select(rows, told)
    of = np.array(texts(answered, "observer"), dtype=object)
    return {node: _answers_of(select(answered, of == node)) for node in sorted(set(of))}


def _answers_of(rows: pa.Table) -> _Answers:
    asked, seen, epochs, lives = (
        ints(rows, name) for name in ("asked_ns", "observed_ns", "leader_epoch", "incarnation")
    )
    own = equal(rows, "source", LEADER_SOURCES[0])
    by_seen, by_asked = order_of(seen), order_of(asked)
    return _Answers(
        seen_ns=seen[by_seen],
        knew=np.maximum.accumulate(epochs[by_seen]),
        asked_ns=asked[by_asked],
        learned=np.minimum.accumulate(epochs[by_asked][::-1])[::-1],
        reigns={
            epoch: _Reign(
                from_ns=int(seen[mine].min()),
                until_ns=int(asked[mine].max()),
                life=int(lives[mine].min()) if lives[mine].min() == lives[mine].max() else NONE,
            )
            for epoch in np.unique(epochs[own]).tolist()
            for mine in [own & (epochs == epoch)]
        },
    )


def _was_there(group: Group, record: Acked, who: Acknowledger) -> bool:
    """Tell whether a broker was there as a leader for a part, at least, of the time of a send."""
    known = min(record.sent_ns, record.acked_ns) >= 0
    return not known or not any(
        each.node == who.node
        and each.from_ns <= record.sent_ns
        and (record.acked_ns <= each.until_ns or _ended_with(group, who, each))
        for each in group.facts.absences
    )


def _ended_with(group: Group, who: Acknowledger, away: Absence) -> bool:
    """Tell whether a leader's epoch was over when its broker came back.

    A broker that starts anew leads in a later one. ZooKeeper may not miss one that is soon back.
    """
    if not away.gone or who.epoch < 0 or not group.facts.plan.has_quorum:
        return False
    reign, told_ns = _reign(group, who), group.view(_first_told).get(who.epoch, NEVER_NS)
    return told_ns < away.until_ns and (reign is None or reign.until_ns <= away.until_ns)


def _first_told(group: Group) -> dict[int, int]:
    """Return when each epoch, or a later one, was first told of."""
    rows = group.table("leadership")
    rows = select(rows, (ints(rows, "observed_ns") >= 0) & (ints(rows, "leader_epoch") >= 0))
    times, epochs = ints(rows, "observed_ns"), ints(rows, "leader_epoch")
    return {epoch: int(times[epochs >= epoch].min()) for epoch in np.unique(epochs).tolist()}


def led_between(group: Group, from_ns: int, until_ns: int) -> tuple[Acknowledger, ...]:
    """Return who may have led a partition at some time between two, and so answered clients."""
    return acknowledgers(group, Acked(value=NONE, offset=NONE, sent_ns=from_ns, acked_ns=until_ns))


def named(found: Sequence[Acknowledger]) -> str:
    """Return them for people: `n2, leader of epoch 1, or n3, leader of epoch 2`."""
    return ", or ".join(each.text for each in found) or "nobody was seen to lead"


def evidence_of(found: Sequence[Acknowledger]) -> Evidence:
    """Return them as evidence: the broker and the epoch where only one is left."""
    brokers, epochs = {each.broker for each in found}, {each.epoch for each in found}
    return {
        "leader_then": known(min(brokers)) if len(brokers) == 1 else None,
        "leader_epoch_then": known(min(epochs)) if len(epochs) == 1 else None,
        "may_have_acknowledged": [each.text for each in found],
    }
