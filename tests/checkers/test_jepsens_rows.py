"""Single conditions of Jepsen's kernels, on rows of one partition."""

import numpy as np
import pytest

from checkers.columns import Ints
from checkers.facts import RunFacts
from checkers.findings import known
from checkers.group import Group
from checkers.jepsen import aborted_read, lost_write, order, places, unseen
from checkers.jepsen.claims import first_offsets, last_offsets
from checkers.protocol import Checker
from checkers.runner import run_checkers
from results.record.terms import Judge
from results.record.values import pack_value
from results.record.verdict import Anomaly
from tests.checkers.faithful_clients import Row
from tests.checkers.partition_rows import S, facts, found, group

V = [pack_value(1, number) for number in range(12)]


def about() -> RunFacts:
    return facts(judge=Judge.JEPSEN)


def sent(value: int | None, offset: int | None, *, op: int = 1, **more: object) -> Row:
    return {"op_id": op, "mop": 0, "process": 1, "value": value, "offset": offset, "acked": True,
            "acks": "all", "outcome": "ok", "invoke_ns": 1, "complete_ns": 2 * S,
            **more}  # fmt: skip


def got(value: int | None, offset: int | None, *, op: int = 9, pos: int = 0, **more: object) -> Row:
    return {"op_id": op, "process": 2, "mop": 0, "pos": pos, "value": value, "offset": offset,
            "phase": "main", "isolation": "read_uncommitted", "outcome": "ok", "complete_ns": 3 * S,
            **more}  # fmt: skip


def on(*, sends: tuple[Row, ...] = (), polls: tuple[Row, ...] = (), **more: list[Row]) -> Group:
    return group(about(), sends=list(sends), polls=list(polls), **more)


def only(checker: Checker, rows: Group) -> Anomaly:
    (anomaly,) = found(checker, rows).anomalies
    return anomaly


def none(checker: Checker, rows: Group) -> bool:
    return found(checker, rows).anomalies == ()


def asked(*values: int) -> Ints:
    return np.array(values, dtype=np.int64)


def test_the_first_and_the_last_offset_that_is_told_of_a_value() -> None:
    rows = on(sends=(sent(V[3], 4),), polls=(got(V[3], 7), got(V[3], 5), got(V[5], 0), got(0, 9)))
    values = asked(V[3], V[5], 0, V[4], V[1], V[9])
    assert first_offsets(rows, values).tolist() == [4, 0, 9, -1, -1, -1]
    assert last_offsets(rows, values).tolist() == [7, 0, 9, -1, -1, -1]
    unplaced = on(polls=(got(V[3], None), got(None, 3)))
    assert first_offsets(unplaced, asked(V[3], -1)).tolist() == [-1, -1]
    assert last_offsets(unplaced, asked(V[3], -1)).tolist() == [-1, -1]


def test_a_value_at_two_offsets_is_told_with_all_who_had_to_do_with_it() -> None:
    rows = on(
        sends=(sent(V[5], 0, op=1), sent(V[3], 2, op=3)),
        polls=(got(V[5], 4, op=9), got(V[5], 1, op=8), got(V[1], 5, op=7), got(V[7], 6, op=6)),
    )
    anomaly = only(places.DUPLICATE_CHECKER, rows)
    assert anomaly.evidence == {
        "value": V[5], "offsets": [0, 1, 4], "send_op_ids": [1], "poll_op_ids": [8, 9],
    }  # fmt: skip
    assert anomaly.offset == 0
    assert anomaly.sentence == f"value {V[5]} is at offsets 0 and 1 and 4 of log-0-0"
    assert none(places.INCONSISTENT_CHECKER, rows)
    assert found(places.DUPLICATE_CHECKER, rows).rows == 2


def test_duplicates_are_told_by_their_first_offset() -> None:
    rows = on(polls=(got(V[1], 5), got(V[1], 6), got(V[2], 3), got(V[2], 9)))
    told = [each.offset for each in found(places.DUPLICATE_CHECKER, rows).anomalies]
    assert told == [3, 5]


def test_an_offset_with_two_values_is_told_with_all_who_had_to_do_with_it() -> None:
    rows = on(
        sends=(sent(V[5], 3, op=1), sent(V[1], 1, op=2), sent(V[8], 7, op=4)),
        polls=(got(V[2], 3, op=9), got(V[6], 2, op=8), got(V[9], 8, op=6)),
    )
    anomaly = only(places.INCONSISTENT_CHECKER, rows)
    assert anomaly.evidence == {
        "offset": 3, "values": [V[2], V[5]], "send_op_ids": [1], "poll_op_ids": [9],
    }  # fmt: skip
    assert anomaly.sentence == f"offset 3 of log-0-0 held value {V[2]} and value {V[5]}"
    assert none(places.DUPLICATE_CHECKER, rows)


def test_at_most_ten_ops_are_named() -> None:
    polls = (*(got(V[1], 1, op=op) for op in range(20, 32)), got(V[1], 2, op=40))
    ops = only(places.DUPLICATE_CHECKER, on(polls=polls)).evidence["poll_op_ids"]
    assert ops == list(range(20, 30))


def test_a_record_is_lost_if_readers_went_past_it() -> None:
    lost = sent(V[2], 2, op=4)
    for reached, gone in ((1, False), (2, True), (3, True)):
        rows = on(sends=(lost,), polls=(got(V[5], 0, op=7), got(V[6], reached, op=8)))
        assert none(lost_write.CHECKER, rows) is not gone
    anomaly = only(lost_write.CHECKER, rows)
    assert anomaly.evidence == {
        "value": V[2], "offset": 2, "op_id": 4, "mop": 0, "process": 1, "ended_ns": 2 * S,
        "furthest_reader_op_id": 8,
    }  # fmt: skip
    assert anomaly.sentence == (
        f"value {V[2]}, committed at offset 2 of log-0-0 by op 4 (ended at 2.000 s), was returned"
        " by no poll, although op 8 read beyond it"
    )


def test_the_first_record_of_a_log_can_be_lost_and_one_nowhere_cannot() -> None:
    assert only(lost_write.CHECKER, on(sends=(sent(V[0], 0),), polls=(got(V[1], 1),))).offset == 0
    assert none(lost_write.CHECKER, on(sends=(sent(V[0], None),), polls=(got(V[1], 1),)))
    assert none(lost_write.CHECKER, on(sends=(sent(V[0], 0),)))


def test_only_ok_polls_reach_and_return() -> None:
    for outcome in ("info", "fail"):
        rows = on(sends=(sent(V[2], 2),), polls=(got(V[5], 5, op=7, outcome=outcome),))
        assert none(lost_write.CHECKER, rows)
        rows = on(sends=(sent(V[2], 2),), polls=(got(V[5], 5), got(V[2], 2, op=3, outcome=outcome)))
        assert only(lost_write.CHECKER, rows).evidence["furthest_reader_op_id"] == 9


def test_a_reader_reaches_the_first_place_of_what_it_got_and_a_loss_its_last() -> None:
    twice = (got(V[5], 5), got(V[5], 1))
    assert none(lost_write.CHECKER, on(sends=(sent(V[2], 2),), polls=twice))
    seen = (got(V[5], 3), got(V[2], 9, op=8, outcome="info"))
    assert none(lost_write.CHECKER, on(sends=(sent(V[2], 2),), polls=seen))


def test_unseen_is_what_ended_ok_and_was_returned_by_no_ok_poll() -> None:
    rows = on(
        sends=(sent(V[1], 1), sent(V[2], None, op=5), sent(V[3], 3, op=6, outcome="info")),
        polls=(got(V[1], 1), got(V[2], 2, outcome="info")),
    )
    anomaly = only(unseen.CHECKER, rows)
    assert anomaly.evidence == {
        "value": V[2], "offset": known(-1), "op_id": 5, "acknowledged_ns": 2 * S,
    }  # fmt: skip
    assert "acknowledged at an unknown offset of log-0-0 at 2.000 s by op 5" in anomaly.sentence
    assert found(unseen.CHECKER, rows).rows == 2
    first = only(unseen.CHECKER, on(sends=(sent(V[0], 0),)))
    assert "acknowledged at offset 0 of log-0-0" in first.sentence


def test_what_failed_may_be_read_by_nobody_who_ended_well() -> None:
    failed = (sent(V[1], 1, op=4, outcome="fail"), sent(None, 2, op=5, outcome="fail"))
    rows = on(sends=(*failed, sent(V[2], 2, op=6)), polls=(got(V[1], 1), got(V[2], 2)))
    anomaly = only(aborted_read.CHECKER, rows)
    assert anomaly.evidence == {
        "value": V[1], "offset": 1, "op_id": 9, "process": 2, "writer_op_id": 4,
    }  # fmt: skip
    assert found(aborted_read.CHECKER, rows).rows == 2
    for poll in (got(V[1], 1, outcome="info"), got(None, 2), got(V[3], 3)):
        assert none(aborted_read.CHECKER, on(sends=failed, polls=(poll,)))
    zero = on(sends=(sent(0, 0, op=4, outcome="fail"),), polls=(got(0, 0),))
    assert only(aborted_read.CHECKER, zero).evidence["value"] == 0


def distances(rows: Group) -> dict[str, list[object]]:
    return {
        each.name: [one.evidence["distance"] for one in each.anomalies]
        for each in run_checkers(rows, order.CHECKERS)
        if each.anomalies
    }


OTHERS = tuple(got(V[at], at, op=90 + at, process=50 + at) for at in range(8))
"""Readers of one record each, so that all of them have their index."""


@pytest.mark.parametrize(
    ("first", "second", "told"),
    [
        (2, 3, {}),
        (2, 4, {"poll-skip": [2]}),
        (2, 2, {"nonmonotonic-poll": [0]}),
        (2, 0, {"nonmonotonic-poll": [-2]}),
        (0, 1, {}),
    ],
)
def test_from_poll_to_poll_the_distance_is_one(
    first: int, second: int, told: dict[str, list[object]]
) -> None:
    polls = (got(V[first], first, op=1), got(V[second], second, op=2), *OTHERS)
    assert distances(on(polls=polls)) == told
    inside = (got(V[first], first, op=1), got(V[second], second, op=1, pos=1), *OTHERS)
    assert distances(on(polls=inside)) == {f"int-{name}": each for name, each in told.items()}


def test_a_reader_moves_by_what_it_got_in_ok_ops_only_and_any_op_may_skip() -> None:
    polls = (got(V[1], 1, op=1), got(V[5], 5, op=2, outcome="info"), got(V[2], 2, op=3), *OTHERS)
    assert distances(on(polls=polls)) == {"poll-skip": [4]}


def test_rows_of_nobody_and_values_without_an_index_have_no_distance() -> None:
    nobody = tuple(got(V[at], at, op=op, process=None) for op, at in ((1, 5), (2, 1)))
    assert distances(on(polls=(*nobody, *OTHERS))) == {}
    unknown = (got(V[9], None, op=1), got(V[4], 4, op=2), got(V[10], None, op=3))
    assert distances(on(polls=(*unknown, *OTHERS))) == {}
    zeroth = tuple(got(V[at], at, op=op, process=0) for op, at in ((1, 5), (2, 1)))
    assert distances(on(polls=(*zeroth, *OTHERS))) == {"nonmonotonic-poll": [-4]}


def test_of_sends_only_those_that_go_back_are_told_and_inside_of_an_op_skips() -> None:
    assert distances(on(sends=(sent(V[1], 1), sent(V[4], 4, op=2)), polls=OTHERS)) == {}
    back = on(sends=(sent(V[4], 4), sent(V[1], 1, op=2)), polls=OTHERS)
    assert distances(back) == {"nonmonotonic-send": [-3]}
    one = on(sends=(sent(V[1], 1), sent(V[4], 4, mop=1)), polls=OTHERS)
    assert distances(one) == {"int-send-skip": [3]}
    turned = on(sends=(sent(V[4], 4), sent(V[3], 3, mop=1)), polls=OTHERS)
    assert distances(turned) == {"int-nonmonotonic-send": [-1]}


def test_sends_that_may_have_happened_count_and_failed_ones_do_not() -> None:
    for outcome, told in (("info", {"nonmonotonic-send": [-3]}), ("fail", {})):
        sends = (sent(V[4], 4), sent(V[1], 1, op=2, outcome=outcome))
        assert distances(on(sends=sends, polls=OTHERS)) == told
        turned = (sent(V[4], 4, outcome=outcome), sent(V[1], 1, op=2))
        assert distances(on(sends=turned, polls=OTHERS)) == told


def test_the_evidence_of_a_step_is_whole() -> None:
    rows = on(polls=(got(V[1], 1, op=1), got(V[4], 4, op=2), *OTHERS))
    (checker,) = (each for each in order.CHECKERS if each.name == "poll-skip")
    anomaly = only(checker, rows)
    assert anomaly.evidence == {
        "process": 2, "op_id": 2, "previous_op_id": 1, "value": V[4], "previous_value": V[1],
        "distance": 3,
    }  # fmt: skip
    assert (anomaly.offset, found(checker, rows).rows) == (4, 1)
    assert anomaly.sentence == (
        f"process 2 read value {V[1]} of log-0-0 in op 1 and then value {V[4]} in op 2, 3 places"
        " further in the order of the log"
    )
