"""Why an acknowledged record is gone, in one sentence: who had it, what befell them, who led next.

Each clause needs its own evidence, and is left out without it: "only n2 had it" is said if no other
replica has the record in the end, and none ever lost anything there; "without it" of a leader of
which that is true, or of the last one, whose log only grew. What the sentence lacks, it names.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from checkers.acknowledger import Acked, Acknowledger, cut_at
from checkers.changes import NEVER_NS, first_told_ns
from checkers.columns import equal, ints, select
from checkers.facts import FINAL
from checkers.group import Group
from checkers.told_isrs import told_isrs

_NS_PER_S = 1_000_000_000
_KILLED = ("was killed", "as it was being killed")
_CUT_OFF = ("was cut off", "while it was cut off")
_BEFELL = {
    "kill": _KILLED, "unclean-election": _KILLED, "controller-failover": _KILLED,
    "stop": ("was stopped", "as it was being stopped"),
    "rolling-restart": ("was restarted", "as it was being restarted"),
    "pause": ("was paused", "as it was being paused"),
    "power-loss": ("lost power", "as it was losing power"),
    "wipe": ("lost its disk", "as it was losing its disk"),
    "disk-full": ("ran out of disk", "while its disk was full"),
    "read-only": ("could not write any more", "while its disk took no writes"),
    "isolate": _CUT_OFF, "halves": _CUT_OFF, "flapping": _CUT_OFF,
    "one-way-in": ("heard no more of the others", "while it heard nothing of the others"),
    "one-way-out": ("was no more heard by the others", "while the others did not hear it"),
    "reassignment": ("had its replica moved", "while its replica was being moved"),
}  # fmt: skip
"""What a fault does to its targets that can cost a leader its place: afterwards, meanwhile."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Next:
    """Who led next.

    Attributes:
        broker, epoch: Who, and in which epoch.
        told_ns: When that was told first, -1 if only logs tell it.
        unclean: Whether the controller called the election unclean.
    """

    broker: int
    epoch: int
    told_ns: int
    unclean: bool

    @property
    def node(self) -> str:
        """The node's name: broker 2 is n2."""
        return f"n{self.broker}"


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
    if len(nodes) != 1 or by[0].epoch < 0:
        who = " or ".join(nodes) or "nobody who was seen to lead"
        unknown = "the record does not tell which, and so not why it is gone"
        return f"{who} acknowledged {what} ({acks}); {unknown}"
    first = by[0]
    then = _next(group, record, max(each.epoch for each in by))
    until_ns = then.told_ns if then is not None and then.told_ns >= 0 else NEVER_NS
    epochs = " or ".join(str(each.epoch) for each in by)
    meanwhile, afterwards = _befell(group, record, first, until_ns)
    only = f"only {first.node} had {what}: " if _only(group, record, first) else ""
    clauses = [
        f"{first.node} led{_alone(group, record, first)} in epoch {epochs}",
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
    later = select(rows, (ints(rows, "leader_epoch") > epoch) & (ints(rows, "leader") >= 0))
    for at in np.unique(ints(later, "leader_epoch")).tolist():
        here = select(later, ints(later, "leader_epoch") == at)
        leader = int(ints(here, "leader")[0])
        if not _kept(group, record, f"n{leader}"):
            unclean = bool(equal(here, "unclean", True).any())  # noqa: FBT003 - a value
            told_ns = first_told_ns(group, at)
            return Next(broker=leader, epoch=at, told_ns=told_ns, unclean=unclean)
    return None


def _kept(group: Group, record: Acked, node: str) -> bool:
    """Tell whether a replica has the record in the end, and was not cut since."""
    log = group.logs.get(FINAL, {}).get(node)
    held = log is not None and bool(np.isin(record.value, log.values))
    return held and cut_at(group, record, node) is None


def _alone(group: Group, record: Acked, leader: Acknowledger) -> str:
    """Say so if the last ISR that was told before the acknowledgement was the leader alone."""
    before = [each for each in told_isrs(group) if each.seen_ns <= record.acked_ns]
    last = max(before, key=lambda each: each.seen_ns, default=None)
    return " alone" if last is not None and last.nodes == {leader.node} else ""


def _befell(
    group: Group, record: Acked, leader: Acknowledger, until_ns: int
) -> tuple[str, tuple[str, ...]]:
    """Return what fault hit the leader last before the next one led: meanwhile, or afterwards."""
    hits = [
        each
        for each in group.facts.disturbances
        if leader.node in each.nodes
        and each.kind in _BEFELL
        and each.begun_ns <= until_ns
        and each.ended_ns >= record.acked_ns >= 0
    ]
    if not hits:
        return "", ()
    fault = max(hits, key=lambda each: each.begun_ns)
    afterwards, meanwhile = _BEFELL[fault.kind]
    if 0 <= fault.confirmed_ns <= record.acked_ns:
        return f" {meanwhile}", ()
    after_s = (fault.begun_ns - record.acked_ns) / _NS_PER_S
    when = "at about that time" if after_s < 0 else f"{after_s:.1f} s later"
    return "", (f"{afterwards} {when}",)


def _only(group: Group, record: Acked, leader: Acknowledger) -> bool:
    """Tell whether no other replica ever had the record."""
    others = {f"n{broker}" for broker in range(1, group.facts.plan.nodes + 1)} - {leader.node}
    logs = group.logs.get(FINAL, {})
    replicas = others & set(logs) if len(logs) >= group.facts.plan.replication else others
    return bool(replicas) and all(_never_had(group, record, node) for node in replicas)


def _never_had(group: Group, record: Acked, node: str) -> bool:
    """Tell whether a replica's log lacks the record in the end, and nothing was cut off there."""
    log = group.logs.get(FINAL, {}).get(node)
    read = node in group.facts.collected_nodes - group.facts.unreadable_nodes
    if log is None or not (read and log.whole and log.start <= record.offset):
        return False
    return not np.isin(record.value, log.values) and cut_at(group, record, node) is None


def _elected(group: Group, record: Acked, leader: Acknowledger, then: Next) -> str:
    # A leader's log only grows: what the last one lacks in the end it lacked when it was elected.
    last = group.leader is not None and group.leader.epoch == then.epoch
    lacked = last or _never_had(group, record, then.node)
    had = " without it" if lacked else "; whether it had the record is not known"
    if then.broker == leader.broker:
        return f"led again in epoch {then.epoch}{had}"
    cut = cut_at(group, record, then.node) if last else None
    whence = "" if cut is None else f", which had truncated its log at offset {cut},"
    isr = max(
        (each for each in told_isrs(group) if each.seen_ns < then.told_ns),
        key=lambda each: each.seen_ns,
        default=None,
    )
    if then.unclean:
        whence = ", from outside of the in-sync replicas,"
    elif not whence and isr is not None and then.node not in isr.nodes:
        whence = ", which was not in the last ISR that was told,"
    return f"{then.node}{whence} was elected in epoch {then.epoch}{had}"
