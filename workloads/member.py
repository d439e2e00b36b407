"""A group member: what the group assigns to it and revokes from it, and the offsets it commits.

The group protocol itself is executed by a client: librdkafka (`workloads.clients.member`), or a
simulated client.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from results.record.clock import RunClock
from results.record.terms import AssignmentKind, GroupAct, Outcome
from workloads.protocol import Batch, GroupOffset, Key, Rebalance, Sought

FETCH_S = 5.0
"""Seconds to wait for a group's committed offsets. This is half of the poll interval
(`max.poll.interval.ms`) after which a group removes a member."""


class GroupError(Exception):
    """A whole request failed. The only argument is the text of the error, as it is recorded."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """A coordinator's response for one partition.

    Attributes:
        key: The partition.
        offset: The committed offset. None if the group has none, or if this is the response to a
            commit.
        metadata: The metadata of the commit.
        error: The error; None if there is none.
    """

    key: Key
    offset: int | None = None
    metadata: str | None = None
    error: str | None = None


class Listener(Protocol):
    """A listener for the events of a client's group. The client calls it during a poll."""

    def given(self, keys: Sequence[Key]) -> None:
        """Handle newly assigned partitions, and call the client's `assign`."""

    def taken(self, keys: Sequence[Key]) -> None:
        """Handle revoked partitions."""

    def committed(self, error: str | None, answers: Sequence[Answer]) -> None:
        """Handle an asynchronous commit's response: one error, or a response for each partition."""


class GroupClient(Protocol):
    """A consumer that subscribes to topics as a group member."""

    def subscribe(self, topics: Sequence[str], listener: Listener) -> None:
        """Join the group.

        Raises:
            GroupError: The client refused.
        """

    def poll(self, limit: int, timeout_s: float) -> Batch:
        """Return the fetched records, and report rebalances to the listener.

        The poll waits up to the timeout for records.
        """

    def assign(self, starts: Mapping[Key, int | None]) -> None:
        """Start to read assigned partitions. A start of None means the committed offset."""

    def committed(self, keys: Sequence[Key], timeout_s: float) -> Sequence[Answer]:
        """Return the offsets that the group has committed.

        Raises:
            GroupError: No response came in time.
        """

    def commit(
        self, positions: Mapping[Key, int], *, metadata: str, wait: bool
    ) -> Sequence[Answer]:
        """Commit positions; return the responses if `wait` is set.

        Raises:
            GroupError: The whole commit failed.
        """

    def seek(self, starts: Mapping[Key, int]) -> None:
        """Continue from other offsets of assigned partitions.

        Raises:
            GroupError: The client refused, perhaps after it moved some partitions.
        """

    def membership(self) -> object:
        """Return this consumer's group identity, for commits in a transaction (KIP-447)."""

    def close(self) -> None:
        """Leave the group."""

    def abandon(self) -> None:
        """End without leaving the group."""


class GroupMember:
    """A group member. It implements `workloads.protocol.Member`.

    After a rebalance, the member's positions are the group's committed offsets. The member itself
    requests these offsets, so that the response is recorded. The client reports a rebalance during
    a poll, so a poll may take up to `FETCH_S` longer. The metadata of each commit is the number of
    the op.

    Args:
        client: The group client. Only this member uses it.
        group: The group's id.
        clock: The run's clock.
    """

    def __init__(self, client: GroupClient, *, group: str, clock: RunClock) -> None:
        self.group_id = group
        self._client, self._clock = client, clock
        self._rebalances: list[Rebalance] = []
        self._told: list[GroupOffset] = []
        self._waiting: dict[tuple[int, Key], GroupOffset] = {}
        self._positions: dict[Key, int | None] = {}
        """The position in each assigned partition. None if no record was read yet."""

    def assign(self, starts: Mapping[Key, int | None]) -> str | None:
        """Raise an error, because the group assigns partitions.

        Raises:
            TypeError: Always.
        """
        raise TypeError(f"a member of a group cannot be assigned {len(starts)} partitions by hand")

    def subscribe(self, topics: Sequence[str]) -> str | None:
        """Join the group; return the error, if there is one."""
        try:
            self._client.subscribe(topics, self)
        except GroupError as refused:
            return str(refused)
        return None

    def poll(self, limit: int, timeout_s: float = 0) -> Batch:
        """Return the fetched records, and the changes of the assignment during the poll."""
        batch = self._client.poll(limit, timeout_s)
        rebalances, self._rebalances = self._rebalances, []
        # Records of these partitions may have been read before the rebalance.
        moved = {key for each in rebalances for key in each.starts}
        for key, position in batch.positions.items():
            if key in self._positions and key not in moved:
                self._positions[key] = position
        return replace(batch, rebalances=rebalances)

    def commit(self, positions: Mapping[Key, int], *, op_id: int, wait: bool) -> str | None:
        """Commit positions; if `wait` is set, wait for the response. Return the error, if any."""
        asked_ns, act = self._clock.now_ns(), GroupAct.COMMIT
        for key, offset in positions.items():
            self._waiting[op_id, key] = GroupOffset(
                act=act, key=key, offset=offset, asked_ns=asked_ns, op_id=op_id
            )
        metadata = str(op_id)
        try:
            answers = self._client.commit(positions, metadata=metadata, wait=wait)
        except GroupError as refused:
            self.committed(str(refused), [Answer(key=key, metadata=metadata) for key in positions])
            return str(refused)
        self.committed(None, answers)
        return next((each.error for each in answers if each.error is not None), None)

    def seek(self, back: int | None) -> Sought:
        """Go back to the group's committed offsets, or by `back` records.

        The member itself requests the committed offsets, as after an assignment. So the response is
        recorded.
        """
        at_ns = self._clock.now_ns()
        read = {key: stood for key, stood in self._positions.items() if stood is not None}
        if back is None:
            told = self._starts([*read], at_ns)
            starts = {key: min(at, read[key]) for key, at in told.items() if at is not None}
        else:
            starts = {key: max(0, stood - back) for key, stood in read.items()}
        try:
            self._client.seek(starts)
        except GroupError as refused:
            return Sought(starts=starts, at_ns=at_ns, error=str(refused))
        self._positions.update(starts)
        return Sought(starts=starts, at_ns=at_ns)

    def told(self, *, last: bool = False) -> list[GroupOffset]:
        """Return commits that ended, and committed offsets that were fetched, since the last call.

        Args:
            last: Whether the member will not be used again. Commits without a response are then
                returned, too.
        """
        told, self._told = self._told, []
        if last:
            told += self._waiting.values()
            self._waiting.clear()
        return told

    def membership(self) -> object:
        """Return this consumer's group identity, for commits in a transaction (KIP-447)."""
        return self._client.membership()

    def close(self) -> None:
        """Leave the group."""
        self._client.close()

    def abandon(self) -> None:
        """End without leaving the group. The group notices this at the session timeout."""
        self._client.abandon()

    def given(self, keys: Sequence[Key]) -> None:
        """Handle newly assigned partitions: request the committed offsets, and read from there."""
        asked_ns = self._clock.now_ns()
        starts = self._starts(keys, asked_ns)
        self._positions.update(dict.fromkeys(keys))
        self._note(AssignmentKind.REBALANCE_ASSIGNED, starts, asked_ns)
        self._client.assign(starts)

    def taken(self, keys: Sequence[Key]) -> None:
        """Record revoked partitions."""
        for key in keys:
            self._positions.pop(key, None)
        self._note(AssignmentKind.REBALANCE_REVOKED, dict.fromkeys(keys), self._clock.now_ns())

    def committed(self, error: str | None, answers: Sequence[Answer]) -> None:
        """Record the responses to commits."""
        told_ns = self._clock.now_ns()
        for each in answers:
            why = error or each.error
            asked = self._waiting.pop((_op_of(each.metadata) or 0, each.key), None)
            if asked is not None:
                outcome = Outcome.INFO if why else Outcome.OK
                self._told.append(replace(asked, told_ns=told_ns, outcome=outcome, error=why))

    def _starts(self, keys: Sequence[Key], asked_ns: int) -> dict[Key, int | None]:
        """Request the committed offsets, and return the offsets from which to read.

        If there is no committed offset, the member reads from the partition's beginning. If no
        response comes, the client itself repeats the request, but does not report the response.
        """
        try:
            answers = self._client.committed(keys, FETCH_S) if keys else []
        except GroupError as refused:
            answers = [Answer(key=key, error=str(refused)) for key in keys]
        told_ns = self._clock.now_ns()
        for each in answers:
            known = None if each.error else each.offset
            self._told.append(
                GroupOffset(
                    act=GroupAct.FETCH,
                    key=each.key,
                    offset=known,
                    asked_ns=asked_ns,
                    told_ns=told_ns,
                    outcome=Outcome.INFO if each.error else Outcome.OK,
                    error=each.error,
                    committed_by=_op_of(each.metadata) if known is not None else None,
                )
            )
        return {each.key: None if each.error else each.offset or 0 for each in answers}

    def _note(self, kind: AssignmentKind, starts: Mapping[Key, int | None], at_ns: int) -> None:
        self._rebalances.append(Rebalance(kind=kind, starts=starts, at_ns=at_ns))


def _op_of(metadata: str | None) -> int | None:
    """Return the id of the op that committed; the commit's metadata contains it."""
    return int(metadata) if metadata and metadata.isdecimal() else None
