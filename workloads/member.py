"""A member of a group: what its group gave it, took from it, kept for it and told it.

The client below it speaks the protocol: librdkafka (`workloads.clients.member`), or one that is
simulated.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from results.record.clock import RunClock
from results.record.terms import AssignmentKind, GroupAct, Outcome
from workloads.protocol import Batch, GroupOffset, Key, Rebalance, Sought

FETCH_S = 5.0
"""For the answer on what a group has committed; the group misses a member after twice that."""


class GroupError(Exception):
    """A request as a whole failed; its only argument is the error as the record has it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What a coordinator answered on one partition.

    Attributes:
        key: Which.
        offset: The committed one; None: none, or it is a commit's answer.
        metadata: What the commit carries.
        error: None if it is good.
    """

    key: Key
    offset: int | None = None
    metadata: str | None = None
    error: str | None = None


class Listener(Protocol):
    """Who is told of its client's group, inside of a poll."""

    def given(self, keys: Sequence[Key]) -> None:
        """Take partitions, and call the client's `assign`."""

    def taken(self, keys: Sequence[Key]) -> None:
        """Learn that partitions are the client's no more."""

    def committed(self, error: str | None, answers: Sequence[Answer]) -> None:
        """Take the end of a commit that nobody waited for; an error of all, or each one's."""


class GroupClient(Protocol):
    """A consumer that subscribes."""

    def subscribe(self, topics: Sequence[str], listener: Listener) -> None:
        """Join the group.

        Raises:
            GroupError: The client refused.
        """

    def poll(self, limit: int, timeout_s: float) -> Batch:
        """Tell the listener, and return what was fetched, waiting for it at most that long."""

    def assign(self, starts: Mapping[Key, int | None]) -> None:
        """Read partitions that were given; None: from where the client hears by itself."""

    def committed(self, keys: Sequence[Key], timeout_s: float) -> Sequence[Answer]:
        """Ask what the group has committed.

        Raises:
            GroupError: Nobody answered in time.
        """

    def commit(
        self, positions: Mapping[Key, int], *, metadata: str, wait: bool
    ) -> Sequence[Answer]:
        """Commit positions; return the answers, if they were waited for.

        Raises:
            GroupError: It failed as a whole.
        """

    def seek(self, starts: Mapping[Key, int]) -> None:
        """Read on from other offsets of partitions that it has been given.

        Raises:
            GroupError: The client refused, with some of them moved perhaps.
        """

    def membership(self) -> object:
        """Return what a transaction needs to commit this consumer's positions (KIP-447)."""

    def close(self) -> None:
        """Leave the group."""

    def abandon(self) -> None:
        """Vanish."""


class GroupMember:
    """Implements `workloads.protocol.Member`.

    Its positions after a rebalance are those that the group has committed: it asks for them itself,
    so that the record has the answer. Its client tells of a rebalance inside of a poll, which so
    may wait for `FETCH_S`. Each commit carries the number of its op as metadata.

    Args:
        client: Speaks with the group; nobody else uses it.
        group: The group's id.
        clock: The run's.
    """

    def __init__(self, client: GroupClient, *, group: str, clock: RunClock) -> None:
        self.group_id = group
        self._client, self._clock = client, clock
        self._rebalances: list[Rebalance] = []
        self._told: list[GroupOffset] = []
        self._waiting: dict[tuple[int, Key], GroupOffset] = {}
        self._positions: dict[Key, int | None] = {}
        """Of what it has been given; None: it has read nothing of that yet."""

    def assign(self, starts: Mapping[Key, int | None]) -> str | None:
        """Refuse: the group assigns.

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
        """Return what was fetched, and what the group gave and took meanwhile."""
        batch = self._client.poll(limit, timeout_s)
        rebalances, self._rebalances = self._rebalances, []
        # What it read of these it may have read before they moved.
        moved = {key for each in rebalances for key in each.starts}
        for key, position in batch.positions.items():
            if key in self._positions and key not in moved:
                self._positions[key] = position
        return replace(batch, rebalances=rebalances)

    def commit(self, positions: Mapping[Key, int], *, op_id: int, wait: bool) -> str | None:
        """Commit positions, and wait for the answer or not; return the error, if there is one."""
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
        """Read again what the group has not committed, or so many records.

        It asks what is committed as it does at an assignment, so that the record has the answer.
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
        return self._client.membership()

    def close(self) -> None:
        """Leave the group."""
        self._client.close()

    def abandon(self) -> None:
        """Vanish: the group learns of it by the session's timeout."""
        self._client.abandon()

    def given(self, keys: Sequence[Key]) -> None:
        """Ask what the group has committed of partitions that it gave, and read on from there."""
        asked_ns = self._clock.now_ns()
        starts = self._starts(keys, asked_ns)
        self._positions.update(dict.fromkeys(keys))
        self._note(AssignmentKind.REBALANCE_ASSIGNED, starts, asked_ns)
        self._client.assign(starts)

    def taken(self, keys: Sequence[Key]) -> None:
        """Note what the group took."""
        for key in keys:
            self._positions.pop(key, None)
        self._note(AssignmentKind.REBALANCE_REVOKED, dict.fromkeys(keys), self._clock.now_ns())

    def committed(self, error: str | None, answers: Sequence[Answer]) -> None:
        """Note how commits ended."""
        told_ns = self._clock.now_ns()
        for each in answers:
            why = error or each.error
            asked = self._waiting.pop((_op_of(each.metadata) or 0, each.key), None)
            if asked is not None:
                outcome = Outcome.INFO if why else Outcome.OK
                self._told.append(replace(asked, told_ns=told_ns, outcome=outcome, error=why))

    def _starts(self, keys: Sequence[Key], asked_ns: int) -> dict[Key, int | None]:
        """Ask what the group has committed, and return from where to read on.

        Where it has committed nothing that is the beginning; where nobody answered, the client asks
        again by itself, and tells nobody what it heard.
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
    """Return the op that made a commit, by what the commit carries."""
    return int(metadata) if metadata and metadata.isdecimal() else None
