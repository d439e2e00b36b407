"""Which records may have been truncated: what the excuses of weak promises are about.

With acks=1, or after an unclean election, an acknowledged record may be dropped and its offset
given to another one. Two records that both stand where they were acknowledged were never dropped,
so that nothing excuses what is wrong between them.
"""

import numpy as np

from checkers.columns import Ints, Mask
from checkers.group import Group
from checkers.power_loss import lost_to_power


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


def taken_by_power(group: Group, offsets: Ints, times_ns: Ints) -> Mask:
    """Tell which records every replica of the partition lost with its power.

    Args:
        group: A partition's.
        offsets: Of the records.
        times_ns: When each was acknowledged.
    """
    if not group.facts.power_cuts:
        return np.zeros(len(offsets), dtype=np.bool_)
    pairs = zip(offsets.tolist(), times_ns.tolist(), strict=True)
    return np.array([lost_to_power(group, *pair) for pair in pairs], dtype=np.bool_)
