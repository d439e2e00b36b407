"""Which unclean elections a partition had, and what they may have cost.

A leader from outside of the ISR lacks records that were committed, or has others in their places:
its log may end with what an older leader wrote and never committed. But below its own high
watermark of before it has what everybody has: a record there was not lost by it, whenever that was.
Nor was one that was sent when it led already, and nobody else could lead any more.

Both are known of elections that faults ordered: what the replica said of itself before the fault
began, and that all who were in sync were dead when it led. Where the plan allows such elections,
nobody knows when one comes, and a leader of before may live on, cut off, and take records for a
while: there one that was seen may have cost the partition any record.

Any record of an epoch before its own, that is: what was written in the epoch that it began, or in a
later one, it did not cost. A copy in some log tells the epoch of a record, and so does a reader.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from checkers.columns import (
    NONE,
    Ints,
    Mask,
    equal,
    first_match,
    ints,
    present,
    select,
)
from checkers.facts import FINAL, DiskLoss, UncleanOrder
from checkers.group import Group
from checkers.protocol import Excuse
from checkers.written_epochs import written_epochs
from results.record.declared import Sight
from results.record.terms import Source

_NEVER = int(np.iinfo(np.int64).max)
_FIRST = 1
"""The leader epoch of a partition's first election after its creation."""
_AT_ONCE = (Excuse.POWER, Excuse.WIPE)
"""Faults that take their part of a log before the broker starts again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Unclean:
    """One unclean election.

    Attributes:
        epoch: The leader epoch that it began.
        last: The last epoch that it may have begun: the same, or any (only that log names it).
        start: From which offset on its leader may have lacked records.
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

    def took(self, offsets: Ints, sent_ns: Ints | None = None, epochs: Ints | None = None) -> Mask:
        """Tell which records such a leader may have lacked.

        Args:
            offsets: Where they stood; -1 if unknown.
            sent_ns: When each was sent, -1 if unknown; None: nobody knows.
            epochs: The leader epoch that each was written in, -1 if unknown; None: nobody knows.
        """
        taken = np.zeros(len(offsets), dtype=np.bool_)
        for each in self.found:
            behind = (offsets >= each.start) | (offsets < 0)
            if sent_ns is not None:
                behind &= sent_ns <= each.until_ns
            if epochs is not None:
                behind &= epochs < each.last
            taken |= behind
        return taken

    def took_one(self, offset: int) -> bool:
        """Tell whether such a leader may have lacked one record, of which nobody knows more."""
        return bool(self.took(np.array([offset]))[0])

    def took_after(self, offset: int, epoch: int, sent_ns: int = NONE) -> bool:
        """Tell whether a leader of a later epoch may have lacked what stood there in an epoch.

        What a leader wrote or announced when an unclean election was over is none that it cost:
        the later leaders up to the next such election have it.

        Args:
            offset: Where the record stood.
            epoch: The leader epoch in which it was there; -1 if unknown.
            sent_ns: When it was sent; -1 if unknown.
        """
        later = tuple(each for each in self.found if each.last > epoch)
        taken = UncleanElections(found=later).took(np.array([offset]), np.array([sent_ns]))
        return bool(taken[0])

    def between(self, epoch: int, later: int) -> bool:
        """Tell whether one came after a leader epoch, and with a later one at the latest."""
        return any(max(each.epoch, epoch + 1) <= min(each.last, later) for each in self.found)


def took_value_at(group: Group, offset: int, values: Sequence[int]) -> bool:
    """Tell whether an unclean leader may have lacked one of some values that stood at an offset.

    Args:
        group: The partition.
        offset: Where; -1 if unknown.
        values: Which; when each was sent, the record tells, or nobody.
    """
    if not unclean_elections(group).seen:
        return False
    wanted = np.array(values, dtype=np.int64)
    return bool(took_values(group, np.full(len(wanted), offset), wanted).any())


def took_values(group: Group, offsets: Ints, values: Ints) -> Mask:
    """Tell which values an unclean leader may have lacked, by where each stood.

    Args:
        group: The partition.
        offsets: Where they stood; -1 if unknown.
        values: Which, -1 if unknown; when each was sent, the record tells, or nobody.
    """
    sends = group.table("sends")
    begun_ns = np.append(ints(sends, "invoke_ns"), NONE)  # -1 is the last.
    rows = np.where(values >= 0, first_match(values, ints(sends, "value")), NONE)
    return unclean_elections(group).took(offsets, begun_ns[rows])


def took_acknowledged(group: Group, offset: int, value: int) -> bool:
    """Tell whether an unclean leader may have lacked what was acknowledged at an offset."""
    elections = unclean_elections(group)
    if not elections.seen:
        return False
    sends = group.table("sends")
    sent = ints(sends, "invoke_ns")[ints(sends, "value") == value]
    epoch = min(written_epochs(group, offset, value), default=NONE)
    asked = (np.array([each]) for each in (offset, sent[0] if len(sent) else NONE, epoch))
    return bool(elections.took(*asked)[0])


def unclean_elections(group: Group) -> UncleanElections:
    """Return the unclean elections of a partition that its plan, or its faults, allow.

    The metadata log has each of them. ZooKeeper keeps no log of elections, other systems may not
    show theirs, and of a run that died nobody may have collected that of the controllers: there it
    is enough that they are allowed,
    unless the leader epoch is still 0, its first: then nobody was elected since the beginning.
    """
    return group.view(_worked_out)


def _worked_out(group: Group) -> UncleanElections:
    rows, facts = group.table("leadership"), group.facts
    log = select(rows, equal(rows, "source", Source.METADATA_LOG))
    uncollected = facts.snapshot != FINAL and not log.num_rows
    logged = facts.plan.has_quorum and facts.shows(Sight.METADATA_LOG)
    if not logged or uncollected:
        return UncleanElections(found=tuple(_without_log(group)))
    return UncleanElections(found=tuple(_of_metadata_log(group, log)))


def _of_metadata_log(group: Group, log: pa.Table) -> Iterator[Unclean]:
    told = select(log, equal(log, "unclean", True))  # noqa: FBT003 - a value
    for epoch in sorted(set(ints(told, "leader_epoch").tolist())):
        if group.facts.plan.unclean_elections:
            yield Unclean(epoch=epoch, last=epoch, start=0, until_ns=_NEVER)
            continue
        for order in _orders(group):
            if order.may_be(epoch):
                yield _ordered(group, order, epoch, epoch)


def _without_log(group: Group) -> Iterator[Unclean]:
    rows = group.table("leadership")
    epochs = ints(select(rows, equal(rows, "source", Source.ZOOKEEPER)), "leader_epoch")
    if len(epochs) and not (epochs > 0).any():
        return
    if group.facts.plan.unclean_elections:
        yield Unclean(epoch=_FIRST, last=_NEVER, start=0, until_ns=_NEVER)
        return
    for order in _orders(group):
        epoch, last = max(_FIRST, order.after_epoch + 1), order.epoch if order.known else _NEVER
        yield _ordered(group, order, epoch, last)


def _orders(group: Group) -> list[UncleanOrder]:
    here = (group.topic, group.partition)
    return [each for each in group.facts.unclean_orders if (each.topic, each.partition) == here]


def _ordered(group: Group, order: UncleanOrder, epoch: int, last: int) -> Unclean:
    if not order.known:
        return Unclean(epoch=epoch, last=last, start=0, until_ns=_NEVER)
    earlier = [each for each in _orders(group) if each.began_ns < order.began_ns]
    # What the replica said before another such election may be of a log that went with that one.
    since_ns = max((_seen_ns(each) for each in earlier), default=-1)
    start, told_ns = _high_watermark(group, order.leader, since_ns, order.began_ns)
    # What a disk had lost by then it lacked as well, though it had said before that it was there.
    kept = [
        loss.first_taken
        for loss in group.facts.disk_losses
        if loss.concerns(group.topic, group.partition)
        and order.leader in loss.nodes
        and not _was_over(loss, told_ns)
    ]
    return Unclean(epoch=epoch, last=last, start=min([start, *kept]), until_ns=order.seen_ns)


def _was_over(loss: DiskLoss, told_ns: int) -> bool:
    """Tell whether what a replica told of itself at a time is of its log after a loss.

    What a fault cuts off while the broker is down is gone when it starts. A flipped bit may be
    found later, and of what was not confirmed nobody knows what it was.
    """
    return loss.excuse in _AT_ONCE and 0 <= loss.until_ns < told_ns


def _seen_ns(order: UncleanOrder) -> int:
    return order.seen_ns if order.known else _NEVER


def _high_watermark(group: Group, node: str, since_ns: int, until_ns: int) -> tuple[int, int]:
    """Return the high watermark that a replica told last of itself in a time, and when.

    Both are 0 if it told none.
    """
    rows = group.table("replica_states")
    told = equal(rows, "node", node) & equal(rows, "high_watermark_source", "fetch")
    told &= ~present(rows, "snapshot") & present(rows, "high_watermark")
    seen_ns = ints(rows, "observed_ns")
    mine = select(rows, told & (seen_ns > since_ns) & (seen_ns <= until_ns))
    if not mine.num_rows:
        return 0, 0
    last = int(np.argmax(ints(mine, "observed_ns")))
    return int(ints(mine, "high_watermark")[last]), int(ints(mine, "observed_ns")[last])
