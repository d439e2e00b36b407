"""librdkafka's consumer as a group member."""

import threading
from collections.abc import Mapping, Sequence
from contextlib import suppress

from confluent_kafka import (
    OFFSET_STORED,
    Consumer,
    KafkaError,
    KafkaException,
    TopicPartition,
)

from results.record.plan import Plan
from results.record.terms import Isolation
from workloads.clients.consumer import batch_of
from workloads.clients.failures import error_name
from workloads.clients.settings import is_incremental, member_settings
from workloads.member import Answer, GroupError, Listener
from workloads.protocol import Batch, Key

VANISHING = "vanishing"
"""Name of the threads in which consumers are destroyed."""
_MOST_POLLS, _MOST_RECORDS = 50, 10_000


class GroupConsumer:
    """A confluent-kafka consumer that subscribes. It implements `workloads.member.GroupClient`.

    Args:
        plan: The plan, which decides the client's settings.
        bootstrap: The addresses `host:port,...`.
        client_id: The logical process's name, which brokers log.
        group: The group's id.
        isolation: Whether the consumer gets records of open and aborted transactions.
    """

    def __init__(
        self,
        plan: Plan,
        *,
        bootstrap: str,
        client_id: str,
        group: str,
        isolation: Isolation = Isolation.READ_UNCOMMITTED,
    ) -> None:
        self._isolation = isolation
        settings = member_settings(
            plan, bootstrap=bootstrap, client_id=client_id, group=group, isolation=isolation
        )
        self._headers, self._keys = plan.keeps_headers, plan.keys
        self._incremental = is_incremental(settings)
        self._handle = Consumer({**settings, "on_commit": self._on_commit})
        self._listener: Listener | None = None
        self._membership: object = None
        self._over = False

    def subscribe(self, topics: Sequence[str], listener: Listener) -> None:
        """Join the group.

        Raises:
            GroupError: The client refused.
        """
        self._listener = listener

        def on_assign(_consumer: Consumer, partitions: list[TopicPartition]) -> None:
            # If the listener assigns nothing here, librdkafka's Python client assigns all by
            # itself.
            if not self._over:
                self._membership = self._handle.consumer_group_metadata()
                listener.given(_keys(partitions))

        def on_revoke(_consumer: Consumer, partitions: list[TopicPartition]) -> None:
            if not self._over:
                # A member that gives up only some partitions belongs to the next generation.
                self._membership = self._handle.consumer_group_metadata()
                listener.taken(_keys(partitions))

        def on_lost(_consumer: Consumer, partitions: list[TopicPartition]) -> None:
            if not self._over:
                listener.taken(_keys(partitions))

        try:
            self._handle.subscribe(
                list(topics), on_assign=on_assign, on_revoke=on_revoke, on_lost=on_lost
            )
        except KafkaException as refused:
            raise GroupError(error_name(refused.args[0])) from refused

    def poll(self, limit: int, timeout_s: float) -> Batch:
        """Return the fetched records, and report rebalances to the listener.

        The poll waits up to the timeout for records.
        """
        try:
            messages = self._handle.consume(limit, timeout_s)
        except KafkaException as refused:
            return batch_of([], error=error_name(refused.args[0]), isolation=self._isolation)
        return batch_of(messages, isolation=self._isolation, headers=self._headers, keys=self._keys)

    def assign(self, starts: Mapping[Key, int | None]) -> None:
        """Start to read assigned partitions. A start of None means the committed offset."""
        placed = [
            TopicPartition(*key, OFFSET_STORED if start is None else start)
            for key, start in starts.items()
        ]
        (self._handle.incremental_assign if self._incremental else self._handle.assign)(placed)

    def committed(self, keys: Sequence[Key], timeout_s: float) -> Sequence[Answer]:
        """Return the offsets that the group has committed.

        Raises:
            GroupError: No response came in time.
        """
        asked = [TopicPartition(*key) for key in keys]
        try:
            return _answers(self._handle.committed(asked, timeout=timeout_s))
        except KafkaException as refused:
            raise GroupError(error_name(refused.args[0])) from refused

    def commit(
        self, positions: Mapping[Key, int], *, metadata: str, wait: bool
    ) -> Sequence[Answer]:
        """Commit positions; return the responses if `wait` is set.

        Raises:
            GroupError: The whole commit failed.
        """
        offsets = [TopicPartition(*key, at, metadata=metadata) for key, at in positions.items()]
        try:
            if wait:
                return _answers(self._handle.commit(offsets=offsets, asynchronous=False) or [])
            self._handle.commit(offsets=offsets, asynchronous=True)
        except KafkaException as refused:
            raise GroupError(error_name(refused.args[0])) from refused
        return []

    def seek(self, starts: Mapping[Key, int]) -> None:
        """Continue from other offsets; records fetched before are dropped.

        Raises:
            GroupError: librdkafka refused, perhaps after it moved some partitions.
        """
        try:
            for key, offset in starts.items():
                self._handle.seek(TopicPartition(*key, offset))
        except KafkaException as refused:
            raise GroupError(error_name(refused.args[0])) from refused

    def membership(self) -> object:
        """Return this consumer's group identity, for commits in a transaction (KIP-447).

        The identity comes from the last assignment. This matters if the group has removed the
        consumer. Without the old identity, the consumer would commit without a member id, and
        brokers do not fence such a commit.
        """
        return self._membership

    def close(self) -> None:
        """Leave the group.

        The listener is not called any more. At this point, a request to the group might never end,
        and the Python client would block the whole process.
        """
        self._over = True
        self._handle.close()

    def abandon(self) -> None:
        """End without leaving the group. The group notices this at the session timeout.

        The Python client destroys an unclosed consumer without closing it, so no LeaveGroup is
        sent. If the consumer has an assignment that was not reported yet, the destruction never
        ends, because librdkafka waits in a busy loop for a call of `assign`. So the consumer first
        polls. This happens in a separate thread, because it may hang.
        """
        self._over = True
        last = threading.Thread(target=_tell, args=(self._handle,), name=VANISHING, daemon=True)
        del self._handle  # The thread has the last reference.
        last.start()

    def _on_commit(self, error: KafkaError | None, answers: Sequence[TopicPartition]) -> None:
        if self._listener is not None:
            self._listener.committed(error_name(error) if error else None, _answers(answers))


def _tell(handle: Consumer) -> None:
    """Poll until a consumer has reported all events; drop the records."""
    with suppress(KafkaException):
        for _ in range(_MOST_POLLS):
            if not handle.consume(_MOST_RECORDS, 0):
                return


def _keys(partitions: Sequence[TopicPartition]) -> list[Key]:
    return [(each.topic, each.partition) for each in partitions]


def _answers(answers: Sequence[TopicPartition]) -> list[Answer]:
    return [
        Answer(
            key=(each.topic, each.partition),
            offset=each.offset if each.offset >= 0 else None,
            metadata=each.metadata,
            error=error_name(each.error) if each.error else None,
        )
        for each in answers
    ]
