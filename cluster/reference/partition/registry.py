"""A broker's own replicas, and the known states of all partitions."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from uuid import UUID

from kio.schema.errors import ErrorCode

from cluster.reference.partition.partition import Partition
from cluster.reference.partition.produced import RefusedError
from cluster.reference.partition.state import PartitionState
from cluster.reference.settings import Settings


@dataclass(slots=True, eq=False, kw_only=True)
class Registry:
    """Data shared by all parts of a broker's replicas.

    Attributes:
        me: The broker's id.
        settings: The node's settings.
        partitions: The broker's own replicas, by folder.
        known: The controller's last decision about each partition of the cluster, by folder.
        eligible: The brokers that may be in an ISR, with their epochs (KIP-841, KIP-903).
    """

    me: int
    settings: Settings
    partitions: dict[str, Partition] = field(default_factory=dict)
    known: dict[str, PartitionState] = field(default_factory=dict)
    eligible: Mapping[int, int] = field(default_factory=dict)

    def at(self, topic: str, partition: int, topic_id: UUID | None = None) -> Partition:
        """Return one of the broker's own replicas.

        Raises:
            RefusedError: The replica is not here, or another topic has this name now (KIP-516).
        """
        folder = f"{topic}-{partition}"
        found = self.partitions.get(folder)
        if found is None:
            known = folder in self.known
            raise RefusedError(
                ErrorCode.not_leader_or_follower if known else ErrorCode.unknown_topic_or_partition
            )
        known_id = found.state.topic_id
        if topic_id is not None and topic_id is not known_id and topic_id != known_id:
            raise RefusedError(ErrorCode.inconsistent_topic_id)
        return found

    def leader_of(self, topic: str, partition: int) -> tuple[int, int]:
        """Return the leader of a partition and the leader epoch; both -1 if unknown (KIP-951)."""
        known = self.known.get(f"{topic}-{partition}")
        return (known.leader, known.leader_epoch) if known else (-1, -1)

    def led(self) -> Iterator[Partition]:
        """Yield the replicas on this broker that are leaders."""
        return (each for each in list(self.partitions.values()) if each.leading is not None)
