"""Which fault has what of which node: two faults on one aspect of a node exclude each other.

Faults on different aspects compose: a paused broker can be cut off, and the heal of either leaves
the other in force. Cuts of links add up, each with an id of its own, and so claim nothing. Whoever
moves a partition's replicas has the partition: two would give back what the other took.
"""

from collections.abc import Iterable
from enum import StrEnum

from cluster.protocol import ClusterError
from results.record.runtime import new_lock


class Aspect(StrEnum):
    """What of a node a fault takes in hand."""

    PROCESS = "broker"
    """Its broker runs or not; whoever touches its files or its disk has it, too."""
    LINKS = "links"
    """Cuts, which add up: never claimed."""
    QUALITY = "network"
    """Delay, loss and the like on its links."""
    CLOCK = "clock"
    DISK = "disk"
    """How quick its disk is; what fills or locks a disk, or breaks its requests, has the broker."""
    CLUSTER = "cluster"
    """Leadership and topics: nothing of a node."""
    REPLICAS = "replicas"
    """Which nodes have a partition, in which order; claimed by the partition's name."""


COMPOSING = frozenset({Aspect.LINKS, Aspect.CLUSTER})
TAKING = frozenset({Aspect.PROCESS, Aspect.LINKS, Aspect.QUALITY})
"""What keeps a node from doing its part, or may: a majority of nodes must be left whole."""


class Claims:
    """Aspects of nodes that are in the hands of a fault."""

    def __init__(self) -> None:
        self._holders: dict[tuple[Aspect, str], int] = {}
        self._lock = new_lock()

    def claim(self, fault_id: int, nodes: Iterable[str], aspect: Aspect = Aspect.PROCESS) -> None:
        """Take an aspect of all of the nodes (or partitions), or of none.

        Raises:
            ClusterError: Another fault has one of them.
        """
        if aspect in COMPOSING:
            return
        wanted = [(aspect, node) for node in nodes]
        with self._lock:
            for each in wanted:
                holder = self._holders.get(each, fault_id)
                if holder != fault_id:
                    raise ClusterError(f"fault {holder} has the {aspect} of {each[1]} already")
            self._holders.update(dict.fromkeys(wanted, fault_id))

    def release(self, fault_id: int) -> None:
        """Give up all that a fault has."""
        with self._lock:
            self._holders = {
                each: holder for each, holder in self._holders.items() if holder != fault_id
            }
