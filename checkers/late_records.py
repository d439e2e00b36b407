"""Records that stand behind the end of their own transaction.

A Produce request may come late, after the coordinator aborted its transaction and the marker was
written. Before KIP-890 a leader takes it all the same (KAFKA-14402): the record then belongs to
whatever its producer does next. A sign of it is a marker right before the record, of its producer
and epoch, that ends nothing: no record of the producer stands between it and the marker before.
"""

import numpy as np

from checkers.group import ReplicaLog


def marker_before(log: ReplicaLog, at: int) -> str:
    """Return which marker may be that of a record's transaction, and stands before it.

    Args:
        log: Of a replica.
        at: The record's row.

    Returns:
        For people, with what follows; empty if there is none.
    """
    producer, epoch = log.producer_ids[at], log.producer_epochs[at]
    mine = np.flatnonzero(log.producer_ids[:at] == producer)
    last = mine[-2:]
    if not len(last) or not (log.controls[last] == 1).all():
        return ""
    if log.producer_epochs[last[-1]] != epoch:
        return ""
    return (
        f"its own may be that at {int(log.offsets[last[-1]])}, which ends no other record: then it"
        " was appended behind the end of its transaction (KAFKA-14402); else "
    )
