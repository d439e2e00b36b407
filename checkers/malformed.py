"""malformed-history: a bug of Logquake made entries of the run's record contradict each other.

Definition: an op_id or a sent value occurs twice. Two ops of one process are open at once. A
process has another op after an op with the outcome `info`. A completion is earlier than its
invocation, or has no invocation.

Why it proves something: it proves a bug of Logquake, not of the brokers. Checkers rely on two
rules: a process does one thing at a time, and values are unique. If a rule is broken, the workload
or the recording is wrong. Then the verdict cannot be better than `unknown`.

What would not prove it: an op without a completion proves nothing, because it may have been open
when the run ended.
"""

from collections.abc import Iterator

import numpy as np
import pyarrow as pa

from checkers.columns import (
    Ints,
    Mask,
    ascending,
    equal,
    ints,
    pieces,
    present,
    repeated,
    select,
    slices,
)
from checkers.findings import anomaly_at, findings, number_in, seconds
from checkers.group import Group
from checkers.protocol import Chapter, Checker, Findings, Scope
from results.record.clock import NS_PER_S
from results.record.terms import AnomalyClass, Outcome
from results.record.verdict import Anomaly, Evidence, Words

NAME = "malformed-history"
_Flaw = tuple[int, str]


def _repeated_ids(ops: pa.Table) -> list[_Flaw]:
    twice = repeated(ascending(ints(ops, "op_id")))
    return [(op_id, f"op {op_id} is recorded more than once") for op_id in twice.tolist()]


def _backward(ops: pa.Table) -> Iterator[_Flaw]:
    for piece in slices(ops, ("op_id", "invoke_ns", "complete_ns")):
        yield from _backward_in(piece)


def _backward_in(ops: pa.Table) -> list[_Flaw]:
    begun, ended = ints(ops, "invoke_ns"), ints(ops, "complete_ns")
    op_ids = ints(ops, "op_id")
    orphans = op_ids[~present(ops, "invoke_ns")].tolist()
    early = np.flatnonzero(
        present(ops, "complete_ns") & present(ops, "invoke_ns") & (ended < begun)
    )
    invoked = [f"before it was invoked at {seconds(int(begun[row]))}" for row in early]
    return [(op_id, f"op {op_id} completed but was never invoked") for op_id in orphans] + [
        (int(op_ids[row]), f"op {op_ids[row]} completed at {seconds(int(ended[row]))}, {before}")
        for row, before in zip(early, invoked, strict=True)
    ]


def _out_of_turn(ops: pa.Table) -> Iterator[_Flaw]:
    """Yield a process's ops that overlap another op, or that come after an op with `info`."""
    names = ("op_id", "process", "invoke_ns", "complete_ns", "outcome")
    for piece in pieces(ops, names, ints(ops, "process")):
        yield from _out_of_turn_in(piece)


def _out_of_turn_in(ops: pa.Table) -> list[_Flaw]:
    whole = select(ops, present(ops, "process") & present(ops, "invoke_ns"))
    process, begun, op_ids = (ints(whole, name) for name in ("process", "invoke_ns", "op_id"))
    order = np.lexsort((op_ids, begun, process))
    process, begun, op_ids = process[order], begun[order], op_ids[order]
    ended = ints(whole, "complete_ns")[order]
    unknown = equal(whole, "outcome", Outcome.INFO.value)[order]
    follows = process[1:] == process[:-1]
    after_info = _seen_before(unknown, process)[1:]
    overlap = follows & ~after_info & ((ended[:-1] > begun[1:]) | (ended[:-1] < 0))
    late = [
        (int(row) + 1, "follows an op of unknown outcome in") for row in np.flatnonzero(after_info)
    ]
    open_ = [(int(row) + 1, "was invoked during another op of") for row in np.flatnonzero(overlap)]
    return [
        (int(op_ids[row]), f"op {op_ids[row]} {what} process {process[row]}")
        for row, what in late + open_
    ]


def _seen_before(flags: Mask, process: Ints) -> Mask:
    """Return a mask of the rows after a flagged row of the same process.

    Rows are sorted by process.
    """
    before: Ints = np.cumsum(flags) - flags
    starts = np.searchsorted(process, process, side="left")
    return np.asarray(before > before[starts], dtype=np.bool_)


def _check_ops(group: Group) -> Findings:
    ops = group.table("ops")
    flaws = sorted([*_repeated_ids(ops), *_backward(ops), *_out_of_turn(ops)])
    return findings(ops.num_rows, flaws, lambda flaw: _describe(group, flaw))


def _check_values(group: Group) -> Findings:
    sends = group.table("sends")
    twice = repeated(ascending(ints(sends, "value")[present(sends, "value")]))
    flaws = [
        (value, f"{group.facts.name_of(value)} of {group.place} was sent twice")
        for value in twice.tolist()
    ]
    return findings(sends.num_rows, flaws, lambda flaw: _describe(group, flaw))


def _describe(group: Group, flaw: _Flaw) -> Anomaly:
    number, sentence = flaw
    evidence: Evidence = {"op_id": number} if group.partition < 0 else {"value": number}
    return anomaly_at(group, NAME, sentence=sentence, evidence=evidence)


_OURS = "no broker is involved"
_TIMED_OUT = frozenset({"_TIMED_OUT", "_MSG_TIMED_OUT"})
"""The librdkafka error names that a send can have only after its delivery timeout."""


def _why_value(_group: Group, _found: Anomaly) -> str:
    return f"Logquake recorded it wrongly; {_OURS}"


def _why_op(group: Group, found: Anomaly) -> str:
    ops, op_id = group.table("ops"), number_in(found, "op_id")
    mine = select(ops, equal(ops, "op_id", op_id))
    process, begun_ns = (int(ints(mine, name).max(initial=-1)) for name in ("process", "invoke_ns"))
    of_it = equal(ops, "process", process) & equal(ops, "outcome", Outcome.INFO.value)
    of_it &= present(ops, "invoke_ns")
    before = select(ops, of_it & (ints(ops, "invoke_ns") < begun_ns)).sort_by("invoke_ns")
    if process < 0 or not before.num_rows or mine.num_rows > 1:
        return _why_value(group, found)
    columns = ("op_id", "f", "error", "invoke_ns", "complete_ns")
    row = before.slice(0, 1).select(columns).to_pylist()[0]
    error = str(row["error"] or "").partition(":")[0]
    what = f"op {row['op_id']}, a {row['f']}, has an unknown outcome{f' ({error})' * bool(error)}"
    if row["complete_ns"] is None:
        return f"{what} and never ended, but Logquake continued with its process; {_OURS}"
    took_ns, limit_s = row["complete_ns"] - row["invoke_ns"], group.facts.plan.delivery_timeout_s
    if row["f"] == "send" and error in _TIMED_OUT and took_ns < limit_s * NS_PER_S:
        return (
            f"{what} after {took_ns // 1_000_000} ms, although the delivery timeout is"
            f" {limit_s:g} s: Logquake recorded that outcome wrongly; {_OURS}"
        )
    at = seconds(row["complete_ns"])
    return (
        f"{what}, since {at}: Logquake recorded that outcome wrongly, or continued with its"
        f" process; {_OURS}"
    )


OPS_CHECKER = Checker(
    name=NAME,
    why=_why_op,
    words=Words(
        one="entry of the run's record contradicts another entry",
        many="entries of the run's record contradict other entries",
        means=(
            "The run's record itself is wrong. This is a bug of Logquake, and such a record"
            " proves nothing."
        ),
    ),
    anomaly_class=AnomalyClass.HARNESS,
    tables=("ops",),
    check=_check_ops,
    premises=(),
    scope=Scope.RUN,
    compares="operations",
    chapter=Chapter.HARNESS,
    looks_for="a repeated op id; two open ops in one process; an op of a process after an op"
    " with the outcome `info`; an op that ends before it begins, or that never begins; a value"
    " that was sent twice",
)
VALUES_CHECKER = Checker(
    name=NAME,
    why=_why_value,
    words=OPS_CHECKER.words,
    anomaly_class=AnomalyClass.HARNESS,
    tables=("sends",),
    check=_check_values,
    premises=(),
    compares="sends",
    chapter=Chapter.HARNESS,
    looks_for="a repeated op id; two open ops in one process; an op of a process after an op"
    " with the outcome `info`; an op that ends before it begins, or that never begins; a value"
    " that was sent twice",
)
