"""Find a partition's elections (with causes), times without a leader, and outdated answers.

The source is `leadership`, as `reigned.py` prepares it: each higher leader epoch with a leader is
an election, except the first.
`causes.py` names the faults that hit the replaced leader. If a leader's broker ended, the election
also removes that broker from the ISR. If the old leader stays in the ISR, it was replaced on
purpose: on request, or because another replica is the preferred leader. The controllers' log shows
which elections were unclean. With ZooKeeper, an election is unclean if the new leader was not in
the ISR before, and if the plan or a fault permits unclean elections. A reassignment may end with a
leader that was in no ISR before. Such an election does not count as unclean.

A deposed leader may answer ListOffsets as leader, even if the request began after another broker
had answered in a later epoch. This breaks no guarantee, because the deposed leader may not know the
later epoch yet.

What would not prove it: an election after the brokers' stop began, because Logquake causes such an
election. A change between two answers of ZooKeeper, because no observer saw the change.
"""

import numpy as np

from checkers.columns import NEVER, Ints, distinct, equal, ints, select
from checkers.facts import RunFacts
from checkers.group import Group
from checkers.transitions.causes import REASSIGNING, cause_of, was_ordered
from checkers.transitions.events import Events, end_of_run_ns
from checkers.transitions.reigned import Step, changes_of
from results.record.terms import Source


def find(group: Group, events: Events) -> None:
    """Add a partition's elections to the transitions in `events`."""
    place = (group.topic, group.partition)
    last, vacant_ns = -1, None
    for before, after in changes_of(group):
        last = before.leader if before.leader >= 0 else last
        if after.epoch <= before.epoch:
            continue
        if after.leader < 0:
            if before.leader >= 0:
                events.add("leader/none", after.by_ns)
            vacant_ns = after.not_before_ns if vacant_ns is None else vacant_ns
            continue
        if last >= 0:
            name = _name(group.facts, after, last, place=place, vacant_ns=vacant_ns)
            events.add(f"election/{name}", after.by_ns)
        vacant_ns = None
    _add_deposed(group, events)


def _name(
    facts: RunFacts, after: Step, last: int, *, place: tuple[str, int], vacant_ns: int | None
) -> str:
    """Return the name of an election.

    Args:
        facts: The run's facts.
        after: The step that began with the election.
        last: The leader before the election.
        place: The partition.
        vacant_ns: A time at which the partition still had its last leader. None if the partition
            had a leader until the election.
    """
    if after.unclean:
        moved = was_ordered(facts, place, after.span, REASSIGNING)
        return "ordered" if moved else "unclean"
    if after.leader == last:
        return "renewed" if vacant_ns is None else "returned"
    if vacant_ns is None and last in (after.isr or ()):
        return "ordered" if was_ordered(facts, place, after.span) else "handed-over"
    span = (after.not_before_ns if vacant_ns is None else vacant_ns, after.by_ns)
    return cause_of(facts, f"n{last}", span, place)


def _add_deposed(group: Group, events: Events) -> None:
    """Add, for each epoch, the first answer that the leader gave after it had been replaced."""
    rows = group.table("leadership")
    claims = equal(rows, "source", Source.LIST_OFFSETS) & (ints(rows, "leader_epoch") >= 0)
    claims &= (ints(rows, "leader") >= 0) & (ints(rows, "observed_ns") >= 0)
    told = select(rows, claims & (ints(rows, "observed_ns") < end_of_run_ns(group.facts)))
    epochs, leaders = ints(told, "leader_epoch"), ints(told, "leader")
    seen, asked = ints(told, "observed_ns"), ints(told, "asked_ns")
    for epoch in distinct(epochs[asked > _first_later(epochs, seen)]).tolist():
        mine = epochs == epoch
        later = seen[(epochs > epoch) & ~np.isin(leaders, leaders[mine])]
        late = mine & (asked > later.min(initial=NEVER))
        if late.any():
            events.add("leader/deposed-answers", int(seen[late].min()))


def _first_later(epochs: Ints, seen: Ints) -> Ints:
    """Return, for each answer, the time of the first report of a later epoch; or `NEVER`."""
    order = np.lexsort((seen, -epochs))
    ranked = epochs[order]
    begins = np.searchsorted(-ranked, -ranked)  # The first row of the same epoch.
    earliest = np.append(NEVER, np.minimum.accumulate(seen[order]))
    found = np.empty(len(epochs), dtype=np.int64)
    found[order] = earliest[begins]
    return found
