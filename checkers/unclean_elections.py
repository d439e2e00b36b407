"""Find the unclean elections of a partition, and the records that each election may have lost.

A leader from outside of the ISR may lack committed records. The leader's log may also have other
records at these offsets, which an older leader wrote but never committed. Below its own earlier
high watermark, the leader's log is the same as all other logs. So the election lost no record below
that offset. The election also lost no record that was sent while the new leader led and no other
broker could lead.

Both facts are known for an election that a fault requested. The replica reported its high watermark
before the fault began. All in-sync replicas were dead when that replica began to lead. If instead
the plan permits unclean elections, the time of such an election is unknown. An old leader that is
cut off may continue to accept records until it learns the new epoch. So each unclean election may
have lost any record of an earlier epoch. If the controllers' log shows the election, records that
were sent 2 s after all brokers knew the new epoch do not count. The election did not lose records
of the election's own epoch or of later epochs. The epoch of a record comes from a copy in a log, or
from a reader.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from checkers.columns import NEVER, NONE, Ints, Mask, equal, first_match, ints, present, select
from checkers.facts import FINAL, DiskLoss, UncleanOrder
from checkers.followed_epochs import last_epoch
from checkers.group import Group
from checkers.keeper import keeper_lost
from checkers.protocol import Excuse
from checkers.written_epochs import written_epochs
from results.record.declared import Sight
from results.record.terms import Source

_FOLLOWS_NS = 2_000_000_000
"""The maximum time from a broker's first answer with a new epoch until its replicas follow."""
_FIRST = 1
"""The leader epoch of the first election after a partition's creation."""
_AT_ONCE = (Excuse.POWER, Excuse.WIPE)
"""The faults that remove records from a log while the broker is down."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Unclean:
    """One unclean election.

    Attributes:
        epoch: The leader epoch of the election, or the lowest possible leader epoch.
        last: The highest possible leader epoch. The same as `epoch` if the metadata log names the
            election.
        start: The elected leader may have lacked records from this offset on.
        until_ns: Records that were sent after this time went to this leader or to a later leader.
        began_ns: The election did not take place before this time.
    """

    epoch: int
    last: int
    start: int
    until_ns: int
    began_ns: int = NONE

    def may_begin(self, epoch: int, later: int) -> bool:
        """Return whether the election may have begun an epoch in (`epoch`, `later`]."""
        return max(self.epoch, epoch + 1) <= min(self.last, later)


@dataclass(frozen=True, slots=True, kw_only=True)
class UncleanElections:
    """All unclean elections of a partition that the plan or a fault permits.

    Attributes:
        found: The elections.
    """

    found: tuple[Unclean, ...]

    @property
    def seen(self) -> bool:
        """Whether there was an unclean election."""
        return bool(self.found)

    def took(
        self,
        offsets: Ints,
        sent_ns: Ints | None = None,
        epochs: Ints | None = None,
        *,
        missed_ns: int | Ints = NEVER,
    ) -> Mask:
        """Return a mask of the records that the leader of an unclean election may have lacked.

        Args:
            offsets: The offsets of the records. -1 if unknown.
            sent_ns: When each record was sent. -1 if unknown. None: unknown for all.
            epochs: The leader epoch of each record. -1 if unknown. None: unknown for all.
            missed_ns: When the records were missing; one time, or one for each record. Later
                elections do not count.
        """
        taken = np.zeros(len(offsets), dtype=np.bool_)
        for each in self.found:
            behind = (offsets >= each.start) | (offsets < 0)
            behind &= each.began_ns <= missed_ns
            if sent_ns is not None:
                behind &= sent_ns <= each.until_ns
            if epochs is not None:
                behind &= epochs < each.last
            taken |= behind
        return taken

    def took_one(self, offset: int) -> bool:
        """Return whether an unclean leader may have lacked the record at an offset."""
        return bool(self.took(np.array([offset]))[0])

    def took_after(self, offset: int, epoch: int, sent_ns: int = NONE, until: int = NEVER) -> bool:
        """Return whether an unclean leader after `epoch` may have lacked the record at `offset`.

        An unclean election does not lose records that a leader writes or announces after the
        election. The later leaders, up to the next unclean election, have such records.

        Args:
            offset: The record's offset.
            epoch: A leader epoch in which the record was in the log. -1 if unknown.
            sent_ns: When the record was sent. -1 if unknown.
            until: The last leader epoch in which the record may have been lost.
        """
        later = tuple(each for each in self.found if each.may_begin(epoch, until))
        taken = UncleanElections(found=later).took(np.array([offset]), np.array([sent_ns]))
        return bool(taken[0])

    def between(self, epoch: int, later: int) -> bool:
        """Return whether an unclean election may have begun an epoch in (`epoch`, `later`]."""
        return any(each.may_begin(epoch, later) for each in self.found)

    def over_from(self, later: int = NEVER) -> int:
        """Return the lowest epoch whose records no unclean election up to epoch `later` explains.

        An unclean election may have lost the records of each epoch below the result. If there is no
        such election, the result is -1.
        """
        ends = (min(each.last, later) for each in self.found if each.epoch <= later)
        return max(ends, default=NONE)


def took_value_at(
    group: Group, offset: int, values: Sequence[int], *, missed_ns: int = NEVER
) -> bool:
    """Return whether an unclean leader may have lacked, at an offset, one of the given values.

    If the run's record contains the send times or the leader epochs of the values, the function
    uses these, too.

    Args:
        group: The run's rows of one partition.
        offset: The offset of the values. -1 if unknown.
        values: The values. -1 if unknown.
        missed_ns: When the values were missing. Later elections do not count.
    """
    if not unclean_elections(group).seen:
        return False
    told = [written_epochs(group, offset, value) if value >= 0 else () for value in values]
    epochs = np.array([min(each, default=NONE) for each in told], dtype=np.int64)
    wanted = np.array(values, dtype=np.int64)
    places = np.full(len(wanted), offset)
    return bool(took_values(group, places, wanted, epochs, missed_ns=missed_ns).any())


def took_values(
    group: Group, offsets: Ints, values: Ints, epochs: Ints | None, *, missed_ns: int = NEVER
) -> Mask:
    """Return a mask of the values that an unclean leader may have lacked, by their offsets.

    If the run's record contains the send times of the values, the function uses these times too.

    Args:
        group: The run's rows of one partition.
        offsets: The offsets of the values. -1 if unknown.
        values: The values. -1 if unknown.
        epochs: A leader epoch of each value's record. -1 if unknown. None: unknown for all.
        missed_ns: When the values were missing. Later elections do not count.
    """
    sends = group.table("sends")
    begun_ns = np.append(ints(sends, "invoke_ns"), NONE)  # Index -1 selects the appended value.
    rows = np.where(values >= 0, first_match(values, ints(sends, "value")), NONE)
    elections = unclean_elections(group)
    return elections.took(offsets, begun_ns[rows], epochs, missed_ns=missed_ns)


def lacked_by(group: Group, offset: int, acked_ns: int) -> int:
    """Return an epoch whose leader already lacked a lost record; `NEVER` if no epoch is known.

    The last leader's log has another record at the offset. The leader that wrote it lacked the lost
    record, if its epoch began after the acknowledgement. Later elections do not explain the loss.

    Args:
        group: The run's rows of one partition.
        offset: The acknowledged offset of a record that the log lacks. -1 if unknown.
        acked_ns: When the record was acknowledged. -1 if unknown.
    """
    log = group.final_log
    at = log.at(offset) if log is not None else None
    if log is None or at is None or acked_ns < 0:
        return NEVER
    epoch = int(log.epochs[at])
    return epoch if began_ns_of(group, epoch) > acked_ns else NEVER


def unclean_elections(group: Group) -> UncleanElections:
    """Return the partition's unclean elections that the plan, or a fault, permits.

    The metadata log names each of these elections. The log may be missing: ZooKeeper has no log of
    elections, other systems may not show their log, and a run that died may lack the log. Then the
    function assumes that each permitted election happened. But if ZooKeeper answered to the end,
    and no report names a leader epoch above 0, there was no election.
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
            yield Unclean(
                epoch=epoch, last=epoch, start=0, until_ns=_known_ns(group, epoch),
                began_ns=began_ns_of(group, epoch),
            )  # fmt: skip
            continue
        for order in _orders(group):
            if order.may_be(epoch):
                yield _ordered(group, order, epoch, epoch)


def began_ns_of(group: Group, epoch: int) -> int:
    """Return a time before which a leader epoch did not begin; -1 if unknown."""
    mine = (group.topic, group.partition, epoch)
    reigns = (
        each for each in group.facts.reigns if (each.topic, each.partition, each.epoch) == mine
    )
    return max((each.from_ns for each in reigns), default=NONE)


def _without_log(group: Group) -> Iterator[Unclean]:
    rows, highest = group.table("leadership"), NEVER
    if equal(rows, "source", Source.ZOOKEEPER).any() and not keeper_lost(rows):
        if not (ints(rows, "leader_epoch") > 0).any():
            return
        # The epoch in ZooKeeper never falls, so a later epoch would be known after the recovery.
        watched = group.facts.recovered and group.facts.snapshot == FINAL
        highest = last_epoch(group) if watched else NEVER
    if group.facts.plan.unclean_elections:
        yield Unclean(epoch=_FIRST, last=highest, start=0, until_ns=NEVER)
        return
    for order in _orders(group):
        epoch, last = max(_FIRST, order.after_epoch + 1), order.epoch if order.known else highest
        yield _ordered(group, order, epoch, last)


def _known_ns(group: Group, epoch: int) -> int:
    """Return a time from which no broker led before an epoch, because each broker knew the epoch.

    Without ZooKeeper, a broker learns an epoch shortly before its replicas follow the new leader.
    """
    rows = group.table("leadership")
    seen_ns = ints(rows, "observed_ns")
    knew = (ints(rows, "leader_epoch") >= epoch) & (seen_ns >= 0)
    first = [
        int(seen_ns[knew & equal(rows, "observer", f"n{broker}")].min(initial=NEVER))
        for broker in group.facts.brokers
    ]
    return min(max(first), NEVER - _FOLLOWS_NS) + _FOLLOWS_NS


def _orders(group: Group) -> list[UncleanOrder]:
    here = (group.topic, group.partition)
    return [each for each in group.facts.unclean_orders if (each.topic, each.partition) == here]


def _ordered(group: Group, order: UncleanOrder, epoch: int, last: int) -> Unclean:
    if not order.known:
        began_ns = order.began_ns
        return Unclean(epoch=epoch, last=last, start=0, until_ns=NEVER, began_ns=began_ns)
    earlier = [each for each in _orders(group) if each.began_ns < order.began_ns]
    # A report from before an earlier unclean election may describe a log that it then lost.
    since_ns = max((_seen_ns(each) for each in earlier), default=-1)
    start, told_ns = _high_watermark(group, order.leader, since_ns, order.began_ns)
    # The leader also lacks records that its disk had lost by then, even if it reported them before.
    kept = [
        loss.first_taken
        for loss in group.facts.disk_losses
        if loss.concerns(group.topic, group.partition)
        and order.leader in loss.nodes
        and not _was_over(loss, told_ns)
    ]
    return Unclean(
        epoch=epoch, last=last, start=min([start, *kept]), until_ns=order.seen_ns,
        began_ns=order.began_ns,
    )  # fmt: skip


def _was_over(loss: DiskLoss, told_ns: int) -> bool:
    """Return whether a replica's report describes the state of the log after a disk loss.

    A power loss or wipe removes records while the broker is down, so these are missing when the
    broker starts. A flipped bit may be found later. The effect of an unconfirmed fault is unknown.
    """
    return loss.excuse in _AT_ONCE and 0 <= loss.until_ns < told_ns


def _seen_ns(order: UncleanOrder) -> int:
    return order.seen_ns if order.known else NEVER


def _high_watermark(group: Group, node: str, since_ns: int, until_ns: int) -> tuple[int, int]:
    """Return (high watermark, time) of a replica's last own report in a time span.

    Both are 0 if there is no report.
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
