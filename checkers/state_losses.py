"""What may have cost a partition its records, or internal topics what they keep beside it."""

from checkers.group import Group
from checkers.protocol import Excuse
from checkers.unclean_elections import unclean_elections


def losses(group: Group, *settings: str) -> list[str]:
    """Return what may have cost the partition a record, or internal topics theirs.

    Args:
        group: The partition.
        settings: Of brokers, which say how many replicas such a topic has.
    """
    plan, lost = group.facts.plan, group.facts.disk_losses
    hit = frozenset[str]().union(*(each.nodes for each in lost))
    # What is kept there are records, too; whoever was in sync may have been fewer than all.
    copies = min(plan.replication, *map(plan.internal_copies, settings))
    sure = {each.excuse for each in lost if len(hit) >= copies}
    found = sure or ({Excuse.LAST_COPIES.value} if lost else set[str]())
    if plan.unclean_elections or unclean_elections(group).seen:
        found.add(Excuse.UNCLEAN.value)
    return sorted(found)
