"""Claims of faults on nodes: two faults on one aspect of a node exclude each other.

Faults on different aspects can be combined. For example, a paused broker can also be cut off. If
one of these faults is healed, the other stays active. Cuts of links can be combined, and each has
its own id. So a cut claims nothing. A fault that moves a partition's replicas claims the partition.
Otherwise the heal of one fault could undo the change of another.
"""

from collections.abc import Iterable
from enum import StrEnum

from cluster.protocol import ClusterError
from results.record.runtime import new_lock


class Aspect(StrEnum):
    """An aspect of a node, or of a partition, that a fault changes."""

    PROCESS = "broker"
    """The broker process. Faults that change the broker's files or disk also claim the process."""
    LINKS = "links"
    """Cuts of links. Several cuts can be combined, so they are never claimed."""
    QUALITY = "network"
    """Delay, loss and similar effects on the node's links."""
    CLOCK = "clock"
    DISK = "disk"
    """The speed of the disk. Faults that fill, lock or break a disk claim the broker instead."""
    CLUSTER = "cluster"
    """Leadership and topics. A fault with this aspect claims nothing of a node."""
    REPLICAS = "replicas"
    """The replicas of a partition and their order. The claim has the partition's name."""


COMPOSING = frozenset({Aspect.LINKS, Aspect.CLUSTER})
TAKING = frozenset({Aspect.PROCESS, Aspect.LINKS, Aspect.QUALITY})
"""Aspects of the faults that can disable a node. In random schedules that spare the majority, a
majority of nodes must be free of such faults, except while a fault hits or divides all nodes."""


class Claims:
    """The aspects of nodes that faults have claimed."""

    def __init__(self) -> None:
        self._holders: dict[tuple[Aspect, str], int] = {}
        self._lock = new_lock()

    def claim(self, fault_id: int, nodes: Iterable[str], aspect: Aspect = Aspect.PROCESS) -> None:
        """Claim an aspect of all given nodes (or partitions), or raise an error and claim none.

        Raises:
            ClusterError: Another fault has claimed one of them.
        """
        if aspect in COMPOSING:
            return
        wanted = [(aspect, node) for node in nodes]
        with self._lock:
            for each in wanted:
                holder = self._holders.get(each, fault_id)
                if holder != fault_id:
                    raise ClusterError(f"fault {holder} already holds the {aspect} of {each[1]}")
            self._holders.update(dict.fromkeys(wanted, fault_id))

    def release(self, fault_id: int) -> None:
        """Release all claims of a fault on nodes and partitions."""
        with self._lock:
            self._holders = {
                each: holder for each, holder in self._holders.items() if holder != fault_id
            }
