"""The consumer of one logical process."""

import threading
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise, repeat
from typing import cast

import numpy as np
from confluent_kafka import (
    OFFSET_BEGINNING,
    TIMESTAMP_CREATE_TIME,
    Consumer,
    KafkaError,
    KafkaException,
    Message,
    TopicPartition,
    libversion,
)

from results.record.contents import UNKNOWN_MS, damage, value_in
from results.record.headers import Header, mark
from results.record.plan import Plan
from results.record.terms import Isolation
from results.record.values import VALUE_BYTES
from workloads.clients.failures import error_name
from workloads.clients.settings import consumer_settings
from workloads.protocol import Batch, Column, Key

_END = KafkaError._PARTITION_EOF  # noqa: SLF001 - a public constant that begins so
_TELLS_EPOCHS = 0x02080000
"""Version 2.8 of librdkafka. Earlier versions report wrong epochs, so their epochs are not
recorded."""


class ProcessConsumer:
    """A confluent-kafka consumer with manually assigned partitions. It never commits offsets.

    Args:
        plan: The plan, which decides the client's settings.
        bootstrap: The addresses `host:port,...`.
        client_id: The logical process's name, which brokers log.
        report_ends: Whether a poll reports the partitions that were read to their end.
        isolation: Whether the consumer gets records of open and aborted transactions.
    """

    def __init__(
        self,
        plan: Plan,
        *,
        bootstrap: str,
        client_id: str,
        report_ends: bool = False,
        isolation: Isolation = Isolation.READ_UNCOMMITTED,
    ) -> None:
        self._isolation, self._headers, self._keys = isolation, plan.keeps_headers, plan.keys
        settings = consumer_settings(
            plan, bootstrap=bootstrap, client_id=client_id, isolation=isolation
        )
        self._settings = {**settings, "enable.partition.eof": report_ends}
        self._handle = Consumer(self._settings)
        self._asked_for_beginnings = False

    def assign(self, starts: Mapping[Key, int | None]) -> str | None:
        """Start to read the given partitions. Return the error, or None.

        Suppose that a client requested a partition's start, and that the response comes only after
        the next assignment. librdkafka then moves the new assignment back to the start
        (https://github.com/confluentinc/librdkafka/issues/5345). So a client that requested a start
        is replaced by a new client.
        """
        if self._asked_for_beginnings:
            threading.Thread(target=self._handle.close, daemon=True).start()
            self._handle = Consumer(self._settings)
        self._asked_for_beginnings = None in starts.values()
        partitions = [
            TopicPartition(topic, partition, OFFSET_BEGINNING if offset is None else offset)
            for (topic, partition), offset in starts.items()
        ]
        try:
            self._handle.assign(partitions)
        except KafkaException as refused:
            return error_name(refused.args[0])
        return None

    def poll(self, limit: int, timeout_s: float = 0) -> Batch:
        """Return the fetched records; if one partition has an error, the whole poll has failed."""
        try:
            messages = self._handle.consume(limit, timeout_s)
        except KafkaException as refused:
            return batch_of([], error=error_name(refused.args[0]), isolation=self._isolation)
        return batch_of(messages, isolation=self._isolation, headers=self._headers, keys=self._keys)

    def membership(self) -> object:
        """Return this consumer's group identity, for commits in a transaction (KIP-447)."""
        return self._handle.consumer_group_metadata()

    def close(self) -> None:
        """Close the consumer without a commit."""
        self._handle.close()


def batch_of(
    messages: Sequence[Message],
    *,
    error: str | None = None,
    isolation: Isolation = Isolation.READ_UNCOMMITTED,
    headers: bool = True,
    keys: int = 0,
) -> Batch:
    """Return the consumed records as columns. If one partition has an error, the batch has it too.

    Args:
        messages: Records, and events of partitions.
        error: The reason why there are no records.
        isolation: The consumer's isolation level.
        headers: Whether the message format has headers.
        keys: The number of keys in the plan. 0 means that the plan has none.
    """
    if not any(map(Message.error, messages)):
        return _batch(messages, [], error, isolation, headers=headers, keys=keys)
    records = [message for message in messages if message.error() is None]
    others = [message for message in messages if message.error() is not None]
    ends = [message for message in others if _code(message) == _END]
    errors = [_sentence(message) for message in others if _code(message) != _END]
    why = error or "; ".join(errors) or None
    return _batch(records, ends, why, isolation, headers=headers, keys=keys)


def _batch(
    records: Sequence[Message],
    ends: Sequence[Message],
    error: str | None,
    isolation: Isolation,
    *,
    headers: bool,
    keys: int,
) -> Batch:
    # Columns are built by `map`, without Python code for each record.
    offsets = cast("Iterator[int]", map(Message.offset, records))
    payloads = cast("list[bytes | None]", list(map(Message.value, records)))
    found = cast("list[bytes | None]", list(map(Message.key, records)))
    marks = _marks(records) if headers else None
    return Batch(
        spans=_spans(records),
        offsets=np.fromiter(offsets, np.int64, len(records)),
        values=_values(payloads, marks),
        leader_epochs=_leader_epochs(records),
        ends={
            (str(end.topic()), int(end.partition() or 0)): int(end.offset() or 0) for end in ends
        },
        error=error,
        isolation=isolation,
        damage=damage(payloads, found, marks, _stamps(records), of_keys=keys),
    )


def _marks(records: Sequence[Message]) -> list[object]:
    """Return the mark of each record's headers; `damage` checks these marks."""
    found = cast("Iterator[Header | None]", map(Message.headers, records))
    return [headers and mark(list(headers)) for headers in found]


def _stamps(records: Sequence[Message]) -> list[int]:
    return [
        at_ms if kind == TIMESTAMP_CREATE_TIME else UNKNOWN_MS
        for kind, at_ms in map(Message.timestamp, records)
    ]


def _spans(records: Sequence[Message]) -> Sequence[tuple[Key, int]]:
    """Return (partition, number of records) for each series of records of one partition."""
    if not records:
        return []
    topics = cast("list[str]", list(map(Message.topic, records)))
    numbers = cast("Iterator[int]", map(Message.partition, records))
    partitions = np.fromiter(numbers, np.int32, len(records))
    changes = np.diff(partitions) != 0
    if topics.count(topics[0]) < len(topics):
        codes = {topic: code for code, topic in enumerate(set(topics))}
        changes |= np.diff(np.fromiter(map(codes.__getitem__, topics), np.int64)) != 0
    starts = [0, *(np.flatnonzero(changes) + 1).tolist()]
    return [
        ((topics[start], int(partitions[start])), end - start)
        for start, end in pairwise([*starts, len(records)])
    ]


def _leader_epochs(records: Sequence[Message]) -> Column:
    if libversion()[1] < _TELLS_EPOCHS:
        return [None] * len(records)
    epochs = cast("Iterator[int]", map(Message.leader_epoch, records))
    try:
        return np.fromiter(epochs, np.int32, len(records))
    except TypeError:  # At least one of them is None.
        return list(map(Message.leader_epoch, records))


def _values(payloads: Sequence[bytes | None], marks: Sequence[object] | None) -> Column:
    """Return each record's value; numpy reads the values if every payload begins with one.

    A tombstone has no payload, so the value is in a header.
    """
    try:
        sizes = set(map(len, cast("Sequence[bytes]", payloads)))
    except TypeError:  # At least one of them is None.
        sizes = set()
    if not sizes or min(sizes) < VALUE_BYTES:
        found = zip(payloads, marks or repeat(None), strict=False)
        return [_signed(value_in(payload, mark)) for payload, mark in found]
    heads = cast("Sequence[bytes]", payloads)
    if len(sizes) > 1:
        heads = [payload[:VALUE_BYTES] for payload in heads]
    block = np.frombuffer(b"".join(heads), dtype=np.uint8).reshape(len(heads), -1)
    return block[:, :VALUE_BYTES].copy().view(">i8").ravel().astype(np.int64)


def _signed(value: int | None) -> int | None:
    """Return a value as a signed 64-bit number; a foreign value may be any 8 bytes."""
    return value if value is None or value < 1 << 63 else value - (1 << 64)


def _code(message: Message) -> int | None:
    error = message.error()
    return None if error is None else error.code()


def _sentence(message: Message) -> str:
    error = message.error()
    where = f"{message.topic()}-{message.partition()}"
    return where if error is None else f"{where}: {error_name(error)}"
