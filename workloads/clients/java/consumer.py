"""The consumer of one logical process, in Java."""

from collections.abc import Callable, Mapping, Sequence
from itertools import repeat

import numpy as np

from results.record.contents import damage, value_in
from results.record.plan import Plan
from results.record.terms import Isolation
from results.record.values import VALUE_BYTES
from workloads.clients.java.bridge import AskedError, Bridge, Seat, limited
from workloads.clients.java.frames import (
    BEGINNING,
    Ask,
    Membership,
    Polled,
    Role,
    Told,
    integer,
    places,
    told_batch,
)
from workloads.clients.java.settings import consumer_settings, group_id
from workloads.protocol import Batch, Column, Key

NOTHING = Polled(
    spans=[],
    offsets=np.empty(0, np.int64),
    leader_epochs=np.empty(0, np.int32),
    stamps_ms=[],
    payloads=[],
    keys=[],
    marks=[],
)
"""The result of a poll that failed."""


class JavaConsumer:
    """Kafka's own consumer, assigned manually. It implements `workloads.protocol.Reader`.

    Args:
        bridge: The worker's JVM.
        plan: The plan, which decides the client's settings.
        bootstrap: The addresses `host:port,...`.
        client_id: The logical process's name, which brokers log.
        isolation: Whether the consumer gets records of open and aborted transactions.
    """

    def __init__(
        self,
        bridge: Bridge,
        plan: Plan,
        *,
        bootstrap: str,
        client_id: str,
        isolation: Isolation = Isolation.READ_UNCOMMITTED,
    ) -> None:
        self._isolation, self._headers, self._keys = isolation, plan.keeps_headers, plan.keys
        self._group = group_id(plan)
        settings = consumer_settings(
            plan, bootstrap=bootstrap, client_id=client_id, isolation=isolation
        )
        self._seat = bridge.open(Role.CONSUMER, settings.plans, settings.own)

    def assign(self, starts: Mapping[Key, int | None]) -> str | None:
        """Start to read the given partitions. Return the error, or None."""
        offsets = {key: BEGINNING if at is None else at for key, at in starts.items()}
        try:
            self._seat.ask(Ask.ASSIGN, places(offsets))
        except AskedError as refused:
            return str(refused)
        return None

    def poll(self, limit: int, timeout_s: float = 0) -> Batch:
        """Return the fetched records; if one partition has an error, the whole poll has failed."""
        return polled(
            self._seat,
            limit,
            timeout_s,
            headers=self._headers,
            keys=self._keys,
            isolation=self._isolation,
        )

    def membership(self) -> object:
        """Return this consumer's group identity, for commits in a transaction."""
        return Membership(group=self._group)

    def close(self) -> None:
        """Close the consumer without a commit."""
        self._seat.close()


def polled(
    seat: Seat,
    limit: int,
    timeout_s: float,
    *,
    headers: bool,
    keys: int,
    isolation: Isolation = Isolation.READ_UNCOMMITTED,
    on_event: Callable[[Told], None] | None = None,
) -> Batch:
    """Let a consumer poll; return the records.

    Args:
        seat: The consumer's seat in the JVM.
        limit: The maximum number of records.
        timeout_s: How long to wait for the first record.
        headers: Whether the message format has headers.
        keys: The number of keys in the plan. 0 for no keys.
        isolation: The consumer's isolation level.
        on_event: A function that is called if the group assigns or revokes partitions during the
            poll.
    """
    body = integer(limit) + limited(timeout_s)
    try:
        told = seat.ask(Ask.POLL, body, on_event=on_event)
    except AskedError as refused:
        return batch_of(NOTHING, error=str(refused), isolation=isolation, headers=headers)
    return batch_of(told_batch(told.body), isolation=isolation, headers=headers, keys=keys)


def batch_of(
    read: Polled,
    *,
    error: str | None = None,
    isolation: Isolation = Isolation.READ_UNCOMMITTED,
    headers: bool = True,
    keys: int = 0,
) -> Batch:
    """Check a poll's records for damage, and return the records as a batch."""
    marks = read.marks if headers else None
    return Batch(
        spans=read.spans,
        offsets=read.offsets,
        values=_values(read, marks),
        leader_epochs=_epochs(read),
        ends={},
        error=error,
        isolation=isolation,
        damage=damage(read.payloads, read.keys, marks, read.stamps_ms, of_keys=keys),
    )


def _epochs(read: Polled) -> Column:
    if (read.leader_epochs >= 0).all():
        return read.leader_epochs
    return [epoch if epoch >= 0 else None for epoch in read.leader_epochs.tolist()]


def _values(read: Polled, marks: Sequence[object] | None) -> Column:
    """Return the value of each record as a signed 64-bit number."""
    heads = [payload and payload[:VALUE_BYTES] for payload in read.payloads]
    if all(head is not None and len(head) == VALUE_BYTES for head in heads):
        joined = b"".join(head for head in heads if head is not None)
        return np.frombuffer(joined, ">i8").astype(np.int64)
    values = map(value_in, read.payloads, marks or repeat(None))
    return [value if value is None or value < 1 << 63 else value - (1 << 64) for value in values]
