"""The consumer groups of a node: coordinators, `__consumer_offsets`, and commits in progress."""

from collections.abc import Callable, Iterable, Iterator
from typing import Protocol

from kio.schema.errors import ErrorCode

from cluster.coordinators import key_partition
from cluster.files.group_offsets import OFFSETS_TOPIC
from cluster.reference.broker.coordinator import (
    Commit,
    GroupCoordinator,
    GroupRequest,
)
from cluster.reference.broker.offsets import MOST_NAME_BYTES
from cluster.reference.broker.views import address_of
from cluster.reference.controller.image import MetadataImage
from cluster.reference.machine import Asker, Effect, Nanoseconds, Reply
from cluster.reference.messages.clients import (
    Coordinator,
    FindCoordinatorRequest,
    FindCoordinatorResponse,
    OffsetCommitRequest,
)
from cluster.reference.messages.control import CreatableTopic, CreateTopicsRequest
from cluster.reference.messages.data import ProduceResponse
from cluster.reference.settings import Settings

_GROUP = 0
_NOT_HERE = "this cluster does not support transactions"


class Replica(Protocol):
    """Access to a partition of `__consumer_offsets` that this broker leads."""

    def epoch(self, partition: int) -> int | None:
        """Return the epoch in which this broker leads the partition; None if it does not lead."""

    def batches(self, partition: int) -> bytes:
        """Return the batches of the partition's whole log."""


class Groups:
    """Coordinates the consumer groups of a node.

    Args:
        node: The node's id.
        settings: The node's settings.
        image: Returns the cluster metadata.
        replica: Gives access to the partitions that this broker leads.
        ask: Sends the controller a request whose response is not needed.
    """

    def __init__(
        self,
        node: int,
        settings: Settings,
        *,
        image: Callable[[], MetadataImage],
        replica: Replica,
        ask: Callable[[object], Iterator[Effect]],
    ) -> None:
        self._settings, self._image, self._replica, self._ask = settings, image, replica, ask
        self._coordinator = GroupCoordinator(
            node,
            delay_ms=settings.group_initial_rebalance_delay_ms,
            session_ms=(
                settings.group_min_session_timeout_ms,
                settings.group_max_session_timeout_ms,
            ),
            bugs=settings.bugs,
        )
        self._epochs: dict[int, int] = {}

    def note(self, broker_epoch: int) -> Iterator[Effect]:
        """Start or stop coordinating groups after leaders of `__consumer_offsets` have changed."""
        self._coordinator.broker_epoch = broker_epoch
        topic = self._image().topics.get(OFFSETS_TOPIC)
        count = len(topic.partitions) if topic else 0
        self._coordinator.partitions = count
        for partition in {**dict.fromkeys(range(count)), **dict.fromkeys(self._epochs)}:
            epoch = self._replica.epoch(partition)
            if epoch == self._epochs.get(partition):
                continue
            yield from self._coordinator.stop_leading(partition)
            self._epochs.pop(partition, None)
            if epoch is not None:
                self._epochs[partition] = epoch
                self._coordinator.lead(partition, self._replica.batches(partition))

    def take(self, asker: Asker, asked: GroupRequest) -> Iterator[Effect]:
        """Handle a member's request, except commits."""
        yield from self._coordinator.take(asker, asked)

    def commit(self, now: Nanoseconds, asker: Asker, asked: OffsetCommitRequest) -> Commit | Reply:
        """Return a commit whose records must be produced, or a response that refuses it."""
        commit = self._coordinator.commit(now, asker, asked, known=self._knows)
        if isinstance(commit, Commit):
            return commit
        return Reply(asker=asker, message=commit)

    def committed(self, commit: Commit, answer: object | None) -> Reply:
        """Return the response to a commit. `answer` is the response to its produce request."""
        error = ErrorCode.request_timed_out
        if isinstance(answer, ProduceResponse):
            error = answer.partitions[0].error_code
        return self._coordinator.committed(commit, error)

    def fired(self, timer: str) -> Iterator[Effect]:
        """Handle a timer of a group."""
        yield from self._coordinator.fired(timer)

    def find(self, asker: Asker, asked: FindCoordinatorRequest) -> Iterator[Effect]:
        """Return the coordinators of groups.

        The first such request creates `__consumer_offsets`.
        """
        if asked.key_type == _GROUP and OFFSETS_TOPIC not in self._image().topics:
            yield from self._ask(self._offsets_topic())
        keys: Iterable[str] = asked.coordinator_keys or (asked.key,)
        found = tuple(self._found(key, asked.key_type) for key in keys)
        first = found[0]
        answer = FindCoordinatorResponse(
            error_code=first.error_code,
            error_message=first.error_message,
            node_id=first.node_id,
            host=first.host,
            port=first.port,
            coordinators=found,
        )
        yield Reply(asker=asker, message=answer)

    def _knows(self, topic: str, partition: int) -> bool:
        found = self._image().topics.get(topic)
        return found is not None and partition in found.partitions

    def _found(self, key: str, key_type: int) -> Coordinator:
        if key_type != _GROUP:
            return _nobody(key, ErrorCode.invalid_request, _NOT_HERE)
        if len(key) > MOST_NAME_BYTES:
            return _nobody(key, ErrorCode.invalid_group_id, None)
        image = self._image()
        topic = image.topics.get(OFFSETS_TOPIC)
        broker = None
        if topic is not None:
            partition = topic.partitions.get(key_partition(key, len(topic.partitions)))
            broker = image.brokers.get(partition.leader) if partition is not None else None
        address = address_of(broker) if broker is not None and not broker.fenced else None
        if broker is None or address is None:
            return _nobody(key, ErrorCode.coordinator_not_available, None)
        return Coordinator(key=key, node_id=broker.broker_id, host=address[0], port=address[1])

    def _offsets_topic(self) -> CreateTopicsRequest:
        topic = CreatableTopic(
            name=OFFSETS_TOPIC,
            num_partitions=self._settings.offsets_topic_num_partitions,
            replication_factor=self._settings.offsets_topic_replication_factor,
        )
        return CreateTopicsRequest(topics=(topic,))


def _nobody(key: str, error: ErrorCode, why: str | None) -> Coordinator:
    return Coordinator(key=key, node_id=-1, host="", port=-1, error_code=error, error_message=why)
