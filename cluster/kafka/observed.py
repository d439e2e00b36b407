"""What an observer needs of a cluster."""

from collections.abc import Mapping, Sequence
from typing import Protocol

from cluster.protocol import Endpoint
from results.record.declared import Sight


class Observed(Protocol):
    """A cluster whose nodes can be asked."""

    nodes: Sequence[str]
    """The brokers."""
    controllers: Sequence[str]
    """Controllers of their own."""
    endpoints: Mapping[str, Endpoint]
    """Of both."""
    sees: frozenset[Sight]
    """What they may be asked for."""

    @property
    def zookeeper(self) -> str | None:
        """Return `host:port` of ZooKeeper, None without it."""

    def incarnation(self, node: str) -> int:
        """Return how often the node's server was started."""

    def answers(self, node: str) -> bool:
        """Tell whether the node's server runs and is not paused."""
