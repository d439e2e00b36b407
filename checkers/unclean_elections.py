"""Which unclean elections a partition had, and what they may have cost.

A leader from outside of the ISR lacks records that were committed. What it lacks lies where its log
ended when it began to lead: at that end stands its first record, or that of whoever led after it,
and all offsets below are as it had them. So a record below that place was not lost by it, whenever
that was; nor was one that was sent when it led already, and nobody else could lead any more.

The second is known of elections that faults ordered: all who were in sync are dead then. Where the
plan allows them, one who led before may live on, cut off, and take records for a while.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from checkers.columns import Ints, Mask, equal, ints, select
from checkers.facts import UncleanOrder
from checkers.group import Group
from results.record.terms import Mode

_NEVER = int(np.iinfo(np.int64).max)
_FIRST = 1
"""The leader epoch of a partition's first election after its creation."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Unclean:
    """One unclean election.

    Attributes:
        epoch: The leader epoch that it began.
        last: The last epoch that it may have begun: the same, or any (ZooKeeper names none).
        start: Behind which offset its leader may have lacked records: its log's end.
        until_ns: What was sent later went to it, or to those after it.
    """

    epoch: int
    last: int
    start: int
    until_ns: int


@dataclass(frozen=True, slots=True, kw_only=True)
class UncleanElections:
    """All of a partition, as its plan or its faults allow them.

    Attributes:
        found: One by one.
    """

    found: tuple[Unclean, ...]

    @property
    def seen(self) -> bool:
        """Whether there was any."""
        return bool(self.found)

    def took(self, offsets: Ints, sent_ns: Ints | None = None) -> Mask:
        """Tell which records such a leader may have lacked.

        Args:
            offsets: Where they stood; -1 if unknown.
            sent_ns: When each was sent, -1 if unknown; None: nobody knows.
        """
        taken = np.zeros(len(offsets), dtype=np.bool_)
        for each in self.found:
            behind = (offsets >= each.start) | (offsets < 0)
            taken |= behind if sent_ns is None else behind & (sent_ns <= each.until_ns)
        return taken

    def took_one(self, offset: int, sent_ns: int = -1) -> bool:
        """Tell whether such a leader may have lacked one record."""
        return bool(self.took(np.array([offset]), np.array([sent_ns]))[0])

    def between(self, epoch: int, later: int) -> bool:
        """Tell whether one came after a leader epoch, and with a later one at the latest."""
        return any(max(each.epoch, epoch + 1) <= min(each.last, later) for each in self.found)


def unclean_elections(group: Group) -> UncleanElections:
    """Return the unclean elections of a partition that its plan, or its faults, allow.

    The metadata log has each of them. ZooKeeper keeps no log of elections: there it is enough that
    they are allowed, unless the leader epoch is still 0, its first: then nobody was elected since
    the beginning.
    """
    return group.view(_worked_out)


def _worked_out(group: Group) -> UncleanElections:
    zookeeper = group.facts.plan.mode is Mode.ZOOKEEPER
    return UncleanElections(
        found=tuple(_of_zookeeper(group) if zookeeper else _of_metadata_log(group))
    )


def _of_metadata_log(group: Group) -> Iterator[Unclean]:
    rows = group.table("leadership")
    told = equal(rows, "unclean", True) & equal(rows, "source", "metadata-log")  # noqa: FBT003 - a value
    for epoch in sorted(set(ints(select(rows, told), "leader_epoch").tolist())):
        until_ns = _until_ns(group, epoch)
        if until_ns >= 0:
            yield Unclean(epoch=epoch, last=epoch, start=_start(group, epoch), until_ns=until_ns)


def _of_zookeeper(group: Group) -> Iterator[Unclean]:
    rows = group.table("leadership")
    epochs = ints(select(rows, equal(rows, "source", "zookeeper")), "leader_epoch")
    if len(epochs) and not (epochs > 0).any():
        return
    if group.facts.plan.unclean_elections:
        start = _start(group, _FIRST)
        yield Unclean(epoch=_FIRST, last=_NEVER, start=start, until_ns=_NEVER)
        return
    for order in _orders(group):
        epoch, last = max(_FIRST, order.after_epoch + 1), order.epoch if order.known else _NEVER
        start = _start(group, epoch)
        yield Unclean(epoch=epoch, last=last, start=start, until_ns=_seen_ns(order))


def _until_ns(group: Group, epoch: int) -> int:
    """Return until when what was sent may be lost by an election that began an epoch.

    Returns:
        -1 if nothing allows that election.
    """
    if group.facts.plan.unclean_elections:
        return _NEVER
    return max((_seen_ns(each) for each in _orders(group) if each.may_be(epoch)), default=-1)


def _orders(group: Group) -> list[UncleanOrder]:
    here = (group.topic, group.partition)
    return [each for each in group.facts.unclean_orders if (each.topic, each.partition) == here]


def _seen_ns(order: UncleanOrder) -> int:
    return order.seen_ns if order.known else _NEVER


def _start(group: Group, epoch: int) -> int:
    """Return behind which offset an epoch's first leader may have lacked records; 0 if unknown."""
    log = group.final_log
    if log is None or not log.whole or log.node in group.facts.unreadable_nodes:
        return 0
    # A record without an epoch may be of any.
    of_later = np.flatnonzero((log.epochs >= epoch) | (log.epochs < 0))
    return int(log.offsets[of_later].min()) if len(of_later) else log.read_end
