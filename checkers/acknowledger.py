"""Find the leaders that may have acknowledged a record, from all data of the run.

An acknowledgement names no broker. Each recorded pair of broker and leader epoch is a candidate.
Any of these facts excludes a candidate:

- The broker knew a later epoch before the send, or only an earlier epoch after the send.
- The broker was down during the whole send.
- The broker's log is complete and lost nothing, but does not hold the record at the offset.
- The broker's log end offset, before or after the send, shows that it did not append the record.
- The producer's sequences name another leader.
- All copies have another epoch, and the client had no time to retry.

If two remain, both are named. If replicas may have been recreated, a missing record proves nothing.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import pyarrow as pa

from checkers.columns import NEVER, NONE, Ints, equal, ints, order_of, present, select, texts
from checkers.disk_losses import replicas_of
from checkers.facts import CRASH, FINAL, Absence
from checkers.findings import known
from checkers.group import LEADER_SOURCES, Group, Leader, ReplicaLog, once
from checkers.taken_epochs import taken
from checkers.written_epochs import epochs_of, written_epochs
from results.record.terms import Source
from results.record.verdict import Evidence

KNOWN_NS = 500_000_000
"""The maximum delay until a broker's answers show a change of leader."""
ZOOKEEPER = "zk"
"""The name of ZooKeeper as an observer. ZooKeeper knows a new leader before that leader leads."""
_REMAKE = frozenset({"reassignment", "wipe"})
"""The faults after which a broker copies a whole replica again."""
LOOK_NS = 2_000_000_000
"""A log end offset may be this much older than its recorded time: two request timeouts."""
_GAP = 8
"""If no source reported some successive epochs, at most this many of them are candidates."""
_OF_TIME = 2
"""The number of rules about time. These rules come first; later rules test the content of logs."""
FILES = (Source.METADATA_LOG, Source.STATE_CHANGE_LOG)
"""The sources whose rows come from files of a broker, not from answers."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Acked:
    """A record that was acknowledged, or that a reader got without an acknowledgement.

    Attributes:
        value, offset: The record's value and its offset; offset -1 if unknown.
        sent_ns, acked_ns: When the send began and ended, -1 if unknown.
        weak: Whether the send asked for less than acks=all.
        acked: Whether the record was acknowledged.
    """

    value: int
    offset: int
    sent_ns: int
    acked_ns: int
    weak: bool = False
    acked: bool = True

    @property
    def took(self) -> str:
        """The verb for a report: `acknowledged`, or `wrote` for an unacknowledged record."""
        return "acknowledged" if self.acked else "wrote"


@dataclass(frozen=True, slots=True, kw_only=True)
class Acknowledger(Leader):
    """A leader that may have acknowledged a record."""

    @property
    def text(self) -> str:
        """The leader for a report, such as `n1, leader of epoch 4`."""
        if self.broker >= 0:
            return self.node + (f", leader of epoch {self.epoch}" * (self.epoch >= 0))
        return f"an unknown leader of epoch {self.epoch}" if self.epoch >= 0 else self.node


_UNTOLD = Acknowledger(broker=NONE, epoch=NONE)
"""An unreported leader: a candidate if no copy has an epoch and times exclude all known leaders."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Reign:
    """The period in which a broker's own answers named it as the leader of one epoch.

    Attributes:
        from_ns, until_ns: When the first answer arrived; when the last request was sent.
        life: The process (incarnation) that gave the answers; -1 if there were several.
    """

    from_ns: int
    until_ns: int
    life: int


@dataclass(frozen=True, slots=True, kw_only=True)
class _Answers:
    """One broker's answers about the leader of a partition.

    Attributes:
        seen_ns, knew: The sorted times of answers, and the highest epoch up to each of these times.
        asked_ns, learned: The sorted times of requests, and the lowest epoch from each of them on.
        reigns: For each epoch, the period in which the broker named itself as leader.
    """

    seen_ns: Ints
    knew: Ints
    asked_ns: Ints
    learned: Ints
    reigns: Mapping[int, _Reign]

    def highest_before(self, time_ns: int) -> int:
        """Return the highest epoch in answers that arrived before a time, or -1."""
        at = int(np.searchsorted(self.seen_ns, time_ns))
        return int(self.knew[at - 1]) if at else NONE

    def lowest_after(self, time_ns: int, *, otherwise: int) -> int:
        """Return the lowest epoch in answers to requests that were sent after a time."""
        at = int(np.searchsorted(self.asked_ns, time_ns, side="right"))
        return int(self.learned[at]) if at < len(self.learned) else otherwise


def leads_on(group: Group, before: Leader, after: Leader) -> bool:
    """Return whether one process led in two successive epochs, so that its log only grew."""
    if before.broker != after.broker or before.epoch + 1 != after.epoch:
        return False
    told = group.view(_answers).get(before.node)
    reigns = [told.reigns.get(each.epoch) for each in (before, after)] if told else []
    lives = {each.life if each else NONE for each in reigns}
    return len(lives) == 1 and NONE not in lives


@once
def acknowledgers(group: Group, record: Acked) -> tuple[Acknowledger, ...]:
    """Return the leaders that may have acknowledged a record; empty if none is known.

    For an unacknowledged record with copies, return the leaders of the copies' epochs.
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
        left = kept or left  # A rule that excludes every candidate proves nothing.
        led = left if number < _OF_TIME else led
    return tuple(
        each for each in led if each in left or _may_have_dropped(group, record, each, left)
    )


def _may_have_dropped(
    group: Group, record: Acked, who: Acknowledger, others: Sequence[Acknowledger]
) -> bool:
    """Return whether a leader may have acknowledged a record, and then lost it without a trace.

    Only this candidate is known to have led during the whole send. Also, another
    record of its epoch is at the offset, or a second broker was reported as leader of that epoch.
    """
    if not _reigned(group, record, who) or any(_reigned(group, record, each) for each in others):
        return False
    rivals = any(each.epoch == who.epoch for each in others)
    return rivals or overwritten_in(group, record, who.epoch)


def _wrote(group: Group, who: Acknowledger, record: Acked, written: frozenset[int]) -> bool:
    """Return whether a leader may have acknowledged a record, according to the copies' epochs.

    A copy may come from another try of the send, which an earlier or a later leader appended.
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
    # A broker that appended a try in one epoch never returns to an earlier epoch.
    return not later or ({who.broker} not in later and not _one_by_one(group))


def _took(group: Group, who: Acknowledger, record: Acked, epoch: int) -> bool:
    """Return whether a leader may have acknowledged a record that was appended in a given epoch."""
    if who.epoch in (NONE, epoch):
        return True
    # With a single try, only one leader got the record. A later leader may have got a retry.
    return may_be_resent(group, record) and (who.epoch > epoch or not _one_by_one(group))


def may_be_resent(group: Group, record: Acked) -> bool:
    """Return whether a client had the time to send a record more than once."""
    took_ns = record.acked_ns - record.sent_ns
    unknown = min(record.sent_ns, record.acked_ns) < 0
    return group.facts.retries and (unknown or took_ns >= group.facts.resends_after_ns)


def _one_by_one(group: Group) -> bool:
    """Return whether later leaders never append a record that an earlier leader acknowledged.

    True with idempotence (all of the ISR has the record) if the plan permits no unclean leader.
    """
    return group.facts.idempotent and not group.facts.plan.unclean_elections


def _claims(group: Group) -> list[Acknowledger]:
    rows = group.table("leadership")
    led = select(rows, ints(rows, "leader") >= 0)
    told = set(zip(ints(led, "leader").tolist(), ints(led, "leader_epoch").tolist(), strict=True))
    told = {each for each in told if each[1] >= 0} or told
    logs = [log for copies in group.logs.values() for log in copies.values()]
    written = {epoch for log in logs for epoch in np.unique(log.epochs).tolist() if epoch >= 0}
    # If only records name an epoch, its leader is unknown.
    untold = {*written, *_between(ints(rows, "leader_epoch"))} - {epoch for _, epoch in told}
    unknown = {(NONE, epoch) for epoch in untold}
    return [Acknowledger(broker=one, epoch=epoch) for one, epoch in sorted({*told, *unknown})]


def _between(told: Ints) -> list[int]:
    """Return the epochs that no row names between two known epochs: at most `_GAP` in each gap."""
    epochs = np.unique(told[told >= 0]).tolist()
    return [
        epoch for one, two in pairwise(epochs) for epoch in range(one + 1, min(two, one + 1 + _GAP))
    ]


def _can_have_held(group: Group, record: Acked, who: Acknowledger) -> bool:
    """Return whether a broker's log may have held the record in the candidate's epoch."""
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
    """Return whether a final log holds another record of the given epoch at the record's offset."""
    logs = group.logs.get(FINAL, {}).values()
    places = ((log, log.at(record.offset)) for log in logs)
    return any(
        at is not None and int(log.epochs[at]) == epoch and int(log.values[at]) != record.value
        for log, at in places
    )


def moved(group: Group) -> bool:
    """Return whether a fault may have recreated replicas, so that logs lack earlier records."""
    return any(each.kind in _REMAKE for each in group.facts.disturbances)


def read_whole(group: Group, node: str) -> bool:
    """Return whether all files of a node were read, so that no record is missing by mistake."""
    return node in group.facts.collected_nodes - group.facts.unreadable_nodes


def shrank(group: Group, record: Acked, node: str) -> bool:
    """Return whether a log end was observed above a record, and later at or below that record."""
    return any(one > record.offset >= two for one, two in group.view(_shrinkings).get(node, ()))


def _shrinkings(group: Group) -> dict[str, list[tuple[int, int]]]:
    """Return, for each node, each decrease of the log end offset: the offsets before and after."""
    return {
        node: list(zip(ends[:-1][less].tolist(), ends[1:][less].tolist(), strict=True))
        for node, (_, ends) in group.view(looks).items()
        for less in [ends[1:] < ends[:-1]]
    }


def cut_at(group: Group, record: Acked, node: str) -> int | None:
    """Return the lowest offset from which a node may have lost a record since its send, or None."""
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
    """Return, for each node, the offset and the time of each truncation; time -1 if unknown."""
    cuts = group.table("truncations")
    columns = (ints(cuts, name).tolist() for name in ("from_offset", "observed_ns"))
    found: dict[str, list[tuple[int, int]]] = {}
    for node, *cut in zip(texts(cuts, "node"), *columns, strict=True):
        found.setdefault(node, []).append((cut[0], cut[1]))
    return found


def _epoch_before(log: ReplicaLog, offset: int) -> int:
    """Return the epoch of the last record before an offset. Epochs never decrease in a log."""
    before = int(np.searchsorted(log.offsets, offset)) - 1
    return int(log.epochs[before]) if before >= 0 else NONE


def _led_then(group: Group, record: Acked, who: Acknowledger) -> bool:
    """Return whether a candidate may have led in its epoch at some time during the send."""
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
    """Return whether an epoch may have been the newest that a broker knew during a send."""
    told = group.view(_answers).get(node)
    if told is None:
        return True
    knew = told.highest_before(record.sent_ns - KNOWN_NS)
    # Without ZooKeeper, a broker always reports an epoch before it begins to lead in that epoch.
    early_ns = 0 if group.facts.plan.has_quorum else KNOWN_NS
    return knew <= epoch <= told.lowest_after(record.acked_ns + early_ns, otherwise=epoch)


def _reigned(group: Group, record: Acked, who: Acknowledger) -> bool:
    """Return whether a leader named itself as leader both before the send and after it."""
    reign = _reign(group, who)
    return reign is not None and (
        reign.from_ns <= record.sent_ns and record.acked_ns <= reign.until_ns
    )


def led_itself(group: Group, who: Acknowledger, span: tuple[int, int]) -> bool:
    """Return whether a broker named itself as leader of an epoch at some time in a time span."""
    reign = _reign(group, who)
    return reign is not None and reign.from_ns <= span[1] and span[0] <= reign.until_ns


def _reign(group: Group, who: Acknowledger) -> _Reign | None:
    told = group.view(_answers).get(who.node)
    return told.reigns.get(who.epoch) if told else None


def _grew_then(group: Group, record: Acked, who: Acknowledger) -> bool:
    """Return whether a leader's log may have grown beyond a record while the record was sent.

    Before the send, the log must end at the record's offset or below; after the send, above it.
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
    """Return, for each node, the log end offsets that were observed, each with its time."""
    states = group.table("replica_states")
    told = present(states, "observed_ns") & present(states, "log_end_offset")
    seen = select(states, told)
    times, ends = ints(seen, "observed_ns"), ints(seen, "log_end_offset")
    order = order_of(times, ends)
    of = np.array(texts(seen, "node"), dtype=object)[order]
    return {node: (times[order][of == node], ends[order][of == node]) for node in sorted(set(of))}


def looks_at(group: Group, node: str) -> list[tuple[int, int]]:
    """Return (time in ns, log end offset) of each observation of a node's log, sorted by time."""
    columns = group.view(looks).get(node)
    return [] if columns is None else list(zip(*(each.tolist() for each in columns), strict=True))


def _answers(group: Group) -> dict[str, _Answers]:
    """Return each broker's answers about leader epochs, by node.

    With ZooKeeper, a broker can know a new leader while it still leads in an earlier epoch. So only
    answers to ListOffsets and the rows of ZooKeeper itself count.
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
    """Return whether a broker may have been running as leader during at least some of a send."""
    known = min(record.sent_ns, record.acked_ns) >= 0
    return not known or not any(
        each.node == who.node
        and each.from_ns <= record.sent_ns
        and (record.acked_ns <= each.until_ns or _ended_with(group, who, each))
        for each in group.facts.absences
    )


def _ended_with(group: Group, who: Acknowledger, away: Absence) -> bool:
    """Return whether a leader's epoch had ended when its broker returned from an absence.

    A restarted broker leads in a later epoch. ZooKeeper may not notice a short absence.
    """
    if not away.gone or who.epoch < 0 or not group.facts.plan.has_quorum:
        return False
    reign, told_ns = _reign(group, who), group.view(_first_told).get(who.epoch, NEVER)
    return told_ns < away.until_ns and (reign is None or reign.until_ns <= away.until_ns)


def _first_told(group: Group) -> dict[int, int]:
    """Return, for each epoch, the time at which any source first reported this or a later epoch."""
    rows = group.table("leadership")
    rows = select(rows, (ints(rows, "observed_ns") >= 0) & (ints(rows, "leader_epoch") >= 0))
    times, epochs = ints(rows, "observed_ns"), ints(rows, "leader_epoch")
    return {epoch: int(times[epochs >= epoch].min()) for epoch in np.unique(epochs).tolist()}


def led_between(group: Group, from_ns: int, until_ns: int) -> tuple[Acknowledger, ...]:
    """Return the brokers that may have led a partition, and answered clients, in a time span."""
    return acknowledgers(group, Acked(value=NONE, offset=NONE, sent_ns=from_ns, acked_ns=until_ns))


def named(found: Sequence[Acknowledger]) -> str:
    """Return leaders as text for a report: `n2, leader of epoch 1, or n3, leader of epoch 2`."""
    return ", or ".join(each.text for each in found) or "no leader was observed"


def evidence_of(found: Sequence[Acknowledger]) -> Evidence:
    """Return the leaders as evidence; a field is null if the leaders differ in that field."""
    brokers, epochs = {each.broker for each in found}, {each.epoch for each in found}
    return {
        "leader_then": known(min(brokers)) if len(brokers) == 1 else None,
        "leader_epoch_then": known(min(epochs)) if len(epochs) == 1 else None,
        "may_have_acknowledged": [each.text for each in found],
    }
