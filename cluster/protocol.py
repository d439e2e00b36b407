"""What a machine and a cluster can do, as small protocols.

Abilities that not every host has (`CanPartition`) are protocols of their own: a nemesis asks for
them with `isinstance`, and a host need not lie.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol, runtime_checkable

Link = tuple[str, str]
"""A directed pair of nodes: what the first sends to the second."""


class ClusterError(Exception):
    """Something about the cluster or its hosts failed, in one sentence with the remedy."""


class UserError(ClusterError):
    """What failed is the user's to mend (exit code 254): a wrong version, no Java, a full disk."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessId:
    """A process that cannot be mistaken for a later one with the same number.

    Attributes:
        pid: Its number, as the controlling machine sees it; it leads a process group of its own.
        start_ticks: When it began: field 22 of `/proc/PID/stat`, or without `/proc` microseconds.
    """

    pid: int
    start_ticks: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Command:
    """What a node shall run."""

    argv: Sequence[str]
    log: Path
    """Standard output and error are appended here."""
    cwd: Path
    env: Mapping[str, str] = field(default_factory=dict)
    """Added to the harness's own environment."""


@runtime_checkable
class Hosts(Protocol):
    """The machines of one run, by node name (`n1`, `n2`, ...)."""

    kind: str

    def up(self) -> None:
        """Make the machines. Raises `UserError` if this machine cannot."""

    def address(self, node: str) -> str:
        """Return the address under which the other nodes and the clients reach a node."""

    def spawn(self, node: str, command: Command) -> ProcessId:
        """Start a process on a node; it dies with the hosts, and with the harness."""

    def down(self) -> None:
        """End every process and remove everything that `up` made. Idempotent."""


@runtime_checkable
class CanPartition(Protocol):
    """Hosts whose network can be cut, link by link and direction by direction."""

    def cut(self, cut_id: str, links: Iterable[Link]) -> None:
        """Drop what travels over the links, at the receiver. Cuts of several ids add up."""

    def join(self, cut_id: str) -> None:
        """Undo one cut, and no other. Idempotent."""

    def dropped(self, cut_id: str) -> Mapping[Link, int]:
        """Return how many packets each link of a cut has dropped so far (nft counters)."""

    def probe(self, links: Iterable[Link], timeout_s: float = 0.5) -> Mapping[Link, bool]:
        """Send a datagram of our own over each directed link; tell for each if it arrived."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionState:
    """One partition, as the cluster's own metadata tell it now."""

    topic: str
    partition: int
    leader: str | None
    """A node's name; None: no leader."""
    leader_epoch: int
    replicas: tuple[str, ...]
    isr: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterView:
    """What the cluster says of itself now; pure data, for targets by role and for waits.

    Attributes:
        asked: The node that answered.
        registered: Nodes that are registered and not fenced, as that node believes.
        controller: The node that leads the controllers' quorum, None if there is none known.
        partitions: By (topic, partition).
    """

    asked: str
    registered: frozenset[str]
    controller: str | None
    partitions: Mapping[tuple[str, int], PartitionState]


@runtime_checkable
class Cluster(Protocol):
    """Brokers on hosts. Node names are the hosts'."""

    nodes: Sequence[str]

    def start(self) -> None:
        """Start all nodes; return when each is registered and answers."""

    def start_node(self, node: str) -> ProcessId:
        """Start one node's broker; return as soon as the process runs."""

    def stop_node(self, node: str, timeout_s: float) -> bool:
        """SIGTERM; SIGKILL after the limit. Return whether it ended by itself."""

    def process(self, node: str) -> ProcessId | None:
        """Return the broker process that was started last on a node, None before the first."""

    def view(self) -> ClusterView | None:
        """Ask the nodes, and believe the one nearest to the truth; None if nobody answers."""

    def bootstrap(self) -> str:
        """Return `host:port,...` for clients."""


@runtime_checkable
class HasControllers(Protocol):
    """Clusters whose metadata are kept by machines beside their nodes."""

    controllers: Sequence[str]
    """They are started, hit and asked for like nodes; none if the nodes keep the metadata."""


@runtime_checkable
class CanTellBack(Protocol):
    """Clusters that know a registration since a node's last start from one before it."""

    def is_back(self, node: str) -> bool:
        """Tell whether a node is registered anew since its start, and serves."""


@runtime_checkable
class CanKill(Protocol):
    """Clusters whose broker processes can be killed without warning."""

    def kill_node(self, node: str) -> None:
        """SIGKILL the node's broker."""


@runtime_checkable
class CanPause(Protocol):
    """Clusters whose broker processes can be stopped and continued."""

    def pause_node(self, node: str) -> None:
        """SIGSTOP the node's broker."""

    def resume_node(self, node: str) -> None:
        """SIGCONT the node's broker. Idempotent."""
