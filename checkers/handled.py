"""The inputs of a pipeline, the ops that handled each input, and the fates of the transactions.

A member of a pipeline's group reads records of an input topic, and sends one value for each record.
In the same transaction, the member commits the offsets after these records. A transaction certainly
committed if its client got a successful response to the commit. The transaction also certainly
committed if a read_committed reader got any of its records (`RunFacts.witnessed`). A transaction
certainly did not commit if its sends ended with `fail`: its client never requested a commit. The
transaction also did not commit if no read_committed reader got its records, although all final
reads of the outputs were complete. This counts only if no transaction was left open at the end.
"""

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from checkers.columns import (
    NONE,
    Ints,
    Mask,
    codes,
    distinct,
    equal,
    first_match,
    ints,
    present,
    repeat,
    runs_of,
    schema_of,
    select,
    take,
    texts,
    within,
)
from checkers.facts import RunFacts
from checkers.findings import seconds
from checkers.group import Group
from checkers.group_reasons import as_leaders, coordinators
from checkers.protocol import Derivation, Labels, Premise
from checkers.reigns import GROUPS, TRANSACTIONS
from checkers.state_losses import losses
from checkers.transactions import READ_COMMITTED
from results.record.identities import groups
from results.record.milestones import OPEN
from results.record.terms import Outcome

INPUTS = schema_of(
    place=pa.string(),
    offset=pa.int64(),
    value=pa.int64(),
    op_id=pa.int64(),
    kept=pa.bool_(),
    excuse=pa.string(),
)
"""The columns of the inputs: one row for each record and each op that handled it.

If final reads show a record that no op handled, its `op_id` is -1. `kept` shows whether the log
must still hold the record. Retention may delete a record before a member handles it again. The
column `excuse` names the faults that may have removed records of the place.
"""
EFFECTS = schema_of(
    op_id=pa.int64(),
    committed=pa.bool_(),
    answered=pa.bool_(),
    aborted=pa.bool_(),
    complete=pa.bool_(),
    shown=pa.bool_(),
    invoke_ns=pa.int64(),
    complete_ns=pa.int64(),
    excuse=pa.string(),
)
"""The columns of the transactions that sent to an output.

There is one row for each op and partition. The columns show whether the transaction certainly
committed or was certainly aborted. `answered` shows whether the client got a successful response to
the commit. `complete` shows whether the final reads of that partition were
complete, and no transaction was left open. `shown` shows whether a read_committed reader got one of
the transaction's records.
"""
NAMED = 5
COMMITTED, ABORTED, UNKNOWN, NONE_AT_ALL = 1, 0, 2, -1
"""The fate of a transaction: committed, aborted or unknown. Or there was no transaction."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)  # Arrays cannot be compared with ==.
class Handled:
    """The inputs, and the ops that handled each input, sorted by place, offset and op.

    Attributes:
        rows: Rows with the columns `INPUTS`, in that order.
        fate: The fate of each row's transaction; `NONE_AT_ALL` if no op handled the input.
        cuts: The row at which each input begins, and the end of the last input.
    """

    rows: pa.Table
    fate: Ints
    cuts: Ints

    def __len__(self) -> int:
        """Return the number of inputs."""
        return len(self.cuts) - 1

    def counts(self, fate: int) -> Ints:
        """Return, for each input, the number of ops with the given fate."""
        if not len(self):
            return np.zeros(0, dtype=np.int64)
        return np.add.reduceat((self.fate == fate).astype(np.int64), self.cuts[:-1])

    def ops(self, at: int, fate: int) -> list[int]:
        """Return the ops with the given fate that handled an input, in order."""
        mine = slice(int(self.cuts[at]), int(self.cuts[at + 1]))
        ops: list[int] = ints(self.rows, "op_id")[mine][self.fate[mine] == fate].tolist()
        return ops

    def reach(self) -> Ints:
        """Return, for each input, the highest offset that a committed op handled in its place."""
        if not len(self):
            return np.zeros(0, dtype=np.int64)
        first = self.cuts[:-1]
        (place, _), offsets = codes(self.rows, "place"), ints(self.rows, "offset")
        top = np.full(int(place.max()) + 1, NONE, dtype=np.int64)
        done = self.fate == COMMITTED
        np.maximum.at(top, place[done], offsets[done])
        return np.asarray(top[place[first]], dtype=np.int64)


def inputs(group: Group) -> pa.Table:
    """Return the inputs of a partition (columns `INPUTS`).

    A partition of an output has no inputs.
    """
    handled = group.table("transforms")
    reads = group.final_polls
    reads = select(reads, equal(reads, "isolation", READ_COMMITTED) & present(reads, "offset"))
    if group.topic not in group.facts.plan.inputs:
        reads = reads.slice(0, 0)
    left = select(reads, ~within(ints(reads, "offset"), ints(handled, "offset")))
    rows = handled.num_rows + left.num_rows
    both = {
        name: np.concatenate([ints(handled, name), ints(left, name)])
        for name in ("offset", "value")
    }
    ops = np.concatenate([ints(handled, "op_id"), np.full(left.num_rows, NONE, dtype=np.int64)])
    columns = {
        **both,
        "op_id": ops,
        "place": repeat(group.place, rows),
        "kept": both["offset"] >= group.log_start,
        "excuse": repeat(_excuses(group), rows),
    }
    return pa.table(columns, schema=INPUTS)


def effects(group: Group) -> pa.Table:
    """Return the transactions that sent to an output, with the columns `EFFECTS`.

    The result has no rows if the partition is an input.
    """
    sends = group.table("sends")
    mine = group.topic not in group.facts.plan.inputs
    sends = select(sends, present(sends, "txn_id") & mine)
    ops, first = np.unique(ints(sends, "op_id"), return_index=True)
    committed = within(ops, ints(group.committed, "op_id"))
    failed, answered = (
        equal(sends, "outcome", outcome.value)[first] for outcome in (Outcome.FAIL, Outcome.OK)
    )
    reads = group.table("final_reads")
    reads = select(reads, equal(reads, "isolation", READ_COMMITTED))
    complete = bool(reads.num_rows) and bool(_is(reads, "complete").all())
    polls = group.table("polls")
    polls = select(polls, equal(polls, "isolation", READ_COMMITTED))
    shown = select(sends, within(ints(sends, "value"), ints(polls, "value")))
    # Records of an open transaction may still become visible.
    complete &= group.facts.milestone(OPEN) is None
    complete &= not group.log_start  # Retention may have deleted records before they were read.
    columns = {
        "op_id": ops,
        "committed": committed,
        "answered": answered,
        "aborted": failed & ~committed,
        "complete": np.full(len(ops), complete),
        "shown": within(ops, ints(shown, "op_id")),
        "invoke_ns": ints(sends, "invoke_ns")[first],
        "complete_ns": ints(sends, "complete_ns")[first],
        "excuse": repeat(_excuses(group), len(ops)),
    }
    return pa.table(columns, schema=EFFECTS)


def _excuses(group: Group) -> str:
    return " ".join(losses(group, GROUPS, TRANSACTIONS))


def handled(group: Group) -> Handled:
    """Return the inputs of all partitions of a run, from the derived tables."""
    return group.view(_handled)


def _handled(group: Group) -> Handled:
    rows, ops = group.derived["inputs"], group.derived["effects"]
    (place, _), offset, op_id = codes(rows, "place"), ints(rows, "offset"), ints(rows, "op_id")
    order = np.lexsort((op_id, offset, place))
    # One op counts once for an input, even if its batch has the record twice.
    order = order[runs_of(place[order], offset[order], op_id[order])[:-1]]
    rows = take(rows, order)
    known, fates = _fates(ops)
    fate = np.append(fates, UNKNOWN)[first_match(op_id[order], known)]
    return Handled(
        rows=rows,
        fate=np.where(op_id[order] == NONE, NONE_AT_ALL, fate),
        cuts=runs_of(place[order], offset[order]),
    )


def _fates(ops: pa.Table) -> tuple[Ints, Ints]:
    """Return the transactions' op ids, and the fate of each."""
    op_id = ints(ops, "op_id")
    known = distinct(op_id)
    committed = within(known, op_id[_is(ops, "committed")])
    # If all final reads were complete, a transaction that was never seen did not commit.
    unseen = bool(_is(ops, "complete").all()) & ~within(known, op_id[_is(ops, "shown")])
    without = within(known, op_id[_is(ops, "aborted")]) | unseen
    return known, np.where(committed, COMMITTED, np.where(without, ABORTED, UNKNOWN))


def _is(table: pa.Table, name: str) -> Mask:
    return equal(table, name, True)  # noqa: FBT003 - a value


def labels_of(group: Group, found: Handled, at: int, *, outputs: bool = True) -> Labels:
    """Return the excuses and broken premises for an input that took effect twice or not at all.

    Only losses of the input's partition, and of outputs of the ops that handled the input, count.

    Args:
        group: The run.
        found: The inputs.
        at: The number of the input.
        outputs: Whether losses of outputs count.
    """
    mine, ops = found.rows[int(found.cuts[at]) : int(found.cuts[at + 1])], group.derived["effects"]
    sent = select(ops, within(ints(ops, "op_id"), ints(mine, "op_id")))
    words = {*texts(mine, "excuse"), *(texts(sent, "excuse") if outputs else ())}
    broken = (Premise.WHOLE_RECORD.value,) if group.facts.cut_streams else ()
    return tuple(sorted({each for word in words for each in word.split()})), broken


def input_at(found: Handled, at: int) -> tuple[str, int, int]:
    """Return the place, the offset and the value of an input. A value of -1 means unknown."""
    row = int(found.cuts[at])
    place = texts(found.rows.slice(row, 1), "place")[0]
    return place, int(ints(found.rows, "offset")[row]), int(ints(found.rows, "value")[row])


def listed(ops: list[int]) -> str:
    """Return op ids as text for a report, at most `NAMED` of them."""
    more = len(ops) - NAMED
    return " and ".join(map(str, ops[:NAMED])) + (f" (and {more} more)" if more > 0 else "")


def coordinated(group: Group, ops: list[int]) -> str:
    """Return a clause on the coordinators of the group during the given transactions, or ""."""
    rows = group.derived["effects"]
    mine = within(ints(rows, "op_id"), np.array(ops, dtype=np.int64))
    if not mine.any():
        return ""
    name = "".join(groups(group.facts.plan)[:1])
    span = int(ints(rows, "invoke_ns")[mine].min()), int(ints(rows, "complete_ns")[mine].max())
    led = coordinators(group.facts, GROUPS, name, span)
    what = f"group {name} from {seconds(span[0])} to {seconds(span[1])}"
    if not led:
        return f"the run's record does not show which broker coordinated {what}"
    return f"{as_leaders(led)}, was the coordinator of {what}"


def applies(facts: RunFacts) -> bool:
    """Return whether a run has a pipeline."""
    return facts.plan.workload == "pipeline"


DERIVATIONS = (
    Derivation(
        name="inputs",
        schema=INPUTS,
        tables=("transforms", "polls", "leadership", "replica_states", "replica_records"),
        derive=inputs,
        applies=applies,
    ),
    Derivation(
        name="effects",
        schema=EFFECTS,
        tables=(
            "sends",
            "polls",
            "final_reads",
            "leadership",
            "replica_states",
            "replica_records",
        ),
        derive=effects,
        applies=applies,
    ),
)
