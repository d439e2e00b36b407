"""Which fault has which broker process: two faults of processes on one node exclude each other."""

import threading
from collections.abc import Iterable

from cluster.protocol import ClusterError


class Claims:
    """Nodes whose brokers are in the hands of a fault."""

    def __init__(self) -> None:
        self._holders: dict[str, int] = {}
        self._lock = threading.Lock()

    def claim(self, fault_id: int, nodes: Iterable[str]) -> None:
        """Take all of the nodes, or none.

        Raises:
            ClusterError: Another fault has one of them.
        """
        wanted = list(nodes)
        with self._lock:
            for node in wanted:
                holder = self._holders.get(node, fault_id)
                if holder != fault_id:
                    raise ClusterError(f"fault {holder} has the broker of {node} already")
            self._holders.update(dict.fromkeys(wanted, fault_id))

    def release(self, fault_id: int) -> None:
        """Give up all nodes of a fault."""
        with self._lock:
            self._holders = {
                node: holder for node, holder in self._holders.items() if holder != fault_id
            }
