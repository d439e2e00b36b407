"""corrupt-record: records that are not what their writers sent, as readers and logs have them."""

from dataclasses import replace

import pytest

from checkers.contract import allowed
from checkers.corrupt_record import CHECKER
from checkers.facts import DiskLoss, RunFacts
from checkers.group import Group
from results.record.contents import HEADERS, KEY, PAYLOAD, TIME
from results.record.terms import Judge
from tests.checkers.faithful_clients import Row
from tests.checkers.partition_rows import (
    A,
    B,
    C,
    S,
    ack,
    facts,
    found,
    group,
    leads,
    log,
    read,
    sentences,
)  # fmt: skip

KNOWN = facts(contents_known=True)
COMPACTED: dict[str, object] = {"broker": {"log.cleanup.policy": "compact"}}


def polled(value: int, offset: int, damage: int | None, *, op: int = 9) -> Row:
    return {**read(value, offset, op=op), "damage": damage, "complete_ns": 3 * S}


def stored(node: str, *damage: int | None, snapshot: str = "final") -> list[Row]:
    rows = log(node, (0, A), (0, B), snapshot=snapshot)
    return [{**row, "damage": each} for row, each in zip(rows, damage, strict=True)]


def of(*polls: Row, records: tuple[Row, ...] = (), about: RunFacts = KNOWN) -> Group:
    return group(
        about, sends=[ack(A, 0), ack(B, 1)], polls=list(polls), leadership=[leads(1, 0)],
        replica_records=list(records),
    )  # fmt: skip


def test_what_is_intact_wherever_anybody_looked_is_right() -> None:
    records = (*stored("n1", 0, 0), *stored("n2", 0, None))
    on = of(polled(A, 0, 0), polled(B, 1, 0), polled(B, 1, None), records=records)
    assert (found(CHECKER, on).rows, sentences(CHECKER, on)) == (2 + 2 + 1, [])


def test_a_record_that_a_reader_was_given_otherwise_is_told_once() -> None:
    on = of(polled(A, 0, 0), polled(B, 1, PAYLOAD, op=8), polled(B, 1, KEY, op=9))
    (anomaly,) = found(CHECKER, on).anomalies
    assert anomaly.sentence == (
        f"value {B} at offset 1 of log-0-0 does not have the payload and key that its writer"
        " sent: op 8 read the changed record at 3.000 s (2 polled records in all)"
    )
    assert anomaly.evidence == {
        "value": B, "differs": ["payload", "key"], "op_id": 8, "read_ns": 3 * S, "polls": 2,
        "logs_of": [],
    }  # fmt: skip
    assert (anomaly.offset, anomaly.excuses, anomaly.broken_premises) == (1, (), ())


def test_a_copy_in_one_log_is_seen_without_a_reader() -> None:
    records = (*stored("n1", 0, 0), *stored("n2", 0, HEADERS), *stored("n3", TIME, TIME))
    assert sentences(CHECKER, of(records=records)) == [
        (
            f"value {A} at offset 0 of log-0-0 does not have the time stamp that its writer sent:"
            " the log of n3 holds the changed record"
        ),
        (
            f"value {B} at offset 1 of log-0-0 does not have the headers and time stamp that its"
            " writer sent: the logs of n2, n3 hold the changed record"
        ),
    ]
    both = of(polled(B, 1, HEADERS), records=records[:4])
    (sentence,) = sentences(CHECKER, both)
    read = "op 9 read the changed record at 3.000 s"
    assert sentence.endswith(f"{read}, and the log of n2 holds the changed record")


def test_the_logs_of_a_run_that_died_are_looked_at_and_copies_of_steps_are_not() -> None:
    for snapshot, count in (("crash", 1), ("step-01", 0)):
        on = of(records=tuple(stored("n1", 0, KEY, snapshot=snapshot)))
        assert len(sentences(CHECKER, on)) == count


def test_a_foreign_record_is_a_phantom_and_no_damaged_one_of_ours() -> None:
    strange = {**log("n1", (0, C))[0], "damage": PAYLOAD}
    wordless = {**polled(A, 3, PAYLOAD), "value": None}
    assert sentences(CHECKER, of(polled(C, 2, PAYLOAD), wordless, records=(strange,))) == []


def test_where_a_stream_is_cut_a_reserved_value_is_ours() -> None:
    for cut, count in ((True, 1), (False, 0)):
        about = replace(KNOWN, cut_streams=cut, reservations=((A, C + 1),))
        assert len(sentences(CHECKER, of(polled(C, 2, PAYLOAD), about=about))) == count


@pytest.mark.parametrize(("plan", "excuses"), [(COMPACTED, ("bit-flip",)), ({}, ())])
def test_only_a_cleaner_may_make_a_new_sum_for_a_flipped_bit(
    plan: dict[str, object], excuses: tuple[str, ...]
) -> None:
    flip = DiskLoss(
        nodes=frozenset({"n2"}), topic="log-0", partition=0, end_after=1, end_before=9,
        until_ns=9 * S, excuse="bit-flip",
    )  # fmt: skip
    for loss, fits in (
        (flip, True),
        (replace(flip, end_after=2), False),
        (replace(flip, end_before=1), False),
        (replace(flip, partition=1), False),
        (replace(flip, excuse="power-loss"), False),
    ):
        about = facts(plan=plan, contents_known=True, disk_losses=(loss,))
        (anomaly,) = found(CHECKER, of(polled(B, 1, PAYLOAD), about=about)).anomalies
        assert anomaly.excuses == (excuses if fits else ())
    assert allowed("corrupt-record", ("bit-flip",), Judge.CONTRACT) == "bit-flip"
    assert allowed("corrupt-record", ("power-loss", "unclean-election"), Judge.CONTRACT) is None


@pytest.mark.parametrize(
    ("read_at", "excuses"),
    [
        ((None,), ("bit-flip",)),
        ((2 * S,), ("bit-flip",)),
        ((2 * S - 1,), ()),
        ((3 * S, 2 * S - 1), ()),  # The later one has the lower op id.
        ((None, 2 * S - 1), ()),
    ],
)
def test_what_was_read_before_the_bit_was_flipped_was_damaged_by_something_else(
    read_at: tuple[int | None, ...], excuses: tuple[str, ...]
) -> None:
    flip = DiskLoss(
        nodes=frozenset({"n2"}), topic="log-0", partition=0, end_after=1, end_before=9,
        until_ns=9 * S, began_ns=2 * S, excuse="bit-flip",
    )  # fmt: skip
    about = facts(plan=COMPACTED, contents_known=True, disk_losses=(flip,))
    rows = [{**polled(B, 1, PAYLOAD, op=op), "complete_ns": at} for op, at in enumerate(read_at, 5)]
    rows.append({**polled(B, 1, 0, op=9), "complete_ns": S})  # It was whole then.
    (anomaly,) = found(CHECKER, of(*rows, about=about)).anomalies
    assert anomaly.excuses == excuses


def test_it_applies_where_anybody_looked() -> None:
    assert CHECKER.applies(KNOWN)
    assert not CHECKER.applies(facts())
