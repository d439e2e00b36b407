"""Pipelines of which an input took effect twice, or never."""

from results.record.terms import F, Outcome
from tests.broken.corpus import Spot, broken, innocent, spot_of
from tests.broken.record import Record, Row
from tests.broken.transactional import (
    Transaction,
    abort,
    end,
    hide,
    nearest,
    show,
    transaction_of,
)

_UNANSWERED = "_TIMED_OUT: Transaction EndTxn request timed out"


def _inputs(record: Record, op_id: int) -> set[tuple[str, int, int]]:
    """Return the inputs that a transaction handled: topic, partition and offset of each."""
    return {
        (row["topic"], row["partition"], row["offset"])
        for row in record.rows("transforms", op_id=op_id)
    }


def _by_committed(record: Record) -> set[tuple[str, int, int]]:
    """Return the inputs that transactions handled whose clients were told that they committed."""
    ok = {row["op_id"] for row in record.rows("transactions", outcome="committed")}
    return {
        (row["topic"], row["partition"], row["offset"])
        for row in record.rows("transforms")
        if row["op_id"] in ok
    }


def _handled_again(record: Record) -> set[int]:
    """Return the aborted transactions whose inputs committed ones handled, too."""
    done = _by_committed(record)
    failed = {row["op_id"] for row in record.rows("transactions", decision="abort")}
    return {op_id for op_id in failed if (mine := _inputs(record, op_id)) and mine <= done}


def _unanswered(record: Record, op_id: int) -> None:
    """Have a client ask for the commit of what it aborted, and get no answer."""
    end(record, {op_id}, Outcome.INFO, _UNANSWERED)
    for row in record.rows("transactions", op_id=op_id):
        row["decision"], row["outcome"] = "commit", "unknown"


def _aborted(record: Record, spot: Spot) -> Transaction:
    again = _handled_again(record)

    def wanted(each: Transaction) -> Row | None:
        acked = all(send["offset"] is not None for send in each.sends)
        return each.sends[0] if each.op["op_id"] in again and each.sends and acked else None

    return transaction_of(record, nearest(record, spot, wanted, outcome=Outcome.INFO))


def _committed(record: Record, spot: Spot, *, last: bool = False) -> Transaction:
    """Return a committed transaction whose inputs lie below what others handled.

    Args:
        record: The run.
        spot: In whose moment.
        last: Whether its process did nothing more, and was then thrown away.
    """
    top: dict[tuple[str, int], int] = {}
    for topic, partition, at in _by_committed(record):
        top[topic, partition] = max(at, top.get((topic, partition), at))

    def wanted(each: Transaction) -> Row | None:
        mine = _inputs(record, each.op["op_id"])
        inside = mine and all(at < top[topic, part] for topic, part, at in mine)
        fits = inside and (not last or _later(record, each.op) == [F.CRASH.value])
        return each.sends[0] if fits else None

    return transaction_of(record, nearest(record, spot, wanted))


def _later(record: Record, op: Row) -> list[str]:
    mine = record.rows("ops", process=op["process"])
    return [row["f"] for row in mine if row["op_id"] > op["op_id"]]


@broken("repeated-input", row="transactions", base="pipeline")
def a_member_that_was_replaced_commits_all_the_same(record: Record, spot: Spot) -> None:
    """KIP-447 has the coordinator refuse it by its generation."""
    late = _aborted(record, spot)
    _unanswered(record, late.op["op_id"])
    for send in late.sends:
        show(record, spot_of(record, send))


@broken("skipped-input", row="transactions", base="pipeline")
def a_coordinator_keeps_the_positions_of_an_aborted_transaction(record: Record, spot: Spot) -> None:
    gone = _committed(record, spot)
    abort(record, spot_of(record, gone.sends[0]))


@broken("skipped-input", row="transactions", base="pipeline")
def positions_of_a_commit_without_an_answer_are_kept_and_its_records_are_not(
    record: Record, spot: Spot
) -> None:
    gone = _committed(record, spot, last=True)
    hide(record, gone.sends)
    _unanswered(record, gone.op["op_id"])
    process = gone.op["process"]
    record.drop("ops", lambda row: row["op_id"] > gone.op["op_id"], process=process)


@innocent(base="pipeline")
def a_commit_without_an_answer_had_no_effect_and_is_done_again(record: Record, spot: Spot) -> None:
    _unanswered(record, _aborted(record, spot).op["op_id"])


@innocent(base="pipeline")
def the_last_transaction_of_a_pipeline_has_no_effect(record: Record, spot: Spot) -> None:
    """Nobody went on behind what it handled, so that whoever comes next does."""
    done = _by_committed(record)
    last = max(
        (row for row in record.rows("transactions", outcome="committed")
         if _inputs(record, row["op_id"])),
        key=lambda row: max(at for _, _, at in _inputs(record, row["op_id"])),
    )  # fmt: skip
    assert _inputs(record, last["op_id"]) <= done
    (first, *_) = record.rows("sends", op_id=last["op_id"])
    del spot
    abort(record, spot_of(record, first))
