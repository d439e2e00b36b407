"""The controller's decision about a partition, in the form that a broker's replica uses."""

from dataclasses import dataclass, field
from uuid import UUID

from cluster.reference.settings import TopicSettings


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionState:
    """The replicas, ISR and leader of a partition.

    Attributes:
        leader: The leader's broker id; -1: none.
        leader_epoch: A number that grows with each election.
        partition_epoch: A number that grows with each change, including changes of the ISR
            (KIP-497).
        replicas: The brokers in the order of assignment.
        isr: The committed in-sync replicas.
        settings: The topic's settings.
        adding_replicas, removing_replicas: The replicas that a reassignment changes (KIP-455).
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
