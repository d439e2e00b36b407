"""Return the leader and ISR of a partition step by step, from the best available source.

With KRaft, the controllers' log has every step in order, but no times. An entry was committed
before the first answer that shows this commit. Such an answer either reports a high watermark of
the quorum beyond the entry, or comes from a broker in that leader epoch. The entry was committed at
most five seconds before this answer. With ZooKeeper, the partition's znode was read after each
change, and the time was recorded. Two changes between two reads appear as one step. If both sources
are missing, the leader's own metadata show the epoch and the ISR.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np
import pyarrow as pa

from checkers.changes import TOLD_LATE_NS
from checkers.columns import Ints, equal, ints, order_of, present, runs_of, select, take, texts
from checkers.controllers_log import entries
from checkers.group import Group
from checkers.reigns import UNENDED_NS
from checkers.transitions.events import end_of_run_ns
from results.record.terms import Source

_TIMED = (Source.LIST_OFFSETS, Source.METADATA, Source.ZOOKEEPER)


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """The leader and the ISR of a partition after a change of either.

    Attributes:
        leader: The broker, or -1 if there is none.
        epoch: The leader epoch.
        isr: The ISR. None if it was not recorded.
        unclean: Whether the leader was elected from outside of the ISR. None if unknown.
        not_before_ns, by_ns: The step happened between these times.
    """

    leader: int
    epoch: int
    isr: frozenset[int] | None
    unclean: bool | None
    not_before_ns: int
    by_ns: int

    @property
    def span(self) -> tuple[int, int]:
        """The two times between which the step happened."""
        return self.not_before_ns, self.by_ns


def steps_of(group: Group) -> tuple[Step, ...]:
    """Return a partition's steps (changes of leader or ISR) until the brokers' stop began."""
    return group.view(_steps_of)


def changes_of(group: Group) -> Iterator[tuple[Step, Step]]:
    """Yield each step together with the step before it."""
    yield from pairwise(steps_of(group))


def begins_of(group: Group) -> tuple[Step, ...]:
    """Return the steps (changes) that begin a leader epoch, and the first known step."""
    begins = (after for before, after in changes_of(group) if after.epoch > before.epoch)
    return (*steps_of(group)[:1], *begins)


def _steps_of(group: Group) -> tuple[Step, ...]:
    found = _logged(group) or _kept(group) or _believed(group)
    end_ns = min(
        end_of_run_ns(group.facts), UNENDED_NS
    )  # A step that was never reported is beyond all times.
    return tuple(each for each in found if each.by_ns < end_ns)


def _logged(group: Group) -> list[Step]:
    """Return the changes of leader or ISR in the controllers' log, in order."""
    first_ns = _first_seen(group)
    found: list[Step] = []
    for each in entries(group):
        not_before_ns, by_ns = group.facts.quorum.committed(each.offset)
        begins = not found or found[-1].epoch != each.epoch
        by_ns = min(by_ns, first_ns.get(each.epoch, by_ns)) if begins else by_ns
        found.append(
            Step(
                leader=each.leader, epoch=each.epoch, isr=frozenset(each.isr),
                unclean=each.unclean, not_before_ns=not_before_ns, by_ns=by_ns,
            )
        )  # fmt: skip
    return _in_time(found)


def _in_time(found: list[Step]) -> list[Step]:
    """Return the steps with ascending times; equal times become one nanosecond apart."""
    times = np.array([each.by_ns for each in found], dtype=np.int64)
    latest = np.minimum.accumulate(times[::-1])[::-1].tolist()
    timed: list[Step] = []
    for each, by_ns in zip(found, latest, strict=True):
        later_ns = max(by_ns, timed[-1].by_ns + 1) if timed else by_ns
        earliest_ns = max(each.not_before_ns, by_ns - TOLD_LATE_NS)
        timed.append(replace(each, by_ns=later_ns, not_before_ns=min(earliest_ns, by_ns)))
    return timed


def _first_seen(group: Group) -> dict[int, int]:
    """Return, for each leader epoch, the time at which it was first reported."""
    rows = group.table("leadership")
    timed = equal(rows, "source", *_TIMED) & (ints(rows, "observed_ns") >= 0)
    rows = select(rows, timed & (ints(rows, "leader_epoch") >= 0))
    order = order_of(ints(rows, "leader_epoch"), ints(rows, "observed_ns"))
    epochs, times = ints(rows, "leader_epoch")[order], ints(rows, "observed_ns")[order]
    first = runs_of(epochs)[:-1]
    return dict(zip(epochs[first].tolist(), times[first].tolist(), strict=True))


def _kept(group: Group) -> list[Step]:
    """Return the changes of leader or ISR that ZooKeeper showed.

    An election counts as unclean if the leader was not in the ISR before, and if the plan or a
    fault permits such an election. Without such permission, the leader may have joined the ISR
    between two reads.
    """
    rows = group.table("leadership")
    told = select(rows, equal(rows, "source", Source.ZOOKEEPER) & (ints(rows, "observed_ns") >= 0))
    found = _ascending(told)
    return [
        each if before is None else replace(each, unclean=_is_unclean(group, each, before))
        for before, each in zip([None, *found], found, strict=False)
    ]


def _is_unclean(group: Group, after: Step, before: Step) -> bool:
    """Return whether the data in ZooKeeper show that a leader came from outside of the ISR."""
    known = before.isr and after.leader >= 0 and after.epoch > before.epoch
    if not known or after.leader in (before.isr or ()):
        return False
    return group.facts.plan.unclean_elections or any(
        (each.topic, each.partition) == (group.topic, group.partition) and each.may_be(after.epoch)
        for each in group.facts.unclean_orders
    )


def _believed(group: Group) -> list[Step]:
    """Return the changes of leader or ISR that leaders reported in their own metadata."""
    rows = group.table("leadership")
    told = equal(rows, "source", Source.METADATA) & (ints(rows, "observed_ns") >= 0)
    rows = select(rows, told & (ints(rows, "leader_epoch") >= 0))
    observers = np.array(texts(rows, "observer"), dtype=np.str_)
    leaders = np.array([f"n{leader}" for leader in ints(rows, "leader").tolist()], dtype=np.str_)
    nobody = ints(rows, "leader") < 0
    return _ascending(select(rows, np.asarray((observers == leaders) | nobody, dtype=np.bool_)))


def _ascending(rows: pa.Table) -> list[Step]:
    """Return the rows that change the epoch or the ISR as steps, sorted by time.

    Drop a row if an earlier row has a higher epoch, or another leader in the same epoch.
    """
    order = np.argsort(ints(rows, "observed_ns"), kind="stable")
    columns: list[Ints] = [
        ints(rows, name)[order] for name in ("observed_ns", "leader", "leader_epoch")
    ]
    isrs = take(rows, order)["isr"].to_pylist()
    known = present(rows, "isr")[order].tolist()
    found: list[Step] = []
    last_ns = 0
    for at_ns, leader, epoch, isr, told in zip(
        *(each.tolist() for each in columns), isrs, known, strict=True
    ):
        step = Step(
            leader=leader, epoch=epoch, isr=frozenset(isr) if told else None, unclean=None,
            not_before_ns=last_ns, by_ns=at_ns,
        )  # fmt: skip
        if not found or _differs(step, found[-1]):
            found.append(step)
        last_ns = at_ns
    return found


def _differs(step: Step, before: Step) -> bool:
    if step.epoch != before.epoch:
        return step.epoch > before.epoch
    return step.leader == before.leader and step.isr not in {None, before.isr}
