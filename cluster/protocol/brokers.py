"""What a cluster of brokers tells of itself, and what can be done to it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol, runtime_checkable

from cluster.protocol.machines import ProcessId


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
        controller_epoch: In which it leads; -1: unknown.
        partitions: By (topic, partition).
    """

    asked: str
    registered: frozenset[str]
    controller: str | None
    partitions: Mapping[tuple[str, int], PartitionState]
    controller_epoch: int = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class Endpoint:
    """Where a node listens.

    Attributes:
        host: Address that the other nodes and the clients reach.
        broker_port: For clients and other brokers; of a controller of its own, where it listens.
        controller_port: For the controllers' quorum; 0 if the node is not in it.
    """

    host: str
    broker_port: int
    controller_port: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Ended:
    """A process that ended, or stands still, though nobody of ours stopped, killed or paused it.

    Attributes:
        node: Whose.
        incarnation: Which of its starts.
        code: Its exit code, or minus the signal that ended it; None if nobody saw its end.
        stopped: It did not end, but was stopped (SIGSTOP).
        told: It was told to stop (SIGTERM), and ended with a code that says that it failed.
    """

    node: str
    incarnation: int
    code: int | None = None
    stopped: bool = False
    told: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionSummary:
    """What is known of a partition now, from all brokers' last answers.

    Attributes:
        leader: Node that leads in the highest epoch that any broker's metadata name; None: nobody.
        leader_epoch: That epoch.
        isr: Nodes of the ISR in it.
        high_watermark: The last that a leader of the highest epoch announced; None: not yet any.
    """

    leader: str | None
    leader_epoch: int
    isr: tuple[str, ...]
    high_watermark: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Summary:
    """What is known of the cluster now: for progress, and for triggers of faults.

    Attributes:
        partitions: By (topic, partition).
        answered_ns: When each node answered last; nodes that never did are absent.
    """

    partitions: Mapping[tuple[str, int], PartitionSummary]
    answered_ns: Mapping[str, int]


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
class HasKeeper(Protocol):
    """Clusters that may have a keeper of their metadata outside, hit and asked for like a node."""

    keeper: str | None
    """Its name; None: there is none."""


class CoordinatorKind(StrEnum):
    """What a coordinator coordinates."""

    GROUP = "group"
    TRANSACTION = "transaction"
    SHARE = "share"
    """What members of a share group were delivered (KIP-932)."""


@runtime_checkable
class CanFindCoordinators(Protocol):
    """Clusters in which one node coordinates a consumer group, or a transactional id."""

    def coordinator(self, kind: CoordinatorKind, key: str) -> str | None:
        """Return who coordinates a group or a transactional id now; None if nobody is known."""


@runtime_checkable
class CanMoveLeaders(Protocol):
    """Clusters that take orders on who leads a partition; what is refused is a `ClusterError`."""

    def elect_preferred(self, place: tuple[str, int]) -> None:
        """Have the first replica of a partition's assignment elected."""

    def elect_unclean(self, place: tuple[str, int]) -> None:
        """Have any replica that lives elected, if no member of the ISR does."""

    def reassign(self, place: tuple[str, int], replicas: Sequence[str]) -> None:
        """Give a partition other replicas, or another order of them."""


@runtime_checkable
class CanMakeTopics(Protocol):
    """Clusters in which topics can be made and deleted; what is refused is a `ClusterError`."""

    def create_topic(
        self, name: str, *, assignment: Mapping[int, Sequence[str]], configs: Mapping[str, str]
    ) -> object:
        """Create a topic with its replicas where they are wanted, and wait for them."""

    def delete_topics(self, names: Sequence[str]) -> None:
        """Delete topics; those that there are not are deleted already."""

    def topics_of(self, node: str) -> frozenset[str] | None:
        """Return the topics that one node believes there are; None if it does not answer."""


@runtime_checkable
class CanTellTime(Protocol):
    """Clusters whose brokers can be made to say what time they take it to be."""

    def clock_error_s(self, node: str) -> float:
        """Return by how much a broker's clock, by its own word, is ahead of ours.

        Raises:
            ClusterError: It does not say.
        """


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
class SharesProcesses(Protocol):
    """Clusters in which one process may play several brokers.

    `process` tells the same one for each of them; to kill, stop, pause, resume or start one of them
    is to do so to all.
    """

    def played_with(self, node: str) -> tuple[str, ...]:
        """Return the nodes that a node's process plays, itself among them."""


@runtime_checkable
class CanExcuse(Protocol):
    """Clusters that tell an end which a fault brought about from one that nobody did."""

    def excuse_end(self, node: str) -> None:
        """Take the end of a node's broker for a fault's, though no signal of ours comes first."""


@runtime_checkable
class ReadsAllAtStart(Protocol):
    """Clusters that may have brokers which read all of their logs as they start.

    Attributes:
        reads_all_at_start: Whether these do. Who was stopped in order, and finds a batch that does
            not match its sum then, does not start.
    """

    reads_all_at_start: bool


@runtime_checkable
class TellsLastWords(Protocol):
    """Clusters that keep what their servers wrote."""

    def complaints(self, node: str, *, life: int = 0) -> list[str]:
        """Return the last lines of a server that report an error, and its very last line.

        Args:
            node: The server's node.
            life: Which start of the server wrote them: 1 is the first start, 0 the last one.
        """


@runtime_checkable
class CountsStarts(Protocol):
    """Clusters that tell one life of a broker from the next."""

    def incarnation(self, node: str) -> int:
        """Return how often the node's broker was started: 1 for the first."""


@runtime_checkable
class CanPause(Protocol):
    """Clusters whose broker processes can be stopped and continued."""

    def pause_node(self, node: str) -> None:
        """SIGSTOP the node's broker."""

    def resume_node(self, node: str) -> None:
        """SIGCONT the node's broker. Idempotent."""
