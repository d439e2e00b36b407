"""What the controller decided about a partition, as a broker's replica of it is told."""

from dataclasses import dataclass, field
from uuid import UUID

from cluster.reference.settings import TopicSettings


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionState:
    """Where a partition is, and who leads it.

    Attributes:
        leader: A broker's id; -1: none.
        leader_epoch: Rises with every election.
        partition_epoch: Rises with every change, of the ISR too (KIP-497).
        replicas: Brokers in the order of assignment.
        isr: The committed in-sync replicas.
        settings: The topic's.
        adding_replicas, removing_replicas: Of a reassignment (KIP-455).
        leader_recovery_state: 1 after an unclean election, until the leader has recovered.
    """

    topic: str
    topic_id: UUID
    partition: int
    leader: int
    leader_epoch: int
    partition_epoch: int
    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    settings: TopicSettings = field(default_factory=TopicSettings)
    adding_replicas: tuple[int, ...] = ()
    removing_replicas: tuple[int, ...] = ()
    leader_recovery_state: int = 0

    @property
    def folder(self) -> str:
        """The log's folder, `TOPIC-PARTITION`."""
        return f"{self.topic}-{self.partition}"
