"""Find the changes of a partition's ISR, and name them by the size before and after.

The source is `leadership`, as `reigned.py` prepares it. A step without a recorded ISR is ignored. A
leader change may change the ISR in the same step. The step then counts as both changes.

What would not prove it: the metadata of a follower, because this metadata may be old. With
ZooKeeper, two changes between two answers look like one change.
"""

from checkers.group import Group
from checkers.transitions.events import Events, bucket
from checkers.transitions.reigned import changes_of
from results.record.transitions import SIZES


def find(group: Group, events: Events) -> None:
    """Add the changes of a partition's ISR to the transitions in `events`."""
    least = group.facts.plan.least_insync
    for before, after in changes_of(group):
        if before.isr is None or after.isr is None or before.isr == after.isr:
            continue
        was, now = len(before.isr), len(after.isr)
        first, second = bucket(was, *SIZES), bucket(now, *SIZES)
        if was == now:
            events.add("isr/replaced", after.by_ns)
        elif first != second:
            way = "shrank" if now < was else "grew"
            events.add(f"isr/{way}-{first}-to-{second}", after.by_ns)
        if now < least <= was:
            events.add("isr/below-min", after.by_ns)
        elif was < least <= now:
            events.add("isr/back-to-min", after.by_ns)
