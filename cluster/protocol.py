"""What a machine and a cluster can do, as small protocols.

Abilities that not every host has (`CanPartition`) are protocols of their own: a nemesis asks for
them with `isinstance`, and a host need not lie.
"""

import signal
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path, PurePosixPath
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
        pid: Its number on its machine; it leads a process group of its own.
        start_ticks: When it began: field 22 of `/proc/PID/stat`, or without `/proc` microseconds.
        machine: The node whose numbers these are; empty: those of the controlling machine.
    """

    pid: int
    start_ticks: int
    machine: str = ""


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

    def send_signal(self, process: ProcessId, number: signal.Signals) -> bool:
        """Send a signal to the group that a process leads; False if it has ended already."""

    def state_of(self, process: ProcessId) -> str | None:
        """Return the letter of its state, as in `/proc/PID/stat`; None: there is none any more."""

    def disk(self, node: str) -> "Disk":
        """Return the files of a node's folder (`RunPaths.node`), wherever they are."""

    def down(self) -> None:
        """End every process and remove everything that `up` made. Idempotent."""


class Disk(Protocol):
    """The files of one node's folder. Paths are relative to it; what fails raises `OSError`."""

    def files(self, pattern: str = "**/*") -> list[PurePosixPath]:
        """Return the files, no folders, whose path matches (as `Path.glob`), in order."""

    def size(self, path: PurePosixPath | str) -> int:
        """Return the size of a file in bytes."""

    def read(self, path: PurePosixPath | str, *, at: int = 0, size: int = -1) -> bytes:
        """Return bytes of a file, from an offset on; -1: to its end."""

    def write(self, path: PurePosixPath | str, data: bytes, *, at: int = 0) -> None:
        """Write bytes into a file that may exist; what lies around them stays."""

    def truncate(self, path: PurePosixPath | str, size: int) -> None:
        """Cut a file to its first bytes."""

    def remove(self, path: PurePosixPath | str) -> None:
        """Remove a file, or a folder with all that is in it. Idempotent."""


@runtime_checkable
class HasFiles(Protocol):
    """Hosts whose nodes keep their files elsewhere: on other machines, on disks of their own.

    A path of a `Command` that lies in the node's folder or among the software is the local one;
    `spawn` turns it into the machine's own.
    """

    def provide(self, node: str, software: Sequence[Path]) -> None:
        """Bring the node's folder, as it was prepared here, and files of software to a machine."""

    def fetch(self, node: str) -> None:
        """Bring the node's folder back here, as far as the machine answers. Idempotent."""


@runtime_checkable
class HasSoftware(HasFiles, Protocol):
    """Hosts that do not share this machine's Java either."""

    def java(self, node: str) -> Path:
        """Return the program `java` of a machine; raises `UserError` if it has none."""


class Ability(StrEnum):
    """What some hosts can do and others cannot; faults that need it are offered there only."""

    CUT = "cut"
    """Drop what travels over a link (`CanPartition`)."""
    CUT_CLIENTS = "cut-clients"
    """Drop what travels between `CLIENTS` and a node."""
    SHAPE = "shape"
    """Delay, lose, double and reorder what travels over a link (`CanShape`)."""
    DISK = "disk"
    """Fill the disk of a node, and make it read-only (`CanLimitDisk`)."""
    CLOCK = "clock"
    """Have a broker see another time (`CanShiftClock`)."""


@runtime_checkable
class CanAudit(Protocol):
    """Hosts that can say what of a run is on them, or was changed by it."""

    def traces(self) -> Mapping[str, str]:
        """Return what is there now, by what it is: `{"n1: nft table logquake": "2 chains"}`.

        Asked before `up` and after `down`: a difference means that something was left behind.
        """


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


CLIENTS = "clients"
"""In a link: the machine of the harness and of all clients."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Quality:
    """What a link does to packets. All faults of 0: nothing.

    Attributes:
        delay_ms, jitter_ms: Each packet is late by `delay_ms`, give or take up to `jitter_ms`.
        loss, duplicate, reorder: Shares of packets, 0 to 1, that are lost, sent twice, held back
            until a later one has passed.
        rate_kbit: At most so many kilobits a second; 0: no limit.
        seed: Of the draws.
    """

    delay_ms: float = 0
    jitter_ms: float = 0
    loss: float = 0
    duplicate: float = 0
    reorder: float = 0
    rate_kbit: float = 0
    seed: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """What became of a series of numbered datagrams of our own over one directed link and back.

    Attributes:
        sent: How many were sent.
        arrived: How many different ones arrived at the receiver.
        copies: How many arrived once more.
        overtaken: How many arrived behind one that was sent later.
        round_trip_ms: Of each that came back, in order of sending.
        lasted_s: From the first arrival to the last, by the receiver's clock.
    """

    sent: int
    arrived: int
    copies: int
    overtaken: int
    round_trip_ms: tuple[float, ...]
    lasted_s: float


@runtime_checkable
class CanShape(Protocol):
    """Hosts whose links can be made bad, link by link and direction by direction."""

    def shape(self, shape_id: str, links: Iterable[Link], quality: Quality) -> None:
        """Make links bad for what the first node sends to the second.

        Raises `ClusterError` if another shape has one of the links: two do not add up.
        """

    def unshape(self, shape_id: str) -> frozenset[str]:
        """Undo one shape, and no other; return the nodes where it had ended before. Idempotent."""

    def measure(
        self, links: Iterable[Link], *, count: int = 50, size: int = 64, interval_s: float = 0.005
    ) -> Mapping[Link, Measured]:
        """Send a series of datagrams of `size` bytes over each link; the receiver answers each."""


@runtime_checkable
class TellsRoom(Protocol):
    """Hosts whose nodes write to disks that are not this machine's."""

    def room(self) -> Mapping[str, int]:
        """Return how many bytes are left for each node, as far as is known; without waiting."""


@runtime_checkable
class CanLimitDisk(Protocol):
    """Hosts whose nodes keep their data on a file system of their own, of limited size."""

    def fill_disk(self, node: str) -> int:
        """Take all the room that is left on a node's disk; return how many bytes that were."""

    def empty_disk(self, node: str) -> None:
        """Give the room back. Idempotent."""

    def lock_disk(self, node: str) -> None:
        """Make a node's disk read-only; nobody may have a file of it open for writing."""

    def unlock_disk(self, node: str) -> None:
        """Make it writable again. Idempotent."""

    def try_disk(self, node: str) -> str:
        """Write a page to a node's disk; return the name of the error, `ENOSPC`; empty: none."""


@runtime_checkable
class CanShiftClock(Protocol):
    """Hosts whose brokers may see another wall-clock time than the machine."""

    def clock_environment(self, node: str) -> Mapping[str, str]:
        """Return what a broker must be started with so that its clock can be shifted later."""

    def set_clock(self, node: str, *, offset_s: float, rate: float = 1.0) -> None:
        """Have a node's broker see the time shifted, and pass at another rate from now on."""

    def reset_clock(self, node: str) -> None:
        """Have it see the true time again. Idempotent."""

    def clock_offset_s(self, node: str) -> float:
        """Return by how much what a broker would see now differs from the true time."""


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


class CoordinatorKind(StrEnum):
    """What a coordinator coordinates."""

    GROUP = "group"
    TRANSACTION = "transaction"


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
class CanPause(Protocol):
    """Clusters whose broker processes can be stopped and continued."""

    def pause_node(self, node: str) -> None:
        """SIGSTOP the node's broker."""

    def resume_node(self, node: str) -> None:
        """SIGCONT the node's broker. Idempotent."""
