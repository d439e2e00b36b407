"""Protocols and data types for a cluster of brokers: the reported state, and possible actions."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol, runtime_checkable

from cluster.protocol.machines import ProcessId


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionState:
    """The state of one partition now, according to the cluster's own metadata."""

    topic: str
    partition: int
    leader: str | None
    """The name of the leader's node; None if there is no leader."""
    leader_epoch: int
    replicas: tuple[str, ...]
    isr: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterView:
    """The cluster's own report about its present state.

    Faults use this report to choose targets, and to wait.

    Attributes:
        asked: The node that answered.
        registered: The nodes that are registered and not fenced, according to that node.
        controller: The node that leads the controllers' quorum; None if unknown.
        controller_epoch: The epoch in which this node leads; -1 if unknown.
        partitions: The state of each partition by (topic, partition).
    """

    asked: str
    registered: frozenset[str]
    controller: str | None
    partitions: Mapping[tuple[str, int], PartitionState]
    controller_epoch: int = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class Endpoint:
    """The addresses at which a node listens.

    Attributes:
        host: The address for the other nodes and the clients.
        broker_port: The port for clients and brokers. For a separate controller, its own port.
        controller_port: The port for the controllers' quorum; 0 if the node is not in the quorum.
    """

    host: str
    broker_port: int
    controller_port: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Ended:
    """A process that ended or stopped, though Logquake did not kill, stop or pause it.

    Attributes:
        node: The node of the process.
        incarnation: Which start on that node created the process; the first start is 1.
        code: The exit code, or the negated number of the signal that ended the process; None if the
            end was not observed.
        stopped: Whether the process still exists, but is stopped (SIGSTOP).
        told: Whether Logquake asked the process to stop (SIGTERM), and the process ended with an
            error code.
    """

    node: str
    incarnation: int
    code: int | None = None
    stopped: bool = False
    told: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionSummary:
    """The known state of a partition, from the last responses of all brokers.

    Attributes:
        leader: The leader in the highest epoch that any broker's metadata contain; None if this
            epoch has no leader.
        leader_epoch: That highest epoch.
        isr: The nodes of the ISR in that epoch.
        high_watermark: The last high watermark that a leader of that epoch reported; None if not
            reported.
    """

    leader: str | None
    leader_epoch: int
    isr: tuple[str, ...]
    high_watermark: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Summary:
    """The known state of the cluster; used to show progress and to trigger faults.

    Attributes:
        partitions: A summary of each partition by (topic, partition).
        answered_ns: The time of each node's last response. Nodes that never answered are absent.
    """

    partitions: Mapping[tuple[str, int], PartitionSummary]
    answered_ns: Mapping[str, int]


@runtime_checkable
class Cluster(Protocol):
    """A cluster of brokers on hosts. Nodes have the names of their hosts."""

    nodes: Sequence[str]

    def start(self) -> None:
        """Start all nodes; return when each of them is registered and answers."""

    def start_node(self, node: str) -> ProcessId:
        """Start one node's broker; return as soon as its process runs."""

    def stop_node(self, node: str, timeout_s: float) -> bool:
        """Send SIGTERM. If the broker still runs after the timeout, send SIGKILL.

        Return whether the broker ended by itself.
        """

    def process(self, node: str) -> ProcessId | None:
        """Return the broker process last started on a node; None before the first start."""

    def view(self) -> ClusterView | None:
        """Ask all nodes and return the most current answer; None if no node answers."""

    def bootstrap(self) -> str:
        """Return the bootstrap servers `host:port,...` for clients."""


@runtime_checkable
class HasControllers(Protocol):
    """Clusters with controllers on separate machines, in addition to the brokers' nodes."""

    controllers: Sequence[str]
    """The names of the controllers.

    Logquake starts and queries controllers like other nodes, and faults can target them. The
    sequence is empty if the nodes themselves keep the metadata.
    """


@runtime_checkable
class HasKeeper(Protocol):
    """Clusters whose metadata may be in a separate process. This process is treated like a node."""

    keeper: str | None
    """The name of that process; None if there is none."""


class CoordinatorKind(StrEnum):
    """The kinds of coordinators."""

    GROUP = "group"
    TRANSACTION = "transaction"
    SHARE = "share"
    """Coordinates the delivery state of a share group (KIP-932)."""


@runtime_checkable
class CanFindCoordinators(Protocol):
    """Clusters in which one node coordinates a consumer group or a transactional id."""

    def coordinator(self, kind: CoordinatorKind, key: str) -> str | None:
        """Return the node that coordinates a group or a transactional id now; None if unknown."""


@runtime_checkable
class CanMoveLeaders(Protocol):
    """Clusters that can elect leaders and move replicas on request.

    Refusals raise `ClusterError`.
    """

    def elect_preferred(self, place: tuple[str, int]) -> None:
        """Elect the preferred leader: the first replica of a partition's assignment."""

    def elect_unclean(self, place: tuple[str, int]) -> None:
        """Elect any live replica as leader if no member of the ISR is alive."""

    def reassign(self, place: tuple[str, int], replicas: Sequence[str]) -> None:
        """Move a partition to other replicas, or change the order of its replicas."""


@runtime_checkable
class CanMakeTopics(Protocol):
    """Clusters in which topics can be created and deleted; refusals raise `ClusterError`."""

    def create_topic(
        self, name: str, *, assignment: Mapping[int, Sequence[str]], configs: Mapping[str, str]
    ) -> object:
        """Create a topic with an assignment of replicas, and wait until the replicas exist."""

    def delete_topics(self, names: Sequence[str]) -> None:
        """Delete topics; ignore topics that do not exist."""

    def topics_of(self, node: str) -> frozenset[str] | None:
        """Return the topics that one node knows; None if the node does not answer."""


@runtime_checkable
class CanTellTime(Protocol):
    """Clusters with brokers that can report their current time."""

    def clock_error_s(self, node: str) -> float:
        """Return the seconds by which a broker's clock is ahead of the harness's clock.

        The broker reports its time itself.

        Raises:
            ClusterError: The broker does not report its time.
        """


@runtime_checkable
class CanTellBack(Protocol):
    """Clusters that can report whether a node has registered since its last start."""

    def is_back(self, node: str) -> bool:
        """Return whether a node has registered since its start and serves requests."""


@runtime_checkable
class CanKill(Protocol):
    """Clusters in which broker processes can be killed without warning."""

    def kill_node(self, node: str) -> None:
        """SIGKILL the node's broker."""


@runtime_checkable
class SharesProcesses(Protocol):
    """Clusters in which one process may run several brokers.

    `process` returns the same process for each of these brokers. If you kill, stop, pause, resume
    or start one of these brokers, this happens to all of them.
    """

    def played_with(self, node: str) -> tuple[str, ...]:
        """Return all nodes whose brokers run in the same process as this node's broker."""


@runtime_checkable
class CanExcuse(Protocol):
    """Clusters that distinguish between broker ends that a fault caused and unexplained ends."""

    def excuse_end(self, node: str) -> None:
        """Attribute the next end of a node's broker to a fault, even if Logquake sent no signal."""


@runtime_checkable
class ReadsAllAtStart(Protocol):
    """Clusters that report whether brokers read all of their logs at each start.

    Attributes:
        reads_all_at_start: Whether the brokers read all logs at each start. If so, a broker that
            was stopped cleanly does not start if a record batch has a wrong checksum.
    """

    reads_all_at_start: bool


@runtime_checkable
class TellsLastWords(Protocol):
    """Clusters that keep the output of their servers."""

    def complaints(self, node: str, *, life: int = 0) -> list[str]:
        """Return the last error lines of a server's log, and the log's last line.

        Args:
            node: The server's node.
            life: The start of the server whose lines are wanted: 1 for the first start, 0 for the
                last.
        """


@runtime_checkable
class CountsStarts(Protocol):
    """Clusters that number the starts of each broker."""

    def incarnation(self, node: str) -> int:
        """Return the number of starts of the node's broker; 1 after the first start."""


@runtime_checkable
class CanPause(Protocol):
    """Clusters in which broker processes can be paused and resumed."""

    def pause_node(self, node: str) -> None:
        """Pause the node's broker with SIGSTOP."""

    def resume_node(self, node: str) -> None:
        """Resume the node's broker with SIGCONT. Idempotent."""
