"""The types for workloads: ops, the observations of a generator, and the clients' interfaces."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from itertools import accumulate
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from results.record.plan import Plan
from results.record.terms import (
    OUTCOME_RANK,
    AssignmentKind,
    Decision,
    GroupAct,
    Isolation,
    Outcome,
    Phase,
    ShareAct,
    TransactionOutcome,
)

Key = tuple[str, int]
"""A topic and the number of one of its partitions."""
Values = NDArray[np.int64]
Column = NDArray[np.int64] | NDArray[np.int32] | NDArray[np.int8] | Sequence[int | None]
"""A column of numbers. If every record has a number, the column is an array."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reservation:
    """The values that a worker may use: from `value_from` to `value_to - 1`."""

    value_from: int
    value_to: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Send:
    """Send consecutive values to one partition.

    Attributes:
        key: The partition.
        values: Unique in the run, ascending without a gap.
        reserved: The reservation to write before any value is sent. None if it is already written.
    """

    key: Key
    values: Values
    reserved: Reservation | None = None


class Commit(Enum):
    """The ways in which a group member commits its positions after a poll."""

    NONE = "none"
    ASYNC = "async"
    SYNC = "sync"


@dataclass(frozen=True, slots=True, kw_only=True)
class Poll:
    """Take the records that the consumer has fetched, at most `limit`, and commit the positions."""

    limit: int
    commit: Commit = Commit.NONE


@dataclass(frozen=True, slots=True, kw_only=True)
class Assign:
    """Read these partitions from now on, and each from the given offset; None means the start."""

    starts: Mapping[Key, int | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Subscribe:
    """Join the process's group, and read the partitions of these topics that the group assigns."""

    topics: Sequence[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Seek:
    """Go back in each assigned partition that the group member has read.

    Attributes:
        back: The number of records to go back. None means back to the group's committed offset.
    """

    back: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Crash:
    """End the process's consumer. The op ends as `info`, and the next process continues.

    Attributes:
        leave: Whether to leave the group. If not, the group notices the end at the session timeout.
    """

    leave: bool = True


class End(Enum):
    """The planned outcome of a transaction."""

    COMMIT = "commit"
    ABORT = "abort"
    CRASH = "crash"
    """The producer is dropped while the transaction is open. The next producer fences the old
    one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Txn:
    """One transaction.

    Attributes:
        mops: The micro-operations (sends and polls), in order.
        end: The planned end.
        commits_positions: Whether the transaction commits the reader's positions
            (`send_offsets_to_transaction`).
        pause_s: Seconds that the client pauses in the middle. The coordinator may abort the
            transaction meanwhile; the client does not check this.
        pause_after: The number of micro-operations before the pause.
        handles: Whether the transaction handles the records of a group member's last poll. It then
            sends one message for each record, in order, and commits the position after them.
    """

    mops: Sequence[Send | Poll]
    end: End = End.COMMIT
    commits_positions: bool = False
    pause_s: float = 0
    pause_after: int = 1
    handles: bool = False

    @property
    def sends(self) -> list[Send]:
        """The micro-operations that send."""
        return [mop for mop in self.mops if isinstance(mop, Send)]

    @property
    def numbers(self) -> list[int]:
        """The numbers that the micro-operations have in the record.

        A send uses one number for each message.
        """
        numbers, free = [], 0
        for mop in self.mops:
            numbers.append(free)
            free += len(mop.values) if isinstance(mop, Send) else 1
        return numbers


@dataclass(frozen=True, slots=True, kw_only=True)
class Acknowledge:
    """Acknowledge the records that a share group member has; use the types in `acts` in turn."""

    acts: Sequence[ShareAct]


Op = Send | Poll | Assign | Subscribe | Seek | Crash | Txn | Acknowledge


@dataclass(frozen=True, slots=True, kw_only=True)
class Observed:
    """The observations on which a generator may base an op.

    Attributes:
        now_ns: Nanoseconds since the run's start.
        phase: The phase of the run.
        thread: The number of the free thread, below the plan's concurrency.
        assigned: Whether the thread's process has an assignment.
        positions: For each partition, the next offset to read, as far as this thread knows.
        in_flight: For each partition, the number of this worker's open sends.
        transacting: Number of this worker's open transactions.
        unhandled: The number of records that were read, but not yet acknowledged or handled.
    """

    now_ns: int
    phase: Phase
    thread: int
    assigned: bool
    positions: Mapping[Key, int]
    in_flight: Mapping[Key, int]
    transacting: int = 0
    unhandled: int = 0


class Generator(Protocol):
    """A workload's generator: pure, with its own random stream."""

    def next_op(self, observed: Observed) -> Op:
        """Return the next op for the free process."""


class GeneratorMaker(Protocol):
    """Creates the generator of one worker."""

    def __call__(self, plan: Plan, *, worker: int, workers: int) -> Generator:
        """Return the generator of one of `workers` workers."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Workload:
    """A workload; `registry` lists all of them by name.

    Attributes:
        generator: Creates the generator of ops.
        brief: The clients' work, in a few words.
        does: The clients' work, in sentences, for the table of `docs/workloads.md`.
        finds: The anomalies that it can find, other than losses and duplicates; for the same table.
        ops: The meaning of an op, for the table of `docs/architecture.md`.
    """

    generator: GeneratorMaker
    brief: str
    does: str
    finds: str
    ops: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SendResult:
    """The results of a `Send`, in the order of its values.

    Attributes:
        offsets: The offsets; -1 means unknown.
        outcomes: The outcomes; None if all are ok.
        errors: The errors; None if all are ok.
    """

    offsets: Values
    outcomes: Sequence[Outcome] | None = None
    errors: Sequence[str | None] | None = None

    @property
    def worst(self) -> Outcome:
        """The outcome of the op: the worst outcome of its values."""
        if not self.outcomes:
            return Outcome.OK
        return max(self.outcomes, key=OUTCOME_RANK.__getitem__)

    @property
    def error(self) -> str | None:
        """The first error among the values with the worst outcome."""
        for outcome, error in zip(self.outcomes or (), self.errors or (), strict=True):
            if outcome is self.worst:
                return error
        return None


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupOffset:
    """A position in one partition that a group member committed, or that the group reported.

    Attributes:
        act: A commit, or the request for the committed offset at an assignment.
        key: The partition.
        offset: The position; None if the group has committed none, or if no response came.
        asked_ns: The earliest time of the request, in nanoseconds since the run's start.
        told_ns: The time of the response. None if no response came.
        outcome: ok or info. A second attempt may have an error although the first succeeded.
        error: The error in the response.
        op_id: The op that committed; None for a request.
        committed_by: The op whose commit the group reported.
    """

    act: GroupAct
    key: Key
    offset: int | None
    asked_ns: int
    told_ns: int | None = None
    outcome: Outcome = Outcome.INFO
    error: str | None = None
    op_id: int | None = None
    committed_by: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Rebalance:
    """The partitions that a group assigned to the consumer or revoked, as reported by a poll.

    Attributes:
        kind: Whether they were assigned or revoked. Lost partitions count as revoked.
        starts: The partitions, and the offset from which the consumer reads each; None if unknown.
        at_ns: The time, in nanoseconds since the run's start.
    """

    kind: AssignmentKind
    starts: Mapping[Key, int | None]
    at_ns: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Sought:
    """The offsets from which a member continues after a `Seek`.

    Attributes:
        starts: The offset of each partition that does not continue as before.
        at_ns: The time, in nanoseconds since the run's start.
        error: Why the client did not move all partitions; None if it did.
    """

    starts: Mapping[Key, int]
    at_ns: int
    error: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
    """The result of one poll: columns of equal length, in the order of the records.

    Attributes:
        spans: For each series of records of one partition: the partition and the number of records.
        offsets: The offset of each record.
        values: The value of each record; None if the payload is too short for a value.
        leader_epochs: The epoch of each record's batch; None if the broker sent no epoch.
        ends: If requested: the partitions whose end the poll reached, and these end offsets.
        error: Why the poll failed; None if it succeeded.
        isolation: The consumer's isolation level.
        rebalances: The changes of the consumer's assignment during the poll, in order.
        commit_error: Why the positions were not committed. The records were still read.
        damage: The damage of each record (`results.record.contents`). None if not checked.
        delivery_counts: For a share group: how often the group has delivered each record.
        acquired_after_ns: For a share group: all records were acquired after this time, in
            nanoseconds since the run's start.
    """

    spans: Sequence[tuple[Key, int]]
    offsets: Values
    values: Column
    leader_epochs: Column
    ends: dict[Key, int]
    error: str | None
    isolation: Isolation = Isolation.READ_UNCOMMITTED
    rebalances: Sequence[Rebalance] = ()
    commit_error: str | None = None
    damage: Column | None = None
    delivery_counts: Column | None = None
    acquired_after_ns: int = 0

    @property
    def positions(self) -> dict[Key, int]:
        """The offset after the last record of each partition."""
        ends = accumulate(length for _, length in self.spans)
        return {
            key: int(self.offsets[end - 1]) + 1
            for (key, _), end in zip(self.spans, ends, strict=True)
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Settled:
    """How a share group member acknowledged the records of a poll, and what the broker responded.

    Attributes:
        acts: The acknowledgement of each record, in order.
        errors: The error of each acknowledgement. None if the broker confirmed it.
        asked_ns, told_ns: The times of request and response, as nanoseconds since the run's start.
    """

    acts: Sequence[ShareAct]
    errors: Sequence[str | None]
    asked_ns: int
    told_ns: int

    @property
    def error(self) -> str | None:
        """The first error."""
        return next((each for each in self.errors if each is not None), None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Delivery:
    """The delivery report of one message.

    Attributes:
        offset: The offset; None if unknown. Records of aborted transactions have an offset, too.
        acked: Whether the brokers acknowledged the message.
        error: The error; None if acknowledged.
    """

    offset: int | None = None
    acked: bool = False
    error: str | None = "no report came"


@dataclass(frozen=True, slots=True, kw_only=True)
class TxnResult:
    """The result of a transaction.

    Attributes:
        outcome: ok if the commit succeeded; fail if an abort was decided and no commit was ever
            sent; otherwise info.
        decision: The final decision: commit or abort.
        ended: The coordinator's response.
        deliveries: A report for each message of the sends, in order, and also for unsent messages.
        batches: The results of the polls, each with the number of the micro-operation.
        error: The error; None if the outcome is ok.
    """

    outcome: Outcome
    decision: Decision
    ended: TransactionOutcome
    deliveries: Sequence[Delivery]
    batches: Sequence[tuple[int, Batch]]
    error: str | None


class Sender(Protocol):
    """A producer that many processes share, each with one op in flight."""

    fatal: bool
    """Whether the producer is broken forever and must be replaced."""

    def send(self, op: Send, done: Callable[[SendResult], None]) -> None:
        """Start an op. `done` is called exactly once, either immediately or later by `serve`."""

    def serve(self, timeout_s: float) -> None:
        """Wait for delivery reports up to a timeout, and pass them on."""

    def waiting(self) -> int:
        """Return how many messages have no delivery report yet."""


class LoneSender(Sender, Protocol):
    """A producer for a few sends."""

    def check_reachable(self, topic: str, *, timeout_s: float) -> None:
        """Request the topic's metadata. If they do not come in time, raise `ConnectionError`."""

    def close(self) -> None:
        """End the producer at once. Messages that wait for a delivery report will not get it."""


class Reader(Protocol):
    """The consumer of one process."""

    def assign(self, starts: Mapping[Key, int | None]) -> str | None:
        """Start to read the given partitions. Return the error, or None."""

    def poll(self, limit: int, timeout_s: float = 0) -> Batch:
        """Return the fetched records. Wait for the first record up to a timeout."""

    def membership(self) -> object:
        """Return this reader's group identity, which a transaction needs to commit positions."""

    def close(self) -> None:
        """Close the consumer at once."""


class Member(Reader, Protocol):
    """A consumer that can be a group member."""

    group_id: str

    def subscribe(self, topics: Sequence[str]) -> str | None:
        """Join the group; return the error, if there is one."""

    def commit(self, positions: Mapping[Key, int], *, op_id: int, wait: bool) -> str | None:
        """Commit positions; if `wait` is set, wait for the response. Return the error, or None."""

    def seek(self, back: int | None) -> Sought:
        """Go back by `back` records; None means back to the group's committed offsets."""

    def told(self, *, last: bool = False) -> list[GroupOffset]:
        """Return commits that ended, and committed offsets that were fetched, since the last call.

        Args:
            last: Whether the member is no longer used. Then also return commits without a response.
        """

    def abandon(self) -> None:
        """End without leaving the group. The group notices this at the session timeout."""


class Sharer(Member, Protocol):
    """A consumer that is a share group member."""

    def acknowledge(self, batch: Batch, acts: Sequence[ShareAct]) -> Settled:
        """Acknowledge the records of the last poll, and wait for the response."""


class Transactor(Protocol):
    """A transactional producer of one thread. Its calls block, so they run in a separate task."""

    transactional_id: str

    def transact(self, op: Txn, reader: Reader, starts: Mapping[Key, int]) -> TxnResult:
        """Execute a transaction.

        Args:
            op: The transaction.
            reader: The process's consumer. During this call, no other code uses it.
            starts: The consumer's positions before the transaction.
        """
