"""Why an acknowledged record is gone, in one sentence: who had it, what befell them, who led next.

Each clause needs its own evidence, and is left out without it: "only n2 had it" is said if no other
replica has the record in any copy, and none ever lost anything there; "without it" of a leader of
which that is true, that wrote another record there in its epoch, or that led last, whose log only
grew; a fault if it was seen to work before the next leader was told of. What the sentence lacks, it
names.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil

import numpy as np

from checkers.acknowledger import Acked, Acknowledger, cut_at, moved, read_whole, shrank
from checkers.changes import NEVER_NS
from checkers.columns import equal, ints, present, select, within
from checkers.disk_losses import lost_on_disks, replicas_of
from checkers.facts import FINAL
from checkers.group import Group, Leader
from checkers.protocol import Excuse

_NS_PER_S = 1_000_000_000
BEFELL = {
    "kill": "was killed", "stop": "was stopped", "pause": "was paused",
    "power-loss": "lost power", "wipe": "lost its disk", "disk-full": "ran out of disk",
    "read-only": "could not write any more",
    "isolate": "was cut off", "halves": "was cut off",
    "one-way-in": "heard no more of the others", "one-way-out": "was no more heard by the others",
}  # fmt: skip
"""What a fault does to its targets that can cost a leader its place, where all of it is at once."""
_DOUBTFUL = {
    Excuse.UNCONFIRMED.value: "a fault that was never confirmed may have taken it",
    Excuse.LAST_COPIES.value: "a fault may have taken its only copies",
}
"""What disks may have cost, and nobody can tell."""
_MEANWHILE = {
    "isolate": "while it was cut off", "halves": "while it was cut off",
    "one-way-in": "while it heard nothing of the others",
    "one-way-out": "while the others did not hear it",
}  # fmt: skip
"""Faults under which a leader goes on."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Next(Leader):
    """Who led next.

    Attributes:
        told_ns: Until when that was so at the latest: when that epoch, or a later one, was told
            first; beyond all times if never.
        unclean: Whether the controller called the election unclean.
    """

    told_ns: int
    unclean: bool


def cause_of_loss(
    group: Group, record: Acked, by: Sequence[Acknowledger], *, what: str = "it"
) -> str:
    """Return why an acknowledged record is in no log, or not in the last leader's.

    Args:
        group: The partition.
        record: Which.
        by: Who may have acknowledged it.
        what: What it is called where it is named first.
    """
    acks = "acks=1" if record.weak else "acks=all"
    nodes = list(dict.fromkeys(each.node for each in by))
    if not nodes:
        return f"nobody was seen to lead, so the record does not tell who acknowledged {what}"
    if len(nodes) > 1 or by[0].broker < 0:
        told = f"{' or '.join(nodes)} acknowledged {what} ({acks})"
        return f"{told}; who it was the record does not tell, and so not why it is gone"
    first = by[0]
    if first.epoch < 0:
        told = f"{first.node} acknowledged {what} ({acks})"
        return f"{told}; these brokers tell no epochs, so why it is gone is not known"
    if disks := lost_on_disks(group, record.offset, record.acked_ns):
        told = f"{first.node} acknowledged {what} ({acks})"
        doubtful = [_DOUBTFUL[each] for each in disks if each in _DOUBTFUL]
        if doubtful:
            return f"{told}; {doubtful[0]}, and the record does not show whether it did"
        return f"{told}, and faults cut each replica's log off below it ({', '.join(disks)})"
    then = _next(group, record, max(each.epoch for each in by))
    epochs = " or ".join(str(each.epoch) for each in by)
    meanwhile, afterwards = _befell(group, record, first, then)
    only = f"only {first.node} had {what}: " if _only(group, record, first) else ""
    alone = _alone(group, record, first) if len(by) == 1 else ""
    clauses = [
        f"{first.node} led{alone} in epoch {epochs}",
        f"acknowledged {'it' if only else what} ({acks}){meanwhile}",
        *afterwards,
    ]
    if then is not None:
        clauses.append(_elected(group, record, first, then))
    *most, last = clauses
    missing = "" if then else "; no later leader was seen, so the record does not tell what took it"
    return f"{only}{', '.join(most)}, and {last}{missing}"


def _next(group: Group, record: Acked, epoch: int) -> Next | None:
    """Return who led in the first later epoch whose leader did not certainly have the record."""
    rows = group.table("leadership")
    epochs, times = ints(rows, "leader_epoch"), ints(rows, "observed_ns")
    later = select(rows, (epochs > epoch) & (ints(rows, "leader") >= 0))
    for at in np.unique(ints(later, "leader_epoch")).tolist():
        here = select(later, ints(later, "leader_epoch") == at)
        leader = int(ints(here, "leader")[0])
        if not _kept(group, record, f"n{leader}"):
            return Next(
                broker=leader,
                epoch=at,
                told_ns=int(times[(epochs >= at) & (times >= 0)].min(initial=NEVER_NS)),
                unclean=bool(equal(here, "unclean", True).any()),  # noqa: FBT003 - a value
            )
    return None


def _kept(group: Group, record: Acked, node: str) -> bool:
    """Tell whether a replica has the record in the end, and was not cut since."""
    log = group.logs.get(FINAL, {}).get(node)
    held = log is not None and bool(np.isin(record.value, log.values))
    return held and cut_at(group, record, node) is None


def _isrs(group: Group, leader: Acknowledger, epochs: range) -> list[tuple[int, int, set[int]]]:
    """Return (asked, seen, ISR) as a leader itself, or ZooKeeper, told it in some epochs, by time.

    Whoever is cut off goes on to tell an ISR of before.
    """
    rows = group.table("leadership")
    told = present(rows, "isr") & present(rows, "observed_ns") & present(rows, "asked_ns")
    told &= equal(rows, "observer", leader.node, "zk")
    told &= within(ints(rows, "leader_epoch"), np.array(epochs, dtype=np.int64))
    found = select(rows, told)
    columns = (ints(found, name).tolist() for name in ("asked_ns", "observed_ns"))
    isrs = (set(each or ()) for each in found["isr"].to_pylist())
    return sorted(zip(*columns, isrs, strict=True), key=lambda each: each[1])


def _alone(group: Group, record: Acked, leader: Acknowledger) -> str:
    """Say so if the ISR was the leader alone, as was told last before the send and first after."""
    told = _isrs(group, leader, range(leader.epoch, leader.epoch + 1))
    before = [isr for _, seen_ns, isr in told if seen_ns <= record.sent_ns]
    after = [isr for asked_ns, _, isr in told if asked_ns >= record.acked_ns >= 0]
    return " alone" if before[-1:] == after[:1] == [{leader.broker}] else ""


def _befell(
    group: Group, record: Acked, leader: Acknowledger, then: Next | None
) -> tuple[str, tuple[str, ...]]:
    """Return what fault hit the leader last before the next one led: meanwhile, or afterwards.

    Only what was seen to work counts, and from when it was; an answer may be older than its op.
    """
    if then is None or then.told_ns == NEVER_NS or record.sent_ns < 0:
        return "", ()
    hits = [
        each
        for each in group.facts.disturbances
        if leader.node in each.nodes
        and each.kind in BEFELL
        and 0 <= each.confirmed_ns <= then.told_ns
        and each.ended_ns >= record.acked_ns >= 0
    ]
    if not hits:
        return "", ()
    fault = max(hits, key=lambda each: each.confirmed_ns)
    if fault.confirmed_ns > record.acked_ns:
        after_s = ceil((fault.confirmed_ns - record.acked_ns) / _NS_PER_S * 10) / 10
        return "", (f"{BEFELL[fault.kind]} within {after_s:.1f} s",)
    if fault.confirmed_ns <= record.sent_ns and record.acked_ns <= fault.healing_ns:
        return f" {_MEANWHILE[fault.kind]}" if fault.kind in _MEANWHILE else "", ()
    return "", ()


def _only(group: Group, record: Acked, leader: Acknowledger) -> bool:
    """Tell whether no other replica ever had the record."""
    replicas = set(replicas_of(group)) - {leader.node}
    return bool(replicas) and all(_never_had(group, record, node) for node in replicas)


def _never_had(group: Group, record: Acked, node: str) -> bool:
    """Tell whether a replica's log lacks the record in the end, and never lost anything there."""
    log = group.logs.get(FINAL, {}).get(node)
    if log is None or moved(group) or not read_whole(group, node):
        return False
    return (
        log.whole
        and log.start <= record.offset
        and not _had(group, record, node)
        and not shrank(group, record, node)
        and cut_at(group, record, node) is None
    )


def _had(group: Group, record: Acked, node: str) -> bool:
    """Tell whether some copy of a replica has the record."""
    return any(
        bool(np.isin(record.value, copies[node].values))
        for copies in group.logs.values()
        if node in copies
    )


def _wrote_there(group: Group, record: Acked, then: Next) -> bool:
    """Tell whether a leader wrote another record at that offset, so that its log ended there."""
    logs = group.logs.get(FINAL, {}).values()
    places = ((log, log.at(record.offset)) for log in logs)
    return any(
        at is not None and int(log.epochs[at]) == then.epoch and int(log.values[at]) != record.value
        for log, at in places
    )


def _elected(group: Group, record: Acked, leader: Acknowledger, then: Next) -> str:
    # A leader's log only grows: what the last one lacks in the end it lacked when it was elected.
    spared = not any(
        each.concerns(group.topic, group.partition) for each in group.facts.disk_losses
    )
    last = spared and group.leader is not None and group.leader.epoch == then.epoch
    wrote = spared and _wrote_there(group, record, then)
    lacked = last or wrote or _never_had(group, record, then.node)
    had = " without it" if lacked else "; whether it had the record is not known"
    if then.broker == leader.broker:
        return f"led again in epoch {then.epoch}{had}"
    whence = ""
    isrs = [
        isr
        for _, seen_ns, isr in _isrs(group, leader, range(leader.epoch, then.epoch))
        if seen_ns < then.told_ns
    ]
    if then.unclean:
        whence = ", from outside of the in-sync replicas,"
    elif last and _had(group, record, then.node):
        cut = cut_at(group, record, then.node)
        whence = (
            ", which had held it,"
            if cut is None
            else f", which had truncated its log at offset {cut},"
        )
    elif isrs and then.broker not in isrs[-1]:
        whence = ", which was not in the last ISR that was told,"
    return f"{then.node}{whence} was elected in epoch {then.epoch}{had}"
