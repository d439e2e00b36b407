"""The methods and attributes that an observer needs from a cluster."""

from collections.abc import Mapping, Sequence
from typing import Protocol

from cluster.protocol import Endpoint
from results.record.declared import Sight


class Observed(Protocol):
    """A cluster whose nodes answer requests."""

    nodes: Sequence[str]
    """The brokers' names."""
    controllers: Sequence[str]
    """The names of the separate controllers."""
    endpoints: Mapping[str, Endpoint]
    """The addresses of brokers and separate controllers."""
    sees: frozenset[Sight]
    """The kinds of data that can be observed on the nodes."""

    @property
    def zookeeper(self) -> str | None:
        """Return `host:port` of ZooKeeper, or None without it."""

    def incarnation(self, node: str) -> int:
        """Return the number of starts of the node's server."""

    def answers(self, node: str) -> bool:
        """Return whether the node's server runs and is not paused."""
