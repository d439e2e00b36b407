"""Topics by single requests to single brokers, some of which may be down: nothing is retried."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from cluster.protocol.brokers import PartitionState


@dataclass(frozen=True, slots=True, kw_only=True)
class ToldTopic:
    """A topic as one broker reports it.

    Attributes:
        topic_id: A UUID's 36 characters; a topic that is created again gets another one.
        partitions: By number.
    """

    topic_id: str
    partitions: Mapping[int, PartitionState]


class TopicsByHand(Protocol):
    """Requests to single brokers about topics; a refusal is a `ClusterError`."""

    @property
    def watched(self) -> Collection[str]:
        """The topics beside the run's own that the observer asks each broker about."""

    def watch(self, name: str) -> None:
        """Have the observer ask each broker about a topic, from now on."""

    def create(
        self,
        name: str,
        *,
        assignment: Mapping[int, Sequence[str]],
        configs: Mapping[str, str],
        known: Collection[str],
    ) -> str:
        """Create a topic, wait for none of its replicas, and return its id.

        Args:
            name: Its name; none of that name is there.
            assignment: The nodes of each partition.
            configs: Its settings.
            known: The ids of topics that had this name before.
        """

    def delete(self, name: str) -> None:
        """Delete a topic: one broker is asked, once.

        Raises:
            ClusterError: It is refused, or no answer comes: the topic may be deleted later.
        """

    def told_by(self, node: str, name: str) -> ToldTopic | None:
        """Return a topic as a broker knows it; None if it knows none, or does not answer."""

    def end_at(self, node: str, place: tuple[str, int]) -> int | None:
        """Return the high watermark that a broker reports as leader; None if it reports none."""

    def send(self, node: str, place: tuple[str, int], payload: bytes, *, timeout_s: float) -> int:
        """Send a record to the leader with acks=all, once, and return its offset.

        Raises:
            ClusterError: It was not acknowledged; it may be stored all the same.
        """


@runtime_checkable
class HasTopicsByHand(Protocol):
    """Clusters whose brokers take such requests."""

    by_hand: TopicsByHand
