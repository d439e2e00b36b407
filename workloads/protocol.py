"""What a workload is made of: ops, what a generator may look at, and the clients it drives."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from results.record.terms import OUTCOME_RANK, Outcome, Phase

Key = tuple[str, int]
"""A topic and a partition of it."""
Values = NDArray[np.int64]
Column = NDArray[np.int64] | NDArray[np.int32] | Sequence[int | None]
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Poll:
    """Take what the consumer has fetched, `limit` records at most."""

    limit: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Assign:
    """Read these partitions from now on, each from its offset (None: from its beginning)."""

    starts: Mapping[Key, int | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Crash:
    """Throw the process's consumer away; the op ends as info, and the next process takes over."""


Op = Send | Poll | Assign | Crash


@dataclass(frozen=True, slots=True, kw_only=True)
class Observed:
    """What a generator may look at when it gives an op.

    Attributes:
        now_ns: Nanoseconds since the run's start.
        phase: The phase of the run.
        thread: The number of the thread that is free, below the plan's concurrency.
        assigned: Whether its process has an assignment.
        positions: The next offset to read, by partition, as far as this thread knows.
        in_flight: Ops of this worker that are sending, by partition.
    """

    now_ns: int
    phase: Phase
    thread: int
    assigned: bool
    positions: Mapping[Key, int]
    in_flight: Mapping[Key, int]


class Generator(Protocol):
    """A workload: pure, with a random stream of its own."""

    def next_op(self, observed: Observed) -> Op:
        """Return the next op for the process that is free."""


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
        return max(self.outcomes or [Outcome.OK], key=OUTCOME_RANK.__getitem__)

    @property
    def error(self) -> str | None:
        """The first error of an op whose outcome is the worst one."""
        for outcome, error in zip(self.outcomes or (), self.errors or (), strict=True):
            if outcome is self.worst:
                return error
        return None


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
    """

    spans: Sequence[tuple[Key, int]]
    offsets: Values
    values: Column
    leader_epochs: Column
    ends: dict[Key, int]
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


class Reader(Protocol):
    """A consumer of one process."""

    def assign(self, starts: Mapping[Key, int | None]) -> str | None:
        """Read these partitions from now on; return the error, if there is one."""

    def poll(self, limit: int, timeout_s: float = 0) -> Batch:
        """Return what was fetched, waiting for the first record at most that long."""

    def close(self) -> None:
        """Leave without ceremony."""
