"""Return the reasons that allow lost records in a partition or in internal topics."""

from checkers.group import Group
from checkers.protocol import Excuse
from checkers.unclean_elections import unclean_elections


def losses(group: Group, *settings: str) -> list[str]:
    """Return the reasons that allow a lost record in the partition or in internal topics.

    The result may also have doubts (`DISK_DOUBTS`). A doubt allows nothing, but makes the anomaly
    untrusted.

    Args:
        group: The run's rows of one partition.
        settings: The broker settings for the replication factors of the internal topics.
    """
    plan, lost = group.facts.plan, group.facts.disk_losses
    hit = frozenset[str]().union(*(each.nodes for each in lost))
    # State in internal topics consists of records, too. Perhaps not all replicas were in sync.
    copies = min(plan.replication, *map(plan.internal_copies, settings))
    sure = {each.excuse for each in lost if len(hit) >= copies}
    found = sure or ({Excuse.LAST_COPIES.value} if lost else set[str]())
    if plan.unclean_elections or unclean_elections(group).seen:
        found.add(Excuse.UNCLEAN.value)
    return sorted(found)
