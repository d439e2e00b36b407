"""malformed-history: the record contradicts itself; the harness's own anomaly.

Definition: an op_id twice, two open ops in a process, an op after the process's info, a completion
before its invocation (or without one), a value sent twice.

Why it proves something: about us, not the brokers. Everything that checkers conclude about order
and identity rests on a process doing one thing at a time and on values being unique. If that is not
so, the workload or the recording is at fault, and the verdict can be unknown at best.

What would not prove it: an op without a completion, which is an op that was open when the run
ended.
"""

import numpy as np
import pyarrow as pa

from checkers.columns import Ints, Mask, equal, ints, present, repeated, select
from checkers.findings import anomaly_at, findings, seconds
from checkers.group import Group
from checkers.protocol import Checker, Findings, Scope
from results.record.terms import AnomalyClass, Outcome
from results.record.verdict import Anomaly, Words

NAME = "malformed-history"
_Flaw = tuple[int, str]


def _repeated_ids(ops: pa.Table) -> list[_Flaw]:
    twice = repeated(np.sort(ints(ops, "op_id")))
    return [(op_id, f"op {op_id} is recorded more than once") for op_id in twice.tolist()]


def _backward(ops: pa.Table) -> list[_Flaw]:
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


def _out_of_turn(ops: pa.Table) -> list[_Flaw]:
    """Ops of a process that overlap, or that follow its info."""
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
    """Tell for each row if an earlier row of its process is flagged; rows are by process."""
    before: Ints = np.cumsum(flags) - flags
    starts = np.searchsorted(process, process, side="left")
    return np.asarray(before > before[starts], dtype=np.bool_)


def _check_ops(group: Group) -> Findings:
    ops = group.table("ops")
    flaws = sorted(_repeated_ids(ops) + _backward(ops) + _out_of_turn(ops))
    return findings(ops.num_rows, flaws, lambda flaw: _describe(group, flaw))


def _check_values(group: Group) -> Findings:
    sends = group.table("sends")
    twice = repeated(np.sort(ints(sends, "value")[present(sends, "value")]))
    flaws = [
        (value, f"{group.facts.name_of(value)} of {group.place} was sent twice")
        for value in twice.tolist()
    ]
    return findings(sends.num_rows, flaws, lambda flaw: _describe(group, flaw))


def _describe(group: Group, flaw: _Flaw) -> Anomaly:
    number, sentence = flaw
    key = "op_id" if group.partition < 0 else "value"
    return anomaly_at(group, NAME, sentence=sentence, evidence={key: number})


def _why(_group: Group, _found: Anomaly) -> str:
    return "Logquake recorded it wrongly; no broker has a part in it"


OPS_CHECKER = Checker(
    name=NAME,
    why=_why,
    words=Words(
        one="entry of the record contradicts another",
        many="entries of the record contradict others",
        means="The record itself is wrong, which is a bug of Logquake; nothing is proved by it.",
    ),
    anomaly_class=AnomalyClass.HARNESS,
    tables=("ops",),
    check=_check_ops,
    premises=(),
    scope=Scope.RUN,
    compares="operations",
)
VALUES_CHECKER = Checker(
    name=NAME,
    why=_why,
    words=OPS_CHECKER.words,
    anomaly_class=AnomalyClass.HARNESS,
    tables=("sends",),
    check=_check_values,
    premises=(),
    compares="sends",
)
