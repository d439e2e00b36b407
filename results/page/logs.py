"""The logs of a story's replicas, as runs of records that need no telling apart.

A drawing asks a log what lies at an offset, and whether that is what lay there before, or lies at
another replica. A hundred messages of one batch are one run, so a long log costs no more than a
short one.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from results.record.steps import LogAtStep
from results.record.values import SEQUENCE_BITS
from results.wording.inert import inert

MAX_NAME = 40
"""A longer name is cut off, with an ellipsis."""
CONTROL = "control"

Identity = tuple[int | None, str, int]
"""Epoch, kind, and what is constant along a run: equal of two offsets' records if they are one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """Records side by side, of one epoch.

    Attributes:
        first, last: Offsets, both inclusive.
        epoch: Leader epoch; None: the format knows none.
        name: Of the first record, or of all if `number` is None.
        number: Of the first record, where names are numbered: `message7`.
        identity: What tells the records at the run's offsets from others at the same offsets.
    """

    first: int
    last: int
    epoch: int | None
    name: str
    number: int | None
    identity: Identity

    def name_at(self, offset: int) -> str:
        """Return the name of the record at an offset of the run."""
        number = "" if self.number is None else str(self.number + offset - self.first)
        return f"{self.name}{number}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Log:
    """One replica's log.

    Attributes:
        runs: By offset.
        end: Log end offset.
        start: Log start offset.
    """

    runs: tuple[Run, ...]
    end: int
    start: int = 0

    def at(self, offset: int) -> Run | None:
        """Return the run that an offset belongs to."""
        return next((run for run in self.runs if run.first <= offset <= run.last), None)

    @property
    def edges(self) -> set[int]:
        """Offsets at which something begins or ends."""
        return {self.start, self.end} | {
            edge for run in self.runs for edge in (run.first, run.last + 1)
        }


NO_LOG = Log(runs=(), end=0)


def log_of_rows(rows: Iterable[Mapping[str, Any]], *, end: int | None, start: int | None) -> Log:
    """Return the log that rows of `replica_records` make up.

    Args:
        rows: Of one replica in one snapshot, in any order.
        end: Log end offset; None: behind the last record.
        start: Log start offset; None: 0.
    """
    records = [_record(row) for row in sorted(rows, key=lambda row: int(row["offset"]))]
    runs = joined(records)
    last = runs[-1].last + 1 if runs else 0
    return Log(runs=runs, end=last if end is None else max(end, last), start=start or 0)


def log_of_spans(log: LogAtStep) -> Log:
    """Return a log that its step describes by spans."""
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
    """Return runs with neighbours joined where the second goes on as the first does."""
    runs: list[Run] = []
    for record in records:
        if runs and runs[-1].identity == record.identity and runs[-1].last + 1 == record.first:
            runs[-1] = _longer(runs[-1], record.last)
        else:
            runs.append(record)
    return tuple(runs)


def short(name: str) -> str:
    """Return a name that fits a box, and is harmless to look at."""
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
