"""A consumer that belongs to a group: the group gives it partitions, and takes them again."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from confluent_kafka import Consumer, KafkaException, TopicPartition

from results.record.clock import RunClock
from results.record.plan import Plan
from results.record.terms import AssignmentKind
from workloads.clients.consumer import batch_of
from workloads.clients.failures import error_name
from workloads.clients.settings import member_settings
from workloads.protocol import Batch, Key, Rebalance


class MemberConsumer:
    """A confluent-kafka consumer that subscribes.

    Its positions after a rebalance are those that the group has committed. librdkafka tells of a
    rebalance inside of a poll, so that is where it is noted.

    Args:
        plan: Decides the client's settings.
        bootstrap: `host:port,...`.
        client_id: The process, as brokers' logs shall show it.
        group: The group's id.
        clock: The run's.
    """

    def __init__(
        self, plan: Plan, *, bootstrap: str, client_id: str, group: str, clock: RunClock
    ) -> None:
        settings = member_settings(plan, bootstrap=bootstrap, client_id=client_id, group=group)
        self._handle = Consumer(settings)
        self._clock = clock
        self._rebalances: list[Rebalance] = []

    def assign(self, starts: Mapping[Key, int | None]) -> str | None:
        """Refuse: the group assigns.

        Raises:
            TypeError: Always.
        """
        raise TypeError(f"a member of a group cannot be assigned {len(starts)} partitions by hand")

    def subscribe(self, topics: Sequence[str]) -> str | None:
        """Join the group; return the error, if there is one."""
        try:
            self._handle.subscribe(
                list(topics),
                on_assign=self._on_assign,
                on_revoke=self._on_revoke,
                on_lost=self._on_revoke,
            )
        except KafkaException as refused:
            return error_name(refused.args[0])
        return None

    def poll(self, limit: int, timeout_s: float = 0) -> Batch:
        """Return what was fetched, and what the group gave and took meanwhile."""
        try:
            batch = batch_of(self._handle.consume(limit, timeout_s))
        except KafkaException as refused:
            batch = batch_of([], error=error_name(refused.args[0]))
        rebalances, self._rebalances = self._rebalances, []
        return replace(batch, rebalances=rebalances)

    def commit(self, positions: Mapping[Key, int], *, wait: bool) -> str | None:
        """Commit positions, and wait for the answer or not; return the error, if there is one."""
        offsets = [TopicPartition(*key, offset) for key, offset in positions.items()]
        try:
            if not wait:
                self._handle.commit(offsets=offsets, asynchronous=True)
                return None
            answers = self._handle.commit(offsets=offsets, asynchronous=False)
        except KafkaException as refused:
            return error_name(refused.args[0])
        errors = [each.error for each in answers or () if each.error is not None]
        return error_name(errors[0]) if errors else None

    def membership(self) -> object:
        """Return what a transaction needs to commit this consumer's positions (KIP-447)."""
        return self._handle.consumer_group_metadata()

    def close(self) -> None:
        """Leave the group."""
        self._handle.close()

    def abandon(self) -> None:
        """Vanish: the group learns of it by the session's timeout.

        The Python client destroys a consumer that was not closed without closing it, so that no
        LeaveGroup is sent.
        """
        del self._handle

    def _on_assign(self, _consumer: Consumer, partitions: list[TopicPartition]) -> None:
        self._note(AssignmentKind.REBALANCE_ASSIGNED, partitions)

    def _on_revoke(self, _consumer: Consumer, partitions: list[TopicPartition]) -> None:
        self._note(AssignmentKind.REBALANCE_REVOKED, partitions)

    def _note(self, kind: AssignmentKind, partitions: list[TopicPartition]) -> None:
        keys = [(each.topic, each.partition) for each in partitions]
        self._rebalances.append(Rebalance(kind=kind, keys=keys, at_ns=self._clock.now_ns()))
