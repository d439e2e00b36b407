"""Read the state of a running cluster: query the brokers, and read the files of the nodes."""

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import TypeVar

from cluster.files.batches import read_segment
from cluster.files.checkpoints import leader_epochs, offset_checkpoint, quorum_state
from cluster.files.damage import DamagedFileError
from cluster.files.metadata import METADATA_TOPIC
from cluster.kafka.asking import Asker, Belief
from cluster.kafka.wire import WireError
from cluster.protocol import Disk, Hosts
from cluster.systems.system import Deployment
from harness.scenarios.protocol import FilesSight, PartitionSight, QuorumSight, ReplicaSight
from harness.scenarios.tails import Tails
from nemesis.brokers import GONE
from results.record.nodes import node_id

T = TypeVar("T")
Place = tuple[str, int]
HIGH_WATERMARKS = "replication-offset-checkpoint"
RECOVERY_POINTS = "recovery-point-offset-checkpoint"
EPOCHS = "leader-epoch-checkpoint"
QUORUM_STATE = "quorum-state"


def node_named(number: int | None) -> str | None:
    """Return the node name for a broker id or controller id; None if the id is None or -1."""
    return None if number is None or number < 0 else f"n{number}"


def partition_folder(place: Place) -> str:
    """Return the name of a partition's folder."""
    return f"{place[0]}-{place[1]}"


@dataclass(slots=True, kw_only=True)
class ClusterSight:
    """An implementation of `harness.scenarios.protocol.Sight`.

    Attributes:
        cluster: The brokers.
        hosts: The nodes' machines, with their files.
        asker: The object that asks each broker directly.
        place: The scenario's partition.
        of_quorum: Whether to read the metadata log's files.
        tails: The nodes' logs.
    """

    cluster: Deployment
    hosts: Hosts
    asker: Asker
    place: Place
    of_quorum: bool
    tails: Tails

    def partition(self) -> PartitionSight | None:
        """Read the partition's state from the cluster's metadata."""
        view = self.cluster.view()
        state = view.partitions.get(self.place) if view else None
        if view is None or state is None:
            return None
        return PartitionSight(
            leader=state.leader,
            leader_epoch=state.leader_epoch,
            isr=tuple(sorted(state.isr, key=node_id)),
            controller=view.controller,
            registered=view.registered,
        )

    def replica(self, node: str) -> ReplicaSight | None:
        """Ask a broker about its own replica."""
        with suppress(WireError):
            told = self.asker.replica(node, self.place)
            return ReplicaSight(
                log_end=told.log_end_offset,
                high_watermark=told.high_watermark,
                last_stable_offset=told.last_stable_offset,
            )
        return None

    def files(self, node: str) -> FilesSight | None:
        """Read a replica's files, even while its broker writes them."""
        place, disk = self.log_place, self.hosts.disk(node)
        folder = f"data/{partition_folder(place)}"
        if not disk.files(f"{folder}/*"):
            return None
        marks = _parsed(disk, f"data/{HIGH_WATERMARKS}", offset_checkpoint) or {}
        points = _parsed(disk, f"data/{RECOVERY_POINTS}", offset_checkpoint) or {}
        epochs = _parsed(disk, f"{folder}/{EPOCHS}", leader_epochs)
        return FilesSight(
            high_watermark=marks.get(place),
            recovery_point=points.get(place),
            epochs=None
            if epochs is None
            else tuple((each.epoch, each.start_offset) for each in epochs),
            log_end=_log_end(disk, folder),
        )

    def belief(self, node: str) -> tuple[str | None, int | None] | None:
        """Ask a broker for the partition's leader and leader epoch."""
        said = self.believed(node)
        return None if said is None else (node_named(said.leader), said.leader_epoch)

    def quorum(self, node: str) -> QuorumSight | None:
        """Ask a node about the controllers' quorum."""
        with suppress(WireError):
            told = self.asker.quorum(node)
            if told is not None:
                ends = {**told.observers, **told.voters}
                end = ends.get(node_id(node), -1)
                return QuorumSight(
                    leader=node_named(told.leader),
                    epoch=told.leader_epoch,
                    high_watermark=told.high_watermark,
                    log_end=end if end >= 0 else None,
                )
        return None

    def quorum_file(self, node: str) -> QuorumSight | None:
        """Read a node's `quorum-state` file."""
        file = f"data/{partition_folder((METADATA_TOPIC, 0))}/{QUORUM_STATE}"
        state = _parsed(self.hosts.disk(node), file, quorum_state)
        if state is None:
            return None
        return QuorumSight(
            leader=node_named(state.leader),
            epoch=state.epoch,
            voted_for=node_named(state.voted_for),
        )

    def lines(self, node: str, pattern: str) -> Sequence[str]:
        """Return the lines that a node has logged in this step and that match a regex."""
        return [line.text for line in self.tails.fresh(node, pattern)]

    def running(self, node: str) -> bool:
        """Return whether a node's process exists."""
        process = self.cluster.process(node)
        return process is not None and self.hosts.state_of(process) not in GONE

    def believed(self, node: str) -> Belief | None:
        """Return the metadata of the scenario's partition, as one broker reports it."""
        with suppress(WireError):
            return self.asker.belief(node, self.place)
        return None

    @property
    def log_place(self) -> Place:
        """The partition to read: the scenario's partition, or the partition of the metadata log."""
        return (METADATA_TOPIC, 0) if self.of_quorum else self.place


def _parsed(disk: Disk, path: str, reader: Callable[[str], T]) -> T | None:
    """Return the parsed content of a small file, or None if the file is missing or incomplete."""
    with suppress(OSError, UnicodeDecodeError, DamagedFileError):
        return reader(disk.read(path).decode("utf-8"))
    return None


def _log_end(disk: Disk, folder: str) -> int:
    """Return the offset after the last whole batch of a partition's segments."""
    end = 0
    for path in (each for each in disk.files(f"{folder}/*.log") if each.stem.isdecimal()):
        end = max(end, int(path.stem))
        with suppress(OSError, DamagedFileError):
            batches = read_segment(disk.read(path)).batches
            end = max(end, batches[-1].end_offset if batches else 0)
    return end
