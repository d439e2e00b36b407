"""Elections of a partition by cause, times without a leader, and leaders that did not know.

From `leadership`, as `reigned.py` has it: each higher leader epoch is an election. Whom it replaced
is the last leader of before; `causes.py` says what had befallen that one. A leader that is gone
leaves the ISR in the same step: one that stays in it was moved on purpose, by an order or because
another replica is the preferred leader. The controllers' log says which elections were unclean;
with ZooKeeper, one of a leader that was not in the ISR before is, where the plan allows that or a
fault ordered it. A reassignment may end with a leader that was in no ISR before, and is none.

A deposed leader still answers if it was asked as leader (ListOffsets) after another broker had
answered in a later epoch. That proves no promise broken: it may not know yet.

What would not prove it: an election after the brokers' stop began, which is our own doing; a step
between two looks at ZooKeeper, which nobody saw.
"""

import numpy as np

from checkers.changes import NEVER_NS
from checkers.columns import Ints, distinct, equal, ints, select
from checkers.facts import RunFacts
from checkers.group import Group
from checkers.transitions.causes import REASSIGNING, cause_of, was_ordered
from checkers.transitions.events import Events, end_of_run_ns
from checkers.transitions.reigned import Step, changes_of
from results.record.terms import Source


def find(group: Group, events: Events) -> None:
    """Add the elections of a partition."""
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
        facts: Of the run.
        after: The step that it began.
        last: The last leader before.
        place: The partition.
        vacant_ns: Not before that the partition lost its last leader; None: it had one.
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
    """Add the answers of leaders that another one had followed already: the first of each epoch."""
    rows = group.table("leadership")
    claims = equal(rows, "source", Source.LIST_OFFSETS) & (ints(rows, "leader_epoch") >= 0)
    claims &= (ints(rows, "leader") >= 0) & (ints(rows, "observed_ns") >= 0)
    told = select(rows, claims & (ints(rows, "observed_ns") < end_of_run_ns(group.facts)))
    epochs, leaders = ints(told, "leader_epoch"), ints(told, "leader")
    seen, asked = ints(told, "observed_ns"), ints(told, "asked_ns")
    for epoch in distinct(epochs[asked > _first_later(epochs, seen)]).tolist():
        mine = epochs == epoch
        later = seen[(epochs > epoch) & ~np.isin(leaders, leaders[mine])]
        late = mine & (asked > later.min(initial=NEVER_NS))
        if late.any():
            events.add("leader/deposed-answers", int(seen[late].min()))


def _first_later(epochs: Ints, seen: Ints) -> Ints:
    """Return for each answer when any later epoch was first told; `NEVER_NS` if none was."""
    order = np.lexsort((seen, -epochs))
    ranked = epochs[order]
    begins = np.searchsorted(-ranked, -ranked)  # Where rows of the same epoch begin.
    earliest = np.append(NEVER_NS, np.minimum.accumulate(seen[order]))
    found = np.empty(len(epochs), dtype=np.int64)
    found[order] = earliest[begins]
    return found
