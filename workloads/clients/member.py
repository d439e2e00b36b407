"""A consumer that belongs to a group: the group gives it partitions, and takes them again."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from confluent_kafka import (
    OFFSET_STORED,
    Consumer,
    KafkaError,
    KafkaException,
    TopicPartition,
)

from results.record.clock import RunClock
from results.record.plan import Plan
from results.record.terms import AssignmentKind, GroupAct, Outcome
from workloads.clients.consumer import batch_of
from workloads.clients.failures import error_name
from workloads.clients.settings import member_settings
from workloads.protocol import Batch, GroupOffset, Key, Rebalance

FETCH_S = 5.0
"""For the answer on what a group has committed; the group misses a member after twice that."""


class MemberConsumer:
    """A confluent-kafka consumer that subscribes.

    Its positions after a rebalance are those that the group has committed: it asks for them itself,
    so that the record has the answer. librdkafka tells of a rebalance inside of a poll, which so
    may wait for `FETCH_S`. Each commit carries the number of its op as metadata.

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
        self.group_id, self._headers = group, plan.keeps_headers
        self._incremental = _is_incremental(settings)
        self._handle = Consumer({**settings, "on_commit": self._on_commit})
        self._clock = clock
        self._rebalances: list[Rebalance] = []
        self._told: list[GroupOffset] = []
        self._waiting: dict[tuple[int, Key], GroupOffset] = {}

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
            batch = batch_of(self._handle.consume(limit, timeout_s), headers=self._headers)
        except KafkaException as refused:
            batch = batch_of([], error=error_name(refused.args[0]))
        rebalances, self._rebalances = self._rebalances, []
        return replace(batch, rebalances=rebalances)

    def commit(self, positions: Mapping[Key, int], *, op_id: int, wait: bool) -> str | None:
        """Commit positions, and wait for the answer or not; return the error, if there is one."""
        asked_ns, act = self._clock.now_ns(), GroupAct.COMMIT
        for key, offset in positions.items():
            self._waiting[op_id, key] = GroupOffset(
                act=act, key=key, offset=offset, asked_ns=asked_ns, op_id=op_id
            )
        offsets = [
            TopicPartition(*key, offset, metadata=str(op_id)) for key, offset in positions.items()
        ]
        try:
            if not wait:
                self._handle.commit(offsets=offsets, asynchronous=True)
                return None
            answers = self._handle.commit(offsets=offsets, asynchronous=False)
        except KafkaException as refused:
            self._on_commit(refused.args[0], offsets)
            return error_name(refused.args[0])
        self._on_commit(None, answers or [])
        errors = [each.error for each in answers or () if each.error is not None]
        return error_name(errors[0]) if errors else None

    def told(self, *, last: bool = False) -> list[GroupOffset]:
        """Return the group's positions, as committed and as told, since this was asked before.

        Args:
            last: Whether the member is not used any more: also what was not answered.
        """
        told, self._told = self._told, []
        if last:
            told += self._waiting.values()
            self._waiting.clear()
        return told

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

    def _on_assign(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        asked_ns = self._clock.now_ns()
        starts = self._committed(consumer, partitions, asked_ns)
        self._note(AssignmentKind.REBALANCE_ASSIGNED, starts, asked_ns)
        placed = [
            TopicPartition(*key, OFFSET_STORED if start is None else start)
            for key, start in starts.items()
        ]
        (consumer.incremental_assign if self._incremental else consumer.assign)(placed)

    def _committed(
        self, consumer: Consumer, partitions: list[TopicPartition], asked_ns: int
    ) -> dict[Key, int | None]:
        """Ask what the group has committed, and return from where to read on.

        Where it has committed nothing that is the beginning; where nobody answered, librdkafka
        asks again by itself, and tells nobody what it heard.
        """
        error, answers = None, partitions
        try:
            answers = consumer.committed(partitions, timeout=FETCH_S)
        except KafkaException as refused:
            error = refused.args[0]
        told_ns = self._clock.now_ns()
        starts: dict[Key, int | None] = {}
        for each in answers:
            failed, key = error or each.error, (each.topic, each.partition)
            known = None if failed or each.offset < 0 else each.offset
            starts[key] = None if failed else known or 0
            self._told.append(
                GroupOffset(
                    act=GroupAct.FETCH,
                    key=key,
                    offset=known,
                    asked_ns=asked_ns,
                    told_ns=told_ns,
                    outcome=Outcome.INFO if failed else Outcome.OK,
                    error=error_name(failed) if failed else None,
                    committed_by=_op_of(each.metadata) if known is not None else None,
                )
            )
        return starts

    def _on_revoke(self, _consumer: Consumer, partitions: list[TopicPartition]) -> None:
        keys = [(each.topic, each.partition) for each in partitions]
        self._note(AssignmentKind.REBALANCE_REVOKED, dict.fromkeys(keys), self._clock.now_ns())

    def _on_commit(self, error: KafkaError | None, answers: Sequence[TopicPartition]) -> None:
        told_ns = self._clock.now_ns()
        for each in answers:
            failed, key = error or each.error, (each.topic, each.partition)
            asked = self._waiting.pop((_op_of(each.metadata) or 0, key), None)
            if asked is not None:
                self._told.append(
                    replace(
                        asked,
                        told_ns=told_ns,
                        outcome=Outcome.INFO if failed else Outcome.OK,
                        error=error_name(failed) if failed else None,
                    )
                )

    def _note(self, kind: AssignmentKind, starts: Mapping[Key, int | None], at_ns: int) -> None:
        self._rebalances.append(Rebalance(kind=kind, starts=starts, at_ns=at_ns))


def _op_of(metadata: str | None) -> int | None:
    """Return the op that made a commit, by what the commit carries."""
    return int(metadata) if metadata and metadata.isdecimal() else None


def _is_incremental(settings: Mapping[str, object]) -> bool:
    """Tell whether a rebalance gives and takes single partitions (KIP-429, KIP-848)."""
    how = str(settings.get("partition.assignment.strategy", ""))
    return "cooperative" in how or settings.get("group.protocol") == "consumer"
