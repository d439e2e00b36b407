"""Group consecutive similar records of each replica's log in a scripted run.

A drawing shows the record at each offset, and whether another log has an equal record at this
offset. One hundred messages of one batch form one run of records, so a long log costs no more than
a short one.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from results.record.steps import LogAtStep
from results.record.values import SEQUENCE_BITS
from results.wording.inert import inert

MAX_NAME = 40
"""Maximum length of a name. A longer name is cut, and ends with an ellipsis."""
CONTROL = "control"

Identity = tuple[int | None, str, int]
"""(epoch, kind, a number that is the same for all records of a group). Two records at the same
offset are equal if their identities are equal."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """Consecutive records of one epoch.

    Attributes:
        first, last: First and last offset, both inclusive.
        epoch: Leader epoch; None if the record format has none.
        name: Name of the first record, or of all records if `number` is None.
        number: Number of the first record, if names are numbered: `message7`.
        identity: The identity that distinguishes these records from other records at the same
            offsets.
    """

    first: int
    last: int
    epoch: int | None
    name: str
    number: int | None
    identity: Identity

    def name_at(self, offset: int) -> str:
        """Return the name of the record at an offset in this run of records."""
        number = "" if self.number is None else str(self.number + offset - self.first)
        return f"{self.name}{number}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Log:
    """The log of one replica.

    Attributes:
        runs: Runs of records, by offset.
        end: Log end offset.
        start: Log start offset.
    """

    runs: tuple[Run, ...]
    end: int
    start: int = 0

    def at(self, offset: int) -> Run | None:
        """Return the run of records that contains an offset, or None."""
        return next((run for run in self.runs if run.first <= offset <= run.last), None)

    @property
    def edges(self) -> set[int]:
        """Offsets at which a run of records, or the log itself, begins or ends."""
        return {self.start, self.end} | {
            edge for run in self.runs for edge in (run.first, run.last + 1)
        }


NO_LOG = Log(runs=(), end=0)


def log_of_rows(rows: Iterable[Mapping[str, Any]], *, end: int | None, start: int | None) -> Log:
    """Return the log that consists of rows of the `replica_records` table.

    Args:
        rows: Rows of one replica in one snapshot, in any order.
        end: Log end offset; None means after the last record.
        start: Log start offset; None means 0.
    """
    records = [_record(row) for row in sorted(rows, key=lambda row: int(row["offset"]))]
    runs = joined(records)
    last = runs[-1].last + 1 if runs else 0
    return Log(runs=runs, end=last if end is None else max(end, last), start=start or 0)


def log_of_spans(log: LogAtStep) -> Log:
    """Return the log that a step's spans describe."""
    runs = tuple(
        Run(
            first=span.first,
            last=span.last,
            epoch=span.epoch,
            name=short(span.name),
            number=None,
            identity=(span.epoch, span.name, 0),
        )
        for span in log.spans
    )
    return Log(runs=runs, end=log.end, start=log.start)


def joined(records: Sequence[Run]) -> tuple[Run, ...]:
    """Join neighbouring runs of records if the second one continues the first one."""
    runs: list[Run] = []
    for record in records:
        if runs and runs[-1].identity == record.identity and runs[-1].last + 1 == record.first:
            runs[-1] = _longer(runs[-1], record.last)
        else:
            runs.append(record)
    return tuple(runs)


def short(name: str) -> str:
    """Return a name without control characters, cut to fit a box."""
    shown = inert(name)
    return shown if len(shown) <= MAX_NAME else f"{shown[: MAX_NAME - 1]}…"


def _longer(run: Run, last: int) -> Run:
    return Run(
        first=run.first,
        last=last,
        epoch=run.epoch,
        name=run.name,
        number=run.number,
        identity=run.identity,
    )


def _record(row: Mapping[str, Any]) -> Run:
    offset, epoch, value = int(row["offset"]), row["leader_epoch"], row["value"]
    known = epoch if epoch is not None and epoch >= 0 else None
    if row["control"]:
        name, number, identity = CONTROL, None, (known, CONTROL, 0)
    elif value is None:
        name, number, identity = "record", None, (known, "hash", int(row["record_hash"] or 0))
    elif value >> SEQUENCE_BITS == 1:
        number = value & ((1 << SEQUENCE_BITS) - 1)
        name, identity = "message", (known, "value", value - offset)
    else:
        name, number, identity = short(str(value)), None, (known, "other", value)
    return Run(first=offset, last=offset, epoch=known, name=name, number=number, identity=identity)
