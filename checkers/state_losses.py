"""Return the reasons that allow lost state: records of a partition and of internal topics.

Coordinators store their state as records of internal topics. A disk fault may remove such records.
The record of a run does not show the ISR of internal topics. So a loss has one of these labels:

- The excuse of the fault, if all replicas of a partition lost records, each on its own node. No
  heal must have ended a loss before the last loss began.
- `unconfirmed-fault`, if this is true only together with faults that were not confirmed.
- `last-copies`, if some node lost records: it may have been the only member of the ISR.

The last two are doubts (`DISK_DOUBTS`). A doubt allows nothing, but makes the anomaly untrusted.
"""

from collections.abc import Sequence

import numpy as np

from checkers.changes import was_quiet
from checkers.columns import NEVER
from checkers.disk_losses import TOLD_LATE_NS
from checkers.facts import DiskLoss, RunFacts
from checkers.group import Group
from checkers.protocol import Excuse
from checkers.reigns import GROUPS, SHARES, TRANSACTIONS, Reign
from checkers.unclean_elections import unclean_elections
from results.record.plan import Plan
from results.record.shares import STATE_COPIES

_COPIES = {
    GROUPS: "offsets.topic.replication.factor",
    TRANSACTIONS: "transaction.state.log.replication.factor",
    SHARES: STATE_COPIES,
}
"""The setting for the number of replicas. The default is three, or fewer if there are fewer nodes.
"""
_ANYWHERE = ("", -1)


def losses(group: Group, *topics: str, known_ns: int = -1, missed_ns: int = NEVER) -> list[str]:
    """Return the reasons that allow a lost record in the partition or in internal topics.

    Args:
        group: The run's rows of one partition.
        topics: The internal topics.
        known_ns: When the state was known to be in the log; -1 if unknown.
        missed_ns: When the state was missing.
    """
    facts, place = group.facts, (group.topic, *topics)
    times = {"known_ns": known_ns, "needed_ns": missed_ns}
    found = disk_reasons(facts, *place, partition=group.partition, **times)
    elsewhere = facts.plan.unclean_elections and unclean_by(facts, *topics, by_ns=missed_ns)
    elsewhere = elsewhere and not was_quiet(group, known_ns, missed_ns)
    anything = np.array([NEVER]), np.array([known_ns])
    if elsewhere or unclean_elections(group).took(*anything, missed_ns=missed_ns).any():
        found.add(Excuse.UNCLEAN.value)
    return sorted(found)


def unclean_by(facts: RunFacts, *topics: str, by_ns: int, partition: int | None = None) -> bool:
    """Return whether an unclean election of some topics may have begun by a time.

    If the controllers' log does not show all leader epochs of a topic, the function assumes one.

    Args:
        facts: The run.
        topics: The topics. If `partition` is given, it belongs to those that are not internal.
        by_ns: The last time at which the state was needed. Later elections do not count.
        partition: The partition of these topics.
    """
    return any(_unclean_by(facts, topic, partition, by_ns) for topic in topics)


def _unclean_by(facts: RunFacts, topic: str, partition: int | None, by_ns: int) -> bool:
    epochs: dict[int, list[Reign]] = {}
    for each in facts.reigns:
        if each.topic == topic and (topic in _COPIES or each.partition == partition):
            epochs.setdefault(each.partition, []).append(each)
    shown = {*epochs} == ({*range(len(epochs))} if topic in _COPIES else {partition})
    # A log that begins with a snapshot does not show the elections before the snapshot.
    whole = all(led[-1].epoch < len(led) for led in epochs.values())
    sure = epochs and shown and whole and not _is_disputed(facts, topic)
    took = (each for led in epochs.values() for each in led if each.unclean)
    return not sure or any(each.from_ns <= by_ns for each in took)


def _is_disputed(facts: RunFacts, topic: str) -> bool:
    """Return whether copies of the controllers' log differ in a record about a topic."""
    places = (
        what.rpartition(" of ")[2] for told in facts.quorum.disputed.values() for what in told
    )
    return any(place.rpartition("-")[0] == topic for place in places)


def disk_reasons(
    facts: RunFacts,
    *topics: str,
    partition: int | None = None,
    known_ns: int = -1,
    needed_ns: int = NEVER,
) -> set[str]:
    """Return the labels of disk losses that may have removed records of some topics.

    Args:
        facts: The run.
        topics: The topics. If `partition` is given, it belongs to those that are not internal.
        partition: The partition of these topics.
        known_ns: When the state was known to be in the log. Earlier losses do not count.
        needed_ns: The last time at which the state was needed. Later losses do not count.
    """
    places: dict[tuple[str, int], list[DiskLoss]] = {}
    for loss in facts.disk_losses:
        place = loss.topic, loss.partition
        here = loss.topic in topics and (loss.topic in _COPIES or partition == loss.partition)
        cost = loss.first_taken < loss.end_before and loss.began_ns <= needed_ns
        cost = cost and known_ns <= loss.until_ns + TOLD_LATE_NS
        if cost and (here or place == _ANYWHERE):
            places.setdefault(place, []).append(loss)
    anywhere = places.pop(_ANYWHERE, [])
    if anywhere:
        places |= {(topic, -1): [] for topic in topics if all(topic != of for of, _ in places)}
    told = [
        _labels([*took, *anywhere], _copies(facts.plan, topic))
        for (topic, _), took in places.items()
    ]
    doubts = {Excuse.UNCONFIRMED.value, Excuse.LAST_COPIES.value}
    every = set[str]().union(*told)
    return every - doubts or every


def _copies(plan: Plan, topic: str) -> int:
    return plan.internal_copies(_COPIES[topic]) if topic in _COPIES else plan.replication


def _labels(took: Sequence[DiskLoss], copies: int) -> set[str]:
    """Return the labels for the losses of one partition."""
    # If one of several nodes lost nothing, the losses of the others are known only as a whole.
    took = [loss for loss in took if loss.end_after < loss.end_before]
    sure = [loss for loss in took if loss.excuse != Excuse.UNCONFIRMED]
    if excuses := _together(sure, copies):
        return excuses
    return {(Excuse.UNCONFIRMED if _together(took, copies) else Excuse.LAST_COPIES).value}


def _together(took: Sequence[DiskLoss], copies: int) -> set[str]:
    """Return the excuses of losses on enough nodes, none of which was healed before the last."""
    for last in took:
        at_once = [
            loss
            for loss in took
            if loss.began_ns <= last.began_ns and not 0 <= loss.healed_ns < last.began_ns
        ]
        nodes = frozenset[str]().union(*(loss.nodes for loss in at_once))
        # A target of a fault need not have a replica.
        listed = sum(loss.replicas or len(loss.nodes) for loss in at_once)
        if min(len(nodes), listed) >= copies:
            return {loss.excuse for loss in at_once}
    return set()
