"""What may have cost an acknowledged record of acks=1: an election, a restart, a truncation.

With acks=1 the leader alone vouches for a record. It goes where the leader does: another one that
had not fetched it is elected, or the leader comes back without the end of its log. Where nothing of
the kind happened, the leader had the record and lost it, and no promise is too weak for that.

Who acknowledged may have been a leader of before, cut off, that did not know of its successor yet.
So while a fault is in force, and for a while after it, any election of the run may be why; what is
sent at other times goes to the leader that everybody knows.
"""

import numpy as np

from checkers.changes import TOLD_LATE_NS, disturbed, elected, restarted
from checkers.group import Group


def may_be_dropped(group: Group, offset: int, sent_ns: int) -> bool:
    """Tell whether anything happened that may have cost a partition a record of acks=1.

    Args:
        group: The partition.
        offset: Where the record stood, -1 if unknown.
        sent_ns: When it was sent; -1 if unknown.
    """
    unsettled = sent_ns < 0 or disturbed(group.facts, sent_ns, sent_ns)
    since_ns = 0 if unsettled else sent_ns - TOLD_LATE_NS
    cuts = group.table("truncations")
    truncated = bool(group.truncated(np.array([offset]))[0]) if offset >= 0 else cuts.num_rows > 0
    lost = any(each.concerns(group.topic, group.partition) for each in group.facts.disk_losses)
    return truncated or lost or elected(group, since_ns) or restarted(group, since_ns)
