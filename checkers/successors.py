"""Find the leader after the broker that acknowledged a record, and how that leader was elected.

The run's record contains no election times, only bounds. An election came no later than the first
report of the new epoch. The election came after the last answer in which the new leader knew only
earlier epochs. Such an answer may be half a second old. The election also came after the last time
at which the controllers had certainly not committed that election (`reigns`). An answer without
news has no row. But observers ask for leaders before they ask for log ends. So two successive log
ends show that there was an answer between them.

The metadata log shows the ISR before each election. Suppose that a leader was outside of this ISR,
and that the log does not show the election as unclean. From Kafka 4.0 on, that leader was an
eligible leader replica (KIP-966), unless replicas were moved.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import numpy as np

from checkers.acknowledger import (
    FILES,
    KNOWN_NS,
    LOOK_NS,
    ZOOKEEPER,
    Acked,
    Acknowledger,
    acknowledgers,
    cut_at,
    leads_on,
    looks,
    looks_at,
    may_be_resent,
    moved,
    overwritten_in,
    read_whole,
    shrank,
)
from checkers.client_reasons import servers
from checkers.columns import NEVER, NONE, equal, ints, present, select, within
from checkers.controllers_log import controllers_log, isr_before
from checkers.facts import FINAL
from checkers.findings import seconds
from checkers.group import LEADER_SOURCES, Group, Leader, ReplicaLog, once
from checkers.reads import reads_of
from checkers.replica_reasons import at_the_stop
from checkers.witnesses import not_earlier, truncations_of
from results.record.terms import Source

_ASKED = 20
"""How many of a leader's first acknowledgements are examined at most."""
_FIRST_WITH_ELR = (4, 0)
_OUTSIDE = "which was not in the ISR before"


@dataclass(frozen=True, slots=True, kw_only=True)
class Next(Leader):
    """The leader that came next.

    Attributes:
        not_before_ns: A time at which the election had certainly not happened. -1 if unknown.
        told_ns: When this or a later epoch was first reported. `NEVER` if never.
        unclean: Whether the metadata log shows that the election was unclean.
        rivals: All leaders of the epoch, if sources report several.
    """

    not_before_ns: int
    told_ns: int
    unclean: bool
    rivals: tuple[int, ...] = ()


def next_leader(group: Group, record: Acked, by: Sequence[Acknowledger]) -> Next | None:
    """Return the first leader that may have lacked a record, after all leaders that served it.

    Args:
        group: The run's rows of one partition.
        record: The record.
        by: The leaders that may have acknowledged the record.

    Returns:
        None if no later leader was seen, or if the next leader is not the same for all leaders in
        `by`.
    """
    found = {_after(group, record, each) for each in by}
    return found.pop() if len(found) == 1 else None


@once
def _after(group: Group, record: Acked, leader: Acknowledger) -> Next | None:
    rows = group.table("leadership")
    epochs = ints(rows, "leader_epoch")
    gave = readers_of(group, record)
    since = max([leader.epoch, *(each.epoch for each in gave)])  # A read record was not lost.
    later = np.unique(epochs[(epochs > since) & (ints(rows, "leader") >= 0)]).tolist()
    last = leader
    for epoch in later:
        leaders = leaders_of(group, epoch)
        here = Acknowledger(broker=leaders[0], epoch=epoch)
        if len(leaders) == 1 and leads_on(group, last, here):
            last = here
        elif not all(_kept(group, record, f"n{each}") for each in leaders):
            return _led(group, epoch, leaders)
    return None


@once
def leaders_of(group: Group, epoch: int) -> tuple[int, ...]:
    """Return all brokers reported as leaders of an epoch.

    If authoritative sources name a leader, the function ignores other sources. The authoritative
    sources are the leader itself and the controllers (metadata log, ZooKeeper). The metadata of
    other brokers may be wrong.
    """
    rows = group.table("leadership")
    led = (ints(rows, "leader_epoch") == epoch) & (ints(rows, "leader") >= 0)
    known = led & equal(rows, "source", *LEADER_SOURCES, Source.METADATA_LOG)
    return tuple(np.unique(ints(rows, "leader")[known if known.any() else led]).tolist())


def _unaware_until_ns(group: Group, node: str, epoch: int) -> int:
    """Return the last time at which a broker, or ZooKeeper, knew only earlier epochs; or -1."""
    rows = group.table("leadership")
    asked_ns, epochs = ints(rows, "asked_ns"), ints(rows, "leader_epoch")
    answers = equal(rows, "observer", node) & ~equal(rows, "source", *FILES)
    below = (answers | equal(rows, "observer", ZOOKEEPER)) & (epochs >= 0) & (epochs < epoch)
    first_ns = int(asked_ns[answers & (epochs >= epoch)].min(initial=NEVER))
    seen_ns, _ = group.view(looks).get(node, (asked_ns[:0], None))
    earlier = seen_ns[seen_ns < first_ns] if first_ns < NEVER else seen_ns[:0]
    return max(
        int(asked_ns[below].max(initial=NONE)), int(earlier[-2]) if len(earlier) > 1 else NONE
    )


@once
def _led(group: Group, epoch: int, leaders: tuple[int, ...]) -> Next:
    rows = group.table("leadership")
    epochs, times = ints(rows, "leader_epoch"), ints(rows, "observed_ns")
    called = equal(rows, "unclean", True) & (epochs == epoch)  # noqa: FBT003 - a value
    told_ns = int(times[(epochs >= epoch) & (times >= 0)].min(initial=NEVER))
    unaware_ns = min(_unaware_until_ns(group, f"n{each}", epoch) for each in leaders)
    return Next(
        broker=leaders[0],
        epoch=epoch,
        not_before_ns=max(min(unaware_ns, told_ns) - KNOWN_NS, _decided_ns(group, epoch)),
        told_ns=told_ns,
        unclean=bool(called.any()),
        rivals=leaders if len(leaders) > 1 else (),
    )


def _decided_ns(group: Group, epoch: int) -> int:
    """Return a time at which the controllers had certainly not committed an election; or -1."""
    found = [
        each.from_ns
        for each in group.facts.reigns
        if (each.topic, each.partition, each.epoch) == (group.topic, group.partition, epoch)
    ]
    return max(found, default=NONE)


def _kept(group: Group, record: Acked, node: str) -> bool:
    """Return whether a replica's final log has the record, and was not truncated at that offset."""
    log = group.logs.get(FINAL, {}).get(node)
    held = log is not None and log.has(record.value)
    return held and cut_at(group, record, node) is None


@once
def reported_isrs(
    group: Group, leader: Acknowledger, epochs: range
) -> list[tuple[int, int, set[int]]]:
    """Return the ISRs that a leader or ZooKeeper reported in the given epochs, sorted by time.

    A broker that is cut off continues to report an old ISR.

    Returns:
        For each report: when the broker was asked, when the response was seen, and the ISR.
    """
    rows = group.table("leadership")
    told = present(rows, "isr") & present(rows, "observed_ns") & present(rows, "asked_ns")
    told &= equal(rows, "observer", leader.node, "zk")
    told &= within(ints(rows, "leader_epoch"), np.array(epochs, dtype=np.int64))
    found = select(rows, told)
    columns = (ints(found, name).tolist() for name in ("asked_ns", "observed_ns"))
    isrs = (set(each or ()) for each in found["isr"].to_pylist())
    return sorted(zip(*columns, isrs, strict=True), key=lambda each: each[1])


@once
def grew_between(group: Group, leader: Leader, from_ns: int, until_ns: int) -> bool:
    """Return whether the ISR may have contained brokers besides the leader in a time span."""
    mine = {leader.broker}
    rows = group.table("leadership")
    here = present(rows, "isr") & (ints(rows, "leader_epoch") == leader.epoch)
    here &= (ints(rows, "asked_ns") >= from_ns) & (ints(rows, "observed_ns") >= 0)
    here &= ints(rows, "observed_ns") <= until_ns
    told: list[Any] = select(rows, here)["isr"].to_pylist()
    log = controllers_log(group)
    isrs = [{*each.isr} for each in log.entries if each.epoch == leader.epoch and each.isr]
    later = isrs[isrs.index(mine) if mine in isrs else 0 :]
    return bool(log.disputed) or any({*(isr or ())} - mine for isr in [*told, *later])


@once
def never_had(group: Group, record: Acked, node: str) -> bool:
    """Return whether a replica's final log and truncations show that it never had a record.

    This requires that the final log lacks the record, and that the log lost nothing at the record's
    offset. If a reader got the record, and only this replica can have served it, the result is
    False.
    """
    log = group.logs.get(FINAL, {}).get(node)
    if log is None or moved(group) or not read_whole(group, node):
        return False
    if any(each.node == node for each in readers_of(group, record)):
        return False
    return (
        log.whole
        and log.start <= record.offset
        and not had(group, record, node)
        and not shrank(group, record, node)
        and cut_at(group, _anywhere(group, record), node) is None
        and at_the_stop(group, node, record.offset) is None
        and not _has_a_hole(log, record.offset)
    )


def _has_a_hole(log: ReplicaLog, offset: int) -> bool:
    """Return whether a log lacks an offset but has later records."""
    return log.at(offset) is None and offset < log.read_end


def _anywhere(group: Group, record: Acked) -> Acked:
    """Return the record, with an offset beyond all logs if a client may have resent the record.

    A copy from another try may have a different offset. So a truncation at any offset may have
    removed such a copy.
    """
    return replace(record, offset=NEVER) if may_be_resent(group, record) else record


@once
def readers_of(group: Group, record: Acked) -> dict[Leader, int]:
    """Return the leaders that certainly served a record, each with the first op that read it."""
    found: dict[Leader, int] = {}
    for op_id, ended_ns in sorted(reads_of(group, record.offset, [record.value]).items()):
        by = servers(group, record.value, {op_id: ended_ns})
        if len(by) == 1 and by[0].broker >= 0:
            found.setdefault(Leader(broker=by[0].broker, epoch=by[0].epoch), op_id)
    return found


def gave_on(
    group: Group, record: Acked, leader: Leader, then: Next | None
) -> tuple[Acknowledger, int] | None:
    """Return the last leader between two that served the record, and the op that read it.

    Args:
        group: The run's rows of one partition.
        record: The record.
        leader: Only leaders of later epochs count.
        then: Only leaders of earlier epochs count. None: all later leaders count.
    """
    until = then.epoch if then is not None else NEVER
    gave = readers_of(group, record)
    between = [each for each in gave if leader.epoch < each.epoch < until]
    last = max(between, key=lambda each: each.epoch, default=None)
    return (
        None if last is None else (Acknowledger(broker=last.broker, epoch=last.epoch), gave[last])
    )


@once
def had(group: Group, record: Acked, node: str) -> bool:
    """Return whether the replica's log has the record in any snapshot."""
    return any(copies[node].has(record.value) for copies in group.logs.values() if node in copies)


@once
def reached(group: Group, record: Acked, node: str, until_ns: int) -> bool:
    """Return whether a log grew beyond a record's offset between the send and `until_ns`."""
    if min(record.offset, record.sent_ns) < 0:
        return False
    seen = looks_at(group, node)
    before = [end for at_ns, end in seen if at_ns <= record.sent_ns]
    after = [end for at_ns, end in seen if record.sent_ns < at_ns <= until_ns]
    return bool(before) and before[-1] <= record.offset < max(after, default=NONE)


def holders(group: Group, record: Acked, by: Sequence[Acknowledger], until_ns: int) -> set[str]:
    """Return the nodes whose logs have a record, or grew beyond the record's offset by a time.

    If only one broker can have acknowledged the record, its node counts, too.
    """
    nodes = {node for copies in group.logs.values() for node in copies}
    found = {node for node in nodes if had(group, record, node)}
    found |= {node for node in nodes if reached(group, record, node, until_ns)}
    return found | ({by[0].node} if len({each.node for each in by}) == 1 else set())


def was_spared(group: Group) -> bool:
    """Return whether no disk fault removed records of the partition."""
    return not any(each.concerns(group.topic, group.partition) for each in group.facts.disk_losses)


def elected(group: Group, record: Acked, leader: Acknowledger, then: Next) -> str:
    """Return a phrase about the next leader: its election, and whether it had the record."""
    if then.rivals:
        *most, other = (f"n{each}" for each in then.rivals)
        return f"{', '.join(most)} and {other} are reported as leaders of epoch {then.epoch}"
    # A leader's log only grows. So a record that the last leader lacks was missing at its election.
    spared = was_spared(group)
    at_end = (group.leader.broker, group.leader.epoch) if group.leader else None
    stopped = at_the_stop(group, then.node, record.offset) is not None
    last = spared and not stopped and at_end == (then.broker, then.epoch)
    wrote = spared and (
        overwritten_in(group, record, then.epoch) or _began_below(group, record, then)
    )
    lacked, fell = last or wrote or never_had(group, record, then.node), _fell(group, record, then)
    without = " without it" if lacked else "; whether it had the record is not known"
    if fell:
        without = f"; whether it had the record is not known: {fell}"
    if then.broker == leader.broker:
        return f"led again in epoch {then.epoch}{without}"
    whence = _whence(group, record, leader, then, last=last)
    verb = "had been elected" if 0 <= then.told_ns <= record.sent_ns else "was elected"
    return f"{then.node}{whence} {verb} in epoch {then.epoch}{without}"


@once
def _fell(group: Group, record: Acked, then: Next) -> str:
    """Return a phrase if a leader's log end fell to an offset or below it in its epoch; else "".

    Normally, a leader's log only grows.
    """
    rows = group.table("leadership")
    times = ints(rows, "observed_ns")
    later = (ints(rows, "leader_epoch") > then.epoch) & (times >= 0)
    until_ns = int(times[later].min(initial=NEVER))
    since_ns = min(then.told_ns, NEVER - LOOK_NS) + LOOK_NS
    own = [each for each in looks_at(group, then.node) if since_ns <= each[0] <= until_ns]
    for (one_ns, one), (two_ns, two) in pairwise(own):
        if one > record.offset >= max(two, 0):
            return (
                f"its log end offset was {one} at {seconds(one_ns)}, then {two} at"
                f" {seconds(two_ns)}"
            )
    return ""


@once
def _began_below(group: Group, record: Acked, then: Next) -> bool:
    """Return whether the next leader acknowledged another record at or below a record's offset.

    Then the log of the next leader did not contain the given record at the election, because a
    leader's log only grows. The other record must be from the epoch of the next leader. It must
    have been sent after the acknowledgement of the given record. In the old leader's log, such a
    record has a higher offset.
    """
    rows = group.table("leadership")
    epochs, times = ints(rows, "leader_epoch"), ints(rows, "observed_ns")
    until_ns = int(times[(epochs > then.epoch) & (times >= 0)].min(initial=NEVER))
    sends = group.table("sends")
    offsets, sent_ns, acked_ns = (
        ints(sends, name) for name in ("offset", "invoke_ns", "complete_ns")
    )
    early = equal(sends, "acked", True) & (offsets >= 0) & (offsets <= record.offset)  # noqa: FBT003 - a value
    early &= (sent_ns >= max(record.acked_ns, then.not_before_ns, 0)) & (acked_ns <= until_ns)
    mine = np.flatnonzero(early)
    some = mine[np.argsort(acked_ns[mine], kind="stable")][:_ASKED]
    columns = (each[some].tolist() for each in (ints(sends, "value"), offsets, sent_ns, acked_ns))
    return any(
        acknowledgers(group, Acked(value=value, offset=offset, sent_ns=begun, acked_ns=ended))
        == (Acknowledger(broker=then.broker, epoch=then.epoch),)
        for value, offset, begun, ended in zip(*columns, strict=True)
        if value != record.value and not _stands_elsewhere(group, value, offset)
    )


def _stands_elsewhere(group: Group, value: int, offset: int) -> bool:
    """Return whether a log has a message at an offset other than the acknowledged offset."""
    return any(
        bool((log.offsets[log.values == value] != offset).any())
        for copies in group.logs.values()
        for log in copies.values()
    )


def _whence(group: Group, record: Acked, leader: Acknowledger, then: Next, *, last: bool) -> str:
    if then.unclean:
        return ", from outside of the in-sync replicas,"
    isr = isr_before(group, then.epoch)
    if isr is not None and then.broker not in isr:
        # One metadata record may end a reassignment, and elect from the new ISR.
        elr = group.facts.plan.version_numbers >= _FIRST_WITH_ELR and not moved(group)
        return f", {'an eligible leader replica (KIP-966)' if elr else _OUTSIDE},"
    if last and had(group, record, then.node):
        cuts = truncations_of(group, record.offset, since_ns=record.sent_ns)
        own = [each for each in cuts if each.node == then.node]
        starts = sorted({each.from_offset for each in not_earlier(group, own, record.sent_ns)})
        if not starts:
            return ", which had held it,"
        return f", which had truncated its log at offset {' or '.join(map(str, starts))},"
    told = reported_isrs(group, leader, range(leader.epoch, then.epoch))
    isrs = [isr for _, seen_ns, isr in told if seen_ns < then.told_ns]
    if isr is None and isrs and then.broker not in isrs[-1]:
        return ", which was not in the last reported ISR,"
    return ", in the ISR," if isr is not None and then.broker in isr else ""
