"""Create, delete and examine topics. Each call is one request to one broker, without retries.

Some of the brokers may be down.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from cluster.protocol.brokers import PartitionState


@dataclass(frozen=True, slots=True, kw_only=True)
class ToldTopic:
    """A topic as one broker reports it.

    Attributes:
        topic_id: A UUID of 36 characters. A topic that is created again gets another id.
        partitions: The topic's partitions by number.
    """

    topic_id: str
    partitions: Mapping[int, PartitionState]


class TopicsByHand(Protocol):
    """Requests about topics, each to one broker. A refusal raises `ClusterError`."""

    @property
    def watched(self) -> Collection[str]:
        """The topics about which the observer asks each broker, in addition to the run's topics."""

    def watch(self, name: str) -> None:
        """Let the observer ask each broker about a topic from now on."""

    def create(
        self,
        name: str,
        *,
        assignment: Mapping[int, Sequence[str]],
        configs: Mapping[str, str],
        known: Collection[str],
    ) -> str:
        """Create a topic and return its id, without waiting for its replicas.

        Args:
            name: The topic's name; no topic of this name may exist.
            assignment: The nodes of each partition's replicas.
            configs: The topic's settings.
            known: The ids of earlier topics with this name.
        """

    def delete(self, name: str, topic_id: str) -> None:
        """Send one broker one request to delete a topic.

        If the broker knows topic ids, a topic of this name that is created later stays.

        Raises:
            ClusterError: The request is refused or not answered. The topic may still be deleted
                later.
        """

    def told_by(self, node: str, name: str) -> ToldTopic | None:
        """Return a topic as a broker knows it; None if the topic is unknown or no answer comes."""

    def end_at(self, node: str, place: tuple[str, int]) -> int | None:
        """Return the high watermark that a broker reports as leader; None if it reports none."""

    def send(self, node: str, place: tuple[str, int], payload: bytes, *, timeout_s: float) -> int:
        """Send a record to the leader once, with acks=all, and return its offset.

        Raises:
            ClusterError: The record was not acknowledged. It may still be stored.
        """


@runtime_checkable
class HasTopicsByHand(Protocol):
    """Clusters with brokers that accept single requests about topics (`TopicsByHand`)."""

    by_hand: TopicsByHand
