"""Kafka's own consumer as a group member, in Java."""

from collections.abc import Mapping, Sequence

from results.record.plan import Plan
from results.record.terms import Isolation
from workloads.clients.java.bridge import AskedError, Bridge, limited, spoken
from workloads.clients.java.consumer import polled
from workloads.clients.java.frames import (
    STORED,
    Ask,
    Ending,
    Membership,
    Reading,
    Role,
    Tell,
    Told,
    places,
    text,
    texts,
    told_answers,
    told_given,
    told_keys,
)
from workloads.clients.java.settings import member_settings
from workloads.member import Answer, GroupError, Listener
from workloads.protocol import Batch, Key

_COMMIT_S = 10.0
"""Seconds to wait for the response to a commit; equal to librdkafka's request timeout."""


class JavaMember:
    """A consumer that subscribes. It implements `workloads.member.GroupClient`.

    The client reports a rebalance inside a poll. The JVM then waits for the listener. While it
    waits, it executes the requests of the listener.

    Args:
        bridge: The worker's JVM.
        plan: The plan, which decides the client's settings.
        bootstrap: The addresses `host:port,...`.
        client_id: The logical process's name, which brokers log.
        group: The group's id.
        isolation: Whether the consumer gets records of open and aborted transactions.
    """

    def __init__(
        self,
        bridge: Bridge,
        plan: Plan,
        *,
        bootstrap: str,
        client_id: str,
        group: str,
        isolation: Isolation = Isolation.READ_UNCOMMITTED,
    ) -> None:
        self._headers, self._keys, self._isolation = plan.keeps_headers, plan.keys, isolation
        self._membership = Membership(group=group)
        settings = member_settings(
            plan, bootstrap=bootstrap, client_id=client_id, group=group, isolation=isolation
        )
        self._seat = bridge.open(Role.CONSUMER, settings.plans, settings.own)
        self._listener: Listener | None = None

    def subscribe(self, topics: Sequence[str], listener: Listener) -> None:
        """Join the group.

        Raises:
            GroupError: The client refused.
        """
        self._listener = listener
        self._ask(Ask.SUBSCRIBE, texts(topics))

    def poll(self, limit: int, timeout_s: float) -> Batch:
        """Return the fetched records, and report rebalances to the listener.

        The poll waits up to the timeout for records.
        """
        return polled(
            self._seat,
            limit,
            timeout_s,
            headers=self._headers,
            keys=self._keys,
            isolation=self._isolation,
            on_event=self._on_event,
        )

    def assign(self, starts: Mapping[Key, int | None]) -> None:
        """Start to read assigned partitions. A start of None means the committed offset."""
        offsets = {key: STORED if at is None else at for key, at in starts.items()}
        self._ask(Ask.SEEK, places(offsets))

    def seek(self, starts: Mapping[Key, int]) -> None:
        """Continue from other offsets.

        Raises:
            GroupError: The client refused.
        """
        self._ask(Ask.SEEK, places(starts))

    def committed(self, keys: Sequence[Key], timeout_s: float) -> Sequence[Answer]:
        """Return the offsets that the group has committed.

        Raises:
            GroupError: No response came in time.
        """
        if not keys:
            return []
        body = limited(timeout_s) + places(dict.fromkeys(keys, 0))
        return told_answers(Reading(self._ask(Ask.COMMITTED, body).body))

    def commit(
        self, positions: Mapping[Key, int], *, metadata: str, wait: bool
    ) -> Sequence[Answer]:
        """Commit positions; return the responses if `wait` is set.

        Raises:
            GroupError: The whole commit failed.
        """
        body = bytes([wait]) + limited(_COMMIT_S) + text(metadata) + places(positions)
        return told_answers(Reading(self._ask(Ask.COMMIT, body).body))

    def membership(self) -> object:
        """Return this consumer's group identity, for commits in a transaction (KIP-447).

        The identity comes from the last assignment. If the group has removed the consumer
        meanwhile, brokers fence a commit with this old identity.
        """
        return self._membership

    def close(self) -> None:
        """Leave the group."""
        self._seat.close()

    def abandon(self) -> None:
        """End without leaving the group. The group notices this at the session timeout."""
        self._seat.close(Ending.VANISH)

    def _ask(self, kind: Ask, body: bytes) -> Told:
        try:
            return self._seat.ask(kind, body, on_event=self._on_event)
        except AskedError as refused:
            raise GroupError(str(refused)) from refused

    def _on_event(self, event: Told) -> None:
        spoken(self._seat, event, self._listen)

    def _listen(self, event: Told) -> None:
        listener = self._listener
        assert listener is not None, "it has subscribed"
        if event.kind is Tell.GIVEN:
            membership, keys = told_given(self._membership.group, event.body)
            listener.given(keys)
            self._membership = membership
        elif event.kind is Tell.TAKEN:
            listener.taken(told_keys(event.body))
        else:
            read = Reading(event.body)
            listener.committed(read.text(), told_answers(read))
