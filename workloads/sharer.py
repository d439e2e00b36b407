"""A member of a share group: what the group delivers to it, and how it acknowledges it (KIP-932).

The client below it speaks the protocol: librdkafka (`workloads.clients.sharer`), or Kafka's own.
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
"""A client that stood still for longer may hand over answers of any age."""
LONGEST_REQUEST_S = REQUEST_S + SLACK_S
"""So long a client waits for the answer to a fetch at most: its socket's timeout, and slack."""


class ShareClient(Protocol):
    """A share consumer that acknowledges each record by itself."""

    def subscribe(self, topics: Sequence[str]) -> None:
        """Join the group.

        Raises:
            GroupError: The client refused.
        """

    def poll(self, timeout_s: float) -> Batch:
        """Return what was acquired, with delivery counts, waiting for it at most that long."""

    def acknowledge(self, batch: Batch, acts: Sequence[ShareAct]) -> Sequence[str | None]:
        """Say what becomes of each record of the last poll; return each one's error."""

    def close(self) -> None:
        """Leave the group."""

    def abandon(self) -> None:
        """Vanish."""


class ShareMember:
    """Implements `workloads.protocol.Sharer`.

    The client prefetches, so the acquisition time of a record is unknown. A lower bound is kept:
    the later one of the member's join and its last empty poll, less the longest request. After an
    empty poll the client's buffer is empty, and only answers to requests under way may still come.
    A client that stood still (a paused machine, say) has not read its socket yet as it polls again.
    So no poll moves the bound until a whole longest request after such a pause.

    Args:
        client: Speaks with the group; used by this member only.
        group: The group's id.
        clock: The run's.
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
        """Return what was acquired; how much that is at most, the client's settings say."""
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
        """Say what becomes of the records of the last poll, and wait for the answer."""
        asked_ns = self._clock.now_ns()
        whole = [acts[at % len(acts)] for at in range(len(batch.offsets))]
        errors = self._client.acknowledge(batch, whole)
        return Settled(acts=whole, errors=errors, asked_ns=asked_ns, told_ns=self._clock.now_ns())

    def told(self, *, last: bool = False) -> list[GroupOffset]:  # noqa: ARG002 - the protocol's
        """Return nothing: a share group has no positions of its members."""
        return []

    def assign(self, starts: Mapping[Key, int | None]) -> str | None:
        """Refuse: the group assigns.

        Raises:
            TypeError: Always; so do the next three.
        """
        raise TypeError(f"a member of a share group cannot be assigned {len(starts)} partitions")

    def commit(self, positions: Mapping[Key, int], *, op_id: int, wait: bool) -> str | None:
        """Refuse: it acknowledges records."""
        raise TypeError(f"op {op_id} cannot commit {len(positions)} positions, wait={wait}")

    def seek(self, back: int | None) -> Sought:
        """Refuse: it has no position."""
        raise TypeError(f"a member of a share group cannot go back by {back}")

    def membership(self) -> object:
        """Refuse: no transaction has a share group's acknowledgements."""
        raise TypeError("a share group's acknowledgements are part of no transaction")

    def close(self) -> None:
        """Leave the group."""
        self._client.close()

    def abandon(self) -> None:
        """Vanish: its connections end, and the group learns of it by the session's timeout."""
        self._client.abandon()
