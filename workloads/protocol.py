"""What a workload is made of: ops, what a generator may look at, and the clients it drives."""

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
"""A topic and a partition of it."""
Values = NDArray[np.int64]
Column = NDArray[np.int64] | NDArray[np.int32] | NDArray[np.int8] | Sequence[int | None]
"""An array where every record has a number."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reservation:
    """Values that a worker may use: `value_from` up to, and without, `value_to`."""

    value_from: int
    value_to: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Send:
    """Send consecutive values to one partition.

    Attributes:
        key: Where to.
        values: Each used once in a run, ascending without a gap.
        reserved: To be on disk before any of the values leaves; None if that was written earlier.
    """

    key: Key
    values: Values
    reserved: Reservation | None = None


class Commit(Enum):
    """What a member of a group does with its positions after a poll."""

    NONE = "none"
    ASYNC = "async"
    SYNC = "sync"


@dataclass(frozen=True, slots=True, kw_only=True)
class Poll:
    """Take what the consumer has fetched, `limit` records at most, and commit the positions."""

    limit: int
    commit: Commit = Commit.NONE


@dataclass(frozen=True, slots=True, kw_only=True)
class Assign:
    """Read these partitions from now on, each from its offset (None: from its beginning)."""

    starts: Mapping[Key, int | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Subscribe:
    """Join the process's group, and read whatever partitions of these topics it is given."""

    topics: Sequence[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Seek:
    """Read again, as a member of a group, from each partition that it was given and has read.

    Attributes:
        back: So many records before its position; None: from what its group has committed.
    """

    back: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Crash:
    """Throw the process's consumer away; the op ends as info, and the next process takes over.

    Attributes:
        leave: Whether a group is told; otherwise it learns of it by the session's timeout.
    """

    leave: bool = True


class End(Enum):
    """How a transaction is meant to end."""

    COMMIT = "commit"
    ABORT = "abort"
    CRASH = "crash"
    """Its producer is thrown away with the transaction open, and fenced by the next one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Txn:
    """One transaction.

    Attributes:
        mops: What it does, in order.
        end: How it is meant to end.
        commits_positions: Whether what it read becomes a part of it
            (`send_offsets_to_transaction`).
        pause_s: How long the client does nothing in the middle, in seconds. The coordinator may
            abort the transaction meanwhile; the client goes on as if it did not know.
        pause_after: So many mops come before the pause.
        handles: Whether it handles what its process, a member of a group, read last: its sends
            have a value for each of those records, in order, and their positions become a part
            of it.
    """

    mops: Sequence[Send | Poll]
    end: End = End.COMMIT
    commits_positions: bool = False
    pause_s: float = 0
    pause_after: int = 1
    handles: bool = False

    @property
    def sends(self) -> list[Send]:
        """Those of its mops that send."""
        return [mop for mop in self.mops if isinstance(mop, Send)]

    @property
    def numbers(self) -> list[int]:
        """The number of each mop in the record: a send takes as many as it has values."""
        numbers, free = [], 0
        for mop in self.mops:
            numbers.append(free)
            free += len(mop.values) if isinstance(mop, Send) else 1
        return numbers


@dataclass(frozen=True, slots=True, kw_only=True)
class Acknowledge:
    """Say what becomes of each record that a member of a share group holds: `acts` take turns."""

    acts: Sequence[ShareAct]


Op = Send | Poll | Assign | Subscribe | Seek | Crash | Txn | Acknowledge


@dataclass(frozen=True, slots=True, kw_only=True)
class Observed:
    """What a generator may look at when it gives an op.

    Attributes:
        now_ns: Nanoseconds since the run's start.
        phase: The phase of the run.
        thread: The number of the thread that is free, below the plan's concurrency.
        assigned: Whether its process has an assignment.
        positions: The next offset to read, by partition, as far as this thread knows.
        in_flight: Sends of this worker that have not ended, by partition.
        transacting: How many transactions of this worker have not ended.
        unhandled: How many records it has read that no transaction has handled, or nobody settled.
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
    """A workload: pure, with a random stream of its own."""

    def next_op(self, observed: Observed) -> Op:
        """Return the next op for the process that is free."""


class GeneratorMaker(Protocol):
    """Makes the generator of one worker."""

    def __call__(self, plan: Plan, *, worker: int, workers: int) -> Generator:
        """Return the ops of one of so many workers."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Workload:
    """What can be asked of clients; `registry` lists all by name.

    Attributes:
        generator: Makes its ops.
        brief: What clients do, in a few words.
        does: The same in sentences, for the table of `docs/workloads.md`.
        finds: What it can find beside losses and duplicates, for that table.
        ops: What an op is, for the table of `docs/architecture.md`.
    """

    generator: GeneratorMaker
    brief: str
    does: str
    finds: str
    ops: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SendResult:
    """What came of a `Send`, in the order of its values.

    Attributes:
        offsets: -1 where none is known.
        outcomes: None if all are ok.
        errors: None if all are ok.
    """

    offsets: Values
    outcomes: Sequence[Outcome] | None = None
    errors: Sequence[str | None] | None = None

    @property
    def worst(self) -> Outcome:
        """The outcome of the op."""
        if not self.outcomes:
            return Outcome.OK
        return max(self.outcomes, key=OUTCOME_RANK.__getitem__)

    @property
    def error(self) -> str | None:
        """The first error of an op whose outcome is the worst one."""
        for outcome, error in zip(self.outcomes or (), self.errors or (), strict=True):
            if outcome is self.worst:
                return error
        return None


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupOffset:
    """What a member told its group's coordinator of a partition's position, or was told.

    Attributes:
        act: A commit, or the question at an assignment.
        key: The partition.
        offset: The position; None if the group has committed none, or the question got no answer.
        asked_ns: When the request left at the earliest, in nanoseconds since the run's start.
        told_ns: When the answer was taken; None if none came.
        outcome: ok, or info: an error may be that of a second try, after a first that was heard.
        error: The answer's.
        op_id: Of the op that committed; None of a question.
        committed_by: The op that made the commit that a question was answered with.
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
    """What a poll was told of its group: partitions that were given to the consumer, or taken.

    Attributes:
        kind: Assigned or revoked; a partition that was lost is revoked too.
        starts: Which; and from where the consumer reads them on, None if nobody told it yet.
        at_ns: When, in nanoseconds since the run's start.
    """

    kind: AssignmentKind
    starts: Mapping[Key, int | None]
    at_ns: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Sought:
    """From where a member reads on after a `Seek`.

    Attributes:
        starts: Offsets, by partition; none of a partition that it reads on as before.
        at_ns: When, in nanoseconds since the run's start.
        error: Why the client did not move, or not in each of them; None if it did.
    """

    starts: Mapping[Key, int]
    at_ns: int
    error: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
    """What one poll returned: columns of equal length, in the order of the records.

    Attributes:
        spans: Partitions, each with how many records of it follow one another.
        offsets: The offset of each record.
        values: Its value; None where the payload is too short to hold one.
        leader_epochs: The epoch of its batch; None where the broker did not say.
        ends: Partitions whose end was reached, with the end (only if asked for).
        error: Why the poll did not end well, None if it did.
        isolation: The consumer's.
        rebalances: What happened to its assignment meanwhile, in order.
        commit_error: Why its positions were not committed; the records were read all the same.
        damage: What of each record is not as it was sent (`results.record.contents`); None: nobody
            looked.
        delivery_counts: Of a share group: how often it has delivered each record.
        acquired_after_ns: Then: none was acquired before, in nanoseconds since the run's start.
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
    """What a member of a share group said of the records of its last poll, and was answered.

    Attributes:
        acts: What became of each, in order.
        errors: Of each; None if the broker confirmed it.
        asked_ns, told_ns: When, in nanoseconds since the run's start.
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
    """What the delivery report of one value said.

    Attributes:
        offset: None where none is known; records of aborted transactions have one too.
        acked: Whether the brokers took it.
        error: None if they did.
    """

    offset: int | None = None
    acked: bool = False
    error: str | None = "no report came"


@dataclass(frozen=True, slots=True, kw_only=True)
class TxnResult:
    """What came of a transaction.

    Attributes:
        outcome: ok if its commit succeeded, fail if its abort was decided and no commit was ever
            sent, otherwise info.
        decision: What was decided in the end.
        ended: What the coordinator answered.
        deliveries: Of the values of all sends, in order; of those that were never handed over too.
        batches: Of the polls that were done, each with the number of its mop.
        error: None if it is ok.
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
    """Whether it can never send again, and must be replaced."""

    def send(self, op: Send, done: Callable[[SendResult], None]) -> None:
        """Start an op; `done` is called from `serve` or at once, exactly one time."""

    def serve(self, timeout_s: float) -> None:
        """Wait for reports, at most that long, and hand them on."""

    def waiting(self) -> int:
        """Return how many messages have no report yet."""


class LoneSender(Sender, Protocol):
    """A producer of a few sends, made for them."""

    def check_reachable(self, topic: str, *, timeout_s: float) -> None:
        """Ask for the topic's metadata; raises `ConnectionError` if they do not come in time."""

    def close(self) -> None:
        """End it at once; of messages without a report none will come."""


class Reader(Protocol):
    """A consumer of one process."""

    def assign(self, starts: Mapping[Key, int | None]) -> str | None:
        """Read these partitions from now on; return the error, if there is one."""

    def poll(self, limit: int, timeout_s: float = 0) -> Batch:
        """Return what was fetched, waiting for the first record at most that long."""

    def membership(self) -> object:
        """Return what a transaction needs to commit this reader's positions."""

    def close(self) -> None:
        """Leave without ceremony."""


class Member(Reader, Protocol):
    """A consumer that can belong to a group."""

    group_id: str

    def subscribe(self, topics: Sequence[str]) -> str | None:
        """Join the group; return the error, if there is one."""

    def commit(self, positions: Mapping[Key, int], *, op_id: int, wait: bool) -> str | None:
        """Commit positions, and wait for the answer or not; return the error, if there is one."""

    def seek(self, back: int | None) -> Sought:
        """Read again what the group has not committed, or so many records."""

    def told(self, *, last: bool = False) -> list[GroupOffset]:
        """Return the group's positions, as committed and as told, since this was asked before.

        Args:
            last: Whether the member is not used any more: also what was not answered.
        """

    def abandon(self) -> None:
        """Vanish: the group learns of it by the session's timeout."""


class Sharer(Member, Protocol):
    """A consumer that belongs to a share group."""

    def acknowledge(self, batch: Batch, acts: Sequence[ShareAct]) -> Settled:
        """Say what becomes of the records of the last poll, and wait for the answer."""


class Transactor(Protocol):
    """A transactional producer of one thread. It waits, so it is called aside of the loop."""

    transactional_id: str

    def transact(self, op: Txn, reader: Reader, starts: Mapping[Key, int]) -> TxnResult:
        """Carry a transaction out.

        Args:
            op: What to do.
            reader: The process's consumer; nobody else uses it meanwhile.
            starts: Its positions before.
        """
