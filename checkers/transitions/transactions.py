"""Find out how transactions ended. Each end is counted for the partition of the coordinator.

The sources are `transactions` (the client's decision and the coordinator's answer) and their `ops`
(start, end and error). A transaction that lasted longer than the plan's timeout is late: the
coordinator was allowed to abort this transaction.

If a client discards a producer, that producer's transaction stays open until the coordinator aborts
it. The transaction also ends when the next producer with the same transactional id begins. Clients
discard producers on purpose. Clients also discard a producer after a send timed out, except if the
plan lets the clients continue.

What would not prove it: a late transaction may have committed, if the client did not learn the
outcome and no reader received a record of the transaction. A coordinator may not know a transaction
whose sends timed out. If a run died, it is unknown how long the last transaction stayed open.
"""

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from checkers.columns import (
    NEVER,
    Ints,
    Mask,
    codes,
    equal,
    first_match,
    ints,
    joined,
    order_of,
    rows_at,
    select,
    slices,
)
from checkers.group import Group
from checkers.reigns import TRANSACTIONS, partition_of
from checkers.transitions.events import Places, end_of_run_ns
from checkers.transitions.refusals import error_of
from results.record.clock import NS_PER_S
from results.record.terms import Decision, F, TransactionOutcome

_THROWN = "thrown away"
_TIMED_OUT = ("were not answered", "_MSG_TIMED_OUT:", "TimeoutException: Expiring")
"""If the error of a send contains one of these texts, the client discards the producer."""


def find(group: Group, places: Places) -> None:
    """Add the ends of a run's transactions to the transitions in `places`."""
    rows = group.table("transactions")
    if not rows.num_rows:
        return
    rows = _timed(rows.select(["op_id", "transactional_id", "decision", "outcome"]), group)
    known = group.facts.reigns
    numbers, ids = codes(rows, "transactional_id")
    for at, transactional_id in enumerate(ids):
        partition = partition_of(known, TRANSACTIONS, transactional_id)
        events = places.at(TRANSACTIONS, partition) if partition >= 0 else places.at("")
        mine = select(rows, np.asarray(numbers == at))
        for name, times in _endings(group, mine):
            events.add_all(f"transaction/{name}", times)


def _timed(rows: pa.Table, group: Group) -> pa.Table:
    """Return the transactions, each with the times and the error of its op."""
    names = ("f", "op_id", "invoke_ns", "complete_ns", "error")
    pieces = slices(group.table("ops"), names)
    ops = joined([select(each, equal(each, "f", F.TXN)).select(names[1:]) for each in pieces])
    at = first_match(ints(rows, "op_id"), ints(ops, "op_id"))
    for name in names[2:]:
        rows = rows.append_column(name, rows_at(ops, name, at))
    return rows


def _endings(group: Group, rows: pa.Table) -> Sequence[tuple[str, Ints]]:
    """Return how and when the transactions of one transactional id ended."""
    begun, ended = ints(rows, "invoke_ns"), ints(rows, "complete_ns")
    commit = equal(rows, "decision", Decision.COMMIT)
    abort = equal(rows, "decision", Decision.ABORT)
    committed = equal(rows, "outcome", TransactionOutcome.COMMITTED)
    aborted = equal(rows, "outcome", TransactionOutcome.ABORTED)
    unknown = equal(rows, "outcome", TransactionOutcome.UNKNOWN)
    timeout_ns = int(group.facts.plan.transaction_timeout_s * NS_PER_S)
    late = (begun >= 0) & (ended >= begun) & (ended - begun > timeout_ns)
    shown = np.isin(ints(rows, "op_id"), np.array(sorted(group.facts.witnessed), dtype=np.int64))
    errors = _Errors(rows)
    left = errors.say(_THROWN)
    left |= abort & errors.say(*() if group.facts.plan.goes_on else _TIMED_OUT)
    left &= unknown & ~late
    to_timeout, to_successor = _left(begun, left, timeout_ns, end_of_run_ns(group.facts))
    masks = (
        ("committed", committed & ~late),
        ("committed-late", committed & late),
        ("timed-out", late & ~committed & ~shown),
        ("aborted", abort & aborted & ~late & errors.none),
        ("aborted-after-error", abort & aborted & ~late & ~errors.none),
        ("commit-failed", commit & aborted & ~late),
        ("commit-unknown", commit & unknown & ~(late & ~shown)),
        ("abort-unknown", abort & unknown & ~late & ~left),
        ("left-to-timeout", to_timeout),
        ("left-to-successor", to_successor),
    )
    return [(name, ended[mask]) for name, mask in masks]


class _Errors:
    """The errors of ops, as masks over the rows."""

    def __init__(self, rows: pa.Table) -> None:
        self._numbers, self._words = codes(rows, "error")
        self.none = self._where([error_of(text) is None for text in self._words], missing=True)

    def say(self, *words: str) -> Mask:
        """Return a mask of the rows whose error contains one of the given texts."""
        return self._where([any(each in text for each in words) for text in self._words])

    def _where(self, those: list[bool], *, missing: bool = False) -> Mask:
        return np.asarray(np.array([*those, missing], dtype=np.bool_)[self._numbers])


def _left(begun: Ints, left: Mask, timeout_ns: int, end_ns: int) -> tuple[Mask, Mask]:
    """Return two masks: open transactions that a timeout ended, and that the next producer ended.

    Args:
        begun: When each transaction of a transactional id began.
        left: The transactions that were left open.
        timeout_ns: The transaction timeout.
        end_ns: When the run's brokers were stopped. `NEVER` or later if unknown.
    """
    order = order_of(begun)
    following = np.full(len(begun), end_ns if end_ns < NEVER else 0, dtype=np.int64)
    following[order[:-1]] = begun[order[1:]]
    last = np.zeros(len(begun), dtype=np.bool_)
    last[order[-1:]] = True
    waited = following - begun > timeout_ns
    known = left & (begun >= 0)
    return known & waited, known & ~waited & ~last
