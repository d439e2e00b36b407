"""What became of inputs: steps of the changes to the base `pipeline`."""

from results.record.terms import F, Outcome
from tests.broken.corpus import Spot
from tests.broken.record import Record, Row
from tests.broken.transactional import Transaction, end, nearest, transaction_of

_UNANSWERED = "_TIMED_OUT: Transaction EndTxn request timed out"


def inputs_of(record: Record, op_id: int) -> set[tuple[str, int, int]]:
    """Return the inputs that a transaction handled: topic, partition and offset of each."""
    return {
        (row["topic"], row["partition"], row["offset"])
        for row in record.rows("transforms", op_id=op_id)
    }


def by_committed(record: Record) -> set[tuple[str, int, int]]:
    """Return the inputs that transactions handled whose clients were told that they committed."""
    ok = {row["op_id"] for row in record.rows("transactions", outcome="committed")}
    return {
        (row["topic"], row["partition"], row["offset"])
        for row in record.rows("transforms")
        if row["op_id"] in ok
    }


def handled_again(record: Record) -> set[int]:
    """Return the aborted transactions whose inputs committed ones handled, too."""
    done = by_committed(record)
    failed = {row["op_id"] for row in record.rows("transactions", decision="abort")}
    return {op_id for op_id in failed if (mine := inputs_of(record, op_id)) and mine <= done}


def never_answered(record: Record, op_id: int) -> None:
    """Have a client ask for the commit of what it aborted, and get no answer."""
    end(record, {op_id}, Outcome.INFO, _UNANSWERED)
    for row in record.rows("transactions", op_id=op_id):
        row["decision"], row["outcome"] = "commit", "unknown"


def aborted(record: Record, spot: Spot) -> Transaction:
    """Return an aborted transaction whose inputs a committed one handled, too."""
    again = handled_again(record)

    def wanted(each: Transaction) -> Row | None:
        acked = all(send["offset"] is not None for send in each.sends)
        return each.sends[0] if each.op["op_id"] in again and each.sends and acked else None

    return transaction_of(record, nearest(record, spot, wanted, outcome=Outcome.INFO))


def committed(record: Record, spot: Spot, *, last: bool = False) -> Transaction:
    """Return a committed transaction whose inputs lie below what others handled.

    Args:
        record: The run.
        spot: In whose moment.
        last: Whether its process did nothing more, and was then thrown away.
    """
    top: dict[tuple[str, int], int] = {}
    for topic, partition, at in by_committed(record):
        top[topic, partition] = max(at, top.get((topic, partition), at))

    def wanted(each: Transaction) -> Row | None:
        mine = inputs_of(record, each.op["op_id"])
        inside = mine and all(at < top[topic, part] for topic, part, at in mine)
        fits = inside and (not last or _later(record, each.op) == [F.CRASH.value])
        return each.sends[0] if fits else None

    return transaction_of(record, nearest(record, spot, wanted))


def _later(record: Record, op: Row) -> list[str]:
    mine = record.rows("ops", process=op["process"])
    return [row["f"] for row in mine if row["op_id"] > op["op_id"]]
