"""Records behind the end of their own transaction: what shows it, and what only looks like it."""

import pytest

from checkers import aborted_read
from checkers.protocol import Proved
from tests.checkers.faithful_clients import Row
from tests.checkers.partition_rows import A, B, C, S, facts, group, leads, log, read, reason, state


def marker(offset: int, *, epoch: int = 0) -> Row:
    return {"snapshot": "final", "node": "n1", "offset": offset, "leader_epoch": 0, "value": None,
            "record_hash": 77, "producer_id": 1, "producer_epoch": epoch, "sequence": -1,
            "control": True}  # fmt: skip


def sent(value: int, *, txn: int, outcome: str = "fail", at: int = 10) -> Row:
    return {"op_id": txn, "mop": 0, "value": value, "offset": None, "txn_id": txn,
            "transactional_id": "t-0", "outcome": outcome, "process": txn, "invoke_ns": at * S,
            "complete_ns": (at + 5) * S}  # fmt: skip


def why(records: list[Row], sends: list[Row], *, offset: int) -> str:
    """Return why value A was read at an offset."""
    plan = {"workload": "txn", "replication": 1, "min_insync": 1}
    polls = [{**read(A, offset), "isolation": "read_committed", "invoke_ns": 40 * S,
              "complete_ns": 41 * S}]  # fmt: skip
    on = group(
        facts(plan=plan, collected_nodes=frozenset({"n1"})), sends=sends, polls=polls,
        replica_records=records, leadership=[leads(1, 0)],
        replica_states=[state("n1", len(records))],
    )  # fmt: skip
    return reason(aborted_read.CHECKER, on)


@pytest.mark.parametrize("followed", [True, False])
def test_a_marker_behind_another_record_of_the_transaction_ended_it(followed: bool) -> None:  # noqa: FBT001 - a case
    next_ = log("n1", (0, C), start=3) if followed else []
    records = [*log("n1", (0, B)), marker(1), *log("n1", (0, A), start=2), *next_]
    records.append(marker(len(records)))
    sends = [sent(B, txn=7), sent(A, txn=7), sent(C, txn=8, outcome="ok")]
    told = why(records, sends, offset=2)
    assert isinstance(told, Proved)
    assert told == (
        "n1, leader of epoch 0, appended it behind the end of its own transaction (KAFKA-14402):"
        " that transaction's marker stands at 1, behind its record at 0; the next marker of its"
        f" producer, at {len(records) - 1}, decides for it"
    )


def test_a_marker_ended_the_only_transaction_that_can_have_ended_there() -> None:
    records = [*log("n1", (0, B)), marker(1), marker(2), *log("n1", (0, A), (0, C), start=3),
               marker(5)]  # fmt: skip
    sends = [sent(B, txn=6, outcome="ok", at=8), sent(A, txn=7), sent(C, txn=8, at=20)]
    told = why(records, sends, offset=3)
    assert isinstance(told, Proved)
    assert (
        "marker stands at 2, because no other one can have ended there, and the next one begins at"
        " 4; the next marker of its producer, at 5, decides for it"
    ) in told
    first = [marker(0), *log("n1", (0, A), (0, C), start=1), marker(3)]
    assert "marker stands at 0, because" in why(first, sends[1:], offset=1)


def test_a_marker_may_have_ended_an_empty_transaction() -> None:
    records = [*log("n1", (0, B)), marker(1), marker(2), *log("n1", (0, A), (0, C), start=3),
               marker(5)]  # fmt: skip
    sends = [sent(B, txn=6, at=8), sent(A, txn=7), sent(C, txn=8, at=20)]
    empty = sent(C + 1, txn=9, at=9)  # It sent something that the log does not hold.
    assert "KAFKA-14402): that" not in why(records, [*sends, empty], offset=3)
    assert "KAFKA-14402): that" in why(
        records, [*sends, {**empty, "transactional_id": "t-1"}], offset=3
    )
    # Nothing follows before its next marker, so that may be its own.
    own = [*records[:4], marker(4)]
    assert "KAFKA-14402): that" not in why(own, sends, offset=3)


def test_two_late_records_of_a_transaction_are_both_late() -> None:
    records = [*log("n1", (0, B)), marker(1), *log("n1", (0, C), (0, A), start=2), marker(4)]
    sends = [sent(each, txn=7) for each in (A, B, C)]
    assert "stands at 1, behind its record at 0; the next" in why(records, sends, offset=3)
    sends[2] = sent(C, txn=8)
    assert "KAFKA-14402" not in why(records, sends, offset=3)


@pytest.mark.parametrize(
    ("before", "sends"),
    [
        # The marker ends the transaction before.
        ([*log("n1", (0, B)), marker(1)], [sent(B, txn=6, outcome="ok"), sent(A, txn=7)]),
        # It is of an older producer epoch.
        ([*log("n1", (0, B)), marker(1, epoch=-1)], [sent(B, txn=7), sent(A, txn=7)]),
        # No marker stands between.
        (log("n1", (0, B), (0, C)), [sent(B, txn=7), sent(C, txn=7), sent(A, txn=7)]),
    ],
)
def test_a_record_in_its_own_place_is_not_late(before: list[Row], sends: list[Row]) -> None:
    records = [*before, *log("n1", (0, A), start=2), marker(3)]
    assert "KAFKA-14402" not in why(records, sends, offset=2)
