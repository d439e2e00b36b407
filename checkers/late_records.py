"""Records that lie behind the end of their own transaction.

A Produce request may arrive late, after the coordinator aborted its transaction and the marker was
written. Before KIP-890, a leader still appends the record (KAFKA-14402). The record then belongs to
the producer's next transaction. A marker right before the record is a sign of this. That marker is
of the record's producer and epoch, and ends nothing. So no record of the producer lies between the
marker and the producer's previous marker.
"""

import numpy as np

from checkers.group import ReplicaLog


def marker_before(log: ReplicaLog, at: int) -> str:
    """Return the marker before a record that may belong to the record's own transaction.

    Args:
        log: A replica's log.
        at: The record's row.

    Returns:
        The beginning of a sentence for a report; empty if there is no such marker.
    """
    producer, epoch = log.producer_ids[at], log.producer_epochs[at]
    mine = np.flatnonzero(log.producer_ids[:at] == producer)
    last = mine[-2:]
    if not len(last) or not (log.controls[last] == 1).all():
        return ""
    if log.producer_epochs[last[-1]] != epoch:
        return ""
    return (
        f"its own marker may be at offset {int(log.offsets[last[-1]])}, because that marker ends"
        " no other record: then the record was appended after the end of its transaction"
        " (KAFKA-14402); otherwise "
    )
