"""Which records may have been truncated: what the excuses of weak promises are about.

With acks=1, or after an unclean election, an acknowledged record may be dropped and its offset
given to another one. Two records that both stand where they were acknowledged were never dropped,
so that nothing excuses what is wrong between them.
"""

import numpy as np

from checkers.columns import Ints, Mask
from checkers.disk_losses import lost_on_disks
from checkers.group import Group
from checkers.protocol import DISK_DOUBTS, DISK_EXCUSES, Excuse


def dropped(group: Group, offsets: Ints, values: Ints) -> Mask:
    """Tell which records do not stand at their offsets in the leader's final log.

    What no log tells may be gone: where there is none, and below its start, which retention moved.
    """
    log = group.final_log
    if log is None or not len(log.offsets):
        return np.ones(len(offsets), dtype=np.bool_)
    at = np.minimum(np.searchsorted(log.offsets, offsets), len(log.offsets) - 1)
    held = (log.offsets[at] == offsets) & (log.values[at] == values)
    return np.asarray(~held, dtype=np.bool_)


def taken_by_disks(group: Group, offsets: Ints, times_ns: Ints) -> dict[Excuse, Mask]:
    """Tell which records every replica of the partition lost with its disk, by excuses.

    Args:
        group: A partition's.
        offsets: Of the records.
        times_ns: When each was known to stand there.
    """
    if not group.facts.disk_losses:
        return {}
    pairs = zip(offsets.tolist(), times_ns.tolist(), strict=True)
    told = [lost_on_disks(group, *pair) for pair in pairs]
    return {
        excuse: np.array([excuse.value in each for each in told], dtype=np.bool_)
        for excuse in (*DISK_EXCUSES, *DISK_DOUBTS)
    }
