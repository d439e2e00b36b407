"""Copies of a plain send that were cleaned away: had each an epoch of its own?"""

import pytest

from checkers.resent import in_epochs_of_their_own
from tests.checkers.keyed import KEYS, TAIL, Sent, changed, partition, read_back, value

VALUES = [value(number % (KEYS - 1), number) for number in range(6)]
TWICE, OTHERS = VALUES[1], value(2, 50)
"""Sent twice by the writer; by another one."""


def told(sequence: int, *, astray: int = 0, other: bool = False) -> bool:
    """Records of one writer at 0, 1, 2 and again 1 at 3, then 4, 5; the last one is left, at 6."""
    first = {**read_back([(1, TWICE)])[0], "phase": "main", "op_id": 80}
    sends = [Sent(value=each) for each in (VALUES[0], VALUES[5], VALUES[2], TWICE, *VALUES[3:5])]
    lost = [Sent(value=value(0, 50 + number), placed=False) for number in range(astray)]
    on = partition(sends, {"n1": []}, polls=[first])
    rows = on.table("sends").to_pylist()
    for row in rows:
        row["process"] = 1 if other and row["value"] == TAIL else 0
    rows += [{**rows[0], "value": each.value, "offset": None, "acked": False} for each in lost]
    records = on.table("replica_records").to_pylist()
    records[-1]["sequence"] = sequence
    on = changed(changed(on, "sends", rows), "replica_records", records)
    return in_epochs_of_their_own(on, 3, [1, 3])


@pytest.mark.parametrize(
    ("sequence", "apart"),
    [
        (0, False),  # Its epoch began behind both.
        (2, False),
        (3, True),  # With the later copy.
        (4, True),
        (5, False),  # With the earlier one, which stands at 1: 2 to 5 stand between.
    ],
)
def test_a_record_that_is_left_tells_where_its_epoch_began(
    sequence: int,
    apart: bool,  # noqa: FBT001 - a case
) -> None:
    assert told(sequence) == apart


def test_records_whose_place_nobody_knows_may_stand_between() -> None:
    assert told(4, astray=1)
    assert not told(3, astray=1)


def test_another_workers_producer_tells_nothing() -> None:
    assert not told(3, other=True)


@pytest.mark.parametrize(("sequences", "apart"), [((1, 2), True), ((1, 1), False), ((4, 2), False)])
def test_of_three_copies_each_has_to_be_apart_from_the_one_before(
    sequences: tuple[int, int],
    apart: bool,  # noqa: FBT001 - a case
) -> None:
    """It stood at 1, 3 and 5; what is left are the second one's neighbour, at 4, and the tail."""
    others = iter([VALUES[0], *VALUES[2:5]])
    sends = [Sent(value=TWICE if at in {1, 3, 5} else next(others)) for at in range(7)]
    on = partition(sends, {"n1": [(4, VALUES[3])]})
    neighbour, tail = on.table("replica_records").to_pylist()
    sequenced = [
        {**row, "sequence": sequence}
        for row, sequence in zip((neighbour, tail), sequences, strict=True)
    ]
    on = changed(on, "replica_records", sequenced)
    on = changed(on, "sends", [{**row, "process": 0} for row in on.table("sends").to_pylist()])
    assert in_epochs_of_their_own(on, 5, [1, 3, 5]) == apart


@pytest.mark.parametrize(
    ("polled", "log", "apart"),
    [
        ([], [], False),  # Perhaps a second copy, which began the epoch.
        ([(2, OTHERS)], [], True),
        ([], [(2, OTHERS)], True),
        ([(9, OTHERS)], [], False),  # Not in between.
    ],
)
def test_an_offset_that_nobody_knows_a_record_of_may_hold_a_second_copy(
    polled: list[tuple[int, int]],
    log: list[tuple[int, int]],
    apart: bool,  # noqa: FBT001 - a case
) -> None:
    """The writer's stood at 0, 1 and 3; who stood at 2?"""
    on = partition([Sent(value=VALUES[0]), Sent(value=TWICE)], {"n1": log})
    rows = on.table("sends").to_pylist()
    rows = [{**row, "process": 0} for row in rows[:2]] + [{**rows[2], "process": 0, "offset": 3}]
    *records, tail = on.table("replica_records").to_pylist()
    records.append({**tail, "offset": 3, "sequence": 1})
    on = changed(changed(on, "sends", rows), "replica_records", records)
    on = changed(on, "polls", read_back(polled))
    assert in_epochs_of_their_own(on, 1, [0, 1]) == apart


def test_a_send_of_a_transaction_tells_nothing() -> None:
    on = partition([Sent(value=VALUES[0]), Sent(value=TWICE)], {"n1": []})
    rows = [{**row, "process": 0} for row in on.table("sends").to_pylist()]
    records = [{**row, "sequence": 1} for row in on.table("replica_records").to_pylist()]
    on = changed(on, "replica_records", records)
    for txn_id, apart in ((None, True), (7, False)):
        own = [rows[0], {**rows[1], "txn_id": txn_id}, rows[2]]
        assert in_epochs_of_their_own(changed(on, "sends", own), 1, [0, 1]) == apart
