"""A share group member: which records the group delivers, and how the member acknowledges them.

Either librdkafka (`workloads.clients.sharer`) or Kafka's own client executes the protocol.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Protocol

from results.record.clock import NS_PER_S, RunClock
from results.record.shares import REQUEST_S
from results.record.terms import ShareAct
from workloads.member import GroupError
from workloads.protocol import Batch, GroupOffset, Key, Settled, Sought

SLACK_S = 5.0
"""If the client was paused for more seconds than this, the responses that it returns may be of any
age."""
LONGEST_REQUEST_S = REQUEST_S + SLACK_S
"""The longest time that a client waits for the response to a fetch: the socket timeout and some
slack."""


class ShareClient(Protocol):
    """A share consumer that acknowledges each record separately."""

    def subscribe(self, topics: Sequence[str]) -> None:
        """Join the group.

        Raises:
            GroupError: The client refused.
        """

    def poll(self, timeout_s: float) -> Batch:
        """Return acquired records with delivery counts. Wait for records up to a timeout."""

    def acknowledge(self, batch: Batch, acts: Sequence[ShareAct]) -> Sequence[str | None]:
        """Acknowledge each record of the last poll; return each record's error."""

    def close(self) -> None:
        """Leave the group."""

    def abandon(self) -> None:
        """End without leaving the group."""


class ShareMember:
    """A share group member. It implements `workloads.protocol.Sharer`.

    The client fetches records in advance, so the time at which a record was acquired is unknown.
    The member keeps a lower bound: the time of the join or of the last empty poll (the later of
    both), minus the time of the longest request. After an empty poll the client's buffer is empty.
    Only responses to open requests can still come.

    A client may be paused, for example together with its machine. When it polls again, it has not
    read its socket yet. So after a pause, polls move the bound only after the time of the longest
    request has passed.

    Args:
        client: The share client. Only this member uses it.
        group: The group's id.
        clock: The run's clock.
    """

    def __init__(self, client: ShareClient, *, group: str, clock: RunClock) -> None:
        self.group_id = group
        self._client, self._clock = client, clock
        self._acquired_after_ns = self._asked_ns = self._awake_since_ns = 0

    def subscribe(self, topics: Sequence[str]) -> str | None:
        """Join the group; return the error, if there is one."""
        self._acquired_after_ns = self._asked_ns = self._awake_since_ns = self._clock.now_ns()
        try:
            self._client.subscribe(topics)
        except GroupError as refused:
            return str(refused)
        return None

    def poll(self, limit: int, timeout_s: float = 0) -> Batch:  # noqa: ARG002 - a setting has it
        """Return acquired records. The client's settings limit the number of records."""
        asked_ns, after_ns = self._clock.now_ns(), self._acquired_after_ns
        if asked_ns - self._asked_ns > SLACK_S * NS_PER_S:
            self._awake_since_ns = asked_ns
        self._asked_ns = asked_ns
        batch = self._client.poll(timeout_s)
        if not len(batch.offsets) and batch.error is None:
            bound_ns = asked_ns - round(LONGEST_REQUEST_S * NS_PER_S)
            if bound_ns >= self._awake_since_ns:
                self._acquired_after_ns = bound_ns
        return replace(batch, acquired_after_ns=after_ns)

    def acknowledge(self, batch: Batch, acts: Sequence[ShareAct]) -> Settled:
        """Acknowledge the records of the last poll, and wait for the response."""
        asked_ns = self._clock.now_ns()
        whole = [acts[at % len(acts)] for at in range(len(batch.offsets))]
        errors = self._client.acknowledge(batch, whole)
        return Settled(acts=whole, errors=errors, asked_ns=asked_ns, told_ns=self._clock.now_ns())

    def told(self, *, last: bool = False) -> list[GroupOffset]:  # noqa: ARG002 - the protocol's
        """Return an empty list, because the members of a share group have no positions."""
        return []

    def assign(self, starts: Mapping[Key, int | None]) -> str | None:
        """Raise an error, because the group assigns partitions.

        Raises:
            TypeError: Always, as in the next three methods.
        """
        raise TypeError(f"a member of a share group cannot be assigned {len(starts)} partitions")

    def commit(self, positions: Mapping[Key, int], *, op_id: int, wait: bool) -> str | None:
        """Raise an error, because a share group member acknowledges records instead."""
        raise TypeError(f"op {op_id} cannot commit {len(positions)} positions, wait={wait}")

    def seek(self, back: int | None) -> Sought:
        """Raise an error, because a share group member has no position."""
        raise TypeError(f"a member of a share group cannot go back by {back}")

    def membership(self) -> object:
        """Raise an error, because a transaction cannot contain a share group's acknowledgements."""
        raise TypeError("a share group's acknowledgements cannot be part of a transaction")

    def close(self) -> None:
        """Leave the group."""
        self._client.close()

    def abandon(self) -> None:
        """End without leaving.

        The connections close, and the group notices the end at the session timeout.
        """
        self._client.abandon()
